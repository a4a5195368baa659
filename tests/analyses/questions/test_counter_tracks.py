"""Traces with counters: the original rows untouched, the tracks of HTA behind them, and they arrive in Perfetto."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from analyses.cli.main import main
from analyses.declare.scope import whole
from analyses.hta.frame import hta_scopes
from analyses.hta.queues_and_launches import TimeSeriesTypes, hta_generate_trace_with_counters
from analyses.questions.counter_tracks import RATES, counter_tracks
from hta_graph.base.errors import OutputError
from hta_graph.export.perfetto.append_events import write_counters
from tests.browser.perfetto_ui import PerfettoUI, ask, missing
from tests.support.golden_graphs import NANOSECONDS, WHOLE_MICROSECONDS, answered, graphs
from tests.support.merged_ranks import labelled, with_own_process, write_merged
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import TraceBuilder

GBPS = "memory bandwidth (GB/s)"
TRACKS = """
select t.name, count(*), max(value) from counter c join process_counter_track t on t.id = c.track_id
group by t.name order by t.name"""
ERRORS = "select name, sum(value) from stats where severity in ('error', 'data_loss') and value > 0 group by name"


def two_streams(**header: Any) -> TraceBuilder:
    """Launches on two streams of one GPU, and two copies."""
    trace = TraceBuilder(**header)
    trace.launch("a", (0, 2), (10.125, 20), 1)
    trace.launch("b", (3, 5), (20, 30), 2)
    trace.launch("c", (4, 5), (6, 9), 3, stream=9)
    trace.call("cudaMemcpyAsync", 30, 31, 4)
    trace.copy("Memcpy HtoD (Pinned -> Device)", 32, 34, 4, bytes=4_000, **{GBPS: 2.0})
    trace.call("cudaMemcpyAsync", 36, 37, 5)
    trace.copy("Memcpy HtoD (Pinned -> Device)", 40, 40, 5, bytes=64)
    return trace


def written(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    found: dict[str, Any] = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    return found


def points(rows: list[dict[str, Any]]) -> dict[tuple[str, str | None], list[tuple[float, float]]]:
    tracks: dict[tuple[str, str | None], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        ((_, value),) = row["args"].items()
        tracks[row["name"], row.get("id")].append((row["ts"], value))
    return dict(tracks)


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_counters_stand_behind_the_rows_which_stay_as_they_are(suffix: str, tmp_path: Path) -> None:
    source = two_streams(baseTimeNanoseconds=1_000_000_007, note="kept").write(tmp_path / f"t{suffix}")
    graph = hg.build_graph(hg.read_trace(source))
    target = tmp_path / f"out{suffix}"
    count = write_counters(graph.trace, counter_tracks(whole(0, graph)), target)
    before, after = written(source), written(target)
    size = len(before["traceEvents"])
    assert after["traceEvents"][:size] == before["traceEvents"]
    assert {key: value for key, value in after.items() if key != "traceEvents"} == {
        key: value for key, value in before.items() if key != "traceEvents"
    }
    added = after["traceEvents"][size:]
    assert len(added) == count == 14
    assert {(row["ph"], row["pid"]) for row in added} == {("C", 0)}
    assert points(added) == {
        ("Queue Length", "7"): [
            (0, 1), (3, 2), (10.125, 1), (20, 0), (30, 1), (32, 0), (36, 1), (40, 0),
        ],
        ("Queue Length", "9"): [(4, 1), (6, 0)],
        ("Memcpy HtoD", None): [(32, 2.0), (34, 0.0), (40, 0.064), (41, 0.0)],
    }  # fmt: skip


def test_a_trace_without_gpu_work_gets_no_counters_and_stays_valid(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::add", 0, 1)
    graph = trace.graph(tmp_path)
    assert write_counters(graph.trace, counter_tracks(whole(0, graph)), tmp_path / "out.json") == 0
    assert written(tmp_path / "out.json") == trace.document()


def test_hta_writes_beside_the_input_or_where_told(tmp_path: Path) -> None:
    graph = hg.build_graph(hg.read_trace(two_streams().write(tmp_path / "rank0.json.gz")))
    scopes = [whole(0, graph)]
    assert hta_generate_trace_with_counters(
        scopes, time_series=None, output_suffix="_with_counters", output_dir=None
    ) == [tmp_path / "rank0_with_counters.json.gz"]
    (tmp_path / "elsewhere").mkdir()
    only = TimeSeriesTypes.QUEUE_LENGTH
    (target,) = hta_generate_trace_with_counters(scopes, only, "+", tmp_path / "elsewhere")
    assert target == tmp_path / "elsewhere" / "rank0+.json.gz"
    assert Counter(row["name"] for row in written(target)["traceEvents"] if row["ph"] == "C") == {"Queue Length": 10}
    rates = counter_tracks(scopes[0], [RATES])
    assert [(track.name, track.argument, track.id) for track in rates] == [("Memcpy HtoD", "Memcpy BW", None)]


def test_hta_refuses_what_would_overwrite(tmp_path: Path) -> None:
    graph = hg.build_graph(hg.read_trace(two_streams().write(tmp_path / "rank0.json")))
    with pytest.raises(OutputError, match="is an input"):
        hta_generate_trace_with_counters([whole(0, graph)], output_suffix="", time_series=None, output_dir=None)
    with pytest.raises(OutputError, match="two ranks"):
        hta_generate_trace_with_counters(
            [whole(0, graph), whole(1, graph)], time_series=None, output_suffix="_with_counters", output_dir=None
        )
    with pytest.raises(OutputError, match="does not exist"):
        hta_generate_trace_with_counters(
            [whole(0, graph)], output_dir=tmp_path / "nowhere", time_series=None, output_suffix="_with_counters"
        )
    assert [item.name for item in tmp_path.iterdir()] == ["rank0.json"]


def test_command_writes_one_file_or_a_folder_of_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ranks, out = tmp_path / "ranks", tmp_path / "out"
    ranks.mkdir()
    out.mkdir()
    for rank in (0, 1):
        two_streams(distributedInfo={"rank": rank, "world_size": 2}).write(ranks / f"rank{rank}.json")
    assert main(["counters", str(ranks), "-o", str(out)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{out}/rank{rank}_with_counters.json: 14 points on 3 counter tracks; open it at ui.perfetto.dev"
        for rank in (0, 1)
    ]
    one = tmp_path / "one.json"
    assert main(["counters", str(ranks), "--rank", "1", "-o", str(one), "--only", "memory-bandwidth"]) == 0
    assert {row["name"] for row in written(one)["traceEvents"] if row["ph"] == "C"} == {"Memcpy HtoD"}
    assert main(["counters", str(ranks), "-o", str(tmp_path / "both.json")]) == 2
    assert "name an existing folder, or one rank with --rank" in capsys.readouterr().err
    assert not (tmp_path / "both.json").exists()
    assert main(["counters", str(ranks / "rank0.json"), "-o", str(ranks / "rank0.json")]) == 1


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=f"the counters' browser test needs {missing()}")
def test_every_track_arrives_in_perfetto(tmp_path: Path) -> None:
    graph = hg.build_graph(hg.read_trace(two_streams().write(tmp_path / "t.json")))
    write_counters(graph.trace, counter_tracks(whole(0, graph)), tmp_path / "out.json")
    with PerfettoUI() as ui, ui.open((tmp_path / "out.json").read_bytes()) as page:
        assert ask(page, ERRORS) == []
        assert [(name, int(count), value) for name, count, value in ask(page, TRACKS)] == [
            ("Memcpy HtoD Memcpy BW", 4, 2),
            ("Queue Length id: 7 Queue Length", 8, 2),
            ("Queue Length id: 9 Queue Length", 2, 1),
        ]


@pytest.mark.shared
@pytest.mark.parametrize("name", [*WHOLE_MICROSECONDS[:4], *NANOSECONDS[:3]])
def test_hta_draws_the_same_points(name: str, tmp_path: Path) -> None:
    """Sums may differ by HTA's order at one instant and by its rounding; nanogpt's window is wrong there."""
    (first, *_) = hta_scopes(graphs(name))
    (expected,) = answered(name, "generate_trace_with_counters")["value"]
    (target,) = hta_generate_trace_with_counters(
        [first], output_dir=tmp_path, time_series=None, output_suffix="_with_counters"
    )
    found = [row for row in written(target)["traceEvents"] if row["ph"] == "C"]
    assert target.name == expected["file"]
    assert len(found) == expected["counter_events"]
    own = {
        f"{next(iter(rows[0]['args']))} | name={key[0]} | id={key[1]}": rows
        for key in points(found)
        for rows in ([row for row in found if (row["name"], row.get("id")) == key],)
    }
    assert {key: len(rows) for key, rows in own.items()} == {key: by["count"] for key, by in expected["by"].items()}
    for key, by in expected["by"].items():
        highest = max(next(iter(row["args"].values())) for row in own[key])
        assert highest == pytest.approx(by["max"], abs=0 if name in WHOLE_MICROSECONDS else 1)


@pytest.mark.slow
@pytest.mark.shared
def test_read_only_inputs_need_an_output_folder(tmp_path: Path) -> None:
    assert (SHARED / "traces" / "dlrm_8xv100").is_dir()
    found = hta_generate_trace_with_counters(
        hta_scopes(graphs("dlrm_8xv100")), output_dir=tmp_path, time_series=None, output_suffix="_with_counters"
    )
    assert [path.name for path in found] == [f"kineto_rank{rank}_with_counters.json.gz" for rank in range(8)]


def test_ranks_of_one_file_are_written_under_names_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    merged, out = tmp_path / "merged.json", tmp_path / "out"
    out.mkdir()
    ranks = [with_own_process(written(two_streams().write(tmp_path / "rank.json")), rank) for rank in (0, 1)]
    write_merged(ranks, labelled, merged)
    assert main(["counters", str(merged), "-o", str(out)]) == 0
    assert [path.name for path in sorted(out.iterdir())] == [f"merged_rank{rank}_with_counters.json" for rank in (0, 1)]
    capsys.readouterr()
    assert main(["counters", str(merged), "-o", str(tmp_path / "one.json")]) == 2
    assert "cannot hold several ranks; name an existing folder" in capsys.readouterr().err
