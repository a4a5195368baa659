"""operator-kernels: which kernels each operator launches, and how long it takes until they are launched and start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analyses import column_types
from analyses.analysis import Analysis
from analyses.answer import Answer, Note
from analyses.description import Flag
from analyses.display.charts import horizontal_bars
from analyses.display.dataframe_text import ARROW
from analyses.display.headline import sequence_headline
from analyses.display.text_layout import clipped
from analyses.scope import Scope
from analyses.tables import Table, event_names, scopes_in, table_of
from analyses.window_report import clock_notes
from hta_graph.alignment.sequence_patterns import SequencePatterns, sequence_patterns
from hta_graph.arrays import percentiles_by
from hta_graph.errors import Remedy
from hta_graph.gpu_activity import WorkType
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Ids, Ints

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["TABLES", "answer", "figure", "joined_names", "launch_delays", "operator_kernels", "sequences_of_operators"]

OPERATORS = "aten::"
"""How the names of operators start that are looked at."""
SHOWN = 20
"""How many bars a figure holds."""
COLUMNS = (
    *("rank", "scope", "operator", "count", "kernels", "gpu_ns"),
    *(f"{which}_{delay}_delay_ns" for delay in ("launch", "runtime") for which in ("mean", "median", "p95")),
    "kernel_sequence",
)
"""``kernels`` counts those of one occurrence; the delays are rounded to a whole nanosecond."""


def operator_kernels(scopes: Sequence[Scope], prefix: str = OPERATORS) -> pd.DataFrame:
    """List which kernels operators launch, in the order of the launches.

    A kernel belongs to the innermost operator with the prefix that is open on the launching call's thread; HTA takes
    operators of other threads too. Every call that launches kernels counts, of AMD and of graphs too.

    Returns:
        rank, scope, operator, count (occurrences with this sequence), kernels (of one occurrence), gpu_ns (of all),
        mean_launch_delay_ns, median_launch_delay_ns, p95_launch_delay_ns from the operator's start to its first launch,
        mean_runtime_delay_ns, median_runtime_delay_ns, p95_runtime_delay_ns from that launch's start to that of its
        kernel (95% are no longer than p95), kernel_sequence (names joined with arrows); what occurs most comes first.
    """
    return table_of(scopes, lambda scope: _described_sequences(scope, prefix), COLUMNS)


def _described_sequences(scope: Scope, prefix: str) -> pd.DataFrame:
    """Describe the sequences of one scope, what occurs most first."""
    graph, found = scope.graph, sequences_of_operators(scope, prefix)
    length = graph.event_table.end - graph.event_table.start
    count = found.counts()
    launch_delay, runtime_delay = launch_delays(scope, found)
    frame = pd.DataFrame(
        {
            "operator": event_names(graph, found.owner[found.example]),
            "count": count,
            "kernels": np.diff(found.first)[found.example],
            "gpu_ns": found.per_pattern(found.per_group(length[found.members])),
            **_delay_columns("launch", launch_delay, found),
            **_delay_columns("runtime", runtime_delay, found),
            "kernel_sequence": joined_names(graph, found, ARROW),
        }
    )
    return frame.sort_values(["count", "gpu_ns"], ascending=False, kind="stable", ignore_index=True)


def _delay_columns(name: str, delay: Ints, found: SequencePatterns) -> dict[str, Ints]:
    """Return a delay of each sequence: its mean over the occurrences, and what half and 95% of them do not exceed."""
    patterns = len(found.example)
    return {
        f"mean_{name}_delay_ns": np.rint(found.per_pattern(delay) / found.counts()).astype(np.int64),
        f"median_{name}_delay_ns": percentiles_by(found.pattern, delay, patterns, 50),
        f"p95_{name}_delay_ns": percentiles_by(found.pattern, delay, patterns, 95),
    }


def sequences_of_operators(scope: Scope, prefix: str) -> SequencePatterns:
    """Return the kernels of each operator in the order in which they were launched and began."""
    events = scope.graph.event_table
    work = scope.work.take((scope.work.call >= 0) & (scope.work.type != WorkType.MEMORY))
    owner = _operators_around(scope.graph, work.call, prefix)
    # An operator's kernels in the order of their calls; those of one call (a graph) in the order of their starts.
    order = np.lexsort((work.row, work.call, owner))
    order = order[owner[order] >= 0]
    return sequence_patterns(owner[order], work.row[order], events.name)


def _operators_around(graph: DependencyGraph, calls: Ids, prefix: str) -> Ids:
    """Return the innermost operator with a prefix around each call; -1 where there is none."""
    wanted = np.array([name.startswith(prefix) for name in graph.names], np.bool_)
    name, around = graph.event_table.name, graph.operator_around
    found = around[calls]
    # From operator to operator outwards, for all calls at once, until each is at one with the prefix or at none.
    while (others := (found >= 0) & ~wanted[name[found]]).any():
        found[others] = around[found[others]]
    return found


def launch_delays(scope: Scope, found: SequencePatterns) -> tuple[Ints, Ints]:
    """Return for each operator how long it took to the first launch, and from that to the start of its kernel (ns)."""
    start = scope.graph.event_table.start
    first = found.members[found.first[:-1]]
    called = start[
        scope.work.call[np.searchsorted(scope.work.row, first)]
    ]  # rows of work are sorted: its place is found by bisection
    return called - start[found.owner], start[first] - called


def joined_names(graph: DependencyGraph, found: SequencePatterns, joint: str) -> list[str]:
    """Return the kernels' names of each pattern as one text."""
    return [joint.join(event_names(graph, found.group(at))) for at in found.example.tolist()]


