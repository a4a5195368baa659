"""No graph outlives its question: nothing that is kept with a graph refers to it, and none waits for the collector."""

from __future__ import annotations

import gc
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from analyses.cli.rank_inputs import RankInputs
from analyses.mcp.held_traces import HeldTraces
from analyses.mcp.questions import ANSWERS
from hta_graph.graph.dependency_graph import DependencyGraph
from tests.support.command_line import run_command
from tests.support.deep_tests import deep
from tests.support.large_jobs import generated_job
from tests.support.mcp_session import question, sample_folder
from tests.support.samples import FOUR_RANKS

SUMMARIES = ("--summaries", "always", "--jobs", "1")


def live_graphs() -> int:
    return sum(isinstance(one, DependencyGraph) for one in gc.get_objects())


@pytest.fixture(autouse=True)
def others() -> Iterator[int]:
    """Collect what other tests left; return how many graphs they hold, and collect nothing from now on."""
    gc.collect()
    gc.disable()
    yield live_graphs()
    gc.enable()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "words",
    [
        ("stragglers",), ("critical-path", *SUMMARIES),
        *map(deep, (
            ("critical-path",), ("critical-path", "--per-step", *SUMMARIES), ("what-if",), ("what-if", *SUMMARIES),
            ("stragglers", *SUMMARIES), ("report", "-o", "-"), ("report", "-o", "-", *SUMMARIES), ("collectives",),
            ("critical-path", "--rank", "2"), ("graph", "--json", "-"), ("sync-deps",), ("gate", FOUR_RANKS),
            ("gate", FOUR_RANKS, *SUMMARIES),
        )),
    ],
)  # fmt: skip
def test_after_a_question_no_graph_is_left(
    capsys: pytest.CaptureFixture[str], others: int, words: tuple[object, ...]
) -> None:
    command, *more = words
    assert run_command(capsys, command, FOUR_RANKS, *more)[0] == 0
    assert live_graphs() == others


@pytest.mark.parametrize("more", [(), deep(SUMMARIES)])
def test_files_that_are_left_out_hold_no_graph(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, others: int, more: tuple[str, ...]
) -> None:
    job = Path(shutil.copytree(FOUR_RANKS, tmp_path / "job"))
    (job / "notes.json").write_text('{"written": "by hand"}')
    broken = job / "rank_1.json.gz"
    broken.write_bytes(broken.read_bytes()[:4000])
    status, _, err = run_command(capsys, "critical-path", job, *more)
    assert (status, "is truncated" in err, "notes.json" in err) == (1, True, True)
    assert live_graphs() == others


@pytest.mark.parametrize("more", [(), deep(SUMMARIES)])
def test_one_job_is_let_go_before_the_next_is_read(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    others: int,
    more: tuple[str, ...],
) -> None:
    other, read, found = shutil.copytree(FOUR_RANKS, tmp_path / "job"), RankInputs.job_or_graph, list[int]()

    def counted(*given: object) -> DependencyGraph:
        found.append(live_graphs() - others)
        return read(*given)

    monkeypatch.setattr(RankInputs, "job_or_graph", counted)
    assert run_command(capsys, "diff", FOUR_RANKS, other, *more)[0] == 0
    assert found == [0, 0]


@pytest.mark.parametrize("tool", ["overview", deep("what_if"), deep("stragglers")])
def test_a_dropped_trace_leaves_no_graph(tmp_path: Path, others: int, tool: str) -> None:
    root, held = sample_folder(tmp_path), HeldTraces(1)
    for name in ("four_ranks", "sample_trace.json.gz"):
        asked = question(root, {"trace": name})
        asked = type(asked)(asked.files, held, asked.given)
        ANSWERS[tool](asked).text(asked.page)
        held.keep_within_limit(asked.used)
    del asked
    assert (len(held), live_graphs()) == (1, others + 1)


HIGHEST = """
import sys
from analyses.cli.main import main
status = main(sys.argv[1:])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")), file=sys.stderr)
sys.exit(status)
"""
MOST_MIB = 250


@pytest.fixture(scope="module")
def long_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write ranks of which each has ten times as many rows as fit."""
    return generated_job(tmp_path_factory.mktemp("long"), ranks=24, rows=60_000)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("command", ["stragglers", "critical-path", "what-if"])
def test_no_process_holds_all_events(long_job: Path, command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HIGHEST, command, long_job, *SUMMARIES], capture_output=True, text=True, check=True
    )
    assert int(done.stderr.splitlines()[-1]) / 1024 <= MOST_MIB
