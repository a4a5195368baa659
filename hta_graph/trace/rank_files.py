"""Which files are traces, and of which rank: from the header, else the file name, else their order (with a warning)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hta_graph.base.errors import HtaGraphError, TraceError
from hta_graph.base.storage.location import Location, is_remote, prefetch_stats

if TYPE_CHECKING:
    from hta_graph.trace.json_reader import Header

PATTERN = re.compile(r"[*?\[]")
RANK_IN_FILE_NAME = re.compile(r"(?<![a-z])rank[-_]?(\d+)|(?:^|[-_.])worker(\d+)_step", re.IGNORECASE)
"""``rank0``, ``rank_0``, ``rank-00``, ``worker0_step_12``."""
ARCHIVE_ENDINGS = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.zst")
EXPORT_ENDINGS = (".sqlite",)
TRACE_ENDINGS = (".json", ".gz", ".zst")
ENDINGS = (ARCHIVE_ENDINGS, EXPORT_ENDINGS, TRACE_ENDINGS)
"""How the files of a folder end that may be traces, by kind; ``.tar.gz`` is an archive's."""
UNREAD_ENDINGS = (".xz", ".bz2", ".lz4", ".7z", ".rar")
"""Packed as nothing here unpacks: traces and ranks by their names are ranks all the same."""
FLIGHT_FOLDER = "flight"
"""The folder next to traces that holds dumps of the flight recorder, if they have their own."""
DUMP_NAME = re.compile(r".*\.json[^/]*|(?:nccl|comm_lib|fr)_trace_(?:rank_)?\d+(?:\.\w{1,8})?")
"""Names of dumps: JSON, and those that PyTorch itself writes (``TORCH_FR_DUMP_TEMP_FILE``), which are pickles."""
LONGEST_SETTING = 100
"""How many characters of a version are kept."""


@dataclass(frozen=True)
class FoundFile:
    """A trace file, the rank and the number of ranks in its header, if any; or why it cannot be read.

    Of a file that holds several ranks there is one for each ``process``.
    """

    path: Location
    in_header: int | None
    error: HtaGraphError | None = None
    world_size: int | None = None
    process: str | None = None


@dataclass(frozen=True)
class RankFile:
    """A trace file, its rank, and where the rank comes from: ``header``, ``file name`` or ``order``.

    A file that cannot be read has an ``error``; its rank is the one in its name, or its place in the order.
    ``process`` says which one of a file that holds several ranks, ``captures`` where its graphs were captured.
    """

    path: Location
    rank: int
    source: str
    error: HtaGraphError | None = None
    process: str | None = None
    captures: tuple[Location, ...] = ()


def header_count(header: Header, key: str) -> int | None:
    """Return a key of ``distributedInfo`` such as ``rank`` if it is a number."""
    info: Any = header.distributed
    value = info.get(key) if isinstance(info, dict) else None
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None


def header_settings(header: Header) -> dict[str, str]:
    """Return what a header says about versions and the profiler's options, and how ranks communicate, as texts.

    >>> from hta_graph.trace.json_reader import Header
    >>> header_settings(Header(distributed={"backend": "nccl", "rank": 0}, settings={"with_stack": 1}))
    {'with_stack': '1', 'backend': 'nccl'}
    """
    from hta_graph.trace.json_reader import number_or_text  # late: of cached graphs nothing is decoded

    info = header.distributed if isinstance(header.distributed, dict) else {}
    told = {**header.settings, **{key: info.get(key) for key in ("backend", "nccl_version")}}
    known = {key: number_or_text(value) for key, value in told.items()}
    return {key: str(value)[:LONGEST_SETTING] for key, value in known.items() if value not in (None, "")}


def rank_in_name(path: Location) -> int | None:
    """Read a rank from a file's name.

    >>> rank_in_name(Path("node-3-rank-07-x.json.gz")), rank_in_name(Path("trace.json"))
    (7, None)
    """
    match = RANK_IN_FILE_NAME.search(path.name)
    digits = match and (match[1] or match[2])
    return int(digits) if digits and len(digits) < 10 else None


