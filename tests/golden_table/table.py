"""Both tables as text or Markdown."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.golden_table.exact_numbers import Tally, exact_traces, tallies
from tests.golden_table.golden_files import Golden, golden_answers
from tests.golden_table.hta_faults import Fault
from tests.golden_table.verdict import EQUAL, NOT_COVERED, RAISES, UNEXPLAINED, Verdict, judge
from tests.support.shared_traces import SHARED

__all__ = ["main"]

SIGNS = {
    EQUAL: "equal to HTA's answer, and to the recomputation where there is one",
    RAISES: "HTA raises, for a reason that was checked; ours is equal to the recomputation",
    NOT_COVERED: "not covered",
    UNEXPLAINED: "UNEXPLAINED",
}
CHOICES = {fault.letter for fault in Fault if fault.is_choice}
ALIKE = {"get_frequent_cuda_kernel_sequences": "get_frequent_cuda_kernel_sequences (13 operators)"}
"""Calls that share a line."""
Verdicts = dict[tuple[str, str], list[tuple[Golden, Verdict]]]


def judged(traces: Sequence[str]) -> Verdicts:
    """Judge all calls on some traces, by line and column."""
    found: Verdicts = {}
    for golden in golden_answers(SHARED / "golden"):
        if traces and golden.trace not in traces:
            continue
        _say(f"{golden.trace} {golden.name}")
        found.setdefault((_line(golden), golden.trace), []).append((golden, judge(golden)))
    _say("")
    return found


def _line(golden: Golden) -> str:
    return ALIKE.get(golden.method, golden.name)


def _say(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text[:100]}")


def first_table(found: Verdicts) -> list[str]:
    """Lines: calls; columns: traces, numbered; cells: signs, or the letters of the faults in HTA's answer."""
    traces = list(dict.fromkeys(trace for _, trace in found))
    lines = list(dict.fromkeys(line for line, _ in found))
    rows = [[line, *(_cell(found.get((line, trace), ())) for trace in traces)] for line in lines]
    every = [verdict for cell in found.values() for _, verdict in cell]
    counts = {sign: sum(verdict.code == sign for verdict in every) for sign in SIGNS}
    chosen = sum(verdict.code not in SIGNS and set(verdict.code) <= CHOICES for verdict in every)
    wrong = len(every) - sum(counts.values()) - chosen
    parts = (
        f"{counts[EQUAL]} equal",
        f"{wrong} differ because HTA is wrong",
        f"{chosen} by a choice or by chance alone",
        f"{counts[RAISES]} raised by HTA",
        f"{counts[NOT_COVERED]} not covered",
        f"{counts[UNEXPLAINED]} unexplained",
    )
    return [
        f"{len(every)} answers of HTA: {', '.join(parts)}.",
        "",
        *_markdown(["call", *map(str, range(1, len(traces) + 1))], rows),
        "",
        "Traces: " + ", ".join(f"{at} {trace}" for at, trace in enumerate(traces, 1)) + ".",
        "",
        *_legend(every),
        *_sentences(found, traces),
    ]


def _cell(verdicts: Iterable[tuple[Golden, Verdict]]) -> str:
    return " ".join(dict.fromkeys(verdict.code for _, verdict in verdicts))


def _legend(every: Sequence[Verdict]) -> list[str]:
    signs = [f"- `{sign}` {meaning}" for sign, meaning in SIGNS.items() if any(one.code == sign for one in every)]
    letters = {letter for verdict in every if verdict.code not in SIGNS for letter in verdict.code}
    faults = [
        f"- `{one.letter}` {one.meaning} (section {one.section}{', a choice or chance' * one.is_choice})"
        for one in Fault
        if one.letter in letters
    ]
    intro = [
        "",
        "HTA differs, and its very answer comes out of the recomputation with these of its faults, no fewer:",
        "",
    ]
    return [*signs, *(intro if faults else []), *faults]


def _sentences(found: Verdicts, traces: Sequence[str]) -> list[str]:
    """Say what HTA raised and what is left: the reason, then calls and the numbers of traces."""
    reasons: dict[tuple[str, str], dict[str, list[str]]] = {}
    for (line, trace), cell in found.items():
        for _, verdict in cell:
            if verdict.code in (RAISES, NOT_COVERED, UNEXPLAINED):
                places = reasons.setdefault((verdict.code, verdict.reason), {}).setdefault(line, [])
                places += [str(traces.index(trace) + 1)] * (str(traces.index(trace) + 1) not in places)
    order = sorted(reasons, key=lambda key: (key[0] != UNEXPLAINED, key))
    said = {key: "; ".join(f"{line} ({', '.join(places)})" for line, places in reasons[key].items()) for key in order}
    return ["", *(f"- `{sign}` {text}: {said[sign, text]}" for sign, text in order)]


def second_table(found: Sequence[Tally]) -> list[str]:
    """Lines: kinds of numbers; columns: traces; cells: how many are equal."""
    traces, kinds = (list(dict.fromkeys(getattr(one, name) for one in found)) for name in ("trace", "kind"))
    cells = {(one.kind, one.trace): one for one in found}
    rows = [[kind, *(_count(cells.get((kind, trace))) for trace in traces)] for kind in kinds]
    total, wrong = sum(one.compared for one in found), sum(len(one.different) for one in found)
    differing = [f"- {one.trace}, {one.kind}: {text}" for one in found for text in one.different[:5]]
    said = "exact numbers (of all ranks, of whole traces and of HTA's documented window)"
    return [
        f"{total:,} {said}: {total - wrong:,} equal, {wrong} not.",
        "",
        *_markdown(["equal numbers", *map(str, range(1, len(traces) + 1))], rows),
        "",
        "Traces: " + ", ".join(f"{at} {trace}" for at, trace in enumerate(traces, 1)) + ".",
        *differing,
    ]


def _count(one: Tally | None) -> str:
    if one is None or not one.compared:
        return ""
    return f"{one.compared - len(one.different)} of {one.compared}" if one.different else f"{one.compared:,}"


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Align a table."""
    sizes = [max(len(row[at]) for row in [header, *rows]) for at in range(len(header))]
    lines = [header, ["-" * size for size in sizes], *rows]
    return ["| " + " | ".join(cell.ljust(size) for cell, size in zip(row, sizes, strict=True)) + " |" for row in lines]


def main() -> None:
    """Judge, print, and say by the exit status whether something is unexplained."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.golden_table", description="HTA's golden answers beside ours."
    )
    parser.add_argument("traces", nargs="*", help="folders of the golden answers (all)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there too")
    options = parser.parse_args()
    found = judged(options.traces)
    exact = [one for trace in exact_traces() if not options.traces or trace in options.traces for one in tallies(trace)]
    lines = ["## Beside HTA", "", *first_table(found), "", "## Beside exact recomputations", "", *second_table(exact)]
    text = "\n".join(lines) + "\n"
    sys.stdout.write(text)
    if options.markdown:
        options.markdown.write_text(text, encoding="utf-8")
    unexplained = any(verdict.code == UNEXPLAINED for cell in found.values() for _, verdict in cell)
    sys.exit(1 if unexplained or any(one.different for one in exact) else 0)
