"""One large file read by several processes of this machine, a share of its parts each."""

from __future__ import annotations

from io import BufferedReader

from hta_graph.base.errors import HtaGraphError
from hta_graph.base.progress import advance_stage, begin_stage
from hta_graph.base.storage.location import Location, name_with_secrets
from hta_graph.multi_rank.read_engine import processor_count, wait_for_any
from hta_graph.multi_rank.wire_format import read_column, read_record
from hta_graph.multi_rank.workers.tasks import Task
from hta_graph.multi_rank.workers.worker_processes import WorkerPool, can_start_processes
from hta_graph.trace.json_reader import FileFacts
from hta_graph.trace.recorded import Collected
from hta_graph.trace.shares import Share, join_shares

MOST_SHARES = 4
"""Each decompresses the whole file: of more than this many processes the others would hardly save anything."""


def collect_in_shares(path: Location, jobs: int | None, memory: int | None) -> tuple[Collected, FileFacts] | None:
    """Read the columns of a file by multiple processes; None where it must be read here.

    That is where there are no processors for it, and where a share cannot be read, because of damage or for lack of
    memory: what is wrong is found when it is read as a whole.
    """
    count = min(jobs or processor_count(), MOST_SHARES)
    if count < 2 or not can_start_processes():
        return None
    begin_stage(f"reading {path.name}")
    shares = list[Share]()
    with WorkerPool(count) as pool:
        futures = [pool.submit(_share_task(path, share, count, memory), _take_share) for share in range(count)]
        waiting = set(futures)
        while waiting:
            done = wait_for_any(waiting)
            if any(isinstance(future.result(), HtaGraphError) for future in done):
                return None
            waiting -= done
            advance_stage(count - len(waiting), count)
        shares = [future.result() for future in futures]
    try:
        return join_shares(path, shares)
    except HtaGraphError:
        return None


def _share_task(path: Location, share: int, of: int, memory: int | None) -> Task:
    arguments = {"path": name_with_secrets(path), "share": share, "of": of}
    return Task("hta_graph.trace.shares:share_pieces", arguments, None if memory is None else memory // of)


def _take_share(_: int, source: BufferedReader) -> Share:
    """Take a share as it comes through a pipe.

    Raises:
        EOFError: the stream ends early.
    """
    record = read_record(source)
    return record, {name: read_column(source, dtype, size) for name, dtype, size in record["columns"]}
