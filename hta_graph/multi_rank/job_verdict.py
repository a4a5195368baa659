"""The verdict of a job: which rank delays the others, in which steps, by how much and by what, or that no rank does.

An asked window comes first; else all steps; else the one step that differs from the others. A rank is named only where
chance does not explain what it delays: ranks of a sound job are late in turn, for many small reasons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import combinations, compress
from math import exp, lgamma, log, log1p
from typing import Literal, NamedTuple

import numpy as np

from hta_graph.base.arrays import summed_by, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import held_elsewhere, memoized
from hta_graph.graph.rank_summary import RankSummary
from hta_graph.model import Bools, BoundBy, Ints
from hta_graph.multi_rank.rank_activity import NO_ROW_NAME, STEP_ROW_NAME, RankActivity
from hta_graph.multi_rank.rank_delays import RankDelays, RankSpans, own_work, rank_delays
from hta_graph.multi_rank.wait_causes import AttributedWaits, WaitCauses
from hta_graph.paths.windows import Window, rank_step_ends, step_lengths, whole

LEAST_SHARE, FIRM_SHARE = 0.05, 0.1
"""A rank that delays a step by less than the first share of it is not named; by less than the second, with a doubt.

Steps of one program differ by 5%.
"""

LEAST_OF_WAITING, FIRM_OF_WAITING = 0.25, 0.5
"""The same of the waiting in the steps that it delays: who causes less is one of several."""

LEADING = 0.5
"""From this share of what a rank delays the others by on, one operation is its cause, if it is no other rank's.

A processor that is taken away, or loads that differ by chance, hit whatever runs, on any rank.
"""

CLEARLY = 2
"""A rank leads a step clearly if it delays the others this many times as long as the next one does."""

BY_FAR = 4
"""Of ranks that take turns each delays its steps this many times as long as the next one: some rank is always last."""

LARGE_SHARE = 0.3
"""A rank that leads every step clearly by this share of it is named with a doubt, however few they are."""

CHANCE = 0.02
"""A rank is named only if chance lets one lead as many steps no more often than this."""

UNUSUAL = 3
"""A step differs if it is longer than the others by more than this many times their range."""

ENOUGH = 5
"""The range of fewer times is small by chance."""

FEWEST_STEPS = 3
"""A step is compared with two others at least, which have a range."""

NOTABLE_PART = 1 / 3
"""Steps are among the most delayed ones from this share of the largest delay on."""

ERRORS = 4
"""Delays below this multiple of the clock error are hedged."""

LATEST_NS = int(np.iinfo(np.int64).max)

CANDIDATES = 3
"""How many ranks, those that delay most, are looked at."""

MOST_UNMATCHED = 0.5
"""Where more of the communication than this, by its time, has no partner, no rank is named."""

STEPS_LOOKED_AT = 24
"""Where ranks take turns in very many steps, the causes of this many are compared."""

MOSTLY_LAST = 0.5
"""Without known causes the rank is mentioned that more of the waiting than this is for."""

TURNS = 3
"""At least this many different ranks take turns."""

VerdictScope = Literal["all_steps", "step", "window"]
Firmness = Literal["firm", "hedged", "none"]
Pattern = Literal["every_step", "since", "once", "rotating"]
VerdictReason = Literal[
    "no_waiting", "no_cause_known", "no_causes_in_summary", "mostly_unmatched", "several_ranks", "little", "by_chance"
]


class Cause(NamedTuple):
    """What a rank does most of while the others wait for it."""

    bound_by: str
    name: str
    call_path: str


class LateRank(NamedTuple):
    """A rank that delays a job with others (times in ns): by how much if these were on time, and in which steps.

    ``saves_ns`` is how much shorter a step would be if this one alone were on time.
    """

    rank: int
    median_caused_ns: int
    saves_ns: int
    steps: tuple[int, ...]
    cause: Cause | None


@dataclass(frozen=True, kw_only=True)
class JobVerdict:
    """Which rank delays a job (times in ns).

    ``rank`` is None where no rank alone does; ``ranks`` are those that delay it, that of each of ``steps`` where they
    take turns, or else the one that causes most. Of several that are late in the same steps ``rank`` is the one that
    is most, and ``late_ranks`` are all of them; ``late_ranks_save_ns`` is how much shorter a step would be if all of
    them were on time.
    ``caused_ns`` is the waiting of others that it causes, passed-on waits included, over all of them and all the job's
    collectives (of a window: its own); ``share_of_waiting`` its share of all waiting with a known cause.
    ``median_caused_ns`` is by how much it delays a step, not summed over ranks: how much sooner those that wait for it
    would go on (:class:`RankDelays`), the median of ``steps``; ``share_of_step`` that as a share of a step, at most 1.
    ``steps`` are those that it delays, of all that are compared; ``reason`` says why the verdict is not firm.
    ``is_one_cause``: most of the delay is by ``cause``. ``delayed`` are the ranks that ``rank`` can delay, where these
    are not all others: those that it communicates with, directly or through others. ``phase`` is what an engine does in
    the steps that are compared, where it does other things in others.
    """

    scope: VerdictScope
    rank: int | None = None
    ranks: tuple[int, ...] = ()
    firmness: Firmness = "none"
    caused_ns: int = 0
    median_caused_ns: int = 0
    share_of_waiting: float = 0.0
    share_of_step: float = 0.0
    cause: Cause | None = None
    pattern: Pattern | None = None
    since_step: int | None = None
    steps: tuple[int, ...] = ()
    reason: VerdictReason | None = None
    waiting_ns: int = 0
    compared: int = 0
    is_one_cause: bool = True
    delayed: tuple[int, ...] = ()
    phase: str = ""
    late_ranks: tuple[LateRank, ...] = ()
    late_ranks_save_ns: int = 0


@memoized
def wait_causes(job: DependencyGraph) -> WaitCauses:
    """Return the causes of a job's waits, with data loading as PyTorch names it."""
    return WaitCauses(job)


