"""``-o FILE`` of every answer: the format is that of the suffix, and the same as of the option for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import folder_contents, one_error, run_command, two_steps


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return two_steps().write(tmp_path / "trace.json")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", ["info", "critical-path", "temporal-breakdown"])
def test_text_in_a_file_is_that_of_a_pipe(
    command: str, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = run_command(capsys, command, trace)[1]
    target = tmp_path / "answer.txt"
    assert run_command(capsys, command, trace, "-o", target) == (0, "", "")
    assert target.read_text(encoding="utf-8") == expected
    assert run_command(capsys, command, trace, "-o", "-") == (0, expected, "")


@pytest.mark.parametrize("option", ["json", "csv"])
def test_the_suffix_selects_the_format(
    option: str, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / f"answer.{option}"
    expected = run_command(capsys, "temporal-breakdown", trace, f"--{option}", "-")[1]
    first = run_command(capsys, "temporal-breakdown", trace)[1].splitlines()[0]
    said = f"{first}\n" if option == "json" else ""
    assert run_command(capsys, "temporal-breakdown", trace, "--output", target) == (0, said, "")
    assert target.read_bytes() == expected.encode()


def test_a_text_without_formats_goes_to_any_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = run_command(capsys, "schema", "info")[1]
    assert run_command(capsys, "schema", "info", "-o", tmp_path / "info.json") == (0, "", "")
    assert (tmp_path / "info.json").read_text(encoding="utf-8") == expected


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("options", "said", "status"),
    [
        (["-o", "a.html"], "a.html: this command writes .json, .csv or text; name another file", 2),
        (["-o", "a.json", "--json", "b.json"], "a.json: --json names this output too; omit one of them", 2),
        (["-o", "a.txt", "--json", "b.json"], "a.txt: --json leaves no text to write there; omit one of them", 2),
        (["-o", "trace.json"], "trace.json: is an input", 1),
        (["-o", "none/a.txt"], "none/a.txt: its folder does not exist", 1),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, list) else "",
)
def test_what_cannot_be_written_is_refused_before_work(
    options: list[str], said: str, status: int, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert said in one_error(capsys, tmp_path, "critical-path", trace.name, *options, status=status)


def test_a_failed_command_writes_no_file(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = folder_contents(tmp_path)
    status, out, _ = run_command(capsys, "critical-path", trace, "--step", 99, "-o", tmp_path / "a.txt")
    assert (status, out) == (1, "")
    assert folder_contents(tmp_path) == before


def test_another_output_goes_to_standard_output_beside_it(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = run_command(capsys, "critical-path", trace)[1]
    graph = tmp_path / "path.dot"
    run_command(capsys, "critical-path", trace, "--dot", graph)
    target = tmp_path / "answer.txt"
    status, out, _ = run_command(capsys, "critical-path", trace, "-o", target, "--dot", "-")
    assert (status, out) == (0, graph.read_text(encoding="utf-8"))
    assert target.read_text(encoding="utf-8") == expected


FOREIGN = {"trace": '{"traceEvents":[]}', "list": "[1]", "text": "notes\n"}


@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("option", ["--json", "-o", "--update"])
def test_a_file_of_another_kind_is_not_replaced(
    kind: str, option: str, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (target := tmp_path / "kept.json").write_text(FOREIGN[kind])
    command = "gate" if option == "--update" else "info"
    what = "baseline" if option == "--update" else "JSON answer"
    said = f"kept.json: is no {what} of hta-graph, and is not replaced; name another file, or remove this one"
    assert said in one_error(capsys, tmp_path, command, trace, option, target, status=3 if command == "gate" else 1)
    assert target.read_text() == FOREIGN[kind]


def test_text_replaces_text_and_no_data(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = two_steps().write(tmp_path / "other.json.gz")
    assert "other.json.gz: is no text" in one_error(capsys, tmp_path, "info", trace, "-o", other)
    (tmp_path / "old.txt").write_text("old")
    assert run_command(capsys, "info", trace, "-o", tmp_path / "old.txt")[0] == 0
    assert (tmp_path / "old.txt").read_text() != "old"


@pytest.mark.parametrize("name", ["base.json", "base.json.gz"])
def test_own_files_and_empty_ones_are_replaced(
    name: str, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "answer.json").touch()
    for _ in range(2):
        assert run_command(capsys, "info", trace, "--json", tmp_path / "answer.json")[0] == 0
        assert run_command(capsys, "gate", "--update", tmp_path / name, trace)[0] == 0
    answer = tmp_path / "answer.json"
    assert "is no baseline" in one_error(capsys, tmp_path, "gate", "--update", answer, trace, status=3)
    assert "is no JSON answer" in one_error(capsys, tmp_path, "info", trace, "--json", tmp_path / name)
    assert run_command(capsys, "schema", "info", "-o", tmp_path / "answer.json")[0] == 0
