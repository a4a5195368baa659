"""What a change is about, ``kernel:gemm``, ``operator:aten::mm``, ``rank:3`` …: parts of time, and events."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hta_graph.attribution.owners import owners
from hta_graph.attribution.replayed_names import replayed_names
from hta_graph.base.arrays import distinct, freeze, take_or
from hta_graph.base.errors import QueryError, Remedy, UsageError
from hta_graph.base.safe_regex import names_matching
from hta_graph.base.text.shorten import closest_names, short_name, shorten_middle, suggest_known
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import CLASS_LABELS, CLASS_LABELS_IN_JOBS, Bools, BoundBy, EventKind, Ids, Ints
from hta_graph.paths.time_accounting import TimePart
from hta_graph.what_if.replay_graph import ReplayGraph

PATTERN_READINGS = ("name", "short name", "expression")
"""How a pattern may be meant; the first that fits anything is."""

LONGEST_SHOWN_NAME = 80
"""Characters of a name in an error; kernels' names have hundreds."""

KINDS_WITHOUT_NAMES = ("class", "rank")
"""Kinds of things that are not named events."""

LIST_HINT = Remedy("hg.opportunities lists what can be changed", "what-if without a change lists what can be changed")


@dataclass(frozen=True)
class Selector:
    """A kind of thing (empty: any event) and a pattern: a name, whole or short, else a regular expression.

    ``reading`` (of :data:`PATTERN_READINGS`) is how the pattern is meant; empty: the first way that names anything of
    the kind.
    """

    kind: str
    pattern: str
    reading: str = field(default="", repr=False)

    @classmethod
    def of(cls, text: str) -> Selector:
        """Read ``KIND:PATTERN`` or a bare pattern.

        >>> [(what.kind, what.pattern) for what in map(Selector.of, ("kernel:gemm", "aten::mm"))]
        [('kernel', 'gemm'), ('', 'aten::mm')]

        A class is given by its key or its label:

        >>> Selector.of("class:GPU compute").pattern
        'gpu_compute_bound'

        Raises:
            UsageError: the pattern is missing, or is not a regular expression, class or rank.
        """
        kind, colon, pattern = text.partition(":")
        found = cls(kind, pattern) if colon and kind in SELECTORS else cls("", text)
        if not found.pattern:
            raise UsageError(
                f"{text!r} has no pattern; give KIND:PATTERN, where KIND is one of {', '.join(filter(None, SELECTORS))}"
            )
        if found.kind == "class":
            found = cls(kind, KEY_OF_CLASS.get(pattern.strip().casefold(), pattern))
            if found.pattern not in CLASS_OF_LABEL:
                raise UsageError(f"there is no class {pattern!r}; {suggest_known(pattern, CLASS_OF_LABEL)}")
        if found.kind == "rank" and not is_rank_number(found.pattern):
            raise UsageError(f"{shorten_middle(found.pattern, 60)!r} is not a rank; give a number, such as rank:3")
        return found

    def __str__(self) -> str:
        return f"{self.kind}:{self.pattern}" if self.kind else self.pattern

    def names_in(self, graph: DependencyGraph, codes: Ids) -> Bools:
        """Mark the names of a graph that are meant: the pattern, else what tables show so, else where it is found.

        Args:
            graph: a graph, whose names these are.
            codes: of the names that things of the kind have.

        Raises:
            PatternError: it is neither a name nor a regular expression, or takes too long.
        """
        if self.reading:
            return self.read_as(self.reading, graph.names)
        marked = np.zeros(max(len(graph.names), 1), np.bool_)
        for reading in PATTERN_READINGS:
            marked = self.read_as(reading, graph.names)
            if marked[codes].any():
                break
        return marked

    def read_as(self, reading: str, names: Sequence[str]) -> Bools:
        """Mark the names that are meant if the pattern is read in one way."""
        if reading == "name":
            return np.array([name == self.pattern for name in names] or [False])
        if reading == "short name":
            return np.array([short_name(name) == self.pattern for name in names] or [False])
        return names_matching([self.pattern], names)

    def read_in(self, base: ReplayGraph) -> Selector:
        """Return the same, meant as it is read in a window; a pattern that names nothing there stays open."""
        reading = "" if self.reading else pattern_reading(base, self)
        return replace(self, reading=reading) if reading else self


