"""Pictures of lanes: what stands where, what is merged and said, and that nothing of a trace can break them."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

import hta_graph as hg
from analyses.cli.main import main
from hta_graph.base.colours import BOUND_COLOUR, EVENT_COLOUR
from hta_graph.base.errors import QueryError, UsageError
from hta_graph.export.picture import Picture, check_picture, lanes_picture, write_picture
from hta_graph.export.picture.style import link_colour
from hta_graph.model import EdgeKind
from tests.export.picture.read_svg import Shape, arrows_in, bars_in, lanes_in, parsed, texts_in
from tests.support.gloo_builder import late_ranks
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import TraceBuilder

pytestmark = pytest.mark.sampled(2)


def trace() -> TraceBuilder:
    """Return an operator that launches two kernels on two streams, and a call that waits for one of them."""
    built = TraceBuilder()
    built.op("aten::mm", 0, 50)
    built.launch("gemm", (5, 10), (20, 60), 1)
    built.launch("relu", (15, 25), (30, 45), 2, stream=20)
    built.call("cudaDeviceSynchronize", 55, 90)
    return built


def path_of(built: TraceBuilder, tmp_path: Path) -> hg.CriticalPath:
    return hg.critical_path(built.graph(tmp_path), hg.whole())


@pytest.fixture
def picture(tmp_path: Path) -> Picture:
    return lanes_picture(path_of(trace(), tmp_path))


def bar_of(source: str, name: str) -> Shape:
    (found,) = [bar for bar in bars_in(source) if bar.said.startswith(f"{name}:")]
    return found


# -- what stands where ------------------------------------------------------------------------------------------------


def test_there_is_a_lane_for_each_thread_and_stream_in_order(picture: Picture) -> None:
    assert lanes_in(picture.source) == ["thread 100:1", "stream 0:1:7", "stream 0:1:20"]


def test_bars_are_as_long_as_events_and_say_what_they_are(picture: Picture) -> None:
    gemm, relu, op = (bar_of(picture.source, name) for name in ("gemm", "relu", "aten::mm"))
    assert gemm.said == "gemm: 40 µs, #2"
    assert gemm.width / relu.width == pytest.approx(40 / 15, rel=0.01)
    assert (gemm.x - op.x) / gemm.width == pytest.approx(20 / 40, rel=0.01)
    assert {bar.fill for bar in (gemm, relu)} == {EVENT_COLOUR["kernel"]}


def test_what_is_nested_stands_below_and_the_deepest_on_top_of_the_third(tmp_path: Path) -> None:
    built = TraceBuilder()
    for depth in range(6):
        built.op(f"op{depth}", depth, 100 - depth)
    source = lanes_picture(path_of(built, tmp_path)).source
    tops = [bar_of(source, f"op{depth}").y for depth in range(6)]
    assert tops[0] < tops[1] < tops[2] == tops[3] == tops[5]
    names = [bar.said.split(":")[0] for bar in bars_in(source)]
    assert names == [f"op{depth}" for depth in range(6)], "the innermost is drawn last"


def test_the_strip_of_the_path_tiles_the_window_in_the_colours_of_its_classes(tmp_path: Path) -> None:
    path = path_of(trace(), tmp_path)
    source = lanes_picture(path).source
    strip = [shape for shape in bars_in(source, of_events=False) if shape.height == 13]
    assert {shape.fill for shape in strip} == {BOUND_COLOUR[bound] for bound, ns in path.by_bound_ns.items() if ns}
    ends = [(shape.x, shape.x + shape.width) for shape in strip]
    assert all(before[1] == pytest.approx(after[0], abs=0.15) for before, after in pairwise(ends))
    scale = sum(shape.width for shape in strip) / path.length_ns
    compute = sum(shape.width for shape in strip if shape.said == "gpu_compute_bound")
    assert compute == pytest.approx(path.by_bound_ns["gpu_compute_bound"] * scale, abs=2)


def test_each_lane_shows_where_the_path_runs_on_it(tmp_path: Path) -> None:
    path = path_of(trace(), tmp_path)
    strips = [shape for shape in bars_in(lanes_picture(path).source, of_events=False) if shape.height == 5]
    on_lanes = {shape.y for shape in strips}
    assert len(on_lanes) == len({lane for lane in path.segment_table.lane.tolist() if lane >= 0}) == 2


def test_edges_between_lanes_are_arrows_in_their_colours(picture: Picture) -> None:
    colours = [arrow.colour for arrow in arrows_in(picture.source)]
    assert sorted(colours) == sorted([link_colour(EdgeKind.LAUNCH)] * 2 + [link_colour(EdgeKind.DEVICE_SYNC)] * 2)
    assert {"launch", "device_sync"} <= set(texts_in(picture.source))


def test_the_paths_arrows_are_thick_and_inferred_ones_dashed(picture: Picture) -> None:
    syncs = [arrow for arrow in arrows_in(picture.source) if arrow.colour == link_colour(EdgeKind.DEVICE_SYNC)]
    assert sorted(arrow.width for arrow in syncs) == [1.1, 2]
    assert all(arrow.dashed for arrow in syncs)
    launches = [arrow for arrow in arrows_in(picture.source) if arrow.colour == link_colour(EdgeKind.LAUNCH)]
    assert not any(arrow.dashed for arrow in launches)
    assert {"dashed: inferred", "thick: on the path"} <= set(texts_in(picture.source))


def test_an_arrow_leads_from_its_event_to_the_other(picture: Picture) -> None:
    call, gemm = bar_of(picture.source, "gemm"), bar_of(picture.source, "gemm")
    launch = max(
        (arrow for arrow in arrows_in(picture.source) if arrow.colour == link_colour(EdgeKind.LAUNCH)),
        key=lambda arrow: arrow.width,
    )
    assert launch.end == (pytest.approx(gemm.x, abs=0.2), pytest.approx(gemm.y, abs=0.2))
    assert launch.start[0] < call.x


def test_kinds_within_a_lane_are_drawn_when_they_are_asked_for(tmp_path: Path) -> None:
    built = trace()
    built.launch("add", (26, 30), (60.5, 70), 3)
    path = path_of(built, tmp_path)
    source = lanes_picture(path, kinds=[EdgeKind.STREAM_ORDER]).source
    assert {arrow.colour for arrow in arrows_in(source)} == {link_colour(EdgeKind.STREAM_ORDER)}


def test_the_axis_counts_from_the_start_of_the_window(tmp_path: Path) -> None:
    graph = trace().graph(tmp_path)
    late = lanes_picture(hg.critical_path(graph, hg.between(20_000, 90_000))).source
    assert {"0", "10 µs", "70 µs"} <= set(texts_in(late))
    axis = [shape.x for shape in bars_in(late, of_events=False)]
    assert bar_of(late, "aten::mm").x == pytest.approx(min(x for x in axis if x), abs=0.1), "cut at the window's start"


def test_the_legend_has_what_occurs_and_nothing_else(picture: Picture) -> None:
    said = set(texts_in(picture.source))
    assert {"kernel", "operator", "runtime call", "gpu_compute_bound", "sync_overhead"} <= said
    assert not {"copy", "annotation", "data_loading", "event_wait", "communication"} & said


# -- jobs -------------------------------------------------------------------------------------------------------------


def test_a_job_has_lanes_rank_by_rank_and_arrows_from_the_last_comer(tmp_path: Path) -> None:
    job = hg.read_job(late_ranks(tmp_path, 10, 35))
    source = lanes_picture(hg.critical_path(job, hg.whole())).source
    assert [lane.split(":")[0] for lane in lanes_in(source)] == ["rank 0"] * 2 + ["rank 1"] * 2
    (met,) = [arrow for arrow in arrows_in(source) if arrow.colour == link_colour(EdgeKind.COLLECTIVE)]
    assert met.start[1] > met.end[1], "from rank 1 up to rank 0"
    waits = [bar for bar in bars_in(source) if bar.fill == EVENT_COLOUR["waiting"]]
    came = [bar for bar in bars_in(source) if bar.said.startswith("gloo:all_reduce") and bar.y > waits[0].y][-1]
    assert len(waits) == 1
    assert met.end[0] == pytest.approx(came.x, abs=0.2), "when the work of the last one starts"
    assert waits[0].x + waits[0].width <= met.end[0]


def test_of_many_ranks_few_are_drawn_and_that_is_said(tmp_path: Path) -> None:
    job = hg.read_job(late_ranks(tmp_path, *range(10, 70, 10)))
    picture = lanes_picture(hg.critical_path(job, hg.whole()))
    assert len({lane.split(":")[0] for lane in lanes_in(picture.source)}) == 4
    assert picture.left_out == "left out: 2 ranks with less of the path"


def test_a_job_of_few_rows_is_refused_rather_than_drawn_with_holes(tmp_path: Path) -> None:
    path = hg.critical_path(hg.read_job(late_ranks(tmp_path, 10, 35), summaries=True))
    with pytest.raises(QueryError, match="a picture of lanes needs all events of all ranks"):
        lanes_picture(path)


# -- size -------------------------------------------------------------------------------------------------------------


def many_launches(count: int) -> TraceBuilder:
    built = TraceBuilder()
    for number in range(count):
        at = 10 * number
        built.op("aten::add", at, at + 9)
        built.launch("add", (at + 1, at + 5), (at + 7, at + 15), number + 1, stream=number % 2)
    return built


def test_many_events_are_merged_and_that_is_said(tmp_path: Path) -> None:
    picture = lanes_picture(path_of(many_launches(3_000), tmp_path))
    assert picture.left_out is not None
    assert re.match(r"left out: 9,000 events in \d{3} bars: events below [\d.]+ µs are merged", picture.left_out)
    assert len(bars_in(picture.source)) <= 600
    assert len(arrows_in(picture.source)) <= 60
    assert len(picture.source) < 150_000
    assert picture.left_out.split(";")[0] in " ".join(texts_in(picture.source))


def test_few_events_are_all_there(picture: Picture) -> None:
    assert picture.left_out is None
    assert len(bars_in(picture.source)) == 6


def test_of_many_lanes_the_busiest_are_drawn(tmp_path: Path) -> None:
    built = TraceBuilder()
    for tid in range(1, 41):
        built.op("aten::add", 0, 10 + tid, tid=tid)
    picture = lanes_picture(path_of(built, tmp_path))
    assert len(lanes_in(picture.source)) == 12
    assert "thread 100:40" in lanes_in(picture.source)
    assert picture.left_out == "left out: 28 threads and streams with less work"


def test_an_empty_window_and_one_of_no_length_are_drawn(tmp_path: Path) -> None:
    built = trace()
    built.op("later", 500, 510)
    graph = built.graph(tmp_path)
    for window in (hg.between(200_000, 300_000), hg.between(20_000, 20_001)):
        parsed(lanes_picture(hg.critical_path(graph, window)).source)
    lone = TraceBuilder()
    lone.op("only", 10, 10)
    parsed(lanes_picture(hg.critical_path(lone.graph(tmp_path))).source)


@pytest.mark.parametrize("width", [0, 199, 20_001])
def test_a_senseless_width_is_refused(tmp_path: Path, width: int) -> None:
    with pytest.raises(UsageError, match=f"not {width}"):
        lanes_picture(path_of(trace(), tmp_path), width=width)


@pytest.mark.parametrize("width", [200, 420, 1_400])
def test_everything_stands_inside_the_picture(tmp_path: Path, width: int) -> None:
    source = lanes_picture(path_of(trace(), tmp_path), width=width).source
    for shape in [*bars_in(source), *bars_in(source, of_events=False)]:
        assert shape.x >= 0
        assert shape.x + shape.width <= width


# -- texts and files --------------------------------------------------------------------------------------------------

ODD = [
    "",
    "\x00\x01\x1f",
    "<b>&amp;\"'",
    "]]>",
    "</title><script>alert(1)</script>",
    "é漢字\U0001f600\u202e",
    "x" * 5_000,
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ODD)
def test_any_name_is_only_text(tmp_path: Path, name: str) -> None:
    built = TraceBuilder()
    built.op(name, 0, 500)
    built.launch(name, (5, 10), (600, 900), 1)
    source = lanes_picture(path_of(built, tmp_path)).source
    found = {element.tag.rpartition("}")[2] for element in parsed(source).iter()}
    assert found <= {"svg", "title", "rect", "text", "path"}
    assert "\u202e" not in source
    assert len(source) < 20_000


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = (lanes_picture(path_of(many_launches(50), tmp_path)).source for _ in range(2))
    assert first == second


def test_nothing_is_fetched_and_the_ground_is_transparent(picture: Picture) -> None:
    assert re.findall(r"https?://[^\"]*", picture.source) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"<(image|script|use|style|foreignObject)", picture.source)
    width = float(re.findall(r'<svg [^>]*width="([\d.]+)"', picture.source)[0])
    assert not any(shape.width == width for shape in bars_in(picture.source, of_events=False))


def test_python_draws_lanes_and_a_notebook_shows_them(tmp_path: Path) -> None:
    path = path_of(trace(), tmp_path)
    drawn = hg.render(path, tmp_path / "lanes.svg", lanes=True)
    assert (tmp_path / "lanes.svg").read_text(encoding="utf-8") == drawn.source == drawn._repr_svg_()
    assert repr(drawn).endswith("characters of SVG>")
    with pytest.raises(UsageError, match=r"pass hg\.critical_path"):
        hg.render(path.graph, lanes=True)
    with pytest.raises(UsageError, match="omit around and between"):
        hg.render(path, lanes=True, around=1)


@pytest.mark.parametrize("suffix", [".png", ".dot", ".gv"])
def test_lanes_are_svg_and_nothing_else(tmp_path: Path, picture: Picture, suffix: str) -> None:
    with pytest.raises(UsageError, match=r"use a name that ends in \.svg"):
        check_picture(tmp_path / f"a{suffix}", lanes=True)
    with pytest.raises(UsageError, match=r"use a name that ends in \.svg"):
        write_picture(picture, tmp_path / f"a{suffix}")
    assert not (tmp_path / f"a{suffix}").exists()


def test_no_program_is_needed(tmp_path: Path, picture: Picture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    write_picture(picture, tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == picture.source


def test_the_command_writes_lanes_and_says_what_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace_file = many_launches(3_000).write(tmp_path / "trace.json")
    assert main(["render", str(trace_file), "--whole", "--lanes", "-o", str(tmp_path / "lanes.svg")]) == 0
    assert "lanes.svg: left out: 9,000 events in " in capsys.readouterr().err
    assert parsed((tmp_path / "lanes.svg").read_text(encoding="utf-8")).tag.endswith("svg")
    assert main(["render", str(trace_file), "--lanes", "-o", str(tmp_path / "lanes.png")]) == 2
    assert "lanes are drawn as SVG" in capsys.readouterr().err


@pytest.mark.shared
@pytest.mark.parametrize("name", ["ddp_v100", "nanogpt_ddp_8xh100", "cpu_only_gloo", "sam_compile_cudagraph_a100"])
def test_pictures_of_recordings_are_bounded_and_whole(name: str) -> None:
    path = hg.critical_path(hg.read_job(SHARED / "traces" / name))
    picture = lanes_picture(path)
    parsed(picture.source)
    assert len(picture.source) < 150_000
    assert len(bars_in(picture.source)) <= 600
