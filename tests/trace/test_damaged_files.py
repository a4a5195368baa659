"""A file with events that are no JSON, such as names with quotes: --salvage reads all others, and says what is lost."""

from __future__ import annotations

import json
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from hta_graph.base.errors import TraceError
from hta_graph.trace import json_reader
from hta_graph.trace.event_args import read_event_args
from tests.support.command_line import one_error, run_command
from tests.support.deep_tests import deep
from tests.support.overlay import overlay_bytes

HEAD = '{"schemaVersion": 1, "baseTimeNanoseconds": 1000, "traceEvents": [\n  '
TAIL = '\n], "traceName": "x{}", "distributedInfo": {"rank": 5}}'
SEPARATOR = ",\n  "


def event(at: int, name: str = "op") -> str:
    """Return the text of an event with objects, brackets and braces in its arguments and name."""
    row = {
        "ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": at + 0.5, "dur": 1,
        "args": {"Input Dims": [[at], []], "a": [{"b": {"c": at}}, {"name": "}, {"}], "External id": at + 1},
    }  # fmt: skip
    return json.dumps(row, ensure_ascii=False)


ROWS = [event(at, ["op", '}, {"ph": "X"', "é}}"][at % 3]) for at in range(60)]

DAMAGES = {
    "quotes": lambda row: row.replace('"cat": "cpu_op", "name": "', '"cat": "cpu_op", "name": "f("a", "b")', 1),
    "one quote": lambda row: row.replace('"pid"', '"a" b", "pid"', 1),
    "a Windows path": lambda row: row.replace('"name": "', '"name": "C:\\dir\\', 1),
    "a backslash at the end": lambda row: row.replace('", "pid"', '\\", "pid"', 1),
    "lost bytes": lambda row: row.replace('"name": "', '"nam', 1),
    "a lost brace": lambda row: row[:-1],
    "a word": lambda row: row.replace('"dur": 1', '"dur": none', 1),
    "nothing but noise": lambda _: "{@@@}",
}


def write(folder: Path, rows: list[str]) -> Path:
    path = folder / "t.json"
    path.write_text(HEAD + SEPARATOR.join(rows) + TAIL, encoding="utf-8")
    return path


