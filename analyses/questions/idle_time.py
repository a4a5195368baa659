"""idle-time: why the GPU is idle, by cause, by the wait or operator behind it, and per stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.declare.analysis import Analysis
from analyses.declare.answer import Answer
from analyses.declare.columns import GAP_CAUSES, Table, integer, ns, share, text
from analyses.declare.description import Flag
from analyses.declare.scope import LEAST_SAID, Scope, naming_window, several_gpus
from analyses.declare.tables import LateTables, event_indices, event_names, joined, table_of
from analyses.display.charts import COLOUR, empty_figure, new_figure, row_labels
from analyses.display.headline import outlier, rows_at_outlier, sums_per_scope
from analyses.display.labels import NOT_STARTED, SHORT
from analyses.display.sentence_format import brief_share, counted, quoted, time_and_share
from hta_graph.base.arrays import find_sorted, percentiles_by, summed_by, take_or, unique_rows
from hta_graph.base.errors import UsageError
from hta_graph.base.text.shorten import short_name
from hta_graph.graph.conversion import texts_of_codes
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.event_names import row_labels as event_labels
from hta_graph.graph.event_names import wrapped_frames
from hta_graph.model import Codes, EdgeKind, Evidence, GapCause, Ids, Ints
from hta_graph.multi_rank.matching.collectives import RankWaits, waits_by_rank
from hta_graph.paths.gpu_activity import StreamIntervals, activities, device_gaps, stream_intervals
from hta_graph.paths.host_pauses import device_launches
from hta_graph.paths.idle_gap_causes import GapExplainer, Gaps, GapSegments
from hta_graph.paths.intervals import union
from hta_graph.paths.time_accounting import lanes_of_owners
from hta_graph.paths.windows import WHOLE_TRACE, median_step
from hta_graph.trace.event_args import Objects
from hta_graph.what_if.bounds import Bounds, priced_window

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["TABLES", "answer", "figure", "idle_time", "idle_waits", "longest_gaps", "stream_idle_time"]

TITLE = "GPU idle time by cause"

LAUNCH_GAP_US = 30.0
"""A gap shorter than this after a launch in time is usual."""
OF_STREAM = share("idle_share", "Idle time as a share of the stream's idle time", null=True)
GAPS = integer("gaps", "Gaps that this is part of.")


class LaunchGap(IntEnum):
    """When the activity behind a gap of its stream was launched."""

    HOST_WAIT = 0
    """After the stream was done with all before: the host was late."""
    KERNEL_WAIT = 1
    """In time, and the gap is shorter than the threshold: the stream's usual gap between activities."""
    OTHER = 2
    """In time, and the gap is longer: something else kept it waiting."""
    LAUNCH_UNKNOWN = 3
    """Its launching call is not in the file."""

    @property
    def label(self) -> str:
        """The name in output: lower case."""
        return self.name.lower()


LABELS = np.array([cause.label for cause in LaunchGap], object)
LAUNCH_GAPS = Table(
    *("rank", "scope", "stream", text("cause", "Why the stream was idle.", values=LABELS.tolist())),
    *("idle_ns", OF_STREAM, GAPS),
)


@LAUNCH_GAPS.returned
def launch_gaps(scopes: Sequence[Scope], *, launch_gap_us: float = LAUNCH_GAP_US) -> pd.DataFrame:
    """Divide each stream's idle time by when the next activity was launched.

    The causes are HTA's. Gaps run from the latest end so far, so that none is negative; an activity whose launch is not
    in the file is not counted as launched in time. HTA documents its threshold in nanoseconds and compares it with
    microseconds.

    Args:
        scopes: where to look.
        launch_gap_us: the length below which a gap after a launch in time is ``kernel_wait``, in µs.

    Raises:
        UsageError: the threshold is negative.
    """
    busy = [scope for scope in scopes if len(scope.running)]
    return table_of(busy, lambda scope: _gaps_per_stream(scope, launch_gap_us), LAUNCH_GAPS)


