"""Kernel sequences: the outermost rows of a name own what they launch; equal to HTA where HTA does not lose rows."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hta_graph as hg
from analyses.cli.main import main
from analyses.declare.scope import in_window, whole
from analyses.hta.frame import hta_scopes
from analyses.hta.queues_and_launches import hta_frequent_cuda_kernel_sequences
from analyses.questions.kernel_sequences import answer, figure, kernel_sequences
from hta_graph.base.errors import OutputError
from hta_graph.paths.windows import between
from tests.browser.perfetto_ui import PerfettoUI, ask, missing
from tests.simulator import Dialect, random_program, simulate, to_bytes, write
from tests.support.deep_tests import deep
from tests.support.golden_graphs import NANOSECONDS, graphs
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import TraceBuilder

ERRORS = "select name, sum(value) from stats where severity in ('error', 'data_loss') and value > 0 group by name"
MARKS = """
select thread.name, count(*), sum(dur) from slice s join thread_track t on t.id = s.track_id
join thread using (utid) join process using (upid) where process.name = 'Kernel sequences' group by 1 order by 1"""
COLUMNS = ["operator", "count", "kernels", "gpu_ns", "operator_ns", "kernel_sequence"]


def layers() -> TraceBuilder:
    """A shallow linear, two deeper ones, one inside another linear, and a GPU annotation of the same name."""
    trace = TraceBuilder()
    corr = 0

    def linear(start: float, names: tuple[str, ...], *, tid: int = 1) -> None:
        nonlocal corr
        trace.op("aten::linear", start, start + 10, tid=tid)
        for at, name in enumerate(names):
            corr += 1
            call, run = start + 1 + at, start + 50 + 3 * at
            trace.launch(name, (call, call + 0.5), (run, run + 2), corr, tid=tid)

    linear(0, ("a", "b", "c"))
    trace.op("module", 100, 200)
    linear(110, ("a", "b", "c"))
    linear(130, ("a", "c", "b"))
    trace.op("aten::linear", 150, 190)
    linear(160, ("a", "b", "c"))
    linear(220, ("a",), tid=2)
    trace.row(ph="X", cat="gpu_user_annotation", name="aten::linear", pid=0, tid=7, ts=40, dur=300, args={"stream": 7})
    return trace


def test_the_outermost_rows_of_a_name_own_what_they_launch(tmp_path: Path) -> None:
    frame = kernel_sequences([whole(0, layers().graph(tmp_path))], "linear")
    assert frame[COLUMNS].to_numpy().tolist() == [
        ["aten::linear", 3, 3, 18_000, 60_000, "a → b → c"],
        ["aten::linear", 1, 3, 6_000, 10_000, "a → c → b"],
    ]
    short = kernel_sequences([whole(0, layers().graph(tmp_path))], "linear", 1)
    assert short[["count", "kernel_sequence"]].to_numpy().tolist() == [[3, "a → b → c"], [1, "a → c → b"], [1, "a"]]


def test_annotations_and_python_frames_own_work_too(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.annotation("Optimizer.step#Adam.step", 0, 20)
    trace.frame("nn.Module: Linear_0", 30, 40)
    trace.launch("k", (5, 6), (7, 8), 1)
    trace.launch("k", (35, 36), (37, 38), 2)
    scope = whole(0, trace.graph(tmp_path))
    assert kernel_sequences([scope], "Optimizer", 1)["operator_ns"].tolist() == [20_000]
    assert kernel_sequences([scope], "nn.Module", 1)["gpu_ns"].tolist() == [1_000]


def test_sequences_follow_the_starts_of_the_work(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 20)
    trace.launch("launched first", (1, 2), (30, 31), 1)
    trace.launch("starts first", (3, 4), (10, 11), 2, stream=9)
    frame = kernel_sequences([whole(0, trace.graph(tmp_path))], "aten::mm", 2)
    assert frame["kernel_sequence"].tolist() == ["starts first → launched first"]


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    graph = layers().graph(tmp_path)
    found = answer([whole(0, graph)], "conv")
    assert found.main.empty
    assert "kernel_sequence" in found.main
    assert found.notes == ["rank 0: no name in the trace contains 'conv'"]
    short = answer([whole(0, graph)], "linear", 9)
    assert short.notes[0].endswith("; pass a smaller min_pattern_len to include shorter sequences")
    assert short.on_command_line().notes[0].endswith("; use a smaller --min-pattern-len to include shorter sequences")
    later = in_window(0, graph, between(110_000, 112_000))
    assert "choose another window" in answer([later], "linear").notes[0]
    assert not figure(found).data
    assert kernel_sequences([], "linear").empty
    assert hta_frequent_cuda_kernel_sequences(
        whole(0, graph), "conv", output_dir=None, min_pattern_len=3, top_k=5, visualize=False
    ).empty


def test_a_figure_draws_the_counts(tmp_path: Path) -> None:
    (bars,) = figure(answer([whole(0, layers().graph(tmp_path))], "linear", 1)).data
    assert bars.x.tolist() == [3, 1, 1]


def test_hta_shape_and_no_file_unless_asked(tmp_path: Path) -> None:
    graph = layers().graph(tmp_path)
    frame = hta_frequent_cuda_kernel_sequences(
        whole(0, graph), "linear", visualize=True, output_dir=None, min_pattern_len=3, top_k=5
    )
    assert frame.to_dict("list") == {
        "pattern": ["aten::linear|a|b|c", "aten::linear|a|c|b"],
        "count": [3, 1],
        "GPU kernel duration (us)": [18.0, 6.0],
        "CPU op duration (us)": [60.0, 10.0],
    }
    assert [item.name for item in tmp_path.iterdir()] == ["trace.json"]


def written(path: Path) -> list[dict[str, Any]]:
    content = path.read_bytes()
    rows: list[dict[str, Any]] = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)[
        "traceEvents"
    ]
    return rows


def test_an_overlay_leaves_the_rows_and_marks_the_top_patterns(tmp_path: Path) -> None:
    trace = layers()
    graph = hg.build_graph(hg.read_trace(trace.write(tmp_path / "rank0.json.gz")))
    (tmp_path / "out").mkdir()
    hta_frequent_cuda_kernel_sequences(
        whole(0, graph), "linear", tmp_path / "out", top_k=1, min_pattern_len=3, visualize=False
    )
    rows = written(tmp_path / "out" / "overlaid_rank0.json.gz")
    assert rows[: len(trace.rows)] == trace.rows
    added = rows[len(trace.rows) :]
    names = {row["args"]["name"]: row for row in added if row["ph"] == "M" and "name" in row["args"]}
    assert set(names) == {"Kernel sequences", "thread 100:1", "stream 0:1:7"}
    marks = [row for row in added if row["ph"] == "B"]
    assert [(row["ts"], row["args"]) for row in marks if row["tid"] == names["thread 100:1"]["tid"]] == [
        (start, {"Patterns": {"aten::linear|a|b|c": 3}}) for start in (0, 110, 150)
    ]
    kernels = [row for row in marks if row["tid"] == names["stream 0:1:7"]["tid"]]
    assert [row["name"] for row in kernels] == ["#1 a", "#1 b", "#1 c"] * 3
    assert len(marks) == sum(row["ph"] == "E" for row in added) == 12
    with pytest.raises(OutputError, match="does not exist"):
        hta_frequent_cuda_kernel_sequences(
            whole(0, graph), "linear", tmp_path / "nowhere", min_pattern_len=3, top_k=5, visualize=False
        )


def test_slices_of_a_track_never_overlap(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 20)
    trace.launch("early", (1, 2), (30, 41), 1)
    trace.launch("overlaps", (3, 4), (40, 50), 2)
    trace.launch("vanishes", (5, 6), (60, 60), 3)
    graph = trace.graph(tmp_path)
    hta_frequent_cuda_kernel_sequences(
        whole(0, graph), "aten::mm", tmp_path, min_pattern_len=3, top_k=5, visualize=False
    )
    rows = [row for row in written(tmp_path / "overlaid_trace.json")[len(trace.rows) :] if row["tid"] == 2]
    times = [(row["ph"], row["ts"]) for row in rows if row["ph"] != "M"]
    assert times == [("B", 30), ("E", 40), ("B", 40), ("E", 50), ("i", 60)]


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=f"the sequences' browser test needs {missing()}")
def test_every_mark_arrives_in_perfetto(tmp_path: Path) -> None:
    graph = layers().graph(tmp_path)
    hta_frequent_cuda_kernel_sequences(whole(0, graph), "linear", tmp_path, min_pattern_len=3, top_k=5, visualize=False)
    with PerfettoUI() as ui, ui.open((tmp_path / "overlaid_trace.json").read_bytes()) as page:
        assert ask(page, ERRORS) == []
        found = [(name, int(count), int(length)) for name, count, length in ask(page, MARKS)]
    assert found == [("stream 0:1:7", 12, 24_000), ("thread 100:1", 4, 70_000)]


def test_the_command_prints_and_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = layers().write(tmp_path / "t.json")
    target = tmp_path / "marked.json"
    assert main(["kernel-sequences", str(source), "--operator", "linear", "--overlay", str(target)]) == 0
    shown = capsys.readouterr()
    assert "a → b → c" in shown.out
    assert shown.err == f"{target}: 16 marks; open it at ui.perfetto.dev\n"
    assert len(written(target)) > len(written(source))
    assert main(["kernel-sequences", str(source), "--operator", "linear", "--overlay", str(source)]) == 1
    both = [str(source), str(tmp_path / "u.json")]
    layers().write(tmp_path / "u.json")
    assert main(["kernel-sequences", *both, "--operator", "linear", "--overlay", str(tmp_path / "v.json")]) == 2
    assert "one window of one rank" in capsys.readouterr().err


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [*range(4), *map(deep, range(4, 10))])
def test_all_launches_of_a_thread_that_one_row_encloses_are_its_own(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(to_bytes(write(simulate(random_program(seed, "pytorch", 300)), Dialect()).document))
    scope = whole(0, hg.build_graph(hg.read_trace(path)))
    frame = kernel_sequences([scope], "", 1)
    assert (frame["count"] * frame["kernels"]).sum() <= len(scope.work)
    assert frame["gpu_ns"].sum() <= (scope.work.end - scope.work.start).sum()


EXACT = (
    "ddp_v100", "dlrm_8xv100", "execution_trace_sample", "ns_resolution_v100", "nccl_args_a100", "owlv2_pystack_h100",
)  # fmt: skip
OPERATORS = ("aten_addmm", "aten_conv2d", "aten_linear", "aten__foreach_add_", "autograd_engine_evaluate_function")


def both(name: str, method: str) -> tuple[list[list[Any]], list[list[Any]]] | None:
    """Return the rows here and HTA's, which are without its rounding; None where it fails."""
    kind = f"{name}__ns_rounding_off" if name in NANOSECONDS else name
    golden = json.loads((SHARED / "golden" / kind / f"get_frequent_cuda_kernel_sequences__{method}.json").read_text())
    if "result" not in golden:
        return None
    args = golden["args"]
    scope = next(scope for scope in hta_scopes(graphs(name)) if scope.rank == args["rank"])
    least = args.get("min_pattern_len", 3)
    own = hta_frequent_cuda_kernel_sequences(
        scope, args["operator_name"], min_pattern_len=least, output_dir=None, top_k=5, visualize=False
    )
    return own.to_numpy().tolist(), [row[-4:] for row in golden["result"].get("rows", [])]


