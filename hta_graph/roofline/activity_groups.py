"""Which operator launched each GPU activity, what that was given and demands; activities in groups of equal work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from hta_graph.attribution.graph_kernels import graph_kernels, operator_of_activities
from hta_graph.base.arrays import summed_by, take_or, unique_rows
from hta_graph.base.errors import TraceError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import Bools, Ids, Ints
from hta_graph.paths.gpu_activity import Activities, WorkType, activities
from hta_graph.roofline.cost_models.triton import fused_operators
from hta_graph.roofline.demand import Demand
from hta_graph.roofline.operator_call import OperatorCall, Tensor
from hta_graph.roofline.recorded_calls import NOT_RECORDED, RecordedCall, RecordedCalls, recorded_calls


@dataclass(frozen=True)
class OperatorActivities:
    """The activities of a graph, in the order of :func:`activities`, with the calls of operators that launched them.

    ``instance`` numbers the operators (-1: none, or it says nothing of this activity): one of a captured graph works
    once in each replay. ``thread`` is the lane that it ran on (of a capture one of its own), ``number`` which of
    ``calls`` it is, ``operator_ns`` how long all activities of the operator take together: an activity does that
    share of the operator's work. ``host_copy`` marks copies from and to the host. ``unread`` is why the file could
    not be read again.
    """

    every: Activities
    instance: Ids
    thread: Ids
    number: Ints
    operator_ns: Ints
    host_copy: Bools
    calls: Sequence[RecordedCall]
    unread: str = ""

    @property
    def have_shapes(self) -> bool:
        """Whether shapes were recorded at all."""
        return any(one.call.inputs for one in self.calls)

    def places(self, work: Activities) -> Ints:
        """Return where some of the activities stand among all."""
        return np.searchsorted(self.every.row, work.row)


@memoized
def operator_activities(graph: DependencyGraph) -> OperatorActivities:
    """Find the operator of each activity, and read what these were given."""
    every = activities(graph)
    host_copy = _host_copies(graph, every)
    operator = _operators_with_inputs(graph, every, host_copy)
    replay = np.where(graph_kernels(graph).launch[every.row] >= 0, every.call, -1)
    known = np.flatnonzero(operator >= 0)
    first, place = unique_rows(operator[known], replay[known])
    pairs = np.stack([operator[known], replay[known]])[:, first]
    instance = np.full(len(every), -1, np.int32)
    instance[known] = place
    try:
        calls, unread = _calls_of(graph, every, pairs, instance), ""
    except TraceError as error:  # a graph that was saved lives on without its trace's file
        calls, unread = RecordedCalls((), np.zeros(0, np.int64)), str(error)
        instance, known, place = np.full(len(every), -1, np.int32), known[:0], place[:0]
    length = every.end - every.start
    number, operator_ns = np.full(len(every), -1, np.int64), length.copy()
    number[known] = calls.number[place]
    operator_ns[known] = summed_by(place, length[known], pairs.shape[1])[place]
    thread = take_or(graph.event_table.lane, np.where(operator < len(graph.event_table), operator, -1))
    return OperatorActivities(every, instance, thread, number, operator_ns, host_copy, calls.calls, unread)


def _calls_of(graph: DependencyGraph, every: Activities, pairs: Ids, instance: Ids) -> RecordedCalls:
    """Read what each operator was given, with the name of the activity that took most of its time."""
    known = np.flatnonzero(instance >= 0)
    order = np.lexsort((known, every.end[known] - every.start[known], instance[known]))
    longest = np.zeros(pairs.shape[1], np.int64)
    longest[instance[known[order]]] = known[order]  # the last one written is the longest
    return recorded_calls(graph, pairs[0], graph.event_table.name[every.row[longest]], pairs[1])


def _host_copies(graph: DependencyGraph, every: Activities) -> Bools:
    """Mark the copies that leave the GPU's memory or come from outside; the others are work as any."""
    found = np.zeros(len(every), np.bool_)
    moves = np.flatnonzero(every.type == WorkType.MEMORY)
    kinds, kind = graph.event_flags.copy_kinds(every.row[moves])
    inside = np.array([name.endswith("DtoD") or "Memset" in name for name in kinds] or [False])
    found[moves] = ~inside[kind]
    return found


def _operators_with_inputs(graph: DependencyGraph, every: Activities, host_copy: Bools) -> Ids:
    """Return the operator whose inputs determine an activity's work; -1 where none does.

    The operator around the launch of a captured graph was given the inputs of the whole graph, not of one kernel; that
    around the launch of the kernel during capture was given those.
    """
    found = operator_of_activities(graph, every.row)
    silent = (every.type == WorkType.COMMUNICATION) | host_copy
    replayed = take_or(graph.event_flags.graph_launch_call, every.call, otherwise=False)
    silent |= replayed & (graph_kernels(graph).launch[every.row] < 0)
    return np.where(silent, -1, found).astype(np.int32)


