"""A file takes no more memory than there is, or than a user allowed; a larger one is one line."""

from __future__ import annotations

import gzip
import platform
import subprocess
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.base import memory
from hta_graph.base.errors import NotATraceError, TooLargeError
from hta_graph.trace import json_reader, memory_limit
from hta_graph.trace.decompress import read_bytes
from hta_graph.trace.header import peek_header, text_size
from hta_graph.trace.memory_limit import GrowthCheck, limit_memory, limited_data, within_memory
from tests.support.command_line import run_command

MIB = 1 << 20
ROW = b'{"ph":"X","cat":"cpu_op","name":"op","pid":1,"tid":1,"ts":1,"dur":1}'


def pack(path: Path, *text: bytes) -> Path:
    packer = zlib.compressobj(1, wbits=31)
    path.write_bytes(b"".join([*map(packer.compress, text), packer.flush()]))
    return path


@pytest.fixture
def bomb(tmp_path: Path) -> Path:
    return pack(
        tmp_path / "t.json.gz", b'{"distributedInfo":{"rank":1},"traceEvents":[', ROW, *[b" " * MIB] * 24, b"]}"
    )


def test_a_text_that_is_longer_than_allowed_names_both(bomb: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cause = r"holds more than 18 MiB of text, packed in 0\.\d+ MiB, too much for the 100 MiB that reading may take"
    with limit_memory(100 * MIB), pytest.raises(TooLargeError, match=f"{bomb}: {cause}; allow more with memory$"):
        hg.read_trace(bomb)
    status, out, err = run_command(capsys, "info", bomb, "--memory", "100M")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.endswith("that reading may take; allow more with --memory\n")


def test_what_is_available_is_the_limit_where_none_is_named(bomb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limit, "available_memory", lambda: 100 * MIB)
    with pytest.raises(TooLargeError, match="for the 90 MiB that reading may take; record fewer steps, or read it on"):
        hg.read_trace(bomb)
    with limit_memory(1 << 34):
        assert len(hg.read_trace(bomb).events) == 1


def test_a_plain_text_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(TooLargeError, match="holds 1,048,576 MiB of text, too much"):
        hg.read_trace(path)


def test_a_small_text_is_read_whatever_is_allowed(tmp_path: Path) -> None:
    with limit_memory(0):
        assert len(hg.read_trace(pack(tmp_path / "t.json.gz", b"[", ROW, b"]")).events) == 1


def test_what_does_not_begin_as_json_is_not_unpacked_further(tmp_path: Path) -> None:
    assert len(read_bytes(pack(tmp_path / "zeros", *[bytes(MIB)] * 5)).data) < 2 * MIB
    assert len(read_bytes(pack(tmp_path / "spaces", *[b" " * MIB] * 5)).data) == 5 * MIB
    assert len(read_bytes(pack(tmp_path / "json", b"\xef\xbb\xbf [", *[b" " * MIB] * 5)).data) > 5 * MIB


def test_a_header_is_looked_for_no_further_than_the_text_may_be_read(bomb: Path) -> None:
    with limit_memory(0):
        header = peek_header(bomb)
    assert header is not None
    assert header.distributed == {"rank": 1}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "begin", [b'{"deviceProperties":[0', b'{"traceEv\\u0065nts":[', b'{"traceEvents":[' + ROW + b',{"args":[0']
)
def test_what_is_decoded_at_once_is_refused_where_it_may_fill_memory(tmp_path: Path, begin: bytes) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(begin + b",[]" * (2 * MIB) + b"]}]}")
    with limit_memory(300 * MIB), pytest.raises(TooLargeError, match="holds one event, list or header of 6 MiB"):
        hg.read_trace(path)


def test_events_that_grow_beyond_what_is_allowed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    held = iter([100, 110, 130, 200, 330])
    monkeypatch.setattr(memory_limit, "resident_bytes", lambda: next(held) * MIB)
    growth = GrowthCheck(Path("t.json"), 50 * MIB)
    with limit_memory(400 * MIB):
        for _ in range(3):
            growth.check(50 * MIB)
        with pytest.raises(TooLargeError, match="holds too many events in 50 MiB of text"):
            growth.check(50 * MIB)


def test_elements_too_short_for_events_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_reader, "MANY_ROWS", 1000)
    text = b"[{}" + b",{}" * 1001 + b"]"
    with pytest.raises(NotATraceError, match=r"holds 1,002 elements in the first 3,007 bytes, too short for events"):
        hg.read_trace(pack(tmp_path / "t.json.gz", text))
    path = pack(tmp_path / "t.json.gz", text[:-1], *[b"," + ROW] * 500, b"]")
    assert len(hg.read_trace(path).events) == 500


def test_of_a_long_file_the_first_parts_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_reader, "MANY_ROWS", 1000)
    monkeypatch.setattr(json_reader, "PART_BYTES", 4000)
    path = pack(tmp_path / "t.json.gz", b"[{}", b",{}" * 2000, *[b"," + ROW] * 2000, b"]")
    with pytest.raises(NotATraceError, match=r"holds 1,33\d elements in the first 4,0\d\d bytes"):
        hg.read_trace(path)


def test_memory_beyond_a_limit_is_an_error_and_not_the_end() -> None:
    with pytest.raises(MemoryError), limited_data(64 * MIB):
        bytearray(1 << 30)
    with within_memory(5):
        assert memory_limit.memory_for_one_file() == 5
        bytearray(1 << 26)
    bytearray(1 << 27)


def test_what_a_process_may_take_itself_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "used_bytes", lambda: {"RLIMIT_AS": 300, "RLIMIT_DATA": 100})
    monkeypatch.setattr(memory, "_soft_limit", {"RLIMIT_AS": 1000, "RLIMIT_DATA": None}.get)
    assert memory.available_memory() == 700
    monkeypatch.setattr(memory, "_soft_limit", {"RLIMIT_AS": 200, "RLIMIT_DATA": 500}.get)
    assert memory.available_memory() == 0


# -- how long a text is likely to be ----------------------------------------------------------------------------------


def rows(count: int) -> Iterable[bytes]:
    yield b"["
    yield from (ROW.replace(b"op", b"op %d" % (n * 7919 % 10007)) + b"," for n in range(count))
    yield ROW + b"]"


def test_several_members_are_estimated_by_the_beginning(tmp_path: Path) -> None:
    text = b"".join(rows(120_000))
    path = tmp_path / "t.json.gz"
    path.write_bytes(b"".join(gzip.compress(text[at : at + 300_000], 1) for at in range(0, len(text), 300_000)))
    assert path.stat().st_size > 1 << 18
    assert 0.7 * len(text) < text_size(path) < 1.4 * len(text)


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have no such settings")
def test_freed_memory_is_used_again() -> None:
    """Pages that are used again cost no faults; in a process of its own, since it holds for all of it."""
    program = """
import resource, sys
import numpy as np
from hta_graph.base.memory import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    del (arrays := [np.ones(1 << 17) for _ in range(40)])[:]
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    faults = [
        int(subprocess.run([sys.executable, "-c", program, how], capture_output=True, check=True).stdout)
        for how in ("plain", "kept")
    ]
    assert 3 * faults[1] < faults[0]
