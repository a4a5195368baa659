"""A graph from your own DataFrames: paths, replay and all queries for traces that PyTorch did not write.

Columns are validated: whole numbers, texts and names of kinds, or one clear error. Events become a trace (kinds, lanes,
one canonical order), edges a table of points (kinds, rules, and what an edge of each kind may lead between).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from hta_graph.base.arrays import distinct, find_sorted, freeze
from hta_graph.base.errors import QueryError
from hta_graph.base.text.sanitize import replace_surrogates
from hta_graph.build.from_trace import DependencyRule
from hta_graph.dependencies.context import RuleContext
from hta_graph.dependencies.host import thread_order
from hta_graph.dependencies.streams import execution, stream_order
from hta_graph.graph.conversion import HOST_TIMES, POINT_NAMES
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.edges import EdgeTable, WaitCalls
from hta_graph.graph.points import event_of, start_point
from hta_graph.graph.timeline import Timeline
from hta_graph.graph.validate import (
    edges_on_a_cycle,
    far_from_first,
    from_start_to_end,
    invalid_edges,
    repeated_rows,
    without_points,
)
from hta_graph.model import (
    BUILD_DIAGNOSTICS,
    CLOCK_FAULT_LIMIT_NS,
    EDGE_MEANING,
    GPU_KINDS,
    LONGEST_NS,
    Bools,
    Codes,
    EdgeKind,
    EdgeRule,
    EventKind,
    Evidence,
    Ids,
    Ints,
)
from hta_graph.trace.profiler_names import STEP_NAME
from hta_graph.trace.table import (
    READING_DIAGNOSTICS,
    CopyTable,
    EventTable,
    FileTimes,
    Flows,
    SyncTable,
    Trace,
    canonical_order,
    named_lanes,
)

if TYPE_CHECKING:
    import pandas as pd


SHOWN_CHARACTERS = 60
"""How much of a wrong value an error shows."""


class FrameColumns:
    """A DataFrame's columns, checked when they are asked for; rows are named by their places, from 0."""

    def __init__(self, frame: pd.DataFrame, what: str) -> None:
        """Take a DataFrame.

        Args:
            frame: the DataFrame.
            what: what it holds, for errors.

        Raises:
            QueryError: it is none, or two columns have one name.
        """
        import pandas as pd

        if not isinstance(frame, pd.DataFrame):
            raise QueryError(f"{what}: is a {type(frame).__name__}, not a pandas DataFrame; convert it")
        if not frame.columns.is_unique:
            twice = frame.columns[frame.columns.duplicated()][0]
            raise QueryError(f"{what}: two columns are called {twice!r}; keep one")
        self._frame = frame
        self._what = what

    def __len__(self) -> int:
        return len(self._frame)

    def __contains__(self, name: str) -> bool:
        return name in self._frame.columns

    def refuse(self, row: int, name: str, says: str, remedy: str) -> NoReturn:
        """Raise the error of one row.

        Raises:
            QueryError: always.
        """
        raise QueryError(f"{self._what}: row {row}, column {name!r}: {says}", remedy)

    def refuse_any(self, bad: Bools, name: str, says: str, remedy: str) -> None:
        """Raise the error of the first bad row, if there is one; ``{}`` in what it says is that row's value.

        Raises:
            QueryError: a row is bad.
        """
        if bad.any():
            row = int(np.argmax(bad))
            value = self._frame[name].iloc[row]
            self.refuse(row, name, says.format(_shortened_value(value)), remedy)

    def _column(self, name: str) -> pd.Series[Any]:
        if name not in self:
            there = ", ".join(map(str, self._frame.columns[:12])) or "none"
            raise QueryError(f"{self._what}: there is no column {name!r}; add it (available: {there})")
        return self._frame[name]

    def whole_numbers(self, name: str, blank: int | None = None) -> Ints:
        """Return a column of whole numbers.

        Args:
            name: the column's name.
            blank: what stands for a row without a value, or for a whole column that is not there; None: neither may be.

        Raises:
            QueryError: the column is missing, or holds something else than whole numbers of 64 bits.
        """
        if name not in self and blank is not None:
            return np.full(len(self), blank, np.int64)
        column = self._column(name)
        absent = column.isna().to_numpy(np.bool_)
        if blank is None:
            self.refuse_any(absent, name, "has no value", "give it a whole number")
        kept = column[~absent]
        found = np.full(len(column), 0 if blank is None else blank, np.int64)
        found[~absent] = self._as_integers(kept, np.flatnonzero(~absent), name)
        return found

    def _as_integers(self, kept: pd.Series[Any], rows: Ints, name: str) -> Ints:
        import pandas as pd

        kinds = pd.api.types
        if kinds.is_integer_dtype(kept.dtype) and not kinds.is_unsigned_integer_dtype(kept.dtype):
            return kept.to_numpy(np.int64)
        if kinds.is_float_dtype(kept.dtype):
            return self._from_floats(kept, rows, name)
        # Columns of Python's own objects are read one by one: nothing else tells whole numbers from what looks so.
        values = kept.tolist()
        for row, value in zip(rows.tolist(), values, strict=True):
            if not _is_integer(value):
                self.refuse(
                    row, name, f"{_shortened_value(value)} is not a whole number of 64 bits", _remedy_for(value)
                )
        return np.array([int(value) for value in values], np.int64)

    def _from_floats(self, kept: pd.Series[Any], rows: Ints, name: str) -> Ints:
        values = kept.to_numpy(np.float64)
        digits = 24 if kept.to_numpy().dtype == np.float32 else 53
        whole = np.isfinite(values) & (np.floor(values) == values)
        exact = np.abs(values) < 2.0**digits
        for bad, says, remedy in (
            (~whole, "{} is no whole number", "round it"),
            (~exact, "{} is a float too large to be exact", "keep such numbers as int64 from the start"),
        ):
            if bad.any():
                at = int(np.argmax(bad))
                self.refuse(int(rows[at]), name, says.format(values[at]), remedy)
        return values.astype(np.int64)

    def texts(self, name: str, *, may_be_blank: bool = False) -> tuple[list[str], Ids]:
        """Return the different texts of a column, and the code of each row's; -1 for a row without one.

        Args:
            name: the column's name.
            may_be_blank: whether rows, or the whole column, may be without a text.

        Raises:
            QueryError: the column is missing, or holds something else.
        """
        import pandas as pd

        if name not in self and may_be_blank:
            return [], np.full(len(self), -1, np.int32)
        column = self._column(name)
        codes, values = pd.factorize(column)
        if not may_be_blank:
            self.refuse_any(codes < 0, name, "has no value", "give it a text")
        texts = list(values)
        for code, text in enumerate(texts):
            if says := _why_no_name(text):
                self.refuse(int(np.argmax(codes == code)), name, f"{_shortened_value(text)} {says}", "give it a name")
        return texts, codes.astype(np.int32)

    def codes(self, name: str, labels: Sequence[str]) -> Ids:
        """Return the places of a column's texts among labels; -1 for rows without one, and where there is no column.

        Raises:
            QueryError: a text is no label.
        """
        texts, codes = self.texts(name, may_be_blank=True)
        for code, text in enumerate(texts):
            if text not in labels:
                says = f"there is no {name} {_shortened_value(text)}"
                self.refuse(int(np.argmax(codes == code)), name, says, f"available: {', '.join(labels)}")
        place = np.array([*(labels.index(text) for text in texts), -1], np.int32)
        return place[codes]


