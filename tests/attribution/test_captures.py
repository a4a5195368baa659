"""Kernels of replays get the operators, modules and shapes of their capture; captures are known by their content."""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hta_graph as hg
from analyses.report.timeline import scene_of
from hta_graph import DependencyGraph
from hta_graph.attribution.captures import find_captures, replayed_rows, with_captures
from hta_graph.attribution.graph_kernels import (
    EDITS,
    POSITION,
    QUEUES,
    UNCHECKED,
    calls_with_owners,
    graph_kernels,
    row_names,
)
from hta_graph.attribution.owners import owners
from hta_graph.base.errors import TraceError
from hta_graph.graph.job_graph import full_rank_graphs
from hta_graph.multi_rank.read_options import ReadOptions
from hta_graph.multi_rank.summary.summarize import SummaryRequest
from hta_graph.multi_rank.summary_job import SummaryJobReader
from tests.support.captured_programs import PROGRAMS, Kernel, captured, program, replayed
from tests.support.command_line import command_json, one_error, run_command
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import TraceBuilder

SERVING = SHARED / "serving"
PAIRS = {"vllm_decode_full": 12, "vllm_prefilldecode_piecewise": 10, "sglang": 13, "xdit_flux.1_aiter_sage": 44}
"""The pairs, and how many operators and module classes their graphs have."""


def written(path: Path, trace: TraceBuilder) -> Path:
    path.parent.mkdir(exist_ok=True)
    return trace.write(path)


def named_graph(tmp_path: Path, capture: TraceBuilder, replay: TraceBuilder) -> DependencyGraph:
    graph = hg.build_graph(str(written(tmp_path / "replay.json", replay)))
    return with_captures(graph, [written(tmp_path / "capture.json", capture)])


def names_around(graph: DependencyGraph, kind: str, rows: Any) -> list[str]:
    """Return the names of the owners of activities."""
    codes, texts = row_names(graph)
    calls = calls_with_owners(graph, kind, rows, graph.launching_call[rows])
    return [texts[codes[row]] if row >= 0 else "" for row in owners(graph, kind).innermost(calls).tolist()]


def all_replayed(graph: DependencyGraph) -> Any:
    return np.concatenate([*replayed_rows(graph).values()])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", PROGRAMS)
def test_every_kernel_gets_its_operator_and_module(tmp_path: Path, kind: str) -> None:
    kernels = program(kind, layers=4)
    graph = named_graph(tmp_path, captured([("capture_32_FULL", kernels)]), replayed([("step", [kernels, kernels])]))
    rows = all_replayed(graph)
    assert names_around(graph, "operator", rows) == [kernel.operator for kernel in kernels] * 2
    assert names_around(graph, "module", rows) == [f"nn.Module: {kernel.module}" for kernel in kernels] * 2
    assert names_around(graph, "annotation", rows) == ["step"] * len(rows)
    rule = QUEUES if kind == "" else POSITION
    assert [(one.rule, one.named, one.kernels) for one in graph_kernels(graph).replays] == [
        (rule, len(kernels), len(kernels))
    ] * 2


def test_a_launch_without_a_row_is_one_edit(tmp_path: Path) -> None:
    kernels = program("dense", layers=4)
    graph = named_graph(tmp_path, captured([("capture", kernels)]), replayed([("step", [kernels[:-1]])]))
    (found,) = graph_kernels(graph).replays
    assert (found.rule, found.edits, found.named, found.kernels) == (EDITS, 1, len(kernels) - 1, len(kernels) - 1)


def test_the_capture_of_another_program_names_nothing(tmp_path: Path) -> None:
    graph = named_graph(tmp_path, captured([("c", program("image"))]), replayed([("step", [program("dense")])]))
    (found,) = graph_kernels(graph).replays
    assert (found.rule, found.named) == ("", 0)
    assert set(names_around(graph, "operator", all_replayed(graph))) == {""}


def test_without_names_of_kernels_an_equal_number_is_unchecked(tmp_path: Path) -> None:
    kernels = program("dense", layers=4)
    capture, replay = captured([("c", kernels)], vendor="cuda"), replayed([("step", [kernels])], vendor="cuda")
    graph = named_graph(tmp_path, capture, replay)
    (found,) = graph_kernels(graph).replays
    assert (found.rule, found.named) == (UNCHECKED, len(kernels))
    assert names_around(graph, "operator", all_replayed(graph)) == [kernel.operator for kernel in kernels]
    fewer = named_graph(tmp_path, capture, replayed([("step", [kernels[:-1]])], vendor="cuda"))
    assert [one.rule for one in graph_kernels(fewer).replays] == [""]


