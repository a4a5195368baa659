"""Several tensors made one, and one made several."""

from __future__ import annotations

import re

from hta_graph.roofline.demand import memory_bound_demand
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, Tensor, total_elements
from hta_graph.roofline.operators_demand import CostModel, Demand
from hta_graph.trace.element_bytes import element_bytes

__all__ = ["CONCAT"]

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
        "members + result; their type is told by the result where it is given, else by the kernel's name", _cat,
    ),
    CostModel(("aten::split_with_sizes_copy",), "0", "data + parts", _split_copy),
)  # fmt: skip
