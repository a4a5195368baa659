"""Rooflines of a trace drawn by hand on an A100 (312 TFLOP/s in half precision, 19.5 in single, 1,555 GB/s).

µs         0      20      40      60      80      100     120     140     160     180
thread     mm C1  mm C2  add C3  [copy]  odd C5
stream 7       [big product     ][thin ][add ][HtoD ][odd]
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hta_graph as hg
from analyses.declare.answer import Answer
from analyses.declare.scope import per_step, whole
from analyses.questions import roofline
from hta_graph.base.errors import UsageError
from hta_graph.roofline.devices import Device, known_devices
from tests.support.command_line import command_json, one_error
from tests.support.trace_builder import TraceBuilder

pytestmark = pytest.mark.sampled(2)

HALF = "c10::Half"
A100 = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-40GB"}]}
BIG = 2 * 2048 * 2048 * 2048
THIN = 2 * 8192 * 8192 * 4
THIN_BYTES = 2 * (8192 * 4 + 4 * 8192 + 8192 * 8192)
ADD_BYTES = 2 * 3 * 4_000_000


def peaks() -> Device:
    """Return the device of the header."""
    return next(one for one in known_devices() if "A100-SXM4-40GB" in one.recorded)


def shaped(*given: tuple[str, list[int]]) -> dict[str, Any]:
    """Return the arguments that tell the inputs of an operator."""
    return {"Input Dims": [shape for _, shape in given], "Input type": [kind for kind, _ in given]}


def drawn(**header: Any) -> TraceBuilder:
    """Draw the trace."""
    trace = TraceBuilder(**{**A100, **header})
    trace.op("aten::mm", 0, 8, **shaped((HALF, [2048, 2048]), (HALF, [2048, 2048])))
    trace.launch("ampere_h16816gemm", (2, 6), (10, 110), 1)
    trace.op("aten::mm", 10, 18, **shaped((HALF, [8192, 4]), (HALF, [4, 8192])))
    trace.launch("thin_gemm", (12, 16), (110, 310), 2)
    trace.op("aten::add", 20, 28, **shaped((HALF, [4_000_000]), (HALF, [4_000_000]), ("Scalar", [])))
    trace.launch("vectorized_elementwise_kernel", (22, 26), (310, 330), 3)
    trace.call("cudaMemcpyAsync", 30, 34, 4)
    trace.copy("Memcpy HtoD (Pinned -> Device)", 330, 340, 4)
    trace.op("mine::odd", 40, 48, **shaped((HALF, [4])))
    trace.launch("odd", (42, 46), (340, 350), 5)
    return trace


def asked(tmp_path: Path, trace: TraceBuilder | None = None, **flags: Any) -> Answer:
    """Ask about a trace, the drawn one if none is given."""
    return roofline.answer([whole(0, (trace or drawn()).graph(tmp_path))], **flags)


def by_kernel(found: Answer) -> dict[int, Any]:
    """Return the rows of the roofline by their GPU time in µs."""
    return {int(row.gpu_ns) // 1_000: row for row in found.tables["roofline"].itertuples()}


def test_rates_and_shares_are_those_of_a_hand_calculation(tmp_path: Path) -> None:
    rows, device = by_kernel(asked(tmp_path)), peaks()
    assert device.memory_bytes_per_s == 1_555e9
    big, thin = rows[100], rows[200]
    assert big.achieved_tflops == pytest.approx(BIG / 100e-6 / 1e12)
    assert big.peak_share == pytest.approx(BIG / 312e12 / 100e-6)
    assert (big.bound, big.calls, big.inputs) == ("compute", 1, "half[2048×2048, 2048×2048]")
    assert thin.achieved_gbps == pytest.approx(THIN_BYTES / 200e-6 / 1e9)
    assert thin.peak_share == pytest.approx(THIN_BYTES / 1_555e9 / 200e-6)
    assert thin.bound == "memory"


def test_elementwise_work_is_bound_by_memory(tmp_path: Path) -> None:
    add = by_kernel(asked(tmp_path))[20]
    assert add.achieved_gbps == pytest.approx(ADD_BYTES / 20e-6 / 1e9)
    assert add.achieved_tflops == pytest.approx(4_000_000 / 20e-6 / 1e12)
    assert add.bound == "memory"


def test_what_is_not_known_says_why_and_has_no_rates(tmp_path: Path) -> None:
    unknown = asked(tmp_path).tables["roofline"].set_index("operator")["unknown"]
    assert unknown["mine::odd"] == "no model"
    assert unknown["Memcpy HtoD (Pinned -> Device)"] == "a copy from or to outside"
    assert unknown[["aten::mm", "aten::add"]].isna().all()


def test_reaching_four_fifths_saves_what_the_kernel_takes_longer_for_nothing_runs_beside_it(tmp_path: Path) -> None:
    thin = by_kernel(asked(tmp_path))[200]
    assert thin.saves_ns == pytest.approx(200_000 - THIN_BYTES / 1_555e9 / 0.8 * 1e9, abs=2)


def test_what_is_not_on_the_path_saves_nothing(tmp_path: Path) -> None:
    trace = drawn()
    trace.op("aten::mm", 50, 58, **shaped((HALF, [2048, 2048]), (HALF, [2048, 2048])))
    trace.call("cudaLaunchKernel", 52, 56, 9)
    trace.kernel("beside", 60, 300, 9, stream=20)
    beside = by_kernel(asked(tmp_path, trace))
    row = next(row for row in asked(tmp_path, trace).tables["roofline"].itertuples() if row.gpu_ns == 340_000)
    assert beside[340] == row  # equal calls are one row
    assert row.path_ns == 100_000


def test_the_whole_window_is_divided_and_all_gpu_time_is_known_or_not(tmp_path: Path) -> None:
    tables = asked(tmp_path).tables
    parts = tables["losses"].set_index("part")["time_ns"]
    assert parts.sum() == 340_000 == tables["limits"]["window_ns"].item()
    assert parts["matrix_at_peak"] == round((BIG + THIN) / 312e12 * 1e9)
    assert parts["matrix_bound_by_memory"] == pytest.approx((THIN_BYTES / 1_555e9 - THIN / 312e12) * 1e9, abs=1)
    assert parts["matrix_at_peak"] + parts["matrix_bound_by_memory"] + parts["matrix_below_limit"] == 300_000
    assert parts["other_at_limit"] + parts["other_below_limit"] == 20_000
    assert (parts["without_model"], parts["exposed_copies"]) == (10_000, 10_000)
    assert tables["known_time"].set_index("known")["gpu_ns"].to_dict() == {
        "yes": 320_000, "no model": 10_000, "a copy from or to outside": 10_000,
    }  # fmt: skip
    assert tables["limits"]["mfu_share"].item() == pytest.approx((BIG + THIN) / 312e12 / 340e-6)


def test_a_step_that_holds_part_of_a_call_holds_that_part_of_its_work(tmp_path: Path) -> None:
    graph = drawn().graph(tmp_path)
    start = graph.trace.events.start.min()
    first_half = hg.between(int(start) + 10_000, int(start) + 60_000)
    from analyses.declare.scope import in_window

    limits = roofline.answer([in_window(0, graph, first_half)]).tables["limits"]
    assert limits["matrix_flops"].item() == pytest.approx(BIG / 2, rel=1e-6)


def test_an_unknown_device_leaves_rates_alone_and_says_how_to_give_peaks(tmp_path: Path) -> None:
    found = asked(tmp_path, drawn(deviceProperties=[{"id": 0, "name": "Accelerator 9"}]))
    rows = found.tables["roofline"]
    assert rows["achieved_tflops"].notna().sum() == 3
    assert rows[["peak_share", "bound", "saves_ns"]].isna().all().all()
    assert found.notes[-1] == (
        "rank 0: the peaks of Accelerator 9 are unknown, so rates are shown without limits; pass peaks=FILE or a "
        "device name"
    )
    extent = "first to last GPU activity, 340.0 µs of the 350.0 µs trace"
    assert found.conclusion == [f"{extent}: largest part of the window: matrix work with no known limit, 88%"]


def test_given_peaks_count_instead_of_the_device_that_the_trace_names(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(
        '{"name": "mine", "matrix_tflops": {"half": 1000}, "vector_tflops": {"float": 10}, "memory_gb_per_s": 3000}'
    )
    found = asked(tmp_path, peaks=str(file))
    assert found.tables["limits"]["device"].item() == "mine"
    assert by_kernel(found)[100].peak_share == pytest.approx(BIG / 1000e12 / 100e-6)
    with pytest.raises(UsageError, match=r"none\.json"):
        asked(tmp_path, peaks="none.json")


def test_without_shapes_it_is_said_how_to_record_them(tmp_path: Path) -> None:
    trace = drawn()
    for row in trace.rows:
        row["args"].pop("Input Dims", None)
    found = asked(tmp_path, trace)
    assert (
        found.notes[0] == "rank 0: no shapes recorded, so FLOPs and bytes are unknown; record with record_shapes=True"
    )
    assert set(found.tables["known_time"]["known"]) == {"not recorded", "no model", "a copy from or to outside"}


def test_kernels_of_a_captured_graph_have_their_own_names_and_not_the_inputs_around_the_launch(tmp_path: Path) -> None:
    trace = TraceBuilder(**A100)
    trace.op("aten::mm", 0, 8, **shaped((HALF, [64, 64]), (HALF, [64, 64])))
    trace.call("cudaGraphLaunch", 2, 6, 1)
    trace.kernel("triton_poi_fused_add_mul_3", 10, 20, 1)
    trace.kernel("gemm", 20, 30, 1)
    rows = asked(tmp_path, trace).tables["roofline"].set_index("operator")
    assert rows.loc["triton_poi_fused_add_mul_3", "inputs"] == "fuses add, mul"
    assert set(rows["unknown"]) == {"no operator"}


def test_a_file_that_is_gone_still_gives_the_time_that_is_not_known(tmp_path: Path) -> None:
    graph = drawn().graph(tmp_path)
    (tmp_path / "trace.json").unlink()
    found = roofline.answer([whole(0, graph)])
    assert found.tables["known_time"]["gpu_ns"].sum() == 340_000
    assert "cannot be read" in found.notes[0]


def test_the_conclusion_names_the_use_of_the_peak_and_what_has_most_to_gain(tmp_path: Path) -> None:
    use, gain = asked(tmp_path).conclusion
    assert re.match(
        r"first to last GPU activity, [\d.]+ µs of the [\d.]+ µs trace: MFU 17% over the window \(peak of A100", use
    )
    assert gain.startswith("largest operator at 80% of its limit: aten::mm (half[8192×4, 4×8192]), saves ")
    assert gain.endswith("; it reaches 43% of its memory bandwidth limit")


@pytest.mark.parametrize(("us", "said"), [(5, "MFU 19%"), (60, "MFU at least 16%"), (900, None)])
def test_the_less_is_known_the_less_is_said_of_the_peak(us: float, said: str | None, tmp_path: Path) -> None:
    trace = drawn()
    trace.rows = trace.rows[:6]
    trace.op("mine::odd", 40, 48, **shaped((HALF, [4])))
    trace.launch("odd", (42, 46), (310, 310 + us), 5)
    use = [text for text in asked(tmp_path, trace).conclusion if "MFU" in text]
    assert [said in text for text in use] == ([True] if said else [])


def test_shapes_that_no_gpu_could_multiply_end_in_no_error_and_no_claim(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = TraceBuilder(**A100)
    for at in range(30):
        trace.op("aten::mm", 20 * at, 20 * at + 8, **shaped((HALF, [1 << 20, 1 << 20]), (HALF, [1 << 20, 1 << 20])))
        trace.launch("gemm", (20 * at + 2, 20 * at + 6), (20 * at + 8, 20 * at + 18), at + 1)
    found = command_json(capsys, "roofline", trace.write(tmp_path / "trace.json"), "--json", "-")
    assert found["tables"]["limits"][0]["matrix_flops"] is None
    assert "of the peak" not in found["conclusion"]


def test_time_in_which_several_run_belongs_to_matrix_work_then_to_what_is_known(tmp_path: Path) -> None:
    """A product from 10 to 110 µs, an addition beside it from 60 to 160, what is not known from 150 to 180."""
    trace = TraceBuilder(**A100)
    trace.op("aten::mm", 0, 8, **shaped((HALF, [2048, 2048]), (HALF, [2048, 2048])))
    trace.launch("gemm", (2, 6), (10, 110), 1)
    trace.op("aten::add", 10, 18, **shaped((HALF, [4_000_000]), (HALF, [4_000_000]), ("Scalar", [])))
    trace.launch("add", (12, 16), (60, 160), 2, stream=20)
    trace.op("mine::odd", 20, 28, **shaped((HALF, [4])))
    trace.launch("odd", (22, 26), (150, 180), 3, stream=24)
    parts = asked(tmp_path, trace).tables["losses"].set_index("part")["time_ns"]
    assert parts.filter(like="matrix_").sum() == 100_000
    assert parts.filter(like="other_").sum() == 50_000
    assert parts["without_model"] == 20_000


def test_a_graph_is_asked_about_one_device_after_the_other(tmp_path: Path) -> None:
    scope = whole(0, drawn().graph(tmp_path))
    shares = [
        by_kernel(roofline.answer([scope], peaks=name))[100].peak_share for name in ("H100 SXM", "V100 SXM2", None)
    ]
    assert shares == pytest.approx([BIG / peak / 100e-6 for peak in (989.4e12, 125e12, 312e12)])


def test_every_step_has_its_own_row(tmp_path: Path) -> None:
    trace = drawn()
    trace.annotation("ProfilerStep#1", 0, 20)
    trace.annotation("ProfilerStep#2", 20, 400)
    found = roofline.answer(per_step(0, trace.graph(tmp_path)))
    assert found.tables["limits"]["scope"].tolist() == ["ProfilerStep#1", "ProfilerStep#2"]
    assert found.tables["limits"]["matrix_flops"].tolist()[0] == BIG + THIN


def test_json_has_every_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = drawn().write(tmp_path / "trace.json")
    found = command_json(capsys, "roofline", path, "--json", "-")
    assert list(found["tables"]) == ["roofline", "limits", "losses", "known_time", "collective_rates", "demands"]
    demand = found["tables"]["demands"][0]
    assert (demand["flops"], demand["bytes"], demand["unit"]) == (THIN, THIN_BYTES, "matrix")
    assert "give a device name" in one_error(
        capsys, tmp_path, "roofline", path, "--peaks", tmp_path / "no.json", status=2
    )


def test_the_figure_has_a_roof_for_each_type_and_a_point_for_each_row(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    found = asked(tmp_path)
    figure = roofline.figure(found)
    names = [trace.name for trace in figure.data]
    assert names == ["limit: half, matrix units", "limit: half, vector units", "aten::mm", "aten::add"]
    roof = figure.data[0]
    assert max(roof.y) == pytest.approx(312)
    # Below the ridge the roof is the memory's: what it carries in a second by intensity.
    assert roof.y[0] == pytest.approx(roof.x[0] * 1_555e9 / 1e12)
    points = np.concatenate([trace.y for trace in figure.data[2:]])
    assert len(points) == 3


def test_the_flag_is_the_argument() -> None:
    (flag,) = roofline.ANALYSIS.flags
    assert flag.default is None
