"""Advice names what one can do: not the model itself, not what happens once, not a wrapper, not another pause."""

from __future__ import annotations

from pathlib import Path

import pytest

import hta_graph as hg
from analyses.declare.scope import whole
from analyses.questions.idle_time import idle_waits
from tests.support.judged import advice
from tests.support.trace_builder import TraceBuilder

CALL_IMPL = "torch/nn/modules/module.py(1779): _call_impl"
NO_GRAD = "torch/utils/_contextlib.py(116): decorate_context"


def in_frames(*frames: str, launches: bool = True, count: int = 20) -> TraceBuilder:
    """Frames around each other, the innermost of which works for 80 µs; it launches a kernel, or who calls it does."""
    trace = TraceBuilder()
    for number in range(count):
        at = 100.0 * number
        for depth, frame in enumerate(frames):
            trace.frame(frame, at + depth / 100, at + (95 if launches else 80) - depth / 100)
        trace.op("aten::add", at + 84, at + 90)
        trace.launch("kernel", (at + 85, at + 88), (at + 91, at + 95), number + 1)
    return trace


@pytest.mark.parametrize(
    ("frame", "launches", "moves"),
    [
        ("llama.py(374): forward", True, False),
        ("llama.py(374): forward", False, False),
        ("train.py(90): iterate", True, False),
        ("data.py(12): transform", False, True),
    ],
)
def test_what_launches_the_work_is_not_moved_out_of_the_loop(
    frame: str, launches: bool, moves: bool, tmp_path: Path
) -> None:
    action = advice(in_frames(frame, launches=launches).graph(tmp_path))["python_bound"].action
    assert action.startswith("Move " if moves else "Run less Python between operators, first in ")
    assert frame in action


@pytest.mark.parametrize("wrapper", [CALL_IMPL, NO_GRAD, "contextlib.py(79): inner", "ops.py(8): launch_wrapper"])
def test_a_wrapper_is_no_cause(wrapper: str, tmp_path: Path) -> None:
    """Its time is that of what it wraps: the frame around it, since what it calls has time of its own."""
    graph = in_frames("model.py(9): embed", wrapper).graph(tmp_path)
    found = advice(graph)["python_bound"]
    assert "model.py(9): embed" in found.action
    assert all("model.py(9): embed" in text for text in (found.text, str(found.evidence["largest"])))
    waits = idle_waits([whole(0, graph)])
    assert wrapper not in waits["name"].tolist()


def test_the_longest_pause_is_named_with_its_own_place(tmp_path: Path) -> None:
    """A longer gap between launches is a driver call, which is no pause of the host."""
    trace = TraceBuilder()
    for number, at in enumerate((0.0, 3_400.0, 4_500.0, 6_600.0)):
        trace.op(f"aten::op_{number}", at, at + 10)
        trace.launch("gemm", (at + 2, at + 6), (at + 8, at + 40), number + 1)
    trace.call("cuMemExportToShareableHandle", 50, 3_390)
    found = advice(trace.graph(tmp_path))["host_pauses"]
    assert 2_000_000 < found.evidence["longest_ns"] < 2_200_000
    assert "the longest before aten::op_3" in found.text


@pytest.mark.parametrize("captures", [True, False])
def test_graphs_are_not_advised_where_one_is_captured(captures: bool, tmp_path: Path) -> None:
    trace = TraceBuilder()
    if captures:
        trace.call("hipStreamBeginCapture", 0, 1)
        trace.call("hipStreamEndCapture", 1_605, 1_606)
    for number in range(80):
        at = 20.0 * number + 2
        trace.op("aten::add", at, at + 19)
        trace.launch("kernel", (at + 1, at + 5), (at + 8, at + 12), number + 1)
    graph = trace.graph(tmp_path)
    found = advice(graph)
    assert ("launch_bound" in found) is not captures
    assert ("nothing_suggested" in found and "A graph is captured" in found["nothing_suggested"].text) is captures
    share = hg.replay(graph, [hg.scenario("cuda_graphs")]).saved_ns / hg.critical_path(graph, hg.whole()).length_ns
    assert (share < 0.05) is captures


@pytest.mark.parametrize("compiles", [True, False])
def test_a_pause_in_which_code_is_compiled_is_not_to_be_shortened(compiles: bool, tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 5), (10, 500), 1)
    trace.frame("train.py(3): step", 0, 3_200)
    name = "torch/_dynamo/convert_frame.py(1100): _compile" if compiles else "train.py(9): log"
    trace.frame(name, 100, 3_100)
    trace.launch("gemm", (3_200, 3_205), (3_210, 3_700), 2)
    found = advice(trace.graph(tmp_path))
    assert ("host_pauses" in found) is not compiles
    assert ("compilation" in found) is compiles
