"""Files of cache entries: whatever was changed in one shows before it is believed."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hta_graph.base.arrays import memory_of
from hta_graph.store import trace_cache
from hta_graph.store.cache_folder import CacheFolder
from hta_graph.store.entry_file import ALIGNMENT, WEIGHTS, DamagedEntryError, Entry, checksum, entry_pieces, read_entry
from hta_graph.store.trace_cache import is_unchanged, stored_content
from hta_graph.trace.memory_limit import limit_memory

NAME, OTHER = "0" * 40, "1" * 40
COLUMNS = (np.arange(5, dtype=np.int64), np.zeros(0, np.int8), np.array([True, False]), np.array([0.5, np.nan]))


def written(name: str = NAME) -> bytes:
    return b"".join(map(bytes, entry_pieces(name, Entry({"é": [1, None, "\ud800"]}, COLUMNS))))


def folder_at(path: Path, most_bytes: int = 1 << 30) -> tuple[CacheFolder, list[str]]:
    said: list[str] = []
    return CacheFolder(path, said.append, most_bytes), said


def test_an_entry_is_read_as_it_was_written() -> None:
    found = read_entry(NAME, written())
    assert found.record == {"é": [1, None, "\ud800"]}
    for column, before in zip(found.columns, COLUMNS, strict=True):
        np.testing.assert_array_equal(column, before)
        assert (column.dtype, column.flags.writeable) == (before.dtype, False)
        assert not len(column) or column.ctypes.data % 8 == 0
    assert ALIGNMENT % 8 == 0


def test_each_changed_byte_and_each_length_shows() -> None:
    """Bytes between columns mean nothing: there a change is no damage."""
    sound = written()
    for at in range(len(sound)):
        damaged = bytearray(sound)
        damaged[at] ^= 1
        try:
            found = read_entry(NAME, bytes(damaged))
        except (DamagedEntryError, ValueError):
            continue
        assert all(map(np.array_equal, found.columns[:3], COLUMNS[:3])), at
        assert sound[at] == 0
    for size in range(len(sound)):
        with pytest.raises((DamagedEntryError, ValueError)):
            read_entry(NAME, sound[:size])
    with pytest.raises(DamagedEntryError):
        read_entry(NAME, sound + b"\0")
    with pytest.raises(DamagedEntryError):
        read_entry(OTHER, sound)


def test_changes_of_a_long_column_show() -> None:
    """A change of one bit anywhere, words that change places, and blocks that do."""
    rng = random.Random(1)
    sound = np.array([rng.getrandbits(64) for _ in range(2 * len(WEIGHTS) + 9)], np.uint64)
    written = checksum(memory_of(sound))
    for at, word in enumerate(sound.tolist()):
        other = sound.copy()
        other[at] = word ^ 1 << rng.randrange(64)
        assert checksum(memory_of(other)) != written
        other = sound.copy()
        other[[at, at - 1]] = other[[at - 1, at]]
        assert checksum(memory_of(other)) != written
    assert checksum(memory_of(np.roll(sound[: 2 * len(WEIGHTS)], len(WEIGHTS)))) != checksum(
        memory_of(sound[: 2 * len(WEIGHTS)])
    )


def test_a_damaged_entry_is_one_line_and_gone(tmp_path: Path) -> None:
    folder, said = folder_at(tmp_path)
    folder.write(NAME, Entry({"a": 1}, COLUMNS))
    place = tmp_path / f"{NAME}.hta-graph"
    place.write_bytes(place.read_bytes()[:-1])
    assert folder.read(NAME, "trace.json") is None
    assert (len(said), place.exists()) == (1, False)
    assert said[0].startswith("trace.json: ")
    assert folder.read(NAME, "trace.json") is None
    assert len(said) == 1


def test_what_was_not_used_for_the_longest_time_goes_first(tmp_path: Path) -> None:
    size = len(written())
    folder, said = folder_at(tmp_path, 2 * size)
    names = [f"{number:040x}" for number in range(3)]
    for age, name in enumerate(names):
        folder.write(name, Entry({"é": [1, None, "\ud800"]}, COLUMNS))
        os.utime(tmp_path / f"{name}.hta-graph", (1_000 - age, 1_000 - age))
    assert folder.read(names[2], "") is not None  # used just now
    (tmp_path / "mine.txt").write_text("mine")
    abandoned = tmp_path / f".{NAME}.hta-graph.{'0' * 16}.part"
    abandoned.write_bytes(written()[:20])
    os.utime(abandoned, (1, 1))
    folder.trim()
    assert [folder.has(name) for name in names] == [True, False, True]
    assert not abandoned.exists()
    assert folder.clear()[0] == 2
    assert ([path.name for path in tmp_path.iterdir()], said) == (["mine.txt"], [])


@pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX'")
def test_what_others_may_have_written_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place := tmp_path / "kept").mkdir(mode=0o700)
    folder_at(place)[0].write(NAME, Entry({}))
    place.chmod(0o770)
    folder, said = folder_at(place)
    assert folder.read(NAME, "") is None
    folder.write(OTHER, Entry({}))
    assert (len(said), "other users" in said[0], folder.has(OTHER)) == (1, True, False)
    place.chmod(0o700)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    folder, said = folder_at(place)
    assert folder.read(NAME, "") is None
    assert (len(said), "another user" in said[0]) == (1, True)


def test_a_link_in_an_entrys_place_is_not_followed(tmp_path: Path) -> None:
    (kept := tmp_path / "kept").mkdir(mode=0o700)
    (tmp_path / "elsewhere").write_bytes(written())
    (kept / f"{NAME}.hta-graph").symlink_to(tmp_path / "elsewhere")
    folder, _ = folder_at(kept)
    assert folder.read(NAME, "") is None
    folder.write(NAME, Entry({"new": 1}))
    assert folder.read(NAME, "") is not None
    assert (tmp_path / "elsewhere").read_bytes() == written()


@pytest.mark.skipif(os.name != "posix", reason="pipes and modes are POSIX'")
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_in_an_entrys_place_costs_a_line(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A pipe would keep whoever opens it waiting, for ever."""
    make(tmp_path / f"{NAME}.hta-graph")
    folder, said = folder_at(tmp_path)
    assert folder.read(NAME, "") is None
    folder.write(NAME, Entry({}))
    folder.write(OTHER, Entry({}))
    assert said == [f"cache folder {tmp_path}: {NAME}.hta-graph is no file; remove it; continuing without it"]
    assert not folder.has(OTHER)


