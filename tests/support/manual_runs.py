"""The manual's blocks run as a reader runs them: in a folder with the demo's traces, in order, outputs compared.

A line of ``sh`` must exit with 0, or with N where it ends in ``  # exit N``; a block ``text`` right behind is the exact
standard output of the last command, a line ``…`` in it any lines. Blocks ``python`` share one namespace; a line that
ends in ``  # <…`` shows the object's text; a block ``text`` right behind is what it printed. ``pycon`` is a doctest.
"""

from __future__ import annotations

import ast
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from analyses.cli.main import main
from tests.support.manual_pages import ROOT, Block, blocks
from tests.support.samples import SAMPLES

CUT = "…"
COLUMNS = "100"
FOR_A_SHELL = re.compile(r"[|<>&;$*?`~(){}\[\]]")
"""What a shell reads otherwise than as a word; in quotes it asks for a shell without need."""
EXIT = re.compile(r"\s+# exit (\d+)$")
SHOWN = re.compile(r"\s+# (<.*)$")
INSTALLS = re.compile(r"\bpip install\b")
"""Lines that install: they change the environment that runs them, and CI runs those that matter."""


class PageError(AssertionError):
    """A block of a page does not do what the page says."""

    def __init__(self, block: Block, what: str) -> None:
        super().__init__(f"{block.place}: {what}")


@dataclass
class Run:
    """A page being run: the folder, the names of its Python so far, and what was printed last."""

    folder: Path
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    printed: str = ""

    def block(self, block: Block) -> None:
        """Run a block that is to be run."""
        with chdir(self.folder), patch.dict(os.environ, {"COLUMNS": COLUMNS, "NO_COLOR": "1"}):
            {"sh": self._sh, "python": self._python, "pycon": self._doctest}[block.language](block)

    def _sh(self, block: Block) -> None:
        self.printed = ""
        for line in lines_of_shell(block.text):
            expected = int(found[1]) if (found := EXIT.search(line)) else 0
            status, self.printed, said = run_line(EXIT.sub("", line), self.folder)
            if status != expected:
                raise PageError(block, f"exit {status} instead of {expected}: {line}\n{said}")

    def _python(self, block: Block) -> None:
        printed = io.StringIO()
        with redirect_stdout(printed):
            run_statements(block, self.names)
        self.printed = printed.getvalue()

    def _doctest(self, block: Block) -> None:
        test = doctest.DocTestParser().get_doctest(block.text, self.names, block.place, str(block.page), block.line)
        said: list[str] = []
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append, clear_globs=False)
        self.names.update(test.globs)
        if said:
            raise PageError(block, "".join(said))


def demo_folder(folder: Path) -> Path:
    """Make a folder as a reader has it: the demo's traces, and the package's folder, which has the sample."""
    with redirect_stdout(io.StringIO()):
        assert main(["demo", "--traces", str(folder)]) == 0
    (folder / "analyses").symlink_to(SAMPLES.parent)
    return folder


def run_page(page: Path, folder: Path) -> Iterator[tuple[Block, str]]:
    """Run a page's blocks, and yield each that shows an output with what was printed really."""
    run, before = Run(folder), None
    for block in blocks(page):
        if block.is_run:
            run.block(block)
        elif block.language == "text" and block.follows and before is not None and before.is_run:
            yield block, run.printed
        before = block


def check_page(page: Path, folder: Path) -> None:
    """Run a page.

    Raises:
        PageError: a block fails, or prints something else than the page shows.
    """
    for block, printed in run_page(page, folder):
        if difference := difference_of_texts(block.text, printed):
            raise PageError(block, f"{difference}\npython -m tests.update_manual_outputs --write renews it")


# -- commands ---------------------------------------------------------------------------------------------------------


def lines_of_shell(text: str) -> list[str]:
    r"""Return the commands of a block, one a line; a line that ends in a backslash goes on in the next one.

    >>> lines_of_shell('# two\nhta-graph info \\\njob\npip install .\nls\n')
    ['hta-graph info  job', 'ls']
    """
    lines = text.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#") and not INSTALLS.search(line)]