def knows_causes(job: DependencyGraph) -> bool:
    """Return whether causes are known: summaries have them only where they were asked for them."""
    parts = [job.graph(part.rank) for part in job.rank_graphs]
    return all(part.attached(RankSummary) is None or part.attached(RankActivity) is not None for part in parts)


def job_verdict(job: DependencyGraph, window: Window | None = None) -> JobVerdict:
    """Return which rank delays a job, in all steps, or in a window that was asked for."""
    if window is None or window.is_default or window.is_whole:
        return _verdict_of_steps(job)
    known, span = _verdicts_of_windows(job), (window.start_ns, window.end_ns, window.step)
    if span not in known:
        known[span] = _of_window(job, window)
    return known[span]


def late_recordings(job: DependencyGraph, found: JobVerdict) -> dict[int, int]:
    """Return by how much (ns) recordings begin later than the first one, where ranks are thus not known to be late.

    That is where most waiting is for such a rank and has no known cause, or where an iteration or more is not recorded.
    """
    starts = {part.rank: int(part.graph.event_table.start.min(initial=LATEST_NS)) for part in job.rank_graphs}
    first = min(starts.values())
    lengths = [one.iteration_ns for one in step_lengths(job)]
    usual = int(np.median(lengths)) if lengths else LATEST_NS
    unknown = found.ranks if found.reason == "no_cause_known" else ()
    late = {rank: start - first for rank, start in starts.items()}
    return {rank: ns for rank, ns in late.items() if ns >= usual or (rank in unknown and ns >= LEAST_SHARE * usual)}


def missing_ranks(job: DependencyGraph) -> tuple[int, ...]:
    """Return the ranks of a job, as its traces record their number, that are not given."""
    size = max((part.graph.trace.world_size or 0 for part in job.rank_graphs), default=0)
    return tuple(np.setdiff1d(np.arange(size), job.rank_numbers).tolist())


@memoized
def _verdicts_of_windows(_: DependencyGraph) -> dict[tuple[int, int, int | None], JobVerdict]:
    return {}


@memoized
def delays_by_step(job: DependencyGraph) -> StepDelays:
    """Return by how much ranks delay the others in each step of a job; without steps, in all of it."""
    ends, steps = rank_step_ends(job), [step_lengths(part.graph) for part in job.rank_graphs]
    proposed = Counter(one.number for of_rank in steps for one in of_rank if one.is_candidate)
    numbers = sorted({number for of_rank in ends for number in of_rank})
    if not numbers:
        window = whole()(job)
        return _delays_in(job, window.start_ns, window.end_ns)
    span = np.zeros((2, len(numbers), len(ends)), np.int64)
    for place, (part, of_rank) in enumerate(zip(job.rank_graphs, ends, strict=True)):
        before = min((item.start_ns for item in part.graph.steps()), default=0)
        for row, number in enumerate(numbers):
            end = max(of_rank.get(number, before), before)
            span[:, row, place] = before, end
            before = end
    most = max(proposed.values(), default=0)
    compared = np.array([proposed[number] == most for number in numbers], np.bool_)
    spans = RankSpans(span[0], span[1])
    return StepDelays(held_elsewhere(job), numbers, compared, spans, rank_delays(job, wait_causes(job), spans))


def _delays_in(job: DependencyGraph, start_ns: int, end_ns: int) -> StepDelays:
    """Return by how much ranks delay the others in one window."""
    spans = RankSpans(*(np.full((1, len(job.rank_graphs)), time, np.int64) for time in (start_ns, end_ns)))
    return StepDelays(held_elsewhere(job), [], np.ones(1, np.bool_), spans, rank_delays(job, wait_causes(job), spans))