def is_rank_number(text: str) -> bool:
    """Return whether a text is the number of a rank."""
    return re.fullmatch("[0-9]{1,9}", text) is not None


CLASS_OF_LABEL = {bound.label: bound for bound in BoundBy}
KEY_OF_CLASS = {
    words.casefold(): key
    for labels in ({key: key for key in CLASS_LABELS}, CLASS_LABELS, CLASS_LABELS_IN_JOBS)
    for key, words in labels.items()
}
"""What a class may be called, its key or a label, in lower case, and its key."""


def selected_parts(base: ReplayGraph, what: Selector) -> Bools:
    """Mark the parts of time in the window that are meant and may change.

    Raises:
        QueryError: it names nothing in the window.
    """
    known = _known_parts(base)
    if what not in known:
        # As it is written and as it is read.
        asked = what.read_in(base)
        known[what] = known[asked] if asked in known else freeze(SELECTORS[what.kind](base, asked) & base.may_change)
        known[asked] = known[what]
    found = known[what]
    if not found.any():
        raise _no_match_error(base, what)
    return found


@memoized
def _known_parts(base: ReplayGraph) -> dict[Selector, Bools]:
    """Return the known ones of a window: gain, bound, curve and class of an opportunity need the same."""
    return {}


def own_cpu_time_only(base: ReplayGraph, what: Selector) -> str:
    """Say that a bare pattern means the own time of operators, where these launch work; empty where it does not."""
    if what.kind:
        return ""
    owner = base.parts.owner[selected_parts(base, what)]
    events = distinct(owner[owner >= 0])
    operators = replace(what, kind="operator", reading="").read_in(base)
    launched = SELECTORS["operator"](base, operators) & (base.parts.part == TimePart.ACTIVITY)
    if base.graph.is_activity[events].any() or not launched.any():
        return ""
    matched = "1 event's" if len(events) == 1 else f"{len(events):,} events'"
    name = shorten_middle(what.pattern, LONGEST_SHOWN_NAME)
    return f"{name!r} matched {matched} own CPU time only; use operator:{name} to include the kernels they launch"


def pattern_reading(base: ReplayGraph, what: Selector) -> str:
    """Return how a pattern is read in a window (one of :data:`PATTERN_READINGS`); empty where nothing is called so."""
    if what.kind in ("class", "rank"):
        return ""
    codes = distinct(_name_codes_of_kind(base, what.kind))
    names = [base.graph.names[code] for code in codes.tolist()]
    if what.kind in OWNER_LOOKUPS:
        names += replayed_names(base.graph, what.kind).used
    return next((reading for reading in PATTERN_READINGS if what.read_as(reading, names)[: len(names)].any()), "")


def _name_codes_of_kind(base: ReplayGraph, kind: str) -> Ids:
    """Return the names (codes) that things of a kind have."""
    graph, names = base.graph, base.graph.event_table.name
    if kind == "kernel":
        return names[graph.is_gpu]
    if kind == "collective":
        return np.append(names[base.parts.owner[_transfer_parts(base)]], graph.members.said)
    return names[_rows_of_kind(graph, kind)] if kind else names


def _kernel_parts(base: ReplayGraph, what: Selector) -> Bools:
    found: Bools = (base.parts.part == TimePart.ACTIVITY) & _owned_parts(base, what, base.graph.is_gpu)
    return found


def _event_parts(base: ReplayGraph, what: Selector) -> Bools:
    """Mark what events of that name do themselves: an activity runs, a thread is in an operator, call or frame."""
    does = np.isin(base.parts.part, (TimePart.ACTIVITY, TimePart.WORK, TimePart.CALL, TimePart.IDLE))
    return does & _owned_parts(base, what, None)


