"""Reductions, running sums, sorting, and what is found or counted.

A row gives FLOPs per element of the input; what is done once per result is left out. Where the dimensions were not
recorded, there is one result at least. How often elements are compared depends on the method: sorting counts no
arithmetic, which is said to be the least. Where the results' size depends on the values, the input is read at least.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from hta_graph.roofline.demand import CostModel, Demand
from hta_graph.roofline.operator_call import (
    NotRecordedError,
    OperatorCall,
    Tensor,
    magnitude_type,
    output_bytes,
    real_type,
    sum_type,
    total_bytes,
    type_of_code,
)


def _same_type(dtype: str) -> str:
    return dtype


def _constant_type(dtype: str) -> Callable[[str], str]:
    return lambda _: dtype


INDEX, TRUTH = _constant_type("long int"), _constant_type("bool")


@dataclass(frozen=True)
class Reduction:
    """A row of the table: operators without ``aten::``, FLOPs per element as text, and the results' types.

    ``dims`` is the position of the dimensions, in calls that have at least ``min_inputs`` inputs; ``dtypes`` the
    positions of a type that was asked for, by how many inputs there are.
    """

    operators: str
    flops: int
    formula: str
    min_inputs: int
    results: tuple[Callable[[str], str], ...] = (_same_type,)
    dims: int = 1
    dtypes: tuple[tuple[int, int], ...] = ()


SUM_DTYPES = ((2, 1), (3, 1), (4, 3), (5, 3))
"""``sum(self, dtype)``, ``sum(self, dims, keepdim, dtype)``, each with an output behind it."""

REDUCTION_ROWS = (
    Reduction("sum nansum", 1, "an addition", 4, (sum_type,), dtypes=SUM_DTYPES),
    Reduction("prod", 1, "a multiplication", 4, (sum_type,), dtypes=SUM_DTYPES),
    Reduction("mean", 1, "an addition", 4, dtypes=SUM_DTYPES),
    Reduction("amax amin", 1, "a comparison", 2),
    Reduction("aminmax", 2, "two comparisons", 2, (_same_type, _same_type)),
    Reduction("argmax argmin", 1, "a comparison", 2, (INDEX,)),
    Reduction("any all", 1, "a comparison", 3, (TRUTH,)),
    Reduction("count_nonzero", 2, "a comparison and an addition", 2, (INDEX,)),
    Reduction("var std", 4, "x − mean, squared, added; the mean", 4, (magnitude_type,)),
    Reduction("var_mean std_mean", 4, "x − mean, squared, added; the mean", 4, (magnitude_type, _same_type)),
    Reduction("logsumexp", 4, "maximum, x − maximum, exp, an addition", 2, (real_type,)),
)


def _remaining_elements(shape: tuple[int, ...], dims: tuple[int, ...]) -> int:
    """Return how many elements are left when some dimensions are reduced; all are where none is named.

    >>> _remaining_elements((4, 5, 6), (-1, 0))
    5
    """
    rank = max(1, len(shape))
    if any(not -rank <= dim < rank for dim in dims):
        raise NotRecordedError("a dimension that there is")
    reduced = {dim % rank for dim in dims} or set(range(rank))
    return math.prod(side for at, side in enumerate(shape) if at not in reduced)


def _result_count(call: OperatorCall, given: Tensor, row: Reduction) -> int:
    """Return how many results there are; of dimensions that were not recorded, one."""
    if len(call.inputs) < row.min_inputs or not call.values:
        return 1
    return _remaining_elements(given.shape, call.integers(row.dims) if call.text(row.dims).strip("[]") else ())


def _requested_type(row: Reduction, call: OperatorCall) -> str:
    """Return the type that one result shall have, or the output that is given last has; empty where there is none."""
    count = len(call.inputs)
    output = call.tensor_or_none(count - 1) if count > 1 and len(row.results) == 1 else None
    code = call.text(dict(row.dtypes).get(count, count))
    return output.dtype if output else type_of_code(code) if code else ""


def _reduced(row: Reduction, call: OperatorCall) -> Demand:
    """Return the work of a call of a row's operators."""
    given, requested = call.tensor(0), _requested_type(row, call)
    kept = _result_count(call, given, row)
    kinds = [requested or kind(given.dtype) for kind in row.results]
    is_found = row.results[0] in {INDEX, TRUTH}
    return Demand(
        flops=row.flops * given.elements,
        bytes=given.bytes + sum(output_bytes((kept,), kind) for kind in kinds),
        dtype=given.dtype if is_found else kinds[0],
    )


def _extreme(call: OperatorCall) -> Demand:
    """Count a maximum: of all elements, or along a dimension, then with where it is."""
    if call.tensor_or_none(1):
        raise NotRecordedError("which of two tensors is the result")
    results = (_same_type,) if len(call.inputs) < 3 else (_same_type, INDEX)
    return _reduced(Reduction("", 1, "", 3, results), call)


def _norm(call: OperatorCall) -> Demand:
    """Count a norm: of order 0, 1, 2 or the maximum two operations per element, of another three."""
    order = call.text(1)
    flops = 2 if order.removesuffix(".") in {"", "0", "1", "2", "inf", "-inf"} else 3
    min_inputs = 3 if call.name == "aten::linalg_vector_norm" else 4
    row = Reduction("", flops, "", min_inputs, (magnitude_type,), 2, ((3, 2), (5, 4)))
    return replace(_reduced(row, call), is_least=not call.values)


def _reduction_model(row: Reduction) -> CostModel:
    names = tuple(f"aten::{name}" for name in row.operators.split())
    return CostModel(
        names, f"{row.flops} per element: {row.formula}", "input + results", lambda call: _reduced(row, call)
    )


REDUCTIONS = (
    *map(_reduction_model, REDUCTION_ROWS),
    CostModel(("aten::max", "aten::min"), "1 per element: a comparison", "input + results", _extreme),
    CostModel(
        ("aten::linalg_vector_norm", "aten::norm"), "2 per element: squared, added; 3 if raised to another power",
        "input + results", _norm,
    ),
)  # fmt: skip


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
    CostModel(("aten::sort",), "none: depends on the method", "input + values + indices", _sort),
    CostModel(("aten::topk",), "none: depends on the method", "input + values + indices", _topk),
    CostModel(("aten::nonzero",), "1 per element: a comparison", "input; the amount written is not recorded", _nonzero),
    CostModel(
        ("aten::_unique2", "aten::unique_dim", "aten::unique_consecutive", "aten::_unique"),
        "none: depends on the method", "input; the amount written is not recorded", _unique,
    ),
    CostModel(("aten::histc",), "3 per element", "input + counts", _histogram),
    CostModel(("aten::bincount",), "1 per element", "input + weights; the amount written is not recorded", _bincount),
)  # fmt: skip