HOST_COPY = "a copy from or to outside"
"""The limits of a link depend on the machine, so none is given."""
MAX_TENSORS_SHOWN = 6
"""How many tensors of a list are written out."""


@dataclass(frozen=True)
class ActivityGroup:
    """What the activities of a group have in common.

    ``unknown`` says why it is not known what they demand; empty where it is. ``call`` is one of the operator's.
    """

    name: str
    inputs: str = ""
    unknown: str = ""
    demand: Demand | None = None
    call: OperatorCall | None = field(default=None, compare=False)

    @property
    def kind(self) -> str:
        """Whether it is known what they demand, as a word: ``yes``, or why not."""
        return self.unknown.partition(":")[0] or "yes"

    @property
    def is_unknown(self) -> bool:
        """Whether they compute something, and it is not known what that demands."""
        return self.unknown not in {"", HOST_COPY}


@dataclass(frozen=True)
class ActivityGroups:
    """Computation and copies, which group each is in, and where it stands among all of the graph."""

    work: Activities
    place: Ints
    number: Ids
    groups: Sequence[ActivityGroup]

    def __len__(self) -> int:
        return len(self.groups)


def activity_groups(graph: DependencyGraph, every: Activities) -> ActivityGroups:
    """Put those of some activities of a graph that are no communication into groups."""
    found, known = operator_activities(graph), _grouped(graph)
    work = every.take(every.type != WorkType.COMMUNICATION)
    place = found.places(work)
    used, number = np.unique(known[0][place], return_inverse=True)
    return ActivityGroups(work, place, number.astype(np.int32), [known[1][at] for at in used.tolist()])


@memoized
def _grouped(graph: DependencyGraph) -> tuple[Ids, list[ActivityGroup]]:
    """Number the groups of a graph: for each activity its group, and what the groups are."""
    found = operator_activities(graph)
    numbers: dict[ActivityGroup, int] = {}
    of_call = [numbers.setdefault(_group_of(one), len(numbers)) for one in found.calls]
    group = take_or(np.array(of_call, np.int32), found.number)
    silent = np.flatnonzero(found.number < 0)
    # What no operator tells of is told apart by its own name.
    codes = graph.event_table.name[found.every.row[silent]]
    keys, place = np.unique(2 * codes.astype(np.int64) + found.host_copy[silent], return_inverse=True)
    others = [_group_of_name(graph.names[key // 2], found, is_copy=bool(key % 2)) for key in keys.tolist()]
    group[silent] = np.array([numbers.setdefault(one, len(numbers)) for one in others] or [0], np.int32)[place]
    return group, list(numbers)


def _group_of(one: RecordedCall) -> ActivityGroup:
    unknown = one.unknown if one.unknown != NOT_RECORDED else f"{NOT_RECORDED}: {one.missing}"
    return ActivityGroup(one.call.name, inputs_text(one.call), unknown, one.demand, one.call)


def _group_of_name(name: str, found: OperatorActivities, *, is_copy: bool) -> ActivityGroup:
    """Describe activities by their own name: what a generated kernel fuses is in it."""
    if is_copy:
        return ActivityGroup(name, unknown=HOST_COPY)
    fused = ", ".join(fused_operators(name))
    return ActivityGroup(name, f"fuses {fused}" if fused else "", "no operator")


def inputs_text(call: OperatorCall) -> str:
    """Print the tensors that a call was given: types, and the shapes of those that follow each other with one type.

    >>> inputs_text(OperatorCall("aten::mul", (Tensor((8, 3), "half"), None, Tensor((), "float"))))
    'half[8×3], float[1]'
    """
    listed = [one for given in call.inputs if given is not None for one in _tensor_texts(given)]
    runs = [(kind, [shape for _, shape in own]) for kind, own in groupby(listed, key=lambda one: one[0])]
    return ", ".join(f"{kind}[{', '.join(shapes)}]" for kind, shapes in runs)


def _tensor_texts(given: Tensor | tuple[Tensor, ...]) -> list[tuple[str, str]]:
    """Return the type and the shape of a tensor as text; of a list its first shapes and how many there are."""
    if isinstance(given, Tensor):
        return [(given.dtype, "×".join(map(str, given.shape)) or "1")]
    first = [("", _tensor_texts(one)[0][1]) for one in given[:MAX_TENSORS_SHOWN]]
    return [*first, *([("", f"… {len(given)} tensors")] if len(given) > MAX_TENSORS_SHOWN else [])]