def _owned_parts(base: ReplayGraph, what: Selector, of: Bools | None) -> Bools:
    events = base.graph.event_table
    meant = what.names_in(base.graph, events.name if of is None else events.name[of])[events.name]
    found: Bools = take_or(meant if of is None else meant & of, base.parts.owner, otherwise=False)
    return found


def _transfer_parts(base: ReplayGraph) -> Bools:
    talks: Bools = (base.parts.bound == BoundBy.GPU_COMMUNICATION_BOUND) & (base.parts.part == TimePart.ACTIVITY)
    return talks


def _collective_parts(base: ReplayGraph, what: Selector) -> Bools:
    """Mark the transfers of communications: by the name of the row, of a job also of what it was and its group."""
    talks, names = _transfer_parts(base), base.graph.event_table.name
    meant_names = what.names_in(base.graph, _name_codes_of_kind(base, "collective"))
    meant, members = meant_names[names], base.graph.members
    meant[members.row[meant_names[members.said]]] = True
    found: Bools = talks & take_or(meant, base.parts.owner, otherwise=False)
    return found


def _class_parts(base: ReplayGraph, what: Selector) -> Bools:
    found: Bools = base.parts.bound == CLASS_OF_LABEL[what.pattern]
    return found


def _rank_parts(base: ReplayGraph, what: Selector) -> Bools:
    """Mark all that a rank does by itself: neither transfers, which it shares, nor what nothing explains."""
    own = base.part_rank == base.graph.index_of_rank(int(what.pattern))
    shared = np.isin(base.parts.bound, (BoundBy.GPU_COMMUNICATION_BOUND, BoundBy.UNEXPLAINED))
    found: Bools = own & ~shared
    return found


def _inside_parts(base: ReplayGraph, what: Selector) -> Bools:
    """Mark what lies inside operators, modules, frames or annotations: their thread's time, and work launched there."""
    inside, parts, work = rows_within(base.graph, what), base.parts, _parts_of_work(base)
    found = np.zeros(len(parts), np.bool_)
    found[work.rows] = take_or(inside, work.issuer, otherwise=False)
    if replayed_names(base.graph, what.kind):
        found[work.rows] |= take_or(_replayed_within(base.graph, what), parts.owner[work.rows], otherwise=False)
    if what.kind != "operator" and len(work.idle):
        kind = EventKind.ANNOTATION if what.kind == "annotation" else EventKind.PYTHON_FUNCTION
        marked = _selected_rows(base.graph, what)
        found[work.idle] = take_or(
            _inside_marked(marked, _NESTED[kind](base.graph)), work.around(base, kind), otherwise=False
        )
    return found


class _PartsOfWork:
    """The parts of a window in which something is done or waited for (rows), each with the row that issued it."""

    def __init__(self, base: ReplayGraph) -> None:
        parts = base.parts
        done = np.isin(parts.part, (TimePart.ACTIVITY, TimePart.WORK, TimePart.CALL, TimePart.IDLE))
        self.rows = np.flatnonzero(done)
        self.issuer = issuing_rows(base.graph, parts.owner[self.rows])
        self.idle = np.flatnonzero(parts.part == TimePart.IDLE)
        self._around: dict[EventKind, Ids] = {}

    def around(self, base: ReplayGraph, kind: EventKind) -> Ids:
        """Return the innermost annotation or frame around each part without an operator, of the same window."""
        if kind not in self._around:
            parts, nesting = base.parts, base.graph.nesting(kind)
            self._around[kind] = nesting.open_at(parts.lane[self.idle], parts.start[self.idle])
        return self._around[kind]


@memoized
def _parts_of_work(base: ReplayGraph) -> _PartsOfWork:
    return _PartsOfWork(base)


