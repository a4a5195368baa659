"""Tables and prose for people: what fits a terminal, what is cut, what is left out, what a pipe gets."""

from __future__ import annotations

import io
import sys

import pandas as pd
import pytest

from analyses.display.console import print_lines, text_of
from analyses.display.dataframe_text import table_lines
from analyses.display.text_layout import Line, table

WIDE = pd.DataFrame(
    {
        "rank": 0,
        "scope": ["ProfilerStep#10 (GPU window)", "ProfilerStep#11 (GPU window)"],
        **{f"exposed_part{number}_ns": [number * 10**6, 10**9] for number in range(9)},
    }
)
GEMM = "void cutlass::Kernel<cutlass_80_tensorop_f16_s16816gemm_relu_f16_{}_nn_align8>(Params)"


def lines(frame: pd.DataFrame, room: int | None, limit: int = 9) -> list[str]:
    return text_of(table_lines("answer", frame, limit), room).splitlines()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("columns", [60, 80, 100, 120])
def test_a_wide_table_is_one_block_that_fits_and_names_what_it_leaves_out(columns: int) -> None:
    found = lines(WIDE, columns)
    assert max(map(len, found)) <= columns
    assert sum("ProfilerStep#11" in line for line in found) == 1
    whole = sum(line.count("1,000.000") for line in found)
    rest = " ".join(" ".join(found[found.index(next(line for line in found if "…" in line)) :]).split())
    assert rest.startswith("… more columns with --wide: exposed part")
    assert 0 < whole < 9
    assert whole + rest.count("exposed part") == 9


def test_the_important_columns_are_those_that_stay() -> None:
    order = ["scope", "exposed_part7_ns", "exposed_part1_ns"]
    found = text_of(table_lines("answer", WIDE, 9, order=order), 80).splitlines()
    assert [line.split() for line in found[1:5]] == [
        ["exposed", "exposed"], ["part1", "part7"], ["scope", "ms", "ms"],
        ["ProfilerStep#10", "(GPU", "window)", "1.000", "7.000"],
    ]  # fmt: skip


def test_a_row_alone_stands_upright_where_it_does_not_fit() -> None:
    found = lines(WIDE.iloc[:1], 80)
    assert found[0] == "answer: rank 0, ProfilerStep#10 (GPU window)"
    assert [line.split() for line in found[1:]] == [
        ["exposed", f"part{at}", "ms", f"{at}.000"] for at in range(9)
    ]  # fmt: skip


def test_a_table_stays_whole_where_it_fits_or_no_terminal_reads_it() -> None:
    assert len(lines(WIDE, 160)) == len(lines(WIDE, None)) == 6


def test_the_columns_that_name_rows_come_first() -> None:
    numbers = {f"part{number}_ns": [10**9 + number, 0, 0, 0] for number in range(9)}
    frame = pd.DataFrame({"rank": [0, 0, 1, 1], "scope": "whole", "call": ["a", "b", "a", "b"], **numbers})
    found = lines(frame, 70)
    rows = [tuple(line.split()[:2]) for line in found if line.split()[1:2] in (["a"], ["b"])]
    assert rows == [("0", "a"), ("0", "b"), ("1", "a"), ("1", "b")]


def test_what_all_rows_share_is_said_once() -> None:
    frame = pd.DataFrame({
        "name": ["a", "b"], "evidence": "recorded", "shared_ns": 0, "idle_share": [0.25, 0.5], "outlier": "",
    })  # fmt: skip
    shown = table_lines("answer", frame, 9, share_of={"idle_share": "the window"})
    assert text_of(shown, 80).splitlines() == [
        "answer",
        "  % of the window; every row: evidence recorded, shared 0 ms",
        "        idle",
        "  name     %",
        "  a     25.0",
        "  b     50.0",
    ]


def test_of_what_percentages_are_is_said_of_the_columns_that_are_shown() -> None:
    numbers = {f"part{number}_ns": [10**9, 10**8] for number in range(8)}
    frame = pd.DataFrame({"name": ["a", "b"], "gpu_share": [0.5, 0.4], **numbers, "peak_share": [0.1, 0.2]})
    bases = {"gpu_share": "all GPU time", "peak_share": "the limit"}
    whole = text_of(table_lines("answer", frame, 9, share_of=bases)).splitlines()
    assert whole[1] == "  GPU % of all GPU time; peak % of the limit"
    assert text_of(table_lines("answer", frame, 9, share_of=bases), 70).splitlines()[1] == "  % of all GPU time"


def test_classes_without_any_time_are_left_out() -> None:
    frame = pd.DataFrame({"bound_by": ["cpu_bound", "data_loading"], "control_ns": [10**6, 0], "test_ns": [0, 0]})
    found = lines(frame, 80)
    assert "data loading" not in "".join(found)
    assert found[-1].split() == ["CPU", "work", "1.000", "0.000"]


def test_a_last_column_of_numbers_is_no_wider_than_they_are() -> None:
    found = lines(pd.DataFrame({"name": ["a"], "gaps": [3]}), 80)
    assert found == ["answer", "  name  gaps", "  a        3"]