def expand_inputs(paths: Sequence[Location]) -> list[Location]:
    """Replace each folder by the trace files in it, each pattern by what fits it, in order of name.

    Raises:
        TraceError: a folder holds no file that may be a trace, or nothing fits a pattern.
    """
    found: list[Location] = []
    prefetch_stats(paths)
    for path in paths:
        if PATTERN.search(str(path)) and (fitting := _matching_files(path)):
            found += fitting
            continue
        try:
            inside = _traces_in(path)
        except NotADirectoryError:
            inside = [path]
        except FileNotFoundError:
            what = "no file matches this pattern" if PATTERN.search(str(path)) else "no such file"
            raise TraceError(path, what) from None
        except (OSError, ValueError) as error:  # a name with a null character is a ValueError
            raise TraceError(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
        if not inside:
            raise TraceError(path, "the folder holds no .json, .gz, .zst, .zip, .tar, .tgz or .sqlite file")
        found += inside
    return list(dict.fromkeys(found))


def possible_dumps(given: Location) -> tuple[list[Location], list[Location]]:
    """List what may be dumps of the flight recorder by its name.

    Returns:
        the files in the folder ``flight`` in or next to an input, and those in the input, if it is a folder.
    """
    is_folder = given.is_dir()
    return _dumps_in((given if is_folder else given.parent) / FLIGHT_FOLDER), _dumps_in(given) if is_folder else []


def _dumps_in(folder: Location) -> list[Location]:
    # A pipe among them would keep the reader waiting.
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if DUMP_NAME.fullmatch(path.name) and path.is_file())


DERIVED = re.compile(
    r"(?:overlaid_(?:critical_path_)?)?(?P<stem>.+?)(?:_with_counters)?(?P<suffix>\.json(?:\.gz|\.zst)?)"
)
"""How the copies of traces are called that are written with counters or an overlay."""


def _traces_in(folder: Location) -> list[Location]:
    """List a folder's files that may be traces."""
    return sorted(path for path in folder.iterdir() if _kind_of(path) >= 0 and path.is_file())


def _kind_of(path: Location) -> int:
    """Return the kind of a file by its name, as a place in ``ENDINGS``; -1 if no trace is called so.

    >>> [_kind_of(Path(name)) for name in ("a.json.gz", "a.tar.gz", "a.json.xz", "rank0.tar.xz", "a.xz")]
    [2, 0, 0, 0, -1]
    """
    if path.name.endswith(UNREAD_ENDINGS):
        return 0 if ".json" in path.name or rank_in_name(path) is not None else -1
    return next((at for at, endings in enumerate(ENDINGS) if path.name.endswith(endings)), -1)


def _matching_files(path: Location) -> list[Location]:
    """Return the files that fit a pattern; what exists by that name is no pattern."""
    try:
        if is_remote(path):
            return list(path.parents[-1].glob("/".join(path.parts[1:])))
        if path.exists():
            return []
        return sorted(fit for fit in Path(path.anchor).glob(str(path.relative_to(path.anchor))) if fit.is_file())
    except (OSError, ValueError, NotImplementedError):
        return []  # what is wrong is said when the path itself is opened


def files_of_no_rank(
    files: Sequence[FoundFile],
    has_gpu_rows: Callable[[Location], bool | None],
    has_work_rows: Callable[[Location], bool | None],
) -> list[FoundFile]:
    """Return the files of processes that are no ranks, such as the front end of an inference server.

    The profiler notes a rank in each process of a job. A file that has none is no rank where the others are all of
    the job's ranks, or where it alone has no GPU activities; and next to any file that names its rank, where it has no
    operator, call or GPU activity at all.
    """
    outside = _outside_of_job(files, has_gpu_rows)
    names_rank = [file for file in files if not file.error and _rank_of(file) is not None]
    unknown = [file for file in files if not file.error and file not in (*names_rank, *outside)]
    if names_rank:
        outside += [file for file in unknown if has_work_rows(file.path) is False]
    return [file for file in files if file in outside]


def _outside_of_job(files: Sequence[FoundFile], has_gpu_rows: Callable[[Location], bool | None]) -> list[FoundFile]:
    ranked = {file.in_header: file for file in files if file.in_header is not None and not file.error}
    unknown = [file for file in files if file.in_header is None and not file.error and rank_in_name(file.path) is None]
    sizes = {file.world_size for file in ranked.values()}
    if not unknown or len(sizes) != 1 or None in sizes:
        return []
    is_all = len(ranked) == sizes.pop()
    if not is_all and not has_gpu_rows(next(iter(ranked.values())).path):
        return []
    found = {file: has_gpu_rows(file.path) for file in unknown}
    return [file for file, on_gpu in found.items() if on_gpu is False or (is_all and on_gpu)]


def captures_beside_replays(
    files: Sequence[FoundFile],
    has_captures: Callable[[Location], bool],
    has_gpu_rows: Callable[[Location], bool | None],
) -> list[FoundFile]:
    """Return the recordings of the capture of graphs among the files of ranks, by their content.

    Of files that claim one rank, or none, those are that have a capture, where another one has none; if all have one,
    those without GPU activities. One that alone claims its rank is a capture if it has no GPU activities and another
    file claims none. Files whose ranks differ are not opened.
    """
    by_rank: dict[int | None, list[FoundFile]] = {}
    for file in files:
        if not file.error and not file.process:
            by_rank.setdefault(_rank_of(file), []).append(file)
    found = []
    for own in by_rank.values():
        if len(own) == 1 and (None not in by_rank or len(by_rank) == 1):
            continue
        capturing = [file for file in own if has_captures(file.path)]
        if len(own) == 1 or len(capturing) == len(own):
            capturing = [file for file in capturing if has_gpu_rows(file.path) is False]
        found += capturing
    return found if len(found) < len(files) else []


