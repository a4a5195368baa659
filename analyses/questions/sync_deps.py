"""sync-deps: who waited for GPU work, for people and for programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from analyses.display.labels import EDGE
from analyses.display.text_layout import Line, clipped, duration_text, table
from hta_graph.export.sync_dependencies import ExternalIds, SyncDependencies, SyncPairs
from hta_graph.model import EdgeKind, Ints
from hta_graph.text.json_text import Records
from hta_graph.text.sanitize import encodable_path

WAITS_LISTED = 10

WITHOUT_DEPENDENCY = {
    "stream_syncs_unresolved": "stream synchronisations: the trace does not tell for which stream",
    "event_syncs_unresolved": "event synchronisations: the trace does not tell for which work",
    "event_waits_unresolved": "waits of a stream for an event: the trace does not tell for which work",
    "event_waits_for_nothing": "waits of a stream for another one on which the trace shows no work",
    "event_queries": "event queries, which do not wait",
    "sync_records_without_call": "synchronisation records whose CPU call is not in the file",
}
"""What else looks like a wait: diagnostics key → what it counts."""


def sync_document(found: SyncDependencies) -> dict[str, Any]:
    """Return ``hta-graph/sync-deps/1``: file, rank, window, dependencies of CPU calls and of streams (lags in ns)."""
    window = found.window
    to_gpu = found.columns(found.to_gpu, "wait")
    del to_gpu["binding"]
    return {
        "schema": "hta-graph/sync-deps/1",
        "file": encodable_path(found.graph.path),
        "rank": found.graph.rank,
        **({"ranks": [part.rank for part in found.graph.rank_graphs]} if len(found.graph.rank_graphs) > 1 else {}),
        "window": {
            "start_ns": window.start_ns,
            "end_ns": window.end_ns,
            "label": window.label,
            "cpu_ns": window.cpu_ns,
            "gpu_ns": window.gpu_ns,
        },
        "dependencies": Records(found.columns(found.to_cpu)),
        "gpu_dependencies": Records(to_gpu),
        "diagnostics": found.graph.diagnostics,
    }


def unexported_waits(ids: ExternalIds) -> list[str]:
    """Say which dependencies a map of external ids cannot hold."""
    reasons = ((ids.missing, "without an external id on both ends"), (ids.same, "of an operator on itself"))
    return [f"{_count_of(size, 'dependency')} {reason} left out" for size, reason in reasons if size]


def sync_lines(found: SyncDependencies) -> list[Line]:
    """Render the dependencies: how many of each kind, the longest waits, and what remains unknown."""
    graph = found.graph
    rank = "" if graph.rank is None else f", rank {graph.rank}"
    rank = f", {len(graph.rank_graphs):,} ranks" if len(graph.rank_graphs) > 1 else rank
    label = clipped(found.window.label, 60)
    lines: list[Line] = [f"{graph.path.name}{rank}", f"{label}: {_counted_dependencies(found)}"]
    if len(found.to_cpu) or len(found.to_gpu):
        lines += ["", *_kind_lines(found), *_longest_waits(found)]
    counts = {text: found.graph.diagnostics[key] for key, text in WITHOUT_DEPENDENCY.items()}
    others = [[f"{count:,}", text] for text, count in counts.items() if count]
    return [*lines, "", "no dependency, in the whole trace", *table(others, left=[1], words=[1])] if others else lines


def _counted_dependencies(found: SyncDependencies) -> str:
    """Say how many dependencies there are."""
    to_cpu, to_gpu = found.to_cpu, found.to_gpu
    if not len(to_cpu) and not len(to_gpu):
        return "no synchronisation dependencies; no call and no stream is known to have waited for GPU work"
    calls = len(np.unique(to_cpu.call))
    return (
        f"{_count_of(len(to_cpu), 'dependency')} of {_count_of(calls, 'CPU call')} on GPU work, "
        f"{len(to_gpu):,} between streams"
    )


def _count_of(size: int, what: str) -> str:
    """Print a count with its noun.

    >>> _count_of(1, "dependency"), _count_of(2, "dependency"), _count_of(3, "CPU call")
    ('1 dependency', '2 dependencies', '3 CPU calls')
    """
    plural = what[:-1] + "ies" if what.endswith("y") else what + "s"
    return f"{size:,} {what if size == 1 else plural}"


def _kind_lines(found: SyncDependencies) -> list[Line]:
    """Count the dependencies of each kind."""
    rows = [
        [f"{int((chosen & ~edges.inferred).sum()):,}", f"{int((chosen & edges.inferred).sum()):,}",
         f"{int((chosen & part.binding).sum()):,}", kind.label, EDGE[kind.label]]
        for part in (found.to_cpu, found.to_gpu)
        for edges in [found.graph.edges_at(part.edge)]
        for kind in EdgeKind
        if (chosen := edges.kind == kind).any()
    ]  # fmt: skip
    return table(rows, ["recorded", "inferred", "binding", "kind", "meaning"], left=[3, 4], words=[4])


def _longest_waits(found: SyncDependencies) -> list[Line]:
    """List the calls that waited longest, with the activity that ended their wait."""
    part = found.to_cpu
    # Of a device synchronisation only the last stream's edge held the call: the others would list it again.
    binding = np.flatnonzero(part.binding)
    if not len(binding):
        return []
    waited = _waited_ns(found, part)[binding]
    longest = np.argsort(-waited, kind="stable")[:WAITS_LISTED]
    rows = [_wait_row(found, part, int(binding[at]), int(waited[at])) for at in longest.tolist()]
    header = ["waited", "event", "call", "next operator", "for"]
    if len(found.graph.rank_graphs) > 1:
        ranks = [
            found.graph.rank_graphs[place].rank
            for place in found.graph.rank_index_of(part.call[binding[longest]]).tolist()
        ]
        header.insert(1, "rank")
        rows = [[row[0], str(rank), *row[1:]] for rank, row in zip(ranks, rows, strict=True)]
    names = range(len(header) - 3, len(header))
    order = [*range(len(header) - 2), len(header) - 1, len(header) - 2]
    return ["", "the longest waits", *table(rows, header, left=[*names], names=[*names], order=order)]


def _waited_ns(found: SyncDependencies, part: SyncPairs) -> Ints:
    """Return how long each dependency's call took (ns)."""
    events = found.graph.event_table
    length: Ints = events.end[part.call] - events.start[part.call]
    return length


def _wait_row(found: SyncDependencies, part: SyncPairs, at: int, waited: int) -> list[str]:
    """Describe one wait."""
    graph, target = found.graph, int(part.target[at])
    return [
        duration_text(waited),
        str(graph.event_table.index[part.call[at]]),
        graph.name_of(int(part.call[at])),
        graph.name_of(target) if target >= 0 else "(none)",
        graph.name_of(int(part.source[at])),
    ]
