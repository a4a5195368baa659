"""Where outputs may go, and what the names of two outputs have in common."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hta_graph.base.errors import OutputError, UsageError
from hta_graph.base.storage.output_paths import (
    check_new_folder,
    check_output,
    check_outputs,
    is_written_directly,
    resolve_links,
)


def test_a_place_is_where_links_lead(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "one").symlink_to("a/two")
    (tmp_path / "a" / "two").symlink_to("../three")
    assert os.path.realpath(resolve_links(tmp_path / "one")) == os.path.realpath(tmp_path / "three")


def test_links_in_a_circle_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(OutputError, match="links form a loop"):
        resolve_links(tmp_path / "one")


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_an_open_file_is_its_own_place(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        number = Path(f"/proc/self/fd/{file.fileno()}")
        (tmp_path / "link").symlink_to(number)
        assert resolve_links(tmp_path / "link") == number
        assert is_written_directly(number)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["t.json", "./t.json", "link", "hard", "folder/../t.json", "way/t.json"])
def test_an_input_is_known_by_all_its_names(tmp_path: Path, name: str) -> None:
    (tmp_path / "t.json").write_text("{}")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("t.json")
    (tmp_path / "hard").hardlink_to(tmp_path / "t.json")
    (tmp_path / "way").symlink_to(tmp_path)
    with pytest.raises(OutputError, match="is an input, and inputs are never overwritten"):
        check_output(tmp_path / name, [tmp_path / "t.json"])


def test_inputs_that_are_not_there_are_in_nobodys_way(tmp_path: Path) -> None:
    check_output(tmp_path / "new", [tmp_path / "gone"])
    (tmp_path / "folder").mkdir()
    check_new_folder(tmp_path / "folder", [tmp_path / "folder" / "gone"])


def test_a_folder_beside_or_below_the_inputs_may_be_written(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{}")
    (tmp_path / "folder").mkdir()
    check_new_folder(tmp_path / "folder", [tmp_path / "t.json"])
    check_new_folder(tmp_path / "new", [tmp_path / "t.json"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", ["a", "a/b", "link"])
@pytest.mark.parametrize("given", ["a/b/t.json", "into/t.json", "soft"])
def test_a_folder_that_holds_an_input_is_not_written_anew(tmp_path: Path, target: str, given: str) -> None:
    """Whichever way the input is named."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "t.json").write_text("{}")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "into").symlink_to("a/b")
    (tmp_path / "soft").symlink_to("a/b/t.json")
    with pytest.raises(OutputError, match="an input, and inputs are never overwritten"):
        check_new_folder(tmp_path / target, [tmp_path / given])


def test_a_name_in_the_folder_is_an_input_though_it_leads_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{}")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "soft").symlink_to("../t.json")
    with pytest.raises(OutputError, match="an input, and inputs are never overwritten"):
        check_new_folder(tmp_path / "folder", [tmp_path / "folder" / "soft"])


def test_a_disk_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").touch()
    monkeypatch.setattr(Path, "is_block_device", lambda path: path.name == "disk")
    with pytest.raises(OutputError, match="is a device"):
        check_output(tmp_path / "disk", [])


def test_a_folder_of_a_disk_is_not_replaced() -> None:
    with pytest.raises(OutputError, match="is a mount point"):
        check_new_folder(Path("/proc"))


def test_no_file_has_a_name_with_a_zero(tmp_path: Path) -> None:
    for check in (check_output, check_new_folder):
        with pytest.raises(OutputError, match="this is not a valid file name"):
            check(tmp_path / "a\0b", [])


def test_what_the_system_says_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written: File name too long"):
        check_output(tmp_path / ("x" * 300), [])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("one", "other"), [("x", "x"), ("x", "./x"), ("x", "link"), ("there", "hard"), ("-", "-"), ("x", "way/x")]
)
def test_two_outputs_that_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: str, other: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there").touch()
    Path("hard").hardlink_to("there")
    Path("link").symlink_to("x")
    Path("way").symlink_to(".")
    for pair in ([one, other], [other, one]):
        with pytest.raises(UsageError, match="two outputs have this name"):
            check_outputs(pair, [])


def test_two_outputs_that_are_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there").touch()
    check_outputs(["x", "y", "X", "there", "-", "/dev/null", "/dev/null"], [])
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize(
    ("one", "other"), [("out.json", "OUT.json"), ("é.json", "e\u0301.json"), ("straße", "STRASSE")]
)
def test_names_that_are_one_where_letters_are_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: str, other: str
) -> None:
    """As on disks of macOS and Windows, where it is tried with two names that nobody has."""
    check_outputs([tmp_path / one, tmp_path / other], [])
    tried: list[str] = []

    def exists(path: Path, **_: Any) -> bool:
        tried.append(path.name)
        return path.name.endswith(".part") or path.parent != tmp_path

    monkeypatch.setattr(Path, "exists", exists)
    with pytest.raises(UsageError, match="two outputs have this name"):
        check_outputs([tmp_path / one, tmp_path / other], [])
    assert [name for name in tried if name.startswith(f".{other}.") and name.endswith(".part")]


@pytest.mark.parametrize("inside", ["folder/x.json", "way/x.json"])
def test_nothing_is_written_into_a_folder_that_is_written_anew(tmp_path: Path, inside: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "way").symlink_to("folder")
    with pytest.raises(UsageError, match="which is replaced"):
        check_outputs([tmp_path / inside], [], [tmp_path / "folder"])
