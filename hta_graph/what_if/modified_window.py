"""A window with changes (other lengths and weights, edges left out and added), and what its path consists of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from hta_graph.base.arrays import distinct, first_of_runs, percentiles_by, run_numbers, summed_by, take_or
from hta_graph.base.errors import QueryError
from hta_graph.base.storage.location import Location
from hta_graph.graph.conversion import labels, texts_of_codes
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.event_names import row_labels
from hta_graph.graph.memo import memoized
from hta_graph.graph.points import event_of
from hta_graph.model import LONGEST_NS, Bools, BoundBy, EdgeKind, Floats, Ids, Ints
from hta_graph.paths.intervals import union
from hta_graph.paths.time_accounting import ALWAYS_EXPLAINED_NS, EXCESS_FACTOR
from hta_graph.paths.windows import Window
from hta_graph.what_if.longest_paths import LEFT_OUT, DecidedPaths, LongestPaths
from hta_graph.what_if.replay_graph import ReplayEdges, ReplayGraph, edge_weights


@dataclass
class ModifiedWindow:
    """A window on which changes are being made, one after the other; the window itself stays as it is.

    ``added`` are edges as (source, target, weight in ns) of points. What a draft holds of each part (row of
    ``base.parts``) or edge is made when it is first asked for: of most it is never.
    """

    base: ReplayGraph
    added: list[tuple[Ids, Ids, Ints]] = field(default_factory=list)

    @cached_property
    def factor(self) -> Floats:
        """The factor of each part."""
        return np.ones(len(self.base.parts))

    @cached_property
    def extra(self) -> Ints:
        """What each edge weighs besides (ns)."""
        return self._of_edges()

    @cached_property
    def weighed(self) -> Ints:
        """By how much the parts of each edge together are longer than measured (ns), before their factors."""
        return self._of_edges()

    @cached_property
    def waits(self) -> Ints:
        """By how much longer, after factors, the call of each edge waits for the driver's lock (ns)."""
        return self._of_edges()

    @cached_property
    def dropped(self) -> Bools:
        """Which edges are left out."""
        return self._of_edges().astype(np.bool_)

    def _of_edges(self) -> Ints:
        return np.zeros(len(self.base.edges.row), np.int64)

    def has(self, column: str) -> bool:
        """Return whether a column of these was ever asked for: what was not is as it is without changes."""
        return column in vars(self)

    def copy(self) -> ModifiedWindow:
        """Return the same changes, to be continued apart from these."""
        found = ModifiedWindow(self.base, self.added.copy())
        for column in vars(self).keys() - vars(found).keys():
            setattr(found, column, getattr(self, column).copy())
        return found

    def lengths_of(self, rows: Ints) -> Ints:
        """Return the length (ns) of some parts after the changes."""
        if self.has("weighed") or self.has("waits"):
            # Those of an edge are made longer together.
            given = self._given_lengths
            return self._lengthened(given - _saved_ns(given, self.factor), self.waits)[rows]
        given = self.base.parts.length[rows]
        return given - _saved_ns(given, self.factor[rows]) if self.has("factor") else given

    @property
    def _given_lengths(self) -> Ints:
        """The length (ns) of each part before factors: as measured, or what own weights make of it."""
        length = self.base.parts.length
        return self._lengthened(length, self.weighed) if self.has("weighed") else length

    def _lengthened(self, length: Ints, by: Ints) -> Ints:
        """Let the parts of each edge together be longer by a time (ns)."""
        if not by.any():
            return length
        edge = self.base.parts.edge
        return _lengthened_parts(length, edge, np.append(by, np.zeros(len(self.base.ends), np.int64))[edge])

    @property
    def is_reshaped(self) -> bool:
        """Whether edges were left out or added, so that the window has another shape."""
        return bool(self.added) or self.drops

    @property
    def is_reweighed(self) -> bool:
        """Whether edges weigh something of their own."""
        return any(self.has(column) and bool(getattr(self, column).any()) for column in ("extra", "weighed"))

    @property
    def drops(self) -> bool:
        """Whether edges were left out."""
        return self.has("dropped") and bool(self.dropped.any())

    def leaves(self, weight: Ints, tails: Ints) -> bool:
        """Return whether all changes together, with these weights and tails, leave each what it was."""
        same_edges = not self.is_reshaped and np.array_equal(weight, self.base.edges.weight)
        return same_edges and np.array_equal(tails, self.base.tails)

    @property
    def added_ns(self) -> float:
        """How much time all changes together may add at most."""
        with np.errstate(over="ignore", invalid="ignore"):
            added = 0.0
            if self.has("factor"):
                grows = np.flatnonzero(~(self.factor <= 1.0))
                added += float((self.base.parts.length[grows] * (self.factor[grows] - 1.0)).sum())
            own = [getattr(self, column) for column in ("extra", "weighed") if self.has(column)]
            own += [weight for *_, weight in self.added]
            return added + sum(float(np.abs(weight).sum(dtype=np.float64)) for weight in own)

    @property
    def weight(self) -> Ints:
        """The weight (ns) of each edge of the window, :data:`LEFT_OUT` of dropped ones, with added ones behind."""
        changed = self._scaled_parts
        saved = _saved_ns(self._given_lengths[changed], self.factor[changed])
        weight: Ints = self._with_saved(changed, saved)[0]
        return weight

    @property
    def tails(self) -> Ints:
        """How long (ns) the window, and the one that is replayed before it, continue after each of their ends."""
        base = self.base
        # Those of tails stand last, and no own weight is that of a tail.
        first = base.first_tail_part
        edge, length = base.parts.edge[first:], base.parts.length[first:]
        saved = _saved_ns(length, self.factor[first:]) if self.has("factor") else np.zeros(len(length), np.int64)
        return base.tails - summed_by(edge - len(base.edges.row), saved, len(base.ends))

    def saved_by_edges(self) -> SavedByEdges:
        """Return what scaled parts save.

        Raises:
            ValueError: something else is changed too.
        """
        if self.is_reshaped or self.is_reweighed or self.has("waits"):
            raise ValueError("more is changed than parts are scaled")
        changed = self._scaled_parts
        return saved_by_parts(self.base, changed, _saved_ns(self.base.parts.length[changed], self.factor[changed]))

    @property
    def _scaled_parts(self) -> Ints:
        return np.flatnonzero(self.factor != 1.0) if self.has("factor") else np.empty(0, np.int64)

    @property
    def exact_weights(self) -> tuple[Floats, Floats]:
        """The weights (ns) and tails without rounding, where they must be linear in a factor."""
        changed = self._scaled_parts
        return self._with_saved(changed, self._given_lengths[changed] * (1.0 - self.factor[changed]))

    def _with_saved(self, changed: Ints, saved: Any) -> tuple[Any, Any]:
        """Take what parts save from the weights of their edges and from the tails of the window's ends."""
        base, count = self.base, len(self.base.edges.row)
        sums = np.zeros(count + len(base.ends), saved.dtype)
        np.add.at(sums, base.parts.edge[changed], saved)
        weight = base.edges.weight - sums[:count]
        for own in ("extra", "weighed", "waits"):
            if self.has(own):
                weight += getattr(self, own)
        if self.drops:
            weight[self.dropped] = LEFT_OUT
        if self.added:
            weight = np.concatenate([weight, *(own for _, _, own in self.added)])
        return weight, base.tails - sums[count:]

    @property
    def edges(self) -> ReplayEdges:
        """The edges, with added ones behind."""
        edges = self.base.edges
        if not self.added:
            return edges
        sources, targets, weights = (np.concatenate(column) for column in zip(*self.added, strict=True))
        return ReplayEdges(
            np.append(edges.row, np.full(len(targets), -1, np.int32)),
            np.append(edges.source, sources.astype(np.int32)),
            np.append(edges.target, targets.astype(np.int32)),
            np.append(edges.weight, weights),
            np.append(edges.preferred, np.zeros(len(targets), np.bool_)),
        )

    def paths(self) -> LongestPaths:
        """Return the shape of the edges, which is that of the window where none is added.

        Raises:
            QueryError: edges were added that close a cycle, or something would have no cause left.
        """
        if not self.is_reshaped:
            return self.base.paths
        edges = self.edges
        kept = np.append(~self.dropped, np.ones(len(edges.row) - len(self.dropped), np.bool_))
        self._refuse_orphans(edges.target[kept])
        return self.base.paths_of(edges, kept) if self.added else self.base.paths

    def _refuse_orphans(self, targets: Ids) -> None:
        caused = np.zeros(len(self.base.times), np.bool_)
        caused[targets] = True
        lost = self.base.edges.target[~caused[self.base.edges.target]]
        if len(lost):
            name = self.base.graph.name_of(int(event_of(lost[:1])[0]))
            raise QueryError(
                f"{self.base.graph.path}: without these edges nothing precedes {name!r}; keep another edge "
                "to it, or add one"
            )