def _replayed_within(graph: DependencyGraph, what: Selector) -> Bools:
    """Mark the kernels of graph replays with a name over them, by capture or as recorded."""
    names, found = replayed_names(graph, what.kind), np.zeros(len(graph.event_table), np.bool_)
    if names:
        meant = np.zeros(len(names.texts), np.bool_)
        for reading in (what.reading,) if what.reading else PATTERN_READINGS:
            meant[names.used_codes] = what.read_as(reading, names.used)
            if meant.any():
                break
        found[names.row[meant[names.code]]] = True
    return found


def issuing_rows(graph: DependencyGraph, rows: Ids) -> Ids:
    """Return for each row that on the CPU: of an activity the call that asked for it."""
    call = issuing_calls(graph)
    return np.where(take_or(graph.is_activity, rows, otherwise=False), take_or(call, rows), rows).astype(np.int32)


@memoized
def issuing_calls(graph: DependencyGraph) -> Ids:
    """Return for each activity the call that asked for it: its launch, or the call of what ran on the CPU; -1: none."""
    call, members = graph.launching_call.copy(), graph.members
    asked = np.flatnonzero((members.call >= 0) & ~graph.is_gpu[members.row])
    call[members.row[asked]] = members.call[asked]
    return call


def rows_within(graph: DependencyGraph, what: Selector) -> Bools:
    """Mark the CPU rows that lie inside operators, modules, frames or annotations of a name, and those."""
    found = np.zeros(len(graph.event_table), np.bool_)
    for part in graph.rank_graphs:
        innermost, _ = OWNER_LOOKUPS[what.kind](part.graph)
        inside = _inside_marked(_selected_rows(part.graph, what), _OWNED[what.kind](part.graph))
        of_rows = inside | take_or(inside, innermost, otherwise=False)
        found[part.first_row : part.first_row + len(of_rows)] = of_rows
    return found


def _owner_lookup(kind: str) -> Callable[[DependencyGraph], tuple[Ids, Ids]]:
    @memoized
    def known(graph: DependencyGraph) -> tuple[Ids, Ids]:
        found, rows = owners(graph, kind), np.arange(len(graph.event_table), dtype=np.int32)
        return found.innermost(rows), found.above[rows]  # rows of captures do not run in this window

    return known


OWNER_LOOKUPS = {kind: _owner_lookup(kind) for kind in ("operator", "module", "frame", "annotation")}
"""By kind the innermost owner around each row of a rank's graph, and the next one around each owner; -1: none."""


OWNER_EVENT_KIND = {
    "operator": EventKind.CPU_OP,
    "annotation": EventKind.ANNOTATION,
    "module": EventKind.PYTHON_FUNCTION,
    "frame": EventKind.PYTHON_FUNCTION,
}


def _rows_of_kind(graph: DependencyGraph, kind: str) -> Bools:
    found: Bools = (
        graph.event_flags.module_frame if kind == "module" else graph.event_table.kind == OWNER_EVENT_KIND[kind]
    )
    return found


def _selected_rows(graph: DependencyGraph, what: Selector) -> Bools:
    events, of_kind = graph.event_table, _rows_of_kind(graph, what.kind)
    found: Bools = of_kind & what.names_in(graph, events.name[of_kind])[events.name]
    return found


Ladder = Sequence[tuple[Ids | Ints, Ids]]
"""Rows, and what is 1, 2, 4 … levels around each of them: as many rungs as the logarithm of the deepest nesting."""


def _inside_marked(marked: Bools, around: Ladder) -> Bools:
    """Mark the rows that are marked or lie inside a marked one."""
    found = marked.copy()
    for rows, above in around:
        found[rows[found[above]]] = True
    return found


def _ladder_of(above: Ids) -> Ladder:
    """Return the rungs, given the next row around each row (-1: none)."""
    found = []
    while len(rows := np.flatnonzero(above >= 0)):
        found.append((rows, above[rows]))
        above = take_or(above, above)
    return found


def _owned_ladder(kind: str) -> Callable[[DependencyGraph], Ladder]:
    return memoized(lambda graph: _ladder_of(OWNER_LOOKUPS[kind](graph)[1]))


