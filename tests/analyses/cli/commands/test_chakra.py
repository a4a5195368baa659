"""The commands about workloads, one after the other, as a person types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analyses.cli.commands.chakra import CHAKRA
from tests.support.command_line import run_command
from tests.support.make_samples import FOLDER


def test_a_workload_is_written_checked_simulated_and_scaled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(capsys, "chakra", "convert", FOLDER / "four_ranks", "--output", "work")[0] == 0
    assert run_command(capsys, "chakra", "check", "work")[0] == 0
    assert run_command(capsys, "chakra", "simulate", "work", "--json", "measured.json")[0] == 0
    assert run_command(capsys, "chakra", "scale", "work", "--gpu", "2", "--output", "slower")[0] == 0
    assert run_command(capsys, "chakra", "simulate", "slower", "--json", "slower.json")[0] == 0
    as_measured, slower = (
        [rank["simulated_ns"] for rank in json.loads(Path(name).read_text(encoding="utf-8"))["ranks"]]
        for name in ("measured.json", "slower.json")
    )
    assert len(as_measured) == 4
    assert all(longer > length for length, longer in zip(as_measured, slower, strict=True))


def test_without_a_command_the_group_lists_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run_command(capsys, "chakra")
    assert (status, out) == (2, "")
    assert err.startswith("usage: hta-graph chakra")
    assert all(f"\n  {command.name} " in err for command in CHAKRA.commands)


@pytest.mark.parametrize("words", [("nothing",), ("convert", "job")])
def test_what_is_missing_is_said_in_one_line(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run_command(capsys, "chakra", *words)
    assert status == 2
    assert "hta-graph chakra" in err.splitlines()[-1]
