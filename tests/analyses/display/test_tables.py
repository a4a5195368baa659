"""Tables for people: what fits a terminal, what is cut, what may not be told apart."""

from __future__ import annotations

import os

import pandas as pd
import pytest

from analyses.display.text_tables import table_lines

WIDE = pd.DataFrame(
    {
        "rank": 0,
        "scope": ["ProfilerStep#10 (GPU window)", "ProfilerStep#11 (GPU window)"],
        **{f"exposed_part{number}_ns": [number * 10**6, 10**9] for number in range(9)},
    }
)


def lines(monkeypatch: pytest.MonkeyPatch, frame: pd.DataFrame, columns: int, limit: int = 9) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    return table_lines("answer", frame, limit)


@pytest.mark.parametrize("columns", [60, 80, 100, 120])
def test_a_wide_table_is_broken_into_blocks_that_fit_and_name_their_rows(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    found = lines(monkeypatch, WIDE, columns)
    assert max(map(len, found)) <= columns
    blocks = sum("scope" in line for line in found)
    assert blocks > 1
    assert sum("ProfilerStep#11 (GPU window)" in line for line in found) == blocks
    assert sum(line.count("1,000.000") for line in found) == 9


def test_a_table_stays_whole_where_it_fits_or_no_terminal_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(lines(monkeypatch, WIDE, 160)) == 6
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr("shutil.get_terminal_size", lambda fallback=(80, 24): os.terminal_size(fallback))
    assert len(table_lines("answer", WIDE, 9)) == 6


def test_a_last_column_of_numbers_is_no_wider_than_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    found = lines(monkeypatch, pd.DataFrame({"name": ["a"], "gaps": [3]}), 80)
    assert found == ["answer", "  name  gaps", "  a        3"]


def test_names_that_would_look_the_same_are_printed_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = "autograd::engine::evaluate_function: AddBackward0"
    alone = lines(monkeypatch, pd.DataFrame({"gaps": [1], "name": [engine]}), 100)
    both = lines(monkeypatch, pd.DataFrame({"gaps": [1, 2], "name": [engine, "AddBackward0"]}), 100)
    assert alone[-1].split() == ["1", "AddBackward0"]
    assert [line.split()[1:] for line in both[-2:]] == [engine.split(), ["AddBackward0"]]


def test_kernels_of_a_sequence_are_short_each(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
    frame = pd.DataFrame({"kernels": [f"{kernel} → 62 more ⇒ {kernel}"]})
    short = "vectorized_elementwise [CUDAFunctor_add]"
    assert lines(monkeypatch, frame, 160)[-1].strip() == f"{short} → 62 more ⇒ {short}"


def test_one_row_left_out_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(monkeypatch, WIDE, 160, limit=1)[-1] == "  … and 1 more row; --json writes all"