def test_a_warm_up_before_the_capture_names_the_kernels(tmp_path: Path) -> None:
    kernels = program("dense", layers=4)
    capture = captured([("c", kernels)], vendor="cuda", warm_up=True)
    graph = named_graph(tmp_path, capture, replayed([("step", [kernels[:-1]])], vendor="cuda"))
    assert [(one.rule, one.named) for one in graph_kernels(graph).replays] == [(EDITS, len(kernels) - 1)]


def layers(count: int, batch: int = 32) -> list[list[Kernel]]:
    """Return the pieces of a model whose layers are captured one by one: first, equal ones, last."""
    whole = program("dense", layers=count + 2, batch=batch)
    size = (len(whole) - 2) // (count + 2)
    # The layers of odd numbers have another kernel of attention: two layers are one piece.
    pieces = [whole[:1], *(whole[1 + at : 1 + at + 2 * size] for at in range(0, len(whole) - 2, 2 * size)), whole[-1:]]
    return [piece for piece in pieces if piece]


def test_equal_pieces_are_named_in_the_order_of_their_capture(tmp_path: Path) -> None:
    pieces = layers(8)
    capture = captured([("capture_32_PIECEWISE", piece) for piece in pieces])
    graph = named_graph(tmp_path, capture, replayed([("step", pieces), ("step", pieces)]))
    expected = [f"nn.Module: {kernel.module}" for piece in pieces for kernel in piece]
    assert names_around(graph, "module", all_replayed(graph)) == expected * 2


def test_a_recording_that_begins_within_a_step_is_counted_back_from_its_end(tmp_path: Path) -> None:
    pieces = layers(8)
    capture = captured([("capture_32_PIECEWISE", piece) for piece in pieces])
    graph = named_graph(tmp_path, capture, replayed([("step", pieces[3:])]))
    expected = [f"nn.Module: {kernel.module}" for piece in pieces[3:] for kernel in piece]
    assert names_around(graph, "module", all_replayed(graph)) == expected


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("step", "size", "is_sure"),
    [
        ("execute_context_0(0)_generation_5(5)", 8, True),
        ("execute_9_context_0(sq0sk0sqsq0sqsk0)_generation_9(sq9sk99sqsq9sqsk99)", 16, True),
        ("step[DECODE bs=16]", 16, True),
        ("decode[bs=3/4 tok=4 d=4]", 4, True),
        ("my step", 4, False),
    ],
)
def test_of_graphs_of_several_sizes_the_tokens_of_the_step_choose(
    tmp_path: Path, step: str, size: int, is_sure: bool
) -> None:
    sizes = (16, 8, 4)
    capture = captured([(f"capture_{of}_FULL", program("dense", layers=2, batch=of)) for of in sizes])
    graph = named_graph(tmp_path, capture, replayed([(step, [program("dense", layers=2)])]))
    (found,) = graph_kernels(graph).replays
    assert found.is_one_of_several is not is_sure
    codes, texts = row_names(graph)
    call = graph_kernels(graph).launch[all_replayed(graph)][0] - len(graph.event_table)
    around = graph_kernels(graph).captures[0].enclosing(np.array([call], np.int32), hg.EventKind.ANNOTATION)
    assert f"capture_{size}_FULL" == texts[codes[around[0] + len(graph.event_table)]]


# -- the command line -------------------------------------------------------------------------------------------------


def write_pair(folder: Path, *, rank: int | None = 0, names: tuple[str, str] = ("a.json", "b.json")) -> list[Kernel]:
    kernels = program("dense", layers=4)
    written(folder / names[0], captured([("capture_32_FULL", kernels)], rank=rank))
    written(folder / names[1], replayed([("step", [kernels])], rank=rank))
    return kernels


def unknown_ns(document: dict[str, Any]) -> int:
    rows = document["tables"]["gpu_time_by_operator"]
    return sum(row["gpu_self_ns"] for row in rows if row["name"] == "(unknown)")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rank", [0, None])
@pytest.mark.parametrize("names", [("a.json", "b.json"), ("replay.json", "capture.json")])
def test_in_a_folder_the_capture_is_no_rank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rank: int | None, names: tuple[str, str]
) -> None:
    write_pair(tmp_path / "run", rank=rank, names=names)
    status, out, err = run_command(capsys, "attribution", tmp_path / "run")
    assert status == 0
    assert f"{names[0]}: not a rank, but the capture of graphs" in err
    assert "46 of 46 kernels of 1 graph replay inferred by capture" in out
    assert "(unknown)" not in out


