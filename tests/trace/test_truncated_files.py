"""A large file that breaks off is read in parts like any other: its whole events, and how many there are."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.base.errors import TraceError
from hta_graph.trace import json_reader
from hta_graph.trace.event_args import read_event_args
from tests.support.compare_traces import same_columns
from tests.support.deep_tests import deep
from tests.support.overlay import overlay_bytes

HEAD = '{"schemaVersion": 1, "baseTimeNanoseconds": 1000, "distributedInfo": {"rank": 5}, "traceEvents": ['
TAIL = '], "traceName": "x{}", "deviceProperties": [{"id": 0}]}'


def events(count: int) -> list[str]:
    """Return the texts of events with objects, brackets and braces in their arguments and names."""
    return [
        json.dumps({
            "ph": "X", "cat": "cpu_op", "name": ["op", "}, {", "é}}"][n % 3], "pid": 1, "tid": 1, "ts": n + 0.5,
            "dur": 1, "args": {"Input Dims": [[n], []], "a": [{"b": {"c": n}}, {"d": '"'}], "External id": n},
        }, ensure_ascii=False)
        for n in range(count)
    ]  # fmt: skip


ROWS = events(60)
TEXT = HEAD + ",\n".join(ROWS) + TAIL
ENDS = [len((HEAD + ",\n".join(ROWS[: n + 1])).encode()) for n in range(len(ROWS))]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make parts of a few events; a tolerant reading of the whole is refused."""
    monkeypatch.setattr(json_reader, "PART_BYTES", 700)

    def refuse(text: str) -> None:
        raise AssertionError(text[-20:])

    monkeypatch.setattr(json_reader, "parse_leniently", refuse)


def whole_events(cut: int) -> int:
    return sum(end <= cut for end in ENDS)


@pytest.mark.parametrize("step", [97, deep(13)])
@pytest.mark.slow
def test_every_cut_names_the_byte_and_the_number_of_whole_events(tmp_path: Path, step: int) -> None:
    path, raw = tmp_path / "t.json", TEXT.encode()
    for cut in [*range(1, len(raw), step), *range(len(raw) - len(TAIL) - 3, len(raw))]:
        path.write_bytes(raw[:cut])
        count = whole_events(cut)
        remedy = "salvage=True recovers them" if count else "record the trace again"
        message = f"{path}: the JSON is truncated at byte {cut:,}, after {count} complete events; {remedy}"
        with pytest.raises(TraceError, match=f"^{re.escape(message)}$"):
            hg.read_trace(path)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("step", [193, deep(29)])
@pytest.mark.parametrize("shape", ["document", "list"])
def test_salvage_reads_the_whole_events_of_every_cut(tmp_path: Path, shape: str, step: int) -> None:
    path = tmp_path / "t.json"
    head = HEAD if shape == "document" else "["
    raw = (head + TEXT.removeprefix(HEAD)).encode()
    for cut in range(len(head) + ENDS[0] - len(HEAD), len(raw) - len(TAIL), step):
        path.write_bytes(raw[:cut])
        trace = hg.read_trace(path, salvage=True)
        count = whole_events(cut + len(HEAD) - len(head))
        assert trace.events.index.tolist() == list(range(count)), cut
        assert trace.salvaged == f"the JSON is truncated at byte {cut:,}; {count} complete events recovered"
        assert (trace.rank, int(trace.events.start[0])) == ((5, 1500) if shape == "document" else (None, 500))


def test_parts_and_whole_give_one_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(TEXT.encode())[:-300])
    split = hg.read_trace(path, salvage=True)
    monkeypatch.setattr(json_reader, "PART_BYTES", 1 << 20)
    assert same_columns(split, hg.read_trace(path, salvage=True))
    assert re.fullmatch(
        r"the gzip data is truncated at byte [\d,]+; \d+ complete events recovered", split.salvaged or ""
    )
    assert 20 < len(split.events) < 60


def test_a_whole_text_whose_compression_breaks_off_is_whole_events(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(TEXT.encode())[:-3])
    with pytest.raises(
        TraceError, match=r"gzip data is truncated at byte [\d,]+, after 60 complete events; salvage=True"
    ):
        hg.read_trace(path)
    trace = hg.read_trace(path, salvage=True)
    assert (len(trace.events), len(trace.gpu_names)) == (60, 1)


def test_details_and_overlay_of_a_salvaged_file(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(TEXT.encode()[: ENDS[39] + 30])
    trace = hg.read_trace(path, salvage=True)
    found = read_event_args(trace, ["Input Dims"])["Input Dims"]
    assert [value[0][0] for value in found] == list(range(40))
    overlay = json.loads(overlay_bytes(hg.critical_path(hg.build_graph(trace), hg.whole())))
    assert overlay["traceEvents"][:40] == [json.loads(row) for row in ROWS[:40]]
    assert overlay["distributedInfo"] == {"rank": 5}


def test_a_fault_that_is_not_at_the_end_is_no_break(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(json_reader, "PART_BYTES", 700)
    path = tmp_path / "t.json"
    raw = TEXT.encode()[: ENDS[30]]
    path.write_bytes(raw.replace(b'"ts": 20.5', b'"ts": NaN', 1))
    with pytest.raises(TraceError, match="after 31 complete events"):
        hg.read_trace(path)
    trace = hg.read_trace(path, salvage=True)
    assert trace.diagnostics["rows_dropped_bad_time"] == 1
    assert not np.isin(20, trace.events.index)
    path.write_bytes(raw + b", @@@")
    with pytest.raises(TraceError, match=r"is not JSON: Expecting value at byte .*, after 31 complete events"):
        hg.read_trace(path)