def _gaps_per_stream(scope: Scope, launch_gap_us: float) -> dict[str, Any]:
    """Sum and count the gaps of one scope by stream and cause."""
    found = stream_intervals(scope.running)
    idle = found.end > found.start
    sums, counts = _sums_and_counts(found, causes_by_launch(scope, found, launch_gap_us), idle)
    lane, cause = np.nonzero(sums)
    return {
        "stream": np.array(scope.graph.lanes.labels, object)[lane],
        "cause": LABELS[cause],
        "idle_ns": sums[lane, cause],
        "idle_share": sums[lane, cause] / sums.sum(axis=1)[lane],
        "gaps": counts[lane, cause],
    }


def causes_by_launch(scope: Scope, found: StreamIntervals, launch_gap_us: float) -> Codes:
    """Return the cause of each interval between the end of a stream's earlier work and the start of its next one."""
    # stream     ####|......gap......|####
    # launched    ^ here: kernel_wait or other, by the gap's length
    # launched             ^ here: host_wait, the stream was idle before
    if launch_gap_us < 0:
        raise UsageError(f"the launch-gap threshold is {launch_gap_us:g} µs; use 0 µs or more")
    launched = scope.graph.event_table.start[found.call]
    # Launched in time: short gaps are usual on a stream, long ones have another reason, which HTA does not name.
    in_time = np.where(found.length < launch_gap_us * 1e3, LaunchGap.KERNEL_WAIT, LaunchGap.OTHER)
    cause = np.where(launched > found.start, LaunchGap.HOST_WAIT, in_time)
    return np.where(found.call < 0, LaunchGap.LAUNCH_UNKNOWN, cause).astype(np.int8)


def _sums_and_counts(found: StreamIntervals, cause: Codes, counted: Any) -> tuple[Ints, Ints]:
    """Return sum and number of the counted intervals by lane and cause."""
    # A grid of lanes and causes: few of either, however many gaps there are.
    shape = (int(found.lane.max(initial=-1)) + 1, len(LaunchGap))
    cell = found.lane[counted].astype(np.int64) * len(LaunchGap) + cause[counted]
    size = shape[0] * shape[1]
    sums, counts = summed_by(cell, found.length[counted], size), np.bincount(cell, minlength=size)
    return sums.reshape(shape), counts.reshape(shape)


NOTABLE_PAUSES = 0.05
"""Pauses of the host are reported from this share of the idle time on."""

WAITING = (GapCause.EVENT_WAIT, GapCause.HOST_BLOCKED, GapCause.STREAM_ORDER, GapCause.GRAPH_ORDER)
"""Causes that mean that something waited for GPU work."""


def blame_ranks(graph: DependencyGraph, pieces: GapSegments, waits: RankWaits) -> GapSegments:
    """Attribute to ``other_rank`` the parts in which the awaited work itself waits for another rank.

    Copies of a collective wait before they start: the gap in front of them is that wait.
    """
    edges, is_caused = graph.edges_at(pieces.edge), pieces.edge >= 0
    source, target = (np.where(is_caused, rows, -1) for rows in (edges.source, edges.target))
    place, ending = find_sorted(source, waits.row), find_sorted(target, waits.row)
    place[~np.isin(pieces.cause, WAITING)] = -1
    nothing = np.iinfo(np.int64).max
    before = take_or(waits.start, ending, otherwise=nothing) < graph.event_table.start[target]
    before &= graph.event_flags.moves_memory[target]
    before &= np.isin(pieces.cause, (*WAITING, GapCause.UNKNOWN))
    place, source = np.where(before, ending, place), np.where(before, target, source)
    since = np.maximum(pieces.start, take_or(waits.start, place, otherwise=nothing))
    until = np.minimum(pieces.end, take_or(waits.end, place, otherwise=0))
    blamed = until > since
    if not blamed.any():
        return pieces
    own, since, until = pieces.take(blamed), since[blamed], until[blamed]
    event = source[blamed].astype(np.int32)
    parts = GapSegments.join([
        pieces.take(~blamed),
        replace(own, end=since),
        replace(own, start=since, end=until, event=event, cause=np.full(len(own), GapCause.OTHER_RANK, np.int8)),
        replace(own, start=until),
    ])  # fmt: skip
    parts = parts.take(parts.end > parts.start)
    return parts.take(np.lexsort((parts.start, parts.gap)))