def check_added_time(added_ns: float, path: Location, window: Window) -> None:
    """Refuse changes that add more time than whole nanoseconds can count on every path.

    Raises:
        QueryError: they add more than a year.
    """
    # Written so that no number at all, infinity times nothing, is refused as well.
    if not added_ns <= LONGEST_NS:
        raise QueryError(
            f"{path}: with these changes {window.label} would last more than a year longer",
            "give smaller factors",
        )


def _saved_ns(length: Ints, factor: Floats) -> Ints:
    """Return how much shorter (whole ns) lengths become by factors."""
    found: Ints = np.rint(length * (1.0 - factor)).astype(np.int64)
    return found


SavedByEdges = tuple[Ids | Ints, Ints, Ints]
"""Edges that weigh less, some more than once, how much (ns) that is, and how long (ns) the tails of the ends are."""


def saved_by_parts(base: ReplayGraph, parts: Ints, saved: Ints) -> SavedByEdges:
    """Return which edges weigh less if some parts (rows, ascending) are shorter by some time (ns)."""
    edge, count = base.parts.edge[parts], len(base.edges.row)
    tail = int(np.searchsorted(parts, base.first_tail_part))
    return edge[:tail], saved[:tail], base.tails - summed_by(edge[tail:] - count, saved[tail:], len(base.ends))


