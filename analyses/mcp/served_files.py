"""The folders that the server reads from and writes to: nothing outside them, nothing replaced."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hta_graph.base.errors import TraceError, UsageError
from hta_graph.base.storage.location import Location
from hta_graph.trace.rank_files import FLIGHT_FOLDER, expand_inputs

FILES_LISTED = 2_000
"""How many files a listing looks at."""
PICTURE_ENDINGS = (".svg", ".png", ".dot")
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class ServedFiles:
    """The root that traces are read from, the folder that pictures are written to, and what was written there."""

    root: Path
    output: Path | None
    written: set[Path] = field(default_factory=set)

    def trace(self, name: str) -> Path:
        """Return a trace or a folder of traces below the root; links that lead out of it count as outside.

        Raises:
            TraceError: nothing there may be a trace.
            UsageError: the name is no path below the root.
        """
        if not name or "\0" in name or "://" in name or name.startswith(("@", "~")) or ".." in Path(name).parts:
            raise UsageError(
                f"{name!r} is not a relative path; URLs, file lists and '..' are not served, name a file below the "
                "folder"
            )
        place = self.root / name
        self._check_inside(name, [place])
        files = expand_inputs([place])
        dumps = (place if place.is_dir() else place.parent) / FLIGHT_FOLDER
        self._check_inside(name, [*files, *(dumps.glob("*") if dumps.is_dir() else ())])
        return place

    def _check_inside(self, name: str, paths: Iterable[Location]) -> None:
        for path in paths:
            try:
                inside = Path(str(path)).resolve().is_relative_to(self.root)
            except (OSError, RuntimeError):  # a circle of links
                inside = False
            if not inside:
                raise UsageError(
                    f"{name!r} is not below the served folder; name a file or folder in it (open without a trace "
                    "lists them)"
                )

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
                f"{name!r} is not a file name; use letters, digits, '-', '_' and '.', and end it in "
                f"{', '.join(PICTURE_ENDINGS)}"
            )
        target = self.output / name
        if target.is_symlink() or (target.exists() and target not in self.written):
            raise UsageError(f"{name!r} exists in the output folder; choose another name")
        return target