def _headline(causes: pd.DataFrame, waits: pd.DataFrame, scopes: Sequence[Scope]) -> list[str]:
    """Say for how much of the time the GPU is idle where it is most so, and what most of that is.

    Args:
        causes: idle time by cause, as :func:`analyses.questions.idle_time.idle_time` lists it.
        waits: the same by what is behind it.
        scopes: the windows.
    """
    causes, waits = (one[one["cause"] != GapCause.NOT_RECORDED.label] for one in (causes, waits))
    found = outlier(sums_per_scope(causes), "window_share") if len(causes) else None
    if found is None or not found["idle_ns"]:
        return []
    idle = f"GPU idle {brief_share(found['window_share'])} of the time{found.where}{found.typical}"
    if found["window_share"] < LEAST_SAID:
        return [idle + _of_median_step(scopes, float(found["window_share"]))]
    cause = rows_at_outlier(causes, found).iloc[0]
    largest, behind = SHORT[cause["cause"]], _largest_wait(rows_at_outlier(waits, found), cause["cause"])
    if cause["cause"] == GapCause.LAUNCH.label and len(scopes) == 1 and scopes[0].work_does_not_start:
        largest, behind = NOT_STARTED, ""
    said = f"{idle}; largest cause: {largest} ({brief_share(cause['idle_share'])} of it{behind})"
    return [said + _of_median_step(scopes, float(found["window_share"]))]


UNLIKE = 0.1
"""The median step is named where its idle share differs from the whole trace's by this much."""


def _of_median_step(scopes: Sequence[Scope], whole_share: float) -> str:
    """Say how idle the median step is, the window of other commands, where the whole trace is unlike it."""
    if len(scopes) != 1 or not scopes[0].is_open or scopes[0].label != WHOLE_TRACE:
        return ""
    usual = priced_window(scopes[0].graph, median_step()(scopes[0].graph))
    if usual.step is None or usual.end_ns <= usual.start_ns:
        return ""
    idle_share = Bounds.of(scopes[0].graph, usual).gpu_idle_ns / (usual.end_ns - usual.start_ns)
    if abs(idle_share - whole_share) < UNLIKE:
        return ""
    return f"; the median step is idle {brief_share(idle_share)} of its time: --step {usual.step}"


def _largest_wait(waits: pd.DataFrame, cause: str) -> str:
    """Name what is behind most of a cause, if there is something."""
    own = waits[(waits["cause"] == cause) & waits["name"].notna()]
    if not len(own):
        return ""
    sums = own.groupby("name", sort=False)["idle_ns"].sum()
    share = "" if len(sums) == 1 else "mostly " if 2 * sums.max() >= sums.sum() else "longest: "
    return f", {share}{quoted(short_name(str(sums.idxmax())))}"


CAUSE_COLOUR: Mapping[GapCause, str] = {
    GapCause.HOST_OPERATOR: COLOUR["cpu"],
    GapCause.HOST_CALL: "#2f6fbd",
    GapCause.HOST_BLOCKED: "#1d4f91",
    GapCause.HOST_NO_OPERATOR: "#8fb8ea",
    GapCause.DATA_LOADING: "#4fb3b3",
    GapCause.OTHER_THREAD: "#8878d2",
    GapCause.QUEUE_FULL: "#c76b98",
    GapCause.LAUNCH: "#a06bd0",
    GapCause.STREAM_ORDER: "#3fa65c",
    GapCause.GRAPH_ORDER: "#2f8049",
    GapCause.EVENT_WAIT: "#e8893a",
    GapCause.LAUNCH_UNKNOWN: "#b9a7a7",
    GapCause.UNKNOWN: COLOUR["unexplained"],
    GapCause.NO_MORE_WORK: COLOUR["idle"],
    GapCause.OTHER_RANK: "#b5532a",
    GapCause.NOT_RECORDED: COLOUR["not_recorded"],
}
"""Blue: the host; purple: launching; green and orange: the GPU's own order; red and gray: unknown."""
BARS = [(cause.label, CAUSE_COLOUR[cause]) for cause in GapCause]
"""The causes as a figure stacks them; one without a color is an error when this module is imported."""


