"""Running sums, sorting, and what is found or counted.

How often elements are compared depends on the method: sorting counts no arithmetic, which is said to be the least.
Where the results' size depends on the values, the input is read at least.
"""

from __future__ import annotations

from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, total_bytes
from hta_graph.roofline.operators_demand import CostModel, Demand
from hta_graph.roofline.tensor_types import output_bytes, sum_type, type_of_code

__all__ = ["ORDERING"]


def _cumulative(call: OperatorCall) -> Demand:
    """Count a running sum or product: an operation for each element."""
    given, output = call.tensor(0), call.tensor_or_none(3)
    requested = type_of_code(call.text(2)) if call.text(2) else sum_type(given.dtype)
    kind = given.dtype if call.name.endswith("_") else output.dtype if output else requested
    return Demand(given.elements, given.bytes + output_bytes(given.shape, kind), kind)


def _cumulative_extreme(call: OperatorCall) -> Demand:
    given = call.tensor(0)
    return Demand(
        given.elements, given.bytes + output_bytes(given.shape, "long int") + _bytes_like_input(call), given.dtype
    )


def _bytes_like_input(call: OperatorCall) -> int:
    """Return the memory of a result like the input."""
    return output_bytes(call.tensor(0).shape, call.tensor(0).dtype)


def _sort(call: OperatorCall) -> Demand:
    given = call.tensor(0)
    written = _bytes_like_input(call) + output_bytes(given.shape, "long int")
    return Demand(0, given.bytes + written, given.dtype, is_least=True)


def _topk(call: OperatorCall) -> Demand:
    given, count = call.tensor(0), call.integer(1)
    dim = call.integer(2)
    sides = given.shape or (1,)
    if not -len(sides) <= dim < len(sides) or not 0 <= count <= sides[dim]:
        raise NotRecordedError("how many are taken")
    shape = tuple(count if at == dim % len(sides) else side for at, side in enumerate(sides))
    written = output_bytes(shape, given.dtype) + output_bytes(shape, "long int")
    return Demand(0, given.bytes + written, given.dtype, is_least=True)


def _nonzero(call: OperatorCall) -> Demand:
    given = call.tensor(0)
    return Demand(given.elements, given.bytes, given.dtype)


def _unique(call: OperatorCall) -> Demand:
    given = call.tensor(0)
    return Demand(0, given.bytes, given.dtype, is_least=True)


def _histogram(call: OperatorCall) -> Demand:
    """Count where each element belongs, x − least, ÷ width, and that it is counted."""
    given, bins = call.tensor(0), call.integer(1)
    if bins < 0:
        raise NotRecordedError("how many are counted")
    return Demand(3 * given.elements, given.bytes + output_bytes((bins,), given.dtype), given.dtype)


def _bincount(call: OperatorCall) -> Demand:
    given, weights = call.tensor(0), call.tensor_or_none(1)
    return Demand(given.elements, total_bytes(given, weights), weights.dtype if weights else given.dtype)


ORDERING = (
    CostModel(("aten::cumsum", "aten::cumprod"), "1 per element", "input + result", _cumulative),
    CostModel(
        ("aten::_cummax_helper", "aten::_cummin_helper"), "1 per element", "input + results", _cumulative_extreme,
    ),
    CostModel(("aten::sort",), "none: depends on the method", "input + values + places", _sort),
    CostModel(("aten::topk",), "none: depends on the method", "input + values + places", _topk),
    CostModel(("aten::nonzero",), "1 per element: a comparison", "input; how much is written is not told", _nonzero),
    CostModel(
        ("aten::_unique2", "aten::unique_dim", "aten::unique_consecutive", "aten::_unique"),
        "none: depends on the method", "input; how much is written is not told", _unique,
    ),
    CostModel(("aten::histc",), "3 per element", "input + counts", _histogram),
    CostModel(("aten::bincount",), "1 per element", "input + weights; how much is written is not told", _bincount),
)  # fmt: skip
