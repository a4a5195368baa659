"""Synchronisation dependencies beside the truth; ``python -m tests.sync_dependency_accuracy`` prints the tables.

For real traces the truth is read off their own ``cuda_sync`` rows, here, without the package: calls have ascending
correlation ids, so what was enqueued before what is plain. For simulated programs it is what the simulator did. For
each recorder of waits (CUPTI's records by PyTorch's profiler and by Nsight Systems, Cuspy's arrows between the nodes of
graphs) it is what the graph has recorded.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hta_graph as hg
from hta_graph.export.sync_dependencies import SyncDependencies
from hta_graph.trace.decompress import read_bytes
from tests.edge_accuracy import (
    DIALECTS,
    GPU_TO_CPU,
    Closure,
    Edge,
    Score,
    graph_edges,
    overlapping_ends,
    read,
    true_edges,
)
from tests.simulator import Dialect, Run, random_program, simulate, write
from tests.support.shared_traces import SHARED

TRACES = ("sync_alexnet_a100", "sync_simple_add", "sync_event_cpu", "sync_event_multistream")
GPU_ROWS = ("kernel", "gpu_memcpy", "gpu_memset")
SYNC_KINDS = ("stream_sync", "device_sync", "event_sync", "event_wait")

Row = dict[str, Any]
Link = tuple[str, int, int]
"""Kind, row of the source, row of the call that waited (GPU→CPU) or of the activity that waited (GPU→GPU)."""


@dataclass
class Recording:
    """A trace's rows, its GPU work by stream as (correlation, row), and its calls by correlation."""

    rows: list[Row]
    work: dict[tuple[int, int], list[tuple[int, int]]]
    calls: dict[int, int]

    @classmethod
    def of(cls, path: Path) -> Recording:
        """Read a file's rows as they are."""
        rows = json.loads(read_bytes(path).data)["traceEvents"]
        work: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for at, row in enumerate(rows):
            if row.get("cat") in GPU_ROWS:
                work[row["args"]["device"], row["args"]["stream"]].append((row["args"]["correlation"], at))
        calls = {row["args"]["correlation"]: at for at, row in enumerate(rows) if row.get("cat") == "cuda_runtime"}
        return cls(rows, {stream: sorted(items) for stream, items in work.items()}, calls)

    def last_before(self, device: int, stream: int, correlation: int) -> list[int]:
        """Return the last work that was enqueued on a stream before a call."""
        return [at for found, at in self.work.get((device, stream), []) if found < correlation][-1:]

    def first_after(self, device: int, stream: int, correlation: int) -> list[int]:
        """Return the first work that was enqueued on a stream after a call."""
        return [at for found, at in self.work.get((device, stream), []) if found > correlation][:1]

    def links(self) -> set[Link]:
        """Return what the synchronisation rows say."""
        records = [row["args"] for row in self.rows if row.get("cat") == "cuda_sync"]
        return {link for record in records for link in self._links_of(record)}

    def _links_of(self, record: Row) -> Iterator[Link]:
        kind, device, correlation = record["cuda_sync_kind"], record["device"], record["correlation"]
        call = self.calls[correlation]
        captured = record.get("wait_on_cuda_event_record_corr_id", -1)
        if kind == "Stream Sync":
            yield from (("stream_sync", at, call) for at in self.last_before(device, record["stream"], correlation))
        elif kind == "Context Sync":
            streams = [stream for own, stream in self.work if own == device]
            yield from (("device_sync", at, call) for s in streams for at in self.last_before(device, s, correlation))
        elif kind == "Event Sync" and "Query" not in self.rows[call]["name"] and captured > 0:
            held = self.last_before(device, record["wait_on_stream"], captured)
            yield from (("event_sync", at, call) for at in held)
        elif kind == "Stream Wait Event" and captured > 0:
            held = self.last_before(device, record["wait_on_stream"], captured)
            waiting = self.first_after(device, record["stream"], correlation)
            yield from (("event_wait", at, target) for at in held for target in waiting)

    def operator_around(self, call: int) -> int | None:
        """Return the innermost operator around a call."""
        own = self.rows[call]
        around = [
            (row["ts"], -row["dur"], at)
            for at, row in self._operators(own)
            if row["ts"] <= own["ts"] and row["ts"] + row["dur"] >= own["ts"] + own["dur"]
        ]
        return max(around)[2] if around else None

    def operator_after(self, call: int) -> int | None:
        """Return the first operator on a call's thread that starts when the call has returned."""
        own = self.rows[call]
        after = [
            (row["ts"], -row["dur"], at) for at, row in self._operators(own) if row["ts"] >= own["ts"] + own["dur"]
        ]
        return min(after)[2] if after else None

    def _operators(self, own: Row) -> Iterator[tuple[int, Row]]:
        for at, row in enumerate(self.rows):
            if row.get("cat") == "cpu_op" and (row["pid"], row["tid"]) == (own["pid"], own["tid"]):
                yield at, row

    def external_id(self, operator: int | None) -> int | None:
        """Return an operator's external id."""
        return None if operator is None else self.rows[operator]["args"]["External id"]

    def launching_operator(self, activity: int) -> int | None:
        """Return the innermost operator around the call that launched an activity."""
        return self.operator_around(self.calls[self.rows[activity]["args"]["correlation"]])