@dataclass(frozen=True, eq=False)
class StepDelays:
    """How much ranks delay the others, by step; ``compared`` marks the steps that are no warm-up."""

    asked: Callable[[], DependencyGraph]
    numbers: Sequence[int]
    compared: Bools
    spans: RankSpans
    found: RankDelays
    on_time: tuple[int, ...] = ()
    """Ranks that are taken to be on time."""

    def without(self, *columns: int) -> StepDelays:
        """Return the same as if some ranks were on time."""
        found = reduce(RankDelays.without, columns, self.found)
        return replace(self, found=found, on_time=(*self.on_time, *map(self.rank, columns)))

    @property
    def job(self) -> DependencyGraph:
        """The job, which keeps its delays and is not kept by them."""
        return self.asked()

    def leading_rank(self, number: int, late: Sequence[int] = ()) -> int | None:
        """Return the rank that delays a step by a notable share, if one clearly does, or most of ``late`` ones."""
        if number not in self.numbers or not self.found.delay.size:
            return None
        row = list(self.numbers).index(number)
        delay = self.found.delay[row]
        place = int(delay.argmax())
        beside = ~np.isin(self.job.rank_numbers[self.found.part], late) | (self.rank(place) not in late)
        beside[place] = False
        next_ns = int(delay[beside].max(initial=0))
        stands_out = delay[place] >= LEAST_SHARE * self.found.length[row, place] and delay[place] >= CLEARLY * next_ns
        return self.rank(place) if stands_out and delay[place] > 0 else None

    def delay_ns(self, number: int, rank: int) -> int:
        """Return by how much (ns) a rank delays the others in a step."""
        column = np.flatnonzero(np.asarray(self.job.rank_numbers)[self.found.part] == rank)
        return int(self.found.delay[list(self.numbers).index(number), column].sum())

    def rank(self, column: int) -> int:
        """Return the rank of a column of the delays."""
        return int(self.job.rank_numbers[self.found.part[column]])

    @cached_property
    def compared_waits(self) -> AttributedWaits:
        """The waits of the steps that are no warm-up, attributed."""
        return self.attributed(np.flatnonzero(self.compared))

    def attributed(self, rows: Ints) -> AttributedWaits:
        """Attribute the waits of some steps."""
        causes = wait_causes(self.job)
        found = causes.attribute(time=self.found.times_in(rows, causes.waits.time))
        return found.take(~np.isin(found.rank, self.on_time))


class _Work(NamedTuple):
    """What a rank does while others wait: most of what, and the share of all waiting.

    ``is_most``: most of its delays are by that (``activity``). ``is_leading``: and it is one operation: what has no row
    is one only where the rank causes most of the waiting. ``is_one``: on no other rank that delays others as much.
    ``is_known``: more waiting goes back to it than has no known cause, which may be another rank's.
    """

    cause: Cause | None
    is_most: bool
    is_leading: bool
    is_one: bool
    of_waiting: float
    is_known: bool
    activity: int = -1


class _Case(NamedTuple):
    """What speaks for a rank (a column of the delays): in which rows, by how much, by what, how sure."""

    column: int
    rows: Ints
    delay_ns: int
    share: float
    work: _Work
    firmness: Firmness
    reason: VerdictReason | None


@memoized
def _verdict_of_steps(job: DependencyGraph) -> JobVerdict:
    """Return the verdict of all steps, else of the step that differs."""
    if (cannot := _cannot_tell(job)) is not None:
        return cannot
    steps = delays_by_step(job)
    if not steps.numbers:
        return _of_single(steps, "window")
    rows = np.flatnonzero(steps.compared)
    if len(rows) == 1:
        return _of_single(steps, "all_steps", int(rows[0]))
    cases = _cases(steps, rows)
    if (turns := _rotating(steps, rows)) is not None:
        return turns
    if (best := _best(cases) or _one_of_two(steps, rows)) is not None:
        late = _all_late(steps, rows, best)
        found = _verdict(steps, "all_steps", late[0], *_pattern(steps, rows, late[0].rows))
        return _with_others(steps, found, late) if len(late) > 1 else found
    single = _case_of_differing_step(steps, rows)
    if single is not None:
        return _verdict(steps, "step", single, "once", None)
    return _no_rank(steps, "all_steps", rows, cases[0].reason if cases else "little")


def _cases(steps: StepDelays, rows: Ints) -> list[_Case]:
    """Return what speaks for the ranks that delay most."""
    order = np.argsort(-steps.found.delay[rows].sum(axis=0), kind="stable")[:CANDIDATES]
    return [case for column in order.tolist() for case in _cases_in_steps(steps, rows, column)]


def _best(cases: Sequence[_Case], *, firm: bool = False) -> _Case | None:
    """Return the case that is the surest, then the largest, of those that name a rank."""
    named = [case for case in cases if case.firmness == "firm" or (case.firmness == "hedged" and not firm)]
    return min(named, key=lambda case: (case.firmness != "firm", -case.delay_ns * len(case.rows)), default=None)


def _firm(steps: StepDelays, rows: Ints, column: int) -> _Case | None:
    """Return the firm case of a rank, if it has one."""
    return _best(_cases_in_steps(steps, rows, column), firm=True)


