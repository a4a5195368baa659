"""Where ``critical-path`` goes against the flow from bytes to the screen: ``python tests/climbs.py TRACE`` lists it.

A climb is a call, counted once for each pair of functions, from a room of the product up to one above it in the import
contracts; or, once the answer is being written, from ``analyses`` down to a room of ``hta_graph`` that computes. The
answer is being written from ``write_output`` on, or from the first table that is laid out.

It runs as a file, so that it can look at an installed version, or at the checkout that PYTHONPATH names.
"""

from __future__ import annotations

import os
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

COMPUTING = {f"hta_graph/{room}" for room in ("graph", "paths", "attribution", "what_if", "roofline", "multi_rank")}
WRITING = ("analyses/cli/outputs.write_output", "analyses/display/text_layout.table")
NO_ROOM = {"base", "memo"}
"""What every room stands on, and what keeps answers: a call through it is one of whoever asks."""


class Place(NamedTuple):
    """A function of the product, and its room: a folder or file right below a package."""

    room: str
    function: str


def floors(root: Path) -> dict[str, int]:
    """Return the floor of each room, from 0 at the top on downwards, as negative numbers."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = {tuple(one.get("containers", ())): one["layers"] for one in contracts["contracts"] if "layers" in one}
    order = [(package, layer) for package in ("analyses", "hta_graph") for layer in layers[package,]]
    return {f"{package}/{room}": -at for at, (package, layer) in enumerate(order) for room in layer.split(" | ")}


class Climbs:
    """Follows calls (``sys.setprofile``); ``found`` are the climbs, caller and callee, and which way each goes."""

    def __init__(self, root: Path) -> None:
        self.found: dict[tuple[str, str], str] = {}
        self._root, self._floors, self._is_written = f"{root}/", floors(root), False
        self._places: dict[CodeType, Place | None] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Look at a call."""
        callee = self._place(frame.f_code) if event == "call" else None
        caller = next(self._callers(frame), None) if callee else None
        if callee is None or caller is None:
            return
        if self._floors.get(callee.room, 0) > self._floors.get(caller.room, 0):
            self.found.setdefault((caller.function, callee.function), "up")
        elif self._is_written and caller.room.startswith("analyses/") and callee.room in COMPUTING:
            self.found.setdefault((caller.function, callee.function), "down")
        self._is_written |= callee.function in WRITING

    def _callers(self, frame: FrameType) -> Iterator[Place]:
        while (before := frame.f_back) is not None:
            frame = before
            if place := self._place(frame.f_code):
                yield place

    def _place(self, code: CodeType) -> Place | None:
        if code not in self._places:
            self._places[code] = self._read_place(code)
        return self._places[code]

    def _read_place(self, code: CodeType) -> Place | None:
        # Bodies of modules and classes are not optimised; comprehensions belong to who writes them.
        if not code.co_filename.startswith(self._root) or not code.co_flags & 1 or code.co_name.endswith("comp>"):
            return None
        parts = Path(code.co_filename.removeprefix(self._root)).with_suffix("").parts
        if len(parts) < 2 or NO_ROOM & set(parts):
            return None
        return Place("/".join(parts[:2]), f"{'/'.join(parts)}.{code.co_qualname}")


def main() -> None:
    """Print a line for each climb of ``critical-path`` on a trace."""
    trace = str(Path(sys.argv[1]).absolute())
    del sys.path[0]  # the folders beside this file have the names of the packages
    import analyses
    from analyses.cli.main import main as run

    climbs, printed = Climbs(Path(analyses.__file__).parents[1]), sys.stdout
    os.chdir(tempfile.mkdtemp())
    with Path(os.devnull).open("w", encoding="utf-8") as sys.stdout:
        sys.setprofile(climbs)
        run(["critical-path", trace])
        sys.setprofile(None)
    for (caller, callee), way in climbs.found.items():
        printed.write(f"{way:<4} {caller} -> {callee}\n")


if __name__ == "__main__":
    main()
