"""operator-kernels: the kernels that each operator launches, with launch delays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analyses.declare.analysis import Analysis
from analyses.declare.answer import Answer, Note
from analyses.declare.columns import Table, integer, ns, text
from analyses.declare.description import Flag
from analyses.declare.scope import Scope, idle_first
from analyses.declare.tables import event_names, joined, scopes_in, table_of
from analyses.display.charts import horizontal_bars
from analyses.display.dataframe_text import ARROW
from analyses.display.headline import largest_item, sequence_headline
from analyses.display.text_layout import clipped
from analyses.source.graph_names import naming_notes
from analyses.source.window_report import clock_notes
from hta_graph.attribution.graph_kernels import UNCHECKED, graph_kernels, in_own_rows, row_names
from hta_graph.attribution.replayed_names import BY_CAPTURE, WITHOUT_NAMES
from hta_graph.attribution.sequence_patterns import SequencePatterns, sequence_patterns
from hta_graph.base.arrays import percentiles_by, take_or, unique_rows
from hta_graph.base.errors import Remedy
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Ids, Ints
from hta_graph.paths.gpu_activity import WorkType

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["TABLES", "answer", "figure", "joined_names", "launch_delays", "operator_kernels", "sequences_of_operators"]

EVERY_OPERATOR = Remedy("pass operators='' for all operators", "use --operators '' for all operators")

OPERATORS = "aten::"
"""The default prefix of operator names."""
SHOWN = 20
"""How many bars a figure holds."""
WORDS = {"mean": "Mean time from", "median": "Median time from", "p95": "95th percentile of the time from"}
SPANS = {
    "launch": "the operator's start to its first launch",
    "runtime": "the start of that launch to the start of its kernel",
}
DELAYS = Table(*(
    ns(f"{which}_{delay}_delay_ns", f"{words} {span}; null for graph replays", null=True)
    for delay, span in SPANS.items()
    for which, words in WORDS.items()
))  # fmt: skip
SEQUENCES = Table(
    text("operator", "Name of the operator."),
    integer("count", "Number of occurrences of the operator with this sequence."),
    integer("kernels", "Number of kernels per occurrence."),
    *("gpu_ns", DELAYS, "kernel_sequence"),
    text(
        "operator_evidence",
        "How the operator of kernels of graph replays was found: inferred by capture; null for others.",
        null=True,
    ),
)
OPERATOR_KERNELS = Table("rank", "scope", SEQUENCES)


@OPERATOR_KERNELS.returned
def operator_kernels(scopes: Sequence[Scope], prefix: str = OPERATORS) -> pd.DataFrame:
    """List which kernels operators launch, in the order of the launches; the most frequent sequences come first.

    A kernel belongs to the innermost operator with the prefix that is open on the launch call's thread; HTA takes
    operators of other threads too. Every call that launches kernels counts, of AMD and of graphs too. Kernels of graph
    replays belong to the operators around their launches during capture, where these are known; they have no delays,
    because in a replay no operator runs. Delays are rounded to a whole nanosecond.
    """
    return table_of(scopes, lambda scope: _described_sequences(scope, prefix), OPERATOR_KERNELS)


def _described_sequences(scope: Scope, prefix: str) -> pd.DataFrame:
    """Describe the sequences of one scope, most frequent first."""
    graph, found = scope.graph, sequences_of_operators(scope, prefix)
    length = graph.event_table.end - graph.event_table.start
    count = found.counts()
    launch_delay, runtime_delay = launch_delays(scope, found)
    own = pd.DataFrame(
        {
            "operator": event_names(graph, found.owner[found.example]),
            "count": count,
            "kernels": np.diff(found.first)[found.example],
            "gpu_ns": found.per_pattern(found.per_group(length[found.members])),
            **_delay_columns("launch", launch_delay, found),
            **_delay_columns("runtime", runtime_delay, found),
            "kernel_sequence": joined_names(graph, found, ARROW),
            "operator_evidence": np.full(len(count), None, object),
        }
    )
    replayed = _replayed_sequences(scope, prefix)
    frame = joined([own, replayed], SEQUENCES) if len(replayed) else own
    return frame.sort_values(["count", "gpu_ns"], ascending=False, kind="stable", ignore_index=True)


def _replayed_sequences(scope: Scope, prefix: str) -> pd.DataFrame:
    """Describe what operators launched while graphs were captured, once for each replay."""
    graph, named = scope.graph, graph_kernels(scope.graph)
    work = scope.work.take((named.launch[scope.work.row] >= 0) & (scope.work.type != WorkType.MEMORY))
    if not len(work):
        return pd.DataFrame(columns=[*SEQUENCES])
    launches = named.launch[work.row]
    owner = in_own_rows(graph, launches, lambda one, calls: _operators_around(one, calls, prefix))
    work, owner, launches = work.take(owner >= 0), owner[owner >= 0], launches[owner >= 0]
    # In each replay an operator of the capture is one more occurrence.
    first, number = unique_rows(work.call, owner)
    order = np.lexsort((launches, number))
    codes, texts = row_names(graph)
    size = len(graph.event_table)
    names = np.concatenate([codes[:size], codes[owner[first]]])
    found = sequence_patterns((size + number[order]).astype(np.int32), work.row[order], names)
    unchecked = [one.call for one in named.replays if one.rule == UNCHECKED]
    example = found.owner[found.example] - size
    length = graph.event_table.end - graph.event_table.start
    return pd.DataFrame({
        "operator": [texts[code] for code in names[found.owner[found.example]].tolist()],
        "count": found.counts(),
        "kernels": np.diff(found.first)[found.example],
        "gpu_ns": found.per_pattern(found.per_group(length[found.members])),
        **{name: pd.array([pd.NA] * len(example), "Int64") for name in DELAYS},
        "kernel_sequence": joined_names(graph, found, ARROW),
        "operator_evidence": np.where(np.isin(work.call[first][example], unchecked), WITHOUT_NAMES, BY_CAPTURE),
    })  # fmt: skip


def _delay_columns(name: str, delay: Ints, found: SequencePatterns) -> dict[str, Ints]:
    """Return the mean, median and 95th percentile of a delay over the occurrences of each sequence."""
    patterns = len(found.example)
    return {
        f"mean_{name}_delay_ns": np.rint(found.per_pattern(delay) / found.counts()).astype(np.int64),
        f"median_{name}_delay_ns": percentiles_by(found.pattern, delay, patterns, 50),
        f"p95_{name}_delay_ns": percentiles_by(found.pattern, delay, patterns, 95),
    }


def sequences_of_operators(scope: Scope, prefix: str) -> SequencePatterns:
    """Return the kernels of each operator in the order in which they were launched and began."""
    events = scope.graph.event_table
    named = graph_kernels(scope.graph).launch[scope.work.row] >= 0
    work = scope.work.take((scope.work.call >= 0) & (scope.work.type != WorkType.MEMORY) & ~named)
    owner = _operators_around(scope.graph, work.call, prefix)
    # An operator's kernels in the order of their calls; those of one call (a graph) in the order of their starts.
    order = np.lexsort((work.row, work.call, owner))
    order = order[owner[order] >= 0]
    return sequence_patterns(owner[order], work.row[order], events.name)


def _operators_around(graph: DependencyGraph, calls: Ids, prefix: str) -> Ids:
    """Return the innermost operator with a prefix around each call; -1 where there is none."""
    wanted = np.array([name.startswith(prefix) for name in graph.names], np.bool_)
    name, around = graph.event_table.name, graph.operator_around
    found: Ids = take_or(around, calls)
    # From operator to operator outwards, for all calls at once, until each has reached one with the prefix or none.
    while (others := (found >= 0) & ~wanted[name[found]]).any():
        found[others] = around[found[others]]
    return found


def launch_delays(scope: Scope, found: SequencePatterns) -> tuple[Ints, Ints]:
    """Return, for each operator, the time to its first launch, and from there to the start of the kernel (ns)."""
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
    """Return the table ``operator_kernels``: the kernels that each operator launches, and their delays.

    Args:
        scopes: where to look.
        operators: the prefix of the operators' names; an empty text takes all.
    """
    frame = operator_kernels(scopes, operators)
    answered = scopes_in(frame)
    notes: list[str | Note] = [*naming_notes(scopes)]
    notes += [_missing_note(scope, operators) for scope in scopes if (scope.rank, scope.label) not in answered]
    most = largest_item(frame, ["operator", "kernel_sequence"], "gpu_ns")
    return Answer(
        {"operator_kernels": frame},
        [*notes, *clock_notes({scope.rank: scope.graph.gpu_clock for scope in scopes})],
        summed={"operator_kernels": "occurrences"},
        conclusion=idle_first([sequence_headline(most)] if most else [], scopes),
    )


def _missing_note(scope: Scope, prefix: str) -> str | Note:
    """Return a note on why there is no row."""
    return scope.missing() or Note(
        (f"rank {scope.rank}: no kernel in {scope.name} was launched by an operator that starts with {prefix!r}"),
        EVERY_OPERATOR,
    )


def figure(found: Answer) -> Figure:
    """Draw the GPU time of the operators' kernels, largest first."""
    frame = found.main.nlargest(SHOWN, "gpu_ns") if len(found.main) else found.main
    labels = [f"{clipped(name, 40)} ×{count:,}" for name, count in zip(frame["operator"], frame["count"], strict=True)]
    texts = [clipped(text, 300) for text in frame["kernel_sequence"]]
    return horizontal_bars(labels, frame["gpu_ns"].to_numpy() / 1e6, texts, title="GPU time of operators", x="ms")


TABLES = {"operator_kernels": OPERATOR_KERNELS}

ANALYSIS = Analysis(
    name="operator-kernels",
    help="Kernels launched by each operator, with launch delays.",
    more="A kernel belongs to the innermost operator that is open at its launch.",
    question="which kernels does each operator launch, and with what delay?",
    examples=("operator-kernels trace.json.gz", "operator-kernels trace.json.gz -o kernels.csv"),
    flags=(Flag("operators", "text", "prefix of operator names; '' for all operators", OPERATORS, value="PREFIX"),),
    tables=TABLES,
    answer=answer,
    figure=figure,
)