def _why_no_name(text: Any) -> str:
    if not isinstance(text, str) or not text:
        return "is no text"
    return "" if replace_surrogates(text) == text else "holds half of a pair of surrogates, which no encoding can write"


def _is_integer(value: Any) -> bool:
    is_number = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_number and -(2**63) <= int(value) < 2**63


def _shortened_value(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)[:SHOWN_CHARACTERS]


def _remedy_for(value: Any) -> str:
    if hasattr(value, "timestamp") or hasattr(value, "total_seconds"):
        return "times are whole nanoseconds, as .astype('int64') makes them of datetime64[ns]"
    return "give whole numbers, as int64"


LARGEST_INDEX = 2**31 - 1
EVENT_KINDS = [kind.label for kind in EventKind if kind != EventKind.RENDEZVOUS]
"""Kinds of events that a frame can hold, in the order of their codes; ranks meet in jobs alone."""


def trace_of_events(events: FrameColumns, name: str, rank: int | None = None) -> Trace:
    """Make a trace of events.

    Args:
        events: the columns ``name``, ``lane``, ``start_ns`` and ``end_ns``; optional are ``event_index``, ``kind``,
            ``correlation``, ``external_id``, ``rank``, ``host_start_ns`` and ``host_end_ns``.
        name: what the graph is called in errors and outputs.
        rank: whose they are; None: what the column says.

    Raises:
        QueryError: a column is missing, or a row contradicts itself or another one.
    """
    if rank is not None and (isinstance(rank, bool) or not isinstance(rank, int | np.integer) or rank < 0):
        raise QueryError(f"the rank is {rank!r}; give a whole number of at least 0, or omit it")
    known_rank = _only_rank(events)
    start, end = _checked_times(events, "start_ns", "end_ns")
    moved = all(name in events for name in HOST_TIMES)
    host_start, host_end = _checked_times(events, *HOST_TIMES) if moved else (start, end)
    index = _checked_index(events)
    names, code = events.texts("name")
    lanes, lane = events.texts("lane")
    kind = events.codes("kind", EVENT_KINDS)
    on_stream = _are_streams(lanes, lane, kind)
    table = named_lanes(lanes, [label for label, is_stream in zip(lanes, on_stream, strict=True) if is_stream])
    columns: dict[str, Any] = {
        "index": index,
        "kind": _event_kinds(kind, names, code, on_stream[lane]),
        "name": _renumbered(names, sorted(names), code),
        "lane": _renumbered(lanes, table.labels, lane),
        "start": host_start,
        "end": host_end,
        "correlation": events.whole_numbers("correlation", blank=-1),
        "external_id": events.whole_numbers("external_id", blank=-1),
        "sequence": np.full(len(events), -1),
        "forward_thread": np.full(len(events), -1),
        "collective": np.zeros(len(events), np.bool_),
    }
    order = canonical_order(columns)
    return Trace(
        path=Path(name),
        events=EventTable.of(**{key: column[order] for key, column in columns.items()}),
        names=tuple(sorted(names)),
        lanes=table,
        syncs=SyncTable.empty(),
        copies=CopyTable.empty(),
        flows=Flows.empty(),
        rank=known_rank if rank is None else int(rank),
        world_size=None,
        gpu_names=(),
        diagnostics=dict.fromkeys(READING_DIAGNOSTICS, 0),
        moved_from=FileTimes(freeze(start[order]), freeze(end[order])) if moved else None,
    )