def bars_of_causes(causes: pd.DataFrame) -> Figure:
    """Draw one stacked bar per rank or step: idle time by cause, as a share of the window."""
    if causes.empty:
        return empty_figure(TITLE, "No idle time: no GPU activity was recorded, or there are no gaps.")
    made = new_figure(title=TITLE, y="share of the window")
    labelled = causes.assign(label=row_labels(causes))
    order = list(dict.fromkeys(labelled["label"]))
    for cause, colour in BARS:
        own = labelled[labelled["cause"] == cause]
        if len(own):
            made.add_bar(
                name=SHORT[cause],
                x=own["label"],
                y=own["window_share"],
                customdata=own["idle_ns"] / 1e6,
                marker_color=colour,
                hovertemplate="%{x}: %{y:.1%}, %{customdata:,.3f} ms",
            )
    made.update_layout(barmode="stack", bargap=0.3)
    made.update_xaxes(categoryorder="array", categoryarray=order)
    made.update_yaxes(tickformat=".3~%", rangemode="tozero")
    return made


LONGEST = 20
CAUSES = np.array([cause.label for cause in GapCause], object)
EDGES = [kind.label for kind in EdgeKind]
EVIDENCE = [evidence.label for evidence in Evidence]
USUAL_GAPS = {"median_gap_ns": 50, "p95_gap_ns": 95}
"""Columns of how long the time of a cause in one gap usually is, and which percent of them do not exceed it."""
CAUSE = text("cause", "Why nothing ran.", values=GAP_CAUSES)
OF_WINDOW = share("idle_share", "Idle time as a share of all idle time in the window; null without any", null=True)
USUAL = Table(
    ns("median_gap_ns", "Median of its time per gap"), ns("p95_gap_ns", "95th percentile of its time per gap")
)
FROM = text("evidence", "Whether the edge is recorded or inferred; null without an edge.", null=True, values=EVIDENCE)
BY_CAUSE = Table(
    *("rank", "scope", CAUSE, "idle_ns", OF_WINDOW),
    *(share("window_share", "Idle time as a share of the window", null=True), GAPS, USUAL),
)
BY_STREAM = Table("rank", "scope", "stream", CAUSE, "idle_ns", OF_STREAM, GAPS, USUAL)
WAITS = Table(
    *("rank", "scope", CAUSE, "idle_ns", OF_WINDOW, GAPS, FROM),
    *(text("lane", "The thread or stream of the named event; null if none.", null=True), "operator", "name"),
)
LONGEST_GAPS = Table(
    *("rank", "scope", ns("offset_ns", "Start of the gap, from the start of the window"), "idle_ns", CAUSE),
    share("cause_share", "Time of the largest cause as a share of the gap"),
    text("edge", "The edge that delays the next activity; null if none.", null=True, values=EDGES),
    *(FROM, integer("event_index", "The next activity; null if none follows.", null=True)),
    *(text("kernel", "The next activity's name; null if none follows.", null=True), "name"),
)


