"""All cases on some processes, and what became of them as a table."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from analyses.questions.catalogue import CATALOGUE
from tests.support.output_commands import Output, WritingCommand, writing_commands
from tests.write_attacks.attacked_folder import inputs_of_all
from tests.write_attacks.attacks import ATTACKS

FAILED = "failed"
Case = tuple[str, WritingCommand, Output]
ALIKE = {analysis.name for analysis in CATALOGUE} - {"kernel-sequences"}
"""Commands whose answers are written by the same lines; each attack looks at one output of each, by turns."""


def cases(attacks: Sequence[str], commands: Collection[str] | None) -> Iterator[Case]:
    """List every command, each of its outputs and each attack."""
    for turn, attack in enumerate(attacks):
        for number, command in enumerate(writing_commands()):
            if commands is not None and command.name not in commands:
                continue
            at = (turn + number) % len(command.outputs)
            outputs = command.outputs[at : at + 1] if command.name in ALIKE else command.outputs
            yield from ((attack, command, output) for output in outputs)


def attacked(
    attacks: Sequence[str], commands: Collection[str] | None, jobs: int
) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Run the cases; return how many of each attack ended how, and a line for each that failed."""
    with inputs_of_all():
        return _attacked(list(cases(attacks, commands)), jobs)


def _attacked(listed: Sequence[Case], jobs: int) -> tuple[Counter[tuple[str, str]], list[str]]:
    readers = [_start_worker(listed[at::jobs]) for at in range(jobs)]
    counts, failures = Counter[tuple[str, str]](), []
    for pid, reader in readers:
        with os.fdopen(reader) as answers:
            for line in answers:
                attack, outcome, told = json.loads(line)
                counts[attack, outcome] += 1
                failures += [told] if outcome == FAILED else []
        if status := os.waitpid(pid, 0)[1]:
            failures.append(f"a worker ended with {os.waitstatus_to_exitcode(status)}")
    return counts, failures


def _start_worker(listed: Sequence[Case]) -> tuple[int, int]:
    """Run some cases in a process of their own, which may mount what nobody else sees."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    if pid := os.fork():
        os.close(writer)
        return pid, reader
    status = 1
    try:
        with os.fdopen(writer, "w") as answers:
            for attack, command, output in listed:
                for outcome, told in _outcomes(attack, command, output):
                    answers.write(json.dumps([attack, outcome, told]) + "\n")
                    answers.flush()
        status = 0
    finally:
        os._exit(status)


def _outcomes(attack: str, command: WritingCommand, output: Output) -> Iterator[tuple[str, str]]:
    try:
        yield from ((outcome, "") for outcome in ATTACKS[attack](command, output))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is counted
        where = traceback.extract_tb(error.__traceback__)[-2]
        told = f"{attack}: {command.name} {output.flag}: {type(error).__name__} ({where.lineno}): {error}"
        yield FAILED, told


def shown(counts: Counter[tuple[str, str]]) -> str:
    """Return a table: a row an attack, a column an outcome."""
    outcomes = list(dict.fromkeys(["done", "refused", "ended", *sorted(outcome for _, outcome in counts)]))
    outcomes += [] if FAILED in outcomes else [FAILED]
    attacks = list(
        dict.fromkeys(attack for attack in ATTACKS if any((attack, outcome) in counts for outcome in outcomes))
    )
    rows = [["attack", "cases", *outcomes]]
    for attack in [*attacks, "all"]:
        numbers = [
            sum(count for (own, how), count in counts.items() if attack in (own, "all") and how == outcome)
            for outcome in outcomes
        ]
        rows.append([attack, f"{sum(numbers):,}", *(f"{number:,}" for number in numbers)])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "".join(
        "  ".join(
            [f"{row[0]:<{widths[0]}}", *(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        + "\n"
        for row in rows
    )
