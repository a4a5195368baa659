"""Attribution: GPU time per operator, frame, module and annotation; own times sum to all, what is unknown is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analyses.cli.main import main
from analyses.declare.answer import answer_document
from analyses.declare.scope import per_step, whole
from analyses.questions import catalogue
from analyses.questions.attribution import BY, activity_owners, answer, attribution, figure
from hta_graph.base.errors import UsageError
from tests.support.golden_graphs import graphs
from tests.support.trace_builder import TraceBuilder


def build(tmp_path: Path) -> TraceBuilder:
    trace = TraceBuilder()
    trace.annotation("step", 0, 60)
    trace.frame("nn.Module: Net_0", 1, 40)
    trace.frame("nn.Module: Linear_0", 2, 10)
    trace.frame("<built-in method linear of type object at 0x7ff>", 3, 9)
    trace.op("aten::linear", 4, 9)
    trace.op("aten::addmm", 5, 8)
    trace.launch("gemm", (6, 7), (10, 20), 1)
    trace.frame("nn.Module: Linear_1", 11, 20)
    trace.frame("<built-in method linear of type object at 0x800>", 12, 19)
    trace.op("aten::linear", 13, 19)
    trace.launch("gemm", (14, 15), (20, 25), 2)
    trace.kernel("early", 0, 3, 99)
    trace.launch("raw", (45, 46), (50, 57), 3)
    return trace


def table(frame: object) -> dict[str, tuple[int, ...]]:
    columns = ["instances", "activities", "gpu_self_ns", "gpu_total_ns"]
    return {row.name: tuple(int(getattr(row, column)) for column in columns) for row in frame.itertuples()}  # type: ignore[attr-defined]


def test_operators_have_their_own_work_and_that_of_operators_inside(tmp_path: Path) -> None:
    frame = attribution([whole(0, build(tmp_path).graph(tmp_path))])
    assert table(frame) == {
        "aten::addmm": (1, 1, 10_000, 10_000),
        "(unknown)": (0, 2, 10_000, 10_000),
        "aten::linear": (2, 2, 5_000, 15_000),
    }
    assert list(frame["gpu_self_share"]) == [0.4, 0.4, 0.2]
    assert list(frame["gpu_total_share"]) == [0.4, 0.4, 0.6]


def test_modules_of_one_class_and_frames_that_differ_by_an_address_are_one(tmp_path: Path) -> None:
    scope = whole(0, build(tmp_path).graph(tmp_path))
    assert table(attribution([scope], "module")) == {
        "nn.Module: Linear_0": (1, 1, 10_000, 10_000),
        "(unknown)": (0, 2, 10_000, 10_000),
        "nn.Module: Linear_1": (1, 1, 5_000, 5_000),
        "nn.Module: Net_0": (1, 2, 0, 15_000),
    }
    assert table(attribution([scope], "module-class"))["nn.Module: Linear"] == (2, 2, 15_000, 15_000)
    assert table(attribution([scope], "frame"))["<built-in method linear of type object>"] == (2, 2, 15_000, 15_000)


def test_what_is_unknown_is_said_with_its_reason(tmp_path: Path) -> None:
    graph = build(tmp_path).graph(tmp_path)
    notes = answer([whole(0, graph)], "module").notes
    before, outside = (note.removeprefix("rank 0, whole trace: 1 of 4 GPU activities ") for note in notes)
    assert before == "(0.003 ms) not attributed: no launch call in the trace (launched before recording started)"
    assert outside == "(0.007 ms) not attributed: launched while no module was open"
    bare = TraceBuilder()
    bare.launch("k", (0, 1), (2, 3), 1)
    assert answer([whole(0, bare.graph(tmp_path))], "frame").notes[0].endswith("record with with_stack=True")


def test_every_activity_is_listed_with_its_owners(tmp_path: Path) -> None:
    frame = activity_owners([whole(0, build(tmp_path).graph(tmp_path))])
    longest = frame.iloc[0]
    assert (longest["name"], longest["operator"], longest["module"]) == ("gemm", "aten::addmm", "nn.Module: Linear_0")
    assert longest["annotation"] == "step"
    early = frame[frame["name"] == "early"].iloc[0]
    assert early[["call", "operator", "frame", "module", "annotation"]].isna().all()
    found = answer([whole(0, build(tmp_path).graph(tmp_path))], "activity")
    document = json.loads(json.dumps(answer_document("attribution", found, []), default=int))
    assert document["tables"]["gpu_time_by_activity"][-1]["call_index"] is None


def test_no_gpu_work_is_a_sentence_and_a_picture_without_bars(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::add", 0, 5)
    for by in BY:
        found = answer([whole(0, trace.graph(tmp_path))], by)
        assert not len(found.main)
        assert {"rank", "scope", "name"} <= set(found.main.columns)
        assert "no GPU activity" in found.notes[0]
        assert not figure(found).data
    assert list(attribution([]).columns) == list(attribution([whole(0, trace.graph(tmp_path))]).columns)


def test_the_figure_has_a_bar_for_own_and_for_total_times(tmp_path: Path) -> None:
    made = figure(answer([whole(0, build(tmp_path).graph(tmp_path))]))
    assert [list(bar.x) for bar in made.data] == [[0.005, 0.01, 0.01], [0.015, 0.01, 0.01]]
    found = answer([whole(0, build(tmp_path).graph(tmp_path))], "activity")
    assert figure(found).layout.annotations[0].text == "pass by='operator', …"
    assert figure(found.on_command_line()).layout.annotations[0].text == "use --by operator, …"


def test_the_command_offers_what_the_analysis_knows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (flag,) = catalogue.analysis("attribution").flags
    assert [flag.read(by) for by in BY] == list(BY)
    path = str(build(tmp_path).write(tmp_path / "t.json"))
    assert main(["attribution", path, "--by", "module-class"]) == 0
    assert "Linear" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        main(["attribution", path, "--by", "colour"])
    assert stopped.value.code == 2
    with pytest.raises(UsageError, match="colour"):
        attribution([], "colour")


@pytest.mark.shared
@pytest.mark.parametrize(
    "name", ["nccl_args_a100", "nanogpt_ddp_8xh100", "oldest_format_array", "vllm_hipgraph_mi300x"]
)
def test_own_times_sum_to_all_in_every_step(name: str) -> None:
    rank, graph = next(iter(graphs(name).items()))
    scopes = [whole(rank, graph), *(per_step(rank, graph) if graph.trace.steps() else [])]
    for by in BY[:-1]:
        sums = attribution(scopes, by).groupby("scope")["gpu_self_ns"].sum()
        for scope in scopes:
            assert sums[scope.label] == (scope.work.end - scope.work.start).sum()


@pytest.mark.shared
@pytest.mark.slow
def test_a_model_recorded_with_stacks_is_told_by_its_modules() -> None:
    graph = graphs("owlv2_pystack_h100")[0]
    frame = attribution([whole(0, graph)], "module-class").set_index("name")
    assert frame.index[0] == "nn.Module: Owlv2Attention"
    assert frame.loc["nn.Module: Owlv2Attention", "activities"] == 2_760
    assert frame.loc["(unknown)", "gpu_self_share"] < 0.03


def test_it_concludes_who_has_most_gpu_time_and_how_much_is_nobodys(tmp_path: Path) -> None:
    scope = whole(0, build(tmp_path).graph(tmp_path))
    # gemm 10 and 5 µs, raw 7, early 3: 10 of 25 are nobody's, the rest of addmm and of the second linear.
    said = "operator aten::addmm has the most self GPU time: 10.0 µs, 40% of all GPU work; 40% belongs to no operator"
    assert answer([scope]).conclusion == [f"GPU idle 56% of the time (see idle-time); {said}"]
    assert answer([scope], "activity").conclusion == []


def annotated_graphs(**said: str | dict[str, str]) -> TraceBuilder:
    """Launch a graph of three kernels in two steps; the first two say where they belong, the copy says nothing."""
    trace = TraceBuilder()
    for step, at in enumerate((0, 100)):
        trace.annotation(f"ProfilerStep#{step}", at, at + 90)
        trace.call("cudaGraphLaunch", at + 1, at + 5, step + 1)
        for number in range(2):
            row = trace.kernel("k", at + 10 + 10 * number, at + 20 + 10 * number, step + 1)
            trace.rows[row]["args"] |= said
        trace.copy("Memcpy DtoD (Device -> Device)", at + 30, at + 35, step + 1)
    return trace


@pytest.mark.parametrize("said", [{"module_fqn": "layers.7.mlp"}, {"module_fqn": {"str": "layers.7.mlp"}}])
def test_kernels_of_graphs_belong_to_the_modules_recorded_on_them(said: dict[str, str], tmp_path: Path) -> None:
    scope = whole(0, annotated_graphs(**said).graph(tmp_path))
    expected = {"layers.7.mlp": (2, 4, 40_000, 40_000), "(unknown)": (0, 2, 10_000, 10_000)}
    assert table(attribution([scope], "module")) == expected
    assert set(table(attribution([scope], "module-class"))) == {"layers.#.mlp", "(unknown)"}
    assert activity_owners([scope])["module"].value_counts().to_dict() == {"layers.7.mlp": 4}


def test_a_recorded_annotation_is_inside_those_around_the_launch(tmp_path: Path) -> None:
    trace = annotated_graphs(**{"name": "attention", "graph node id": "12"})
    assert table(attribution([whole(0, trace.graph(tmp_path))], "annotation")) == {
        "attention": (2, 4, 40_000, 40_000),
        "ProfilerStep#0": (1, 3, 5_000, 25_000),
        "ProfilerStep#1": (1, 3, 5_000, 25_000),
    }


def test_recorded_modules_leave_no_note_on_what_is_missing(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.call("cudaGraphLaunch", 1, 5, 1)
    trace.kernel("k", 10, 20, 1, module_fqn="layers.0")
    assert answer([whole(0, trace.graph(tmp_path))], "module").notes == []
