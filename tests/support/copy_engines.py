"""A step of each rank in which copy engines run a collective, as NCCL (from 2.28) and RCCL (SDMA) let them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.rank_builder import RankBuilder

Copy = tuple[str, float, float]
"""The name of a copy, when it starts and how long it takes (µs)."""

WAYS = ("Memcpy DtoD (Device -> Device)", "Memcpy PtoP (Device -> Device)")
ALL_GATHER: dict[str, Any] = {
    "Collective name": "_allgather_base", "In msg nelems": 1_000, "Out msg nelems": 2_000, "dtype": "Float",
    "Group size": 2, "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Seq": 1,
}  # fmt: skip
PRODUCT_ENDS = 100.0


def copy_engine_step(
    rank: int, copies: Sequence[Copy], said: dict[str, Any] | None = None, *, ranks: int = 2, inner: str = "",
    call: str = "cudaMemcpyAsync", late: float = 0.0, stream: int = 24,
) -> RankBuilder:  # fmt: skip
    """Record a product, copies that a record launches (in an operator ``inner`` of it, where named), and a product.

    ``late`` is how much longer (µs) the first product takes.
    """
    trace = RankBuilder(rank, ranks)
    trace.op("aten::mm", 0, 4)
    trace.launch("gemm_a", (1, 3), (10, PRODUCT_ENDS + late), 1)
    trace.op("c10d::_allgather_base_", 20, 60)
    trace.op("record_param_comms", 21, 59, **{"External id": 90}, **(ALL_GATHER if said is None else said))
    if inner:
        trace.op(inner, 22, 58, **{"External id": 91})
    trace.call("cudaEventRecordWithFlags", 23, 24, 2)
    trace.call("cudaStreamWaitEvent", 25, 26, 3)
    for number, (name, start, length) in enumerate(copies):
        at, corr = 30 + 3 * number, 10 + number
        trace.row(ph="X", cat="cuda_runtime", name=call, pid=100, tid=1, ts=at, dur=2, args={"correlation": corr})
        owner = {"External id": 91 if inner else 90, "bytes": 4_000}
        trace.copy(name, start, start + length, corr, stream=stream + number % 2 * (stream != 24), **owner)
    trace.call("cudaEventRecordWithFlags", 56, 57, 6)
    trace.call("cudaStreamWaitEvent", 60.5, 61.5, 7)
    ends = max((start + length for _, start, length in copies), default=PRODUCT_ENDS + late)
    trace.op("aten::mm", 62, 66)
    trace.launch("gemm_b", (63, 65), (ends + 2, ends + 42), 4)
    trace.call("cudaDeviceSynchronize", 70, ends + 47, 5)
    return trace