def _checked_times(events: FrameColumns, begins: str, ends: str) -> tuple[Ints, Ints]:
    start, end = events.whole_numbers(begins), events.whole_numbers(ends)
    events.refuse_any(end < start, ends, f"{{}} is before the row's {begins}", "let it end at or after its start")
    apart = far_from_first(start, end, LONGEST_NS)
    events.refuse_any(apart, ends, "{} is more than a year after the first start", "give times in ns")
    return start, end


def _checked_index(events: FrameColumns) -> Ints:
    if "event_index" not in events:
        return np.arange(len(events), dtype=np.int64)
    index = events.whole_numbers("event_index")
    outside = (index < 0) | (index > LARGEST_INDEX)
    events.refuse_any(outside, "event_index", "{} is not a number from 0 to 2³¹ − 1", "number the events from 0")
    events.refuse_any(repeated_rows(index), "event_index", "{} occurs twice", "give each event its own number")
    return index


def _only_rank(events: FrameColumns) -> int | None:
    if "rank" not in events:
        return None
    ranks = distinct(events.whole_numbers("rank"))
    if len(ranks) > 1:
        raise QueryError(
            f"events: column 'rank' has {len(ranks)} ranks, but this graph has a single rank; "
            "name lanes by rank and omit the column, or pass one rank's rows"
        )
    return int(ranks[0]) if len(ranks) else None


def _are_streams(lanes: list[str], lane: Ids, kind: Ids) -> Bools:
    """Mark the lanes that are streams: by their text, else by whether GPU work is on them."""
    has_work = np.zeros(len(lanes), np.bool_)
    has_work[lane[np.isin(kind, GPU_KINDS)]] = True
    begins = [(label.startswith("thread "), label.startswith("stream ")) for label in lanes]
    pairs = zip(begins, has_work.tolist(), strict=True)
    return np.array([stream or (works and not thread) for (thread, stream), works in pairs], np.bool_)


def _event_kinds(kind: Ids, names: list[str], name: Ids, on_stream: Bools) -> Codes:
    """Fill in the kinds that rows do not say: steps by their name, else by the lane."""
    is_step = np.array([STEP_NAME.fullmatch(text) is not None for text in names] or [False])[name]
    usual = np.where(on_stream, EventKind.KERNEL, np.where(is_step, EventKind.ANNOTATION, EventKind.CPU_OP))
    return np.where(kind >= 0, kind, usual).astype(np.int8)


def _renumbered(texts: list[str], ordered: list[str] | tuple[str, ...], code: Ids) -> Ids:
    """Let codes count the texts in another order."""
    place = {text: at for at, text in enumerate(ordered)}
    number: Ids = np.array([place[text] for text in texts], np.int32)[code]
    return freeze(number)


