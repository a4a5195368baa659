"""Overlays in the real Perfetto UI: no more import errors than the original, every slice and every arrow arrives."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hta_graph as hg
from hta_graph.export.perfetto.path_overlay import CLASS_TITLE, PERFETTO_URL, write_overlay
from hta_graph.paths.critical_path import CriticalPath, critical_path
from tests.browser.perfetto_ui import PATIENCE_MS, PerfettoUI, ask, missing
from tests.support.gloo_builder import late_ranks
from tests.support.make_samples import SAMPLE
from tests.support.overlay import overlay_bytes
from tests.support.shared_traces import SHARED

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=f"the overlay's browser test needs {missing()}"),
]

TRACES = [
    pytest.param(SAMPLE, id="sample"),
    pytest.param(SHARED / "traces" / "sync_alexnet_a100" / "rank0.json.gz", id="whole-us", marks=pytest.mark.shared),
    pytest.param(SHARED / "traces" / "ns_resolution_v100" / "rank0.json.gz", id="epoch-ns", marks=pytest.mark.shared),
]
ERRORS = "select name, sum(value) from stats where severity in ('error', 'data_loss') and value > 0 group by name"
FLOWS = "select count(*) from flow"
SLICES = """
select s.name, s.dur, s.depth from slice s join thread_track t on t.id = s.track_id
join thread using (utid) join process using (upid) where process.name = 'Critical path' order by s.ts, s.id"""
ARROWS = """
select (a.category is 'critical_path') + (b.category is 'critical_path')
from flow f join slice a on a.id = f.slice_out join slice b on b.id = f.slice_in
where a.category is 'critical_path' or b.category is 'critical_path'"""
TRACKS = """
select thread.name from slice s join thread_track t on t.id = s.track_id
join thread using (utid) join process using (upid) where process.name = 'Critical path'"""
PROCESSES = """
select distinct process.name from slice s join thread_track t on t.id = s.track_id
join thread using (utid) join process using (upid)"""
PINNED = "() => window.app.trace.workspace.pinnedTracks.some((track) => track.name.startsWith('Path of '))"
ROUNDING_NS = 512
"""Perfetto reads epoch microseconds with a fraction as float64, and multiplies those."""


@pytest.fixture(scope="module")
def ui() -> Iterator[PerfettoUI]:
    with PerfettoUI() as opened:
        yield opened


def path_of(trace: Path) -> CriticalPath:
    return critical_path(hg.build_graph(hg.read_trace(trace)))


def errors(page: Page) -> dict[str, int]:
    return {name: int(count) for name, count in ask(page, ERRORS)}


@pytest.mark.parametrize("trace", TRACES)
def test_overlay_arrives_whole_and_as_cleanly_as_the_original(ui: PerfettoUI, trace: Path, tmp_path: Path) -> None:
    path = path_of(trace)
    counts = write_overlay(path, tmp_path / "overlay.json.gz")
    with ui.open(trace.read_bytes()) as page:
        before, flows_before = errors(page), int(ask(page, FLOWS)[0][0])
    with ui.open((tmp_path / "overlay.json.gz").read_bytes()) as page:
        after, flows_after = errors(page), int(ask(page, FLOWS)[0][0])
        slices, arrows = ask(page, SLICES), [int(ours) for (ours,) in ask(page, ARROWS)]
    assert {name: count for name, count in after.items() if count > before.get(name, 0)} == {}
    assert flows_after - flows_before == len(arrows) == counts.arrows > 0
    assert set(arrows) == {1}, "an arrow joins one slice of the path and one of the original"
    titles = set(CLASS_TITLE.values())
    assert len([name for name, *_ in slices if name not in titles]) == counts.runs
    assert {int(depth) for name, length, depth in slices if int(length)} == {0, 1}
    assert {int(depth) for name, _, depth in slices if name in titles} == {0}
    shown = sum(int(length) for name, length, _ in slices if name in titles)
    assert abs(shown - path.length_ns) <= 2 * ROUNDING_NS * len(path.segment_table)


def test_a_job_arrives_as_cleanly_as_its_ranks_and_goes_from_rank_to_rank(ui: PerfettoUI, tmp_path: Path) -> None:
    files = late_ranks(tmp_path, 10, 35)
    path = critical_path(hg.read_job(files))
    counts = write_overlay(path, tmp_path / "overlay.json.gz")
    with ui.open((tmp_path / "overlay.json.gz").read_bytes()) as page:
        assert errors(page) == {}
        processes = {name for (name,) in ask(page, PROCESSES)}
        slices, arrows = ask(page, SLICES), [int(ours) for (ours,) in ask(page, ARROWS)]
        tracks = {name for (name,) in ask(page, TRACKS)}
    assert processes == {"rank 0: 100", "rank 1: 100", "Critical path"}
    assert tracks == {"Path of ProfilerStep#1, rank 0", "Path of ProfilerStep#1, rank 1"}
    assert len([name for name, *_ in slices if name not in CLASS_TITLE.values()]) == counts.runs
    assert (len(arrows), sorted(arrows)[-1]) == (counts.arrows, 2), "one arrow joins two slices of the path"


def test_a_file_with_nan_opens_after_it_was_rewritten(ui: PerfettoUI, tmp_path: Path) -> None:
    text = gzip.decompress(SAMPLE.read_bytes()).replace(b'"traceEvents": [', b'"note": NaN, "traceEvents": [', 1)
    (tmp_path / "trace.json").write_bytes(text)
    assert b"NaN" in text
    path = path_of(tmp_path / "trace.json")
    with ui.open(overlay_bytes(path)) as page:
        assert errors(page) == {}
        assert len([name for name, *_ in ask(page, SLICES) if name not in CLASS_TITLE.values()]) == len(path.runs)


def test_the_address_that_is_recommended_pins_the_path(ui: PerfettoUI) -> None:
    with ui.open(overlay_bytes(path_of(SAMPLE)), PERFETTO_URL.removeprefix("https://ui.perfetto.dev/")) as page:
        page.wait_for_function(PINNED, timeout=PATIENCE_MS)
