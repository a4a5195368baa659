"""The page of the deep run keeps what it does not run again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import deep_run
from tests.support.fuzzing import fuzz_parser


def test_a_step_replaces_its_own_section_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep_run, "PAGE", tmp_path / "deep_run.md")
    words = {"first": "print('one')", "second": "print('two\\x1b[31m'); raise SystemExit(3)"}
    monkeypatch.setattr(
        deep_run, "STEPS",
        {name: (name.title(), lambda *_, code=code: [deep_run.PYTHON, "-c", code]) for name, code in words.items()},
    )  # fmt: skip
    assert deep_run.main(["second"]) == 1
    assert deep_run.main(["first"]) == 0
    page = deep_run.PAGE.read_text()
    assert page.startswith("# Deep run results")
    assert page.index("## First") < page.index("one\n") < page.index("## Second") < page.index("FAILED with status 3")
    assert "\x1b" not in page
    assert deep_run.main([]) == 1
    again = deep_run.PAGE.read_text()
    assert again.count("## First") == again.count("## Second") == 1


def test_an_unknown_step_is_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        deep_run.main(["nonsense"])
    assert "no such step: nonsense" in capsys.readouterr().err


def test_what_is_damaged_is_new_in_every_run_and_can_be_repeated(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deep_run, "PAGE", tmp_path / "deep_run.md")
    say = ("Seeds", lambda _, seed: [deep_run.PYTHON, "-c", f"print('seed', {seed})"])
    monkeypatch.setattr(deep_run, "STEPS", {"seeds": say})

    def seed_of(*words: str) -> str:
        assert deep_run.main([*words]) == 0
        return next(line for line in capsys.readouterr().out.splitlines() if line.startswith("seed "))

    assert seed_of() != seed_of()
    assert seed_of("--seed", "7") == "seed 7"
    assert fuzz_parser(None, 1).parse_args([]).seed != fuzz_parser(None, 1).parse_args([]).seed
    assert fuzz_parser(None, 1).parse_args(["--seed", "7"]).seed == 7


@pytest.mark.parametrize("name", ["traces", "jobs", "commands", "workloads", "loaded"])
def test_each_fuzzer_takes_the_seed_of_the_run(name: str) -> None:
    assert deep_run.STEPS[name][1](1.0, 4711)[-2:] == ["--seed", "4711"]
