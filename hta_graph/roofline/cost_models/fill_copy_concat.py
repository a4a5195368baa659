"""Tensors that are filled, copied, concatenated or split: no arithmetic, memory only.

How random numbers are made is not counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hta_graph.roofline.demand import CostModel, Demand, memory_bound_demand
from hta_graph.roofline.operator_call import (
    NotRecordedError,
    OperatorCall,
    Tensor,
    output_bytes,
    total_elements,
    type_of_code,
)
from hta_graph.trace.profiler_names import element_bytes

FILL_OPERATORS = (
    "aten::fill_", "aten::zero_", "aten::uniform_", "aten::normal_", "aten::random_", "aten::exponential_",
    "aten::cauchy_", "aten::log_normal_", "aten::geometric_",
)  # fmt: skip


def _fill(call: OperatorCall) -> Demand:
    filled = call.tensor(0)
    return Demand(0, filled.bytes, filled.dtype)


def _bernoulli(call: OperatorCall) -> Demand:
    """Count the tensor, and that of probabilities where they are not one number."""
    filled, probabilities = call.tensor(0), call.tensor_or_none(1)
    read = probabilities.bytes if probabilities and probabilities.shape else 0
    return Demand(0, filled.bytes + read, filled.dtype)


def _copied(call: OperatorCall, read: Tensor, written: int, dtype: str) -> Demand:
    """Count what is on the GPU: of a copy from or to the host one half is in the host's memory."""
    sides = {"Memcpy HtoD": (0, written), "Memcpy DtoH": (read.bytes, 0)}
    return Demand(0, sum(sides.get(call.kernel[:11], (read.bytes, written))), dtype)


def _copy(call: OperatorCall) -> Demand:
    written, read = call.tensor(0), call.tensor(1)
    return _copied(call, read, written.bytes, written.dtype)


def _clone(call: OperatorCall) -> Demand:
    read = call.tensor(0)
    return _copied(call, read, output_bytes(read.shape, read.dtype), read.dtype)


def _convert(call: OperatorCall) -> Demand:
    """Count a copy in the type that was asked for; without one it keeps its type."""
    read = call.tensor(0)
    kind = type_of_code(call.text(1)) if call.text(1) or not call.values else read.dtype
    return _copied(call, read, output_bytes(read.shape, kind), kind)


def _model(names: tuple[str, ...], text: str, demand: Callable[[OperatorCall], Demand]) -> CostModel:
    return CostModel(names, "none", text, demand)


FILLS_AND_COPIES = (
    _model(FILL_OPERATORS, "what is written", _fill),
    _model(("aten::bernoulli_",), "what is written + probabilities", _bernoulli),
    _model(("aten::copy_",), "source + target; for a copy from or to the host, only the side on the GPU", _copy),
    _model(("aten::clone", "aten::contiguous"), "input + result", _clone),
    _model(("aten::_to_copy",), "input + result in the requested type", _convert),
)


CAT_KERNEL = re.compile(r"\bCatArrayBatchedCopy\w*<(.{1,80}?), (?:unsigned )?(?:int|long)\b")
OPAQUE_TYPE = re.compile(r"OpaqueType<(\d{1,2})u?(?:ll?)?>")


def member_type(kernel: str) -> tuple[str, int]:
    """Return the type that a kernel says it joins, and its bytes; 0 where it does not say, no name where only those.

    >>> member_type("void at::native::(anonymous namespace)::CatArrayBatchedCopy<c10::BFloat16, unsigned int, 2, 64>()")
    ('bfloat16', 2)
    >>> member_type("void CatArrayBatchedCopy_contig<at::native::OpaqueType<8u>, unsigned int, 1, 128, 1>()")
    ('', 8)
    """
    found = CAT_KERNEL.search(kernel)
    member = found[1] if found else ""
    if opaque := OPAQUE_TYPE.search(member):
        return "", int(opaque[1])
    kind = member.rpartition("::")[2].lower()
    return kind, element_bytes(kind)


def _cat(call: OperatorCall) -> Demand:
    """Return the work of a list that becomes one tensor; the type of its members is not recorded."""
    members, result = call.tensor_list(0), call.tensor_or_none(2)
    kind, width = (result.dtype, result.width) if result else member_type(call.kernel)
    read = sum(one.stored_elements for one in members)
    return Demand(0, (read + total_elements(members)) * width if width else None, kind)


def _split_copy(call: OperatorCall) -> Demand:
    data = call.tensor(0)
    if min(call.integers(1), default=0) < 0:
        raise NotRecordedError("the sizes of the parts")
    return memory_bound_demand(data.dtype, 0, (data,), (Tensor(data.shape, data.dtype),))


CONCAT = (
    CostModel(
        ("aten::cat", "aten::_cat", "aten::stack"), "0",
        "members + result; their type is the result's if recorded, otherwise it comes from the kernel's name", _cat,
    ),
    CostModel(("aten::split_with_sizes_copy",), "0", "data + parts", _split_copy),
)  # fmt: skip
