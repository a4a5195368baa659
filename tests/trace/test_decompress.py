"""Text comes out piece by piece, the same however it is packed; what is truncated gives all that is good before."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
import zstandard

from hta_graph.base.errors import TraceError
from hta_graph.trace import decompress
from hta_graph.trace.decompress import Decompression, frame_length, is_zstd

TEXT = json.dumps([{"name": f"op {n * 7919 % 10007}", "ts": n} for n in range(8000)]).encode()
HALF = len(TEXT) // 2
SKIPPED = b"\x57\x2a\x4d\x18\x03\0\0\0abc"

PACKED: dict[str, Callable[[], bytes]] = {
    "plain": lambda: TEXT,
    "gzip": lambda: gzip.compress(TEXT),
    "gzip members": lambda: b"".join(gzip.compress(TEXT[at : at + 999]) for at in range(0, len(TEXT), 999)),
    "gzip with padding": lambda: packed("gzip") + bytes(600),
    "gzip with a lone byte": lambda: packed("gzip") + b"\x1f",
    "gzip with empty members": lambda: gzip.compress(b"") * 99 + packed("gzip") + gzip.compress(b"") * 99,
    "zstd": lambda: zstandard.compress(TEXT),
    "zstd frames": lambda: zstandard.compress(TEXT[:HALF]) + SKIPPED + zstandard.compress(TEXT[HALF:]),
    "zstd as pzstd writes it": lambda: SKIPPED + zstandard.compress(TEXT),
}


@cache
def packed(packing: str) -> bytes:
    return PACKED[packing]()


@pytest.fixture(params=["zlib", *(["isal"] if find_spec("isal") else [])])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpack gzip by Python's own library, and by the faster one where that is installed."""
    if request.param == "zlib":
        monkeypatch.setattr(decompress, "_gzip_library", lambda: zlib)


def unpacked(raw: bytes, piece: int = 1 << 17) -> tuple[bytes, Decompression]:
    made = Decompression(Path("t.gz"), io.BufferedReader(io.BytesIO(raw)))  # type: ignore[arg-type]
    pieces = list(made)
    assert max(map(len, pieces), default=0) <= piece
    return b"".join(pieces), made


@pytest.mark.usefixtures("library")
@pytest.mark.sampled(3)
@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("piece", [100, 1 << 17])
def test_pieces_make_up_the_text(monkeypatch: pytest.MonkeyPatch, packing: str, piece: int) -> None:
    monkeypatch.setattr(decompress, "PIECE", piece)
    text, made = unpacked(packed(packing), piece)
    assert text == TEXT
    assert made.broken is None
    assert made.used <= len(packed(packing))


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("lost", [1, 8, 9, 5000])
def test_what_breaks_off_gives_all_that_is_there(lost: int) -> None:
    raw = packed("gzip")[:-lost]
    text, made = unpacked(raw)
    assert text == zlib.decompressobj(wbits=31).decompress(raw)
    assert made.broken == f"the gzip data is truncated at byte {len(raw):,}"


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("place", [0.1, 0.5, 0.95])
def test_corrupt_data_gives_all_that_is_good_before(place: float) -> None:
    raw = bytearray(packed("gzip"))
    at = int(place * len(raw))
    raw[at : at + 40] = b"\xff" * 40
    text, made = unpacked(bytes(raw))
    good = zlib.decompressobj(wbits=31).decompress(bytes(raw[: at - 600]))
    assert text.startswith(good)
    assert made.broken == f"the gzip data is corrupt after {len(text):,} bytes of text"


@pytest.mark.usefixtures("library")
def test_a_wrong_sum_is_corrupt() -> None:
    text, made = unpacked(packed("gzip")[:-8] + bytes(8))
    assert TEXT.startswith(text)
    assert "corrupt after" in (made.broken or "")


@pytest.mark.usefixtures("library")
def test_members_without_text_are_no_trace() -> None:
    with pytest.raises(TraceError, match="has more than 10,000 empty gzip members and is not a trace"):
        unpacked(gzip.compress(b"") * 10_002)


def test_a_window_that_would_fill_memory_is_refused() -> None:
    settings = zstandard.ZstdCompressionParameters.from_level(1, window_log=28)
    packer = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    with pytest.raises(TraceError, match="zstd frames use a window larger than 128 MiB; compress it without --long"):
        unpacked(packer.compress(TEXT) + packer.flush())


def test_the_first_frame_tells_its_length() -> None:
    assert frame_length(packed("zstd")[:18]) == len(TEXT)
    assert frame_length(zstandard.ZstdCompressor().compressobj().compress(TEXT)[:18]) == 0
    assert frame_length(b"\x28\xb5") == 0


def test_what_is_zstd() -> None:
    assert [is_zstd(begin) for begin in (SKIPPED, b"\x6f\x2a\x4d\x18", b"", b"\x28\xb5\x2f\xfd")] == [
        True, False, False, True
    ]  # fmt: skip
