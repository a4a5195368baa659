"""What answers say of a window for people and for programs: its steps, its ranks and hosts, what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from analyses.display.dataframes import RANKS_LISTED, more_ranks
from analyses.display.labels import short_labels
from analyses.display.text_layout import Line, clipped, duration_text, percent, table
from hta_graph.arrays import summed_by
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import BoundBy
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.rank_crossings import crossings, held_up_by
from hta_graph.paths.step_table import StepRow
from hta_graph.paths.windows import Window


def window_record(window: Window, graph: DependencyGraph) -> dict[str, Any]:
    """Return a window as JSON has it (times in ns); that of a job with the ranks that have none."""
    return {
        "start_ns": window.start_ns,
        "end_ns": window.end_ns,
        "label": window.label,
        "cpu_ns": window.cpu_ns,
        "gpu_ns": window.gpu_ns,
        "rows_after": window.rows_after,
        **({"missing_ranks": list(window.missing)} if len(graph.rank_graphs) > 1 else {}),
    }


def step_records(steps: Sequence[StepRow]) -> list[dict[str, Any]]:
    """Return the steps as JSON lists them (times in ns); those of a job with the rank that holds each up, or null."""
    shown = ("step", "iteration_ns", "latency_ns", "bound_by", "outlier")
    records = [{key: getattr(row, key) for key in shown} for row in steps]
    of_job = [len(row.path.graph.rank_graphs) > 1 for row in steps]
    return [
        {**record, **({"held_up_by": row.held_up_by} if several else {})}
        for record, row, several in zip(records, steps, of_job, strict=True)
    ]


LONGEST_HOST = 60


def job_record(path: CriticalPath) -> dict[str, Any]:
    """Return the keys that the document of a job's path has besides (times in ns); none of one rank's.

    ``ranks``; ``clocks``: how far each rank's are ahead; ``by_rank_ns``: the path's time on each; ``held_up_ns``: how
    long the job waited for each alone; ``crossings``: how often the path goes from rank to rank, and how much later
    than their effects causes are stamped there, added up.
    """
    job = path.graph
    if not isinstance(job, JobGraph):
        return {}
    passed, held = crossings(path), held_up_by(path)
    return {
        "ranks": [part.rank for part in job.rank_graphs],
        "clocks": _clock_records(job),
        "by_rank_ns": {str(rank): ns for rank, ns in path.by_rank_ns.items()},
        **({"by_host_ns": time_by_host(job, path.by_rank_ns)} if job.hosts else {}),
        "held_up_ns": {str(part.rank): own.total for part, own in zip(job.rank_graphs, held, strict=True)},
        "crossings": {"count": len(passed), "corrected_ns": int(passed.corrected.sum())},
    }


def _clock_records(job: JobGraph) -> list[dict[str, Any]]:
    clocks = job.clock_table
    columns = {
        "rank": clocks.rank, "offset_ns": clocks.offset, "gpu_offset_ns": clocks.gpu_offset,
        "drift_ppm": clocks.drift_ppm, "error_ns": clocks.error, "collectives": clocks.collectives,
    }  # fmt: skip
    return [
        dict(zip(columns, row, strict=True))
        for row in zip(*(column.tolist() for column in columns.values()), strict=True)
    ]


def rank_lines(path: CriticalPath) -> list[Line]:
    """List the ranks that the path goes through: its time there, how long the job waited for each alone, and why."""
    parts, length = path.graph.rank_graphs, max(path.length_ns, 1)
    if len(parts) < 2:
        return []
    held, words = [found.total for found in held_up_by(path)], short_labels(path.graph)
    sums = summed_by(
        path.segment_table.part.astype(np.int64) * len(BoundBy) + path.segment_table.bound,
        path.segment_table.length,
        len(parts) * len(BoundBy),
    )
    by_class = sums.reshape(len(parts), len(BoundBy))
    total = by_class.sum(axis=1)
    order = np.argsort(-total, kind="stable")
    shown = [at for at in order.tolist() if total[at]][:RANKS_LISTED]
    rows = [
        [duration_text(int(total[at])), percent(int(total[at]) / length), duration_text(held[at]),
         str(parts[at].rank), words[BoundBy(int(by_class[at].argmax())).label]]
        for at in shown
    ]  # fmt: skip
    hidden = int(np.count_nonzero(total)) - len(shown)
    passed = len(crossings(path))
    head = f"time on the critical path by rank; it goes from rank to rank {passed:,} ×"
    listed = table(rows, ["time", "share", "others wait", "rank", "mostly"], left=[4])
    return [head, *listed, *more_ranks(hidden), *_host_lines(path)]


def _host_lines(path: CriticalPath) -> list[Line]:
    """List the hosts that most of the path is on, where the ranks are on several."""
    times, length = time_by_host(path.graph, path.by_rank_ns), max(path.length_ns, 1)
    shown = [(host, ns) for host, ns in times.items() if ns][:RANKS_LISTED]
    if not shown:
        return []
    rows = [[duration_text(ns), percent(ns / length), clipped(host, LONGEST_HOST)] for host, ns in shown]
    hidden = len([ns for ns in times.values() if ns]) - len(shown)
    more = [f"  and {hidden:,} hosts more; --json FILE lists all"] if hidden else []
    return ["", "the same by host", *table(rows, ["time", "share", "host"], left=[2]), *more]


def time_by_host(graph: DependencyGraph, by_rank_ns: Mapping[int, int]) -> dict[str, int]:
    """Add up times (ns) by host, the longest first; of none where a rank does not tell its host, or all are on one."""
    hosts, found = graph.hosts if isinstance(graph, JobGraph) else {}, dict[str, int]()
    for rank, host in hosts.items():
        found[host] = found.get(host, 0) + by_rank_ns[rank]
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def missing_lines(window: Window) -> list[str]:
    """Say which ranks have no such window."""
    if not window.missing:
        return []
    contribute = "contributes" if len(window.missing) == 1 else "contribute"
    return [f"{rank_names(window.missing)} recorded no {window.label} and {contribute} nothing"]


def rank_names(ranks: tuple[int, ...]) -> str:
    """Name some ranks, of many the first ones.

    >>> rank_names((3,)), rank_names((0, 2)), rank_names(tuple(range(20)))
    ('rank 3', 'ranks 0, 2', 'ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 10 more')
    """
    listed = ", ".join(map(str, ranks[:RANKS_LISTED]))
    hidden = len(ranks) - RANKS_LISTED
    return ("rank " if len(ranks) == 1 else "ranks ") + listed + (f" and {hidden} more" if hidden > 0 else "")
