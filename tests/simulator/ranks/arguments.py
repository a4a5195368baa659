"""What PyTorch writes about a communication: on the kernel, on the operator around its launch, on Gloo's rows.

Sources: saveNcclMeta and format_list in torch/csrc/profiler/util.cpp (lists are cut after 30 entries), the schemas in
torch/csrc/distributed/c10d/Ops.cpp (`Concrete Inputs`), and recorded files.
"""

import zlib
from collections.abc import Sequence
from typing import Any

from tests.simulator.ranks.communication_statements import MESSAGES, Group, Kind, Meet

LISTED = 30
KERNELS: dict[Kind, str] = {
    "all_reduce": "AllReduce_Sum_f32_RING_LL",
    "all_gather": "AllGather_RING_LL",
    "reduce_scatter": "ReduceScatter_Sum_f32_RING_LL",
    "broadcast": "Broadcast_RING_LL",
    "reduce": "Reduce_Sum_f32_RING_LL",
    "barrier": "AllReduce_Sum_f32_RING_LL",
}
"""What NCCL's kernels are called; all others are sends and receives in one."""
COLLECTIVES: dict[Kind, str] = {
    "all_reduce": "allreduce",
    "all_gather": "_allgather_base",
    "reduce_scatter": "_reduce_scatter_base",
}
"""How PyTorch names a collective where it does not as we do."""


def kernel_name(kind: Kind) -> str:
    """Return the name of NCCL's kernel.

    >>> kernel_name("gather")
    'ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)'
    """
    return f"ncclDevKernel_{KERNELS.get(kind, 'SendRecv')}(ncclDevKernelArgsStorage<4096ul>)"


def shown_list(ranks: Sequence[int]) -> str:
    """Return a list as PyTorch prints it.

    >>> shown_list([0, 1]), shown_list(range(32))[-12:]
    ('[0, 1]', '28, 29, ...]')
    """
    cut = ", ..." if len(ranks) > LISTED else ""
    return f"[{', '.join(map(str, ranks[:LISTED]))}{cut}]"


def kernel_arguments(meet: Meet, sequence: int) -> dict[str, Any]:
    """Return what stands on the kernel; the last two are recorded ids, which most files lack.

    A rank counts its messages by itself, so their numbers differ between sender and receiver.
    """
    group = meet.group
    out = meet.elements * {"all_gather": len(group.ranks)}.get(meet.kind, 1)
    if meet.kind == "reduce_scatter":
        out = max(1, meet.elements // len(group.ranks))
    peer = {f"{'Dst' if meet.kind == 'send' else 'Src'} Rank": meet.other} if meet.kind in MESSAGES else {}
    return {
        "Collective name": COLLECTIVES.get(meet.kind, meet.kind),
        "In msg nelems": meet.elements,
        "Out msg nelems": out,
        "Group size": len(group.ranks),
        "dtype": "Float",
        "Process Group Name": group.name,
        "Process Group Description": group.description,
        "Process Group Ranks": shown_list(group.ranks),
        **peer,
        "Seq": sequence,
        "Comms Id": _comms_id(meet, sequence),
    }


def operator_arguments(meet: Meet, sequence: int, rank: int) -> dict[str, Any]:
    """Return what stands on `record_param_comms`: what the kernel has, and the group's ranks as start and stride."""
    ranks = meet.group.ranks
    stride = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    told = meet.other if meet.other is not None else rank
    is_strided = list(ranks) == list(range(ranks[0], ranks[0] + stride * len(ranks), stride))
    return kernel_arguments(meet, sequence) | {
        "Rank": ranks.index(told),
        "Global rank start": ranks[0],
        "Global rank stride": stride if is_strided else -1,
        "Concrete Inputs": ["", "", "", str(ranks.index(told)), "", "[]", "[]", "0", str(stride), str(len(ranks))],
    }


def _comms_id(meet: Meet, sequence: int) -> int:
    hashed = meet.group.name, meet.group.ranks, sequence, meet.kind in MESSAGES
    # More than a float holds, as real ones.
    return (1 << 62) + zlib.crc32(repr(hashed).encode()) * 2_654_435_761 % (1 << 61)


CALLS: dict[Kind, str] = {
    "all_reduce": "c10d::allreduce_",
    "all_gather": "c10d::_allgather_base_",
    "reduce_scatter": "c10d::_reduce_scatter_base_",
    "all_to_all": "c10d::alltoall_base_",
    "barrier": "c10d::barrier",
    "broadcast": "c10d::broadcast_",
    "scatter": "c10d::scatter_",
    "reduce": "c10d::reduce_",
    "gather": "c10d::gather_",
    "send": "c10d::send",
    "recv": "c10d::recv_",
}
INPUTS: dict[Kind, tuple[str, ...]] = {
    "all_reduce": ("", "", "", "", "{is_async}", "-1"),
    "all_gather": ("", "", "", "{is_async}", "-1"),
    "reduce_scatter": ("", "", "", "", "{is_async}", "-1"),
    "all_to_all": ("", "", "", "[1]", "[1]", "{is_async}", "-1"),
    "barrier": ("", "", "[]", "{is_async}", "-1"),
    "broadcast": ("", "", "{other}", "0", "{is_async}", "-1"),
    "scatter": ("", "", "", "{other}", "{is_async}", "-1"),
    "reduce": ("", "", "", "{other}", "0", "{is_async}", "-1"),
    "gather": ("[]", "", "", "{other}", "{is_async}", "-1"),
    "send": ("", "", "{other}", "0"),
    "recv": ("", "", "{other}", "0"),
}
"""`Concrete Inputs` of each call: roots and peers stand only here, as places in the group."""


def host_arguments(meet: Meet, *, is_call: bool = False) -> dict[str, Any]:
    """Return what stands on a call of a process group on the CPU, or on the row of its work."""
    other = 0 if meet.other is None else meet.group.ranks.index(meet.other)
    shape: list[Any] = [meet.elements]
    if not is_call:
        row: dict[str, Any] = {"Concrete Inputs": [""], "Input type": ["float"], "Input Dims": [shape]}
        return {} if meet.kind == "barrier" else row
    inputs = [text.format(is_async=not meet.is_synchronous, other=other) for text in INPUTS[meet.kind]]
    is_base = meet.kind in ("all_gather", "reduce_scatter", "all_to_all", "barrier")
    first = [shape, shape] if is_base else [[shape]]
    return {"Concrete Inputs": inputs, "Input Dims": [*first, *[[]] * (len(inputs) - len(first))]}


def header_entry(group: Group) -> dict[str, Any]:
    """Return a group as the header lists it."""
    return {
        "pg_name": group.name,
        "pg_desc": group.description,
        "pg_size": len(group.ranks),
        "ranks": list(group.ranks),
    }