def test_a_name_that_no_folder_can_have_costs_a_line(tmp_path: Path) -> None:
    folder, said = folder_at(tmp_path / ("x" * 300))
    assert (folder.read(NAME, ""), folder.has(NAME), folder.entries()) == (None, False, [])
    folder.write(NAME, Entry({}))
    assert (len(said), "cannot be written" in said[0]) == (1, True)


@pytest.mark.skipif(not Path(os.devnull).exists(), reason="the null device is no file")
def test_a_place_that_is_no_folder_costs_one_line() -> None:
    folder, said = folder_at(Path(os.devnull))
    assert folder.read(NAME, "") is None
    folder.write(NAME, Entry({}))
    assert len(said) == 1


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX'")
def test_entries_and_their_folder_are_the_users_own(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        folder, _ = folder_at(tmp_path / "kept")
        folder.write(NAME, Entry({}))
        place = tmp_path / "kept" / f"{NAME}.hta-graph"
        place.chmod(0o644)
        folder.write(NAME, Entry({"again": 1}))
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "kept", place)] == [0o700, 0o600]


def test_clearing_removes_only_what_begins_as_an_entry(tmp_path: Path) -> None:
    folder, _ = folder_at(tmp_path, 0)
    folder.write(NAME, Entry({}))
    mine = [f"{OTHER}.hta-graph", f".{OTHER}.hta-graph.{'0' * 16}.part"]
    for name in mine:
        (tmp_path / name).write_text("mine")
        os.utime(tmp_path / name, (1, 1))
    folder.trim()
    folder.clear()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(mine)


def test_what_is_too_long_to_be_read_is_not_hashed_unless_it_is_read_row_by_row(tmp_path: Path) -> None:
    for name, is_hashed in (("t.json", False), ("t.sqlite", True)):
        (tmp_path / name).write_bytes(bytes(2_000))
        with limit_memory(1_000):
            assert (stored_content(tmp_path / name) is not None) is is_hashed
        assert stored_content(tmp_path / name) is not None


def test_content_is_hashed_again_unless_a_change_would_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(b"one")
    first = stored_content(path)
    assert first is not None
    assert not first.is_settled  # written just now: a second change may leave the same times
    assert is_unchanged(path, first)
    assert stored_content(path, lambda _: "noted") == first
    monkeypatch.setattr(trace_cache, "SETTLED_NS", -(10**12))
    noted = stored_content(path, lambda _: "noted")
    assert noted is not None
    assert (noted.digest, noted.is_settled, is_unchanged(path, noted)) == ("noted", True, True)
    status = path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert not is_unchanged(path, first)
    assert not is_unchanged(path, noted)
    changed = stored_content(path)
    assert changed is not None
    assert changed.digest != first.digest


def test_nothing_is_taken_of_a_pipe_or_a_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "missing", Path("a\0b")):
        assert stored_content(path) is None
