"""Our exact numbers beside those of ``independent.json``: integer nanoseconds, so equal means equal."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import hta_graph as hg
from analyses.compare.diff.change_tables import name_diff
from analyses.declare.scope import Scope, in_window, whole
from analyses.hta.frame import hta_scopes
from analyses.questions.idle_time import launch_gaps
from analyses.questions.kernel_breakdown import kernel_breakdown, kernel_types
from analyses.questions.launch_stats import launch_stats, launches
from analyses.questions.memory_bandwidth import memory_bandwidth
from analyses.questions.overlap import comm_comp_overlap
from analyses.questions.queue_length import queue_length
from analyses.questions.stragglers import stragglers
from analyses.questions.temporal_breakdown import temporal_breakdown
from analyses.source.matched_collectives import matched_collectives
from tests.golden_table.our_answers import TRACES, analysis_of
from tests.support.shared_traces import SHARED

__all__ = ["Tally", "exact_traces", "tallies"]

GOLDEN = SHARED / "golden"
MOST = 10**9
ALL, HTA, DOCUMENTED = "all", "hta_window", "documented_window"


@dataclass
class Tally:
    """How many numbers of one kind were compared on a trace, and which differ."""

    trace: str
    kind: str
    compared: int = 0
    different: list[str] = field(default_factory=list)

    def check(self, name: str, theirs: Any, ours: Any) -> None:
        """Compare one number."""
        self.compared += 1
        same = math.isclose(theirs, ours, rel_tol=1e-9, abs_tol=1e-3) if isinstance(theirs, float) else theirs == ours
        if not same:
            self.different.append(f"{name}: {theirs} and {ours}")


def exact_traces() -> list[str]:
    """List the traces with exact numbers."""
    return sorted({path.parent.name for path in GOLDEN.glob("*/independent*.json")})


def tallies(trace: str) -> list[Tally]:
    """Compare all exact numbers of a trace."""
    if trace.startswith("diff"):
        return [_by_name(trace)]
    found: dict[str, Tally] = {kind: Tally(trace, kind) for kind in KINDS}
    for rank, key, known, scope in _scopes(trace):
        for kind, compare in KINDS.items():
            compare(_Where(found[kind], f"rank {rank}, {key}"), known, key, scope)
    return [*found.values(), *_late(trace)]


@dataclass(frozen=True)
class _Where:
    tally: Tally
    place: str

    def check(self, name: str, theirs: Any, ours: Any) -> None:
        self.tally.check(f"{self.place}, {name}", theirs, ours)


def _scopes(trace: str) -> Iterator[tuple[int, str, dict[str, Any], Scope]]:
    """Return what is known of each rank, with our stretch of the same name."""
    ranks = json.loads((GOLDEN / trace / "independent.json").read_text())["ranks"]
    graphs = analysis_of(trace).graphs
    for rank, scope in zip(graphs, hta_scopes(graphs), strict=True):
        known = ranks[str(rank)]
        yield rank, ALL, known, whole(rank, graphs[rank])
        yield rank, DOCUMENTED if DOCUMENTED in known["scopes"] else HTA, known, scope


def _time(where: _Where, known: dict[str, Any], key: str, scope: Scope) -> None:
    expected = known["scopes"][key].get("temporal")
    if expected is None:
        return
    row = temporal_breakdown([scope]).iloc[0]
    where.check("kernel time", expected["kernel_time_ns"], int(row["window_ns"]))
    where.check("idle", expected["idle_time_ns"], int(row["idle_ns"]))
    where.check("compute", expected["compute_time_ns"], int(row["compute_ns"]))
    exposed = int(row["exposed_communication_ns"] + row["exposed_memory_ns"])
    where.check("non-compute", expected["non_compute_time_ns"], exposed)


def _overlap(where: _Where, known: dict[str, Any], key: str, scope: Scope) -> None:
    expected, row = known["scopes"][key], comm_comp_overlap([scope]).iloc[0]
    if "comm_ns" not in expected:
        return
    where.check("communication", expected["comm_ns"], int(row["communication_ns"]))
    where.check("overlap", expected["overlap_ns"], int(row["overlapped_communication_ns"]))


def _types(where: _Where, known: dict[str, Any], key: str, scope: Scope) -> None:
    types = kernel_types([scope])
    ours = {
        label.upper().replace("OVERLAPPING", "overlapping"): int(time)
        for label, time in types[["kernel_type", "time_ns"]].to_numpy()
    }
    for label, time in known["scopes"][key].get("kernel_type", {}).items():
        where.check(label, time, ours.get(label, 0))


def _kernels(where: _Where, known: dict[str, Any], key: str, scope: Scope) -> None:
    found = kernel_breakdown([scope], num_kernels=MOST)
    for label, expected in known["scopes"][key].get("per_type", {}).items():
        own = found[found["kernel_type"] == label.lower()].set_index("kernel")
        where.check(f"{label} names", expected["names"], len(own))
        where.check(f"{label} sum", expected["sum_ns"], int(own["sum_ns"].sum()))
        for row in expected["top10"]:
            for name in ("count", "sum_ns", "min_ns", "max_ns"):
                where.check(f"{row['name'][:40]} {name}", row[name], int(own.loc[row["name"], name]))


def _idle(where: _Where, known: dict[str, Any], key: str, scope: Scope) -> None:
    """Compare gaps of streams; work without a launch is a cause of its own here, and in time there."""
    for name, limit in (("threshold_30us", 30.0), ("threshold_30ns", 0.03)):
        found = launch_gaps([scope], launch_gap_us=limit)
        for stream, expected in known["idle"].get(key, {}).items():
            own = found[found["stream"].str.endswith(f":{stream}")]
            ours = dict(zip(own["cause"], own["idle_ns"].tolist(), strict=True))
            where.check(f"stream {stream}", expected["gaps_ns"], int(own["idle_ns"].sum()))
            listed = ("host_wait",) if "launch_unknown" in ours else ("host_wait", "kernel_wait", "other")
            for cause in listed:
                where.check(f"stream {stream} {cause}", expected[name][cause]["idle_ns"], ours.get(cause, 0))


def _queue(where: _Where, known: dict[str, Any], key: str, scope: Scope) -> None:
    found = queue_length([scope])
    for stream, expected in known["queue"].get(key, {}).get("every_launch", {}).items():
        row = found[found["stream"].str.endswith(f":{stream}")].iloc[0]
        where.check(f"stream {stream} longest", expected["max_launch_first"], int(row["max_length"]))
        where.check(f"stream {stream} launches", expected["ops"], int(row["launches"]))
        where.check(f"stream {stream} full", expected["ns_at_or_over_1024"], int(row["full_ns"]))
        where.check(f"stream {stream} mean", float(expected["time_weighted_mean"]), float(row["time_mean_length"]))


def _launches(where: _Where, known: dict[str, Any], key: str, scope: Scope) -> None:
    expected = known["launch_stats"].get(key, {}).get("every_launch")
    if not expected:
        return
    frame = launches([scope])
    sums = launch_stats(frame)
    columns = {"gpu_ns": "gpu_duration_ns", "cpu_ns": "cpu_duration_ns", "delay_ns": "launch_delay_ns"}
    where.check("launches", expected["rows"], len(frame))
    for name, column in columns.items():
        where.check(name, expected[name], int(frame[column].sum()))
    outliers = ("short_kernels", "runtime_outliers", "launch_delay_outliers")
    for name, column in zip(("short(cpu<=50us,gpu<cpu)", "cpu>50us", "delay>100us"), outliers, strict=True):
        where.check(name, expected[name], int(sums[column].sum()))


def _copies(where: _Where, known: dict[str, Any], key: str, scope: Scope) -> None:
    found = memory_bandwidth([scope]).set_index("kind")
    for kind, expected in known["memory_ops"].get(key, {}).items():
        row = found.loc[kind]
        for name, column in (("events", "events"), ("dur_ns", "duration_ns"), ("bytes", "bytes")):
            where.check(f"{kind} {name}", expected[name], int(row[column]))


KINDS: dict[str, Callable[[_Where, dict[str, Any], str, Scope], None]] = {
    "temporal breakdown": _time,
    "overlap": _overlap,
    "types of work": _types,
    "kernels": _kernels,
    "idle gaps": _idle,
    "queues": _queue,
    "launches": _launches,
    "copies": _copies,
}


def _late(trace: str) -> list[Tally]:
    """Compare who comes last to collectives."""
    path = GOLDEN / trace / "independent_stragglers.json"
    if not path.exists():
        return []
    known, found = json.loads(path.read_text()), Tally(trace, "stragglers")
    matched = matched_collectives([whole(rank, graph) for rank, graph in analysis_of(trace).graphs.items()])
    frame = stragglers(matched).set_index("rank")
    found.check("collectives", known["matched"], len(matched[0].found))
    for rank in frame.index:
        found.check(
            f"rank {rank} last", known["times_last_by_rank"].get(str(rank), 0), int(frame.loc[rank, "times_last"])
        )
        waited = known["wait_caused_ns_by_rank"].get(str(rank), 0)
        found.check(f"rank {rank} wait caused", waited, int(frame.loc[rank, "wait_caused_ns"]))
    return [found]


def _by_name(trace: str) -> Tally:
    """Compare two runs' counts and durations by name."""
    known, found = json.loads((GOLDEN / trace / "independent.json").read_text()), Tally(trace, "diff by name")
    control, test = (
        hg.build_graph(hg.read_trace(TRACES / f"nanogpt_ab_{side}" / "rank0.json.gz")) for side in ("current", "hook")
    )
    sides = in_window(0, control, hg.step(known["control_step"])), in_window(0, test, hg.step(known["test_step"]))
    for device in ("CPU", "GPU"):
        ours = name_diff(sides[:1], sides[1:], gpu=device == "GPU", cpu=device == "CPU").set_index("name")
        found.check(f"{device} names", len(known[device]["rows"]), len(ours))
        for name, *numbers in known[device]["rows"]:
            row = ours.loc[name, ["control_count", "control_ns", "test_count", "test_ns"]].tolist()
            found.check(f"{device} {name[:40]}", numbers, row)
    return found
