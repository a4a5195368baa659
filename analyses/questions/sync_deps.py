"""sync-deps: which calls and streams wait for GPU work, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from analyses.display.labels import EDGE
from analyses.display.phrases import short_label, whose
from analyses.display.sentence_format import brief_duration, counted, quoted
from analyses.display.text_layout import Line, duration_text, table
from hta_graph.base.text.json_text import Records
from hta_graph.base.text.sanitize import encodable_path
from hta_graph.base.text.shorten import short_name
from hta_graph.export.sync_dependencies import ExternalIds, SyncDependencies, SyncPairs
from hta_graph.model import EdgeKind, Ints
from hta_graph.paths.polled_loops import waiting_since

WAIT_COLUMNS: Sequence[str] = ("waited", "rank", "event", "call", "next", "waited for")
NO_OPERATOR = "(none)"
WITHOUT_DEPENDENCY: Mapping[str, str] = {
    "stream_syncs_unresolved": "stream synchronizations whose stream is not recorded",
    "event_syncs_unresolved": "event synchronizations whose work is not recorded",
    "event_waits_unresolved": "stream waits for an event whose work is not recorded",
    "event_waits_for_nothing": "stream waits for a stream without recorded work",
    "event_queries": "event queries, which do not wait",
    "sync_records_without_call": "synchronization records without a CPU call in the file",
    "sync_records_contradicted": "synchronization records whose work ended after their call; waits inferred instead",
}
"""Diagnostics key → what looks like a wait and is no dependency."""
KINDS = (
    "recorded: the trace records what is waited for; inferred: deduced from calls and times; binding: the work that "
    "ended the wait"
)

WAITS_LISTED = 10


def sync_document(found: SyncDependencies) -> dict[str, Any]:
    """Return ``hta-graph/sync-deps/1``: file, rank, window, dependencies of CPU calls and of streams (lags in ns)."""
    window = found.window
    to_gpu = found.columns(found.to_gpu, "wait")
    del to_gpu["binding"]
    return {
        "schema": "hta-graph/sync-deps/1",
        "file": encodable_path(found.graph.path),
        "rank": found.graph.rank,
        **({"ranks": [part.rank for part in found.graph.rank_graphs]} if found.graph.is_job else {}),
        "window": {
            "start_ns": window.start_ns,
            "end_ns": window.end_ns,
            "label": window.label,
            "cpu_ns": window.cpu_ns,
            "gpu_ns": window.gpu_ns,
        },
        "dependencies": Records(found.columns(found.to_cpu)),
        "gpu_dependencies": Records(to_gpu),
        "diagnostics": found.graph.diagnostics_record,
    }


def unexported_waits(ids: ExternalIds) -> list[str]:
    """Count the dependencies that a map of external ids cannot hold."""
    reasons = ((ids.missing, "without an external id on both ends"), (ids.same, "of an operator on itself"))
    return [f"{counted(size, 'dependency', 'dependencies')} {reason} left out" for size, reason in reasons if size]


def sync_lines(found: SyncDependencies) -> list[Line]:
    """Render the dependencies: how many of each kind, the longest waits, and what remains unknown."""
    graph = found.graph
    label = short_label(found.window.label)
    of = whose(graph.rank, len(graph.rank_graphs))
    lines: list[Line] = [*sync_headline(found), f"{graph.path.name}{of}", f"{label}: {_counted_dependencies(found)}"]
    if len(found.to_cpu) or len(found.to_gpu):
        lines += ["", KINDS, *_kind_lines(found), *_longest_waits(found)]
    counts = {text: found.graph.diagnostics[key] for key, text in WITHOUT_DEPENDENCY.items()}
    others = [[f"{count:,}", text] for text, count in counts.items() if count]
    if others:
        return [*lines, "", "not counted as dependencies, in the whole trace", *table(others, left=[1], words=[1])]
    return lines


def sync_headline(found: SyncDependencies) -> list[str]:
    """Say how many calls and streams waited for how long, and which call made the longest wait."""
    both, waited, of_calls = _binding_waits(found)
    has_waited, on_stream = waited > 0, np.arange(len(both)) >= of_calls
    if not has_waited.any():
        return []
    at, events = int(np.argmax(waited)), found.graph.event_table
    call = int(both.call[at])
    longest = short_name(found.graph.name_of(call)) if call >= 0 else NO_OPERATOR
    calls = len(np.unique(both.call[~on_stream]))
    streams = len(np.unique(events.lane[both.target[on_stream & has_waited]]))
    named = ((calls, "CPU call"), (streams, "stream"))
    who = " and ".join(counted(count, one) for count, one in named if count)
    time = (
        f"{brief_duration(int(waited[has_waited].sum()))} in all; longest {brief_duration(int(waited[at]))}: "
        f"{quoted(longest)}"
    )
    return [f"{who} waited for the GPU, {time}", ""]


def _binding_waits(found: SyncDependencies) -> tuple[SyncPairs, Ints, int]:
    """Return the dependencies that ended waits, how long each wait took (ns), and how many of them are of calls."""
    # Of a device synchronization only the last stream's edge held the call: the others would list it again.
    parts = [part.take(part.binding) for part in (found.to_cpu, found.to_gpu)]
    waited = np.concatenate([_waited_ns(found, parts[0]), found.waited_ns(parts[1])])
    return SyncPairs.join(parts), waited, len(parts[0])


def _counted_dependencies(found: SyncDependencies) -> str:
    """Say how many dependencies there are."""
    to_cpu, to_gpu = found.to_cpu, found.to_gpu
    if not len(to_cpu) and not len(to_gpu):
        return "no synchronization dependencies: no call and no stream is known to wait for GPU work"
    return (
        f"{counted(len(to_cpu), 'dependency', 'dependencies')} of {counted(len(np.unique(to_cpu.call)), 'CPU call')} "
        f"on GPU work, {len(to_gpu):,} between streams"
    )


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
    return table(rows, ("recorded", "inferred", "binding", "kind", "meaning"), left=[3, 4], words=[4])


def _longest_waits(found: SyncDependencies) -> list[Line]:
    """List the calls and streams that waited longest, with the activity that ended their wait."""
    both, waited, of_calls = _binding_waits(found)
    longest = np.argsort(-waited, kind="stable")[:WAITS_LISTED]
    # A stream is listed where it waited; each call that waits is.
    longest = longest[(longest < of_calls) | (waited[longest] > 0)]
    if not len(longest):
        return []
    streams = np.arange(len(both)) >= of_calls
    rows = [_wait_row(found, both, int(at), int(waited[at]), on_stream=bool(streams[at])) for at in longest]
    header = [name for name in WAIT_COLUMNS if name != "rank"]
    if found.graph.is_job:
        ranks = [
            found.graph.rank_graphs[place].rank for place in found.graph.rank_index_of(both.source[longest]).tolist()
        ]
        header = list(WAIT_COLUMNS)
        rows = [[row[0], str(rank), *row[1:]] for rank, row in zip(ranks, rows, strict=True)]
    names = range(len(header) - 3, len(header))
    order = [*range(len(header) - 2), len(header) - 1, len(header) - 2]
    return ["", "longest waits", *table(rows, header, left=[*names], names=[*names], order=order)]


def _waited_ns(found: SyncDependencies, part: SyncPairs) -> Ints:
    """Return how long each dependency's call took (ns), or the loop of queries that it ended."""
    length: Ints = found.graph.event_table.end[part.call] - waiting_since(found.graph, part.call)
    return length


def _wait_row(found: SyncDependencies, part: SyncPairs, at: int, waited: int, *, on_stream: bool) -> list[str]:
    """Describe one wait: of a stream by the activity that waited and the call that made it wait."""
    graph, target, call = found.graph, int(part.target[at]), int(part.call[at])
    return [
        duration_text(waited),
        str(graph.event_table.index[target if on_stream else call]),
        graph.name_of(call) if call >= 0 else NO_OPERATOR,
        graph.name_of(target) if target >= 0 else NO_OPERATOR,
        graph.name_of(int(part.source[at])),
    ]
