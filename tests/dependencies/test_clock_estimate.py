"""The clock of a GPU estimated from bounds: offsets, jumps, drifts, noise, faults, and nothing where clocks agree."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.dependencies.clock_bounds import QUEUE_DEPTHS, ClockBounds, queue_depth
from hta_graph.dependencies.clock_estimate import estimate_clock
from hta_graph.model import Ints
from hta_graph.trace.event_times import in_host_time
from hta_graph.trace.table import GpuClock
from tests.support.trace_builder import TraceBuilder

US = 1_000
SEEDS = range(20)


def bounds(
    seed: int, ahead_ns: Ints | int = 0, *, size: int = 400, returns: float = 0.1, span_ns: int = 500_000_000
) -> ClockBounds:
    """Return bounds of launches that take 5 µs and more, and of returns that take 4 µs and more."""
    rng = np.random.default_rng(seed)
    time = np.sort(rng.integers(0, span_ns, size))
    is_lower = rng.random(size) < returns
    latency = np.where(rng.random(size) < 0.3, rng.exponential(3 * US, size), rng.exponential(2_000 * US, size))
    value = np.where(is_lower, -4 * US - latency, 5 * US + latency).astype(np.int64)
    return ClockBounds(time, value + ahead_ns, is_lower)


def ahead_at(clock: GpuClock, times: Ints) -> Ints:
    return clock.ahead(times, clock.piece_of(times))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", SEEDS)
def test_clocks_that_agree_are_left_alone(seed: int) -> None:
    clock = estimate_clock(0, bounds(seed))
    assert clock.is_host_time
    assert clock.noise_ns == 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ahead", [-100, -40, -12, 15, 40, 100, 5_000])
@pytest.mark.parametrize("seed", SEEDS)
def test_an_offset_is_found_and_lies_in_its_interval(seed: int, ahead: int) -> None:
    clock = estimate_clock(0, bounds(seed, ahead * US))
    (piece,) = clock.pieces
    assert clock.how == "constant"
    assert piece.low_ns is not None
    assert piece.high_ns is not None
    assert piece.low_ns <= ahead * US <= piece.high_ns
    assert piece.high_ns - piece.low_ns <= 20 * US
    assert ahead_at(clock, np.array([0]))[0] == pytest.approx(ahead * US, abs=6 * US)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("jump", [-40, -15, 20, 60])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_jump_is_found_where_it_is(seed: int, jump: int) -> None:
    plain = bounds(seed, size=2_000)
    at = 250_000_000
    clock = estimate_clock(0, ClockBounds(plain.time, plain.value + jump * US * (plain.time >= at), plain.is_lower))
    assert clock.how == "steps"
    assert len(clock.pieces) == 2
    # It shows with the next quick launch or return.
    assert abs(clock.pieces[1].from_ns - at) < 25_000_000
    before, after = ahead_at(clock, np.array([0, 500_000_000]))
    assert after - before == pytest.approx(jump * US, abs=4 * US)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ppm", [-100, 100])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_drift_is_followed(seed: int, ppm: int) -> None:
    plain = bounds(seed, size=2_000)
    drift = (plain.time * ppm / 1e6).astype(np.int64)
    clock = estimate_clock(0, ClockBounds(plain.time, plain.value + drift, plain.is_lower))
    assert np.abs(ahead_at(clock, plain.time) - drift).max() < 8 * US


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", SEEDS)
def test_faults_move_an_offset_little(seed: int) -> None:
    """Of the bounds 2% (returns) and 0.2% (launches) are wrong by 20 to 800 µs."""
    for ahead in (0, 30, -70):
        plain = bounds(seed, ahead * US, size=5_000)
        rng = np.random.default_rng(seed + 1)
        wrong = rng.random(len(plain)) < np.where(plain.is_lower, 0.02, 0.002)
        error = rng.integers(20 * US, 800 * US, len(plain)) * np.where(plain.is_lower, 1, -1)
        clock = estimate_clock(0, ClockBounds(plain.time, plain.value + wrong * error, plain.is_lower))
        assert np.abs(ahead_at(clock, plain.time) - ahead * US).max() <= 6 * US


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_that_contradict_each_other_throughout_are_noise(seed: int) -> None:
    rng = random.Random(seed)
    plain = bounds(seed)
    wobble = np.array([rng.choice((0, 20 * US)) for _ in range(len(plain))])
    clock = estimate_clock(0, ClockBounds(plain.time, plain.value + wobble, plain.is_lower))
    assert clock.how in ("noisy", "constant")
    assert clock.noise_ns <= 20 * US
    assert 0 <= ahead_at(clock, np.array([0]))[0] <= 20 * US


def test_one_wrong_row_is_a_fault_and_no_clock() -> None:
    launches = ClockBounds.of(time=np.arange(30), value=8 * US, is_lower=False)
    fault = ClockBounds.of(time=[40], value=[-2_000 * US], is_lower=False)
    assert estimate_clock(0, ClockBounds.join([launches, fault])).is_host_time
    late = ClockBounds.of(time=[40], value=[530 * US], is_lower=True)
    clock = estimate_clock(0, ClockBounds.join([launches, late]))
    assert (clock.is_host_time, clock.noise_ns) == (True, 0)


def test_without_bounds_nothing_is_known() -> None:
    clock = estimate_clock(3, ClockBounds.empty())
    assert (clock.how, clock.pieces[0].offset_ns, clock.is_host_time) == ("unknown", None, True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("depth", [1_000, 1_016, 1_024])
@pytest.mark.parametrize("ahead_ns", [0, -80_000, 300_000])
def test_a_full_queue_shows_its_depth_whatever_the_clocks(depth: int, ahead_ns: int) -> None:
    rng = np.random.default_rng(depth)
    start = np.cumsum(rng.integers(2 * US, 200 * US, 3_000))
    returned = np.concatenate(
        [np.arange(depth) * 100, start[: 3_000 - depth] + rng.integers(1 * US, 6 * US, 3_000 - depth)]
    )
    assert queue_depth(start + ahead_ns, returned, np.arange(depth, 3_000)) == depth
    even = np.arange(3_000) * 30 * US
    assert queue_depth(even, even + 5 * US, np.arange(3_000)) == 0, "even work shows no depth"
    assert QUEUE_DEPTHS[0] <= depth <= QUEUE_DEPTHS[-1]


def test_where_a_clock_jumps_ahead_no_work_overlaps_that_did_not(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for at in range(60):
        trace.launch("gemm", (100 * at, 100 * at + 5), (100 * at + 10, 100 * at + 110), at + 1)
    recorded = hg.read_trace(trace.write(tmp_path / "trace.json"))
    gpu = np.flatnonzero(recorded.is_gpu)
    jump = int(recorded.events.start[gpu[30]])
    record = {
        "device": 0, "how": "steps", "noise_ns": 0,
        "pieces": [
            {"from_ns": 0, "offset_ns": 0, "low_ns": 0, "high_ns": 0},
            {"from_ns": jump, "offset_ns": 40 * US, "low_ns": 0, "high_ns": 0},
        ],
    }  # fmt: skip
    moved = in_host_time(recorded, [GpuClock.of_json(record)])
    rows = np.flatnonzero(moved.is_gpu)
    start, end = moved.events.start[rows], moved.events.end[rows]
    assert (start[1:] >= end[:-1]).all()
    assert (end - start == (recorded.events.end - recorded.events.start)[gpu]).all()
    assert (moved.file_times.start[rows] == recorded.events.start[gpu]).all()


@pytest.mark.parametrize(("late", "high"), [(1, 10), (9, 10), (3, 40)])
def test_two_bounds_of_each_side_are_enough(late: int, high: int) -> None:
    value = np.array([high * US, late * US, high * US, late * US])
    clock = estimate_clock(0, ClockBounds.of(time=np.arange(4), value=value, is_lower=[False, True] * 2))
    assert late * US <= ahead_at(clock, np.array([0]))[0] <= high * US
    assert clock.noise_ns == 0
