"""Are two versions' outputs the same, byte for byte? Every command over every trace, as hashes that can be compared.

    python tests/same_outputs.py record BEFORE.json shared/traces/*      # in the environment of the older version
    python tests/same_outputs.py record AFTER.json shared/traces/*       # in that of the newer one
    python tests/same_outputs.py compare BEFORE.json AFTER.json

It runs as a file, not as a module, so that it can look at an installed version other than this checkout's. ``--keep
DIR`` keeps the outputs themselves (but pages), so that a difference can be looked at; ``--jobs N`` runs N at a time.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import hashlib
import importlib
import json
import os
import pkgutil
import re
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

ANALYSES = (
    "temporal-breakdown", "kernel-breakdown", "overlap", "idle-time", "queue-length", "memory-bandwidth",
    "launch-stats", "annotations", "attribution", "collectives", "stragglers", "memory-timeline", "operator-kernels",
    "hardware-counters",
)  # fmt: skip
WITH_A_STEP = ("temporal-breakdown", "idle-time", "overlap", "attribution", "collectives", "annotations")
"""Analyses that are asked about every step too: one of each way to look at a stretch."""

COMMAND_LINES = ("analyses.cli.main", "analyses.cli.cli", "analyses.cli", "analyses.cli.main")
"""Where ``main(arguments)`` has stood, the newest place first, for what is no checkout with its ``pyproject.toml``."""

UUID = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""How plotly names a figure's place in a page: anew each time."""

Case = tuple[str, list[str], list[str]]
"""What it is called, the arguments, and the files that it writes beside what it prints."""


def cases(trace: str) -> Iterator[Case]:
    """List what is asked about a file or folder; ``{event}`` stands for an event on its path."""
    yield "info --json", ["info", trace, "--json", "-"], []
    yield "info", ["info", trace], []
    for window in ([], ["--whole"], ["--gpu-window"], ["--cpu-window"]):
        named = " ".join(["critical-path", *window])
        yield f"{named} --json", ["critical-path", trace, *window, "--json", "-"], []
        yield named, ["critical-path", trace, *window], []
    yield (
        "critical-path --overlay",
        ["critical-path", trace, "--overlay", "o.json", "--dot", "o.dot"],
        ["o.json", "o.dot"],
    )
    yield "graph --json", ["graph", trace, "--json", "-"], []
    yield "graph --parquet", ["graph", trace, "--parquet", "p"], ["p"]
    yield "graph --kineto", ["graph", trace, "--kineto", "k.json"], ["k.json"]
    yield "sync-deps", ["sync-deps", trace], []
    yield "sync-deps --json", ["sync-deps", trace, "--json", "-"], []
    yield "sync-deps --csv", ["sync-deps", trace, "--csv", "-"], []
    yield "sync-deps --external-ids", ["sync-deps", trace, "--external-ids", "-"], []
    yield "render --path", ["render", trace, "--path", "-o", "-"], []
    yield "render --lanes", ["render", trace, "--lanes", "-o", "-"], []
    yield "render --around", ["render", trace, "--around", "{event}", "-o", "-"], []
    yield "timeline", ["timeline", trace, "-o", "t.html"], ["t.html"]
    yield "report", ["report", trace, "-o", "r.html"], ["r.html"]
    yield "counters", ["counters", trace, "-o", "c"], ["c"]
    yield "kernel-sequences", ["kernel-sequences", trace, "--operator", "aten::", "--json", "-"], []
    yield (
        "kernel-sequences --overlay",
        ["kernel-sequences", trace, "--operator", "aten::", "--overlay", "k.json"],
        ["k.json"],
    )
    for name in ANALYSES:
        yield f"{name} --json", [name, trace, "--json", "-"], []
        yield f"{name} --csv", [name, trace, "--csv", "-"], []
        yield name, [name, trace], []
        yield f"{name} --plot", [name, trace, "--plot", "f.html"], ["f.html"]
    for name in WITH_A_STEP:
        yield f"{name} --per-step --json", [name, trace, "--per-step", "--json", "-"], []
    for by in ("frame", "module", "annotation", "activity"):
        yield f"attribution --by {by} --json", ["attribution", trace, "--by", by, "--json", "-"], []
    for profile in ("full", "gpu"):
        convert = ["chakra", "convert", trace, "--profile", profile, "--unknown-collectives", "as-compute"]
        convert += ["--missing-ranks", "as-compute", "-o", "e", "--json", "-"]
        yield f"chakra convert --profile {profile}", convert, ["e"]


def pairs(traces: Sequence[str]) -> Iterator[tuple[str, str, Case]]:
    """List what is asked about two traces: neighbours in the list, and a host trace beside its device trace."""
    for one, other in pairwise(traces):
        yield one, "diff --json", ("diff --json", ["diff", one, other, "--json", "-"], [])
        yield one, "diff", ("diff", ["diff", one, other], [])
    for trace in traces:
        for host in sorted(Path(trace).parent.glob("host_et_*")) if Path(trace).is_file() else []:
            if host.name.removeprefix("host_et_") == Path(trace).name.removeprefix("kineto_"):
                link = ["chakra", "link", "--host-trace", str(host), "--device-trace", trace, "-o", "l.json"]
                yield trace, "chakra link", ("chakra link", link, ["l.json"])


