"""Stages of long computations are reported to a listener, if there is one."""

from __future__ import annotations

import gzip
from pathlib import Path

import hta_graph as hg
from hta_graph.base.progress import (
    advance_stage,
    begin_stage,
    clear_stage,
    inner_stage,
    listen_to_stages,
    mute_stages,
    tracked,
)
from tests.support.command_line import two_steps


class Heard:
    """A listener that notes what it hears."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.parts: list[tuple[int, int]] = []
        self.cleared = 0

    def begin(self, stage: str, *, is_inner: bool) -> None:
        self.stages.append(f"({stage})" if is_inner else stage)

    def advance(self, done: int, total: int) -> None:
        self.parts.append((done, total))

    def clear(self) -> None:
        self.cleared += 1


def test_reading_and_building_are_stages_with_bytes_of_all(tmp_path: Path) -> None:
    text = two_steps().write(tmp_path / "trace.json").read_bytes()
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(text))
    heard = Heard()
    with listen_to_stages(heard):
        hg.build_graph(hg.read_trace(packed))
    assert heard.stages == ["reading trace.json.gz", "building the graph"], "it is decompressed while it is read"
    assert heard.parts == [(packed.stat().st_size,) * 2], "a small file is one piece"
    assert heard.cleared == 1


def test_without_a_listener_nothing_is_noted() -> None:
    begin_stage("alone")
    advance_stage(1, 2)
    clear_stage()
    heard = Heard()
    with listen_to_stages(heard), inner_stage("part"):
        pass
    assert (heard.stages, heard.parts) == ([], [])


def test_an_outer_stage_continues_after_an_inner_one() -> None:
    heard = Heard()
    with listen_to_stages(heard):
        begin_stage("outer")
        with inner_stage("part"):
            begin_stage("decompressing")
        with inner_stage("part"):
            pass
    assert heard.stages == ["outer", "(part)", "outer", "outer"]


def test_parts_of_what_has_its_own_progress_are_muted() -> None:
    heard = Heard()
    with listen_to_stages(heard):
        with mute_stages():
            begin_stage("one of many")
            advance_stage(1, 2)
        begin_stage("next")
    assert (heard.stages, heard.parts) == (["next"], [])


def test_what_is_counted_advances_the_running_stage() -> None:
    heard = Heard()
    with listen_to_stages(heard):
        begin_stage("replaying changes")
        assert list(tracked(iter("ab"))) == ["a", "b"]
        assert list(tracked([])) == []
    assert (heard.stages, heard.parts) == (["replaying changes"], [(1, 2), (2, 2)])
    assert list(tracked([3])) == [3]


def test_changes_that_are_replayed_are_counted(tmp_path: Path) -> None:
    graph = hg.build_graph(hg.read_trace(two_steps().write(tmp_path / "trace.json")))
    heard = Heard()
    with listen_to_stages(heard):
        begin_stage("replaying changes")
        hg.opportunities(graph)
    assert {done == total for done, total in heard.parts} == {False, True}
    assert heard.stages == ["replaying changes"]
