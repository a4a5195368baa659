"""Activities in groups: of equal calls of operators, of copies of a kind, of kernels of one name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from hta_graph.activities import Activities, WorkType
from hta_graph.arrays import take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import Ids, Ints
from hta_graph.roofline.cost_models.triton import fused_operators
from hta_graph.roofline.operator_call import OperatorCall, Tensor
from hta_graph.roofline.operator_work import OperatorActivities, operator_activities
from hta_graph.roofline.operators_demand import Demand
from hta_graph.roofline.recorded_calls import RecordedCall

__all__ = ["ActivityGroups", "ActivityGroup", "activity_groups"]

HOST_COPY = "a copy from or to outside"
"""Of the limits of a link nothing is told: they depend on the machine."""
MAX_TENSORS_SHOWN = 6
"""So many tensors of a list are written out."""


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
    unknown = one.unknown if one.unknown != "not told" else f"not recorded: {one.missing}"
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