@functools.cache
def command_line() -> Callable[[Sequence[str]], int]:
    """Return the command line of the version that is looked at: it takes arguments and returns an exit status."""
    project = Path(str(importlib.import_module("analyses").__file__)).parents[1] / "pyproject.toml"
    scripts = tomllib.loads(project.read_text("utf-8"))["project"]["scripts"] if project.is_file() else {}
    for name in (*(target.partition(":")[0] for target in scripts.values()), *COMMAND_LINES):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if not f"{name}.".startswith(f"{error.name}."):
                raise
            continue
        if callable(main := getattr(module, "main", None)):
            return main
    raise SystemExit(f"no command line: {', '.join(COMMAND_LINES)}")


def preload() -> None:
    """Import everything once, so that each child finds it there."""
    for package in ("hta_graph", "analyses"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)
    for name in ("plotly.graph_objects", "pyarrow.parquet"):
        importlib.import_module(name)
    command_line()


def record(traces: Sequence[str], keep: Path | None, jobs: int) -> dict[str, str]:
    """Run every case, so many at a time, and return ``trace: case`` → hash of status, outputs and messages."""
    every = [(trace, case) for trace in traces for case in cases(trace)]
    every += [(trace, case) for trace, _, case in pairs(traces)]
    events = {trace: event_on_path(trace) for trace in traces}
    waiting = list(reversed(every))
    running: dict[int, tuple[str, str, Child]] = {}
    found: dict[str, str] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            trace, (name, argv, files) = waiting.pop()
            child = Child([part.replace("{event}", events[trace]) for part in argv], files)
            running[child.process] = trace, name, child
        process, status = os.wait()
        trace, name, child = running.pop(process)
        content = child.result(status)
        found[f"{trace}: {name}"] = f"{hashlib.sha256(content).hexdigest()} {len(content)}"
        if keep and not any(file.endswith(".html") for file in child.files):
            keep.mkdir(parents=True, exist_ok=True)
            target = keep / f"{trace.strip('/').replace('/', '_')}__{name.replace(' ', '_')}.gz"
            target.write_bytes(gzip.compress(content, 1, mtime=0))
        took = time.perf_counter() - child.began
        print(f"{len(found)}/{len(every)} {took:5.1f} s {trace} {name}", file=sys.stderr, flush=True)  # noqa: T201
    return found


def event_on_path(trace: str) -> str:
    """Return an event in the middle of the default path; 0 where there is none."""
    text = run(["critical-path", trace, "--json", "-"]).partition(b"\n-- stdout\n")[2].partition(b"\n-- ")[0]
    segments = json.loads(text)["segments"] if text.startswith(b"{") else []
    known = [segment["event_index"] for segment in segments if segment["event_index"] is not None]
    return str(known[len(known) // 2]) if known else "0"


@dataclass
class Child:
    """A command that runs in a child process and a folder of its own."""

    argv: Sequence[str]
    files: Sequence[str]
    process: int = 0
    began: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        """Begin."""
        self.folder = Path(tempfile.mkdtemp(prefix="same_outputs_"))
        self.process = os.fork()
        if self.process == 0:
            os._exit(_in_child(self.argv, self.folder))

    def result(self, status: int) -> bytes:
        """Return status, output, messages and written files of a child that has ended."""
        out, err = ((self.folder / name).read_bytes() for name in (".stdout", ".stderr"))
        ended = os.waitstatus_to_exitcode(status)
        parts = [f"status {ended}".encode(), b"\n-- stdout\n" + out, b"\n-- stderr\n" + err]
        for name in self.files:
            below = sorted((self.folder / name).rglob("*"))
            parts += [_content(path, self.folder) for path in [self.folder / name, *below]]
        shutil.rmtree(self.folder)
        return UUID.sub(b"UUID", b"".join(parts).replace(str(self.folder).encode(), b"FOLDER"))


def run(argv: Sequence[str]) -> bytes:
    """Run a command that writes no files to its end."""
    child = Child(argv, [])
    return child.result(os.waitpid(child.process, 0)[1])


def _content(path: Path, folder: Path) -> bytes:
    return f"\n-- {path.relative_to(folder)}\n".encode() + path.read_bytes() if path.is_file() else b""


def _in_child(argv: Sequence[str], folder: Path) -> int:
    for number, name in ((1, ".stdout"), (2, ".stderr")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), number)
    os.chdir(folder)
    Path("c").mkdir()
    os.environ["COLUMNS"] = "100"
    try:
        status = command_line()(argv)
        sys.stdout.flush()
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException as error:  # noqa: BLE001 - a crash is an output too
        os.write(2, f"{type(error).__name__}: {error}".encode())
        status = 99
    return status


def compare(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return a line for each output that differs or is missing."""
    lines = [f"differs: {key}" for key in before if key in after and before[key] != after[key]]
    return lines + [f"only in one: {key}" for key in before.keys() ^ after.keys()]


def main() -> int:
    """Record or compare; the exit status of a comparison is 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    under = parser.add_subparsers(dest="what", required=True)
    recording = under.add_parser("record")
    recording.add_argument("output", type=Path)
    recording.add_argument("traces", nargs="+")
    recording.add_argument("--keep", type=Path)
    recording.add_argument("--jobs", type=int, default=1, metavar="N")
    comparing = under.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.what == "record":
        preload()
        found = record([str(Path(trace).absolute()) for trace in options.traces], options.keep, options.jobs)
        options.output.write_text(json.dumps(found, indent=0, sort_keys=True))
        return 0
    before, after = (json.loads(path.read_text()) for path in (options.before, options.after))
    lines = compare(before, after)
    print("\n".join([*lines, f"{len(before)} outputs, {len(lines)} differ"]))  # noqa: T201
    return int(bool(lines))


if __name__ == "__main__":
    sys.path[:] = [
        entry for entry in sys.path if Path(entry).absolute() != Path(__file__).parent
    ]  # it has ``analyses``
    sys.exit(main())