@pytest.fixture(scope="module", params=EXACT)
def name(request: pytest.FixtureRequest) -> str:
    """All tests of one trace together, so that it is read once."""
    return str(request.param)


@pytest.mark.shared
def test_hta_is_met_where_all_rows_have_one_depth(name: str) -> None:
    answers = [found for method in OPERATORS if (found := both(name, method))]
    for own, theirs in answers:
        assert [row[:2] for row in own] == [row[:2] for row in theirs]
        times = [np.array([row[2:] for row in rows], float) for rows in (own, theirs)]
        assert np.allclose(*times, rtol=1e-6, atol=0.05 if name in NANOSECONDS else 0)
    assert len(answers) == (4 if name == "ddp_v100" else 5), "HTA did not answer on autograd names of ddp_v100"


@pytest.mark.shared
def test_hta_keeps_rows_of_the_least_depth_only(name: str) -> None:
    found = both(name, "all_aten_len1")
    assert found
    counts = {row[0]: row[1] for row in found[0]}
    assert all(counts[pattern] >= count for pattern, count, *_ in found[1])
    assert sum(counts.values()) > sum(row[1] for row in found[1])


@pytest.mark.shared
def test_hta_counts_synchronisation_records_as_kernels() -> None:
    found = both("sync_alexnet_a100", "aten_conv2d")
    assert found
    theirs: Counter[str] = Counter()
    for pattern, count, *_ in found[1]:
        theirs["|".join(part for part in pattern.split("|") if not part.startswith(("Stream ", "Event ")))] += count
    assert theirs == {row[0]: row[1] for row in found[0]}


@pytest.mark.shared
@pytest.mark.parametrize(("trace", "hidden"), [("ddp_v100", False), ("dlrm_8xv100", False), ("nccl_args_a100", True)])
def test_hta_sees_nothing_where_a_gpu_annotation_has_the_name(trace: str, hidden: bool) -> None:
    found = both(trace, "Optimizer_step")
    assert found
    assert (found[1] == []) == hidden
    assert len(found[0]) == 1
    assert hidden or found[0] == found[1]