def test_a_named_capture_gives_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_pair(tmp_path)
    ask = ("attribution", tmp_path / "b.json")
    assert unknown_ns(command_json(capsys, *ask)) > 0
    for given in (tmp_path / "a.json", tmp_path):
        assert unknown_ns(command_json(capsys, *ask, "--capture", given)) == 0


def test_two_recordings_of_a_rank_and_a_capture_are_an_error_that_names_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernels = write_pair(tmp_path)
    written(tmp_path / "c.json", replayed([("step", [kernels])]))
    status, out, err = run_command(capsys, "attribution", tmp_path)
    assert (status, out) == (1, "")
    assert f"{tmp_path / 'c.json'}: claims rank 0, as {tmp_path / 'b.json'} does" in err


def test_each_rank_has_its_own_capture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kinds = ("dense", "experts")
    for rank, kind in enumerate(kinds):
        kernels = program(kind, layers=3)
        written(tmp_path / f"c{rank}.json", captured([("c", kernels)], rank=rank))
        written(tmp_path / f"r{rank}.json", replayed([("step", [kernels])], rank=rank))
    found = command_json(capsys, "attribution", tmp_path, "--by", "module")["tables"]["gpu_time_by_module"]
    assert {row["rank"] for row in found} == {0, 1}
    assert not [row for row in found if row["name"] == "(unknown)"]


def test_what_is_no_capture_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_pair(tmp_path)
    said = one_error(capsys, tmp_path, "attribution", tmp_path / "b.json", "--capture", tmp_path / "b.json")
    assert "records no begin and end of stream capture" in said
    with pytest.raises(TraceError, match="no such file"):
        find_captures([str(tmp_path / "none.json")])


@pytest.mark.parametrize("digits", ["9" * 25, "9" * 5_000], ids=len)
def test_an_absurd_size_in_the_name_of_a_capture_is_none(tmp_path: Path, digits: str) -> None:
    kernels = program("dense", layers=1)
    graph = named_graph(tmp_path, captured([(f"capture_{digits}_FULL", kernels)]), replayed([("step", [kernels])]))
    (found,) = graph_kernels(graph).replays
    assert found.named == len(kernels)


@pytest.mark.parametrize(
    ("cut", "said"),
    [(0, "is empty"), (4, "the JSON is truncated at byte 4"), (-300, "--salvage recovers them")],
    ids=["0", "4", "-300"],
)
def test_an_unreadable_capture_is_said_to_be_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cut: int, said: str
) -> None:
    write_pair(tmp_path)
    broken = tmp_path / "broken.json"
    broken.write_bytes((tmp_path / "a.json").read_bytes()[:cut])
    line = one_error(capsys, tmp_path, "attribution", tmp_path / "b.json", "--capture", broken)
    assert f"{broken}: " in line
    assert said in line


def test_a_capture_alone_is_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_pair(tmp_path)
    assert run_command(capsys, "attribution", tmp_path / "a.json")[0] == 0


def test_kernels_without_a_name_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernels = write_pair(tmp_path)
    other = written(tmp_path / "other.json", captured([("c", program("image"))]))
    _, out, _ = run_command(capsys, "attribution", tmp_path / "b.json", "--wide", "--capture", other)
    assert f"{len(kernels)} kernels" in out
    assert "not named: no captured graph launches the same kernels" in out
    _, out, _ = run_command(capsys, "attribution", tmp_path / "b.json", "--wide")
    assert "launched by a CUDA graph; record the capture of the graphs and use --capture" in out


def test_shapes_of_replayed_products_are_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernels = program("dense", layers=4)
    written(tmp_path / "a.json", captured([("capture_32_FULL", kernels)]))
    written(tmp_path / "b.json", replayed([("step", [kernels]), ("step", [kernels])]))
    found = command_json(capsys, "roofline", tmp_path, "--peaks", "H100 SXM")["tables"]["roofline"]
    products = {row["inputs"]: row for row in found if row["operator"] == "aten::mm"}
    shapes = {kernel.dims for kernel in kernels if kernel.operator == "aten::mm"}
    texts = {"bfloat16[" + ", ".join("×".join(map(str, side)) for side in dims) + "]" for dims in shapes}
    assert set(products) == texts
    # Four layers in two replays, each a call of its own.
    assert {row["calls"] for row in products.values()} == {8}
    one = products["bfloat16[32×4096, 4096×4096]"]
    assert one["achieved_tflops"] == pytest.approx(2 * 32 * 4096 * 4096 / 15e-6 / 1e12)


