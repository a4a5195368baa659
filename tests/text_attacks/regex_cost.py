"""The package's own regular expressions on long names and texts: time must grow as the text does."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import analyses
import hta_graph

ALPHABET = (
    "a", "A", "_", "1", "0", " ", "\t", "\n", "/", ":", "::", "<", "(", "{", "[", '"', "\\", '\\"', ",", ".", "-", "}",
    "} , ", "nccl", "a1", "1a", "a ", " a", "a:", "a_", "x1_", "<(", "a<b(", '"a', "T1_", "S_", "La1E", "DF1", "E1",
    "rank_",
    "rank 1: ", " → ", "é", "0x", "Memcpy ", "nn.Module: ", ".py(1): ", "a/b.py(1): ", "-1", "1.", "e+", "Async",
)  # fmt: skip
BEFORE = (
    "",
    '"traceEvents"',
    "[",
    "}",
    "Memcpy ",
    "void ",
    "_ZN",
    "cudaMemcpy",
    "<",
    '"',
    "Tensor(",
    "message M {",
    "a/",
)
HOW = ("match", "search", "fullmatch", "finditer")
PLAIN = {"findall": "finditer", "sub": "finditer", "split": "finditer"}
PASSED = {"matching_names": "search", "names_starting_with": "match", "_kind_with_name": "match", "str.match": "match"}
"""What applies a pattern that it is given."""
IN_LOOPS = {"_MATCHED": "match", "_FROM_THE_START": "match", "_COPIES": "match", "_COMPILED": "fullmatch"}
"""Collections of patterns → what loops over them apply; else both that are usual are tried."""
NOT_HOSTILE = ("hta_graph.chakra.schema",)
"""Modules whose patterns read files of the package only."""
QUADRATIC_SIZE, QUADRATIC_S = 5_000, 0.01
"""At this size what is linear takes a tenth of a millisecond, what is quadratic a tenth of a second."""
GIVEN_UP_S = 5.0


def own_patterns() -> Iterator[tuple[str, re.Pattern[Any], str]]:
    """Yield the patterns of every module: where each stands, itself, and how it is applied."""
    sources = {found.name: importlib.import_module(found.name) for found in _modules()}
    texts = {name: inspect.getsource(module) for name, module in sources.items()}
    used = _uses("\n".join(texts.values()))
    for name, module in sources.items():
        if name in NOT_HOSTILE:
            continue
        for variable, value in list(vars(module).items()):
            for at, pattern in enumerate(_patterns_in(value)):
                how = [IN_LOOPS[variable]] if variable in IN_LOOPS else sorted(used.get(variable, {"match", "search"}))
                yield from ((f"{name}.{variable}[{at}]", pattern, method) for method in how)
        yield from _inline_patterns(name, texts[name])


def _uses(text: str) -> dict[str, set[str]]:
    """Return by which methods each name is applied, or what it is passed to applies."""
    found = defaultdict(set)
    for variable, how in re.findall(rf"\b(\w+)\.({'|'.join((*HOW, *PLAIN))})\b", text):
        found[variable].add(PLAIN.get(how, how))
    for how, variable in re.findall(rf"\b({'|'.join(PASSED)})\((\w+)\b", text):
        found[variable].add(PASSED[how])
    return found


def _modules() -> Iterator[pkgutil.ModuleInfo]:
    for package in (hta_graph, analyses):
        found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        yield from (module for module in found if not module.name.endswith("__main__"))


def _inline_patterns(name: str, text: str) -> Iterator[tuple[str, re.Pattern[Any], str]]:
    """Yield what a module gives to ``re`` itself."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            how, of, first = PLAIN.get(node.func.attr, node.func.attr), node.func.value, node.args[0]
            is_of_re = isinstance(of, ast.Name) and of.id == "re" and how in HOW
            if is_of_re and isinstance(first, ast.Constant) and isinstance(first.value, str | bytes):
                yield f"{name}:{node.lineno}", re.compile(first.value), how


def _patterns_in(value: Any) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict | tuple | list) and len(value) < 200:
        for item in value.values() if isinstance(value, dict) else value:
            every = item if isinstance(item, tuple) else (item,)
            yield from (each for each in every if isinstance(each, re.Pattern))


class TooLongError(Exception):
    """A pattern was given up."""


def hostile_texts(size: int) -> Iterator[str]:
    """Yield texts of about a size: something that patterns begin with, then one thing again and again."""
    for begin in BEFORE:
        for part in ALPHABET:
            yield begin + part * (size // len(part)) + "\0"


def time_of(pattern: re.Pattern[Any], text: str, how: str) -> float:
    """Measure how long a pattern takes on a text (s of the processor)."""
    subject: Any = text.encode() if isinstance(pattern.pattern, bytes) else text
    start = time.process_time()
    found = getattr(pattern, how)(subject)
    if how == "finditer":
        sum(1 for _ in found)
    return time.process_time() - start


def slow_texts(pattern: re.Pattern[Any], how: str, texts: Iterable[str], seconds: float) -> Iterator[tuple[str, float]]:
    """Yield the texts on which a pattern takes longer than some seconds, three times; the last one if it never ends."""
    asked = ""
    with _limited():
        try:
            for asked in texts:
                if (taken := time_of(pattern, asked, how)) > seconds:
                    taken = min(taken, *(time_of(pattern, asked, how) for _ in range(2)))
                if taken > seconds:
                    yield asked, taken
        except TooLongError:
            yield asked, float("inf")


@contextmanager
def _limited() -> Iterator[None]:
    def give_up(*_: object) -> NoReturn:
        raise TooLongError

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, GIVEN_UP_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def growing_patterns(patterns: Iterable[tuple[str, re.Pattern[Any], str]]) -> Iterator[str]:
    """Yield a line for each pattern whose time grows faster than the text, with such a text."""
    texts = list(hostile_texts(QUADRATIC_SIZE))
    for place, pattern, how in patterns:
        if found := next(slow_texts(pattern, how, texts, QUADRATIC_S), None):
            text, taken = found
            yield f"{place} by {how}: {taken:.3f} s for {text[:24]!r}… of {len(text):,} characters"


if __name__ == "__main__":
    for line in growing_patterns(own_patterns()):
        sys.stdout.write(f"{line}\n")