def run_line(line: str, folder: Path) -> tuple[int, str, str]:
    """Run one command; return exit status, standard output and standard error."""
    words = shlex.split(line, comments=True)
    if words[0] == "hta-graph" and not FOR_A_SHELL.search(re.sub(r"'[^']*'", "", line)):
        return run_here(words[1:])
    return run_in_shell(line, folder)


def run_here(arguments: list[str]) -> tuple[int, str, str]:
    """Run a command of ours in this process, which saves starting one."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main(arguments)
        except SystemExit as stop:
            status = int(stop.code or 0)
    return status, *(stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined, return-value]


def run_in_shell(line: str, folder: Path) -> tuple[int, str, str]:
    """Run a line by ``sh``, to which ``hta-graph`` and ``python`` are those of this environment."""
    programs = folder.with_name(f"{folder.name}_programs")
    if not programs.exists():
        programs.mkdir()
        for name, arguments in (("hta-graph", "-m analyses.cli.main"), ("python", "")):
            (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
            (programs / name).chmod(0o755)
    paths = os.pathsep.join([str(programs), os.environ["PATH"]])
    done = subprocess.run(
        ["sh", "-c", line], cwd=folder, env={**os.environ, "PATH": paths, "PYTHONPATH": str(ROOT)},
        capture_output=True, encoding="utf-8", timeout=600, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


# -- Python -----------------------------------------------------------------------------------------------------------


def run_statements(block: Block, names: dict[str, Any]) -> None:
    """Run a block statement by statement, and compare the objects that it shows in comments.

    A failure shows the page's line.
    """
    # As many empty lines as stand before the block: its line numbers are the page's.
    text = "\n" * block.line + block.text
    lines = text.splitlines()
    for statement in ast.parse(text, str(block.page)).body:
        shown = SHOWN.search(lines[(statement.end_lineno or 0) - 1])
        if isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), str(block.page), "eval"), names)  # noqa: S307
            if shown and repr(value) != shown[1]:
                raise PageError(block, f"line {statement.lineno} gives {value!r} and not {shown[1]}")
        else:
            exec(compile(ast.Module([statement], []), str(block.page), "exec"), names)  # noqa: S102


# -- outputs ----------------------------------------------------------------------------------------------------------


def difference_of_texts(shown: str, printed: str) -> str:
    r"""Return the first thing in which an output is not what a page shows, or nothing.

    >>> difference_of_texts("a\n…\nd\n", "a\nb\nc\nd\n")
    ''
    >>> difference_of_texts("a\n…\n", "b\n")
    "not printed there: 'a'"
    """
    real = trimmed_lines(printed)
    parts, place = parts_of(shown), 0
    for number, part in enumerate(parts):
        first, last = number == 0, number == len(parts) - 1
        starts = [place] if first else range(place, len(real) - len(part) + 1)
        starts = [len(real) - len(part)] if last and not first else starts
        start = next((row for row in starts if row >= place and real[row : row + len(part)] == part), None)
        if start is None:
            return f"not printed there: {differing_line(part, real[place:])!r}"
        place = start + len(part)
    return "" if place == len(real) else f"printed and not shown: {real[place]!r}"


def differing_line(part: list[str], real: list[str]) -> str:
    """Return the first line of a part that is nowhere in an output, or else its first one."""
    return next((line for line in part if line not in real), part[0] if part else "")


def trimmed_lines(text: str) -> list[str]:
    """Return lines without spaces at their ends, and without empty ones at the end of all."""
    return [line.rstrip() for line in text.rstrip().splitlines()]


def parts_of(shown: str) -> list[list[str]]:
    r"""Return what stands between lines that are cut.

    >>> parts_of("a\nb\n…\nd\n…\n")
    [['a', 'b'], ['d'], []]
    """
    parts: list[list[str]] = [[]]
    for line in trimmed_lines(shown):
        if line.strip() == CUT:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts
