"""Attack every command with hostile texts, numbers and patterns, and print what came of it."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import chdir
from itertools import chain
from pathlib import Path

from tests.support.trace_builder import TraceBuilder
from tests.text_attacks.absurd_numbers import attack_options, attack_values
from tests.text_attacks.command_lines import Asked, ask_in_process
from tests.text_attacks.hostile_texts import (
    ALL_AT_ONCE,
    TEXTS,
    WHERE,
    attack,
    attack_by_files,
    attack_by_options,
    written_material,
)
from tests.text_attacks.regex_cost import growing_patterns, own_patterns

Outcome = tuple[Asked, list[str]]
ENDLESS = ("(a+)+$", "(.*a){25}", "(a|a)*$", "(a+a+)+y", "(", "x{99999999999}", "[[a]", "(" * 3_000)
PATTERNS_TAKEN = (
    ("critical-path", "--regex", "--annotation", "{}"), ("critical-path", "--data-load", "{}"),
    ("idle-time", "--data-load", "{}"), ("what-if", "--remove", "operator:{}"), ("what-if", "--scale", "{}=0.5"),
    ("what-if", "--curve", "{}"), ("sync-deps", "--regex", "--annotation", "{}"), ("report", "--data-load", "{}"),
    ("serving", "--step-pattern", "{}"), ("critical-path", "--step-pattern", "{}"),
)  # fmt: skip


def attack_patterns(folder: Path, seconds: float = 0.5) -> Iterator[Outcome]:
    """Give patterns without end and such as are none to every option that takes one."""
    from hta_graph.base import safe_regex

    name = "a" * 28 + "b" + "a" * 10_000 + "b"
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 100)
    trace.annotation(name, 5, 50)
    trace.op(f"{name}c", 10, 40)
    trace.launch("gemm", (20, 30), (50, 150), 5)
    path = trace.write(folder / "trace.json")
    usual, safe_regex.LIMIT_S = safe_regex.LIMIT_S, seconds
    try:
        for words in PATTERNS_TAKEN:
            for pattern in ENDLESS:
                output = ["-o", str(folder / "out.html")] if words[0] == "report" else []
                asked = ask_in_process([words[0], str(path), *output, *(word.format(pattern) for word in words[1:])])
                faults = [] if asked.status == 2 or pattern == "[[a]" else [f"status {asked.status}"]
                yield asked, [*asked.faults, *faults]
    finally:
        safe_regex.LIMIT_S = usual


def in_traces(text: str, where: str) -> Callable[[Path], Iterator[Outcome]]:
    """Make the attack of a text in traces."""
    return lambda folder: attack(folder, text, where)


def own(_: Path) -> Iterator[Outcome]:
    """Measure the package's own patterns."""
    known = list(own_patterns())
    slow = list(growing_patterns(known))
    yield from ((Asked([place], 0, "", ""), []) for place, _, _ in known[len(slow) :])
    yield from ((Asked([line], 0, "", ""), [line]) for line in slow)


ALONE = {"all texts": ALL_AT_ONCE, "half a character": TEXTS["surrogate"]}
ATTACKS: dict[str, Callable[[Path], Iterator[Outcome]]] = {
    **{f"{of} in {where}": in_traces(text, where) for of, text in ALONE.items() for where in WHERE},
    **{
        f"{of} in file names": lambda folder, text=text: attack_by_files(folder, text)
        for of, text in {"all texts": ALL_AT_ONCE, "no UTF-8": TEXTS["byte"]}.items()
    },
    "texts in options": lambda folder: chain.from_iterable(
        attack_by_options(written_material(folder / str(at), str), text)
        for at, text in enumerate((ALL_AT_ONCE.replace("\0", ""), TEXTS["byte"]))
        if not (folder / str(at)).mkdir()
    ),
    "numbers in options": lambda folder: attack_options(written_material(folder, str)),
    "numbers in traces": attack_values,
    "patterns": attack_patterns,
    "the package's patterns": own,
}  # fmt: skip


def main() -> int:
    """Run the attacks, print a row for each, and what went wrong."""
    parser = argparse.ArgumentParser(description="Attack every command with hostile texts, numbers and patterns.")
    parser.add_argument("--only", default="", metavar="WORD", help="the attacks whose names hold this")
    options = parser.parse_args()
    sys.stdout.write(f"{'attack':<34}{'runs':>8}{'answered':>10}{'no answer':>10}{'refused':>9}{'faults':>8}\n")
    failed: Counter[str] = Counter()
    for name in (name for name in ATTACKS if options.only in name):
        counts: Counter[object] = Counter()
        # A text may be taken for a name: what is written by it goes where nothing is.
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            for asked, faults in ATTACKS[name](Path(folder)):
                counts.update(["runs", asked.status] + ["faults"] * bool(faults))
                failed.update(f"{name}: {' '.join(map(str, asked.words[:1]))}: {fault[:160]!r}" for fault in faults)
        row = "".join(
            f"{counts[key]:>{width},}" for key, width in (("runs", 8), (0, 10), (1, 10), (2, 9), ("faults", 8))
        )
        sys.stdout.write(f"{name:<34}{row}\n")
        sys.stdout.flush()
    sys.stdout.writelines(f"{fault} ×{count}\n" for fault, count in failed.most_common(40))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
