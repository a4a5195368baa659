"""The benchmarks against other programs: ratios pair by pair, the section of the page, instruction counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import instruction_counts
from tests.benchmarks.cold_process import Run
from tests.benchmarks.instruction_counts import differences
from tests.benchmarks.paired_commands import FIRST, PAGE, Measured, Other, own_command, rank_files, recompressed, table

DOCS = Path(__file__).parents[2] / "docs"
PAIRS = [
    (Run(2, 1, 50_000_000, ""), Run(4, 2, 100_000_000, "")),
    (Run(3, 3, 40_000_000, ""), Run(3, 2, 90_000_000, "")),
]


@pytest.mark.parametrize(("is_divided_by_ours", "ratio"), [(False, "1.00 (0.50–1.50)"), (True, "1.33 (0.67–2.00)")])
def test_a_row_has_the_ratios_of_pairs_and_the_greatest_peak(is_divided_by_ours: bool, ratio: str) -> None:
    other = Other("json.loads", lambda _: [], is_divided_by_ours)
    *_, row = table([Measured("one", "diff", FIRST, PAIRS)], other)
    cells = [cell.strip() for cell in row.split("|")]
    assert cells[1:5] == ["one", "diff", FIRST, ratio]
    assert cells[6:9] == ["1.00", "50", "0.50"]


def test_diff_compares_with_the_same_texts_in_other_bytes(tmp_path: Path) -> None:
    folder = Path(__file__).parents[1] / "multi_rank" / "recorded" / "levels_since"
    copy = recompressed(folder, tmp_path)
    assert [file.name for file in rank_files(copy)] == [file.name for file in rank_files(folder)]
    assert rank_files(copy)[0].read_bytes() != rank_files(folder)[0].read_bytes()
    assert str(copy) in own_command("diff", folder, tmp_path)


@pytest.mark.parametrize("benchmark", ["beside_json", "beside_hta"])
def test_the_page_has_the_marks(benchmark: str) -> None:
    text = (DOCS / PAGE).read_text(encoding="utf-8")
    assert text.index(f"<!-- {benchmark}: begin -->\n") < text.index(f"<!-- {benchmark}: end -->")


def test_more_instructions_than_the_tolerance_are_reported() -> None:
    lines, failed = differences({"a": 1_029, "b": 1_031, "c": 900, "d": 1}, {"a": 1_000, "b": 1_000, "c": 1_000})
    assert failed == ["b"]
    assert any("c" in line and "-10.0%" in line for line in lines)
    assert any("d" in line and "no stored count" in line for line in lines)


def test_without_callgrind_a_line_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(instruction_counts, "which", lambda _: None)
    assert instruction_counts.main(["--check"]) == 0
    assert "skipped: valgrind is not installed" in capsys.readouterr().out
