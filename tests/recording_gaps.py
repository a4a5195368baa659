"""What answers say of time whose rows were lost: ``python -m tests.recording_gaps [FOLDER]``.

Rows are taken out of real traces of a folder, by kind and by share; what the GPU did in them was not idle. ``called
idle`` is how much of the time in which only lost rows ran an answer takes for idle, by the accounts of the breakdown
and so of every other command; ``idle called unknown`` is how much of the idle time of the whole recording is unknown
then. Rows whose call is not in the file stay: nothing would show that they are lost.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

import hta_graph as hg
from analyses.questions.info import info_document
from hta_graph.paths.gpu_activity import activities
from hta_graph.paths.intervals import Intervals
from hta_graph.paths.unrecorded_work import unrecorded_times
from tests.support.shared_traces import SHARED

LARGEST = 30_000_000
"""Larger files (bytes) take too long, one for each way to lose rows."""
MOST_TRACES = 20
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver", "hip_runtime", "runtime")
Row = dict[str, Any]
Loss = Callable[[list[Row], np.random.Generator], set[int]]
"""Given the GPU's rows, which are lost, by place."""


def some_kernels(share: float) -> Loss:
    """Lose a share of the kernels."""

    def lose(rows: list[Row], random: np.random.Generator) -> set[int]:
        kernels = [at for at, row in enumerate(rows) if row["cat"] == "kernel"]
        return {at for at in kernels if random.random() < share}

    return lose


def first_half(rows: list[Row], _: np.random.Generator) -> set[int]:
    """Lose all rows of the first half of the recording."""
    middle = np.median([float(row["ts"]) for row in rows])
    return {at for at, row in enumerate(rows) if float(row["ts"]) < middle}


def a_stream(rows: list[Row], _: np.random.Generator) -> set[int]:
    """Lose the stream with the second most rows; of one stream nothing."""
    streams = [str(row.get("tid")) for row in rows]
    order = sorted(set(streams), key=streams.count)
    return {at for at, stream in enumerate(streams) if stream == order[-2]} if len(order) > 1 else set()


LOSSES: dict[str, Loss] = {
    "10% of kernels": some_kernels(0.1),
    "50% of kernels": some_kernels(0.5),
    "all kernels": some_kernels(1.0),
    "first half": first_half,
    "one stream": a_stream,
}


@dataclass(frozen=True)
class Lost:
    """Of a trace and a loss: rows, the time (ns) that only they show, what of it is called idle, and idle time."""

    trace: str
    loss: str
    rows: int
    time_ns: int
    called_idle_ns: int
    idle_ns: int
    unknown_ns: int


def _traces(folder: Path) -> Iterator[Path]:
    every = (path for path in sorted(folder.rglob("*.json*")) if path.stat().st_size < LARGEST)
    yield from (path for path in every if "host_et" not in path.name)


def _document(path: Path) -> dict[str, Any] | None:
    text = path.read_bytes()
    try:
        found = orjson.loads(gzip.decompress(text) if path.suffix == ".gz" else text)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) and "traceEvents" in found else None


def busy_times(graph: hg.DependencyGraph) -> Intervals:
    """Return when anything that is recorded runs."""
    return activities(graph).busy()


def losses(path: Path, folder: Path) -> Iterator[Lost]:
    """Lose rows of a trace in each way; nothing where it has no work of a GPU."""
    document = _document(path)
    if document is None:
        return
    events = document["traceEvents"]
    places = [at for at, row in enumerate(events) if row.get("ph") == "X" and row.get("cat") in ON_GPU]
    calls = {_correlation(row) for row in events if row.get("cat") in CALLS}
    try:
        whole = busy_times(hg.build_graph(path))
    except hg.HtaGraphError:
        return
    if not places or not len(whole.start):
        return
    idle = whole.gaps(int(whole.start[0]), int(whole.end[-1]))
    for name, loss in LOSSES.items():
        chosen = (places[at] for at in loss([events[at] for at in places], np.random.default_rng(1)))
        lost = {at for at in chosen if _correlation(events[at]) in calls}
        if not lost or len(lost) == len(places):
            continue
        target = folder / "lost.json"
        kept = [row for at, row in enumerate(events) if at not in lost]
        target.write_bytes(orjson.dumps({**document, "traceEvents": kept}))
        graph = hg.build_graph(target)
        # What comes after all that is left is in no window.
        window, unknown = hg.whole()(graph), unrecorded_times(graph)
        only_lost = whole.subtract(busy_times(graph)).clip(window.start_ns, window.end_ns)
        called_idle = only_lost.subtract(unknown).total
        shown = f"{path.parent.name}/{path.name}"
        yield Lost(shown, name, len(lost), only_lost.total, called_idle, idle.total, idle.both(unknown).total)


def _correlation(row: Row) -> Any:
    return row.get("args", {}).get("correlation")


def print_whole(folder: Path) -> None:
    """Print for each recording of a folder whether it is complete, and else what it lacks."""
    sys.stdout.write("| trace | launch calls | without a row | recording |\n|---|---|---|---|\n")
    for path in _traces(folder):
        if _document(path) is None:
            continue
        try:
            graphs = list(hg.read_graphs(path))
        except hg.HtaGraphError as error:
            sys.stdout.write(f"| {path.parent.name}/{path.name} | | | not read: {error} |\n")
            continue
        for graph in graphs:
            known = info_document(graph)["recording"]
            said = "; ".join(known["missing"]) or "complete"
            counts = f"{known['launch_calls']:,} | {known['launch_calls_without_row']:,}"
            sys.stdout.write(f"| {path.parent.name}/{path.name} | {counts} | {said} |\n")


def main() -> None:
    """Print a row for each trace and loss."""
    parser = argparse.ArgumentParser(description="Take rows out of real traces, and say what of it is called idle.")
    parser.add_argument("--whole", action="store_true", help="say of each recording whether it is complete")
    parser.add_argument("folder", type=Path, nargs="?", default=SHARED)
    parser.add_argument("--traces", type=int, default=MOST_TRACES)
    options = parser.parse_args()
    if options.whole:
        print_whole(options.folder)
        return
    sys.stdout.write(
        "| trace | lost | rows | time that only these show, ms | called idle | idle called unknown |\n"
        "|---|---|---|---|---|---|\n"
    )
    seen = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in _traces(options.folder):
            found = list(losses(path, Path(folder)))
            seen += bool(found)
            for one in found:
                sys.stdout.write(
                    f"| {one.trace} | {one.loss} | {one.rows:,} | {one.time_ns / 1e6:,.3f} "
                    f"| {one.called_idle_ns / max(one.time_ns, 1):.2%} | {one.unknown_ns / max(one.idle_ns, 1):.1%} |\n"
                )
            sys.stdout.flush()
            if seen >= options.traces:
                return


if __name__ == "__main__":
    main()
