"""Matrix products."""

from __future__ import annotations

import math
import re

from hta_graph.operators.demand import Demand, Model, Unit
from hta_graph.operators.operator_call import NotToldError, OperatorCall, Tensor, bytes_of
from hta_graph.operators.tensor_types import broadcast, element_type_in

__all__ = ["PRODUCTS"]

EQUATION = re.compile(r"([a-zA-Z]+),([a-zA-Z]+)(?:->([a-zA-Z]*))?")


def _product(left: Tensor, right: Tensor, *others: Tensor | None, written_as: Tensor | None = None) -> Demand:
    """Return the work of ``left @ right``, of matrices or of batches of them; ``others`` are read besides.

    ``written_as`` is an output whose type was recorded; without one the product has the type of ``left``.
    """
    if min(len(left.shape), len(right.shape)) < 2 or left.shape[-1] != right.shape[-2]:
        raise NotToldError("shapes that fit each other")
    count = math.prod(broadcast([left.shape[:-2], right.shape[:-2]]))
    return _counted(count, left.shape[-2], right.shape[-1], left, right, *others, written_as=written_as)


def _counted(
    count: int, rows: int, columns: int, left: Tensor, right: Tensor, *others: Tensor | None,
    written_as: Tensor | None = None,
) -> Demand:  # fmt: skip
    """Return the work of products of so many rows by so many columns, over the last dimension of ``left``."""
    inner = left.shape[-1]
    width = (written_as or left).width
    return Demand(
        flops=2 * count * rows * columns * inner,
        bytes=bytes_of(left, right, *others) + count * rows * columns * width,
        dtype=left.dtype,
        unit=Unit.MATRIX,
        sizes={"M": rows, "N": columns, "K": inner} | ({"batch": count} if count > 1 else {}),
    )


def _mm(call: OperatorCall) -> Demand:
    return _product(call.tensor(0), call.tensor(1))


def _addmm(call: OperatorCall) -> Demand:
    return _product(call.tensor(1), call.tensor(2), call.tensor(0))


def _addbmm(call: OperatorCall) -> Demand:
    added, left, right = call.tensor(0), call.tensor(1), call.tensor(2)
    found = _product(left, right)
    return Demand(found.flops, bytes_of(added, left, right, added), left.dtype, Unit.MATRIX, sizes=found.sizes)


def _linear(call: OperatorCall) -> Demand:
    given, weight = call.tensor(0), call.tensor(1)
    if len(weight.shape) != 2 or not given.shape or given.shape[-1] != weight.shape[-1]:
        raise NotToldError("shapes that fit each other")
    return _counted(1, math.prod(given.shape[:-1]), weight.shape[0], given, weight, call.tensor_or_none(2))


def _mv(call: OperatorCall, at: int = 0) -> Demand:
    """Count a matrix, or a vector, by a vector: the matrix units have no use for it."""
    matrix, vector, added = call.tensor(at), call.tensor(at + 1), call.tensor_or_none(0) if at else None
    if not matrix.shape or vector.shape != matrix.shape[-1:]:
        raise NotToldError("shapes that fit each other")
    written = math.prod(matrix.shape[:-1]) * matrix.width
    return Demand(2 * matrix.elements, bytes_of(matrix, vector, added) + written, matrix.dtype)


def _addmv(call: OperatorCall) -> Demand:
    return _mv(call, 1)


OUTPUT_TYPES = {"5": "half", "6": "float", "7": "double", "15": "bfloat16"}
"""PyTorch's numbers of types."""


def _scaled_mm(call: OperatorCall) -> Demand:
    left, right, scales = call.tensor(0), call.tensor(1), [call.tensor_or_none(at) for at in (2, 3, 4)]
    return _typed(_product(left, right), call.text(6), left, right, *scales)


def _int_mm(call: OperatorCall) -> Demand:
    return _product(call.tensor(0), call.tensor(1), written_as=Tensor((), "int"))


def _grouped_mm(call: OperatorCall) -> Demand:
    left, right = call.tensor(0), call.tensor(1)
    return _of_groups(left, right, *(call.tensor_or_none(at) for at in (2, 3)))


