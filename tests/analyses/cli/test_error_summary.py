"""A folder of very many files is told in a few lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analyses.cli import rank_inputs
from analyses.questions import info
from tests.benchmarks.scaling_traces import write_folder
from tests.support.command_line import run_command


@pytest.fixture
def few_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_inputs, "ERRORS_LISTED", 1)
    monkeypatch.setattr(info, "RANKS_LISTED", 2)


@pytest.mark.usefixtures("few_told")
def test_errors_are_counted_by_cause_and_ranks_added_up(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = write_folder("half_broken_files", 12, tmp_path / "many")
    status, out, err = run_command(capsys, "info", folder)
    assert status == 1
    assert err.splitlines()[2:] == [
        (
            f"hta-graph: {folder / 'file_00007.json'}: the JSON is truncated at byte 69, after 0 complete events; "
            "record the trace again"
        ),
        (
            "hta-graph: … and 2 more files that cannot be read: 1 × is empty, "
            "1 × is not JSON: Expecting value at byte … after … complete events; run info --json FILE to list them"
        ),
    ]
    assert out.count("events in") == 1
    *_, last = out.splitlines()
    assert last == "… and 5 more ranks (2 to 10): 105 events, 21 to 21 each; use --rank N for one, --wide for all"


@pytest.mark.usefixtures("few_told")
def test_wide_and_json_leave_nothing_out(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = write_folder("half_broken_files", 12, tmp_path / "many")
    _, out, _ = run_command(capsys, "info", folder, "--wide")
    assert out.count("events in") + out.count("no events") == 7
    assert "more ranks" not in out
    found = json.loads(run_command(capsys, "info", folder, "--json", "-")[1])
    assert len(found["ranks"]) == 7
    assert [line.partition(": ")[0] for line in found["unread"]] == [
        str(folder / f"file_{at:05}.json") for at in (7, 9, 11)
    ]


@pytest.mark.usefixtures("few_told")
def test_where_no_file_can_be_read_no_list_is_offered(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = write_folder("no_traces", 12, tmp_path / "many")
    status, out, err = run_command(capsys, "info", folder)
    assert (status, out) == (1, "")
    assert "more files that cannot be read" in err
    assert "to list them" not in err