@pytest.mark.slow
def test_diff_compares_replayed_kernels_by_operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_pair(tmp_path / "one")
    slow = [
        Kernel(one.name, one.operator, one.module, one.dims, one.length * (2 if one.operator == "aten::silu" else 1))
        for one in program("dense", layers=4)
    ]
    written(tmp_path / "two" / "a.json", captured([("capture_64_FULL", slow)]))
    written(tmp_path / "two" / "b.json", replayed([("step", [slow])]))
    found = command_json(capsys, "diff", tmp_path / "one", tmp_path / "two", "--whole")
    changed = {row["call_path"] for row in found["tables"]["gpu_time_by_call_path"] if row["diff_ns"]}
    assert changed == {"step / aten::silu"}


def test_a_node_has_its_recorded_module_in_every_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The merger writes ids and modules, and moves rows to other streams; here the second replay has ids only.
    kernels = program("dense", layers=4)
    trace = replayed([("step", [kernels, kernels])], vendor="cuda")
    rows = [row for row in trace.rows if row["cat"] == "kernel"]
    for at, (row, kernel) in enumerate(zip(rows, kernels * 2, strict=True)):
        node = 3 << 32 | at % len(kernels)
        row["args"] |= {"graph node id": node, "stream": 60 + at % 3}
        row["tid"] = 60 + at % 3
        if at < len(kernels):
            row["args"]["module_fqn"] = kernel.module
    path = written(tmp_path / "r.json", trace)
    found = command_json(capsys, "attribution", path, "--by", "module")["tables"]["gpu_time_by_module"]
    assert {row["name"] for row in found} == {kernel.module for kernel in kernels}
    # The streams that the merger chose do not decide the alignment.
    capture = written(tmp_path / "c.json", captured([("c", kernels)]))
    ask = ("attribution", path, "--capture", capture, "--by", "activity")
    named = command_json(capsys, *ask)["tables"]["gpu_time_by_activity"]
    assert Counter(row["operator"] for row in named) == Counter(kernel.operator for kernel in kernels * 2)
    assert {row["named_by"] for row in named} == {"capture"}


def test_segments_of_the_path_have_the_operators_of_the_capture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernels = write_pair(tmp_path)
    ask = ("critical-path", tmp_path / "b.json", "--whole")
    plain, named = command_json(capsys, *ask), command_json(capsys, *ask, "--capture", tmp_path / "a.json")
    assert not {"operator", "module", "operator_evidence"} & set(plain["segments"][0])
    keys = set(plain["segments"][0])
    assert [{key: row[key] for key in keys} for row in named["segments"]] == plain["segments"]
    on_gpu = [row for row in named["segments"] if row["bound_by"] == "gpu_compute_bound"]
    assert [(row["operator"], row["module"]) for row in on_gpu] == [
        (kernel.operator, f"nn.Module: {kernel.module}") for kernel in kernels
    ]
    assert {row["operator_evidence"] for row in on_gpu} == {"inferred by capture"}
    assert {row["operator"] for row in named["segments"] if row["bound_by"] == "cpu_bound"} == {None}
    _, out, _ = run_command(capsys, *ask, "--capture", tmp_path / "a.json")
    assert "operator" in out
    assert f"{len(kernels)} of {len(kernels)} kernels of 1 graph replay inferred by capture (a.json)" in out


def test_without_kernel_names_the_operators_on_the_path_are_unchecked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernels = program("dense", layers=2)
    written(tmp_path / "a.json", captured([("c", kernels)], vendor="cuda"))
    path = written(tmp_path / "b.json", replayed([("step", [kernels])], vendor="cuda"))
    found = command_json(capsys, "critical-path", path, "--whole", "--capture", tmp_path / "a.json")
    known = {row["operator_evidence"] for row in found["segments"] if row["bound_by"] == "gpu_compute_bound"}
    assert known == {"inferred by capture, unchecked"}


def test_what_if_scales_what_an_operator_of_the_capture_launched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernels = write_pair(tmp_path)
    ask = ("what-if", tmp_path / "b.json", "--whole", "--capture", tmp_path / "a.json")
    own = round(sum(1_000 * kernel.length for kernel in kernels if kernel.operator == "aten::mm"))
    for what in ("operator:aten::mm", "operator:aten::m.$"):
        found = command_json(capsys, *ask, "--scale", f"{what}=0.5")
        assert found["saved_ns"] == pytest.approx(own / 2, abs=1_000)
        assert found["changes"][0]["operator_evidence"] == "inferred by capture"
    listed = {(one["kind"], one["name"]): one for one in command_json(capsys, *ask)["opportunities"]}
    assert listed["operator", "aten::mm"]["operator_evidence"] == "inferred by capture"
    assert listed["operator", "aten::mm"]["on_path_ns"] == pytest.approx(own, abs=1_000)
    assert any(kind == "module" for kind, _ in listed)
    _, out, _ = run_command(capsys, *ask)
    assert "inferred by capture (a.json)" in out
    said = one_error(capsys, tmp_path, *ask, "--scale", "operator:aten::mmm=0.5")
    assert "did you mean 'aten::mm'" in said
    assert "matches 'operator:aten::mm'" in one_error(capsys, tmp_path, *ask[:3], "--remove", "operator:aten::mm")


