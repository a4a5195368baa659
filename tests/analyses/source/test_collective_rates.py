"""Rates of collectives, by hand: which bytes count, what passes the links, what is missing where nothing is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analyses.declare.scope import in_window, whole
from analyses.source.collective_rates import COLLECTIVE_RATES, collective_rates
from hta_graph.paths.windows import between
from hta_graph.roofline.devices import Device
from tests.support.copy_engines import WAYS, copy_engine_step
from tests.support.deep_tests import deep
from tests.support.shared_traces import SHARED, graph_of_file
from tests.support.trace_builder import TraceBuilder

pytestmark = pytest.mark.sampled(2)

H100 = [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]


def said(
    name: str | None, sent: Any, received: Any, dtype: Any = "Float", ranks: Any = 8, **more: Any
) -> dict[str, Any]:
    return {
        "Collective name": name, "In msg nelems": sent, "Out msg nelems": received, "dtype": dtype, "Group size": ranks,
        "Process Group Name": "0", **more,
    }  # fmt: skip


def rates(
    folder: Path, *calls: tuple[float, dict[str, Any]], peaks: Device | None = None, **header: Any
) -> pd.DataFrame:
    """Return the rates of kernels of so many microseconds each, one after the other."""
    trace = TraceBuilder(**{"deviceProperties": H100} | header)
    for number, (length, args) in enumerate(calls, 1):
        trace.call("cudaLaunchKernel", number, number + 0.5, number)
        start = 1_000 * number
        trace.kernel("ncclDevKernel_Generic", start, start + length, number, stream=8, **args)
    return collective_rates([whole(0, trace.graph(folder))], peaks)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("name", "sent", "received", "size", "factor"),
    [
        ("allreduce", 1_000_000, 1_000_000, 4 * 1_000_000, 2 * 7 / 8),
        ("allreduce_coalesced", 1_000_000, 1_000_000, 4 * 1_000_000, 2 * 7 / 8),
        ("_allgather_base", 1_000_000, 8_000_000, 4 * 8_000_000, 7 / 8),
        ("_reduce_scatter_base", 8_000_000, 1_000_000, 4 * 8_000_000, 7 / 8),
        ("all_to_all", 8_000_000, 8_000_000, 4 * 8_000_000, 7 / 8),
        ("gather", 1_000_000, 8_000_000, 4 * 8_000_000, 7 / 8),
        ("broadcast", 1_000_000, 1_000_000, 4 * 1_000_000, 1),
        ("send", 1_000_000, 1_000_000, 4 * 1_000_000, 1),
        ("recv", 1_000_000, 1_000_000, 4 * 1_000_000, 1),
    ],
)
def test_bytes_and_bus_are_those_of_nccl_tests(
    tmp_path: Path, name: str, sent: int, received: int, size: int, factor: float
) -> None:
    frame = rates(tmp_path, (100, said(name, sent, received)), (300, said(name, sent, received)))
    assert list(frame) == list(COLLECTIVE_RATES)
    (row,) = frame.to_dict("records")
    assert (row["collective"], row["ranks"], row["bytes"], row["dtype"]) == (name, 8, size, "Float")
    assert (row["count"], row["gpu_ns"]) == (2, 400_000)
    assert row["algorithm_gbps"] == pytest.approx(2 * size / 400_000)
    assert row["bus_gbps"] == pytest.approx(2 * size / 400_000 * factor)
    assert row["best_bus_gbps"] == pytest.approx(size / 100_000 * factor)
    assert row["link_gbps"] == 450
    assert row["link_share"] == pytest.approx(size / 100_000 * factor / 450)


def test_calls_of_other_sizes_and_types_have_rows_of_their_own_the_longest_first(tmp_path: Path) -> None:
    calls = [
        (10, said("allreduce", 8, 8)), (50, said("allreduce", 16, 16)), (30, said("allreduce", 8, 8, "BFloat16")),
        (10, said("allreduce", 8, 8)), (5, said("allreduce", 8, 8, ranks=4)),
    ]  # fmt: skip
    frame = rates(tmp_path, *calls)
    assert frame[["bytes", "dtype", "ranks", "count", "gpu_ns"]].to_numpy().tolist() == [
        [64, "Float", 8, 1, 50_000], [16, "BFloat16", 8, 1, 30_000], [32, "Float", 8, 2, 20_000],
        [32, "Float", 4, 1, 5_000],
    ]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "splits", "is_even"),
    [
        ("all_to_allv", ("[4, 4]", "[4, 4]"), True),
        ("all_to_allv", ("[]", "[]"), True),
        ("all_to_allv", ("[4, 4]", "[3, 5]"), False),
        ("all_to_allv", ("[4, 4, ...]", "[4, 4, ...]"), False),
        ("all_to_allv", (None, None), False),
        ("all_to_allv", (3, {"a": 1}), False),
    ],
)
def test_an_all_to_all_of_unequal_parts_has_no_bus(
    tmp_path: Path, name: str, splits: tuple[Any, Any], is_even: bool
) -> None:
    more = dict(zip(("In split size", "Out split size"), splits, strict=True))
    frame = rates(tmp_path, (10, said(name, 8, 8, ranks=2, **more)), (20, said("allreduce", 8, 8, ranks=2)))
    row = frame[frame["collective"] == name].iloc[0]
    assert row["algorithm_gbps"] == pytest.approx(32 / 10_000)
    known = pytest.approx(32 / 10_000 / 2)
    assert (row["bus_gbps"] == known) if is_even else pd.isna(row[["bus_gbps", "best_bus_gbps", "link_share"]]).all()
    assert frame[frame["collective"] == "allreduce"]["bus_gbps"].iloc[0] == pytest.approx(32 / 20_000)


def test_what_is_recorded_around_the_launch_is_the_kernels(tmp_path: Path) -> None:
    trace = TraceBuilder(deviceProperties=H100)
    trace.op("record_param_comms", 0, 5, **said("_allgather_base", 8, 64, "Half"))
    trace.launch("ncclDevKernel_AllGather", (1, 2), (5, 20), 1)
    (row,) = collective_rates([whole(0, trace.graph(tmp_path))]).to_dict("records")
    assert (row["collective"], row["bytes"], row["gpu_ns"]) == ("_allgather_base", 64 * 2, 15_000)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    "args",
    [
        {},
        said(None, 8, 8),
        said("allreduce", None, None),
        said("allreduce", 8, 8, None),
        said("allreduce", 8, 8, "made up"),
        said("allreduce", -1, -1),
        said("allreduce", "many", [3]),
        said("_allgather_base", 8, None),
        said("_reduce_scatter_base", None, 8),
        said("barrier", 8, 8),
        said({"a": 1}, {"a": 1}, True, ["x"], {"n": 2}),
    ],
)
def test_of_what_is_not_recorded_there_is_no_rate(tmp_path: Path, args: dict[str, Any]) -> None:
    (row,) = rates(tmp_path, (10, args)).to_dict("records")
    assert (row["count"], row["gpu_ns"]) == (1, 10_000)
    missing = ("bytes", "algorithm_gbps", "bus_gbps", "best_bus_gbps", "link_share")
    assert pd.isna([row[name] for name in missing]).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ranks", [0, -1, None, "no", True])
def test_without_a_size_of_the_group_there_is_no_bus(tmp_path: Path, ranks: Any) -> None:
    (row,) = rates(tmp_path, (10, said("allreduce", 8, 8, ranks=ranks))).to_dict("records")
    assert row["algorithm_gbps"] == pytest.approx(32 / 10_000)
    assert pd.isna([row["ranks"], row["bus_gbps"], row["link_share"]]).all()


def test_a_group_of_one_and_no_data_and_no_time_have_no_absurd_rates(tmp_path: Path) -> None:
    calls = [(10, said("allreduce", 8, 8, ranks=1)), (9, said("allreduce", 0, 0)), (0, said("broadcast", 8, 8))]
    frame = rates(tmp_path, *calls)
    assert frame["bus_gbps"].tolist()[:2] == [0, 0]
    assert pd.isna(frame.loc[2, ["algorithm_gbps", "bus_gbps", "best_bus_gbps", "link_share"]]).all()


def test_an_unknown_device_has_no_share_unless_its_peaks_are_given(tmp_path: Path) -> None:
    call = (10, said("broadcast", 1_000, 1_000))
    for devices in ([], [{"id": 0, "name": ""}], [{"id": 0, "name": "made up"}], "x"):
        assert rates(tmp_path, call, deviceProperties=devices)["link_share"].isna().all()
    given = rates(tmp_path, call, peaks=Device("mine", link_gb_per_s=2), deviceProperties=[])
    assert given[["link_gbps", "link_share"]].to_numpy().tolist() == [[2, pytest.approx(0.4 / 2)]]
    assert rates(tmp_path, call, peaks=Device("mine"))["link_share"].isna().all()


def test_without_communication_there_are_no_rows(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 1), (0, 10), 1)
    frame = collective_rates([whole(0, trace.graph(tmp_path))])
    assert (list(frame), len(frame)) == (list(COLLECTIVE_RATES), 0)
    assert list(collective_rates([])) == list(COLLECTIVE_RATES)


def test_a_window_has_the_kernels_that_start_in_it_whole(tmp_path: Path) -> None:
    trace = TraceBuilder(deviceProperties=H100)
    for number in (1, 2, 3):
        trace.call("cudaLaunchKernel", number, number + 0.5, number)
        trace.kernel("nccl", 100 * number, 100 * number + 50, number, **said("broadcast", 8, 8))
    graph = trace.graph(tmp_path)
    frame = collective_rates([in_window(0, graph, between(120_000, 220_000)), whole(0, graph)])
    assert frame[["count", "gpu_ns"]].to_numpy().tolist() == [[1, 50_000], [3, 150_000]]


@pytest.mark.shared
@pytest.mark.parametrize("name", ["nccl_args_a100/rank0.json.gz", deep("nanogpt_ab_hook/rank0.json.gz")])
def test_rates_of_recordings_add_up_and_stay_below_the_links(name: str) -> None:
    scope = whole(0, graph_of_file(SHARED / "traces" / name))
    frame = collective_rates([scope])
    talk = scope.work.type == 1
    assert frame["gpu_ns"].sum() == int((scope.work.end - scope.work.start)[talk].sum())
    assert frame["count"].sum() == int(talk.sum())
    assert frame["link_share"].dropna().between(0, 1).all()
    assert frame["link_share"].notna().any()


def test_the_bus_of_unequal_parts_carries_what_others_get(tmp_path: Path) -> None:
    parts = {"In split size": "[1, 2, 3, 4]", "Out split size": "[1, 1, 1, 7]", "Process Group Ranks": "[0, 1, 2, 3]"}
    header = {"distributedInfo": {"rank": 3, "world_size": 4}}
    frame = rates(tmp_path, (10, said("all_to_allv", 10_000, 20_000, ranks=4, **parts)), **header)
    (row,) = frame.to_dict("records")
    # Six of ten parts are sent to others, three of ten received: 6,000 elements of four bytes in 10 µs.
    assert row["bus_gbps"] == pytest.approx(4 * 6_000 / 10_000)
    assert (row["bytes"], row["algorithm_gbps"]) == (4 * 20_000, 8)


def test_copies_of_one_call_count_once(tmp_path: Path) -> None:
    trace = copy_engine_step(0, [(WAYS[0], 120, 20), (WAYS[1], 140, 20)])
    (row,) = collective_rates([whole(0, trace.graph(tmp_path))]).to_dict("records")
    assert (row["count"], row["gpu_ns"], row["bytes"]) == (1, 40_000, 8_000)
    assert row["algorithm_gbps"] == 8_000 / 40_000
