"""Matrix products: mm, addmm, bmm, linear, scaled and grouped ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from hta_graph.roofline.demand import CostModel, Demand, Unit
from hta_graph.roofline.operator_call import (
    TYPE_OF_CODE,
    NotRecordedError,
    OperatorCall,
    Tensor,
    broadcast,
    known_bytes,
)

DemandFunction = Callable[[OperatorCall], Demand]
ZEROS = {"0", "0.", "-0."}
"""A factor of zero as recorded: what it multiplies is not read."""


def matmul_demand(left: Tensor, right: Tensor, result: str, *others: Tensor | None) -> Demand:
    """Return the work of ``left @ right``, of matrices or of batches of them.

    ``result`` is the type of what is written; ``others`` are read besides.
    """
    rows, inner, columns = _matrix_sizes(left, right)
    batch = broadcast([left.shape[:-2], right.shape[:-2]])
    count = math.prod(batch)
    flops = 2 * count * rows * columns * inner
    read = (left, right) if flops else ()
    return Demand(
        flops=flops,
        bytes=known_bytes(*read, *others, Tensor((*batch, rows, columns), result)),
        dtype=left.dtype,
        unit=Unit.MATRIX,
        sizes={"M": rows, "N": columns, "K": inner} | ({"batch": count} if batch else {}),
    )


def _matrix_sizes(left: Tensor, right: Tensor) -> tuple[int, int, int]:
    """Return how many rows, inner elements and columns a product has; two of four bits are stored as one element."""
    if min(len(left.shape), len(right.shape)) < 2 or left.shape[-1] != right.shape[-2]:
        raise NotRecordedError("shapes that fit each other")
    return left.shape[-2], left.shape[-1] * (2 if left.dtype.endswith("_x2") else 1), right.shape[-1]


def _written_type(call: OperatorCall, operands: int, code: int | None, otherwise: str) -> str:
    """Return the type of a result: of the tensor given for it after the operands, or as given by its number."""
    given = [one for one in call.inputs[operands:] if isinstance(one, Tensor)]
    if given or code is None:
        return given[-1].dtype if given else otherwise
    if not call.values:
        return ""
    return TYPE_OF_CODE.get(call.text(code), "") if call.text(code) else otherwise


def _at_most_inputs(count: int) -> Callable[[DemandFunction], DemandFunction]:
    """Refuse calls with more inputs than their operator has: TorchScript had what else was on its stack recorded."""

    def guarded(counting: DemandFunction) -> DemandFunction:
        def demand(call: OperatorCall) -> Demand:
            if len(call.inputs) > count:
                raise NotRecordedError("which of the inputs are the operator's")
            return counting(call)

        return demand

    return guarded


@_at_most_inputs(4)
def _mm(call: OperatorCall) -> Demand:
    left = call.tensor(0)
    code = 2 if len(call.inputs) > 2 else None
    return matmul_demand(left, call.tensor(1), _written_type(call, 2, code, left.dtype))


@_at_most_inputs(7)
def _addmm(call: OperatorCall) -> Demand:
    plain = 5 + isinstance(call.inputs[-1] if len(call.inputs) > 5 else None, Tensor)
    code = 3 if len(call.inputs) > plain else None
    result = _written_type(call, 3, code, call.tensor(1).dtype)
    return matmul_demand(call.tensor(1), call.tensor(2), result, _addend(call, 3 if code is None else 4))


def _addend(call: OperatorCall, beta: int) -> Tensor | None:
    """Return the tensor that a product is added to, unless its factor is zero."""
    return None if call.text(beta) in ZEROS else call.tensor(0)


def _addmm_activation(call: OperatorCall) -> Demand:
    result = _written_type(call, 3, None, call.tensor(1).dtype)
    return matmul_demand(call.tensor(1), call.tensor(2), result, _addend(call, 3))


def _addbmm(call: OperatorCall) -> Demand:
    left, right = call.tensor(1), call.tensor(2)
    done = matmul_demand(left, right, left.dtype)
    written = Tensor((left.shape[-2], right.shape[-1]), _written_type(call, 3, None, left.dtype))
    return replace(done, bytes=known_bytes(left, right, _addend(call, 3), written))


@_at_most_inputs(3)
def _matmul(call: OperatorCall) -> Demand:
    left, right = call.tensor(0), call.tensor(1)
    if not left.shape or not right.shape:
        raise NotRecordedError("shapes that fit each other")
    return matmul_demand(_as_matrix(left, 0), _as_matrix(right, 1), _written_type(call, 2, None, left.dtype))


def _as_matrix(tensor: Tensor, at: int) -> Tensor:
    """Return a vector as a matrix of one row (0) or one column (1), and what is none as it is."""
    if len(tensor.shape) != 1:
        return tensor
    strides = _with_one(tensor.strides, at) if tensor.strides else None
    return Tensor(_with_one(tensor.shape, at), tensor.dtype, strides)


def _with_one(sides: Sequence[int], at: int) -> tuple[int, ...]:
    return (*sides[:at], 1, *sides[at:])


@_at_most_inputs(4)
def _linear(call: OperatorCall) -> Demand:
    left, weight = call.tensor(0), call.tensor(1)
    if len(weight.shape) != 2 or not left.shape or left.shape[-1] != weight.shape[1]:
        raise NotRecordedError("shapes that fit each other")
    return _rows_by_weight(left, weight.shape[0], weight, call.tensor_or_none(2))


def _rows_by_weight(left: Tensor, columns: int, *others: Tensor | None) -> Demand:
    """Return the work of a product of all rows of a tensor with a matrix of ``columns``, the first of others."""
    rows, inner = math.prod(left.shape[:-1]), left.shape[-1]
    return Demand(
        flops=2 * rows * columns * inner,
        bytes=known_bytes(left, *others, Tensor((rows, columns), left.dtype)),
        dtype=left.dtype,
        unit=Unit.MATRIX,
        sizes={"M": rows, "N": columns, "K": inner},
    )


@_at_most_inputs(3)
def _mv(call: OperatorCall) -> Demand:
    return _matrix_vector(call.tensor(0), call.tensor(1), _written_type(call, 2, None, call.tensor(0).dtype))


def _addmv(call: OperatorCall) -> Demand:
    matrix = call.tensor(1)
    return _matrix_vector(matrix, call.tensor(2), _written_type(call, 3, None, matrix.dtype), _addend(call, 3))


def _matrix_vector(matrix: Tensor, vector: Tensor, result: str, *others: Tensor | None) -> Demand:
    if (len(matrix.shape), len(vector.shape)) != (2, 1):
        raise NotRecordedError("shapes that fit each other")
    return replace(matmul_demand(matrix, _as_matrix(vector, 1), result, *others), unit=Unit.VECTOR)


@_at_most_inputs(3)
def _dot(call: OperatorCall) -> Demand:
    left, right = call.tensor(0), call.tensor(1)
    if len(left.shape) != 1 or left.shape != right.shape:
        raise NotRecordedError("shapes that fit each other")
    moved = known_bytes(left, right, Tensor((), left.dtype))
    return Demand(2 * left.elements, moved, left.dtype, sizes={"K": left.elements})


def _addr(call: OperatorCall) -> Demand:
    column, row = call.tensor(1), call.tensor(2)
    if (len(column.shape), len(row.shape)) != (1, 1):
        raise NotRecordedError("shapes that fit each other")
    written = Tensor((column.elements, row.elements), _written_type(call, 3, None, column.dtype))
    moved = known_bytes(_addend(call, 3), column, row, written)
    return Demand(2 * written.elements, moved, column.dtype, sizes={"M": column.elements, "N": row.elements})


def _int_mm(call: OperatorCall) -> Demand:
    return matmul_demand(call.tensor(0), call.tensor(1), _written_type(call, 2, None, "int"))


def _scaled_mm(call: OperatorCall) -> Demand:
    left = call.tensor(0)
    code = 6 if call.tensor_or_none(3) else 3  # until PyTorch 2.4 the scales came after the type of the result
    besides = [call.tensor_or_none(at) for at in range(2, 8)]
    return matmul_demand(left, call.tensor(1), _written_type(call, 8, code, left.dtype), *besides)


def _scaled_mm_v2(call: OperatorCall) -> Demand:
    left = call.tensor(0)
    return matmul_demand(left, call.tensor(1), _written_type(call, 12, 9, left.dtype), call.tensor_or_none(8))


def _grouped_mm(call: OperatorCall) -> Demand:
    return _grouped(call, 2, _written_type(call, 5, 4, call.tensor(0).dtype))


def _scaled_grouped_mm(call: OperatorCall) -> Demand:
    return _grouped(call, 4, _written_type(call, 9, 7, call.tensor(0).dtype))


def _scaled_grouped_mm_v2(call: OperatorCall) -> Demand:
    return _grouped(call, 8, _written_type(call, 13, 10, call.tensor(0).dtype))


def _grouped(call: OperatorCall, offsets: int, result: str) -> Demand:
    """Return the work of a product in groups: of the side that they divide, all that is given counts as in one.

    A group may be empty, and its matrix is not read then: of the matrices one is, at least.
    """
    left, right = call.tensor(0), call.tensor(1)
    ranks = (len(left.shape), len(right.shape))
    if ranks == (3, 3):
        return matmul_demand(left, right, result)
    if ranks == (2, 2):
        groups = call.tensor(offsets).elements
        done = matmul_demand(left, right, result)
        written = Tensor((groups, left.shape[0], right.shape[1]), result)
        return replace(done, bytes=known_bytes(left, right, written), sizes={**done.sizes, "groups": groups})
    if ranks not in {(2, 3), (3, 2)}:
        raise NotRecordedError("shapes that fit each other")
    done = matmul_demand(_last_matrix(left), _last_matrix(right), result)
    return replace(done, sizes={**done.sizes, "groups": max(left, right, key=lambda one: len(one.shape)).shape[0]})


def _last_matrix(tensor: Tensor) -> Tensor:
    """Return one of a batch of matrices."""
    return Tensor(tensor.shape[-2:], tensor.dtype, tensor.strides[-2:] if tensor.strides else None)


def _int8_weights(call: OperatorCall) -> Demand:
    left, weight = call.tensor(0), call.tensor(1)
    if len(weight.shape) != 2 or len(left.shape) != 2 or left.shape[1] != weight.shape[1]:
        raise NotRecordedError("shapes that fit each other")
    return _rows_by_weight(left, weight.shape[0], weight, call.tensor_or_none(2))


def _int4_weights(call: OperatorCall) -> Demand:
    left, scales = call.tensor(0), call.tensor(3)
    if len(left.shape) != 2 or len(scales.shape) != 3:
        raise NotRecordedError("shapes that fit each other")
    return _rows_by_weight(left, scales.shape[1], call.tensor(1), scales)


MATMUL_FLOPS = "2·B·M·N·K"
MATMUL = (
    CostModel(("aten::mm", "aten::bmm"), MATMUL_FLOPS, "A + B + C", _mm),
    CostModel(
        ("aten::addmm", "aten::baddbmm"), f"{MATMUL_FLOPS}; the addition is part of the product", "A + B + C + bias",
        _addmm
    ),
    CostModel(
        ("aten::_addmm_activation",), "as addmm; the function is part of it", "A + B + C + bias", _addmm_activation,
    ),
    CostModel(
        ("aten::addbmm",), f"{MATMUL_FLOPS}; the sum over B is part of the product", "A + B + one C + bias", _addbmm,
    ),
    CostModel(("aten::matmul",), f"{MATMUL_FLOPS}; a vector is a matrix of one row or column", "A + B + C", _matmul),
    CostModel(("aten::linear",), "2·M·N·K, M: all rows of the input", "input + weight + bias + output", _linear),
    CostModel(("aten::mv",), "2·M·K", "matrix + vector + output", _mv),
    CostModel(("aten::addmv",), "2·M·K; the addition is part of the product", "matrix + two vectors + output", _addmv),
    CostModel(("aten::dot", "aten::vdot"), "2·K", "both vectors + one element", _dot),
    CostModel(("aten::addr",), "2·M·N", "matrix + two vectors + output", _addr),
    CostModel(("aten::_int_mm",), "2·M·N·K", "A + B + C of 32 bits", _int_mm),
    CostModel(
        ("aten::_scaled_mm",), "2·M·N·K; scaling is part of the product", "A + B + C + scales + bias", _scaled_mm,
    ),
    CostModel(("aten::_scaled_mm_v2",), "2·M·N·K; scaling is part of the product", "A + B + C + bias", _scaled_mm_v2),
    CostModel(
        ("aten::_grouped_mm",),
        "2·M·N·K, assuming that all given rows (or columns, or inner elements) are in a group",
        "A + B + C, of matrices for each group one",
        _grouped_mm,
    ),
    CostModel(
        ("aten::_scaled_grouped_mm",), "as _grouped_mm", "as _grouped_mm; scales not counted", _scaled_grouped_mm,
    ),
    CostModel(
        ("aten::_scaled_grouped_mm_v2",), "as _grouped_mm", "as _grouped_mm; scales not counted", _scaled_grouped_mm_v2
    ),
    CostModel(("aten::_weight_int8pack_mm",), "2·M·N·K", "A + weight + scales + C", _int8_weights),
    CostModel(
        ("aten::_weight_int4pack_mm",), "2·M·N·K, N from the scales", "A + weight + scales + C", _int4_weights,
    ),
)  # fmt: skip
