"""How files of ranks are read: by how many processes, with how much memory, from which cache; and who hears of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hta_graph.base.errors import log_warning

if TYPE_CHECKING:
    from hta_graph.base.errors import HtaGraphError
    from hta_graph.store.trace_cache import GraphCache
    from hta_graph.trace.read import Say

Progress = Callable[[int, int], None]
"""Is called with the number of files done and their total."""
Report = Callable[["HtaGraphError"], None]
"""Is called with the error of a skipped file."""


@contextmanager
def no_progress(_: str) -> Iterator[Progress]:
    """Show no progress."""
    yield lambda *_: None


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How files are read, here or on a cluster; the first ones as in :func:`hta_graph.read_graphs`.

    ``cache`` keeps what was read; ``report`` is called with the error of a file, which is raised without it; ``say``
    with other lines. ``progress`` is entered while files are read, given what is done; it gives what is called with
    the progress made.
    """

    jobs: int | None = None
    memory: int | None = None
    cluster: str | None = None
    salvage: bool = False
    step_patterns: tuple[str, ...] = ()
    ignore_records: bool = False
    cache: GraphCache | None = None
    report: Report | None = None
    say: Say = log_warning
    progress: Callable[[str], AbstractContextManager[Progress]] = no_progress