def saved_by_scaling(base: ReplayGraph, meant: Bools, factors: Iterable[float]) -> Iterator[SavedByEdges]:
    """Yield which edges weigh less where some parts take a factor of their time, for one factor after the other."""
    parts = np.flatnonzero(meant)
    length = base.parts.length[parts]
    for factor in factors:
        yield saved_by_parts(base, parts, length if factor == 0 else _saved_ns(length, np.array(factor)))


def _lengthened_parts(length: Ints, edge: Ids, change: Ints) -> Ints:
    """Let the parts of each edge together be longer by a change (ns), in proportion and without rounding anything away.

    >>> _lengthened_parts(np.array([10, 5, 7]), np.array([0, 0, 1]), np.array([-5, -5, 0])).tolist()
    [6, 4, 7]
    """
    rows = np.flatnonzero((change != 0) & (length > 0))
    rows = rows[np.argsort(edge[rows], kind="stable")]
    first = np.flatnonzero(first_of_runs(edge[rows]))
    run = run_numbers(edge[rows])
    reached = np.cumsum(length[rows])
    reached -= np.append(0, reached)[first][run]
    total = reached[np.append(first[1:], len(rows)) - 1][run] if len(rows) else reached
    ends = reached * (total + change[rows]).clip(min=0) // np.maximum(total, 1)
    found = length.copy()
    found[rows] = np.diff(ends, prepend=0)
    found[rows[first]] = ends[first]
    return found


