"""How far each GPU's clock is ahead of the host's, estimated from what physics allows (:mod:`.clock_bounds`).

Clocks that agree are left alone: 0 stays wherever it is possible and plausible. Else one offset is tried first, then
offsets that jump (in one of 82 public traces by 14 µs; none was seen to drift), then a drift. Where no offsets satisfy
the bounds the clock is noisy, and the offset that violates fewest is taken.

    bound (µs)   v   v    v v  v           upper: launches
       10                          v v  v
        0  ------^--------^------------    what lies between upper and lower bounds in [from, …) is possible there:
       −5     ^       ^       ^    ^  ^    a piece ends where nothing is left between them
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from hta_graph.dependencies.clock_bounds import BoundFinder, ClockBounds
from hta_graph.model import CLOCK_FAULT_LIMIT_NS, Bools, Floats, Ints
from hta_graph.trace.table import PARTS_PER_MILLION, ClockPiece, GpuClock

LATENCY_NS = 4_000
"""A launch and a return take at least 2 µs each (public traces: 3 µs and 4 µs): so wide is what is possible."""

LEAST_LAUNCH_NS, USUAL_LAUNCH_NS, MANY_LAUNCHES = 2_000, 12_000, 100
"""Of 100 launches the quickest takes 4 to 11 µs where clocks agree."""

LEAST_RETURN_NS = 500
"""No blocking call returns sooner: 4 µs after work ended, and 0.8 µs after a slot of a full queue was freed."""

UNINFORMATIVE_NS = 40_000
"""A bound this far from the other says little: the GPU never waited for a launch, or the host never for the GPU."""

TYPICAL_LAUNCH_NS, TYPICAL_RETURN_NS = 6_000, 4_000
"""How long the quickest launch, and the quickest return, usually take."""

NEAR_NS, NEAR_SHARE, FEW_RETURNS = 20_000, 0.01, 3
"""An extreme bound is a usual latency if three, and this share of its side, lie so close: 1.6 to 80% do in public
traces, and 0.1% where the GPU is milliseconds behind its queue."""

ENOUGH_LAUNCHES, ENOUGH_RETURNS, FEWEST_RETURNS, FEW_PIECES = 20, 3, 2, 3
"""A piece is believed with at least 20 launches and 3 returns; with 2 returns where there are at most 3 pieces."""

MOST_WRONG_LAUNCHES, MOST_WRONG_RETURNS = 0.01, 0.05
"""Up to this share of bounds may be faults of their own."""

MOST_FAULTS = 200
"""More are not looked at one by one."""

FAULT_GAP_NS = 20_000
"""So far from all others a bound is a fault of its own: of real ones the nearest are within a few µs."""

LARGEST_DRIFT = 1e-3
"""No clock of a computer drifts by more."""

OUTLIERS = 0.02
"""This share of the bounds is left out where noise is measured."""

MOST_NOISE_NS = 25_000
"""What contradicts others by more is a fault of its own: noisy clocks (V100) contradict themselves by 4 to 23 µs."""

NO_BOUND = 1 << 62


def estimate_clocks(finder: BoundFinder) -> tuple[GpuClock, ...]:
    """Estimate the clock of each device on which work shows."""
    return tuple(estimate_clock(device, finder.bounds(device)) for device in finder.devices())


def estimate_clock(device: int, bounds: ClockBounds) -> GpuClock:
    """Estimate one device's clock from its bounds.

    >>> launches, returns = np.arange(0, 3_000, 100), np.arange(50, 3_050, 100)
    >>> late = ClockBounds.of(
    ...     time=[*launches, *returns], value=[26_000] * 30 + [15_000] * 30, is_lower=[False] * 30 + [True] * 30
    ... )
    >>> estimate_clock(0, late.take(np.argsort(late.time))).pieces[0].offset_ns
    20500
    """
    bounds = _without_faults(bounds)
    if not len(bounds):
        return GpuClock(device, "unknown", 0, (ClockPiece(0, None, None, None),))
    whole = _piece(bounds)
    if whole.low_ns is None or whole.high_ns is None:
        return GpuClock(device, "one_sided", 0, (whole,))
    if whole.high_ns - whole.low_ns >= LATENCY_NS:
        is_wide = whole.high_ns - whole.low_ns > UNINFORMATIVE_NS
        return GpuClock(device, "one_sided" if is_wide else "constant", 0, (whole,))
    changing = _changing(device, bounds)
    if changing is not None:
        return changing
    if whole.high_ns >= whole.low_ns:
        return GpuClock(device, "constant", 0, (whole,))
    return _noisy(device, bounds)


def _without_faults(bounds: ClockBounds) -> ClockBounds:
    """Leave out the few bounds that exclude equal clocks and stand far from all others of their side: faults."""
    # Seen from equal clocks, both sides are bounds from above: a fault is far below 0.
    room = np.where(bounds.is_lower, -bounds.value, bounds.value)
    faults = np.zeros(len(bounds), np.bool_)
    for side, share in ((~bounds.is_lower, MOST_WRONG_LAUNCHES), (bounds.is_lower, MOST_WRONG_RETURNS)):
        rows = np.flatnonzero(side)
        if not (room[rows] < 0).any():
            continue
        ordered = rows[np.argsort(room[rows], kind="stable")]
        gaps = np.diff(room[ordered])
        # What stands so far apart, up to the last such gap among the few.
        few = int(share * len(rows)) if len(rows) >= ENOUGH_LAUNCHES else 0
        apart = np.flatnonzero((gaps[:few] > FAULT_GAP_NS) & (room[ordered[:few]] < 0))
        far = np.count_nonzero(room[rows] < -CLOCK_FAULT_LIMIT_NS)
        count = max(int(apart[-1]) + 1 if len(apart) else 0, far if 2 * far <= len(rows) else 0)
        faults[ordered[:count]] = True
    return bounds.take(~faults)


def _piece(bounds: ClockBounds, *, keep_zero: bool = True) -> ClockPiece:
    """Make a piece of bounds that leave an offset: 0 where it is possible and plausible, else by usual latencies."""
    upper, lower = bounds.value[~bounds.is_lower], bounds.value[bounds.is_lower]
    low = int(lower.max()) if len(lower) else None
    high = int(upper.min()) if len(upper) else None
    if low is None or high is None:
        offset = _offset_of_one_side(low, high)
    elif keep_zero and low <= 0 <= high and _may_agree(low, high, upper, lower):
        offset = 0
    else:
        offset = _offset_between(low, high, upper, lower)
    return ClockPiece(int(bounds.time[0]), offset, low, high, 0.0, len(upper), len(lower))


def _offset_of_one_side(low: int | None, high: int | None) -> int:
    if high is None:
        return 0 if low is None or low <= 0 else low + TYPICAL_RETURN_NS
    return 0 if high >= 0 else high - TYPICAL_LAUNCH_NS


def _is_informative(distance: Ints) -> bool:
    """Return whether the extreme of one side is a usual latency: a share of the bounds lies close to it."""
    near = int(np.count_nonzero(distance <= NEAR_NS))
    return near >= FEW_RETURNS and near >= NEAR_SHARE * len(distance)


def _may_agree(low: int, high: int, upper: Ints, lower: Ints) -> bool:
    """Return whether the quickest launch and return would be plausible if clocks agreed."""
    if len(upper) >= MANY_LAUNCHES:
        is_usual = LEAST_LAUNCH_NS <= high <= USUAL_LAUNCH_NS
        if not is_usual and (high < UNINFORMATIVE_NS or _is_informative(upper - high)):
            return False
    return low <= -LEAST_RETURN_NS or len(lower) < ENOUGH_LAUNCHES


def _offset_between(low: int, high: int, upper: Ints, lower: Ints) -> int:
    by_launches, by_returns = _is_informative(upper - high), _is_informative(low - lower)
    if by_launches and not by_returns:
        return max(high - TYPICAL_LAUNCH_NS, low)
    if high - low > UNINFORMATIVE_NS or (by_returns and not by_launches):
        return min(low + TYPICAL_RETURN_NS, high)
    return max(high - TYPICAL_LAUNCH_NS, low) if len(lower) < FEW_RETURNS else (low + high) // 2


# -- clocks that change ------------------------------------------------------------------------------------------------


def _changing(device: int, bounds: ClockBounds) -> GpuClock | None:
    """Find offsets that jump, or drift; None where neither leaves room for latencies."""
    # Bounds that no other contradicts decide nothing.
    upper, lower = bounds.value[~bounds.is_lower], bounds.value[bounds.is_lower]
    least, most = upper.min() - LATENCY_NS, lower.max() + LATENCY_NS
    search = _PieceSearch(bounds, np.where(bounds.is_lower, bounds.value > least, bounds.value < most))
    parts = search.parts()
    drift = _drifting(device, bounds) if parts is None or len(parts) > FEW_PIECES else None
    if drift is not None or parts is None:
        return drift
    pieces = [_piece(part, keep_zero=len(parts) == 1) for part in parts]
    if len(pieces) > 1:
        return GpuClock(device, "steps", 0, tuple(pieces))
    noise = search.noise(pieces[0].offset_ns or 0)
    return GpuClock(device, "noisy" if noise else "constant", noise, tuple(pieces))


class _PieceSearch:
    """Divides bounds into pieces in time, each with room for latencies between its bounds; drops single faults."""

    def __init__(self, bounds: ClockBounds, decides: Bools) -> None:
        self._all = bounds
        self._place = np.flatnonzero(decides)
        chosen = bounds.take(self._place)
        self._lower = np.where(chosen.is_lower, chosen.value, -NO_BOUND)
        self._upper = np.where(chosen.is_lower, NO_BOUND, chosen.value)
        self._dropped: list[int] = []

    def parts(self) -> list[ClockBounds] | None:
        """Return the bounds of each piece; None where they cannot be believed."""
        cuts = [0]
        size = len(self._lower)
        budget = MOST_FAULTS
        while (cut := self._contradiction(cuts[-1])) < size:
            after = self._contradiction(cut)
            if self._is_piece(cut, after) and self._is_piece(cuts[-1], cut):
                cuts.append(cut)
                continue
            budget -= 1
            if not budget:
                return None
            self._drop(self._fault(cuts[-1], cut))
        returns = FEWEST_RETURNS if len(cuts) <= FEW_PIECES else ENOUGH_RETURNS
        if self._too_many_faults() or not all(self._is_piece(*pair, returns) for pair in pairwise([*cuts, size])):
            return None
        jumps = [self._jump(*three) for three in zip(cuts, cuts[1:], [*cuts[2:], size], strict=False)]
        kept = np.ones(len(self._all), np.bool_)
        kept[self._place[self._dropped]] = False
        edges = [0, *jumps, len(self._all)]
        return [self._all.take(np.flatnonzero(kept[one:other]) + one) for one, other in pairwise(edges)]

    def _jump(self, first: int, cut: int, past: int) -> int:
        """Return before which of all bounds the clock most likely jumped: launches are many, and show it at once.

        A jump back shows with the next quick launch: there the piece ends. One ahead shows with the next quick return,
        and lies behind the last launch that the new offset does not allow.
        """
        if self._upper[cut] < NO_BOUND:
            return int(self._place[cut])
        low = int(self._lower[cut:past].max())
        old = np.flatnonzero(self._upper[first:cut] < low + LATENCY_NS)
        if not len(old):
            return int(self._place[cut])
        # Where the clock jumps ahead nothing is stamped for as long: most likely in the longest such time.
        since, until = int(self._place[first + old[-1]]), int(self._place[cut])
        return since + 1 + int(np.argmax(np.diff(self._all.time[since : until + 1])))

    def noise(self, offset: int) -> int:
        """Return by how much (ns) dropped bounds contradict an offset, but for those that are far off: faults."""
        dropped = self._all.take(self._place[self._dropped])
        violation = np.where(dropped.is_lower, dropped.value - offset, offset - dropped.value)
        return int(violation[violation <= FAULT_GAP_NS].max(initial=0))

    def _contradiction(self, first: int) -> int:
        """Return the first bound from a place on that leaves no room between all since; the size if none does."""
        low, high, at, step = -NO_BOUND, NO_BOUND, first, 64
        while at < len(self._lower):
            lows = np.maximum.accumulate(np.maximum(self._lower[at : at + step], low))
            highs = np.minimum.accumulate(np.minimum(self._upper[at : at + step], high))
            none = lows + LATENCY_NS > highs
            if none.any():
                return at + int(np.argmax(none))
            low, high, at, step = int(lows[-1]), int(highs[-1]), at + step, step * 2
        return len(self._lower)

    def _is_piece(self, first: int, past: int, returns: int = FEWEST_RETURNS) -> bool:
        """Say whether there are enough bounds between two of those that decide something."""
        begin = self._place[first] if first else 0
        until = self._place[past] if past < len(self._place) else len(self._all)
        lower = int(np.count_nonzero(self._all.is_lower[begin:until]))
        return lower >= returns and until - begin - lower >= ENOUGH_LAUNCHES

    def _fault(self, first: int, cut: int) -> int:
        """Return which of two bounds that contradict each other is the fault: the one without which more fits."""
        own = self._upper[cut] < NO_BOUND
        against = self._lower[first:cut] if own else self._upper[first:cut]
        other = first + int(np.argmax(against) if own else np.argmin(against))
        return max((other, cut), key=lambda at: self._reach_without(first, at))

    def _reach_without(self, first: int, at: int) -> int:
        kept = self._lower[at], self._upper[at]
        self._lower[at], self._upper[at] = -NO_BOUND, NO_BOUND
        reach = self._contradiction(first)
        self._lower[at], self._upper[at] = kept
        return reach

    def _drop(self, at: int) -> None:
        self._dropped.append(at)
        self._lower[at], self._upper[at] = -NO_BOUND, NO_BOUND

    def _too_many_faults(self) -> bool:
        wrong = self._all.is_lower[self._place[self._dropped]]
        lower = int(np.count_nonzero(self._all.is_lower))
        returns, launches = int(np.count_nonzero(wrong)), int(np.count_nonzero(~wrong))
        return returns > max(MOST_WRONG_RETURNS * lower, 1) or launches > max(
            MOST_WRONG_LAUNCHES * (len(self._all) - lower), 1
        )


def _drifting(device: int, bounds: ClockBounds) -> GpuClock | None:
    """Find a drift that leaves room for latencies, found with one half of the bounds and confirmed by the other."""
    origin = int(bounds.time[0])
    half = np.arange(len(bounds)) % 2 == 0
    if min(np.count_nonzero(bounds.is_lower & half), np.count_nonzero(bounds.is_lower & ~half)) < FEWEST_RETURNS:
        return None
    drift, room = _widest(bounds.take(half), origin)
    if room < LATENCY_NS or _room(bounds.take(~half), origin, drift) < 0:
        return None
    drift, room = _widest(bounds, origin)
    if room < LATENCY_NS:
        return None
    level = bounds.value - drift * (bounds.time - origin)
    low, high = int(np.ceil(level[bounds.is_lower].max())), int(np.floor(level[~bounds.is_lower].min()))
    lower = int(np.count_nonzero(bounds.is_lower))
    piece = ClockPiece(
        origin, (low + high) // 2, low, high, drift * PARTS_PER_MILLION, len(bounds) - lower, lower
    )  # fmt: skip
    return GpuClock(device, "constant", 0, (piece,))


def _room(bounds: ClockBounds, origin: int, drift: float) -> float:
    """Return how much (ns) lies between the bounds along a drift; negative where they contradict each other."""
    level = bounds.value - drift * (bounds.time - origin)
    return float(level[~bounds.is_lower].min(initial=NO_BOUND) - level[bounds.is_lower].max(initial=-NO_BOUND))


def _widest(bounds: ClockBounds, origin: int) -> tuple[float, float]:
    """Return the drift that leaves most room between the bounds, and how much (ns): it is concave in the drift."""
    low, high = -LARGEST_DRIFT, LARGEST_DRIFT
    for _ in range(60):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        if _room(bounds, origin, left) < _room(bounds, origin, right):
            low = left
        else:
            high = right
    drift = (low + high) / 2
    return drift, _room(bounds, origin, drift)


# -- noisy clocks ------------------------------------------------------------------------------------------------------


def _noisy(device: int, bounds: ClockBounds) -> GpuClock:
    """Take the offset that violates fewest bounds, in the middle of the widest part that violates as few."""
    upper, lower = np.sort(bounds.value[~bounds.is_lower]), np.sort(bounds.value[bounds.is_lower])
    # One offset between each two neighbouring bounds, and 0, which stays where none violates fewer.
    values = np.unique(bounds.value)
    tried = np.append(0, (values[1:] + values[:-1]) // 2)
    violated = np.searchsorted(upper, tried) + len(lower) - np.searchsorted(lower, tried, side="right")
    width = np.append(NO_BOUND, np.diff(values))
    offset = int(tried[np.lexsort((-width, violated))[0]])
    place = int(np.searchsorted(values, offset, side="right"))
    low, high = int(values[max(place - 1, 0)]), int(values[min(place, len(values) - 1)])
    noise = max(_noise(offset - upper), _noise(lower - offset))
    piece = ClockPiece(
        int(bounds.time[0]), offset, low - noise, high + noise, 0.0, len(upper), len(lower)
    )  # fmt: skip
    return GpuClock(device, "noisy" if noise else "constant", noise, (piece,))


def _noise(violation: Ints | Floats) -> int:
    """Return the largest violation of bounds of one side, but for faults."""
    ordered = np.sort(violation[violation <= MOST_NOISE_NS])
    return max(int(ordered[len(ordered) - 1 - int(OUTLIERS * len(violation))]), 0) if len(ordered) else 0
