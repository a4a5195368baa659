"""Chains of operators that one kernel could do: what they move between the GPU and its memory, and what they must.

An operator element by element, a reduction, a normalization or a cast reads its inputs from memory and writes its
result there; the next one reads it back. One kernel that does both keeps the result on the chip:

    apart        x ─read─▶ pow ─write─▶ a ─read─▶ mean ─write─▶ b ─read─▶ rsqrt …
    fused        x ─read─▶ pow · mean · rsqrt …

A recording names no tensors. An input is taken for the result of an operator just before it on the same stream that has
as many bytes, of several for the latest. That is how compilers (TorchInductor, XLA) fuse, too: by equal iteration
ranges. Whether inputs of one size from outside are one tensor is unknown: ``x · sigmoid(x)`` reads ``x`` twice, and
``silu(gate) · up`` two tensors. So what a fused kernel moves lies between two numbers.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hta_graph.base.arrays import first_of_runs, stable_order, summed_by
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import Bools, Floats, Ints
from hta_graph.roofline.activity_groups import operator_activities
from hta_graph.roofline.attainable import SHORTEST_KERNEL_NS
from hta_graph.roofline.cost_models.fill_copy_concat import CONCAT, FILL_OPERATORS, FILLS_AND_COPIES
from hta_graph.roofline.cost_models.normalization import BATCH_NORMS, NORMALIZATIONS
from hta_graph.roofline.cost_models.pointwise import LOSSES, POINTWISE
from hta_graph.roofline.cost_models.reductions import REDUCTIONS
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, Tensor, total_bytes
from hta_graph.roofline.recorded_calls import RecordedCall

NORMS = frozenset(name for model in (*NORMALIZATIONS, *BATCH_NORMS) for name in model.operators)
JOINS = frozenset(CONCAT[0].operators)
FUSIBLE = NORMS | JOINS | {n for m in (*POINTWISE, *LOSSES, *REDUCTIONS, *FILLS_AND_COPIES) for n in m.operators}
"""Operators that compilers fuse with their neighbors: no products, convolutions, attention, lookups or sorting."""

LOOK_BACK = 8
"""A result is read by one of the next operators, or not in this chain: a rotary embedding has 5, an RMS norm 7."""


@dataclass(frozen=True)
class Traffic:
    """What one call reads and writes (bytes): each input, its result, and all that it moves at least."""

    inputs: tuple[int, ...]
    result: int
    moved: int
    in_place: bool


@dataclass(frozen=True)
class FusionChains:
    """Chains of the GPU's activities, by the order of :func:`~hta_graph.paths.gpu_activity.activities`.

    ``chain`` numbers the chain of each activity (-1: none), ``is_first`` marks its first one; ``factor`` is what its
    time would be multiplied with, ``least_factor`` if inputs of one size are one tensor. Of each chain ``moved`` are
    the bytes apart, ``least`` those of one kernel at least, ``names`` those of its operators in order.
    """

    chain: Ints
    is_first: Bools
    factor: Floats
    least_factor: Floats
    moved: Ints
    least: Ints
    names: Sequence[tuple[str, ...]]


def traffic_of(one: RecordedCall) -> Traffic | None:
    """Return what a call moves; ``None`` where that is unknown, or it cannot be fused."""
    name, call = one.call.name, one.call
    moved = one.demand.bytes if one.demand else None
    if not moved or not {name, name.removesuffix("_")} & FUSIBLE:
        return None
    try:
        inputs = _bytes_read(call, moved)
    except NotRecordedError:
        return None
    result = call.inputs[0].bytes if name in NORMS and isinstance(call.inputs[0], Tensor) else moved - sum(inputs)
    return Traffic(inputs, result, moved, name.endswith("_")) if result > 0 else None


def _bytes_read(call: OperatorCall, moved: int) -> tuple[int, ...]:
    """Return the bytes of each input that is read; what a copy or a fill is given to write to is not."""
    if call.name in JOINS:  # the type of a list is not recorded: half of what is moved is read
        sizes = [one.elements for one in call.tensor_list(0)]
        return tuple(moved * size // max(2 * sum(sizes), 1) for size in sizes)
    if call.name == "aten::copy_":
        return (call.tensor(1).bytes,)
    if call.name in FILL_OPERATORS:
        return ()
    # A tensor without dimensions may be a number in the host's memory.
    return tuple(total_bytes(one) for one in call.tensors if one.shape)


def linked(run: Sequence[int], traffic: Sequence[Traffic | None]) -> tuple[list[int], list[int], list[int]]:
    """Say which calls of a run one kernel could do, by the place of the first, and what each then need not move.

    The last list is what it need not move besides if inputs of one size are one tensor, and nothing is kept that is
    written in place. Calls that are equal do the same to several tensors: none reads what the one before it wrote.

    >>> root, data = Traffic((400,), 4, 404, False), Traffic((400,), 400, 800, False)
    >>> linked([0, 1, 2], [data, root, Traffic((400, 4), 400, 804, False)])  # x², its root, and x / root
    ([0, 0, 0], [0, 800, 8], [0, 0, 400])
    """
    chain, saved, more = list(range(len(run))), [0] * len(run), [0] * len(run)
    waiting: defaultdict[int, deque[int]] = defaultdict(lambda: deque(maxlen=LOOK_BACK))
    outside: list[tuple[int, int]] = []
    for at, number in enumerate(run):
        own = traffic[number]
        if own is None:
            continue
        for size in own.inputs:
            fits = [place for place in waiting[size] if run[place] != number and at - place <= LOOK_BACK]
            if not fits:
                outside.append((at, size))
                continue
            maker = traffic[run[fits[-1]]]
            waiting[size].remove(fits[-1])
            saved[at] += size
            (more if maker is None or maker.in_place else saved)[at] += size
            _merge(chain, fits[-1], at)
        waiting[own.result].append(at)
    _add_second_reads(more, chain, outside)
    return chain, saved, more


def _add_second_reads(more: list[int], chain: Sequence[int], outside: Sequence[tuple[int, int]]) -> None:
    """Add what calls read again, if inputs of one size are one tensor; those of one call are as many as it has."""
    known: dict[tuple[int, int], int] = {}
    reads: dict[tuple[int, int], int] = {}
    for at, size in outside:
        own, whole = (at, size), (chain[at], size)
        reads[own] = reads.get(own, 0) + 1
        if reads[own] > known.get(whole, 0):
            known[whole] = reads[own]
        else:
            more[at] += size


def _merge(chain: list[int], place: int, at: int) -> None:
    """Make one of the chains of two calls; the later call is the last one so far."""
    first, second = sorted((chain[place], chain[at]))
    if first != second:
        chain[second : at + 1] = [first if one == second else one for one in chain[second : at + 1]]


@memoized
def fusion_chains(graph: DependencyGraph) -> FusionChains:
    """Find the chains of a graph, and what their activities would take fused: as near to the memory's limit as now."""
    found = operator_activities(graph)
    every, traffic = found.every, [traffic_of(one) for one in found.calls]
    known = np.array([one is not None for one in traffic] or [False])
    order = stable_order(every.lane)
    number = found.number[order]
    fusible = (number >= 0) & known[number]
    # Activities of one operator are one call; a run ends where the stream does something else, and where another thread
    # launches: what forward computes is kept for backward.
    operator, lane, thread = found.instance[order], every.lane[order], found.thread[order]
    is_call = first_of_runs(operator, lane)
    is_run = is_call & first_of_runs(fusible, lane, thread)
    calls = np.flatnonzero(is_call & fusible)
    call_of = np.cumsum(is_call) - 1
    first = np.flatnonzero(np.diff(np.cumsum(is_run)[calls], prepend=-1))
    chain, saved, more = _chains_of_runs(number[calls], first, traffic)
    chain_of_call = np.full(int(is_call.sum()), -1, np.int64)
    chain_of_call[call_of[calls]] = chain
    of_activity = np.full(len(every), -1, np.int64)
    of_activity[order] = np.where(fusible, chain_of_call[call_of], -1)
    moved = np.array([one.moved if one else 0 for one in traffic] or [0], np.int64)[number[calls]]
    name = [found.calls[at].call.name for at in number[calls].tolist()]
    return _priced(of_activity, every.end - every.start, chain, np.stack([moved, saved, saved + more]), name)