def _one_of_two(steps: StepDelays, rows: Ints) -> _Case | None:
    """Return the case of one of two ranks that hide each other: each delays the others firmly were the other on time.

    Of two that are equally late chance decides for which one the others wait.
    """
    sums = (steps.found.delay + steps.found.hidden)[rows].sum(axis=0)
    for one, other in combinations(np.argsort(-sums, kind="stable")[:CANDIDATES].tolist(), 2):
        case = _firm(steps.without(other), rows, one)
        if case is not None and _firm(steps.without(one), rows, other) is not None:
            return case
    return None


def _all_late(steps: StepDelays, rows: Ints, first: _Case) -> list[_Case]:
    """Return what speaks for each rank that delays the job firmly if those before it were on time, the most first."""
    found = [first]
    while len(found) < CANDIDATES:
        rest = steps.without(*(case.column for case in found))
        if (case := _best(_cases(rest, rows), firm=True)) is None:
            break
        found.append(case)
    others = [steps.without(*(case.column for case in found if case is not own)) for own in found]
    each = [_firm(beside, rows, own.column) or own for beside, own in zip(others, found, strict=True)]
    return sorted(each, key=lambda case: -case.delay_ns * len(case.rows))


def _with_others(steps: StepDelays, found: JobVerdict, late: Sequence[_Case]) -> JobVerdict:
    """Name all ranks that are late, with what is saved if one of them, or all, are on time."""
    rows, columns = np.unique(np.concatenate([case.rows for case in late])), [case.column for case in late]
    lost = steps.found.by_all(columns)[rows]
    rest = [steps.found.without(own).by_all([one for one in columns if one != own])[rows] for own in columns]
    ranks = tuple(
        LateRank(
            steps.rank(case.column), case.delay_ns, int(np.median(lost - left).clip(0)),
            tuple(steps.numbers[row] for row in case.rows.tolist()), case.work.cause,
        )
        for case, left in zip(late, rest, strict=True)
    )  # fmt: skip
    named = tuple(one.rank for one in ranks)
    caused, waiting = _caused_by(steps, named)
    return replace(
        found, ranks=named, caused_ns=caused, share_of_waiting=caused / max(waiting, 1), late_ranks=ranks,
        late_ranks_save_ns=int(np.median(lost)),
    )  # fmt: skip


def _cannot_tell(job: DependencyGraph, scope: VerdictScope = "all_steps") -> JobVerdict | None:
    """Return the verdict where causes are not known, or communication is mostly unmatched."""
    if not knows_causes(job):
        return JobVerdict(scope=scope, reason="no_causes_in_summary")
    if _unmatched_share(job) > MOST_UNMATCHED:
        return JobVerdict(scope=scope, reason="mostly_unmatched")
    return None if len(wait_causes(job).waits) else JobVerdict(scope=scope, reason="no_waiting")


def _unmatched_share(job: DependencyGraph) -> float:
    """Return the share of communication, by its time, that is unmatched."""
    members, events = job.members, job.event_table
    length = events.end[members.row] - events.start[members.row]
    return float(length[members.number < 0].sum() / max(int(length.sum()), 1))


def _cases_in_steps(steps: StepDelays, rows: Ints, column: int) -> list[_Case]:
    """Return what speaks for a rank in several steps: the most delayed ones, and all in which it dwarfs other delays.

    One long delay must not hide a steady one, nor many small ones a few that are much longer. Smaller delays alone have
    to be certain: among ranks that share the waiting one leads some steps by chance.
    """
    own, others, length = _own_and_others(steps, rows, column)
    least = np.maximum(LEAST_SHARE * length, max(float(np.median(others)), 1))
    is_longest = own >= np.maximum(least, NOTABLE_PART * own.max())
    found = [_case_in_steps(steps, rows, column, np.flatnonzero(is_longest))] if is_longest.sum() >= 2 else []
    is_clear = (own >= np.maximum(least, FIRM_SHARE * length)) & (own >= CLEARLY * others)
    every = is_longest | (is_clear & _dwarfs(steps.found.delay[rows], column, is_clear))
    # Next to a single long step, one more is chance: a steady delay is in two others.
    if every.sum() >= (3 if is_longest.sum() < 2 else 2) and not np.array_equal(every, is_longest):
        case = _case_in_steps(steps, rows, column, np.flatnonzero(every))
        found += [case] if case.firmness == "firm" or any(one.firmness != "none" for one in found) else []
    return found


def _time_by_step(steps: StepDelays, activity: int) -> Ints:
    """Return how long (ns) ranks, by their places, do something in each step."""
    members, spans = steps.job.members, steps.spans
    member, since, ns = wait_causes(steps.job).times_of(activity)
    part, came = members.part[member], members.arrival[member]
    at, row, low, high = spans.divided(part, since, came)
    # How it divides among the steps that a walk crosses is not known: as all of the walk does.
    share = np.where(came > since, 0, 1)[at] + (high - low) / np.maximum(came - since, 1)[at]
    time = np.zeros((len(spans.end) + 1, len(steps.job.rank_graphs)))
    np.add.at(time, (row, part[at]), ns[at] * share)
    found: Ints = np.rint(time[:-1]).astype(np.int64)
    return found


