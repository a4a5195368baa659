"""Which recorded sets there are in a folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["device_traces", "sets_in"]


def device_traces(folder: Path) -> list[Path]:
    """Return a folder's own device traces."""
    files = sorted(path for path in folder.glob("*.json*") if path.name.endswith((".json", ".json.gz")))
    return [path for path in files if path.name.startswith(("rank", "trace", "kineto"))]


def sets_in(roots: Sequence[Path]) -> Iterator[tuple[str, list[Path]]]:
    """Yield the name and the files of each set: what is in one folder is one job, a file a rank alone."""
    for root in roots:
        if root.is_file():
            yield f"{root.parent.name}/{root.name.split('.')[0]}", [root]
            continue
        folders = sorted({path.parent for path in root.rglob("*.json*")})
        for folder in folders:
            if folder.name != "flight" and (files := device_traces(folder)):
                name = folder.relative_to(root).as_posix()
                yield (root.name if name == "." else name), files