def _chains_of_runs(number: Ints, first: Ints, traffic: Sequence[Traffic | None]) -> tuple[Ints, Ints, Ints]:
    """Answer :func:`linked` for all runs, chains named by their first call of all; equal runs are asked once."""
    known: dict[bytes, tuple[Ints, Ints, Ints]] = {}
    found = [(np.zeros(0, np.int64),) * 3]
    for begin, end in pairwise([*first.tolist(), len(number)]):
        own = number[begin:end]
        if (key := own.tobytes()) not in known:
            chain, saved, more = (np.array(column, np.int64) for column in linked(own.tolist(), traffic))
            known[key] = chain, saved, more
        chain, saved, more = known[key]
        found.append((chain + begin, saved, more))
    chain, saved, more = map(np.concatenate, zip(*found, strict=True))
    return chain, saved, more


def _priced(of_activity: Ints, length: Ints, chain: Ints, moved: Ints, name: Sequence[str]) -> FusionChains:
    """Keep the chains of several calls, number them by their first, and say what each activity would take.

    Args:
        of_activity: the first call of the chain of each activity; -1: none.
        length: how long each activity takes.
        chain: the first call of the chain of each call.
        moved: of each call (columns) the bytes that it moves, those that it saves for sure, and at most.
        name: of each call its operator.
    """
    first, place, size = np.unique(chain, return_inverse=True, return_counts=True)
    kept = size > 1
    renumbered = np.where(kept, np.cumsum(kept) - 1, -1)
    inside, chain_of = of_activity >= 0, np.full(len(of_activity), -1, np.int64)
    chain_of[inside] = renumbered[np.searchsorted(first, of_activity[inside])]
    apart, sure, most = (summed_by(place, row, len(first))[kept] for row in moved)
    mine = np.flatnonzero(chain_of >= 0)
    time = np.maximum(summed_by(chain_of[mine], length[mine], len(apart)), 1)
    factors = []
    for less in (sure, most):
        fused = np.maximum(time * (np.maximum(apart - less, 0) / np.maximum(apart, 1)), SHORTEST_KERNEL_NS)
        factors.append(np.ones(len(of_activity)))
        factors[-1][mine] = np.minimum(fused / time, 1.0)[chain_of[mine]]
    names: list[list[str]] = [[] for _ in range(len(apart))]
    for at, one in zip(renumbered[place].tolist(), name, strict=True):
        if at >= 0:
            names[at].append(one)
    is_first = np.zeros(len(of_activity), np.bool_)
    is_first[mine[np.unique(chain_of[mine], return_index=True)[1]]] = True
    least = np.maximum(apart - most, 0)
    return FusionChains(chain_of, is_first, factors[0], factors[1], apart, least, list(map(tuple, names)))
