"""The folders that the server reads from and writes to: nothing outside them, nothing replaced."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hta_graph.base.errors import TraceError, UsageError
from hta_graph.base.safe_regex import shortened_repr
from hta_graph.base.storage.location import Location
from hta_graph.trace.rank_files import FLIGHT_FOLDER, PATTERN, expand_inputs

FILES_LISTED = 2_000
"""How many files a listing looks at."""
PICTURE_ENDINGS = (".svg", ".png", ".dot")
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
NAME_ANOTHER = "name a file or folder in it (open without a trace lists them)"


@dataclass(frozen=True)
class ServedFiles:
    """The root that traces are read from, the folder that pictures are written to, and what was written there."""

    root: Path
    output: Path | None = None
    written: set[str] = field(default_factory=set)

    def trace(self, name: str) -> Path:
        """Return a trace or a folder of traces below the root; links that lead out of it count as outside.

        Others may replace it at once: ``open_local`` decides what is read, and this only says why something is not.

        Raises:
            TraceError: nothing there may be a trace.
            UsageError: the name is no path below the root.
        """
        if not name or "\0" in name or "://" in name or name.startswith(("@", "~")) or ".." in Path(name).parts:
            hint = "URLs, file lists and '..' are not served, name a file below the folder"
            raise UsageError(f"{shortened_repr(name)} is not a relative path; {hint}")
        place = self.root / name
        self._check_inside(name, [place])
        self._check_kind(name, place)
        dumps = (place if place.is_dir() else place.parent) / FLIGHT_FOLDER
        self._check_inside(name, [*expand_inputs([place]), *(dumps.glob("*") if dumps.is_dir() else ())])
        return place

    def _check_inside(self, name: str, paths: Iterable[Location]) -> None:
        for path in map(Path, map(str, paths)):
            if not self._is_inside(path):
                steps = [path, *path.parents]
                link = next((step for step in reversed(steps) if step.is_symlink() and not self._is_inside(step)), None)
                cause = f"{shortened_repr(name)} is not below"
                if link is not None:
                    cause = f"{shortened_repr(self.relative(link))} is a link that leads out of"
                raise UsageError(f"{cause} the served folder; {NAME_ANOTHER}")

    def _is_inside(self, path: Path) -> bool:
        with suppress(OSError, RuntimeError, ValueError):  # a circle of links, a name too long or none
            return path.resolve().is_relative_to(self.root)
        return False

    @staticmethod
    def _check_kind(name: str, place: Path) -> None:
        mode = 0
        with suppress(OSError, ValueError):
            mode = place.stat().st_mode
        if not mode:
            hint = "patterns are not served, " if PATTERN.search(name) else ""
            raise UsageError(f"{shortened_repr(name)}: no such file; {hint}{NAME_ANOTHER}")
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            raise UsageError(f"{shortened_repr(name)} is neither a file nor a folder; {NAME_ANOTHER}")

    def relative(self, path: object) -> str:
        """Return a path without the root in front of it."""
        return str(path).removeprefix(f"{self.root}/")

    def listing(self) -> list[dict[str, object]]:
        """List files below the root that may be traces, with their sizes (bytes); links are not followed."""
        found: list[dict[str, object]] = []
        folders = [self.root]
        while folders and len(found) < FILES_LISTED:
            folder = folders.pop(0)
            with suppress(OSError, TraceError):  # an unreadable folder, or one without traces
                folders += sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
                found += [
                    {"file": self.relative(path), "bytes": path.stat().st_size}
                    for path in expand_inputs([folder])
                    if not Path(str(path)).is_symlink()
                ]
        return found

    def picture(self, name: str) -> Path:
        """Return where a picture goes: a new file in the output folder, or one that this server has written.

        Raises:
            UsageError: there is no such folder, the name is no plain file name, or a file of that name exists.
        """
        if self.output is None:
            raise UsageError("this server writes no files; start it with --output DIR")
        if not FILE_NAME.fullmatch(name) or not name.endswith(PICTURE_ENDINGS):
            raise UsageError(
                f"{shortened_repr(name)} is not a file name; use letters, digits, '-', '_' and '.', and end it in "
                f"{', '.join(PICTURE_ENDINGS)}"
            )
        target = self.output / name
        if target.is_symlink() or (target.exists() and name not in self.written):
            raise UsageError(f"{shortened_repr(name)} exists in the output folder; choose another name")
        return target
