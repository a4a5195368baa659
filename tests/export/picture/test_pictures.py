"""Pictures: what the text for dot says, that dot accepts it whatever the names are, and how files are written."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.base.errors import HtaGraphError, MissingProgramError, OutputError, QueryError, UsageError
from hta_graph.export.picture import (
    Picture,
    around_picture,
    between_picture,
    check_picture,
    path_picture,
    short_name,
    write_picture,
)
from tests.support.trace_builder import TraceBuilder

needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz's program dot is not installed")

MM, CALL, GEMM, CALL_2, RELU, SYNC = range(6)


def trace() -> TraceBuilder:
    """Return an operator that launches two kernels, and a synchronisation that the trace does not record."""
    built = TraceBuilder()
    built.op("aten::mm", 0, 50)
    built.launch("gemm", (5, 10), (20, 60), 1)
    built.launch("relu", (15, 25), (65, 80), 2)
    built.call("cudaDeviceSynchronize", 55, 90)
    return built


def many_launches(count: int) -> TraceBuilder:
    """Return one operator that launches alike kernels back to back."""
    built = TraceBuilder()
    built.op("aten::foreach", 0, 10 * count)
    for number in range(count):
        at = 10 * number
        built.launch("add", (at + 1, at + 5), (1000 + 4 * number, 1004 + 4 * number), number + 1)
    return built


def path_of(built: TraceBuilder, tmp_path: Path) -> Picture:
    return path_picture(hg.critical_path(built.graph(tmp_path)))


def boxes(source: str) -> dict[str, str]:
    """Return the text of each box by its name in the picture, without markup."""
    return {name: plain(label) for name, label in re.findall(r"^\s+(b\d+) \[label=<(.*?)> color", source, re.MULTILINE)}


def plain(label: str) -> str:
    return re.sub(r"<[^>]+>", "", label.replace("<BR/>", "|"))


def links(source: str) -> list[tuple[str, str, str]]:
    """Return (from, to, attributes) of the visible links."""
    found = re.findall(r"^\s+(\w+) -> (\w+) \[(.*)\]$", source, re.MULTILINE)
    return [link for link in found if "invis" not in link[2]]


def dot(source: str) -> str:
    """Let dot lay a picture out as plain text; fail on a warning."""
    done = subprocess.run(["dot", "-Tplain"], input=source.encode(), capture_output=True, check=False)
    assert (done.returncode, done.stderr.decode()) == (0, "")
    return done.stdout.decode()


# -- the path ---------------------------------------------------------------------------------------------------------


def test_a_path_stands_in_its_lanes_with_times(tmp_path: Path) -> None:
    source = path_of(trace(), tmp_path).source
    assert "rankdir=LR" in source
    assert re.findall(r"label=<<B>((?:thread|stream)[^<]*)</B>>", source) == ["thread 100:1", "stream 0:1:7"]
    texts = " ".join(boxes(source).values())
    for wanted in ("gemm|40 µs · 44.4%", "idle before relu|5 µs · 5.6%", "relu|15 µs · 16.7%"):
        assert wanted in texts
    assert f"#{GEMM}" in texts
    assert "Critical path of whole trace: 90 µs" in source


def test_a_path_is_bold_and_its_links_have_kind_and_colour(tmp_path: Path) -> None:
    found = links(path_of(trace(), tmp_path).source)
    assert all("penwidth=3" in attributes for *_, attributes in found)
    kinds = {match[1]: match[2] for *_, text in found if (match := re.match(r'label="?(\w+).* color="(#\w+)"', text))}
    assert {"launch", "stream_order", "device_sync"} <= kinds.keys()
    assert len(kinds) == len(set(kinds.values()))


def test_inferred_links_are_dashed_and_recorded_ones_are_not(tmp_path: Path) -> None:
    source = path_of(trace(), tmp_path).source
    style = {label: "dashed" in text for *_, text in links(source) for label in re.findall(r'label="?(\w+)', text)}
    assert style["device_sync"]
    assert not style["launch"]
    assert "dashed arrow: inferred" in source
    recorded = trace()
    recorded.sync_row("Context Sync", 55, 90, 0)
    assert "bold: the path" in path_of(recorded, tmp_path).source


def test_the_legend_names_what_occurs_and_nothing_else(tmp_path: Path) -> None:
    source = path_of(trace(), tmp_path).source
    legend = plain(source.split("legend, boxes:")[1].split("subgraph")[0])
    # Classes are called what every other answer calls them; the keys are those of JSON.
    for wanted in ("GPU compute", "kernel gaps", "sync return", "launch", "device_sync"):
        assert wanted in legend
    for absent in ("data loading", "event_wait", "blocking_copy", "gpu_compute_bound"):
        assert absent not in legend


def test_waits_have_a_dashed_border(tmp_path: Path) -> None:
    source = path_of(trace(), tmp_path).source
    border = {plain(label): style for label, style in re.findall(r'\[label=<(.*?)> color=.*? style="([^"]*)"', source)}
    assert {text.split("|")[0]: "dashed" in style for text, style in border.items()}["idle before relu"]
    assert not {text.split("|")[0]: "dashed" in style for text, style in border.items()}["gemm"]


def test_runs_of_alike_events_are_folded(tmp_path: Path) -> None:
    picture = path_of(many_launches(24), tmp_path)
    folded = [text for text in boxes(picture.source).values() if text.startswith("add ×24|96 µs")]
    assert len(folded) == 1
    assert "#2…#48" in folded[0]


def test_the_limit_holds_and_says_what_has_no_name(tmp_path: Path) -> None:
    built = TraceBuilder()
    for number in range(30):
        built.op(f"op{number}", 10 * number, 10 * number + 10)
    path = hg.critical_path(built.graph(tmp_path))
    whole, short = path_picture(path), path_picture(path, limit=2)
    assert (len(boxes(whole.source)), whole.left_out) == (30, None)
    assert len(boxes(short.source)) <= 2
    assert short.left_out is not None
    unnamed = 30 - sum(text.count("op") for text in boxes(short.source).values())
    assert short.left_out.startswith(f"left out: the names of {unnamed} short events")
    assert short.left_out in plain(short.source)
    assert "left out" not in whole.source


def test_all_time_of_the_window_is_in_the_boxes(tmp_path: Path) -> None:
    for limit in (1, 3, 40):
        path = hg.critical_path(trace().graph(tmp_path))
        shares = re.findall(r"· ([\d.]+)%", " ".join(boxes(path_picture(path, limit=limit).source).values()))
        assert sum(map(float, shares)) == pytest.approx(100, abs=0.05 * len(shares))


def test_a_long_path_goes_on_in_the_next_row(tmp_path: Path) -> None:
    built = TraceBuilder()
    for number in range(20):
        built.op(f"op{number}", 10 * number, 10 * number + 10)
    source = path_of(built, tmp_path).source
    assert re.findall(r"cluster_lane(\d)_0 {\n\t\tcolor", source) == ["0", "1", "2"]
    found = {(one, other) for one, other, _ in links(source)}
    assert {("b5", "out1"), ("in1", "b6"), ("b12", "out2"), ("in2", "b13")} <= found
    assert not any(one.startswith("b") and other.startswith("b") and other == "b6" for one, other in found)


@needs_dot
def test_rows_and_time_run_in_order(tmp_path: Path) -> None:
    built = TraceBuilder()
    for number in range(20):
        built.op(f"op{number}", 10 * number, 10 * number + 10)
    laid = dict(re.findall(r"^node (b\d+) ([\d.]+ [\d.]+)", dot(path_of(built, tmp_path).source), re.MULTILINE))
    place = {name: tuple(map(float, at.split())) for name, at in laid.items()}
    assert place["b0"][0] < place["b1"][0] < place["b5"][0]
    assert place["b0"][1] > place["b6"][1] > place["b13"][1]


def test_an_empty_window_says_so(tmp_path: Path) -> None:
    built = TraceBuilder()
    built.op("only", 10, 10)
    picture = path_of(built, tmp_path)
    assert "no events in this window" in picture.source
    assert (boxes(picture.source), picture.left_out) == ({}, None)


def test_a_window_between_events_is_drawn(tmp_path: Path) -> None:
    built = trace()
    built.op("later", 500, 510)
    path = hg.critical_path(built.graph(tmp_path), hg.between(200_000, 300_000))
    assert len(boxes(path_picture(path).source)) == 1


# -- around and between -----------------------------------------------------------------------------------------------


def test_around_shows_the_neighbours_and_marks_the_event(tmp_path: Path) -> None:
    source = around_picture(trace().graph(tmp_path), GEMM, 1).source
    names = {text.split("|")[0] for text in boxes(source).values()}
    assert names == {"cudaLaunchKernel", "gemm", "relu"}
    focus = re.search(r"<B>gemm</B>.*penwidth=4", source)
    assert focus is not None
    assert source.count("penwidth=4") == 1
    assert f"Around event {GEMM} (gemm), depth 1" in source


def test_around_is_bold_where_the_event_was_held_up(tmp_path: Path) -> None:
    source = around_picture(trace().graph(tmp_path), RELU, 2).source
    bold = {text for *_, text in links(source) if "penwidth=3" in text}
    assert any("stream_order" in text for text in bold)
    thin = [text for *_, text in links(source) if "launch" in text and "penwidth=1" in text]
    assert thin
    assert "bold: its last dependency" in source


def test_around_prints_lags(tmp_path: Path) -> None:
    texts = [text for *_, text in links(around_picture(trace().graph(tmp_path), RELU, 1).source)]
    assert any(r'label="stream_order\n+5 µs"' in text for text in texts)


def test_around_deeper_shows_more_and_depth_zero_only_the_event(tmp_path: Path) -> None:
    graph = trace().graph(tmp_path)
    counts = [len(boxes(around_picture(graph, SYNC, depth).source)) for depth in (0, 1, 2)]
    assert counts[0] == 1 < counts[1] < counts[2]


def test_around_folds_alike_siblings(tmp_path: Path) -> None:
    source = around_picture(many_launches(24).graph(tmp_path), 0, 40).source
    assert any(text.startswith("cudaLaunchKernel ×") for text in boxes(source).values())


def test_around_has_a_limit(tmp_path: Path) -> None:
    built = TraceBuilder()
    for number in range(30):
        built.op(f"op{number}", 10 * number, 10 * number + 9)
    picture = around_picture(built.graph(tmp_path), 15, 10, limit=5)
    assert {text.split("|")[0] for text in boxes(picture.source).values()} == {f"op{n}" for n in range(13, 18)}
    assert picture.left_out == "left out: 16 events, further away than those in the 5 boxes shown"
    assert picture.left_out in plain(picture.source)


def test_much_that_one_call_launched_shares_a_box(tmp_path: Path) -> None:
    built = TraceBuilder()
    built.call("cudaGraphLaunch", 0, 10, 1)
    for number in range(12):
        built.kernel(f"kernel{number}", 20 + 10 * number, 29 + 10 * number, 1)
    source = around_picture(built.graph(tmp_path), 0, 1).source
    assert len(boxes(source)) == 2
    assert any("launch ×12" in text for *_, text in links(source))


def test_activities_with_another_between_them_are_not_folded(tmp_path: Path) -> None:
    built = TraceBuilder()
    for number, name in enumerate(["add", "mul", "add"]):
        built.launch(name, (10 * number, 10 * number + 5), (100 + 10 * number, 109 + 10 * number), number + 1)
    texts = [text.split("|")[0] for text in boxes(around_picture(built.graph(tmp_path), 2, 3).source).values()]
    assert [text for text in texts if "cuda" not in text] == ["add", "mul", "add"]


def test_around_an_annotation_shows_it_alone(tmp_path: Path) -> None:
    built = trace()
    note = built.annotation("forward", 0, 90)
    assert list(boxes(around_picture(built.graph(tmp_path), note, 2).source)) == ["b0"]


def test_between_is_the_path_between(tmp_path: Path) -> None:
    graph = trace().graph(tmp_path)
    source = between_picture(graph, MM, RELU).source
    names = [text.split("|")[0] for text in boxes(source).values()]
    assert (names[0], names[-1]) == ("aten::mm", "relu")
    assert "launch" in {label for *_, text in links(source) for label in re.findall(r'label="?(\w+)', text)}
    assert len(links(source)) == len(names) - 1


def test_between_the_same_event_is_that_event(tmp_path: Path) -> None:
    assert len(boxes(between_picture(trace().graph(tmp_path), GEMM, GEMM).source)) == 1


def test_between_without_a_way_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match=f"no path leads from event {RELU} to event {GEMM}"):
        between_picture(trace().graph(tmp_path), RELU, GEMM)


@pytest.mark.parametrize("draw", [around_picture, lambda graph, index: between_picture(graph, index, MM)])
def test_an_unknown_event_is_an_error(tmp_path: Path, draw: Callable[[hg.DependencyGraph, int], Picture]) -> None:
    with pytest.raises(QueryError, match="there is no event 99"):
        draw(trace().graph(tmp_path), 99)


def test_senseless_numbers_are_refused(tmp_path: Path) -> None:
    graph = trace().graph(tmp_path)
    with pytest.raises(UsageError, match="0 or more, not -1"):
        around_picture(graph, MM, -1)
    draws: list[Callable[[], Picture]] = [
        lambda: around_picture(graph, MM, 1, limit=0),
        lambda: between_picture(graph, MM, RELU, limit=0),
        lambda: path_picture(hg.critical_path(graph), limit=0),
    ]
    for draw in draws:
        with pytest.raises(UsageError, match="at least 1 box, not 0"):
            draw()


# -- names ------------------------------------------------------------------------------------------------------------


ADD = "at::native::CUDAFunctor_add<float>"
COPY = "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}"
SUM = "at::native::func_wrapper_t<float, at::native::sum_functor<float, float>::operator()(int)::{lambda(float)#1}>"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("aten::_to_copy", "aten::_to_copy"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
        ("enumerate(DataLoader)#_It.__next__", "enumerate(DataLoader)#_It.__next__"),
        ("autograd::engine::evaluate_function: AddmmBackward0", "AddmmBackward0"),
        ("nn.Module: Linear_0", "Linear_0"),
        ("torch/nn/modules/module.py(1501): _call_impl", "module.py(1501): _call_impl"),
        ("<built-in method to of Tensor object at 0x7f>", "<built-in method to of Tensor object at 0x7f>"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "AllReduce_Sum_f32_RING_LL"),
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
        ("void cutlass::Kernel<cutlass_80_f16_gemm_nn>(cutlass_80::Params)", "Kernel [cutlass_80_f16_gemm_nn]"),
        (
            f"void at::native::vectorized_elementwise_kernel<4, {ADD}, Array<char*, 3> >(int, {ADD})",
            "vectorized_elementwise [CUDAFunctor_add]",
        ),
        (
            f"void at::native::unrolled_elementwise_kernel<{COPY}::operator()() const>(int)",
            "unrolled_elementwise [direct_copy_kernel_cuda]",
        ),
        (
            f"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, {SUM}, unsigned int, 4> >(int)",
            "reduce [sum_functor]",
        ),
        ("void (anonymous namespace)::softmax_warp_forward<float, 8>(float*)", "softmax_warp_forward"),
        ("", ""),
        ("void ", "void"),
        ("a<b", "a<b"),
    ],
)
def test_short_names(name: str, short: str) -> None:
    assert short_name(name).strip() == short


ODD = [
    "",
    " ",
    "\x00\x01\x1f",
    'quo"te',
    "back\\slash\\",
    "<b>&amp;",
    "a\nb\tc",
    "<>",
    "\\N\\G",
    "é漢字\U0001f600",
    "]]>",
    "x" * 5000,
]


@pytest.mark.sampled(3)
@needs_dot
@pytest.mark.parametrize("name", ODD)
def test_dot_accepts_any_name(tmp_path: Path, name: str) -> None:
    built = TraceBuilder()
    built.op(name, 0, 50)
    built.launch(name, (5, 10), (60, 90), 1)
    built.op("other", 50, 52)
    built.annotation(name or "step", 0, 100)
    graph = built.graph(tmp_path)
    rows = graph.trace.events.index.tolist()
    sources = [
        path_picture(hg.critical_path(graph)).source,
        around_picture(graph, rows[0], 2).source,
        between_picture(graph, rows[0], rows[0]).source,
    ]
    *laid, rest = dot("".join(sources)).split("\nstop\n")
    assert not rest
    for source, picture in zip(sources, laid, strict=True):
        assert "\x00" not in source
        assert picture.count("\nnode b") == len(boxes(source)) >= 1


def test_names_are_printed_as_they_are(tmp_path: Path) -> None:
    built = TraceBuilder()
    built.op('a<b>&"c\\l', 0, 50)
    assert "<B>a&lt;b&gt;&amp;&quot;c\\l</B>" in path_of(built, tmp_path).source.replace("&#92;", "\\")


def test_the_same_trace_gives_the_same_text(tmp_path: Path) -> None:
    def drawn() -> list[str]:
        graph = many_launches(9).graph(tmp_path)
        path = path_picture(hg.critical_path(graph))
        return [path.source, around_picture(graph, 0, 3).source, between_picture(graph, 0, 18).source]

    assert drawn() == drawn()


# -- files ------------------------------------------------------------------------------------------------------------

TINY = Picture("digraph {a -> b}\n", None)


@pytest.mark.parametrize("suffix", [".dot", ".gv", ".DOT"])
def test_the_text_is_written_without_any_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    monkeypatch.setenv("PATH", "")
    write_picture(TINY, tmp_path / f"a{suffix}")
    assert (tmp_path / f"a{suffix}").read_text() == TINY.source


@pytest.mark.sampled(3)
@needs_dot
@pytest.mark.parametrize(("suffix", "head"), [(".svg", b"<?xml"), (".png", b"\x89PNG"), (".SVG", b"<?xml")])
def test_pictures_are_rendered(tmp_path: Path, suffix: str, head: bytes) -> None:
    write_picture(path_of(trace(), tmp_path), tmp_path / f"a{suffix}")
    assert (tmp_path / f"a{suffix}").read_bytes().startswith(head)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_a_missing_program_is_an_error_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    monkeypatch.setenv("PATH", "")
    attempts: list[Callable[[], None]] = [
        lambda: check_picture(tmp_path / f"a{suffix}"),
        lambda: write_picture(TINY, tmp_path / f"a{suffix}"),
    ]
    for attempt in attempts:
        with pytest.raises(
            MissingProgramError, match=r"apt-get install graphviz, or write a file whose name ends in \.dot"
        ) as caught:
            attempt()
        assert (isinstance(caught.value, HtaGraphError), caught.value.exit_status) == (True, 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.pdf", "a", "a.", "svg"])
def test_an_unknown_suffix_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"use a name that ends in \.dot, \.gv, \.svg, \.png"):
        write_picture(TINY, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@needs_dot
def test_what_dot_cannot_draw_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "a.svg"
    target.write_text("old")
    with pytest.raises(OutputError, match=r"dot failed: .*syntax error"):
        write_picture(Picture("digraph {", None), target)
    assert target.read_text() == "old"


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="its folder does not exist"):
        write_picture(TINY, tmp_path / "none" / "a.dot")


def test_a_dash_prints_the_text(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write_picture(TINY, "-")
    assert capfdbinary.readouterr().out == TINY.source.encode()
