"""Bad input: one clear line on stderr, no partial output, inputs untouched; single bad rows are counted."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from hta_graph.base.errors import TraceError
from hta_graph.trace.table import READING_DIAGNOSTICS
from tests.support.command_line import (
    COMMANDS,
    command_json,
    folder_contents,
    one_error,
    run_command,
    run_program,
    time_by_class,
    two_steps,
)
from tests.support.deep_tests import deep
from tests.support.trace_builder import PID, TraceBuilder

pytestmark = pytest.mark.sampled(2)

OP = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": PID, "tid": 1, "ts": 10, "dur": 5}


def write_trace(folder: Path, content: Any, name: str = "trace.json") -> Path:
    """Write bytes, text or a JSON document."""
    path = folder / name
    if not isinstance(content, (bytes, str)):
        content = json.dumps(content)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows_of(*rows: object) -> str:
    """Return the text of a trace; the text ``@x@`` in a value stands for the bare token x."""
    return re.sub(r'"@(.*?)@"', r"\1", json.dumps({"traceEvents": rows}))


def json_token(value: object) -> str:
    """Return the JSON text of one value."""
    return rows_of(value)[len('{"traceEvents": [') : -len("]}")]


def dropped_rows(trace: hg.Trace) -> dict[str, int]:
    """Return the counts of rows that were dropped."""
    return {key: n for key, n in trace.diagnostics.items() if n and key.startswith("rows_dropped")}


# -- files that are no traces -----------------------------------------------------------------------------------------

NOT_TRACES = {
    "prose": (b"this is not JSON", "is not JSON: Expecting value at byte 0"),
    # Known formats are named: that they are not JSON helps nobody.
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "is a picture"),
    "UTF-16": ('{"traceEvents": []}'.encode("utf-16"), "is UTF-16 text; convert it to UTF-8"),
    "empty": (b"", "is empty"),
    "white space": (b" \n\t ", "is truncated at byte|is empty"),
    "empty gzip": (gzip.compress(b""), "is truncated at byte 0|is empty"),
    "a number": (b"7", "holds a number as JSON, not a trace; pass a Kineto trace"),
    "a string": (b'"traceEvents"', "holds a string as JSON, not a trace"),
    "null": (b"null", "holds null as JSON, not a trace"),
    "true": (b"true", "holds a boolean as JSON, not a trace"),
    "an object": (b'{"a": 1, "b": 2}', "JSON without traceEvents (its keys: a, b)"),
    "an empty object": (b"{}", "without traceEvents"),
    "a key inside": (b'{"other": {"traceEvents": []}}', "JSON without traceEvents (its keys: other)"),
    "traceEvents an object": (b'{"traceEvents": {}}', "has an object as traceEvents, not a list"),
    "traceEvents null": (b'{"traceEvents": null}', "has null as traceEvents, not a list; pass a Kineto trace"),
    "traceEvents text": (b'{"traceEvents": "x"}', "has a string as traceEvents, not a list"),
    "host execution trace": (b'{"schema": "1.0.1", "pid": 3, "nodes": []}', "host execution trace without traceEvents"),
    "numbers": (b"[1, 2, 3]", "is a list without event objects, not a trace"),
    "memory timeline": (b"[[1, 0, 512, 3], [2, 1, 512, 3]]", "is a list without event objects, not a trace"),
    "traceEvents of numbers": (b'{"traceEvents": [1, null]}', "is a list without event objects, not a trace"),
    "deep array": (b"[" * 200_000, "nests JSON values too deeply"),
    "deep argument": (
        rows_of(OP | {"args": {"x": "@" + "[" * 100_000 + "]" * 100_000 + "@"}}).encode(),
        "nests JSON values too deeply",
    ),
    "endless number": (rows_of(OP | {"ts": "@" + "9" * 5000 + "@"}).encode(), "number with too many digits"),
    "two documents": (b'{"traceEvents": []} {"traceEvents": []}', "is not JSON: Extra data at byte 20"),
    "broken in the middle": (
        rows_of(OP, OP)[:-2].encode() + b", @@@ ]}",
        f"is not JSON: Expecting value at byte {len(rows_of(OP, OP))}, after 2 complete events",
    ),
}  # fmt: skip


def each_command_in_turn(cases: Iterable[object]) -> list[Any]:
    """Pair each case with one command, the next one with the next; in the deep run with the others, too."""
    pairs = [(case, command, number) for number, case in enumerate(cases) for command in COMMANDS]
    return [
        (case, command) if command == COMMANDS[number % len(COMMANDS)] else deep(case, command)
        for case, command, number in pairs
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("case", "command"), each_command_in_turn(NOT_TRACES))
def test_what_is_no_trace_is_one_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, case: str, command: str
) -> None:
    content, message = NOT_TRACES[case]
    path = write_trace(tmp_path, content)
    line = one_error(capsys, tmp_path, command, path, "--json", tmp_path / "out.json")
    assert line.startswith(f"hta-graph: {path}: ")
    assert any(part in line for part in message.split("|")), line
    with pytest.raises(TraceError, match=re.escape(str(path))):
        hg.read_trace(path)


def _message(path: Path, *, salvage: bool) -> str:
    """Return the one line with which reading fails, or nothing; any other exception goes through."""
    try:
        hg.read_trace(path, salvage=salvage)
    except TraceError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("salvage", [False, True])
def test_corruption_of_one_gzip_byte_never_shows_a_traceback(tmp_path: Path, salvage: bool) -> None:
    whole = gzip.compress(rows_of(*[OP | {"ts": n, "name": f"op{n * 7919 % 101}"} for n in range(60)]).encode())
    path = tmp_path / "trace.json.gz"
    outcomes = set()
    for at in range(0, len(whole), 5):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        outcomes.add("corrupt" in _message(path, salvage=salvage))
    assert True in outcomes


def test_a_corrupt_gzip_names_the_byte_and_the_whole_events(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = rows_of(*[OP | {"ts": n, "name": os.urandom(20).hex()} for n in range(400)]).encode()
    packed = bytearray(gzip.compress(text))
    packed[-6] ^= 0xFF
    path = write_trace(tmp_path, bytes(packed), "trace.json.gz")
    line = one_error(capsys, tmp_path, "info", path)
    assert re.search(r"gzip data is corrupt after [\d,]+ bytes of text, after \d+ complete events; --salvage", line), (
        line
    )
    assert int(re.findall(r"after ([\d,]+) complete", line)[0].replace(",", "")) > 300


# -- files that break off ---------------------------------------------------------------------------------------------


def broken_off() -> tuple[str, list[int]]:
    """Return the text of three events and a header behind them, and where each event ends."""
    rows = [
        OP | {"args": {"Input Dims": [[1], []], "note": '}{ \\" é'}},
        OP | {"name": "nested", "ts": 11, "dur": 1.5, "args": {"a": {"b": {"c": True}}}},
        OP | {"name": "}" * 70, "ts": 20},
    ]
    texts = [json.dumps(row, ensure_ascii=False) for row in rows]
    head = '{"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": ['
    ends = [len((head + ", ".join(texts[: n + 1])).encode()) for n in range(len(texts))]
    return head + ", ".join(texts) + '], "traceName": "x{}", "distributedInfo": {"rank": 0}}', ends


def whole_events(cut: int) -> int:
    return sum(end <= cut for end in broken_off()[1])


TEXT = broken_off()[0].encode()
CUTS = [pytest.param(5, id="every fifth byte"), pytest.param(1, id="every byte", marks=pytest.mark.slow)]


@pytest.mark.parametrize("stride", CUTS)
def test_every_truncation_names_the_byte_and_the_number_of_whole_events(tmp_path: Path, stride: int) -> None:
    wrong = []
    for cut in range(1, len(TEXT), stride):
        path = write_trace(tmp_path, TEXT[:cut])
        with pytest.raises(TraceError) as caught:
            hg.read_trace(path)
        if not re.search(
            rf"at byte [\d,]+, after {whole_events(cut)} complete events; (salvage=True|record)", str(caught.value)
        ):
            wrong.append((cut, str(caught.value)))
    assert not wrong, (len(wrong), wrong[0])


@pytest.mark.parametrize("stride", CUTS)
def test_a_truncated_file_is_said_to_break_off_at_its_end(tmp_path: Path, stride: int) -> None:
    wrong = []
    for cut in range(1, len(TEXT), stride):
        path = write_trace(tmp_path, TEXT[:cut])
        with pytest.raises(TraceError) as caught:
            hg.read_trace(path)
        found = re.search(r"is truncated at byte ([\d,]+)", str(caught.value))
        if not found or not 0 <= cut - int(found[1].replace(",", "")) <= 4:
            wrong.append((cut, str(caught.value)))
    assert not wrong, (len(wrong), wrong[0])


@pytest.mark.parametrize("stride", CUTS)
def test_salvage_reads_exactly_the_whole_events_of_every_truncation(tmp_path: Path, stride: int) -> None:
    wrong = []
    edges = {end + away for end in broken_off()[1] for away in (-1, 0, 1)} - {broken_off()[1][0] - 1}
    for cut in sorted(edges | set(range(broken_off()[1][0], len(TEXT), stride))):
        trace = hg.read_trace(write_trace(tmp_path, TEXT[:cut]), salvage=True)
        if sorted(trace.events.index.tolist()) != list(range(whole_events(cut))) or not trace.salvaged:
            wrong.append(cut)
    assert not wrong, (len(wrong), wrong[0], TEXT[: wrong[0]])


@pytest.mark.parametrize("shape", ["object", "array"])
def test_salvage_reads_what_is_whole_and_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, shape: str
) -> None:
    text = rows_of(OP, OP | {"ts": 20}, OP | {"ts": 30})
    text = text if shape == "object" else text[len('{"traceEvents": ') : -1]
    path = write_trace(tmp_path, text[: text.rindex('"dur"')])
    assert "after 2 complete events; --salvage recovers them" in one_error(capsys, tmp_path, "info", path)
    status, out, err = run_command(capsys, "info", path, "--salvage", "--json", "-")
    (rank,) = json.loads(out)["ranks"]
    assert (status, rank["events"], rank["diagnostics"]["salvaged"]) == (0, 2, 1)
    assert re.fullmatch(re.escape(str(path)) + r": .*at byte [\d,]+; 2 complete events recovered\n", err), err


def test_salvage_of_nothing_is_still_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write_trace(tmp_path, '{"traceEvents": [{"ph": "X", "na')
    assert "after 0 complete events; record the trace again" in one_error(capsys, tmp_path, "info", path, "--salvage")


def test_salvage_of_a_whole_file_changes_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = two_steps().write(tmp_path / "t.json")
    assert command_json(capsys, "graph", path, "--salvage") == command_json(capsys, "graph", path)


def test_salvage_keeps_epoch_nanoseconds(tmp_path: Path) -> None:
    whole = '{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1712195495519689.125, "dur": 0.003}'
    trace = hg.read_trace(write_trace(tmp_path, '{"traceEvents": [' + whole + ', {"ph": "X", "na'), salvage=True)
    assert trace.events.start.tolist() == [1712195495519689125]
    assert trace.events.end.tolist() == [1712195495519689128]


@pytest.mark.parametrize("odd", ["@NaN@", "@1e400@", True, []])
def test_salvage_reads_files_that_are_also_not_strict(tmp_path: Path, odd: object) -> None:
    text = rows_of(OP | {"ts": odd}, *[OP | {"ts": n} for n in range(9)])
    path = write_trace(tmp_path, text[: text.rindex('"dur"')])
    with pytest.raises(TraceError, match="after 9 complete events"):
        hg.read_trace(path)
    trace = hg.read_trace(path, salvage=True)
    assert sorted(trace.events.index.tolist()) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert dropped_rows(trace) == {"rows_dropped_bad_time": 1}


@pytest.mark.parametrize("raw", [b"\xff", b"\x01", b"\\ud800"])
def test_salvage_reads_files_with_odd_text(tmp_path: Path, raw: bytes) -> None:
    text = rows_of(OP | {"name": "NAME"}, *[OP | {"ts": n} for n in range(9)]).encode().replace(b"NAME", raw)
    trace = hg.read_trace(write_trace(tmp_path, text[: text.rindex(b'"dur"')]), salvage=True)
    assert len(trace.events) == 9


def test_every_gzip_truncation_names_the_byte_and_reads_what_is_whole(tmp_path: Path) -> None:
    names = [os.urandom(12).hex() for _ in range(40)]
    texts = [json.dumps(OP | {"name": name, "ts": n}) for n, name in enumerate(names)]
    text = '{"traceEvents": [' + ", ".join(texts) + "]}"
    packed = gzip.compress(text.encode())
    for cut in range(2, len(packed), 61):
        path = write_trace(tmp_path, packed[:cut], "t.json.gz")
        readable = zlib.decompressobj(wbits=31).decompress(packed[:cut]).decode()
        count = sum(readable.find(row) >= 0 for row in texts)
        with pytest.raises(TraceError, match=rf"gzip data is truncated at byte {cut:,}, after {count} complete events"):
            hg.read_trace(path)
        if count:
            assert len(hg.read_trace(path, salvage=True).events) == count


def test_a_truncated_zstd_file_is_one_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    packed = zstandard.compress(rows_of(*[OP | {"name": os.urandom(40).hex()} for _ in range(3000)]).encode())
    path = write_trace(tmp_path, packed[: len(packed) // 2], "t.json.zst")
    assert re.search(r"truncated|corrupt|at byte", one_error(capsys, tmp_path, "info", path))
    summed = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(rows_of(OP, OP).encode()))
    summed[-1] ^= 1
    path.write_bytes(summed)
    assert "zstd data is corrupt" in one_error(capsys, tmp_path, "info", path)


# -- files that are not there -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [("absent.json", "no such file"), ("absent/t.json", "no such file"), ("file/t.json", ""), ("x" * 300, "")],
    ids=["absent", "folder absent", "below a file", "name too long"],
)
def test_a_missing_file_is_one_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "file").write_text("x")
    assert message in one_error(capsys, tmp_path, "info", tmp_path / name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_one_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = two_steps().write(tmp_path / "t.json")
    path.chmod(0)
    status, out, err = run_command(capsys, "info", path)
    assert (status, out, err) == (1, "", f"hta-graph: {path}: cannot be read: Permission denied\n")


def test_a_file_that_fails_while_reading_is_one_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = two_steps().write(tmp_path / "t.json")

    class Failing(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, _: Any) -> int:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("hta_graph.trace.decompress.open_local", lambda _: io.BufferedReader(Failing()))
    status, out, err = run_command(capsys, "info", path)
    assert (status, out, err) == (1, "", f"hta-graph: {path}: cannot be read: Permission denied\n")


def test_a_folder_that_cannot_be_listed_is_one_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", fail)
    status, out, err = run_command(capsys, "info", tmp_path)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "Permission denied" in err


def test_a_folder_without_traces_is_one_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    assert "holds no .json" in one_error(capsys, tmp_path, "info", tmp_path)


def test_a_trace_without_events_can_be_described_but_has_no_path(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_trace(
        tmp_path, {"traceEvents": [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}]}
    )
    (rank,) = command_json(capsys, "info", path)["ranks"]
    assert (rank["events"], rank["start_ns"], rank["end_ns"], rank["lanes"]) == (0, None, None, [])
    assert command_json(capsys, "graph", path)["events"] == []
    assert "rank 0: no events" in run_command(capsys, "info", path)[1]
    assert "the trace has no events" in one_error(capsys, tmp_path, "critical-path", path)


# -- single bad rows --------------------------------------------------------------------------------------------------

BAD_ROWS: dict[str, tuple[object, str]] = {
    "ts is NaN": (OP | {"ts": "@NaN@"}, "rows_dropped_bad_time"),
    "ts is Infinity": (OP | {"ts": "@-Infinity@"}, "rows_dropped_bad_time"),
    "ts is 1e400": (OP | {"ts": "@1e400@"}, "rows_dropped_bad_time"),
    "ts is beyond every exponent": (OP | {"ts": "@1e9999999999999999999999@"}, "rows_dropped_bad_time"),
    "ts is a word": (OP | {"ts": "soon"}, "rows_dropped_bad_time"),
    "ts is empty": (OP | {"ts": ""}, "rows_dropped_bad_time"),
    "ts is missing": ({key: value for key, value in OP.items() if key != "ts"}, "rows_dropped_bad_time"),
    "ts does not fit": (OP | {"ts": 2**63}, "rows_dropped_bad_time"),
    "dur is NaN": (OP | {"dur": "@NaN@"}, "rows_dropped_bad_time"),
    "dur is a word": (OP | {"dur": "long"}, "rows_dropped_bad_time"),
    "dur is negative": (OP | {"dur": -0.001}, "rows_dropped_negative_duration"),
    "dur is a year": (OP | {"dur": 365 * 86400 * 10**6}, "rows_dropped_absurd_time"),
    "dur is as long as fits": (OP | {"dur": 2**62 // 1000 - 1}, "rows_dropped_absurd_time"),
    "ts is years away": (OP | {"ts": 10**15}, "rows_dropped_absurd_time"),
    "no name": ({key: value for key, value in OP.items() if key != "name"}, "rows_dropped_no_name"),
    "empty name": (OP | {"name": ""}, "rows_dropped_no_name"),
    "null name": (OP | {"name": None}, "rows_dropped_no_name"),
    "a number": (7, "rows_dropped_not_an_object"),
    "null": (None, "rows_dropped_not_an_object"),
    "a list": ([OP], "rows_dropped_not_an_object"),
    "text": ("X", "rows_dropped_not_an_object"),
    "correlation of 65 bits": (OP | {"args": {"correlation": 2**64}}, "rows_dropped_bad_id"),
    "correlation of 1e400": (OP | {"args": {"correlation": "@1e400@"}}, "rows_dropped_bad_id"),
    "External id of 80 digits": (OP | {"args": {"External id": 10**80}}, "rows_dropped_bad_id"),
    "Sequence number below 64 bits": (OP | {"args": {"Sequence number": -(2**63) - 1}}, "rows_dropped_bad_id"),
    "B without E": ({"ph": "B", "name": "open", "pid": 1, "tid": 1, "ts": 10}, "rows_dropped_unpaired"),
    "E without B": ({"ph": "E", "name": "open", "pid": 1, "tid": 1, "ts": 10}, "rows_dropped_unpaired"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_bad_row_is_dropped_counted_and_reported_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, case: str
) -> None:
    row, key = BAD_ROWS[case]
    path = write_trace(tmp_path, rows_of(OP, row, OP | {"ts": 20}))
    before = folder_contents(tmp_path)
    status, out, err = run_command(capsys, "info", path, "--json", "-")
    assert (status, err.count("\n")) == (0, 1), err
    assert err.startswith(f"{path}: ")
    assert f": 1 ({key})" in err
    (rank,) = json.loads(out)["ranks"]
    assert (rank["events"], rank["start_ns"], rank["end_ns"]) == (2, 10_000, 25_000)
    assert {name: n for name, n in rank["diagnostics"].items() if n and name in READING_DIAGNOSTICS} in (
        {key: 1},
        {key: 1, "tolerant_json": 1},
    )
    assert folder_contents(tmp_path) == before


def test_a_bad_row_keeps_the_numbers_of_the_rows_behind_it(tmp_path: Path) -> None:
    trace = hg.read_trace(write_trace(tmp_path, rows_of(OP, 7, OP | {"ts": "@NaN@"}, None, OP | {"ts": 20})))
    assert trace.events.index.tolist() == [0, 4]


@pytest.mark.parametrize(("begin_s", "kept"), [(7_200, 2), (3_600_000, 2), (0.001, 4)])
def test_rows_without_a_time_stamp_are_left_out(begin_s: float, kept: int, tmp_path: Path) -> None:
    """Two rows of two hours, or 41 days, after the base time, and two to which the recorder gave no time."""
    begin, none = int(begin_s * 1e6), OP | {"ts": 0, "dur": 0}
    trace = hg.read_trace(write_trace(tmp_path, rows_of(none, OP | {"ts": begin}, none, OP | {"ts": begin + 50})))
    assert (len(trace.events), trace.diagnostics["rows_dropped_no_stamp"]) == (kept, 4 - kept)


def test_many_bad_rows_are_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = [OP] * 5 + [row for case, (row, _) in BAD_ROWS.items() if case != "E without B"]  # it would pair
    status, _, err = run_command(capsys, "info", write_trace(tmp_path, rows_of(*rows)))
    assert (status, err.count("\n")) == (0, 1)
    assert all(f"({key})" in err for _, key in BAD_ROWS.values())


@pytest.mark.slow
def test_an_enormous_exponent_costs_no_time(tmp_path: Path) -> None:
    text = "-1e99999999"
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1}
    places = ("correlation", "External id", "stream", "Fwd thread id")
    contents = [rows_of(OP, kernel | {"args": {place: f"@{text}@"}}) for place in places]
    contents.append(rows_of(OP).replace("{", f'{{"baseTimeNanoseconds": {text}, ', 1))
    paths = [write_trace(tmp_path, content, f"{number}.json") for number, content in enumerate(contents)]
    done = _limited(*paths)
    assert done == (0, True), done


def _limited(*paths: Path) -> tuple[int, bool]:
    """Describe files in three seconds of processor time; return the status and whether no traceback was printed."""
    code = (
        "import resource, sys\nresource.setrlimit(resource.RLIMIT_CPU, (3, 3))\n"
        "from analyses.cli.main import main\nsys.exit(any([main(['info', path]) for path in sys.argv[1:]]))"
    )
    done = subprocess.run([sys.executable, "-c", code, *map(str, paths)], check=False, capture_output=True, text=True)
    return done.returncode, "Traceback" not in done.stderr


# -- fields of other types --------------------------------------------------------------------------------------------

FIELDS: dict[str, dict[str, Any]] = {
    "op": OP | {"args": {"External id": 3, "Sequence number": 4, "Fwd thread id": 0, "Record function id": 1}},
    "call": OP | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": {"correlation": 5, "cbid": 211}},
    "kernel": {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 20, "dur": 5, "args": {
        "correlation": 5, "stream": 7, "device": 0, "context": 1, "External id": 3, "Collective name": "allreduce"}},
    "sync": {"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 0, "tid": 7, "ts": 20, "dur": 0,
        "args": {"correlation": 5, "stream": 7, "device": 0, "context": 1, "wait_on_stream": 8,
        "wait_on_cuda_event_record_corr_id": 4}},
    "memory": {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 20, "args": {
        "Bytes": 512, "Device Type": 1}},
    "flow": {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 1, "tid": 1, "ts": 10},
    "begin": {"ph": "B", "cat": "cpu_op", "name": "b", "pid": 1, "tid": 1, "ts": 10, "args": {"External id": 1}},
    "meta": {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}},
}  # fmt: skip
OTHER_TYPES: tuple[Any, ...] = (
    None, [], [1], {}, {"a": 1}, "", "x", "7", True, 0.5, -1, -0.0, 2**62, 2**64, -(2**70), 1e300,
    "@1e400@", "@NaN@", "@-Infinity@",
)  # fmt: skip
PLACES = [(row, field, "") for row, fields in FIELDS.items() for field in fields] + [
    (row, "args", field) for row, fields in FIELDS.items() for field in fields.get("args", {})
]


def expected_rows(row: str, field: str) -> tuple[int, ...]:
    """Return how many events and counted drops there are: a row is one of these, or not an event at all."""
    if row == "memory" and field == "cat":
        return 6, 7
    no_event = (field == "ph" and row not in ("flow", "meta")) or (row, field) == ("memory", "name")
    return (6,) if no_event else (7,)


@pytest.mark.sampled(24)
@pytest.mark.parametrize(
    ("row", "field", "inner", "values"),
    [(*place, OTHER_TYPES[number % 19 :: 19]) for number, place in enumerate(PLACES)]
    + [deep(*place, OTHER_TYPES) for place in PLACES],
)
def test_a_field_of_another_type_never_breaks_the_reading(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, row: str, field: str, inner: str, values: tuple[Any, ...]
) -> None:
    """In the quick run each place is given one value, another at each place."""
    for value in values:
        changed = dict(FIELDS[row])
        changed[field] = changed["args"] | {inner: value} if inner else value
        others = [fields for name, fields in FIELDS.items() if name != row]
        path = write_trace(tmp_path, rows_of(OP | {"ts": 12, "dur": 1}, changed, *others))
        status, out, err = run_command(capsys, "critical-path", path, "--whole", "--json", "-")
        assert (status, err.count("\n") <= 1, "Traceback" in err) == (0, True, False), (value, err)
        time_by_class(json.loads(out))
        trace = hg.read_trace(path)
        total = len(trace.events) + sum(dropped_rows(trace).values())
        assert total in expected_rows(row, field), (value, total)
        assert 0 in trace.events.index.tolist(), value


@pytest.mark.sampled(4)
@pytest.mark.parametrize("others", [OTHER_TYPES[::4], deep(OTHER_TYPES)], ids=["quick", "deep"])
@pytest.mark.parametrize("key", ["baseTimeNanoseconds", "distributedInfo", "deviceProperties", "schemaVersion"])
def test_a_header_field_of_another_type_never_breaks_the_reading(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, key: str, others: tuple[Any, ...]
) -> None:
    for value in (*others, [{"name": None}], [{"name": ["\ud800"]}], {"rank": "x", "world_size": []}, [None, 3]):
        content = rows_of(OP).replace("{", f'{{"{key}": {json_token(value)}, ', 1)
        status, out, err = run_command(capsys, "info", write_trace(tmp_path, content), "--json", "-")
        assert (status, "Traceback" in err) == (0, False), (value, err)
        assert json.loads(out)["ranks"][0]["events"] == 1
        assert run_command(capsys, "info", write_trace(tmp_path, content))[0] == 0


def test_a_base_time_that_is_no_time_is_ignored_and_counted(tmp_path: Path) -> None:
    trace = hg.read_trace(write_trace(tmp_path, {"baseTimeNanoseconds": "soon", "traceEvents": [OP]}))
    assert (trace.events.start.tolist(), trace.diagnostics["bad_header_base_time"]) == ([10_000], 1)


# -- text -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b"a\x01b", "a\x01b"),
        (b"a\nb\tc", "a\nb\tc"),
        (b"a\\u0000b", "a\0b"),
        (b"\xc3\xa9", "é"),
        (b"a\xffb", "a\ufffdb"),
        (b"\xe2\x82", "\ufffd\ufffd"),
    ],
)
def test_names_with_odd_bytes_are_read(tmp_path: Path, raw: bytes, name: str) -> None:
    trace = hg.read_trace(write_trace(tmp_path, rows_of(OP | {"name": "NAME"}).encode().replace(b"NAME", raw)))
    assert trace.names == (name,)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "raw",
    [
        b"a\x01b",
        deep(b"a\nb"),
        deep(b"\\u0000"),
        b"\xff",
        b"\\ud800",
        *map(deep, (b"\\udfff\\ud800", b"\\ud83d\\ude00")),
    ],
)
def test_odd_names_reach_every_output(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, raw: bytes, command: str
) -> None:
    path = write_trace(tmp_path, rows_of(OP | {"name": "NAME", "tid": "NAME"}).encode().replace(b"NAME", raw))
    assert command_json(capsys, command, path)["schema"]
    done = run_program(command, path) if b"\\u" in raw and command == "critical-path" else None
    assert done is None or (done.returncode, done.stderr) == (0, "")


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    assert len(hg.read_trace(write_trace(tmp_path, b"\xef\xbb\xbf" + rows_of(OP).encode())).events) == 1


def test_of_duplicate_keys_the_last_counts(tmp_path: Path) -> None:
    row = json.dumps(OP)[:-1] + ', "name": "second", "ts": 50}'
    trace = hg.read_trace(write_trace(tmp_path, '{"traceEvents": [7], "traceEvents": [' + row + "]}"))
    assert (trace.names, trace.events.start.tolist()) == (("second",), [50_000])


@pytest.mark.slow
def test_a_name_of_a_megabyte_keeps_errors_short(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.annotation("x" * 1_000_000, 0, 10)
    path = trace.write(tmp_path / "t.json")
    assert len(one_error(capsys, tmp_path, "critical-path", path, "--annotation", "y" * 100_000)) < 1000
    assert len(run_command(capsys, "critical-path", path)[1]) < 5000


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", ["9" * 30, "9" * 5000, "٣"], ids=["30 digits", "5000 digits", "Arabic"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_step_with_an_odd_number_breaks_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str, number: str
) -> None:
    trace = TraceBuilder()
    trace.annotation(f"ProfilerStep#{number}", 0, 10)
    path = trace.write(tmp_path / "t.json")
    assert command_json(capsys, command, path)["schema"]
    assert run_command(capsys, command, path)[0] == 0


# -- big --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_50_000_nested_slices_work(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    depth = 50_000
    trace = TraceBuilder()
    for level in range(depth):
        trace.op("op", level, 2 * depth - level)
    path = trace.write(tmp_path / "t.json")
    found = command_json(capsys, "critical-path", path)
    assert time_by_class(found) == {"cpu_bound": 2 * depth * 1000}
    assert len(found["segments"]) == 2 * depth - 1


# -- questions that the trace cannot answer ---------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arguments", "listed"),
    [
        (["--step", "7"], ["no step 7", "did you mean 2? Available: 1, 2"]),
        (["--step", "-1"], ["no step -1", "did you mean 1? Available: 1, 2"]),
        (["--annotation", "none"], ["no annotation 'none'", "'block' ×2", "'ProfilerStep#1'"]),
        (["--annotation", "gemm"], ["no annotation 'gemm'", "'block' ×2"]),
        (["--annotation", "n.*", "--regex"], ["no annotation 'n.*'", "'block' ×2"]),
        (["--annotation", "block", "--instance", "2"], ["no instance 2 of 'block'", "0 to 1"]),
        (["--annotation", "block", "--instance", "1:2"], ["no instance 1:2 of 'block'", "0 to 1"]),
        (["--annotation", "block", "--instance", "1:0"], ["instance 1:0 of 'block'"]),
        (["--annotation", "block", "--instance", "9" * 25], ["0 to 1"]),
        (["--annotation", ""], ["no annotation ''"]),
        (["--window", "300000:400000"], ["300000:400000", "200000"]),
        (["--window=-20:-10"], ["-20:-10", "200000"]),
        (["--rank", "5"], ["rank 5 not found", "available: 3"]),
    ],
    ids=lambda item: " ".join(item)[:40],
)
def test_a_question_about_what_is_not_there_lists_what_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], listed: list[str]
) -> None:
    path = two_steps().write(tmp_path / "t.json")
    line = one_error(capsys, tmp_path, "critical-path", path, *arguments, "--json", tmp_path / "out.json")
    assert all(text in line for text in listed), line


@pytest.mark.parametrize(
    "arguments",
    [
        ["--window", "0:" + "9" * 25],
        ["--window", "0:" + "9" * 5000],
        ["--window=-" + "9" * 25 + ":100"],
        ["--annotation", "block", "--instance", "9" * 5000],
        ["--step", "9" * 25],
        ["--rank", "9" * 25],
    ],
    ids=lambda item: " ".join(item)[:30],
)
def test_numbers_beyond_64_bits_are_one_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str]
) -> None:
    path = two_steps().write(tmp_path / "t.json")
    status, out, err = run_command(capsys, "critical-path", path, *arguments)
    assert (status in (1, 2), out, err.count("\n")) == (True, "", 1), err
    assert len(err) < 1000


def test_a_trace_without_steps_or_annotations_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("op", 0, 10)
    path = trace.write(tmp_path / "t.json")
    assert "the trace has no steps" in one_error(capsys, tmp_path, "critical-path", path, "--step", "1")
    assert "the trace has no annotations" in one_error(capsys, tmp_path, "critical-path", path, "--annotation", "x")


@pytest.mark.parametrize("flag", ["--cpu-window", "--gpu-window"])
def test_a_step_window_of_a_trace_without_steps_is_refused_or_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, flag: str
) -> None:
    trace = TraceBuilder()
    trace.op("op", 0, 10)
    one_error(capsys, tmp_path, "critical-path", trace.write(tmp_path / "t.json"), flag)


def test_an_empty_gpu_window_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 10)
    trace.launch("late", (2, 4), (5, 500), 1)
    trace.annotation("ProfilerStep#2", 10, 20)
    path = trace.write(tmp_path / "t.json")
    assert "ProfilerStep#2" in one_error(capsys, tmp_path, "critical-path", path, "--step", "2", "--gpu-window")


# -- outputs that cannot be written -----------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("folder", "is a folder"),
        ("absent/out.json", "its folder does not exist"),
        ("old.json/out.json", "its folder does not exist"),
        ("trace.json", "is an input"),
        ("link.json", "is an input"),
        ("folder/../trace.json", "is an input"),
        ("x" * 300, ""),
    ],
    ids=["folder", "folder absent", "below a file", "input", "link to input", "input by another way", "too long"],
)
def test_an_output_that_cannot_be_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, target: str, message: str, command: str
) -> None:
    path = two_steps().write(tmp_path / "trace.json")
    (tmp_path / "folder").mkdir()
    (tmp_path / "old.json").write_text("{}")
    (tmp_path / "link.json").hardlink_to(path)
    assert message in one_error(capsys, tmp_path, command, path, "--json", tmp_path / target)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_output_that_is_a_file_of_the_input_folder_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    path = two_steps().write(tmp_path / "rank3.json")
    one_error(capsys, tmp_path, command, tmp_path, "--json", path)


def test_a_link_to_an_output_is_not_replaced_by_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = two_steps().write(tmp_path / "trace.json")
    (tmp_path / "link.json").symlink_to(path)
    one_error(capsys, tmp_path, "info", path, "--json", tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()


@pytest.mark.parametrize("failing", ["replace", "chmod"])
def test_a_failed_write_leaves_the_earlier_output_and_nothing_else(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    path = two_steps().write(tmp_path / "trace.json")
    run_command(capsys, "info", path, "--json", tmp_path / "out.json")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, failing, fail)
    line = one_error(capsys, tmp_path, "info", path, "--json", tmp_path / "out.json")
    assert "out.json: cannot be written: No space left on device" in line


def test_an_error_in_the_question_leaves_the_earlier_output(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = two_steps().write(tmp_path / "trace.json")
    (tmp_path / "out.json").write_text("earlier")
    one_error(capsys, tmp_path, "critical-path", path, "--step", "9", "--json", tmp_path / "out.json")


@pytest.mark.parametrize("target", ["trace.json", "absent/g", "trace.json/g", "x" * 300])
def test_a_parquet_folder_that_cannot_be_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, target: str
) -> None:
    path = two_steps().write(tmp_path / "trace.json")
    one_error(capsys, tmp_path, "graph", path, "--parquet", tmp_path / target, "--json", tmp_path / "out.json")


def test_json_and_parquet_at_one_place_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = two_steps().write(tmp_path / "trace.json")
    status, _, err = run_command(capsys, "graph", path, "--parquet", tmp_path / "g", "--json", tmp_path / "g")
    assert (status in (1, 2), err.count("\n")) == (True, 1)
    assert not (tmp_path / "g").exists()
