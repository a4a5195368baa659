"""A process that serves one folder opens regular files of it, and nothing else, whatever others do meanwhile."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hta_graph.base.storage.open_local import ONLY_BELOW, open_database, open_local


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A served folder with a file, beside a folder with a secret."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "t.json").write_text("secret")
    served = tmp_path / "root"
    (served / "inner").mkdir(parents=True)
    (served / "inner" / "t.json").write_text("served")
    monkeypatch.setenv(ONLY_BELOW, str(served))
    return served


def read(path: Path) -> str:
    with open_local(path) as file:
        return file.read().decode()


def test_files_below_the_folder_are_read_also_through_links_that_stay_there(root: Path) -> None:
    (root / "link.json").symlink_to(root / "inner" / "t.json")
    assert read(root / "inner" / "t.json") == read(root / "link.json") == "served"


@pytest.mark.parametrize("name", ["link.json", "folder/t.json", "../secrets/t.json", "."])
def test_what_leads_out_is_not_opened(root: Path, name: str) -> None:
    (root / "link.json").symlink_to(root.parent / "secrets" / "t.json")
    (root / "folder").symlink_to(root.parent / "secrets")
    with pytest.raises(OSError, match="leads out"):
        open_local(root / name)


def test_a_pipe_is_refused_at_once(root: Path) -> None:
    os.mkfifo(root / "pipe.json")
    with pytest.raises(OSError, match="not a regular file"):
        open_local(root / "pipe.json")


def replace_file(root: Path, secrets: Path) -> None:
    (root / "inner" / "t.json").unlink()
    (root / "inner" / "t.json").symlink_to(secrets / "t.json")


def replace_folder(root: Path, secrets: Path) -> None:
    (root / "inner").rename(root / "before")
    (root / "inner").symlink_to(secrets)


@pytest.mark.parametrize("replace", [replace_file, replace_folder])
def test_what_is_replaced_by_a_link_after_it_was_looked_at_is_not_opened(
    root: Path, replace: Callable[[Path, Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = os.path.realpath

    def look_and_replace(path: str) -> str:
        found = looked_at(path)
        replace(root, root.parent / "secrets")
        return found

    monkeypatch.setattr(os.path, "realpath", look_and_replace)
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        open_local(root / "inner" / "t.json")


def write_database(path: Path, value: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE t AS SELECT ? AS value", (value,))
        database.commit()


def test_a_database_that_is_replaced_while_it_is_opened_is_not_read(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets, connect = root.parent / "secrets", sqlite3.connect
    write_database(root / "inner" / "t.sqlite", "served")
    write_database(secrets / "t.sqlite", "secret")
    with closing(open_database(root / "inner" / "t.sqlite")) as database:
        assert database.execute("SELECT value FROM t").fetchall() == [("served",)]

    def connect_late(*given: object, **more: object) -> sqlite3.Connection:
        replace_folder(root, secrets)
        return connect(*given, **more)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(sqlite3, "connect", connect_late)
    with pytest.raises(OSError, match="replaced"):
        open_database(root / "inner" / "t.sqlite")