def _own_and_others(steps: StepDelays, rows: Ints, column: int) -> tuple[Ints, Ints, Ints]:
    """Return by how much a rank delays steps, by how much another one does at most, and the steps' lengths."""
    delay = steps.found.delay[rows]
    others = np.delete(delay, column, axis=1).max(axis=1, initial=0)
    return delay[:, column], others, steps.found.length[rows, column]


def _case_in_steps(steps: StepDelays, rows: Ints, column: int, delayed: Ints) -> _Case:
    """Return what speaks for a rank in the steps that it delays, places of rows."""
    own, others, length = _own_and_others(steps, rows, column)
    is_most = 2 * int(np.count_nonzero(own[delayed] >= others[delayed])) >= len(delayed)
    leads = own[delayed] >= CLEARLY * others[delayed]
    by_chance = chance_of(int(np.count_nonzero(leads)), len(rows), len(steps.job.rank_graphs)) > CHANCE
    delayed = delayed[leads] if _differs_where_another_leads(steps, rows[delayed], leads, column) else delayed
    work = _work_meanwhile(steps, rows[delayed], column)
    share, delay_ns = float(np.median(own[delayed] / length[delayed])), int(np.median(own[delayed]))
    # What one operation takes longer in few steps is chance, too, where it is a small share, or next to a late rank.
    is_one = work.is_one and share >= FIRM_SHARE and not steps.on_time
    by_chance = by_chance and not (is_one and _takes_longest(steps, rows[delayed], column, work))
    # Next to ranks that are taken to be on time anything stands out, and a stage may always do so.
    can_stand_out = not steps.on_time and (len(delayed) < len(rows) or not wait_causes(steps.job).include_messages)
    by_chance = by_chance and not (can_stand_out and _stands_out(steps.found.delay[rows], column, delayed))
    firmness, reason = _firmness(steps, delay_ns, share, work, is_most=is_most, by_chance=by_chance)
    if reason == "by_chance" and _always_leads_by_much(own, others, length):
        firmness, reason = _firmness(steps, delay_ns, share, work, is_most=is_most, by_chance=False)
        firmness, reason = ("hedged", "by_chance") if firmness == "firm" else (firmness, reason)
    return _Case(column, rows[delayed], delay_ns, share, work, firmness, reason)


def _stands_out(delay: Ints, column: int, delayed: Ints) -> bool:
    """Return whether several delays by one rank are clearly larger than all others, and chance is no reason for that.

    They dwarf these: however seldom that is, the steps lost it. Or they are more than chance puts on one rank; of two
    the second one can be chance.
    """
    own, is_own = delay[delayed, column], np.isin(np.arange(len(delay)), delayed)
    leads = int(own.min()) >= CLEARLY * int(np.delete(delay, column, axis=1).max(initial=0))
    are_many = leads and max(delay.shape[1], 2) ** (1 - len(own)) <= CHANCE
    return len(own) >= FEWEST_STEPS and (are_many or bool(_dwarfs(delay, column, is_own)[delayed].all()))


def _dwarfs(delay: Ints, column: int, is_own: Bools) -> Bools:
    """Mark where a rank delays steps by more than all other delays, or none, by several times the range of these."""
    others = np.concatenate([[0], np.delete(delay, column, axis=1).ravel(), delay[~is_own, column]])
    far: Bools = delay[:, column] - float(np.median(others)) > UNUSUAL * int(np.ptp(others))
    return far & (len(others) > ENOUGH)


def _always_leads_by_much(own: Ints, others: Ints, length: Ints) -> bool:
    """Return whether a rank delays each of several steps clearly most, and usually by much: a stage that is slow."""
    is_large = float(np.median(own / np.maximum(length, 1))) >= LARGE_SHARE
    return is_large and len(own) >= FEWEST_STEPS and bool((own >= CLEARLY * others).all())


def _differs_where_another_leads(steps: StepDelays, rows: Ints, leads: Bools, column: int) -> bool:
    """Return whether a rank does something else in the steps that others delay as much as in those that it leads."""
    if np.count_nonzero(leads) < 2 or leads.all():
        return False
    mainly, elsewhere = (_work_meanwhile(steps, rows[mine], column) for mine in (leads, ~leads))
    return not elsewhere.is_most or elsewhere.cause != mainly.cause


