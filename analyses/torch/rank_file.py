"""Where a rank's recording goes: a folder for each cycle, in which no two ranks and no two runs meet."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from hta_graph.storage.atomic_write import write_file
from hta_graph.storage.compress import gzipped

__all__ = ["Rank", "Recorder", "cycle_folder", "this_rank", "write_recording"]

CHUNK_BYTES = 1 << 20
"""So many bytes are compressed at once; while they are, other threads of the process run."""
FASTEST = 1
"""Level of compression: training waits for it. The profiler's own is 9, which takes longer than all the rest."""


class Recorder(Protocol):
    """What a handler needs of ``torch.profiler.profile``."""

    def export_chrome_trace(self, path: str) -> Any:
        """Write the recording as Chrome's JSON."""


@dataclass(frozen=True)
class Rank:
    """Which of how many ranks a process is."""

    number: int
    world_size: int


def this_rank() -> Rank:
    """Return what ``torch.distributed`` says of this process, else what ``torchrun`` has told it, else rank 0 of 1."""
    # Asked only where the program has imported it: nothing is imported into training for this.
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return Rank(distributed.get_rank(), distributed.get_world_size())
    told = [os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE")]
    if all(re.fullmatch(r"\d{1,9}", text) for text in told):
        return Rank(int(told[0]), int(told[1]))
    return Rank(0, 1)


def cycle_folder(directory: Path, step: int, name: str, since: float) -> Path:
    """Return the folder of the cycle that ends at a step: all ranks of a run come to the same one without asking.

    One that holds a file of this name, or anything older than ``since`` (seconds since 1970), is another run's: files
    of two runs in one folder would be read as one job.
    """
    for number in count(1):
        folder = directory / (f"step-{step}" if number == 1 else f"step-{step}-{number}")
        if not _is_taken(folder, name, since):
            break
    return folder


def _is_taken(folder: Path, name: str, since: float) -> bool:
    if not folder.is_dir():
        return False
    return (folder / name).exists() or any(_changed(path) < since for path in folder.iterdir())


def _changed(path: Path) -> float:
    with suppress(FileNotFoundError):  # another rank has just given it its name
        return path.stat().st_mtime
    return float("inf")


def write_recording(recorder: Recorder, target: Path, *, use_gzip: bool) -> None:
    """Write what was recorded, whole or not at all.

    Raises:
        OutputError: the file cannot be written.
    """
    # In a folder of its own, for the profiler leaves files of other names where it fails.
    with TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.", suffix=".part") as part:
        recorded = Path(part) / "trace.json"
        recorder.export_chrome_trace(str(recorded))
        if use_gzip:
            write_file(target, gzipped(_chunks(recorded), FASTEST))
        else:
            recorded.replace(target)


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(CHUNK_BYTES):
            yield piece