def found_rows(trace: hg.Trace) -> list[int]:
    """Return which rows were read, by their times."""
    return ((trace.events.start - 1500) // 1000).tolist()


@pytest.fixture(params=[700, 1 << 20])
def parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Read in parts of a few events, or in one."""
    monkeypatch.setattr(json_reader, "PART_BYTES", request.param)
    size: int = request.param
    return size


@pytest.mark.sampled(24)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("bad", [[0], [30], [59], [10, 11, 12], [0, 20, 59], list(range(0, 60, 2))])
def test_all_other_events_are_read(tmp_path: Path, parts: int, damage: str, bad: list[int]) -> None:
    rows = [DAMAGES[damage](row) if at in bad else row for at, row in enumerate(ROWS)]
    path = write(tmp_path, rows)
    with pytest.raises(TraceError, match=r"complete events; (salvage=True recovers them|record the trace again)"):
        hg.read_trace(path)
    trace = hg.read_trace(path, salvage=True)
    assert found_rows(trace) == [at for at in range(60) if at not in bad]
    assert trace.rank == 5
    size = path.stat().st_size
    said = re.fullmatch(
        rf"is not JSON: .* at byte [\d,]+; {60 - len(bad)} complete events recovered, (\d+) skipped "
        rf"\(([\d,]+) of {size:,} bytes\)",
        trace.salvaged or "",
    )
    assert said, trace.salvaged
    # Noise has no events that could be counted, only places where there should be some.
    assert int(said[1]) == len(bad) or (damage == "nothing but noise" and 1 <= int(said[1]) < len(bad))
    lost = sum(len(rows[at].encode()) for at in bad)
    assert abs(int(said[2].replace(",", "")) - lost) <= len(TAIL) + 8 * len(bad)
    assert parts


@pytest.mark.parametrize("seed", [1, 2, *[deep(n) for n in range(3, 40)]])
def test_random_damage_costs_the_damaged_events_alone(tmp_path: Path, parts: int, seed: int) -> None:
    rng = random.Random(seed)
    bad = set(rng.sample(range(60), rng.randrange(1, 20)))
    rows = [DAMAGES[rng.choice(list(DAMAGES))](row) if at in bad else row for at, row in enumerate(ROWS)]
    trace = hg.read_trace(write(tmp_path, rows), salvage=True)
    assert found_rows(trace) == [at for at in range(60) if at not in bad]
    assert parts


def test_details_and_overlay_are_those_of_the_events_that_were_read(tmp_path: Path, parts: int) -> None:
    rows = [DAMAGES["quotes"](row) if at in (7, 8, 40) else row for at, row in enumerate(ROWS)]
    trace = hg.read_trace(write(tmp_path, rows), salvage=True)
    kept = [at for at in range(60) if at not in (7, 8, 40)]
    found = read_event_args(trace, ["Input Dims"])["Input Dims"]
    assert [value[0][0] for value in found] == kept
    overlay = json.loads(overlay_bytes(hg.critical_path(hg.build_graph(trace), hg.whole())))
    assert overlay["traceEvents"][:57] == [json.loads(ROWS[at]) for at in kept]
    assert overlay["distributedInfo"] == {"rank": 5}
    assert parts


def test_a_file_that_is_also_truncated(tmp_path: Path, parts: int) -> None:
    rows = [DAMAGES["quotes"](row) if at == 20 else row for at, row in enumerate(ROWS)]
    path = write(tmp_path, rows)
    path.write_bytes(path.read_bytes()[: -len(TAIL) - 40])
    trace = hg.read_trace(path, salvage=True)
    assert found_rows(trace) == [at for at in range(59) if at != 20]
    assert parts


@pytest.mark.sampled(6)
@pytest.mark.parametrize("token", ["inf", "-inf", "nan", "-nan", "NaN", "Infinity"])
def test_what_is_no_number_costs_nothing(tmp_path: Path, parts: int, token: str) -> None:
    """C++ prints rates so; they are arguments of events that are sound."""
    rows = [row.replace('"args": {', f'"args": {{"memory bandwidth (GB/s)": {token}, ') for row in ROWS]
    trace = hg.read_trace(write(tmp_path, rows))
    assert found_rows(trace) == list(range(60))
    assert trace.diagnostics["tolerant_json"] == 1
    overlay = json.loads(overlay_bytes(hg.critical_path(hg.build_graph(trace), hg.whole())))
    assert overlay["traceEvents"][59]["args"]["memory bandwidth (GB/s)"] is None
    assert parts


def test_names_that_look_like_such_numbers_stay(tmp_path: Path) -> None:
    rows = [event(0, "inf"), event(1, "f(x: inf, nan]").replace('"dur": 1', '"dur": inf'), event(2, 'a \\" nan')]
    trace = hg.read_trace(write(tmp_path, rows))
    assert sorted(trace.names) == ['a \\" nan', "inf"]
    assert trace.diagnostics["rows_dropped_bad_time"] == 1


def test_the_command_says_what_is_lost(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write(tmp_path, [DAMAGES["quotes"](row) if at == 3 else row for at, row in enumerate(ROWS)])
    assert "after 3 complete events; --salvage recovers them" in one_error(capsys, tmp_path, "info", path)
    status, _, err = run_command(capsys, "info", "--salvage", path)
    assert status == 0
    assert re.search(r"59 complete events recovered, 1 skipped \(\d+ of [\d,]+ bytes\)\n$", err)


def test_a_file_of_nothing_else_is_an_error(tmp_path: Path, parts: Any) -> None:
    path = write(tmp_path, ["{@}" for _ in range(50)])
    with pytest.raises(TraceError, match="after 0 complete events; record the trace again"):
        hg.read_trace(path, salvage=True)
    assert parts


def test_a_last_event_of_many_ends_is_not_read_with_the_header_each_time(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    head = '{"x": [' + "1, " * 500_000 + '1], "traceEvents": ['
    path.write_text(head + SEPARATOR.join(ROWS) + ', {"ph": "X", "name": "a"b", "q": [' + "} ]" * 1000 + "\n}")
    begin = time.process_time()
    assert len(found_rows(hg.read_trace(path, salvage=True))) == len(ROWS)
    assert time.process_time() - begin < 20
