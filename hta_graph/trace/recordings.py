"""Several recordings in one file, as mergers of ranks write them: which rows are whose.

Mergers write one rank's rows behind the other's and change process ids, so that viewers show them apart: by a text in
front (SGLang: ``[TP00] 4242``) or by an offset (1,000,000 times the rank). Correlations, External ids and Python ids
stay what they were: they are unique within a recording only. A recording is of one process with operators, and of what
GPUs did for it. On a GPU row the process is the device by the profiler, so what a merger changed is seen there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from hta_graph.base.arrays import distinct, find_sorted, first_of_runs
from hta_graph.base.errors import Remedy, TraceError
from hta_graph.base.storage.location import Location
from hta_graph.model import GPU_KINDS, Bools, EventKind, Ids, Ints, kind_mask

FileColumns = dict[str, Any]

NUMBERED = re.compile(r"(.*?)(-?\d{1,18})\D{0,3}", re.DOTALL)
RANK_IN_PROCESS = re.compile(r"(?<![a-z])rank[ _:=-]{0,2}(\d{1,6})", re.IGNORECASE)
LABEL = re.compile(r"([A-Z]{2})(\d{1,6})")
"""A rank in one kind of parallelism, as in SGLang's ``[TP01-EP03]``; that merger sorts by DP, EP, PP and TP."""
NAMED = "rank "
"""How the text of a process key begins that names a rank."""
BEFORE_ITS_CALL_NS = 1_000_000
"""A clock fault may show an activity so long before its call; more is another recording's call."""
MOST_WRONG = 0.02
"""Share of activities before their calls with which a division of a file is not believed."""
LEAST_MATCHED = 0.5
"""Share of the activities with a call in the file that have one of their own recording.

Those without a call may have the number of another recording's."""
REPEATED = 0.5
"""Share of ids that occur again, as those of one recording do not, from which on a file is several."""
LEAST_COMMON = 3
"""Number of ids that two processes have in common from which on that is no accident."""
LARGEST_ID = 1 << 40
"""Process ids and devices are smaller, also with what mergers add."""
LEAST_IDS = 8
"""Number of ids of one process from which on that they repeat is no accident."""
REMEDY = Remedy("pass the files that were merged", "pass the files that were merged")


@dataclass(frozen=True)
class ProcessKey:
    """The parts of a process id: the text before its number, and the number."""

    text: str
    number: int

    @classmethod
    def of(cls, pid: Any) -> ProcessKey:
        """Divide a process id as printed.

        >>> ProcessKey.of("[TP00] 4242"), ProcessKey.of("7 (rank 3)")
        (ProcessKey(text='[TP00] ', number=4242), ProcessKey(text='rank 3', number=7))
        >>> ProcessKey.of(7), ProcessKey.of("Spans")
        (ProcessKey(text='', number=7), ProcessKey(text='Spans', number=-1))
        """
        if isinstance(pid, (int, float)) and abs(pid) < LARGEST_ID and float(pid).is_integer():
            return cls("", int(pid))
        if named := RANK_IN_PROCESS.search(str(pid)):
            other = re.search(r"\d{1,18}", RANK_IN_PROCESS.sub("", str(pid)))
            return cls(f"{NAMED}{int(named[1])}", int(other[0]) if other else -1)
        match = NUMBERED.fullmatch(str(pid))
        return cls(match[1], int(match[2])) if match else cls(str(pid), -1)


@dataclass(frozen=True)
class Processes:
    """The process of each row, as a number into ``keys``; of a process what a merger added to the number of a GPU."""

    keys: list[ProcessKey]
    offset: Ints
    of_row: Ids

    @classmethod
    def of_columns(
        cls, columns: FileColumns, threads: Sequence[tuple[Any, Any]], streams: Sequence[tuple[Any, ...]]
    ) -> Processes:
        """Number the processes of threads, and of streams, whose keys hold device, context, stream and process."""
        pids = [thread[0] for thread in threads] + [stream[3] for stream in streams]
        keys = {pid: ProcessKey.of(pid) for pid in pids}
        codes = {key: at for at, key in enumerate(dict.fromkeys(keys.values()))}
        of_lane = np.array([codes[keys[pid]] for pid in pids] or [0], np.int32)
        offset = np.zeros(len(codes), np.int64)
        for stream in streams:
            if added := _added_to_device(stream):
                offset[codes[keys[stream[3]]]] = added
        lane = np.where(columns["thread"] >= 0, columns["thread"], len(threads) + columns["stream"])
        return cls(list(codes), offset, of_lane[lane])