def test_what_if_scales_a_module_of_one_layer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernels = write_pair(tmp_path)
    module = next(kernel.module for kernel in kernels if kernel.operator == "aten::mm")
    own = round(sum(1_000 * kernel.length for kernel in kernels if kernel.module == module))
    ask = ("what-if", tmp_path / "b.json", "--whole", "--capture", tmp_path / "a.json")
    found = command_json(capsys, *ask, "--remove", f"module:nn.Module: {module}")
    assert found["saved_ns"] == pytest.approx(own, abs=2_000)


def test_operators_of_the_capture_launch_kernels_in_every_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernels = program("dense", layers=4)
    written(tmp_path / "a.json", captured([("capture_32_FULL", kernels)]))
    written(tmp_path / "b.json", replayed([("step", [kernels]), ("step", [kernels])]))
    rows = command_json(capsys, "operator-kernels", tmp_path, "--operators", "")["tables"]["operator_kernels"]
    found: Counter[str] = Counter()
    for row in rows:
        found[row["operator"]] += row["gpu_ns"]
        assert row["operator_evidence"] == "inferred by capture"
        assert row["mean_launch_delay_ns"] is row["p95_runtime_delay_ns"] is None
    expected: Counter[str] = Counter()
    for kernel in kernels * 2:
        expected[kernel.operator] += round(1_000 * kernel.length)
    assert found == expected
    plain = command_json(capsys, "operator-kernels", tmp_path / "b.json", "--operators", "")["tables"]
    assert {row["operator_evidence"] for row in plain["operator_kernels"]} <= {None}


def test_pictures_and_overlays_say_operators_and_how_they_are_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_pair(tmp_path)
    ask = ("--whole", "--capture", tmp_path / "a.json")
    run_command(capsys, "render", "--path", tmp_path / "b.json", *ask, "-o", tmp_path / "p.dot")
    picture = (tmp_path / "p.dot").read_text()
    assert "aten::mm ▸ " in picture
    assert "operator ▸ kernel of a graph replay: inferred by capture" in picture
    run_command(capsys, "render", "--lanes", tmp_path / "b.json", *ask, "-o", tmp_path / "p.svg")
    lanes = (tmp_path / "p.svg").read_text()
    assert "aten::mm: inferred by capture" in lanes
    assert "kernels of graph replays are called by their operators: inferred by capture" in lanes
    run_command(capsys, "critical-path", tmp_path / "b.json", *ask, "--overlay", tmp_path / "o.json")
    overlay = json.loads((tmp_path / "o.json").read_text())["traceEvents"]
    known = [row["args"] for row in overlay if row.get("cat") == "critical_path" and "operator" in row.get("args", {})]
    assert {row["operator_evidence"] for row in known} == {"inferred by capture"}
    run_command(capsys, "render", "--path", tmp_path / "b.json", "--whole", "-o", tmp_path / "q.dot")
    assert "▸" not in (tmp_path / "q.dot").read_text()


@pytest.mark.slow
def test_a_job_names_the_kernels_of_each_rank_by_its_own_capture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = {rank: program(kind, layers=3) for rank, kind in enumerate(("dense", "experts"))}
    for rank, kernels in programs.items():
        written(tmp_path / f"c{rank}.json", captured([("c", kernels)], rank=rank))
        written(tmp_path / f"r{rank}.json", replayed([("step", [kernels])], rank=rank))
    found = command_json(capsys, "critical-path", tmp_path, "--whole")
    on_gpu = [row for row in found["segments"] if row["bound_by"] == "gpu_compute_bound"]
    assert {row["operator_evidence"] for row in on_gpu} == {"inferred by capture"}
    for row in on_gpu:
        names = {(kernel.name, kernel.operator) for kernel in programs[row["rank"]]}
        assert (row["name"], row["operator"]) in names
    saved = command_json(capsys, "what-if", tmp_path, "--whole", "--scale", "operator:aten::mm=0.5")
    assert saved["saved_ns"] > 0
    # A summary has too few rows for a capture to be aligned: nothing is named, and nothing is wrong.
    few = command_json(capsys, "critical-path", tmp_path, "--whole", "--summaries", "always")
    assert not {"operator", "operator_evidence"} & set(few["segments"][0])
    _, out, _ = run_command(capsys, "critical-path", tmp_path, "--whole", "--summaries", "always")
    assert "captures are not used" in " ".join(out.split())


