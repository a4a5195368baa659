"""Rank files read by the workers of a cluster, which may be other machines."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from io import BytesIO
from pathlib import Path

from hta_graph.errors import HtaGraphError
from hta_graph.graph import DependencyGraph
from hta_graph.job.engines.engine import answers, engine, tasks_at_once
from hta_graph.job.engines.tasks import renamed_error
from hta_graph.job.graph_bytes import read_graph
from hta_graph.job.memory import memory_share, peak_bytes
from hta_graph.job.rank_graph import RankQuestion
from hta_graph.job.rank_task import file_task
from hta_graph.places.named_places import full_name, is_remote
from hta_graph.trace.rank_files import RankFile
from hta_graph.trace.read import Say

__all__ = ["read_on_cluster"]


def read_on_cluster(
    files: Sequence[RankFile],
    cluster: str,
    jobs: int | None,
    memory: int | None,
    *,
    asked: Callable[[RankFile], RankQuestion],
    say: Say,
    progress: Callable[[int, int], None],
) -> Generator[DependencyGraph | HtaGraphError, None, None]:
    """Yield the graph of each file, or its error, in the files' order; each may take so much memory (bytes)."""
    sound = [file for file in files if not file.error]
    tasks = [file_task(_seen_from_afar(file), asked(file), memory=memory) for file in sound]
    broken = len(files) - len(sound)
    with engine(cluster=cluster, jobs=jobs, count=len(tasks), say=say) as executor:
        # Graphs wait here for their turn, and take less than reading them does.
        room = (memory_share() if memory is None else memory) // max(
            (peak_bytes(file.path) for file in sound), default=1
        )
        most = max(1, min(tasks_at_once(executor), room))
        found = answers(executor, tasks, at_once=most, progress=lambda done, _: progress(broken + done, len(files)))
        with closing(found):
            for file in files:
                yield file.error or _graph_of(file, next(found))


def _seen_from_afar(file: RankFile) -> RankFile:
    """Name a file as one does who stands in another folder."""
    if is_remote(file.path):
        return file
    return replace(file, path=Path(os.path.abspath(file.path)))  # noqa: PTH100 - links stay what they are


def _graph_of(file: RankFile, answer: bytes | HtaGraphError) -> DependencyGraph | HtaGraphError:
    """Make a graph of its bytes, and name the file as it was named here."""
    if isinstance(answer, HtaGraphError):
        return renamed_error(answer, str(_seen_from_afar(file).path), str(file.path))
    source = BytesIO(answer)
    head = json.loads(source.readline())
    head["trace"]["values"]["path"] = full_name(file.path)
    return read_graph(head, source)