def _added_to_device(stream: tuple[Any, ...]) -> int:
    """Return what the process id of a stream's row is more than its device; 0 where the row names no device."""
    number = ProcessKey.of(stream[3]).number
    is_known = isinstance(stream[0], int) and abs(stream[0]) < LARGEST_ID and number >= 0
    return number - stream[0] if is_known else 0


@dataclass(frozen=True)
class Recording:
    """One recording of a file: its process ids, the rank that these name, and what was added to its GPUs'.

    ``first`` and ``end`` bound its part of the file where one recording stands behind the other.
    """

    processes: frozenset[ProcessKey]
    rank: int | None
    offset: int = 0
    first: int = 0
    end: int = LARGEST_ID

    def has(self, pid: Any) -> bool:
        """Return whether a process id is one of this recording's."""
        return ProcessKey.of(pid) in self.processes

    def owns(self, index: int, pid: Any) -> bool:
        """Return whether a row that is no event is this recording's: ranks that stand apart may share a device."""
        return self.first <= index < self.end and self.has(pid)

    def stream_key(self, stream: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a stream's device, context and number; rows without a device have it in their process id."""
        is_named = stream[0] != stream[3]
        return (stream[0] if is_named else self.unmerged(stream[3]), *stream[1:3])

    def unmerged(self, pid: Any) -> Any:
        """Return a process id without what the merger added.

        >>> Recording(frozenset(), 1, offset=1_000_000).unmerged(1_000_000)
        0
        >>> Recording(frozenset(), 1).unmerged("[TP01] 4242"), Recording(frozenset(), 1).unmerged("Spans")
        (4242, 'Spans')
        """
        number = ProcessKey.of(pid).number
        if number < 0:
            return pid
        return number - self.offset if number >= self.offset else number


def divide_recordings(
    path: Location,
    columns: FileColumns,
    threads: Sequence[tuple[Any, Any]],
    streams: Sequence[tuple[Any, ...]],
    *,
    is_damaged: bool = False,
) -> list[tuple[Recording, Bools]]:
    """Return the recordings of a file and their rows, in the order of their ranks or of the file; none if it is one.

    A damaged file with the operators of several processes is what several ranks wrote at once to one path: each
    process records its own operators alone, and what is left of the ids of both may be too few to repeat.

    Raises:
        TraceError: it holds several that cannot be distinguished.
    """
    is_moved = any(map(_added_to_device, streams))
    if len({thread[0] for thread in threads}) < 2 and not is_moved:
        return _refuse_repeated(path, columns)
    found = Processes.of_columns(columns, threads, streams)
    hosts = _host_processes(columns, found)
    if len(hosts) < 2:
        return _refuse_repeated(path, columns) if hosts else _by_offset(columns, found)
    if not (is_damaged or found.offset.any() or _are_labelled(found, hosts) or _repeat_ids(columns, found, hosts)):
        return []
    for divide in (_by_text, _by_place, _by_order):
        of_row = divide(columns, found, hosts)
        if of_row is not None and _is_believable(columns, of_row):
            recordings = _recordings(columns, found, of_row, len(hosts), is_sorted=divide is _by_order)
            return _with_parts(columns, recordings) if divide is _by_place else recordings
    names = ", ".join(f"{found.keys[host].text}{found.keys[host].number}" for host in hosts[:4])
    cause = f"holds recordings of {len(hosts)} processes ({names}) that cannot be distinguished on the GPU"
    raise TraceError(path, cause, REMEDY)


def _refuse_repeated(path: Location, columns: FileColumns) -> list[tuple[Recording, Bools]]:
    """Refuse recordings that have one process id: as processes in containers do.

    Raises:
        TraceError: most calls and operators have an id that another one of the file has, too.
    """
    is_operator = columns["kind"] == EventKind.CPU_OP
    calls = columns["correlation"][columns["kind"] == EventKind.RUNTIME]
    if _repeats(calls) and _repeats(np.maximum(columns["external_id"], columns["old_external_id"])[is_operator]):
        cause = "holds several recordings of one process id: their calls and operators have the same ids"
        raise TraceError(path, cause, REMEDY)
    return []


def _repeats(ids: Ints) -> bool:
    """Return whether most ids occur more than once."""
    known = ids[ids > 0]
    different = len(distinct(known))
    return len(known) - different > REPEATED * different and different >= LEAST_IDS


def _host_processes(columns: FileColumns, processes: Processes) -> list[int]:
    """Return the processes that have operators; if there are none, those that have calls, else Python frames.

    PyTorch writes the frames of an idle Python thread at process 0, which is a GPU's number, too.
    """
    for kind in (EventKind.CPU_OP, EventKind.RUNTIME, EventKind.PYTHON_FUNCTION):
        rows = (columns["kind"] == kind) & (columns["thread"] >= 0)
        if rows.any():
            found: list[int] = distinct(processes.of_row[rows]).tolist()
            return found
    return []


def _are_labelled(processes: Processes, hosts: list[int]) -> bool:
    texts = {processes.keys[host].text for host in hosts}
    return len(texts) == len(hosts) and "" not in texts


def _repeat_ids(columns: FileColumns, processes: Processes, hosts: list[int]) -> bool:
    """Return whether hosts have ids in common that one recording gives once; a GPU's rows repeat those of its calls."""
    is_host = np.zeros(len(processes.keys), np.bool_)
    is_host[hosts] = True
    for name in ("correlation", "external_id", "old_external_id"):
        rows = np.flatnonzero(is_host[processes.of_row] & (columns["thread"] >= 0) & (columns[name] > 0))
        host, ids = processes.of_row[rows], columns[name][rows]
        order = np.lexsort((ids, host))
        once = order[first_of_runs(host[order], ids[order])]
        sizes = np.unique(host[once], return_counts=True)[1]
        common = len(once) - len(np.unique(ids))
        if len(sizes) > 1 and common >= LEAST_COMMON and common > REPEATED * sizes.min():
            return True
    return False


def _by_offset(columns: FileColumns, processes: Processes) -> list[tuple[Recording, Bools]]:
    """Divide a file of GPU rows alone by what a merger changed in its process ids."""
    used = np.unique(processes.of_row[kind_mask(columns["kind"], GPU_KINDS)]).tolist()
    marks = [(key.text, int(offset)) for key, offset in zip(processes.keys, processes.offset, strict=True)]
    known = {mark: at for at, mark in enumerate(sorted({marks[process] for process in used}))}
    if len(known) < 2:
        return []
    of_process = np.array([known.get(mark, -1) for mark in marks], np.int32)
    return _recordings(columns, processes, of_process[processes.of_row], len(known))


def _by_text(_: FileColumns, processes: Processes, hosts: list[int]) -> Ids | None:
    """Divide by the texts in front of process ids, where these distinguish the hosts."""
    of_text = {processes.keys[host].text: at for at, host in enumerate(hosts)}
    if len(of_text) < len(hosts) or "" in of_text:
        return None
    of_process = np.array([of_text.get(key.text, -1) for key in processes.keys], np.int32)
    found: Ids = of_process[processes.of_row]
    return found


def _by_place(columns: FileColumns, processes: Processes, hosts: list[int]) -> Ids | None:
    """Divide by the place in the file, where one process's rows stand behind the other's."""
    index = columns["index"]
    own = [index[(processes.of_row == host) & (columns["thread"] >= 0)] for host in hosts]
    order = sorted(range(len(hosts)), key=lambda at: int(own[at].min()))
    if any(own[a].max() >= own[b].min() for a, b in pairwise(order)):
        return None
    begins = np.array([own[at].min() for at in order])
    found: Ids = np.array(order, np.int32)[np.maximum(np.searchsorted(begins, index, side="right") - 1, 0)]
    # A GPU's process is one recording's: the profiler may have written its rows in front.
    return found if _has_one_owner(columns, processes, found) else None


def _has_one_owner(columns: FileColumns, processes: Processes, of_row: Ids) -> bool:
    moved = kind_mask(columns["kind"], GPU_KINDS) & (processes.offset[processes.of_row] != 0)
    pairs = np.unique(np.stack([processes.of_row[moved], of_row[moved]]), axis=1)
    return bool(len(np.unique(pairs[0])) == pairs.shape[1])


def _by_order(columns: FileColumns, processes: Processes, hosts: list[int]) -> Ids | None:
    """Pair GPUs with hosts: by their order where a merger moved both, else by which calls launched what they did."""
    on_gpu = kind_mask(columns["kind"], GPU_KINDS)
    gpus = np.unique(processes.of_row[on_gpu])
    offsets = np.unique(processes.offset[gpus])
    of_process = np.full(len(processes.keys), -1, np.int32)
    of_process[hosts] = np.arange(len(hosts))
    others = np.flatnonzero(of_process < 0)
    numbers = np.array([key.number for key in processes.keys])
    if len(offsets) == len(hosts):
        nearest = np.abs(numbers[others, None] - offsets[None, :]).argmin(axis=1)
        by_number = np.argsort(numbers[hosts], kind="stable").astype(np.int32)
        of_process[others] = by_number[nearest]
        of_process[gpus] = by_number[np.searchsorted(offsets, processes.offset[gpus])]
        return _take(of_process, processes)
    for gpu in gpus.tolist():
        rows = on_gpu & (processes.of_row == gpu)
        launched = [_launched(columns, rows, processes.of_row == host) for host in hosts]
        best = max(launched)
        if launched.count(best) > 1 or best == 0:
            return None
        of_process[gpu] = launched.index(best)
    return _take(of_process, processes)


def _take(of_process: Ids, processes: Processes) -> Ids:
    found: Ids = of_process[processes.of_row]
    return found


def _launched(columns: FileColumns, gpu: Bools, host: Bools) -> int:
    """Count the activities that one host's calls can have launched: a call has the correlation and began before."""
    lag = _lag_behind_calls(columns, gpu, host & (columns["kind"] == EventKind.RUNTIME))
    return int(np.count_nonzero(lag >= -BEFORE_ITS_CALL_NS))


def _lag_behind_calls(columns: FileColumns, gpu: Bools, calls: Bools) -> Ints:
    """Return how long after their calls (ns) those activities began that have one."""
    calls = calls & (columns["correlation"] > 0)
    ids, first = np.unique(columns["correlation"][calls], return_index=True)
    place = find_sorted(columns["correlation"][gpu], ids)
    has_call = place >= 0
    began = columns["start"][calls][first][place[has_call]]
    lag: Ints = columns["start"][gpu][has_call] - began
    return lag


def _is_believable(columns: FileColumns, of_row: Ids) -> bool:
    """Return whether activities begin after calls of their own recording, and most have one there."""
    on_gpu, is_call = kind_mask(columns["kind"], GPU_KINDS), columns["kind"] == EventKind.RUNTIME
    wrong = matched = 0
    for at in np.unique(of_row[of_row >= 0]).tolist():
        lag = _lag_behind_calls(columns, on_gpu & (of_row == at), is_call & (of_row == at))
        wrong += int(np.count_nonzero(lag < -BEFORE_ITS_CALL_NS))
        matched += len(lag)
    known = len(_lag_behind_calls(columns, on_gpu, is_call))
    return wrong <= MOST_WRONG * matched and matched >= LEAST_MATCHED * known


def _recordings(
    columns: FileColumns, processes: Processes, of_row: Ids, count: int, *, is_sorted: bool = False
) -> list[tuple[Recording, Bools]]:
    """Return the recordings and their rows; rows of no process stay with the one whose rows stand around them.

    In a file that ``is_sorted`` by time the place says nothing about the rank: then its GPU's number counts.
    """
    known = np.flatnonzero(of_row >= 0)
    nearest = known[np.maximum(np.searchsorted(columns["index"][known], columns["index"], side="right") - 1, 0)]
    of_row = np.where(of_row >= 0, of_row, of_row[nearest])
    found: list[tuple[Any, Recording, Bools]] = []
    for at in range(count):
        rows = of_row == at
        keys = frozenset(processes.keys[code] for code in np.unique(processes.of_row[rows]).tolist())
        named = {int(key.text.removeprefix(NAMED)) for key in keys if key.text.startswith(NAMED)}
        rank = named.pop() if len(named) == 1 else None
        on_gpu = rows & kind_mask(columns["kind"], GPU_KINDS)
        gpus = np.unique(processes.of_row[on_gpu]).tolist()
        offset = max((int(processes.offset[gpu]) for gpu in gpus), default=0)
        device = min((processes.keys[gpu].number for gpu in gpus if is_sorted), default=0)
        labels = sorted({label for key in keys for label in LABEL.findall(key.text)})
        place = int(columns["index"][rows].min()) if rows.any() else 0
        order = (rank is None, rank or 0, labels, offset, device, place)
        found.append((order, Recording(keys, rank, offset), rows))
    found.sort(key=lambda item: item[0])
    ranks = {recording.rank for _, recording, _ in found}
    # A name that two have, or one has not, numbers none of them.
    is_named = len(ranks) == count and None not in ranks
    return [(recording if is_named else replace(recording, rank=None), rows) for _, recording, rows in found]


def _with_parts(columns: FileColumns, recordings: list[tuple[Recording, Bools]]) -> list[tuple[Recording, Bools]]:
    """Note where in the file each recording begins: the first one at its beginning, the last one to its end."""
    begins = np.array([columns["index"][rows].min() for _, rows in recordings])
    bounds = [0, *np.sort(begins)[1:].tolist(), LARGEST_ID]
    return [
        (replace(recording, first=bounds[at], end=bounds[at + 1]), rows)
        for at, (recording, rows) in zip(begins.argsort().argsort().tolist(), recordings, strict=True)
    ]
