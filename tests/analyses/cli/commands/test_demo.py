"""The bundled traces, written for who follows the manual."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from analyses.cli.main import main
from tests.support.make_samples import FOLDER


def test_the_bundled_traces_are_written_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--traces", str(tmp_path / "new")]) == 0
    written = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert written == ["job", "serving.json.gz", "slower.json.gz", "trace.json.gz", "two_gpus.json.gz"]
    assert (tmp_path / "new" / "trace.json.gz").read_bytes() == (FOLDER / "sample_trace.json.gz").read_bytes()
    assert len(list((tmp_path / "new" / "job").iterdir())) == 4
    assert f"{tmp_path}/new/job" in capsys.readouterr().out


def test_a_folder_that_holds_files_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("mine")
    assert main(["demo", "--traces", str(tmp_path)]) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert capsys.readouterr().err == f"hta-graph: {tmp_path}: holds files; name a new folder\n"


def test_a_full_disk_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_one = shutil.copyfile

    def copy_until_full(source: str | Path, copy: Path, **options: bool) -> Path:
        if Path(source).name.startswith("rank_"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return copy_one(source, copy, **options)

    monkeypatch.setattr(shutil, "copyfile", copy_until_full)
    assert main(["demo", "--traces", str(tmp_path / "new")]) == 1
    line = f"hta-graph: {tmp_path / 'new'}: cannot be written: No space left on device\n"
    assert capsys.readouterr().err == line
    assert list(tmp_path.iterdir()) == []