def test_bars_of_the_timeline_say_operators(tmp_path: Path) -> None:
    kernels = program("dense", layers=2)
    graph = named_graph(tmp_path, captured([("c", kernels)]), replayed([("step", [kernels])]))
    scene = scene_of([hg.critical_path(graph, hg.whole())])
    found = {scene.names[code] for code in scene.bars.name.tolist() if code >= 0}
    assert "aten::mm (inferred by capture) ▸ gemm_64x128" in found
    assert "gemm_64x128" not in found


def test_the_headline_s_largest_item_has_its_operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_pair(tmp_path)
    _, out, _ = run_command(capsys, "critical-path", tmp_path / "b.json", "--whole", "--capture", tmp_path / "a.json")
    assert "Largest item on the critical path: gemm_64x256 of aten::mm (inferred by capture)" in " ".join(out.split())


def annotations(kernels: list[Kernel]) -> dict[str, Any]:
    return {
        str(3 << 32 | at): [{"name": "scope", "module_fqn": kernel.module, "stream": 60}]
        for at, kernel in enumerate(kernels)
    }


def write_nodes(folder: Path, *, zero: bool = False) -> list[Kernel]:
    """Write a replay whose kernels have the numbers of their nodes, or 0."""
    kernels = program("dense", layers=2)
    trace = replayed([("step", [kernels, kernels])], vendor="cuda")
    rows = [row for row in trace.rows if row["cat"] == "kernel"]
    for at, row in enumerate(rows):
        row["args"]["graph node id"] = 0 if zero else 3 << 32 | at % len(kernels)
    written(folder / "traces" / "r.json", trace)
    return kernels


@pytest.mark.sampled(4)
@pytest.mark.parametrize("place", ["named", "beside", "above", "in the folder"])
def test_a_file_of_annotations_names_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str) -> None:
    (tmp_path / "traces").mkdir()
    kernels = write_nodes(tmp_path)
    names = {"named": "x.json", "beside": "traces/kernel_annotations_rank0_1.json",
             "above": "kernel_annotations_rank0_1.json", "in the folder": "traces/names.json"}  # fmt: skip
    (tmp_path / names[place]).write_text(json.dumps(annotations(kernels)))
    path = tmp_path / "traces" if place == "in the folder" else tmp_path / "traces" / "r.json"
    ask = (path, *(("--capture", tmp_path / "x.json") if place == "named" else ()))
    found = command_json(capsys, "attribution", *ask, "--by", "module")["tables"]["gpu_time_by_module"]
    assert {row["name"] for row in found} == {kernel.module for kernel in kernels}
    named = command_json(capsys, "critical-path", *ask, "--whole")["segments"]
    known = [row for row in named if row["bound_by"] == "gpu_compute_bound"]
    assert [row["module"] for row in known] == [kernel.module for kernel in kernels] * 2
    assert {row["operator_evidence"] for row in known} == {"recorded"}
    saved = command_json(capsys, "what-if", *ask, "--whole", "--remove", f"module:{kernels[1].module}")
    own = sum(1_000 * kernel.length for kernel in kernels if kernel.module == kernels[1].module)
    assert saved["saved_ns"] == pytest.approx(2 * own, abs=4_000)


def test_a_node_of_number_0_has_no_annotation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "traces").mkdir()
    kernels = write_nodes(tmp_path, zero=True)
    names = tmp_path / "kernel_annotations_rank0_1.json"
    names.write_text(json.dumps({"0": [{"module_fqn": "wrong"}], **annotations(kernels)}))
    found = command_json(capsys, "attribution", tmp_path / "traces", "--by", "module")["tables"]["gpu_time_by_module"]
    assert [row["name"] for row in found] == ["(unknown)"]


@pytest.mark.parametrize("text", ['{"12": 7, "13": [[]], "x": []}', '{"12": [{"module_fqn": {"str": 3}}]}'])
def test_odd_annotations_name_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    (tmp_path / "traces").mkdir()
    write_nodes(tmp_path)
    (tmp_path / "kernel_annotations_rank0_1.json").write_text(text)
    found = command_json(capsys, "attribution", tmp_path / "traces", "--by", "module")["tables"]["gpu_time_by_module"]
    assert [row["name"] for row in found] == ["(unknown)"]


