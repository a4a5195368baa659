"""Held-out steps: the structure of one step with the durations of the next predicts how long the next one takes.

Two lengths are predicted, *iterations* (from the end of the work before to that of the step's own, in jobs over all
ranks) and *latencies* (from the step's start on the CPU; of one rank). The state at the beginning is given: how far the
CPU is ahead, and what of earlier work still runs, is that of the step that is predicted. All else is replayed:

step k      |--op--|--op--|   [==kernel==]        the structure: which edges there are
step k+1    |---op---|-op-|   [=kernel=]          the durations: of the edges at the same places
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

import hta_graph as hg
from hta_graph.base.arrays import find_sorted, pair_key, take_or
from hta_graph.base.errors import QueryError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, EventKind, Ints
from hta_graph.paths.window_ends import issue_times
from hta_graph.what_if.modified_window import ModifiedWindow
from hta_graph.what_if.rank_normalization import edge_correspondence
from hta_graph.what_if.replay import Replayed
from hta_graph.what_if.replay_graph import ON_LANE_KINDS, ReplayGraph, edge_weights

Length = Literal["iteration", "latency"]


@dataclass(frozen=True)
class HeldOut:
    """One prediction of a step's length (ns) from an earlier one; ``is_like``: they run the same operators and kernels.

    ``predicted_ns`` is with the durations of the step that is predicted (of edges that are a lane's own time) and the
    lags of the one before, ``all_predicted_ns`` with its lags too; ``partners`` is the share of edges with one at the
    same place there.
    """

    trace: str
    where: str
    length: Length
    structure: int
    step: int
    is_like: bool
    before_ns: int
    measured_ns: int
    predicted_ns: int
    all_predicted_ns: int
    frozen_share: float
    partners: float

    @property
    def error(self) -> float:
        """By how much of the length the prediction is too long."""
        return self.predicted_ns / self.measured_ns - 1

    @property
    def all_error(self) -> float:
        """The same with lags too."""
        return self.all_predicted_ns / self.measured_ns - 1

    @property
    def trivial_error(self) -> float:
        """The same of saying that the step takes as long as the one before."""
        return self.before_ns / self.measured_ns - 1


def held_out(name: str, graph: DependencyGraph, length: Length) -> Iterator[HeldOut]:
    """Predict each step of a trace or job from the one before; if that has another structure, from an earlier one too.

    The first step's iteration is left out: nothing tells when the work before it ended.
    """
    numbers = sorted({item.number for part in graph.rank_graphs for item in part.graph.steps()})
    known = numbers[1:] if length == "iteration" else numbers
    done = {number: _names_of_step(graph, number) for number in known}
    for at, step in enumerate(known[1:], 1):
        like = [number for number in known[:at] if done[number] == done[step]][-1:]
        for structure in sorted({known[at - 1], *like}):
            try:
                base, other = (ReplayGraph(graph, _window(number, length)(graph)) for number in (structure, step))
            except QueryError:
                continue
            yield _prediction(name, length, (structure, step), base, other, is_like=structure in like)


def _window(number: int, length: Length) -> hg.Window:
    return hg.step(number, gpu_window=length == "iteration")


def _names_of_step(graph: DependencyGraph, number: int) -> Counter[tuple[int, str]]:
    """Count the work of a step by rank and name, that of GPUs, else operators: steps of one structure have the same."""
    issued, names = issue_times(graph), graph.event_table.name
    meant = graph.is_gpu if graph.is_gpu.any() else graph.event_table.kind == EventKind.CPU_OP
    found: Counter[tuple[int, str]] = Counter()
    for part in graph.rank_graphs:
        for item in part.graph.steps():
            if item.number == number:
                own = meant & (issued >= item.start_ns) & (issued < item.end_ns)
                own &= graph.rank_index_of(np.arange(len(own), dtype=np.int32)) == part.index
                found.update((part.index, graph.names[code]) for code in names[own].tolist())
    return found


def _prediction(
    name: str, length: Length, steps: tuple[int, int], base: ReplayGraph, other: ReplayGraph, *, is_like: bool
) -> HeldOut:
    rows = base.edges.row[base.edges.row >= 0].astype(np.int64)
    partner = edges_of_other_step(base.graph, steps[1] - steps[0])[rows]
    share = float(np.mean(partner >= 0))
    pairs = rows[partner >= 0], partner[partner >= 0]
    durations = ON_LANE_KINDS[base.graph.edge_table.kind[pairs[0]]]
    replayed = replayed_as(base, other, *pairs, durations)
    every = replayed_as(base, other, *pairs, np.ones(len(durations), np.bool_))
    tails = _tails_as(base, other, *pairs)
    return HeldOut(
        name, _where(base.graph), length, *steps, is_like, base.length_ns, other.length_ns, _length_of(replayed, tails),
        _length_of(every, tails), replayed.frozen_share, share,
    )  # fmt: skip


def _where(graph: DependencyGraph) -> str:
    return f"{'GPU' if graph.is_gpu.any() else 'CPU'}, {'job' if len(graph.rank_graphs) > 1 else 'one rank'}"


def edges_of_other_step(graph: DependencyGraph, further: int) -> Ints:
    """Return for each edge the one at the same place of the same rank some steps later; -1: none."""
    known = edge_correspondence(graph)
    at = np.flatnonzero(known.place >= 0)
    first = int(known.step[at].min(initial=0))
    steps = int(known.step[at].max(initial=0)) - first + 1

    def keys(later: int) -> Ints:
        step = known.step[at] - first + later
        owner = known.part[at].astype(np.int64) * steps + step
        return np.where((step >= 0) & (step < steps), pair_key(known.place[at], owner), -1)

    order = np.argsort(keys(0), kind="stable")
    place = find_sorted(keys(further), keys(0)[order])
    found = np.full(len(known), -1, np.int64)
    found[at] = np.where(place >= 0, at[order][place], -1)
    return found


def replayed_as(base: ReplayGraph, other: ReplayGraph, rows: Ints, partner: Ints, chosen: Bools) -> Replayed:
    """Replay a window with the weights of the chosen edges' partners, from the state in which the other one began."""
    weights, source, times = edge_weights(base.graph).weight, base.graph.edge_table.source, base.times
    weight = np.where(chosen, weights[partner], weights[rows])
    # What leads into the window from before weighs, besides, how much later that was.
    ahead = (times[source[partner]] - other.window.start_ns) - (times[source[rows]] - base.window.start_ns)
    given = ~base.is_inside[source[rows]]
    draft, change = ModifiedWindow(base), hg.weigh(rows, weight + np.where(given, ahead, 0))
    change(draft)
    return Replayed(draft, [change])


def _tails_as(base: ReplayGraph, other: ReplayGraph, rows: Ints, partner: Ints) -> Ints:
    """Return how long threads go on after their last points: as long as behind the same points of the other window."""
    target, count = base.graph.edge_table.target, len(base.times)
    twin, tail = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    twin[target[rows]] = target[partner]
    tail[other.window.sink.ends] = other.window.sink.tails
    found = take_or(tail, twin[base.window.sink.ends])
    return np.where(found >= 0, found, base.window.sink.tails)


def _length_of(replayed: Replayed, tails: Ints) -> int:
    ends = replayed.window.sink.ends
    return int((replayed.times[ends] + tails).max()) - replayed.window.start_ns
