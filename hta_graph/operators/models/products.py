"""Matrix products."""

from __future__ import annotations

import math

from hta_graph.operators.demand import Demand, Model, Unit
from hta_graph.operators.operator_call import NotToldError, OperatorCall, Tensor, bytes_of

__all__ = ["PRODUCTS"]


def product_of(left: Tensor, right: Tensor, *others: Tensor | None) -> Demand:
    """Return the work of ``left @ right``, of matrices or of batches of them; ``others`` are read besides."""
    if min(len(left.shape), len(right.shape)) < 2 or left.shape[-1] != right.shape[-2]:
        raise NotToldError("shapes that fit each other")
    *batch, rows, inner = left.shape
    columns, count = right.shape[-1], math.prod(batch)
    written = count * rows * columns * left.width
    return Demand(
        flops=2 * count * rows * columns * inner,
        bytes=bytes_of(left, right, *others) + written,
        dtype=left.dtype,
        unit=Unit.MATRIX,
        sizes={"M": rows, "N": columns, "K": inner} | ({"batch": count} if batch else {}),
    )


def _mm(call: OperatorCall) -> Demand:
    return product_of(call.tensor(0), call.tensor(1))


def _addmm(call: OperatorCall) -> Demand:
    return product_of(call.tensor(1), call.tensor(2), call.tensor(0))


PRODUCTS = (
    Model(("aten::mm", "aten::bmm"), "2·B·M·N·K", "A + B + C", _mm),
    Model(
        ("aten::addmm", "aten::baddbmm"), "2·B·M·N·K; the addition is part of the product", "A + B + C + bias", _addmm
    ),
)