def test_names_that_would_look_the_same_are_printed_in_full() -> None:
    engine = "autograd::engine::evaluate_function: AddBackward0"
    alone = lines(pd.DataFrame({"gaps": [1], "name": [engine]}), 100)
    both = lines(pd.DataFrame({"gaps": [1, 2], "name": [engine, "AddBackward0"]}), 100)
    assert alone[-1].split() == ["1", "AddBackward0"]
    assert [line.split()[1:] for line in both[-2:]] == [engine.split(), ["AddBackward0"]]


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_different_kernels_stay_different_however_narrow_the_terminal(columns: int) -> None:
    names = [GEMM.format(f"{rows}x{rows}") for rows in (64, 128, 256)]
    frame = pd.DataFrame({"name": names, **{f"part{at}_ns": [10**12] * 3 for at in range(3)}})
    found = [line for line in lines(frame, columns) if "align8" in line]
    shown = [line.replace("1,000,000.000", "").strip() for line in found]
    assert len(shown) % 3 == 0
    assert all(len(set(shown[at : at + 3])) == 3 for at in range(0, len(shown), 3))
    assert max(map(len, found)) <= columns


def test_kernels_of_a_sequence_are_short_each_on_a_terminal_and_whole_in_a_pipe() -> None:
    kernel = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
    frame = pd.DataFrame({"kernels": [f"{kernel} → 62 more ⇒ {kernel}"]})
    short = "vectorized_elementwise [CUDAFunctor_add]"
    assert lines(frame, 160)[-1].strip() == f"{short} → 62 more ⇒ {short}"
    assert lines(frame, None)[-1].strip() == f"{kernel} → 62 more ⇒ {kernel}"


def test_two_rows_more_take_the_place_of_the_line_about_them() -> None:
    many = pd.DataFrame({"name": list("abcdef"), "gaps": range(1, 7)})
    assert lines(many, 160, limit=3)[-1] == "  … 3 more rows with --all"
    assert lines(many, 160, limit=4)[-1].split() == ["f", "6"]


def test_keys_are_printed_as_their_words() -> None:
    found = lines(pd.DataFrame({"cause": ["host_blocked"], "idle_ns": [10**6]}), 80)
    assert found[-1].split("  ")[1:] == ["CPU waits for GPU", "1.000"]


def test_words_are_wrapped_and_never_cut() -> None:
    words = "a call returns when all streams of a device have finished"
    text = text_of(table([["1", words]], ["count", "meaning"], left=[1], words=[1]), 60)
    assert "…" not in text
    assert " ".join(text.split()) == f"count meaning 1 {words}"


def test_a_column_of_which_nothing_is_known_takes_no_room() -> None:
    found = lines(pd.DataFrame({"dtype": [None, None], "stream": [None, "a"], "calls": [1, 2]}), 80)
    assert found[1].split() == ["stream", "calls"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", ["[bold]x[/bold]", "[/]", "[link=x]", ":smile:", "a\x1b[2Jb\x07", "\u202eabc", "a\nb"])
def test_texts_of_a_trace_are_printed_as_they_are_but_for_what_moves_the_cursor(text: str) -> None:
    found = text_of(table([["1", text]], left=[1])).splitlines()
    assert len(found) == 1
    assert found[0].isprintable()
    if text.isprintable():
        assert found[0].strip() == f"1  {text}"


def test_letters_that_are_two_columns_wide_do_not_break_the_table() -> None:
    found = text_of(table([["名前" * 30, "1"], ["b", "2"]], ["name", "n"], left=[0]), 60).splitlines()
    assert [line.split()[-1] for line in found] == ["n", "1", "2"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, what: list[Line], file: io.StringIO, **environment: str) -> str:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "80", **environment}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", file)
    print_lines(what)
    return file.getvalue()


SHOWN: list[Line] = ["the title", *table([["gpu_compute_bound", "x" * 200]], ["class", "what"], left=[0, 1])]


def test_a_terminal_gets_colour_and_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(monkeypatch, SHOWN, Terminal())
    assert text.startswith("\x1b[1mthe title\x1b[0m\n")
    assert "\x1b[38;5;71mgpu_compute_bound\x1b[0m" in text
    assert "…" in text


def test_no_colour_means_no_codes_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in printed(monkeypatch, SHOWN, Terminal(), NO_COLOR="1")
    assert "\x1b" not in printed(monkeypatch, SHOWN, Terminal(), TERM="dumb")


def test_a_pipe_gets_everything_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(monkeypatch, SHOWN, io.StringIO()) == text_of(SHOWN)
    assert "x" * 200 in text_of(SHOWN)


def test_prose_is_wrapped_at_words_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    words = " ".join(["communication"] * 12)
    for what in ([words], [words, *SHOWN[1:]]):
        found = printed(monkeypatch, [*what], Terminal(), NO_COLOR="1").splitlines()
        assert [line.split() for line in found[:3]] == [
            ["communication"] * 5,
            ["communication"] * 5,
            ["communication"] * 2,
        ]
        assert found[1].startswith("  c")
        assert printed(monkeypatch, [*what], io.StringIO()).splitlines()[0] == words


def test_wide_cuts_nothing_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    file = Terminal()
    monkeypatch.setattr(sys, "stdout", file)
    print_lines(SHOWN, wide=True)
    assert "x" * 200 in file.getvalue()


def test_amounts_have_separators_and_what_names_something_has_none() -> None:
    frame = pd.DataFrame({
        "bytes": pd.array([16777216, None], "Int64"),
        "peak_event_index": pd.array([123456, None], "Int64"),
        "number": [1234, 5678],
        "last_rank": [1024, 2048],
    })  # fmt: skip
    found = text_of(table_lines("answer", frame, 9), None)
    assert all(text in found for text in ("16,777,216", "123456", "1234", "1024"))