def answer(scopes: Sequence[Scope], operators: str = OPERATORS) -> Answer:
    """Return the table ``operator_kernels``: which kernels each operator launches, and how late.

    Args:
        scopes: where to look.
        operators: how the operators' names begin; an empty text takes all.
    """
    frame = operator_kernels(scopes, operators)
    answered = scopes_in(frame)
    notes = [_missing_note(scope, operators) for scope in scopes if (scope.rank, scope.label) not in answered]
    return Answer(
        {"operator_kernels": frame},
        [*notes, *clock_notes({scope.rank: scope.graph.diagnostics for scope in scopes})],
        summed={"operator_kernels": "occurrences"},
        conclusion=sequence_headline(frame),
    )


def _missing_note(scope: Scope, prefix: str) -> str | Note:
    """Say why there is no row."""
    return scope.missing() or Note(
        f"rank {scope.rank}: no kernel in {scope.label} was launched by an operator that starts with {prefix!r}",
        Remedy("operators='' takes every operator", "--operators '' takes every operator"),
    )


def figure(found: Answer) -> Figure:
    """Draw the GPU time of the operators' kernels, largest first."""
    frame = found.main.nlargest(SHOWN, "gpu_ns") if len(found.main) else found.main
    labels = [f"{clipped(name, 40)} ×{count:,}" for name, count in zip(frame["operator"], frame["count"], strict=True)]
    texts = [clipped(text, 300) for text in frame["kernel_sequence"]]
    return horizontal_bars(labels, frame["gpu_ns"].to_numpy() / 1e6, texts, title="GPU time of operators", x="ms")


MEANINGS = {
    "operator": column_types.text("The operator's name."),
    "count": column_types.integer("How often the operator occurs with this sequence."),
    "kernels": column_types.integer("How many kernels one occurrence launches."),
    "mean_launch_delay_ns": column_types.ns("Mean time from the operator's start to its first launch"),
    "median_launch_delay_ns": column_types.ns(
        "Time from the operator's start to its first launch, which half do not exceed"
    ),
    "p95_launch_delay_ns": column_types.ns("The same, which 95% do not exceed"),
    "mean_runtime_delay_ns": column_types.ns("Mean time from that launch's start to its kernel's"),
    "median_runtime_delay_ns": column_types.ns("The same, which half do not exceed"),
    "p95_runtime_delay_ns": column_types.ns("The same, which 95% do not exceed"),
}
TABLES = {"operator_kernels": Table(operator_kernels, COLUMNS, MEANINGS)}

ANALYSIS = Analysis(
    name="operator-kernels",
    help="Which kernels each operator launches, and how long it takes until they are launched and start.",
    more="A kernel belongs to the innermost operator that is open when it is launched.",
    question="which kernels does an operator launch, how late?",
    examples=("operator-kernels trace.json.gz", "operator-kernels trace.json.gz --csv kernels.csv"),
    flags=(Flag("operators", "text", "operators whose names start so; '' takes all", OPERATORS),),
    tables=TABLES,
    answer=answer,
    figure=figure,
)