def with_captures_of_ranks(ranks: Sequence[RankFile], captures: Sequence[FoundFile]) -> list[RankFile]:
    """Give each rank the captures of its graphs: those that name no rank of these may be of any."""
    known = {file.rank for file in ranks}
    rank_of = {one.path: _rank_of(one) for one in captures}
    return [
        replace(file, captures=tuple(path for path, rank in rank_of.items() if rank == file.rank or rank not in known))
        for file in ranks
    ]


def derived_files(files: Sequence[FoundFile]) -> list[FoundFile]:
    """Return the copies of other files that have their rank too, by their names: with counters or an overlay."""
    ranks = {(file.path.parent, file.path.name.split(".json")[0]): file.in_header for file in files}
    found = [(file, DERIVED.fullmatch(file.path.name)) for file in files]
    return [
        file
        for file, name in found
        if name is not None
        and name["stem"] + name["suffix"] != file.path.name
        and ranks.get((file.path.parent, name["stem"]), NO_SUCH_FILE) == file.in_header
    ]


def copies_beside_traces(files: Sequence[FoundFile], named: Collection[Location]) -> list[FoundFile]:
    """Return the archives and exports of folders that may be copies of traces next to them.

    Next to JSON files an export or an archive is a rank if its header or name says one that none of them has; so is an
    archive next to exports. Files that the user ``named`` one by one always count.
    """
    sound: dict[tuple[Location, int], set[int | None]] = {}
    for file in files:
        if not file.error:
            sound.setdefault((file.path.parent, _kind_of(file.path)), set()).add(_rank_of(file))
    found = []
    for file in files:
        better = range(_kind_of(file.path) + 1, len(ENDINGS))
        beside = [sound[file.path.parent, kind] for kind in better if (file.path.parent, kind) in sound]
        rank = _rank_of(file)
        if beside and file.path not in named and (rank is None or any(rank in ranks for ranks in beside)):
            found.append(file)
    return found


def _rank_of(file: FoundFile) -> int | None:
    return rank_in_name(file.path) if file.in_header is None else file.in_header


NO_SUCH_FILE = -1
"""The rank of a file that is not there."""


def assign_ranks(files: Iterable[FoundFile]) -> list[RankFile]:
    """Give each file its rank, lowest first; one that cannot be read takes no rank from another.

    Raises:
        TraceError: two files claim one rank.
    """
    known: list[RankFile] = []
    unknown: list[FoundFile] = []
    for file in files:
        in_name = None if file.process else rank_in_name(file.path)
        if file.in_header is not None:
            known.append(RankFile(file.path, file.in_header, "header", process=file.process))
        elif in_name is not None:
            known.append(RankFile(file.path, in_name, "file name", file.error))
        else:
            unknown.append(file)
    taken = _claimed_ranks(known)
    # As many numbers as there are files are enough to give each of the unknown ones a free one.
    free = (rank for rank in range(len(taken) + len(unknown)) if rank not in taken)
    known += [
        RankFile(file.path, rank, "order", file.error, file.process) for file, rank in zip(unknown, free, strict=False)
    ]
    return sorted(known, key=lambda file: (file.rank, file.error is not None))


def _claimed_ranks(files: Iterable[RankFile]) -> dict[int, RankFile]:
    """Return who claims each rank."""
    taken: dict[int, RankFile] = {}
    for file in files:
        other = taken.setdefault(file.rank, file)
        if other.error:
            taken[file.rank] = file
        elif (other.path, other.process) != (file.path, file.process) and not file.error:
            raise TraceError(file.path, f"claims rank {file.rank}, as {other.path} does", "pass one file per rank")
    return taken


def choose_ranks(files: Sequence[RankFile], ranks: Collection[int] | None) -> list[RankFile]:
    """Return the files of some ranks, or all; of one that cannot be read and one that can, only the latter.

    Raises:
        TraceError: a rank is not there.
    """
    if ranks is None:
        return list(files)
    first = {file.rank: file for file in reversed(files)}
    for rank in ranks:
        if rank not in first:
            known = ", ".join(map(str, sorted(first)[:32]))
            raise TraceError(files[0].path, f"rank {rank} not found", f"available: {known}")
    return [first[rank] for rank in sorted(set(ranks))]