def _scaled_grouped_mm(call: OperatorCall) -> Demand:
    left, right, scales = call.tensor(0), call.tensor(1), [call.tensor_or_none(at) for at in (2, 3)]
    if len(right.shape) == 2:
        raise NotToldError("how many groups there are")
    return _typed(_of_groups(left, right), call.text(7), left, right, *scales)


def _typed(found: Demand, number: str, *given: Tensor | None) -> Demand:
    """Return a product whose result has the type of a number; without one its traffic is not known."""
    written = found.sizes["M"] * found.sizes["N"] * found.sizes.get("batch", 1)
    kind = OUTPUT_TYPES.get(number)
    moved = bytes_of(*given) + written * Tensor((), kind).width if kind else None
    return Demand(found.flops, moved, found.dtype, Unit.MATRIX, sizes=found.sizes)


def _of_groups(left: Tensor, right: Tensor, *others: Tensor | None) -> Demand:
    """Return the work of products in groups: all rows that are given count, as if none were left over for padding."""
    # rows of all groups [T, K] by a matrix a group [G, K, N]; a batch [G, M, K] by one; or [M, T] by [T, N]: T in parts
    if len(left.shape) == 3 and len(right.shape) == 3:
        return _product(left, right, *others)
    if len(left.shape) != 2 or len(right.shape) not in {2, 3} or left.shape[-1] != right.shape[-2]:
        raise NotToldError("shapes that fit each other")
    if len(right.shape) == 3:
        return _counted(1, left.shape[0], right.shape[-1], left, right, *others)
    groups = next((one.elements for one in others if one is not None and one.dtype == "int"), None)
    if groups is None:
        raise NotToldError("how many groups there are")
    rows, columns = left.shape[0], right.shape[1]
    return Demand(
        2 * rows * columns * left.shape[1],
        bytes_of(left, right, *others) + groups * rows * columns * left.width,
        left.dtype, Unit.MATRIX, sizes={"M": rows, "N": columns, "K": left.shape[1]},
    )  # fmt: skip


def _einsum(call: OperatorCall) -> Demand:
    """Count a contraction of two tensors whose equation is plain letters."""
    plain = EQUATION.fullmatch(call.text(0).replace(" ", ""))
    given = call.listed(1)
    if plain is None or len(given) != 2:
        raise NotToldError("a plain equation of two tensors")
    sides: dict[str, int] = {}
    for letters, tensor in zip(plain.groups()[:2], given, strict=True):
        if len(letters) != len(tensor.shape):
            raise NotToldError("an equation that fits the shapes")
        sides |= dict(zip(letters, tensor.shape, strict=True))
    flops = math.prod(sides.values())
    summed = plain[3] is None or set(sides) - set(plain[3])
    return Demand(
        flops * (2 if summed else 1), None, element_type_in(call.kernel), Unit.MATRIX if summed else Unit.VECTOR
    )


TYPED = "A + B + scales + C in the type that is asked for"

PRODUCTS = (
    Model(("aten::mm", "aten::bmm"), "2·B·M·N·K", "A + B + C", _mm),
    Model(
        ("aten::addmm", "aten::baddbmm", "aten::_addmm_activation"),
        "2·B·M·N·K; the addition is part of the product", "A + B + C + bias", _addmm,
    ),
    Model(("aten::addbmm",), "2·B·M·N·K", "A + B + what is added to, twice", _addbmm),
    Model(("aten::linear",), "2·M·N·K, M being all dimensions but the last", "A + B + C + bias", _linear),
    Model(("aten::matmul",), "2·B·M·N·K", "A + B + C", _mm),
    Model(("aten::mv", "aten::dot", "aten::vdot"), "2·M·K", "A + x + y", _mv),
    Model(("aten::addmv",), "2·M·K", "A + x + y + what is added to", _addmv),
    Model(("aten::_scaled_mm",), "2·M·N·K", TYPED, _scaled_mm),
    Model(("aten::_int_mm",), "2·M·N·K", "A + B + C in 32 bits", _int_mm),
    Model(("aten::_grouped_mm",), "2·M·N·K, all rows counted", "A + B + C", _grouped_mm),
    Model(("aten::_scaled_grouped_mm",), "2·M·N·K, all rows counted", TYPED, _scaled_grouped_mm),
    Model(("aten::einsum",), "2 × the sizes of all letters", "not known", _einsum),
)  # fmt: skip