@dataclass(frozen=True)
class ExplainedGaps:
    """The gaps of a graph's scopes, on all streams together or on single ones (``lane``), and their explained parts.

    ``scope`` is the place of each gap's scope among ``scopes``, in ascending order.
    """

    scopes: Sequence[Scope]
    explainer: GapExplainer
    gaps: Gaps
    scope: Ints
    lane: Ids
    pieces: GapSegments

    @property
    def graph(self) -> DependencyGraph:
        """The graph of all of the scopes."""
        return self.scopes[0].graph

    def of_scopes(self, figure: Callable[[Scope], int]) -> Ints:
        """Return a figure of each scope."""
        return np.array([figure(scope) for scope in self.scopes], np.int64)

    def keys(self, **codes: Any) -> dict[str, Any]:
        """Return the columns of the pieces' scopes and of other keys."""
        return {"scope": self.scope[self.pieces.gap], **codes}

    def labelled(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Name the scopes of rows by rank and label, in the order of the scopes."""
        rows = rows.sort_values("scope", kind="stable", ignore_index=True)
        labels = np.array([scope.label for scope in self.scopes], object)
        return rows.assign(rank=self.scopes[0].rank, scope=labels[rows["scope"]])


@BY_CAUSE.returned
def idle_time(scopes: Sequence[Scope]) -> pd.DataFrame:
    """Divide the time in which no stream runs anything by what delayed the next activity, the longest cause first.

    From the start of the activity that ends a gap, the edges that bound it are followed back as far as the gap's start;
    what is on that way is the cause. The rows of a scope sum to the temporal breakdown's idle time, to the
    nanosecond. ``launch_unknown`` and ``unknown`` have no recorded cause. With multiple ranks, ``other_rank`` is the
    time in which awaited communication itself waits for another rank.
    """
    return _idle_time_table(ScopeExplainer().device(scopes))


@BY_STREAM.returned
def stream_idle_time(scopes: Sequence[Scope]) -> pd.DataFrame:
    """Divide each stream's time between its activities by cause; other streams may run meanwhile.

    The time before a stream's first and behind its last activity in the scope does not count. A stream that waits for
    another's work waits for its event (``event_wait``), or its launch comes late because the host waits
    (``host_blocked``), as long as that work takes.
    """
    return _stream_table(ScopeExplainer().streams(scopes))


@WAITS.returned
def idle_waits(scopes: Sequence[Scope], *, innermost: bool = False) -> pd.DataFrame:
    """List which operators, calls, frames and waits are behind the idle GPU, longest first.

    What is named is the operator, call or frame on the host; of stream order and event waits the activity waited for;
    of unknown causes what started late. The operator is the outermost around it, or around its launch.

    Args:
        scopes: where to look.
        innermost: name the innermost operators instead of the outermost ones.
    """
    return _waits_table(ScopeExplainer().device(scopes), innermost=innermost)


@LONGEST_GAPS.returned
def longest_gaps(scopes: Sequence[Scope], count: int = LONGEST) -> pd.DataFrame:
    """List the longest gaps in which no stream runs anything, each with the cause of its longest part."""
    return _longest_gaps_table(ScopeExplainer().device(scopes), count)


class ScopeExplainer:
    """Explains the gaps of scopes, with one explainer per graph."""

    def __init__(self, data_load: Sequence[str] = ()) -> None:
        self._data_load = data_load
        self._known: dict[DependencyGraph, GapExplainer] = {}
        self._waits: dict[int, RankWaits] | None = None

    def device(self, scopes: Sequence[Scope]) -> list[ExplainedGaps]:
        """Explain when nothing runs at all."""

        def gaps_of(scope: Scope) -> tuple[Gaps, Ids]:
            every = activities(scope.graph)
            # Whether a GPU of which nothing is recorded is idle is unknown.
            gaps = device_gaps(scope.running, every, scope.start_ns, scope.end_ns if len(every) else scope.start_ns)
            return gaps, np.full(len(gaps), -1, np.int32)

        return self._explained(scopes, gaps_of)

    def streams(self, scopes: Sequence[Scope]) -> list[ExplainedGaps]:
        """Explain when single streams are idle."""
        busy = [scope for scope in scopes if len(scope.running)]
        self._waits_of(scopes)  # of all ranks: one whose GPU does nothing is waited for too
        return self._explained(busy, lambda scope: stream_intervals(scope.running).gaps())

    def _waits_of(self, scopes: Iterable[Scope]) -> dict[int, RankWaits]:
        if self._waits is None:
            self._waits = waits_by_rank({scope.rank: scope.graph for scope in scopes})
        return self._waits

    def _explained(self, scopes: Sequence[Scope], gaps_of: Callable[[Scope], tuple[Gaps, Ids]]) -> list[ExplainedGaps]:
        waits = self._waits_of(scopes)
        by_graph = groupby(scopes, lambda scope: id(scope.graph))
        return [self._explained_gaps(list(own), gaps_of, waits) for _, own in by_graph]

    def _explained_gaps(
        self, scopes: Sequence[Scope], gaps_of: Callable[[Scope], tuple[Gaps, Ids]], waits: Mapping[int, RankWaits]
    ) -> ExplainedGaps:
        # All at once: what each of a thousand steps costs by itself is a hundred times what its gaps do.
        rank, graph = scopes[0].rank, scopes[0].graph
        found = [gaps_of(scope) for scope in scopes]
        gaps, lane = Gaps.join([own for own, _ in found]), np.concatenate([own for _, own in found])
        scope = np.repeat(np.arange(len(scopes)), [len(own) for own, _ in found])
        if graph not in self._known:
            self._known[graph] = GapExplainer(graph, self._data_load)
        explainer = self._known[graph]
        pieces = explainer.explain(gaps)
        if rank in waits:
            pieces = blame_ranks(graph, pieces, waits[rank])
        return ExplainedGaps(scopes, explainer, gaps, scope, lane, pieces)


def _idle_time_table(explained: Sequence[ExplainedGaps]) -> pd.DataFrame:
    """Make the table of :func:`idle_time`."""
    return _table_of_gaps(explained, _scope_causes, BY_CAUSE)


def _table_of_gaps(
    explained: Sequence[ExplainedGaps], rows: Callable[[ExplainedGaps], pd.DataFrame], columns: Table
) -> pd.DataFrame:
    """Put the rows about each scope's gaps one below the other."""
    return joined([found.labelled(rows(found)) for found in explained], columns)


def _scope_causes(found: ExplainedGaps) -> pd.DataFrame:
    """Sum the idle time of each scope by cause."""
    rows = _total_lengths(found.keys(cause=found.pieces.cause), found.pieces)
    rows["idle_share"] = _share_of_idle(rows, ["scope"])
    rows = rows.assign(cause=CAUSES[rows["cause"]])
    rows["window_share"] = rows["idle_ns"] / found.of_scopes(lambda scope: max(scope.window_ns, 1))[rows["scope"]]
    return rows


def _share_of_idle(rows: pd.DataFrame, by: list[str]) -> pd.Series:
    """Return what part each time is of all that are known to be idle; null of what was not recorded."""
    known = rows["idle_ns"].where(rows["cause"] != GapCause.NOT_RECORDED)
    return known / known.groupby([rows[name] for name in by]).transform("sum")


def _stream_table(explained: Sequence[ExplainedGaps]) -> pd.DataFrame:
    """Make the table of :func:`stream_idle_time`."""
    return _table_of_gaps(explained, _causes_per_stream, BY_STREAM)


def _causes_per_stream(found: ExplainedGaps) -> pd.DataFrame:
    """Sum the idle time of each scope by stream and cause."""
    rows = _total_lengths(found.keys(lane=found.lane[found.pieces.gap], cause=found.pieces.cause), found.pieces)
    rows = rows.sort_values("lane", kind="stable")
    names = np.array(found.graph.lanes.labels, object)
    rows["idle_share"] = _share_of_idle(rows, ["scope", "lane"])
    return rows.assign(cause=CAUSES[rows["cause"]], stream=names[rows["lane"]])


def _waits_table(explained: Sequence[ExplainedGaps], *, innermost: bool = False) -> pd.DataFrame:
    """Make the table of :func:`idle_waits`."""
    return _table_of_gaps(explained, lambda found: _scope_waits(found, innermost=innermost), WAITS)


def _scope_waits(found: ExplainedGaps, *, innermost: bool) -> pd.DataFrame:
    """Sum the idle time of each scope by what is behind it."""
    graph, pieces = found.graph, found.pieces
    events, edges = graph.event_table, graph.edges_at(pieces.edge)
    event = _named(graph, pieces.event) if innermost else _awaited_events(graph, pieces)
    of_profiler = take_or(graph.event_flags.profiler_overhead, event, otherwise=False)
    label, names = event_labels(graph)
    behind = np.where(event >= 0, event, np.where(pieces.edge >= 0, edges.target, -1))
    codes = {
        "cause": pieces.cause,
        "evidence": np.where(pieces.edge >= 0, edges.inferred, -1),
        "lane": take_or(lanes_of_owners(graph), behind),
        "operator": take_or(events.name, _outermost_operators(graph, event)),
        "name": np.where(of_profiler, take_or(label, event), take_or(events.name, event)),
    }
    rows = _total_lengths(found.keys(**codes), pieces)
    rows["idle_share"] = _share_of_idle(rows, ["scope"])
    texts: dict[str, Sequence[str] | Objects] = {"cause": CAUSES, "evidence": EVIDENCE, "lane": graph.lanes.labels}
    named = {key: texts_of_codes(texts.get(key, names), rows[key]) for key in codes}
    return rows.assign(**named)


def _awaited_events(graph: DependencyGraph, pieces: GapSegments) -> Ids:
    """Return the row behind each piece: of work in operators the outermost one."""
    outermost = _outermost_operators(graph, pieces.event)
    # Deep inside an operator any of its children may be open by chance; the outermost is what the user wrote.
    in_operator = (pieces.cause == GapCause.HOST_OPERATOR) & (outermost >= 0)
    return np.where(in_operator, outermost, _named(graph, pieces.event))


def _named(graph: DependencyGraph, event: Ids) -> Ids:
    """Return the frames around wrappers instead of these, of other rows themselves."""
    named: Ids = take_or(wrapped_frames(graph), event)
    return named


def _outermost_operators(graph: DependencyGraph, event: Ids) -> Ids:
    """Return the outermost operator around each row; -1 where that is the row itself."""
    # Few rows are behind many pieces: each is looked up once.
    unique, place = np.unique(event, return_inverse=True)
    found = take_or(graph.outermost_operator, unique)
    return np.where(found == unique, -1, found)[place]


def _longest_gaps_table(explained: Sequence[ExplainedGaps], count: int) -> pd.DataFrame:
    """Make the table of :func:`longest_gaps`."""
    rows = _table_of_gaps(explained, lambda found: _scope_longest(found, count), LONGEST_GAPS)
    return rows.sort_values("idle_ns", ascending=False, kind="stable", ignore_index=True).head(count)


def _scope_longest(found: ExplainedGaps, count: int) -> pd.DataFrame:
    """Describe the longest gaps of all scopes of a graph."""
    gaps, graph = found.gaps, found.graph
    length = gaps.end - gaps.start
    chosen = np.argsort(-length, kind="stable")[:count]
    main = _main_causes(found, chosen)
    after = gaps.after[chosen]
    edge = found.explainer.binding_edge(after)
    bound = graph.edges_at(edge)
    scope = found.scope[chosen]
    columns = {
        "scope": scope,
        "offset_ns": gaps.start[chosen] - found.of_scopes(lambda scope: scope.start_ns)[scope],
        "idle_ns": length[chosen],
        "cause": CAUSES[main["cause"]],
        "cause_share": main["of_cause"].to_numpy() / length[chosen],
        "edge": texts_of_codes(EDGES, np.where(edge >= 0, bound.kind, -1)),
        "evidence": texts_of_codes(EVIDENCE, np.where(edge >= 0, bound.inferred, -1)),
        "event_index": event_indices(graph, after),
        "kernel": event_names(graph, after),
        "name": texts_of_codes(graph.names, main["name"]),
    }
    return pd.DataFrame(columns)


def _main_causes(found: ExplainedGaps, gaps: Ints) -> pd.DataFrame:
    """Return for some gaps the cause that took most of each, how long, and the name most of that goes by."""
    graph, pieces = found.graph, found.pieces
    name = take_or(graph.event_table.name, _awaited_events(graph, pieces))
    parts = _total_lengths({"gap": pieces.gap, "cause": pieces.cause, "name": name}, pieces)
    gap, length = parts["gap"].to_numpy(), parts["idle_ns"].to_numpy()
    pairs, pair = unique_rows(gap, parts["cause"].to_numpy())
    of_cause = summed_by(pair, length, len(pairs))[pair]
    # The longest cause first, in it the name with the longest part: what comes first of each gap is its main one.
    order = np.lexsort((-length, -of_cause))
    main = np.zeros(len(found.gaps), np.int64)
    main[gap[order[::-1]]] = order[::-1]
    return parts.assign(of_cause=of_cause).iloc[main[gaps]]


def _total_lengths(keys: Mapping[str, Any], pieces: GapSegments) -> pd.DataFrame:
    """Sum the pieces of equal keys, longest first, count their gaps, and add how long they usually are in one gap."""
    first, number = unique_rows(*keys.values())
    time = summed_by(number, pieces.length, len(first))
    # A cause may have several pieces in one gap, which counts once.
    single, place = unique_rows(number, pieces.gap)
    of_single, in_gap = number[single], summed_by(place, pieces.length, len(single))
    rows = {
        **{name: codes[first] for name, codes in keys.items()},
        "idle_ns": time,
        "gaps": np.bincount(of_single, minlength=len(first)),
        **{name: percentiles_by(of_single, in_gap, len(first), percent) for name, percent in USUAL_GAPS.items()},
    }
    order = np.lexsort((first, -time))
    return pd.DataFrame({name: column[order] for name, column in rows.items()})


def answer(
    scopes: Sequence[Scope],
    launch_gap_us: float = LAUNCH_GAP_US,
    data_load: Sequence[str] = (),
) -> Answer:
    """Return why the GPU is idle, as a whole and stream by stream.

    Args:
        scopes: where to look.
        launch_gap_us: a gap shorter than this (µs) after a launch in time is a stream's usual one.
        data_load: regular expressions of events that load data; the usual ones if there are none.

    Returns:
        The tables ``idle_time`` (by cause), ``waits`` (by what is behind it), ``longest_gaps``, ``streams`` and
        ``launch_gaps`` (each stream's by cause and by launch), and the series ``waits_innermost``.

    Raises:
        UsageError: the threshold is negative.
    """
    explainer = ScopeExplainer(data_load)
    device = explainer.device(scopes)
    by_launch = launch_gaps(scopes, launch_gap_us=launch_gap_us)
    tables = LateTables(
        idle_time=lambda: _idle_time_table(device),
        waits=lambda: _waits_table(device),
        longest_gaps=lambda: _longest_gaps_table(device, LONGEST),
        streams=lambda: _stream_table(explainer.streams(scopes)),
        launch_gaps=lambda: by_launch,
    )
    notes = [*(note for found in device for note in (*_missing_notes(found), *_pause_notes(found)))]
    notes += several_gpus(scopes)
    series = LateTables(waits_innermost=lambda: _waits_table(device, innermost=True))
    summed = dict.fromkeys(("idle_time", "waits", "streams", "launch_gaps"), "gaps")
    said = _headline(tables["idle_time"], tables["waits"], scopes)
    return Answer(tables, notes, series, summed=summed, conclusion=naming_window(said, scopes))


def _missing_notes(found: ExplainedGaps) -> Iterator[str]:
    """Name the scopes without idle time, and why."""
    idle = np.bincount(found.scope[found.pieces.gap], found.pieces.length, len(found.scopes))
    for scope, idle_ns in zip(found.scopes, idle.tolist(), strict=True):
        if missing := scope.missing():
            yield missing
        elif not idle_ns:
            yield f"Rank {scope.rank}: the GPU is never idle in {scope.label}."


def _pause_notes(found: ExplainedGaps) -> Iterator[str]:
    """Say how much of a rank's idle time is in pauses of its host, where that is notable: no launch is late there."""
    start, end = found.gaps.start, found.gaps.end
    inside, touched = np.zeros(len(start), np.int64), 0
    for launches in device_launches(found.graph):
        pauses, idle = launches.pauses, union(start, end)
        in_pause = pauses.covered_until(end) - pauses.covered_until(start)
        inside = np.maximum(inside, in_pause)
        touched += int(np.count_nonzero(idle.covered_until(pauses.end) > idle.covered_until(pauses.start)))
    time_ns, idle_ns = int(inside.sum()), int((end - start).sum())
    if time_ns and time_ns >= NOTABLE_PAUSES * idle_ns:
        yield (
            f"Rank {found.scopes[0].rank}: {time_and_share(time_ns, idle_ns)} of the idle time is in "
            f"{counted(touched, 'pause')} of the host, longer than 1 ms between launches. CUDA graphs do not remove "
            "pauses."
        )


def figure(found: Answer) -> Figure:
    """Draw the idle time of each rank or step by cause."""
    return bars_of_causes(found.main)


TABLES = {
    "idle_time": BY_CAUSE,
    "waits": WAITS,
    "longest_gaps": LONGEST_GAPS,
    "streams": BY_STREAM,
    "launch_gaps": LAUNCH_GAPS,
    "waits_innermost": WAITS,
}

ANALYSIS = Analysis(
    name="idle-time",
    help="Find why the GPU is idle: by cause, by the wait or operator behind it, per gap and per stream.",
    more="Each gap has a cause: no work was launched, a launch was late, or a kernel waited for another stream.",
    question="why is the GPU idle, and which wait or operator is behind it?",
    examples=("idle-time trace.json.gz", "idle-time job --step 2"),
    flags=(
        Flag(
            "launch_gap_us",
            "microseconds",
            "count shorter gaps as usual if the launch was in time, in µs",
            LAUNCH_GAP_US,
        ),
        Flag("data_load", "text", "regular expressions of data-loading events", default=(), many=True),
    ),
    tables=TABLES,
    answer=answer,
    figure=figure,
    judges=True,
)