EDGE_KINDS = [kind.label for kind in EdgeKind]
RANK_LOCAL_KINDS = [kind for kind in EdgeKind if not EDGE_MEANING[kind].of_job]
USUAL_KINDS = np.array(
    [[EdgeKind.THREAD_HANDOFF, EdgeKind.LAUNCH], [EdgeKind.STREAM_SYNC, EdgeKind.EVENT_WAIT]], np.int8
)
"""The kind of an edge that says none, by whether its source and its target are GPU activities."""


def table_of_edges(edges: FrameColumns, trace: Trace) -> EdgeTable:
    """Make a table of edges, in the order of the frame.

    Args:
        edges: the columns ``source_index`` and ``target_index``; optional are ``source_point`` (``end``),
            ``target_point`` (``start``), ``kind``, ``evidence`` and ``rule``.
        trace: the events that they join.

    Raises:
        QueryError: a column is missing, or a row contradicts itself, another one or the events.
    """
    _refuse_ranks(edges)
    source = _points_of(edges, "source", trace)
    target = _points_of(edges, "target", trace)
    kind = _edge_kinds(edges, trace, source, target)
    _check_sides(edges, trace, EdgeTable.of(source=source, target=target, kind=kind, rule=0))
    _refuse_repeated(edges, source, target, kind)
    return EdgeTable.of(source=source, target=target, kind=kind, rule=_rules_of(edges))


def _refuse_ranks(edges: FrameColumns) -> None:
    names = [name for name in ("source_rank", "target_rank") if name in edges]
    ranks = np.concatenate([np.empty(0, np.int64), *(edges.whole_numbers(name) for name in names)])
    if len(np.unique(ranks)) > 1:
        raise QueryError("edges: they lead between ranks, but this graph has a single rank; pass one rank's rows")


def _points_of(edges: FrameColumns, side: str, trace: Trace) -> Ids:
    """Return the points that one side of the edges names."""
    column, index = f"{side}_index", trace.events.index
    order = np.argsort(index, kind="stable")
    found = find_sorted(edges.whole_numbers(column), index[order])
    edges.refuse_any(
        found < 0, column, "there is no event {}", "name events by event_index, or by row if there is no such column"
    )
    rows = order[found] if len(order) else found
    without = without_points(trace, start_point(rows))
    edges.refuse_any(without, column, "event {} is of a kind that edges cannot join", "make it a cpu_op or a kernel")
    point = edges.codes(f"{side}_point", POINT_NAMES)
    usual = POINT_NAMES.index("end" if side == "source" else "start")
    return freeze((2 * rows + np.where(point >= 0, point, usual)).astype(np.int32))


def _edge_kinds(edges: FrameColumns, trace: Trace, source: Ids, target: Ids) -> Codes:
    """Return the kinds; of rows that say none by what they join."""
    lane, on_gpu = trace.events.lane, trace.is_gpu
    rows = event_of(source), event_of(target)
    kind = edges.codes("kind", EDGE_KINDS)
    edges.refuse_any(
        (kind >= 0) & ~np.isin(kind, RANK_LOCAL_KINDS),
        "kind",
        "{} leads between ranks, but this graph has a single rank",
        "use event_wait or thread_handoff",
    )
    usual = USUAL_KINDS[on_gpu[rows[0]].astype(np.int8), on_gpu[rows[1]].astype(np.int8)]
    usual[~on_gpu[rows[0]] & (lane[rows[0]] == lane[rows[1]])] = EdgeKind.THREAD_ORDER
    usual[on_gpu[rows[0]] & from_start_to_end(source, target)] = EdgeKind.EXECUTION
    return np.where(kind >= 0, kind, usual).astype(np.int8)


def _check_sides(edges: FrameColumns, trace: Trace, table: EdgeTable) -> None:
    """Check that each edge leads between what an edge of its kind can."""
    for wrong, says in invalid_edges(table, trace):
        _refuse_kind(edges, table, wrong, says)


def _refuse_kind(edges: FrameColumns, table: EdgeTable, bad: Bools, says: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        kind = EdgeKind(int(table.kind[row])).label
        edges.refuse(row, "kind", f"{kind} {says}", "use another kind, or leave it blank")


def _refuse_repeated(edges: FrameColumns, source: Ids, target: Ids, kind: Codes) -> None:
    again = repeated_rows(source, target, kind)
    edges.refuse_any(again, "source_index", "the edge from event {} occurs twice", "drop duplicates")


def _rules_of(edges: FrameColumns) -> Ints | Ids:
    """Return the rules; a row that says only that it was inferred has its producer's."""
    rule = edges.codes("rule", [member.label for member in EdgeRule])
    evidence = edges.codes("evidence", [member.label for member in Evidence])
    inferred = rule != EdgeRule.RECORDED
    contrary = (rule >= 0) & (evidence >= 0) & (inferred != (evidence == Evidence.INFERRED))
    edges.refuse_any(contrary, "evidence", "{} contradicts the rule", "leave one of them blank")
    usual = np.where(evidence == Evidence.INFERRED, EdgeRule.OF_PRODUCER, EdgeRule.RECORDED)
    return np.where(rule >= 0, rule, usual)


ORDER_RULES: dict[EdgeKind, DependencyRule] = {
    EdgeKind.THREAD_ORDER: thread_order,
    EdgeKind.EXECUTION: execution,
    EdgeKind.STREAM_ORDER: stream_order,
}
"""What goes without saying, and the rules that find it."""


def from_dataframes(
    events: pd.DataFrame,
    edges: pd.DataFrame,
    *,
    name: str = "frames",
    rank: int | None = None,
    add_order: bool = True,
    clock_fault_ns: int = CLOCK_FAULT_LIMIT_NS,
) -> DependencyGraph:
    """Build a graph of one rank from DataFrames with the columns of ``graph.events`` and ``graph.edges``.

    Args:
        events: name, lane, start_ns, end_ns (whole ns); optional event_index (else the row's place), kind (else
            ``kernel`` on streams, ``annotation`` for ``ProfilerStep#N``, ``cpu_op`` otherwise), correlation,
            external_id, host_start_ns and host_end_ns (the times that edges join, where a GPU's clock is another
            one). A lane is a stream if its text begins with ``stream`` or GPU work is on it, else a thread.
        edges: source_index, target_index; optional source_point (else ``end``), target_point (else ``start``), kind
            (else by what it joins: thread_order, thread_handoff, launch, stream_sync, event_wait, execution),
            evidence and rule. The first edges of the graph are these, in this order.
        name: what the graph is called in errors and outputs.
        rank: the rank, if known; else that of a column ``rank``.
        add_order: add the order of threads, the execution of activities and the order of streams, each unless
            ``edges`` has edges of that kind.
        clock_fault_ns: how far back in time an edge can lead; it then has lag 0 and is ``clamped``.

    Raises:
        QueryError: a frame is not valid; the error names the row, the column and the remedy.
    """
    given = FrameColumns(edges, "edges")
    trace = trace_of_events(FrameColumns(events, "events"), name, rank)
    table, timeline = table_of_edges(given, trace), Timeline(trace)
    back = timeline.times[table.source] - timeline.times[table.target]
    given.refuse_any(
        back > clock_fault_ns, "target_index", f"event {{}} is more than {clock_fault_ns} ns before the edge's source",
        "swap source and target, or allow it with clock_fault_ns",
    )  # fmt: skip
    notes: Counter[str] = Counter(edges_clamped=int(np.count_nonzero(back > 0)))
    if add_order:
        table = _with_order(table, RuleContext(trace, timeline), notes)
    _refuse_cycles(given, table, timeline)
    notes["nesting_violations"] = timeline.calls.violations
    return DependencyGraph(trace, timeline, table, {key: notes[key] for key in BUILD_DIAGNOSTICS}, WaitCalls.empty())


def _with_order(table: EdgeTable, context: RuleContext, notes: Counter[str]) -> EdgeTable:
    """Add the edges of the implied kinds that the frame does not have."""
    missing = [rule for kind, rule in ORDER_RULES.items() if not (table.kind == kind).any()]
    added = [rule(context) for rule in missing]
    notes += context.notes
    return EdgeTable.join([table, *added])


def _refuse_cycles(given: FrameColumns, table: EdgeTable, timeline: Timeline) -> None:
    """Refuse edges on a cycle; what was added comes after what was given, and alone has none."""
    cycle = np.sort(edges_on_a_cycle(table, timeline))
    if len(cycle):
        others = list(map(str, cycle[1:6][cycle[1:6] < len(given)].tolist()))
        if cycle[-1] >= len(given):
            others.append("implied order (add_order)")
        says = "the edge is on a cycle" + " with " * bool(others) + ", ".join(others)
        given.refuse(int(cycle[0]), "source_index", says, "drop one of them")
