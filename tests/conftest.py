"""Which tests run here, and on how many processes: what is left out is said in a line at the end."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from itertools import compress
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule

import analyses
import hta_graph
from analyses.advice import facts
from tests.support.deep_tests import deep, draw_no_literals, make_source_of_examples, slice_of, wanted_slice
from tests.support.shared_traces import SHARED, is_further_rank, is_large_trace, shared_traces

MOST_WORKERS = 4
"""Each one imports pandas and builds traces of its own."""

# Every program that a test starts, and every process of the tests, would compile all it imports anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# HTA's methods show their figures in a browser where there is a display.
for display in ("DISPLAY", "WAYLAND_DISPLAY"):
    os.environ.pop(display, None)

INSTALLED = os.environ.get("HTA_GRAPH_INSTALLED")
"""The environment whose packages are tested and nothing else: tests that read their sources are left out."""

LEFT_OUT = pytest.StashKey[list[str]]()


class OnlyFilesWithExamples:
    """A plugin that looks for doctests where there are some: to look through a thousand modules takes seconds."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, list[Any], list[Any]]:
        """Leave a file out as one of doctests if it has no example."""
        collectors = yield
        if any(isinstance(found, DoctestModule) for found in collectors) and b">>>" not in file_path.read_bytes():
            return [found for found in collectors if not isinstance(found, DoctestModule)]
        return collectors


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--slice``, with which ``.ci/run`` looks at a part of the deep tests, another one at another commit."""
    parser.addoption(
        "--slice", type=wanted_slice, metavar="K/N",
        help="run only the K-th of N slices of the tests, and none that is marked exhaustive",
    )  # fmt: skip


def check_what_is_tested(installed: Path) -> None:
    """Refuse to test other packages than those of an environment: ``.ci/package`` asks for that."""
    for package in (hta_graph, analyses):
        path = Path(str(package.__file__))
        if not path.is_relative_to(installed) or "site-packages" not in path.parts:
            raise pytest.UsageError(f"{package.__name__} is {path}, and not what is installed in {installed}")


def pytest_configure(config: pytest.Config) -> None:
    """Begin with nothing left out, and let what tests start hear an interrupt."""
    if INSTALLED:
        check_what_is_tested(Path(INSTALLED))
    if not is_deep_run(config):
        draw_no_literals()
    facts.RAISES = True  # a sentence that says more than rows allow is an error
    gc.disable()  # until all tests are collected: what they import stays
    config.stash[LEFT_OUT] = []
    config.pluginmanager.register(OnlyFilesWithExamples())
    # A run in the background (nohup, &) ignores SIGINT, and so would every program that a test starts to interrupt it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run a few files in this process, where a debugger works, and folders on the cores that there are."""
    few = len(config.args) <= 3 and all(".py" in argument for argument in config.args)
    return 0 if few else min(os.cpu_count() or 1, MOST_WORKERS)


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Let every second process begin with the last modules: in a new clone each is compiled by one of them alone."""
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0")[-1] not in "13579":
        return
    for path in sorted(Path(__file__).parent.rglob("test_*.py"), reverse=True):
        if any((path.parent / "__pycache__").glob(f"{path.stem}.*-pytest-*.pyc")):
            return
        # What is wrong with a module is said when it is collected.
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(path.relative_to(Path(__file__).parents[1]).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """Collect garbage again, but seldom, and without what there is: it was imported or collected, and stays."""
    make_source_of_examples()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what cannot run here, and deep tests unless they are asked for, before pytest puts the rest in order.

    What reads a large trace is deep, and what reads a further rank of a job as it reads the first one.
    """
    for item in items:
        if item.get_closest_marker("shared") and any(is_deep(value) for value in parameters(item)):
            item.add_marker("slow")
    sample(items)
    if not (SHARED / "traces").is_dir():
        deselect(config, items, "shared", f"tests that read the shared traces deselected: {SHARED}/traces is absent")
    if INSTALLED:
        deselect(config, items, "sources", "tests that read sources deselected: what is installed is tested")
    if not is_deep_run(config):
        deselect(config, items, "slow", "deep tests deselected: python -m pytest -m slow runs them, as .ci/deep does")
    if asked := config.getoption("slice"):
        deselect(config, items, "exhaustive", "exhaustive tests deselected: .ci/deep runs them")
        keep_slice(config, items, *asked)


def is_deep_run(config: pytest.Config) -> bool:
    """Say whether deep tests are asked for."""
    return "slow" in (config.option.markexpr or "")


def sample(items: list[pytest.Item]) -> None:
    """Make cases of tests that are ``sampled`` deep, all but every n-th of those that are quick."""
    seen: Counter[str] = Counter()
    for item in items:
        if (sampled := item.get_closest_marker("sampled")) and not item.get_closest_marker("slow"):
            test = item.nodeid.partition("[")[0]
            if seen[test] % sampled.args[0]:
                item.add_marker("slow")
            seen[test] += 1


def keep_slice(config: pytest.Config, items: list[pytest.Item], wanted: int, count: int) -> None:
    """Leave out the tests of other slices: in which one a test is depends on its name alone."""
    others = [slice_of(item.nodeid, count) != wanted for item in items]
    leave_out(config, items, others, f"tests of other slices than {wanted}/{count} deselected")


def parameters(item: pytest.Item) -> list[Any]:
    """Return the values of a test's parameters."""
    return list(item.callspec.params.values()) if hasattr(item, "callspec") else []


def is_deep(value: Any) -> bool:
    """Say whether a parameter is a trace of the deep run."""
    return is_large_trace(value) or (isinstance(value, Path) and is_further_rank(value))


def deselect(config: pytest.Config, items: list[pytest.Item], marker: str, reason: str) -> None:
    """Leave out the tests with a marker and note why."""
    leave_out(config, items, [item.get_closest_marker(marker) is not None for item in items], reason)


def leave_out(config: pytest.Config, items: list[pytest.Item], which: list[bool], reason: str) -> None:
    """Leave out some of the tests and note why."""
    if out := list(compress(items, which)):
        config.stash[LEFT_OUT].append(f"{len(out)} {reason}")
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item, left_out in zip(items, which, strict=True) if not left_out]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let a worker process tell the one that prints what was left out."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash[LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hear from a worker what was left out; all say the same."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was tested if that is not this checkout, and what was left out and why."""
    if INSTALLED:
        terminalreporter.write_line(f"tested: {hta_graph.__file__}, {analyses.__file__}")
    for line in config.stash[LEFT_OUT]:
        terminalreporter.write_line(line)
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", []) if report.longrepr)
    for reason, count in reasons.items():
        terminalreporter.write_line(f"{count} tests left out: {reason.removeprefix('Skipped: ')}")


@pytest.fixture(params=["small", deep("all")])
def real_traces(request: pytest.FixtureRequest) -> list[Path]:
    """Return the small shared traces, in the deep run all."""
    return [path for path in shared_traces() if request.param == "all" or not is_deep(path)]
