"""Every command of the command line with what it needs, asked in this process."""

from __future__ import annotations

import contextlib
import io
import sys
import traceback
import unicodedata
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from analyses.cli import main

ALLOWED = "\n\u200c\u200d"


@dataclass(frozen=True)
class Material:
    """What commands are asked about: two ranks of a job, what goes with them, and a folder to write to."""

    traces: Sequence[Path]
    host: Path
    workload: Path
    log: Path
    out: Path

    def inputs(self, *words: str) -> list[str]:
        """Return the files that a command reads."""
        first, both = [str(self.traces[0])], list(map(str, self.traces))
        if words[0] == "demo":
            return []
        if words[0] == "diff":
            return both
        if words[0] != "chakra":
            return both if words[0] not in ("kernel-sequences", "render", "timeline") else first
        return {
            "link": ["--host-trace", str(self.host), "--device-trace", *first],
            "convert": both,
            "statistics": [str(self.log)],
        }.get(words[1], [str(self.workload)])

    def needed(self, *words: str) -> list[str]:
        """Return what else a command cannot do without."""
        out = str(self.out / "out")
        return {
            "kernel-sequences": ["--operator", "aten"],
            "render": ["--path", "-o", f"{out}.svg"],
            "timeline": ["-o", f"{out}.html"],
            "report": ["-o", f"{out}.html"],
            "counters": ["-o", str(self.out)],
            "chakra link": ["-o", f"{out}.json", "--force"],
            "chakra convert": ["-o", f"{out}.et", "--force"],
            "chakra scale": ["-o", f"{out}.scaled", "--force"],
        }.get(" ".join(words), [])


@dataclass(frozen=True)
class Asked:
    """A command line and what came of it."""

    words: Sequence[str]
    status: int
    out: str
    err: str

    @property
    def faults(self) -> list[str]:
        """Say what is wrong whatever was asked."""
        found = [f"{name} has {stray!r}" for name in ("out", "err") if (stray := stray_characters(getattr(self, name)))]
        is_no_comparison = self.status == 3 and self.words[0] in ("gate", "diff")
        if self.status not in (0, 1, 2) and not is_no_comparison:
            found.append(f"exit status {self.status}")
        found += [f"{word} on stderr" for word in ("Traceback", "Warning", "this is a defect") if word in self.err]
        errors = [line for line in self.err.splitlines() if line.startswith("hta-graph")]
        if self.status == 2 and len(errors) != 1:
            found.append(f"{len(errors)} lines of error")
        if self.status in (1, 3) and not errors:
            found.append("no line of error")
        return found


def stray_characters(text: str) -> str:
    """Return the characters that a terminal would obey, or that hide something."""
    return "".join(
        sorted({char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")} - set(ALLOWED))
    )


class Screen(io.TextIOWrapper):
    """Standard output as bytes in memory, which may say that it is a terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__(io.BytesIO(), "utf-8", errors="surrogateescape")
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        """Say what it is."""
        return self.is_terminal

    def text(self) -> str:
        """Return all that was written."""
        self.flush()
        return self.buffer.getvalue().decode("utf-8", "surrogateescape")  # type: ignore[attr-defined, no-any-return]


def ask_in_process(words: Sequence[str], *, on_terminal: bool = False) -> Asked:
    """Run a command line; warnings go where the program's would, and what is raised is told as a traceback."""
    out, err = (Screen(is_terminal=on_terminal) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("always")
        try:
            status = main.main([str(word) for word in words])
        except SystemExit as stop:
            status = int(stop.code or 0)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            traceback.print_exc(file=sys.stderr)
            status = 99
    return Asked(words, status, out.text(), err.text())