def shared_file(name: str) -> Path:
    """Return a shared trace of one rank."""
    return SHARED / "traces" / name / "rank0.json.gz"


def links_of(found: SyncDependencies, *, binding: bool = False) -> set[Link]:
    """Return the dependencies that the package finds, all or those that decided when a wait was over."""
    table = found.table()
    end = [
        call if direction == "gpu_to_cpu" else target
        for direction, call, target in zip(table["direction"], table["sync_index"], table["target_index"], strict=True)
    ]
    every = zip(table["kind"].tolist(), table["source_index"].tolist(), end, table["binding"].tolist(), strict=True)
    return {(kind, source, target) for kind, source, target, decided in every if decided or not binding}


def dependencies(path: Path) -> SyncDependencies:
    """Find a file's dependencies."""
    return SyncDependencies(hg.build_graph(hg.read_trace(path)))


def without_records(path: Path, *, binding: bool = False) -> set[Link]:
    """Return what is found with the trace's synchronisation rows hidden, by the rows of the whole file."""
    document = json.loads(read_bytes(path).data)
    kept = [at for at, row in enumerate(document["traceEvents"]) if row.get("cat") != "cuda_sync"]
    document["traceEvents"] = [document["traceEvents"][at] for at in kept]
    with tempfile.TemporaryDirectory() as folder:
        hidden = Path(folder) / "hidden.json"
        hidden.write_text(json.dumps(document), encoding="utf-8")
        found = links_of(dependencies(hidden), binding=binding)
    return {(kind, kept[source], kept[target]) for kind, source, target in found}


def share(part: int, whole: int) -> str:
    """Print a share, or that there is none."""
    return f"{part / whole:.3f}" if whole else "-"


def hidden_table(names: Iterable[str] = TRACES) -> Iterator[str]:
    """Print per trace and kind how much of the recorded truth is found again without its rows, and what else."""
    head = ("trace", "kind", "recorded", "found", "both", "precision", "recall", "binding: recorded", "both", "recall")
    yield "  {:<24}{:<13}{:>9}{:>7}{:>6}{:>11}{:>8}{:>19}{:>6}{:>8}".format(*head)
    for name in names:
        path = shared_file(name)
        truth, found = Recording.of(path).links(), without_records(path)
        decided, refound = links_of(dependencies(path), binding=True) & truth, without_records(path, binding=True)
        for kind in SYNC_KINDS:
            true, ours, bound, again = (
                {link for link in s if link[0] == kind} for s in (truth, found, decided, refound)
            )
            if true or ours:
                both = len(true & ours)
                figures = (len(true), len(ours), both, share(both, len(ours) if true else 0), share(both, len(true)))
                kept = len(bound & again)
                line = (name, kind, *figures, len(bound), kept, share(kept, len(bound)))
                yield "  {:<24}{:<13}{:>9}{:>7}{:>6}{:>11}{:>8}{:>19}{:>6}{:>8}".format(*line)


RECORDERS: dict[str, tuple[str, ...]] = {
    "PyTorch's profiler": tuple(f"traces/{name}/rank0.json.gz" for name in TRACES),
    "Nsight Systems": ("nsys/mfu_2gpu_before.sqlite", "nsys/mock.sqlite"),
    "Cuspy (made)": ("formats/cuspy_json/g_arrows.json", "formats/cuspy_json/g_lanes_arrows.json"),
    "Cuspy (forked copies)": ("traces/sam_compile_cudagraph_a100", "traces/vllm_hipgraph_mi300x"),
}
"""Shared files with recorded waits, by recorder; of folders a copy whose graphs have a fork, and arrows."""
INSIDE_GRAPHS = ("stream_order", "graph_order")


def recorder_table() -> Iterator[str]:
    """Print per recorder how many of its waits the graph implies without its records, and what it adds wrongly."""
    yield "  {:<24}{:>6}{:>10}{:>8}{:>8}{:>10}{:>7}{:>11}".format(
        "recorder", "files", "recorded", "implied", "recall", "inferred", "wrong", "precision"
    )
    for recorder, files in RECORDERS.items():
        total = Score()
        for name in files:
            with tempfile.TemporaryDirectory() as folder:
                path = SHARED / name
                path = forked_copy(path / "rank0.json.gz", Path(folder)) if path.is_dir() else path
                for trace in hg.read_traces(path, say=lambda _: None):
                    _add_score(total, hidden_score(trace))
        implied = total.truths - total.missed
        yield (
            f"  {recorder:<24}{len(files):>6}{total.truths:>10,}{implied:>8,}{total.recall:>8.3f}{total.edges:>10,}"
            f"{total.wrong:>7,}{total.precision:>11.3f}"
        )


def forked_copy(source: Path, folder: Path) -> Path:
    """Write a copy of a trace in which a kernel of each graph launch ran on a stream of its own, with arrows."""
    copy = folder / "forked.json"
    maker = SHARED / "formats" / "cuspy_json" / "fork.py"
    subprocess.run([sys.executable, maker, source, copy, "arrows"], check=True, capture_output=True)
    return copy


def hidden_score(trace: hg.Trace) -> Score:
    """Score what is inferred of one trace's waits with its records hidden.

    Compared are waits for which there is a record, and the order inside graph launches that have arrows: whether one
    graph implies the other's edges.
    """
    whole, hidden = hg.build_graph(trace), hg.build_graph(trace.without_records())
    recorded, every, guessed = graph_edges(whole, "recorded"), graph_edges(whole), graph_edges(hidden)
    launch = dict(zip(whole.events.event_index.tolist(), whole.events.correlation.tolist(), strict=True))
    truth = {edge for edge in recorded if edge[0] in SYNC_KINDS or edge[0] == "graph_order"}
    waits = {edge[3:] for edge in truth if edge[0] in SYNC_KINDS}
    ordered = {launch[edge[3]] for edge in truth if edge[0] == "graph_order"}
    ours = {
        edge
        for edge in guessed
        if (edge[0] in SYNC_KINDS and edge[3:] in waits)
        or (edge[0] in INSIDE_GRAPHS and launch[edge[1]] == launch[edge[3]] and launch[edge[3]] in ordered)
    }
    right, implied = Closure(every, overlapping_ends(every)), Closure(guessed, overlapping_ends(guessed))
    return Score(
        edges=len(ours),
        wrong=sum(not right.implies(edge) for edge in ours),
        truths=len(truth),
        missed=sum(not implied.implies(edge) for edge in truth),
    )


def _add_score(sums: Score, score: Score) -> None:
    sums.edges += score.edges
    sums.wrong += score.wrong
    sums.truths += score.truths
    sums.missed += score.missed


def sync_scores(run: Run, dialect: Dialect) -> dict[str, Score]:
    """Score one simulated run's dependencies: right is what the execution implies, found what the graph implies."""
    written = write(run, dialect)
    graph = read(written)
    listed = {_edge(link) for link in links_of(SyncDependencies(graph))}
    truth = {edge for edge in true_edges(written, hidden=False) if edge[0] in (*GPU_TO_CPU, "event_wait")}
    everything = true_edges(written, hidden=True)
    allowed, ours = Closure(everything, overlapping_ends(everything)), Closure(graph_edges(graph))
    scores: dict[str, Score] = defaultdict(Score)
    for edge in listed:
        score = scores[_direction(edge)]
        score.edges += 1
        score.wrong += edge not in truth and not allowed.implies(edge)
    for edge in truth:
        score = scores[_direction(edge)]
        score.truths += 1
        score.missed += edge not in listed and not ours.implies(edge)
    return scores


def _edge(link: Link) -> Edge:
    kind, source, target = link
    return kind, source, "end", target, "start" if kind == "event_wait" else "end"


def _direction(edge: Edge) -> str:
    return "GPU→GPU" if edge[0] == "event_wait" else "GPU→CPU"


def prove_sync(dialect: Dialect, seeds: Iterable[int], size: int) -> dict[str, Score]:
    """Score the dependencies of many random programs of the PyTorch idiom."""
    total: dict[str, Score] = defaultdict(Score)
    for seed in seeds:
        for direction, score in sync_scores(simulate(random_program(seed, "pytorch", size)), dialect).items():
            _add_score(total[direction], score)
    return total


def simulated_table(programs: int, size: int) -> Iterator[str]:
    """Print per dialect and direction what is found of what was simulated."""
    head = ("dialect", "direction", "found", "wrong", "precision", "true", "missed", "recall")
    yield "  {:<22}{:<10}{:>7}{:>7}{:>11}{:>7}{:>8}{:>8}".format(*head)
    for name, dialect in DIALECTS.items():
        for direction, s in sorted(prove_sync(dialect, range(programs), size).items()):
            figures = f"{s.edges:>7,}{s.wrong:>7,}{s.precision:>11.4f}{s.truths:>7,}{s.missed:>8,}{s.recall:>8.4f}"
            yield f"  {name:<22}{direction:<10}{figures}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Synchronisation dependencies beside the truth.")
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--size", type=int, default=300)
    options = parser.parse_args()
    if (SHARED / "traces").is_dir():
        sys.stdout.write("\n".join(["real traces with their records hidden", *hidden_table()]) + "\n\n")
        sys.stdout.write("\n".join(["all recorders, with their records hidden", *recorder_table()]) + "\n\n")
    for line in (f"{options.programs} simulated programs", *simulated_table(options.programs, options.size)):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
