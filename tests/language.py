"""Turns of phrase that no text of the product uses: ``python -m tests.language [PATH…]`` lists where they stand.

Texts are what a person can read: string literals and docstrings of the product, prose of the manual. Code in
backquotes and fenced blocks are no prose; ``# as recorded`` behind a line exempts it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
ROOMS = ("hta_graph", "analyses", "tests/generate", "docs", "examples", "README.md", "CONTRIBUTING.md")

BANNED: dict[str, str] = {
    r"\d\s%": "72%, without a space",
    r"\b(?:nobody|somebody|whoever|whomever)\b": "no one, or the passive",
    r"\bbeside\b": "next to, in addition to, with",
    r"\b(?:told|(?<!cannot )tells?)\b": "reported, shows; attributed",
    r"\bso many\b": "the number of",
    r"\bstand(?:s|ing)? still\b": "is idle",
    r"\bcharge[sd]?\b|\bcharging\b": "attributed",
    r"\bmeetings?\b": "collective, send, receive",
    r"\bskeletons?\b": "rank summary",
    r"\bbreaks? off\b": "truncated",
    r"\bholds? up\b|\bheld up\b": "delays",
    r"\bstretch(?:es)?\b": "window, interval, part",
    r"\b(?:thereof|whereof|wherein|whereupon|therein)\b": "of it, in which",
    r"\bhalf its time\b|\bat half\b|\bif free\b": "at twice the speed; removed",
    r", for (?:it|they|there|this|that|these|those|the|its|their|no|he|she|we|what)\b": "because",
    r"^Of several ranks|\bof several ranks\b": "with multiple ranks",
    r"\bno cause is known\b|\bnothing in the trace\b|\bthe recording shows\b": "no recorded cause",
    r"\bwhole events\b": "complete events",
    r"\bin words\b": "print the words only",
    r"\bgoes? on\b|\bgoing on\b|\bwent on\b": "continues, is in progress",
    r"\blets? (?:it|them) go\b": "releases",
    r"\bis (?:asked for|asked about)\b|\bwhat is asked\b|\basked about\b": "requested, analyzed",
    r"\bsaid so\b|\bsays? so\b|\bsay so\b": "reports it",
    r"\bonly by (?:the )?chance\b|\bby nobody\b": "passive",
    r"\bits own recordings?\b": "its trace",
    r"\bnot (?:yet )?known of\b": "unknown for",
    r"\bas many as there are\b": "all",
    r"\bso-called\b|\bhereby\b|\bhenceforth\b|\bamongst\b|\bwhilst\b|\bupon\b": "a plain word",
    r"\bworks? all the while\b|\ball the while\b": "the whole time",
    r"\bhas nothing to run\b|\bhad nothing to run\b|\bnothing to run\b": "is idle",
    r"\binstead of being guessed\b": "never guessed",
}
"""Each pattern, and what to say instead."""

# In lower case, and what begins with a word behind one search for words: ten times as fast as pattern by pattern.
SPLIT = [part for pattern in BANNED for part in re.split(r"\|(?=\\b)", pattern.lower())]
WORDS = "|".join(part.removeprefix(r"\b") for part in SPLIT if part.startswith(r"\b"))
ANY = re.compile("|".join([rf"\b(?:{WORDS})", *(part for part in SPLIT if not part.startswith(r"\b"))]))
NO_WORDS = re.compile(r"(?m)^\s*#.*$|[\"']\s*[frbu]*[\"']")
"""Comments, and what stands between the parts of one literal."""
FENCE, CODE = re.compile(r"^\s*(```|~~~)"), re.compile(r"`[^`]*`")


class Finding(NamedTuple):
    """A banned turn of phrase, where it stands, and what to say instead."""

    place: str
    found: str
    instead: str


def findings(paths: Iterator[Path] | list[Path], *, parses_all: bool = True) -> list[Finding]:
    """Return what is banned in the texts of some files; not all need be parsed for it."""
    chosen = (path for path in paths if parses_all or path.suffix != ".py" or may_have_some(path.read_text("utf-8")))
    texts = ((path, line, CODE.sub("``", text)) for path in chosen for line, text in texts_of(path))
    return [
        Finding(f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{line}", match.group(), instead)
        for path, line, text in texts
        if ANY.search(text.lower())
        for pattern, instead in BANNED.items()
        for match in re.finditer(pattern, text, re.IGNORECASE)
    ]


def may_have_some(source: str) -> bool:
    """Say whether a Python file is worth parsing: that takes ten times as long as to look through it."""
    text = re.sub(r"\{[^{}\n]*\}", "0", re.sub(r"\\[nrt]", " ", NO_WORDS.sub("", source)))
    return bool(ANY.search(CODE.sub("``", " ".join(text.split()).lower())))


def texts_of(path: Path) -> list[tuple[int, str]]:
    """Return the texts of a file with their lines: literals of Python, prose of a page."""
    return literals(path) if path.suffix == ".py" else prose(path.read_text(encoding="utf-8"))


def literals(path: Path) -> list[tuple[int, str]]:
    """Return the strings of a Python file that hold words; of f-strings the text between the values."""
    source = path.read_text(encoding="utf-8")
    exempt = {number for number, line in enumerate(source.splitlines(), 1) if line.endswith("# as recorded")}
    nodes = list(ast.walk(ast.parse(source)))
    inner = {id(value) for node in nodes if isinstance(node, ast.JoinedStr) for value in node.values}
    found = []
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "0" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            text = node.value
        else:
            continue
        if " " in text.strip() and node.lineno not in exempt:
            found.append((node.lineno, " ".join(text.split())))
    return found


def prose(page: str) -> list[tuple[int, str]]:
    """Return the lines of a page that stand outside of fenced blocks."""
    found, fenced = [], False
    for number, line in enumerate(page.splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            found.append((number, line))
    return found


def files_below(names: list[str]) -> list[Path]:
    """Return the files with texts in folders, or those named."""
    found: list[Path] = []
    for name in names:
        path = ROOT / name
        found += sorted(one for one in path.rglob("*") if one.suffix in (".py", ".md")) if path.is_dir() else [path]
    return found


def main(arguments: list[str]) -> int:
    """Print every finding; 1 if there is one."""
    found = findings(files_below(arguments or list(ROOMS)))
    lines = [f"{one.place}: {one.found!r}: say {one.instead}" for one in found]
    sys.stdout.write("\n".join([*lines, f"{len(found)} to reword", ""]))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