def _takes_longest(steps: StepDelays, rows: Ints, column: int, work: _Work) -> bool:
    """Return whether what a rank does mostly takes it clearly longer, in these steps, than any other rank.

    Of random loads some rank has the largest in each of few steps, but hardly twice as much as all others, nor more
    than others by several times the range of all of these, where there are enough of them. A stage of a pipeline may
    always do something while another one that does as much of it waits: it has to take longer than in other steps.
    """
    time, late = _time_by_step(steps, work.activity), int(steps.found.part[column])
    named, beside = time[rows].sum(axis=0), np.setdiff1d(np.flatnonzero(steps.compared), rows)
    own, longest = time[beside, late], float(np.median(time[rows, late]))
    may_be_usual = wait_causes(steps.job).include_messages
    if may_be_usual and not len(own):
        return False
    usual = float(np.median(own)) if may_be_usual else 0.0
    if named[late] >= CLEARLY * np.delete(named, late).max(initial=0) and longest >= CLEARLY * usual:
        return True
    others = np.append(np.delete(time[steps.compared], late, axis=1), own)
    return len(others) >= ENOUGH and longest - max(usual, float(np.median(others))) > UNUSUAL * int(np.ptp(others))


def _firmness(
    steps: StepDelays, delay_ns: int, share: float, work: _Work, *, is_most: bool, by_chance: bool
) -> tuple[Firmness, VerdictReason | None]:
    """Rate a case, and say what keeps it from being firm."""
    if not work.is_known:
        return "none", "no_cause_known"
    if by_chance:
        return "none", "by_chance"
    if not is_most or work.of_waiting < LEAST_OF_WAITING:
        return "none", "several_ranks"
    if share < LEAST_SHARE:
        return "none", "little"
    if share < FIRM_SHARE or delay_ns < ERRORS * int(steps.job.clock_table.error.max(initial=0)):
        return "hedged", "little"
    return ("firm", None) if work.of_waiting >= FIRM_OF_WAITING else ("hedged", "several_ranks")


def chance_of(leads: int, steps: int, ranks: int) -> float:
    """Return how often some rank leads at least that many steps by chance.

    >>> chance_of(3, 3, 8) < 0.02 < chance_of(3, 3, 4), chance_of(0, 3, 4)
    (True, 1.0)
    >>> chance_of(1_000, 10_000, 8) > 0.99 > 0.02 > chance_of(1_500, 10_000, 8)
    True
    """
    counts, one = range(leads, steps + 1), 1 / max(ranks, 2)
    # The numbers of ways themselves are too large for floats from about a thousand steps on.
    ways = (lgamma(steps + 1) - lgamma(count + 1) - lgamma(steps - count + 1) for count in counts)
    terms = zip(counts, ways, strict=True)
    tail = sum(exp(way + count * log(one) + (steps - count) * log1p(-one)) for count, way in terms)
    return min(1.0, ranks * tail)


def _work_meanwhile(steps: StepDelays, rows: Ints, column: int) -> _Work:
    """Return what a rank does in some steps while others wait."""
    causes, found = wait_causes(steps.job), steps.attributed(rows)
    is_known = (found.activity >= 0) & (found.rank >= 0)
    unknown, known = int(found.caused[~is_known].sum()), found.take(is_known)
    mine = known.take(known.rank == steps.rank(column))
    mine = mine.take(own_work(causes)[mine.activity])
    caused, lost = int(mine.caused.sum()), int(known.caused.sum())
    shown = int(steps.found.shown[rows, column].sum()) * (len(steps.job.rank_graphs) - 1)
    if shown > caused:
        # Nobody waits for it yet: nothing tells what it does meanwhile.
        share = (caused + shown) / (lost + shown)
        return _Work(None, is_most=False, is_leading=False, is_one=False, of_waiting=share, is_known=True)
    if not caused:
        return _Work(None, is_most=False, is_leading=False, is_one=False, of_waiting=0.0, is_known=False)
    most, done, largest = int(mine.activity[mine.caused.argmax()]), causes.activities, int(mine.caused.max())
    cause = Cause(BoundBy(done.bound[most]).label, done.name[most], done.call_path[most])
    has_row = cause.name not in (STEP_ROW_NAME, NO_ROW_NAME)
    is_most = largest >= LEADING * caused
    is_leading = is_most and (has_row or caused >= FIRM_OF_WAITING * lost)
    every = steps.compared_waits
    elsewhere = every.caused[(every.activity == most) & (every.rank != steps.rank(column))]
    is_one = is_leading and largest >= CLEARLY * int(elsewhere.max(initial=0))
    return _Work(cause, is_most, is_leading, is_one, caused / lost, is_known=caused > unknown, activity=most)


def _case_of_differing_step(steps: StepDelays, rows: Ints) -> _Case | None:
    """Return what speaks for a rank in the step that is longer than the others by more than these differ.

    What it delays that step by more than the others has to explain at least half of that, and no other rank delays the
    step nearly as much: of several random loads one is always the longest. Two other steps may be alike by chance: then
    one operation has to be the cause. Of very few steps the first one is among the others: it warms up, and is usually
    longer than they are.
    """
    rows = rows if len(rows) >= FEWEST_STEPS else np.arange(len(steps.numbers))
    late = int(steps.found.delay[rows].max(axis=0).argmax())
    length = steps.found.length[rows, late]
    if len(rows) < FEWEST_STEPS or not steps.compared[rows[length.argmax()]]:
        return None
    at = int(length.argmax())
    others = np.delete(length, at)
    longer = int(length[at] - np.median(others))
    if longer <= UNUSUAL * int(others.max() - others.min()) or longer < LEAST_SHARE * length[at]:
        return None
    case = _case_in_single(steps, int(rows[at]))
    if case is None or case.firmness == "none" or steps.leading_rank(steps.numbers[rows[at]]) is None:
        return None
    if len(others) < FEWEST_STEPS and case.firmness != "firm":
        return None
    usual_ns = int(np.median(np.delete(steps.found.delay[rows, case.column], at)))
    return case if 2 * (case.delay_ns - usual_ns) >= longer else None


