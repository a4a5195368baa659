"""The package's own regular expressions on names and texts of a million characters: time must grow as the text does."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import signal
import sys
import time
from collections.abc import Iterator
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
NOT_HOSTILE = ("hta_graph.export.chakra.files.schema",)
"""Modules whose patterns read files of the package only."""
LIMIT_S = 2.0


class TooLongError(Exception):
    """A pattern was given up."""


def own_patterns() -> Iterator[tuple[str, re.Pattern[Any], str]]:
    """Yield the patterns of every module: where each stands, itself, and how it is applied."""
    sources = {found.name: importlib.import_module(found.name) for found in _modules()}
    texts = {name: inspect.getsource(module) for name, module in sources.items()}
    every = "\n".join(texts.values())
    for name, module in sources.items():
        if name in NOT_HOSTILE:
            continue
        for variable, value in list(vars(module).items()):
            used = {PLAIN.get(how, how) for how in re.findall(rf"\b{variable}\.({'|'.join((*HOW, *PLAIN))})\b", every)}
            for at, pattern in enumerate(_patterns_in(value)):
                yield from ((f"{name}.{variable}[{at}]", pattern, how) for how in sorted(used or {"match", "search"}))
        yield from _inline_patterns(name, texts[name])


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
            yield from (each for each in (item if isinstance(item, tuple) else (item,)) if isinstance(each, re.Pattern))


def hostile_texts(size: int) -> Iterator[tuple[str, str]]:
    """Yield texts of about a size, each with what it repeats."""
    for begin in BEFORE:
        for part in ALPHABET:
            yield f"{begin} {part}", begin + part * (size // len(part)) + "\0"


def time_of(pattern: re.Pattern[Any], text: str, how: str) -> float:
    """Measure how long a pattern takes on a text (s); infinite where it is given up."""

    def give_up(*_: object) -> NoReturn:
        raise TooLongError

    subject: Any = text.encode() if isinstance(pattern.pattern, bytes) else text
    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
    start = time.process_time()
    try:
        found = getattr(pattern, how)(subject)
        if how == "finditer":
            sum(1 for _ in found)
        return time.process_time() - start
    except TooLongError:
        return float("inf")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def slow_patterns(size: int, seconds: float) -> Iterator[tuple[str, str, str, float]]:
    """Yield the patterns that take longer than some seconds on a text of a size, with the text and the method."""
    texts = list(hostile_texts(size))
    for place, pattern, how in own_patterns():
        for said, text in texts:
            taken = time_of(pattern, text, how)
            if taken > seconds:
                yield place, said, how, taken


if __name__ == "__main__":
    for place, said, how, taken in slow_patterns(int(sys.argv[1]), float(sys.argv[2])):
        sys.stdout.write(f"{place:<70} {how:<10} {said!r:<30} {taken:.3f} s\n")
