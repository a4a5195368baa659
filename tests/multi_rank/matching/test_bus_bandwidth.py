"""Bus bandwidth as nccl-tests define it, by what the profiler calls the collective."""

from __future__ import annotations

import pytest

from hta_graph.multi_rank.matching.bus_bandwidth import bus_factor


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("names", "factor"),
    [
        (("allreduce", "all_reduce", "allreduce_coalesced", "_allreduce_oop"), 2 * 7 / 8),
        (("_allgather_base", "all_gather", "allgather_into_tensor_coalesced"), 7 / 8),
        (("_reduce_scatter_base", "reduce_scatter_tensor_coalesced"), 7 / 8),
        (("all_to_all", "all_to_allv", "alltoall_base"), 7 / 8),
        (("gather", "scatter"), 7 / 8),
        (("broadcast", "_broadcast_oop", "reduce", "send", "recv", "send_recv"), 1.0),
        (("barrier", "wait", "", None), None),
    ],
)
def test_kinds_of_collectives_load_the_links_differently(names: tuple[str | None, ...], factor: float | None) -> None:
    assert {bus_factor(name, 8) for name in names} == {factor}