@pytest.mark.parametrize("text", ['{"12": [', '{"12": ' + "[" * 100_000])
def test_a_broken_file_of_annotations_is_left_out_unless_it_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "traces").mkdir()
    write_nodes(tmp_path)
    names = tmp_path / "kernel_annotations_rank0_1.json"
    names.write_text(text)
    ask = ("attribution", tmp_path / "traces" / "r.json", "--by", "module")
    assert run_command(capsys, *ask)[0] == 0
    assert f"{names}: is no file of annotations" in one_error(capsys, tmp_path, *ask, "--capture", names)


@pytest.mark.slow
def test_control_characters_of_an_annotation_are_not_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "traces").mkdir()
    kernels = write_nodes(tmp_path)
    said = {node: [{"module_fqn": "a\x1b[31m\u202eb"}] for node in annotations(kernels)}
    (tmp_path / "kernel_annotations_rank0_1.json").write_text(json.dumps(said))
    for ask in (("attribution", "--by", "module"), ("critical-path", "--whole"), ("what-if", "--whole")):
        _, out, err = run_command(capsys, ask[0], tmp_path / "traces" / "r.json", *ask[1:])
        assert "\x1b" not in out + err
        assert "\u202e" not in out + err
    run_command(capsys, "render", "--path", tmp_path / "traces" / "r.json", "--whole", "-o", tmp_path / "p.dot")
    assert "\x1b" not in (tmp_path / "p.dot").read_text()


def test_annotations_of_another_rank_are_not_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "traces").mkdir()
    kernels = write_nodes(tmp_path)
    (tmp_path / "kernel_annotations_rank1_1.json").write_text(json.dumps(annotations(kernels)))
    found = command_json(capsys, "attribution", tmp_path / "traces", "--by", "module")["tables"]["gpu_time_by_module"]
    assert [row["name"] for row in found] == ["(unknown)"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "command",
    [
        ("critical-path",),
        ("what-if",),
        ("graph",),
        ("idle-time",),
        ("kernel-breakdown",),
        ("operator-kernels",),
        pytest.param(("report", "-o", "REPORT"), marks=pytest.mark.slow),
    ],
)
def test_other_commands_take_a_folder_with_a_capture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    write_pair(tmp_path / "run")
    words = [str(tmp_path / "report.html") if word == "REPORT" else word for word in command]
    status, _, err = run_command(capsys, words[0], tmp_path / "run", *words[1:])
    assert status == 0, err
    assert "Traceback" not in err


def test_diff_says_which_kernels_each_side_has_names_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_pair(tmp_path / "before")
    kernels = write_pair(tmp_path / "after")
    written(tmp_path / "after" / "b.json", replayed([("step", [kernels, kernels])]))
    named = [str(tmp_path / side / "b.json") for side in ("before", "after")]
    capture = ("--capture", tmp_path / "before" / "a.json")
    for words in ((*named, *capture), (tmp_path / "before", tmp_path / "after")):
        status, out, _ = run_command(capsys, "diff", *words)
        assert status == 0
        said = [line for line in out.splitlines() if "inferred by capture" in line]
        counted = ["46 of 46 kernels of 1 graph replay ", "92 of 92 kernels of 2 graph replays "]
        assert [line.split(":")[0] for line in said] == ["Before", "After"]
        assert all(count in line for count, line in zip(counted, said, strict=True))
    _, out, _ = run_command(capsys, "diff", *named)
    assert "inferred by capture" not in out


@pytest.mark.slow
@pytest.mark.parametrize("summaries", [(), ("--summaries", "always")])
def test_captures_in_folders_of_jobs_name_kernels_of_whole_ranks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], summaries: tuple[str, ...]
) -> None:
    for replays, side in enumerate(("before", "after"), 1):
        (tmp_path / side).mkdir()
        for rank in (0, 1):
            kernels = program("dense", layers=3 + rank)
            written(tmp_path / side / f"c{rank}.json", captured([("c", kernels)], rank=rank))
            written(tmp_path / side / f"r{rank}.json", replayed([("ProfilerStep#1", [kernels] * replays)], rank=rank))
    status, out, err = run_command(capsys, "diff", tmp_path / "before", tmp_path / "after", *summaries)
    assert status == 0, err
    assert out.count("inferred by capture (c0.json)") == 2


