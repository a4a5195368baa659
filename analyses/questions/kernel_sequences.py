"""kernel-sequences: repeated sequences of GPU work under an operator, with counts and times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.declare.analysis import Analysis
from analyses.declare.answer import Answer, Note
from analyses.declare.columns import Table, integer, ns, text
from analyses.declare.description import Flag
from analyses.declare.scope import Scope
from analyses.declare.tables import event_names, scopes_in, table_of
from analyses.display.charts import horizontal_bars
from analyses.display.dataframe_text import ARROW
from analyses.display.headline import largest_item, sequence_headline
from analyses.display.text_layout import clipped
from hta_graph.attribution.sequence_patterns import SequencePatterns, outermost_roots, sequence_patterns
from hta_graph.base.errors import Remedy
from hta_graph.base.storage.location import Location
from hta_graph.base.text.shorten import short_name
from hta_graph.export.perfetto.append_events import SliceTrack, write_slices
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import EventKind, Ids, Ints, kind_mask

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = [
    "TABLES",
    "answer",
    "figure",
    "kernel_sequences",
    "most_frequent",
    "pattern_texts",
    "pattern_times",
    "sequences_under",
    "write_sequence_overlay",
]

SHORTER_SEQUENCES = Remedy(
    "pass a smaller min_pattern_len to include shorter sequences",
    "use a smaller --min-pattern-len to include shorter sequences",
)

MIN_PATTERN_LEN = 3
"""Rows that launch less GPU work are left out."""
ROOTS = (EventKind.CPU_OP, EventKind.ANNOTATION, EventKind.PYTHON_FUNCTION)
TOP_K = 5
SEQUENCES = Table(
    *("rank", "scope", text("operator", "Full name of the operator.")),
    integer("count", "Number of occurrences of the operator with this sequence."),
    integer("kernels", "Number of GPU activities per occurrence."),
    *("gpu_ns", ns("operator_ns", "Total CPU time of the operators"), "kernel_sequence"),
)


@SEQUENCES.returned
def kernel_sequences(scopes: Sequence[Scope], operator: str, min_pattern_len: int = MIN_PATTERN_LEN) -> pd.DataFrame:
    """Find the sequences of kernels, copies and memsets launched under events whose names contain a text.

    Such an event is an operator, a CPU annotation or a Python frame that is nested in no other such event of its
    thread; it owns what is launched inside it on its thread. (HTA takes the events of the least depth in the whole
    rank: one shallow occurrence hides all deeper ones.) The most frequent come first.

    Args:
        scopes: what to look at.
        operator: a part of the names.
        min_pattern_len: leave out shorter sequences.
    """
    return table_of(scopes, lambda scope: _described_patterns(scope, operator, min_pattern_len), SEQUENCES)


def sequences_under(scope: Scope, operator: str, min_pattern_len: int) -> SequencePatterns:
    """Find the sequences of a scope."""
    graph, work = scope.graph, scope.work
    wanted = np.array([operator in name for name in graph.names], np.bool_)
    roots = np.flatnonzero(wanted[graph.event_table.name] & kind_mask(graph.event_table.kind, ROOTS))
    owner = outermost_roots(graph.event_table, roots, work.call)
    # By owner, then canonical row, which is the order of starts: each owner's work is contiguous.
    order = np.lexsort((work.row, owner))
    order = order[owner[order] >= 0]
    return sequence_patterns(owner[order], work.row[order], graph.event_table.name, max(min_pattern_len, 1))


def _described_patterns(scope: Scope, operator: str, min_pattern_len: int) -> pd.DataFrame:
    """Describe the sequences of a scope, most frequent first."""
    graph, found = scope.graph, sequences_under(scope, operator, min_pattern_len)
    gpu, cpu = pattern_times(graph, found)
    frame = pd.DataFrame(
        {
            "operator": event_names(graph, found.owner[found.example]),
            "count": found.counts(),
            "kernels": np.diff(found.first)[found.example],
            "gpu_ns": gpu,
            "operator_ns": cpu,
            "kernel_sequence": [ARROW.join(event_names(graph, found.group(at))) for at in found.example.tolist()],
        }
    )
    return frame.sort_values(["count", "gpu_ns"], ascending=False, kind="stable", ignore_index=True)


def pattern_times(graph: DependencyGraph, found: SequencePatterns) -> tuple[Ints, Ints]:
    """Return the summed lengths of the GPU work and of the rows of each pattern (ns)."""
    length = graph.event_table.end - graph.event_table.start
    return found.per_pattern(found.per_group(length[found.members])), found.per_pattern(length[found.owner])


def answer(scopes: Sequence[Scope], operator: str, min_pattern_len: int = MIN_PATTERN_LEN) -> Answer:
    """Return the table ``kernel_sequences``: the sequences that matching events launch, and their counts.

    Args:
        scopes: where to look.
        operator: a part of the names of operators, annotations or Python frames.
        min_pattern_len: leave out sequences of fewer GPU activities.
    """
    frame = kernel_sequences(scopes, operator, min_pattern_len)
    answered = scopes_in(frame)
    silent = [scope for scope in scopes if (scope.rank, scope.label) not in answered]
    notes = [_missing_note(scope, operator, min_pattern_len) for scope in silent]
    most = largest_item(frame, ["operator", "kernel_sequence"], "gpu_ns")
    return Answer(
        {"kernel_sequences": frame},
        notes,
        summed={"kernel_sequences": "occurrences"},
        conclusion=[sequence_headline(most)] if most else [],
    )


def _missing_note(scope: Scope, operator: str, min_pattern_len: int) -> str | Note:
    """Return a note on why there is no row."""
    if scope.missing():
        return scope.missing()
    if not any(operator in name for name in scope.graph.names):
        return f"rank {scope.rank}: no name in the trace contains {operator!r}"
    return Note(
        (
            f"rank {scope.rank}: no operator, annotation or Python frame with {operator!r} in its name launches "
            f"{min_pattern_len} or more GPU activities on its thread in {scope.name}"
        ),
        SHORTER_SEQUENCES,
    )


def figure(found: Answer, top_k: int = 20) -> Figure:
    """Draw how often the most frequent sequences occur."""
    frame = found.main.head(top_k)
    several = len(set(found.main["rank"])) > 1
    rows = zip(frame["rank"], frame["operator"], frame["kernels"], strict=True)
    labels = [
        f"{f'rank {rank}: ' * several}{clipped(name, 40)}: {size} {'kernel' if size == 1 else 'kernels'}"
        for rank, name, size in rows
    ]
    texts = [clipped(text, 300) for text in frame["kernel_sequence"]]
    return horizontal_bars(
        labels, frame["count"].to_numpy(), texts, title="Most frequent kernel sequences", x="occurrences"
    )


def write_sequence_overlay(
    scope: Scope,
    target: str | Location,
    operator: str,
    min_pattern_len: int = MIN_PATTERN_LEN,
    top_k: int = TOP_K,
) -> int:
    """Write the trace with its most frequent sequences marked in a separate process, and return the number of marks.

    Raises:
        TraceError: the trace's file is gone or has changed.
        OutputError: the file cannot be written or is the trace itself.
    """
    found = sequences_under(scope, operator, min_pattern_len)
    return write_slices(scope.graph.trace, "Kernel sequences", _marking_tracks(scope.graph, found, top_k), target)


def _marking_tracks(graph: DependencyGraph, found: SequencePatterns, top_k: int) -> list[SliceTrack]:
    """Return a track for each thread with the rows, and for each stream with their GPU work, of the top patterns."""
    ranked = most_frequent(graph, found)[:top_k]
    # Patterns outside the top have no rank: their rows are left unmarked.
    rank = np.full(len(found.example), -1)
    rank[ranked] = np.arange(len(ranked))
    of_row = rank[found.pattern]
    # Each activity has the rank of the event that launched it.
    of_piece = np.repeat(of_row, np.diff(found.first))
    counts = found.counts()[ranked].tolist()
    marks = [
        {"Patterns": {_short_pattern(graph, found, at): count}}
        for at, count in zip(ranked.tolist(), counts, strict=True)
    ]
    numbers = [{"Pattern": f"#{at + 1}"} for at in range(len(ranked))]
    return [
        *_tracks_per_lane(graph, found.owner, of_row, marks),
        *_tracks_per_lane(graph, found.members, of_piece, numbers),
    ]


def _short_pattern(graph: DependencyGraph, found: SequencePatterns, pattern: int) -> str:
    """Return a pattern as text: short names of its event and its work, with bars between them."""
    example = int(found.example[pattern])
    names = [graph.name_of(int(found.owner[example])), *event_names(graph, found.group(example))]
    return "|".join(map(short_name, names))


def _tracks_per_lane(
    graph: DependencyGraph, rows: Ids, rank: Ints, arguments: Sequence[dict[str, Any]]
) -> list[SliceTrack]:
    """Return a track per thread or stream with the events that have a rank, named by it."""
    rows, rank = rows[rank >= 0], rank[rank >= 0]
    events, times, tracks = graph.event_table, graph.trace.file_times, []
    for lane in np.unique(events.lane[rows]).tolist():
        chosen = np.flatnonzero(events.lane[rows] == lane)
        chosen = chosen[np.lexsort((rows[chosen], times.start[rows[chosen]]))]  # in order of time, as a track needs it
        own, places = rows[chosen], rank[chosen].tolist()
        texts = [f"#{at + 1} {short_name(name)}" for at, name in zip(places, event_names(graph, own), strict=True)]
        marks = [arguments[at] for at in places]
        tracks.append(SliceTrack(graph.lanes.labels[lane], times.start[own], times.end[own], texts, marks))
    return tracks


def most_frequent(graph: DependencyGraph, found: SequencePatterns) -> Ints:
    """Return the patterns by count, largest first, then by text."""
    texts = pattern_texts(graph, found)
    counts = found.counts().tolist()
    return np.array(sorted(range(len(texts)), key=lambda at: (-counts[at], texts[at])), np.int64)


def pattern_texts(graph: DependencyGraph, found: SequencePatterns) -> list[str]:
    """Return the patterns as texts: the names of the event and of its work, with bars between them."""
    roots = event_names(graph, found.owner[found.example])
    groups = [event_names(graph, found.group(at)) for at in found.example.tolist()]
    return ["|".join([root, *names]) for root, names in zip(roots, groups, strict=True)]


TABLES = {"kernel_sequences": SEQUENCES}

ANALYSIS = Analysis(
    name="kernel-sequences",
    help="Repeated sequences of GPU work under an operator, with counts and times.",
    more="A sequence that repeats is a candidate for a fused kernel or a CUDA graph.",
    question="which sequences of kernels repeat under an operator?",
    examples=(
        "kernel-sequences trace.json.gz --operator aten::_foreach_add_",
        "kernel-sequences trace.json.gz --operator aten::_foreach_add_ --overlay sequences.json",
    ),
    flags=(
        Flag("operator", "text", "part of the name of an operator, annotation or Python frame", value="NAME"),
        Flag("min_pattern_len", "count", "leave out sequences of fewer GPU activities", MIN_PATTERN_LEN, value="N"),
    ),
    tables=TABLES,
    answer=answer,
    figure=figure,
)
