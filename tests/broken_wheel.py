"""Break a wheel on purpose: ``python -m tests.broken_wheel WHEEL FOLDER`` writes a copy that lacks one module.

``.ci/package`` runs tests with it, and fails if they pass: then they test another package than the installed one.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from zipfile import ZipFile

import hta_graph as hg


def module_of(value: object) -> str:
    """Return the name that a wheel has for the file in which something is defined.

    >>> module_of(hg.HtaGraphError)
    'hta_graph/base/errors.py'
    """
    return inspect.getmodule(value).__name__.replace(".", "/") + ".py"  # type: ignore[union-attr]


def without(wheel: Path, name: str, folder: Path) -> Path:
    """Write a copy of a wheel into a folder without one of its files, which its list of files does not name either."""
    folder.mkdir(parents=True, exist_ok=True)
    broken = folder / wheel.name
    with ZipFile(wheel) as sound, ZipFile(broken, "w") as copy:
        if name not in sound.namelist():
            raise SystemExit(f"{wheel.name}: holds no {name}")
        for member in sound.infolist():
            content = sound.read(member)
            if member.filename.endswith(".dist-info/RECORD"):
                lines = content.decode().splitlines(keepends=True)
                content = "".join(line for line in lines if not line.startswith(f"{name},")).encode()
            if member.filename != name:
                copy.writestr(member, content)
    return broken


def main() -> None:
    """Write the copy, and say what it lacks."""
    wheel, folder = map(Path, sys.argv[1:])
    name = module_of(hg.step)
    sys.stdout.write(f"{without(wheel, name, folder)} lacks {name}\n")


if __name__ == "__main__":
    main()