@dataclass(frozen=True)
class PathTotals:
    """What a path through a window consists of, after changes or without.

    ``rows`` are the parts (rows of ``base.parts``) on the path and ``length`` how long (ns) each is; ``unowned_ns`` is
    the length of a window that waits for nothing in the graph.
    """

    base: ReplayGraph
    rows: Ints
    length: Ints
    unowned_ns: int = 0

    @cached_property
    def by_bound_ns(self) -> dict[str, int]:
        """Time (ns) per class, all ten; they sum to the window, but for what was inserted."""
        sums = summed_by(self.base.parts.bound[self.rows], self.length, len(BoundBy))
        sums[BoundBy.UNEXPLAINED] += self.unowned_ns
        return {bound.label: int(sums[bound]) for bound in BoundBy}

    @cached_property
    def by_rank_ns(self) -> dict[int, int]:
        """Time (ns) on each rank."""
        parts = self.base.graph.rank_graphs
        sums = summed_by(self.base.part_rank[self.rows], self.length, len(parts))
        sums[0] += self.unowned_ns
        return {part.rank: int(sums[part.index]) for part in parts}

    def time_of(self, meant: Bools) -> int:
        """Return how much time (ns) of the path is in some parts."""
        return int(self.length[meant[self.rows]].sum())

    def by_name(self, meant: Bools | None = None, *, of_job: bool = False) -> dict[str, Any]:
        """Return the columns name (whose the time is), bound_by, rank, time_ns, longest first; of some parts or all.

        Names are those of tables of one rank; as recorded where they become part of a job's (``of_job``).
        """
        base, graph = self.base, self.base.graph
        chosen = slice(None) if meant is None else meant[self.rows]
        texts = graph.names if of_job else row_labels(graph)[1]
        ranks = len(graph.rank_graphs)
        key = (_keys_of_job if of_job else _keys_of_tables)(base)[self.rows[chosen]]
        time = summed_by(key, self.length[chosen], (len(texts) + 1) * len(BoundBy) * ranks)
        found = np.flatnonzero(time)
        bound = labels(BoundBy, (found // ranks % len(BoundBy)).astype(np.int8))
        names = texts_of_codes(texts, found // ranks // len(BoundBy) - 1)
        of_rank = np.array([part.rank for part in graph.rank_graphs], object)[found % ranks]
        return path_columns(zip(names, bound, of_rank, time[found].tolist(), strict=True))


def _keys_of_parts(base: ReplayGraph, names: Ids) -> Ints:
    """Number each part by whose it is, given the names of events, its class and its rank."""
    owner = (take_or(names, base.parts.owner) + 1).astype(np.int64)
    key: Ints = (owner * len(BoundBy) + base.parts.bound) * len(base.graph.rank_graphs) + base.part_rank
    return key


@memoized
def _keys_of_tables(base: ReplayGraph) -> Ints:
    return _keys_of_parts(base, row_labels(base.graph)[0])


@memoized
def _keys_of_job(base: ReplayGraph) -> Ints:
    return _keys_of_parts(base, base.graph.event_table.name)


PathRow = tuple[str | None, str, int, int]
"""Whose the time is (None: no event's), its class, the rank, and how long it is (ns)."""


def path_columns(rows: Iterable[PathRow]) -> dict[str, Any]:
    """Return what a path consists of as columns name, bound_by, rank, time_ns; of equally long rows by name and so on.

    >>> path_columns([("b", "cpu_bound", 0, 5), ("a", "cpu_bound", 0, 5)])["name"].tolist()
    ['a', 'b']
    """
    listed = sorted(rows, key=lambda row: (-row[3], row[0] or "", row[2], row[1]))
    columns = list(zip(*listed, strict=True)) or [(), (), (), ()]
    names, bounds, ranks = (np.array(column, object) for column in columns[:3])
    return {"name": names, "bound_by": bounds, "rank": ranks, "time_ns": np.array(columns[3], np.int64)}


def modified_path_totals(
    draft: ModifiedWindow,
    values: Ints | Floats,
    weight: Ints | Floats,
    tails: Ints | Floats,
    paths: LongestPaths | None = None,
) -> PathTotals:
    """Trace the path of a draft back from the point with which its window ends, and find the parts that it passes.

    Args:
        draft: a window with changes.
        values: the times of all points with them.
        weight: the weights that led to these.
        tails: how long (ns) the window continues after each of its ends.
        paths: the shape of the draft, where it is known.
    """
    base = draft.base
    last = base.last_of(values[base.ends], tails)
    if last < 0:
        return PathTotals(base, np.empty(0, np.int64), np.empty(0, np.int64), base.length_ns)
    passed = (paths or draft.paths()).trace_back(weight, values, int(base.ends[last]))
    since = None if base.previous is None else base.start_of(values[base.ends], tails)
    return path_totals_of_edges(draft, values, weight, passed, last, since)


def path_totals_without(base: ReplayGraph, meant: Bools, found: DecidedPaths) -> PathTotals:
    """Return the path of a window in which some parts take no time, given what is then decided."""
    draft = ModifiedWindow(base)
    draft.factor[meant] = 0.0
    last = base.last_of(found.values, draft.tails)
    if last < 0:
        return PathTotals(base, np.empty(0, np.int64), np.empty(0, np.int64), base.length_ns)
    since = None if base.previous is None else base.start_of(found.values, draft.tails)
    return path_totals_of_decided(draft, found, last, since)


def path_totals_of_decided(
    draft: ModifiedWindow, found: DecidedPaths, last: int, since: int | None = None
) -> PathTotals:
    """Find the parts that the path to one of the ends (its place) passes, as for :func:`path_totals_of_edges`."""
    base, point = draft.base, int(draft.base.ends[last])
    entries = found.entries_to(point)
    if since is None:
        passes = base.paths.passed_edges(entries, point)
        if not (passes & (base.edges.weight < 0)).any():
            on_path = np.append(passes, np.arange(len(base.ends)) == last)
            rows = np.flatnonzero(on_path[base.parts.edge])
            return PathTotals(base, rows, draft.lengths_of(rows))
    else:
        # What ends before that has no time that counts.
        entries = entries[: 1 + np.count_nonzero(np.minimum.accumulate(found.values_before(entries)) > since)]
    passed = base.paths.edges_over(entries, point)
    weight = draft.exact_weights[0] if np.issubdtype(found.values.dtype, np.floating) else draft.weight
    # Times are known at the end, and so along the path.
    reached = found.values[last] - np.cumsum(weight[passed])
    if since is not None:
        count = 1 + np.count_nonzero(np.minimum.accumulate(reached) > since)
        passed, reached = passed[:count], reached[:count]
    values: Any = np.zeros(len(base.times), weight.dtype)
    values[base.ends] = found.values
    values[base.edges.source[passed]] = reached
    return path_totals_of_edges(draft, values, weight, passed, last, since)


def path_totals_of_edges(
    draft: ModifiedWindow,
    values: Ints | Floats,
    weight: Ints | Floats,
    passed: Ids,
    last: int,
    since: int | None = None,
) -> PathTotals:
    """Find the parts that a path passes.

    Args:
        draft: a window with changes.
        values: the times of all points with them.
        weight: the weights that led to these.
        passed: the edges of the path, latest first.
        last: the place of its last point among the ends; -1 if it continues elsewhere.
        since: from when (ns) on its time counts, where that is not all of it.
    """
    base, edges = draft.base, draft.edges
    inside, count = passed < len(base.edges.row), len(base.edges.row) + len(base.ends)
    own, on_path = passed[inside], np.zeros(count, np.bool_)
    on_path[own] = True
    if last >= 0:
        on_path[len(base.edges.row) + last] = True
    rows = np.flatnonzero(on_path[base.parts.edge])
    length = draft.lengths_of(rows)
    if (weight[passed] < 0).any():
        too_long = np.zeros(count)
        hidden = _hidden_by_clock_faults(edges, values, weight, passed) - _beyond_window_end(base, edges, passed)
        too_long[own] = hidden[inside].clip(min=0)
        length = _shortened_from_end(base.parts.edge[rows], length, too_long)
    if since is not None:
        begins = np.full(count, since, values.dtype)
        begins[own] = np.minimum.accumulate(values[edges.source[passed]])[inside]
        if last >= 0:
            begins[len(base.edges.row) + last] = values[base.ends[last]]
        early = (since - np.maximum(begins, base.first.start_ns)).clip(min=0)
        length = _shortened_from_start(base.parts.edge[rows], length, early)
    return PathTotals(base, rows, length)


def _hidden_by_clock_faults(edges: ReplayEdges, values: Ints | Floats, weight: Ints | Floats, passed: Ids) -> Floats:
    """Return by how much (ns) edges of a path, latest first, reach beyond where clock faults let it continue.

    path   ──────────|────▶|          the later edge goes back in time by a clock fault: what the earlier one has
               ◀─────|                beyond that is no time of the window
    """
    reached = np.minimum.accumulate(np.append(values[edges.target[passed[:1]]], values[edges.source[passed]]))
    hidden: Floats = np.maximum(weight[passed], 0) - (reached[:-1] - reached[1:])
    return hidden


def _beyond_window_end(base: ReplayGraph, edges: ReplayEdges, passed: Ids) -> Ints:
    """Return how much (ns) of edges lies beyond the window's end, and so is in no part."""
    beyond: Ints = np.maximum(base.times[edges.target[passed]] - base.window.end_ns, 0)
    return beyond


def _shortened_from_end(edge: Ids, length: Ints, too_long: Floats) -> Ints:
    """Shorten the parts of edges, which stand in order, from the last one of each edge on."""
    behind = np.cumsum(length[::-1])[::-1] - length
    behind -= behind[np.searchsorted(edge, edge, side="right") - 1]
    cut = np.clip(np.rint(too_long[edge]).astype(np.int64) - behind, 0, length)
    shorter: Ints = length - cut
    return shorter


def _shortened_from_start(edge: Ids, length: Ints, too_long: Floats) -> Ints:
    """Shorten the parts of edges, which stand in order, from the first one of each edge on."""
    before = np.cumsum(length) - length
    before -= before[np.searchsorted(edge, edge, side="left")]
    shorter: Ints = length - np.clip(np.rint(too_long[edge]).astype(np.int64) - before, 0, length)
    return shorter


def recorded_path_totals(base: ReplayGraph) -> tuple[PathTotals, int]:
    """Return what the window's path consists of as recorded, and where it ends (ns) in replay."""
    rows, length, unowned_ns, end = _recorded_path(base)
    return PathTotals(base, rows, length, unowned_ns), end


@memoized
def _recorded_path(base: ReplayGraph) -> tuple[Ints, Ints, int, int]:
    # Not the totals themselves, which hold what keeps this answer.
    times = base.paths.values(base.edges.weight, base.times)
    path = modified_path_totals(ModifiedWindow(base), times, base.edges.weight, base.tails)
    return path.rows, path.length, path.unowned_ns, base.end_of(times, base.tails)


def frozen_share(base: ReplayGraph) -> float:
    """Return the share of the recorded path that no change moves.

    That is what nothing explains, and communication whose partners are not known: it may have waited for them.
    """
    path, end = recorded_path_totals(base)
    return frozen_time(path) / max(end - base.window.start_ns, 1)


def time_without_partner(path: PathTotals, meant: Bools | None = None) -> int:
    """Return how much (ns) of some parts on a path, or of all, is communication whose partners are not known."""
    alone = parts_without_partner(path.base)
    return path.time_of(alone if meant is None else meant & alone)


def parts_without_partner(base: ReplayGraph) -> Bools:
    """Mark the parts that are communication whose partners are not known."""
    found: Bools = take_or(base.graph.without_partner, base.parts.owner, otherwise=False)
    return found


def possible_waiting_time(path: PathTotals) -> int:
    """Return how much (ns) of a job's path may be waiting for other ranks, which looks like work there.

    That is communication without a partner, and where ``wait()`` leaves no row, on CPUs, silence: of threads while what
    their rank does with others has no partner or no call, and of threads without a step, such as workers. So it is
    with messages that took far longer than usual.
    """
    graph = path.base.graph
    found = time_without_partner(path)
    if not graph.is_job or not graph.lanes.is_communication.any():
        return found
    gaps = path.base.parts.bound[path.rows] == BoundBy.CPU_GAP
    parts, rank = path.base.parts.take(path.rows[gaps]), path.base.part_rank[path.rows[gaps]]
    has_steps = np.array([bool(part.graph.steps()) for part in graph.rank_graphs])
    is_silent = (parts.owner < 0) & has_steps[rank]
    members = graph.members.take(graph.lanes.is_communication[graph.event_table.lane[graph.members.row]])
    unknown = members.take((members.number < 0) | (members.call < 0))
    for part in distinct(unknown.part).tolist():
        own = unknown.row[unknown.part == part]
        under_way = union(graph.event_table.start[own], graph.event_table.end[own])
        here = rank == part
        end = parts.start[here] + parts.length[here]
        covered = under_way.covered_until(end) - under_way.covered_until(parts.start[here])
        is_silent[here] |= 2 * covered > parts.length[here]
    base = path.base
    row = take_or(base.edges.row, np.where(base.parts.edge < len(base.edges.row), base.parts.edge, -1)[path.rows])
    too_long = np.where(gaps, 0.0, take_or(_excess_of_messages(graph), row, otherwise=0.0))
    return found + int(path.length[gaps][is_silent].sum() + (path.length * too_long).sum())


@memoized
def _excess_of_messages(graph: DependencyGraph) -> Floats:
    """Return by what share each edge to the end of a message on CPUs is far longer than usual on its rank.

    Once both sides have come it does not wait; the thread that waited may have come late itself, in no row.
    """
    edges, known = graph.edge_table, edge_weights(graph)
    beside = graph.lanes.is_communication[graph.event_table.lane[event_of(edges.target)]]
    sent = np.flatnonzero((edges.kind == EdgeKind.POINT_TO_POINT) & known.binds & beside)
    rank, weight = graph.rank_index_of(event_of(edges.target[sent])), known.weight[sent]
    usual = EXCESS_FACTOR * percentiles_by(rank, weight, len(graph.rank_graphs), 50)[rank]
    found = np.zeros(len(graph.timeline.times))
    found[edges.target[sent]] = (1 - np.maximum(ALWAYS_EXPLAINED_NS, usual) / np.maximum(weight, 1)).clip(min=0)
    # Whatever else may bind such an end after a change weighs no less.
    return found[edges.target]


def earlier_share(base: ReplayGraph) -> float:
    """Return the share of the recorded path that is work launched before the window; what is frozen is not counted."""
    path, end = recorded_path_totals(base)
    earlier = ~take_or(base.is_issued, base.parts.owner[path.rows], otherwise=True) & ~_frozen_parts(path)
    return int(path.length[earlier].sum()) / max(end - base.window.start_ns, 1)


def frozen_time(path: PathTotals) -> int:
    """Return how much (ns) of a path no change moves."""
    return path.unowned_ns + int(path.length[_frozen_parts(path)].sum())


def _frozen_parts(path: PathTotals) -> Bools:
    parts, alone = path.base.parts.take(path.rows), path.base.graph.without_partner
    frozen: Bools = (parts.bound == BoundBy.UNEXPLAINED) | take_or(alone, parts.owner, otherwise=False)
    return frozen


def inferred_share(base: ReplayGraph) -> float:
    """Return the share of the recorded path's time that lies on edges which a rule deduced."""
    path, end = recorded_path_totals(base)
    return inferred_time(path) / max(end - base.window.start_ns, 1)


def inferred_time(path: PathTotals) -> int:
    """Return how much (ns) of a path lies on edges which a rule deduced."""
    base = path.base
    row = take_or(base.edges.row, np.where(base.parts.edge < len(base.edges.row), base.parts.edge, -1)[path.rows])
    return int(path.length[take_or(base.graph.edge_table.inferred, row, otherwise=False)].sum())