def _nested_ladder(kind: EventKind) -> Callable[[DependencyGraph], Ladder]:
    return memoized(lambda graph: _ladder_of(graph.nesting(kind).parent))


_OWNED = {kind: _owned_ladder(kind) for kind in OWNER_LOOKUPS}
_NESTED = {kind: _nested_ladder(kind) for kind in (EventKind.ANNOTATION, EventKind.PYTHON_FUNCTION)}
"""Ladders of owners by kind of thing, and of rows by kind of event."""


def selected_events(base: ReplayGraph, what: Selector) -> Ints:
    """Return the events (rows) of a name that begin in the window and may change: kernels, operators, calls.

    Raises:
        QueryError: there is none.
        UsageError: it is of a kind that does not name single events.
    """
    if what.kind in ("annotation", "class", "frame", "module", "rank"):
        raise UsageError(f"{str(what)!r} is not a single event; name a kernel, an operator or a collective")
    graph, events, what = base.graph, base.graph.event_table, what.read_in(base)
    meant = what.names_in(graph, events.name)[events.name] & (graph.timeline.position[2 * np.arange(len(events))] >= 0)
    if what.kind in ("kernel", "collective"):
        meant &= graph.is_activity
    elif what.kind:
        meant &= _selected_rows(graph, what)
    found = np.flatnonzero(meant & base.is_inside[:-1:2] & base.is_issued)
    if not len(found):
        raise _no_match_error(base, what)
    return found


SELECTORS: dict[str, Callable[[ReplayGraph, Selector], Bools]] = {
    "kernel": _kernel_parts,
    "operator": _inside_parts,
    "module": _inside_parts,
    "frame": _inside_parts,
    "annotation": _inside_parts,
    "collective": _collective_parts,
    "class": _class_parts,
    "rank": _rank_parts,
    "": _event_parts,
}
"""The kinds of things that a change may be about."""


# -- where nothing is called so ---------------------------------------------------------------------------------------


def _no_match_error(base: ReplayGraph, what: Selector) -> QueryError:
    """Return the error: the same pattern may name another kind of thing, or a close name, or something elsewhere."""
    window = "the whole trace" if base.window.is_whole else base.window.label
    said = f"{base.graph.path}: nothing in {window} matches {str(what)!r}"
    if what.kind in KINDS_WITHOUT_NAMES:
        return QueryError(said, LIST_HINT)
    others = [replace(what, kind=kind) for kind in SELECTORS if kind not in ("", what.kind, *KINDS_WITHOUT_NAMES)]
    found = [str(other) for other in others if (SELECTORS[other.kind](base, other) & base.may_change).any()]
    if found:
        return QueryError(said, f"use {' or '.join(found)}")
    names = base.graph.event_table.name
    if what.names_in(base.graph, names)[names].any():
        return QueryError(
            f"{said}; the name occurs outside the window, or on events without time of their own",
            "choose another window or name",
        )
    replayed = replayed_names(base.graph, what.kind).used if what.kind in OWNER_LOOKUPS else []
    close = _corrected_kinds(what, SELECTORS) or closest_names(what.pattern, [*_names_in_window(base), *replayed])
    if close:
        return QueryError(
            said, f"did you mean {' or '.join(repr(shorten_middle(name, LONGEST_SHOWN_NAME)) for name in close)}?"
        )
    return QueryError(said, LIST_HINT)


def _corrected_kinds(what: Selector, kinds: Collection[str]) -> list[str]:
    """Return what is meant if the word in front of a colon is nearly that of a kind."""
    kind, colon, pattern = what.pattern.partition(":")
    is_name = what.kind or not colon or pattern.startswith(":")
    return [] if is_name else [f"{close}:{pattern}" for close in closest_names(kind, filter(None, kinds), 1)]


def _names_in_window(base: ReplayGraph) -> list[str]:
    """Return the names of what takes time in the window."""
    owner = base.parts.owner
    return [base.graph.names[code] for code in distinct(base.graph.event_table.name[owner[owner >= 0]]).tolist()]
