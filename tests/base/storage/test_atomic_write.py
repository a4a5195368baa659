"""Outputs are written whole or not at all, whatever happens on the way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hta_graph.base.errors import OutputError
from hta_graph.base.storage import atomic_write
from hta_graph.base.storage.atomic_write import new_folder, remove_unfinished, write_file
from tests.support.command_line import folder_contents


def allowed() -> None:
    """Let a folder stand where it stands."""


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"


def test_what_is_unfinished_says_so_and_can_be_taken_away(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_bytes(b"earlier")

    def pieces() -> Iterator[bytes]:
        yield b"half"
        (part,) = (path.name for path in tmp_path.iterdir() if path.name != "out.json")
        assert part.startswith(".out.json.")
        assert part.endswith(".part")
        remove_unfinished()
        assert [path.name for path in tmp_path.iterdir()] == ["out.json"]

    with pytest.raises(OutputError, match=r"out\.json: cannot be written: No such file or directory"):
        write_file(tmp_path / "out.json", pieces())
    assert folder_contents(tmp_path) == {str(tmp_path / "out.json"): b"earlier"}


def test_a_folder_that_is_unfinished_can_be_taken_away(tmp_path: Path) -> None:
    def interrupted() -> None:
        with new_folder(tmp_path / "out", allowed) as new:
            (new / "x").write_bytes(b"1")
            (part,) = tmp_path.iterdir()
            assert part.name.endswith(".part")
            remove_unfinished()
            assert list(tmp_path.iterdir()) == []
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    remove_unfinished()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_folder_takes_the_place_of_an_earlier_one_and_its_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
) -> None:
    if not can_exchange:
        monkeypatch.setattr(atomic_write, "_exchange", lambda *_: False)
    (tmp_path / "out").mkdir(mode=0o750)
    (tmp_path / "out" / "old").touch()
    with new_folder(tmp_path / "out", allowed) as new:
        (new / "x").touch()
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["old"]
    assert folder_contents(tmp_path) == {str(tmp_path / "out"): None, str(tmp_path / "out" / "x"): b""}
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o750


def test_what_came_in_the_meantime_is_not_replaced(tmp_path: Path) -> None:
    def refuse_others() -> None:
        if (tmp_path / "out").exists():
            raise OutputError("somebody else's")

    def make_while_somebody_comes() -> None:
        with new_folder(tmp_path / "out", refuse_others):
            (tmp_path / "out").mkdir()
            (tmp_path / "out" / "theirs").touch()

    with pytest.raises(OutputError, match="somebody else's"):
        make_while_somebody_comes()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "theirs"]


@pytest.mark.parametrize("can_exchange", [True, False])
def test_others_put_theirs_in_its_place_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
) -> None:
    """Each attempt finds that the place is as it was not a moment ago; in the end it is taken."""
    exchange, rename, left = atomic_write._exchange, Path.rename, [3]

    def exchanged(one: Path, other: Path) -> bool:
        return can_exchange and exchange(one, other)

    def renamed(path: Path, target: Path) -> Path:
        if path.parent.name == "new" and left[0]:
            left[0] -= 1
            target.mkdir(exist_ok=True)
            (target / "theirs").touch()
        return rename(path, target)

    monkeypatch.setattr(atomic_write, "_exchange", exchanged)
    monkeypatch.setattr(Path, "rename", renamed)
    with new_folder(tmp_path / "out", allowed) as new:
        (new / "x").touch()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["out", "x"]


def test_a_device_is_written_directly(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_file(tmp_path / "pipe", [b"a", b"b"])
    assert os.read(reader, 10) == b"ab"
    os.close(reader)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