def test_summaries_keep_the_captures_of_ranks_that_are_read_again(tmp_path: Path) -> None:
    for rank in (0, 1):
        kernels = program("dense", layers=3 + rank)
        written(tmp_path / f"c{rank}.json", captured([("c", kernels)], rank=rank))
        written(tmp_path / f"r{rank}.json", replayed([("ProfilerStep#1", [kernels])], rank=rank))
    question = SummaryRequest()
    summaries = {graph.rank or 0: graph for graph in hg.read_graphs(tmp_path, summary=question)}
    reader = SummaryJobReader(ReadOptions(), question)
    for rank, graph in full_rank_graphs(reader.job(summaries), (0, 1)).items():
        assert graph_kernels(graph).captures[0].path.name == f"c{rank}.json"


@pytest.mark.parametrize("command", ["strip", "counters"])
def test_where_rows_are_written_captures_have_no_effect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    write_pair(tmp_path)
    ask = (command, tmp_path / "b.json", "-o")
    status, _, err = run_command(capsys, *ask, tmp_path / "named.json", "--capture", tmp_path / "a.json")
    assert status == 0, err
    assert "--capture has no effect: rows are written as they were recorded" in err
    assert run_command(capsys, *ask, tmp_path / "plain.json")[0] == 0
    assert (tmp_path / "named.json").read_bytes() == (tmp_path / "plain.json").read_bytes()
    if command == "strip":  # a wrong command line is one line
        usage = one_error(capsys, tmp_path, *ask, tmp_path / "no_suffix", "--capture", tmp_path / "a.json", status=2)
        assert "no_suffix: " in usage


# -- real pairs -------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.shared
@pytest.mark.parametrize("pair", PAIRS)
def test_the_real_pairs_equal_their_expected_tables(pair: str) -> None:
    place = SERVING / pair
    graph = with_captures(hg.build_graph(str(place / "replay.json.gz")), [place / "capture.json.gz"])
    rows = all_replayed(graph)
    operators, modules = (names_around(graph, kind, rows) for kind in ("operator", "module"))
    by_replay = defaultdict(list)
    with (place / "expected_per_kernel.csv").open() as file:
        for line in csv.DictReader(file):
            by_replay[int(line["replay"])].append(line)
    expected = [line for number in sorted(by_replay) for line in by_replay[number]]
    # Of equal replays the table may have the first one alone.
    assert len(rows) % len(expected) == 0
    times = len(rows) // len(expected)
    assert operators == [line["operator"] for line in expected] * times
    assert modules == [f"nn.Module: {line['module']}" for line in expected] * times
    found: Counter[tuple[str, str]] = Counter()
    length = graph.event_table.end[rows] - graph.event_table.start[rows]
    for operator, module, ns in zip(operators, modules, length.tolist(), strict=True):
        found[operator, module.removeprefix("nn.Module: ").rpartition("_")[0]] += ns
    with (place / "expected_by_operator_module.csv").open() as file:
        sums = {(line["operator"], line["module_class"]): float(line["gpu_us"]) for line in csv.DictReader(file)}
    assert len(sums) == PAIRS[pair]
    assert {key: ns / 1e3 for key, ns in found.items()} == pytest.approx(sums, rel=0.002, abs=1)


@pytest.mark.sampled(12)
@pytest.mark.shared
@pytest.mark.parametrize("capture", PAIRS)
@pytest.mark.parametrize("replay", PAIRS)
def test_real_captures_of_other_programs_are_refused(replay: str, capture: str) -> None:
    graph = hg.build_graph(str(SERVING / replay / "replay.json.gz"))
    found = graph_kernels(with_captures(graph, [SERVING / capture / "capture.json.gz"])).replays
    assert all(bool(one.rule) == (replay == capture) for one in found)


@pytest.mark.shared
def test_a_real_decode_step_is_attributed(capsys: pytest.CaptureFixture[str]) -> None:
    place = SERVING / "vllm_decode_full"
    rows = command_json(capsys, "attribution", place)["tables"]["gpu_time_by_operator"]
    every = sum(row["gpu_self_ns"] for row in rows)
    assert sum(row["gpu_self_ns"] for row in rows if row["name"] == "(unknown)") < 0.005 * every


@pytest.mark.shared
def test_a_real_roofline_has_the_shapes_of_replayed_products(capsys: pytest.CaptureFixture[str]) -> None:
    place = SERVING / "sglang"
    ask = ("roofline", place / "replay.json.gz", "--capture", place / "capture.json.gz")
    products = [row for row in command_json(capsys, *ask)["tables"]["roofline"] if row["operator"] == "aten::mm"]
    assert {row["inputs"] for row in products} >= {"bfloat16[32×4096, 4096×6144]", "bfloat16[32×4096, 4096×24576]"}
    assert sum(row["gpu_ns"] for row in products) > 0.59 * 9_656_000