def _case_in_single(steps: StepDelays, row: int) -> _Case | None:
    """Return what speaks for a rank in one step; None where none clearly leads."""
    delay = steps.found.delay[row]
    if not len(delay) or not delay.any():
        return None
    column = int(delay.argmax())
    length = int(steps.found.length[row, column])
    work = _work_meanwhile(steps, np.array([row]), column)
    own, next_ns = int(delay[column]), int(np.delete(delay, column).max(initial=0))
    leads = own >= CLEARLY * next_ns
    share = own / max(length, 1)
    firmness, reason = _firmness(steps, own, share, work, is_most=leads or work.is_leading, by_chance=False)
    if firmness == "firm" and not work.is_leading:
        firmness, reason = "hedged", "by_chance"
    return _Case(column, np.array([row]), own, share, work, firmness, reason)


def _rotating(steps: StepDelays, rows: Ints) -> JobVerdict | None:
    """Return the verdict where a different rank delays most steps by far, by the same operation."""
    delay = steps.found.delay[rows]
    most = delay.argmax(axis=1)
    each = np.arange(len(rows))
    own, share = delay[each, most], delay[each, most] / np.maximum(steps.found.length[rows, most], 1)
    by_far = own >= BY_FAR * np.partition(delay, -2, axis=1)[:, -2] if delay.shape[1] > 1 else np.zeros(len(rows), bool)
    led = np.flatnonzero(by_far & (share >= FIRM_SHARE))
    turns = np.bincount(most[led], minlength=1)
    takes_turns = np.count_nonzero(turns) >= TURNS and 2 * turns.max() <= len(led)
    if 4 * len(led) < 3 * len(rows) or not takes_turns:
        return None
    looked_at = led[:: -(-len(led) // STEPS_LOOKED_AT)]
    cases = [_case_in_single(steps, int(rows[at])) for at in looked_at.tolist()]
    causes = {case.work.cause for case in cases if case is not None and case.firmness != "none"}
    if len(causes) != 1:
        return None
    ranks = tuple(steps.rank(column) for column in most[led].tolist())
    total, waiting = _caused_by(steps, ranks)
    return JobVerdict(
        scope="all_steps", ranks=ranks, firmness="firm", caused_ns=total, median_caused_ns=int(np.median(own[led])),
        share_of_waiting=total / max(waiting, 1), share_of_step=float(np.median(share[led])), cause=causes.pop(),
        pattern="rotating", steps=tuple(steps.numbers[row] for row in rows[led].tolist()), waiting_ns=waiting,
        compared=len(rows),
    )  # fmt: skip


def _pattern(steps: StepDelays, rows: Ints, delayed: Ints) -> tuple[Pattern | None, int | None]:
    """Return when a rank delays steps: in every one, or from one of them on."""
    if len(delayed) >= 0.9 * len(rows):
        return "every_step", None
    before = delayed[0]  # rows of steps, the warm-up too
    if len(delayed) == len(rows) - int(np.searchsorted(rows, before)) and before >= 2:
        return "since", steps.numbers[int(before)]
    return None, None


def _of_window(job: DependencyGraph, window: Window) -> JobVerdict:
    """Return the verdict of a window that was asked for."""
    scope: VerdictScope = "window" if window.step is None else "step"
    if (cannot := _cannot_tell(job, scope)) is not None:
        return cannot
    steps = delays_by_step(job)
    if window.step is not None and window.step in steps.numbers:
        return _of_single(steps, scope, list(steps.numbers).index(window.step))
    return _of_single(_delays_in(job, window.start_ns, window.end_ns), scope)


def _of_single(steps: StepDelays, scope: VerdictScope, row: int = 0) -> JobVerdict:
    """Return the verdict where there is nothing to compare a step or window with."""
    case = _case_in_single(steps, row)
    if case is None or case.firmness == "none":
        return _no_rank(steps, scope, np.array([row]), "no_cause_known" if case is None else case.reason)
    return _verdict(steps, scope, case, None, None)


def _verdict(
    steps: StepDelays, scope: VerdictScope, case: _Case, pattern: Pattern | None, since_step: int | None
) -> JobVerdict:
    rank = steps.rank(case.column)
    caused, waiting = _caused_by(steps, (rank,), None if scope == "all_steps" else case.rows)
    numbers = tuple(steps.numbers[row] for row in case.rows.tolist()) if steps.numbers else ()
    return JobVerdict(
        scope=scope, rank=rank, ranks=(rank,), firmness=case.firmness, caused_ns=caused, median_caused_ns=case.delay_ns,
        share_of_waiting=caused / max(waiting, 1), share_of_step=case.share, cause=case.work.cause, pattern=pattern,
        since_step=since_step, steps=numbers, reason=case.reason, waiting_ns=waiting,
        compared=int(np.count_nonzero(steps.compared)), is_one_cause=case.work.is_most,
        delayed=_ranks_in_reach(steps.job, rank), phase=_compared_phase(steps),
    )  # fmt: skip


def _compared_phase(steps: StepDelays) -> str:
    """Return what an engine does in the compared steps, if that is one phase of several."""
    compared = set(compress(steps.numbers, steps.compared.tolist()))
    phases = {item.phase for item in steps.job.steps()}
    found = {item.phase for item in steps.job.steps() if item.number in compared}
    return (found.pop() or "") if len(found) == 1 < len(phases) else ""


def _ranks_in_reach(job: DependencyGraph, rank: int) -> tuple[int, ...]:
    """Return the ranks that communicate with a rank, directly or through others; none if all do."""
    members, of_rank = job.members.take(job.members.number >= 0), np.arange(len(job.rank_graphs))
    while True:
        lowest = np.full(int(members.number.max(initial=-1)) + 1, len(of_rank))
        np.minimum.at(lowest, members.number, of_rank[members.part])
        found = of_rank.copy()
        np.minimum.at(found, members.part, lowest[members.number])
        found = found[found]
        if np.array_equal(found, of_rank):
            break
        of_rank = found
    reached = of_rank == of_rank[job.index_of_rank(rank)]
    return () if reached.all() else tuple(of for of in job.rank_numbers[reached].tolist() if of != rank)


def _no_rank(steps: StepDelays, scope: VerdictScope, rows: Ints, reason: VerdictReason | None) -> JobVerdict:
    """Return the verdict that no rank alone delays the job, with the one that causes most."""
    found = _known(steps, None if scope == "all_steps" else rows)
    ranks, sums = _by_rank(found)
    # Of very many ranks only some have delays; another one may cause more outside the steps.
    has_delay = np.isin(ranks, steps.job.rank_numbers[steps.found.part])
    if not has_delay.any() or reason == "no_cause_known":
        return _of_last_arrivals(steps, scope, None if scope == "all_steps" else rows)
    most, waiting = int(np.where(has_delay, sums, -1).argmax()), int(sums.sum())
    column = int(np.flatnonzero(steps.job.rank_numbers[steps.found.part] == ranks[most])[0])
    delay = steps.found.delay[rows, column]
    share = float(np.median(delay / np.maximum(steps.found.length[rows, column], 1)))
    return JobVerdict(
        scope=scope, ranks=(int(ranks[most]),), caused_ns=int(sums[most]), median_caused_ns=int(np.median(delay)),
        share_of_waiting=int(sums[most]) / max(waiting, 1), share_of_step=share, reason=reason, waiting_ns=waiting,
        compared=int(np.count_nonzero(steps.compared)),
    )  # fmt: skip


def _of_last_arrivals(steps: StepDelays, scope: VerdictScope, rows: Ints | None) -> JobVerdict:
    """Return the verdict where most waiting has no known cause: no rank is to blame, but one may mostly come last."""
    job, waits = steps.job, wait_causes(steps.job).waits
    time = waits.time if rows is None else steps.found.times_in(rows, waits.time)
    sums = summed_by(take_or(job.members.part.astype(np.int64), waits.late) + 1, time, len(job.rank_graphs) + 1)
    last, waiting = int(sums[1:].argmax()), int(sums.sum())
    named = (int(job.rank_numbers[last]),) if sums[last + 1] > MOSTLY_LAST * waiting else ()
    return JobVerdict(scope=scope, reason="no_cause_known", ranks=named, waiting_ns=waiting)


def _caused_by(steps: StepDelays, ranks: tuple[int, ...], rows: Ints | None = None) -> tuple[int, int]:
    """Return the waiting (ns) that ranks cause in some steps, or in the whole job, and all that has a known cause."""
    found = _known(steps, rows)
    return int(found.caused[np.isin(found.rank, ranks)].sum()), int(found.caused.sum())


def _known(steps: StepDelays, rows: Ints | None) -> AttributedWaits:
    found = _attributed_in_all(steps.job) if rows is None else steps.attributed(rows)
    return found.take((found.activity >= 0) & (found.rank >= 0))


@memoized
def _attributed_in_all(job: DependencyGraph) -> AttributedWaits:
    return wait_causes(job).attribute()


def _by_rank(found: AttributedWaits) -> tuple[Ints, Ints]:
    ranks, at = np.unique(found.rank, return_inverse=True)
    return ranks, summed_by(at.astype(np.int64), found.caused, len(ranks))
