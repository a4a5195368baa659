"""Files → traces: one file, or a folder of rank files read one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from hta_graph.base.errors import HtaGraphError, NotATraceError, Remedy, TooLargeError, TraceError, log_warning
from hta_graph.base.storage.location import Location, expand_file_lists, parallel_map, resolve_location
from hta_graph.model import EventKind, kind_mask
from hta_graph.trace.columnize import assemble_recorded, assemble_traces, collect_columns
from hta_graph.trace.decompress import FileBytes, TextStream, open_text, read_bytes
from hta_graph.trace.event_args import keeping_inputs
from hta_graph.trace.event_times import end_frames_with_callers
from hta_graph.trace.formats import foreign_trace_error, has_foreign_categories, writer_of
from hta_graph.trace.header import (
    has_captures,
    has_gpu_rows,
    has_labelled_processes,
    has_node_names,
    has_work_rows,
    peek_header,
)
from hta_graph.trace.json_reader import ROWS_BY_PHASE, Header, RowReader, has_plain_header
from hta_graph.trace.memory_limit import out_of_memory_error, paused_gc
from hta_graph.trace.profiler_names import PROFILER_RANGE
from hta_graph.trace.rank_files import (
    FoundFile,
    RankFile,
    assign_ranks,
    captures_beside_replays,
    choose_ranks,
    copies_beside_traces,
    derived_files,
    expand_inputs,
    files_of_no_rank,
    header_count,
    rank_in_name,
    with_captures_of_ranks,
)
from hta_graph.trace.readers import is_database, reader_of
from hta_graph.trace.table import Trace
from hta_graph.trace.unnumbered_launches import match_launches_by_arrows, match_launches_by_kernel_name

Say = Callable[[str], None]


def read_trace(path: str | Location, *, salvage: bool = False) -> Trace:
    """Read one Kineto trace of any dialect: ``.json``, ``.json.gz`` or zstd.

    Args:
        path: the file.
        salvage: recover the complete events of a damaged file.

    Raises:
        TraceError: the file cannot be read or is not a trace; one line names the place, the cause and the remedy.
    """
    trace = read_without_log(resolve_location(path), salvage=salvage)
    log_repairs(trace)
    return trace


def log_repairs(trace: Trace) -> None:
    """Say what of a file was salvaged or dropped."""
    for line in trace.repairs:
        log_warning(line)


def read_without_log(place: Location, *, salvage: bool) -> Trace:
    """Read a trace without logging its repairs: the caller does, since this may run in another process.

    Raises:
        TraceError: it cannot be read, or holds several recordings.
    """
    remedy = Remedy("read_graphs() or read_job() reads all of them", "pass the files that were merged")
    return _only_one(place, read_recordings(place, salvage=salvage)[0], remedy)


def read_recordings(
    place: Location, ranks: Collection[int] | None = None, process: str | None = None, *, salvage: bool
) -> tuple[list[Trace], str]:
    """Read the traces of all recordings in a file, of nearly every file one; and how several ranks are numbered.

    Where a reader can leave out ranks it reads only some ``ranks``, or one ``process``, if the file has them.

    Raises:
        TraceError: it cannot be read.
    """
    if reader := reader_of(place):
        found = [
            (assemble_recorded(place, recorded), recorded.ranks_by)
            for recorded in reader.columns(place, ranks, process, salvage=salvage)
        ]
        return [trace for trace, _ in found], found[0][1]
    with open_text(place, has_plain_header) as content:
        traces = traces_of_bytes(place, content, salvage=salvage)
    linked = [match_launches_by_kernel_name(match_launches_by_arrows(found)) for found in traces]
    return [end_frames_with_callers(found) for found in linked], ""


def _only_one(
    path: Location, traces: Sequence[Trace], remedy: Remedy | str = "pass the files that were merged"
) -> Trace:
    if len(traces) > 1:
        raise TraceError(path, f"holds the recordings of {len(traces)} ranks, merged into one file", remedy)
    return traces[0]


def trace_of_bytes(path: Location, content: FileBytes) -> Trace:
    """Read a trace that is in memory already; ``path`` is what it is called.

    Raises:
        TraceError: as :func:`read_trace`.
    """
    return _only_one(path, traces_of_bytes(path, content))


def traces_of_bytes(path: Location, content: FileBytes | TextStream, *, salvage: bool = False) -> list[Trace]:
    """Read the traces of all recordings in a file that is in memory already, or is decompressed meanwhile.

    Raises:
        TraceError: as :func:`read_trace`.
    """
    with paused_gc():
        rows = RowReader(path, content, ROWS_BY_PHASE, salvage=salvage)
        collected = collect_columns(keeping_inputs(path, rows))
        traces = assemble_traces(path, collected, rows.facts)
        _refuse_foreign(path, content, traces, rows.facts.header)
        return traces


SCHEMA_VERSION = "schemaVersion"
HOST_KINDS = (EventKind.CPU_OP, EventKind.RUNTIME, EventKind.ANNOTATION, EventKind.PYTHON_FUNCTION)


def _refuse_foreign(path: Location, content: FileBytes | TextStream, traces: Sequence[Trace], header: Header) -> None:
    """Refuse a Chrome trace of another program.

    It has no header of PyTorch's profiler, nor rows of its categories; or it has both, and marks of a program that is
    known to write them. The profiler says which version of its schema a file has, as a number.

    Raises:
        NotATraceError: it has events of no known category, or some that are another program's.
    """
    kinds = np.concatenate([trace.events.kind for trace in traces])
    if isinstance(header.settings.get(SCHEMA_VERSION), int) or (not len(kinds) and header != Header()):
        return
    # Only of a file without the header of a profiler's, the whole text is needed.
    text = content.data if isinstance(content, FileBytes) else read_bytes(path).data
    is_host = kind_mask(kinds, HOST_KINDS)
    looks_like_kineto = bool(is_host.any()) or header != Header() or PROFILER_RANGE.encode() in text
    writer = writer_of(text, like_kineto=looks_like_kineto)
    is_empty = not len(kinds) and not has_foreign_categories(text)
    if writer or ((kinds == EventKind.OTHER).all() and not looks_like_kineto and not is_empty):
        raise foreign_trace_error(path, text, writer)


def find_ranks(inputs: Sequence[str | Location], *, salvage: bool = False, say: Say = log_warning) -> list[RankFile]:
    """Find the rank files behind inputs (files or folders), lowest rank first; events are not decoded for that.

    Files in a folder that hold no trace rows are skipped, and ``say`` gets a line about all of them. Files that cannot
    be read are listed with their error.

    Raises:
        TraceError: no trace among the inputs, or two that claim one rank.
    """
    found: list[FoundFile] = []
    skipped: dict[Location, NotATraceError] = {}
    places = expand_file_lists(inputs)
    paths = expand_inputs(places)
    for path, peeked in zip(paths, parallel_map(_peeked, paths), strict=True):
        try:
            if isinstance(peeked, TooLargeError):
                raise peeked
            found += _ranks_of_file(path, peeked, salvage=salvage)
        except NotATraceError as error:
            if len(paths) == 1:
                raise
            skipped[path] = error.to_keep()
        except HtaGraphError as error:
            found.append(FoundFile(path, None, error.to_keep()))
        except MemoryError:
            found.append(FoundFile(path, None, out_of_memory_error(path)))
    annotations = [FoundFile(path, rank_in_name(path)) for path in skipped if has_node_names(path)]
    if rest := {path: error for path, error in skipped.items() if path not in {file.path for file in annotations}}:
        say(_skipped_line(rest))
    found = _without_copies(_without_derived(found, say), places, say)
    if not found:
        raise TraceError(", ".join(map(str, places)), "no trace among these files")
    captures = [*_captures_among(found, say), *annotations]
    found = [file for file in found if file not in captures]
    ranks = with_captures_of_ranks(assign_ranks(_without_front_ends(_without_merged(found, say), say)), captures)
    by_order = [file for file in ranks if file.source == "order" and len(ranks) > 1 and not file.error]
    if by_order:
        say(_order_line(by_order))
    return ranks


def _ranks_of_file(path: Location, peeked: Header | None, *, salvage: bool) -> list[FoundFile]:
    """Return the ranks of a file: as many as it has, where a reader of its own knows, else the one of its header."""
    if reader := reader_of(path):
        return [FoundFile(path, rank, None, size, process) for rank, size, process in reader.ranks(path)]
    header = peeked or _decoded_header(path, salvage=salvage)
    return [FoundFile(path, header_count(header, "rank"), world_size=header_count(header, "world_size"))]


def _without_merged(found: Sequence[FoundFile], say: Say) -> list[FoundFile]:
    """Leave out the file into which the others were merged: it has their header, and claims the rank of one of them."""
    claimed = Counter(file.in_header for file in found if file.in_header is not None)
    merged = [
        file
        for file in found
        if file.in_header is not None and claimed[file.in_header] > 1 and has_labelled_processes(file.path)
    ]
    if not merged or len(merged) == len(found):
        return list(found)
    names = _first_of(merged[0].path.parent, [file.path.name for file in merged])
    say(f"skipped {names}: the ranks merged into {_it_or_them(merged)} have files of their own")
    return [file for file in found if file not in merged]


def _without_front_ends(found: Sequence[FoundFile], say: Say) -> list[FoundFile]:
    """Leave out the files of processes that are no ranks."""
    outside = files_of_no_rank(found, has_gpu_rows, has_work_rows)
    if outside:
        names = _first_of(outside[0].path.parent, [file.path.name for file in outside])
        say(f"skipped {names}: no rank of the job is recorded in {_it_or_them(outside)}")
    return [file for file in found if file not in outside]


def _it_or_them(files: Sequence[FoundFile]) -> str:
    return "it" if len(files) == 1 else "them"


def _peeked(path: Location) -> Header | TooLargeError | None:
    """Read a header alone; files on the network are asked for theirs at the same time, each in a thread."""
    try:
        return None if is_database(path) else peek_header(path)
    except MemoryError:
        return out_of_memory_error(path)


def _skipped_line(errors: Mapping[Location, NotATraceError]) -> str:
    """Say which files were skipped."""
    names = _first_of(next(iter(errors)).parent, [path.name for path in errors])
    what = "1 file that is not a trace" if len(errors) == 1 else f"{len(errors)} files that are not traces"
    return f"skipped {what}: {names}"


def _without_derived(files: list[FoundFile], say: Say) -> list[FoundFile]:
    """Leave out copies of ranks with counters or an overlay, and name them."""
    derived = derived_files(files)
    if derived:
        say(_derived_line([file.path for file in derived]))
    return [file for file in files if file not in derived]


def _without_copies(files: list[FoundFile], named: Sequence[Location], say: Say) -> list[FoundFile]:
    """Leave out archives and exports next to traces that may be copies of these, and name them."""
    copies = copies_beside_traces(files, named)
    if copies:
        names = _first_of(copies[0].path.parent, [file.path.name for file in copies])
        say(f"skipped {names}: next to traces, an archive or export is read only if it names a rank that they lack")
    return [file for file in files if file not in copies]


def _derived_line(paths: Sequence[Location]) -> str:
    """Say which copies of ranks were left out."""
    names = _first_of(paths[0].parent, [path.name for path in paths])
    what = "1 file that is a copy" if len(paths) == 1 else f"{len(paths)} files that are copies"
    return f"skipped {what} of a rank with counters or an overlay: {names}"


def _captures_among(found: Sequence[FoundFile], say: Say) -> list[FoundFile]:
    """Return the files that are no ranks, but recordings of the capture of their graphs, and name them."""
    captures = captures_beside_replays(found, has_captures, has_gpu_rows)
    if captures:
        names = _first_of(captures[0].path.parent, [file.path.name for file in captures])
        say(f"{names}: not a rank, but the capture of graphs; names the kernels of their replays")
    return captures


def _order_line(files: Sequence[RankFile]) -> str:
    """Say whose rank is that of the order."""
    if len(files) == 1:
        (file,) = files
        return f"{file.path}: names no rank in its header or file name; assigned rank {file.rank} by order"
    names = _first_of(files[0].path.parent, [f"{file.path.name} as rank {file.rank}" for file in files])
    return f"{len(files)} files name no rank in their header or file name; ranks assigned by order: {names}"


def _first_of(folder: Location, texts: Sequence[str]) -> str:
    """List the first three of some texts about files, the first one with their folder."""
    return ", ".join([str(folder / texts[0]), *texts[1:3]]) + (", …" if len(texts) > 3 else "")


def _decoded_header(path: Location, *, salvage: bool) -> Header:
    with paused_gc(), open_text(path, has_plain_header) as content:
        return RowReader(path, content, salvage=salvage).facts.header


def read_traces(
    inputs: str | Location | Sequence[str | Location],
    *,
    rank: int | None = None,
    salvage: bool = False,
    say: Say = log_warning,
) -> Iterator[Trace]:
    """Read the traces behind files or folders one at a time, lowest rank first.

    Args:
        inputs: a file, a folder of rank files, or several of either.
        rank: read only this rank.
        salvage: recover the complete events of damaged files.
        say: is called with a line about the files that are skipped, and one about those numbered by order; by default
            these are warnings of the logger ``hta_graph``.

    Raises:
        TraceError: a file is broken, two claim one rank, or ``rank`` is not there.
    """
    listed = expand_file_lists(inputs)
    chosen = None if rank is None else [rank]
    paths = expand_inputs(listed)
    if len(paths) == 1:
        for trace in read_single_file(paths[0], chosen, salvage=salvage, say=say):
            log_repairs(trace)
            yield trace
        return
    files = find_ranks(listed, salvage=salvage, say=say)
    if len(files) == 1 and not files[0].error:
        yield from read_traces(files[0].path, rank=rank, salvage=salvage, say=say)
        return
    for file in choose_ranks(files, chosen):
        trace = read_rank(file, salvage=salvage)
        log_repairs(trace)
        yield trace


def read_single_file(
    path: Location, ranks: Collection[int] | None, *, salvage: bool = False, say: Say = log_warning
) -> list[Trace]:
    """Read the traces of a file that is the only one, so that its rank need not be known before.

    A file into which several ranks were merged gives all of them, lowest first, and ``say`` gets a line about that.

    Raises:
        TraceError: the file is broken, or its rank is none of ``ranks``.
    """
    return number_recordings(path, *read_recordings(path, ranks, salvage=salvage), ranks, say)


def number_recordings(
    path: Location, traces: Sequence[Trace], ranks_by: str, ranks: Collection[int] | None, say: Say
) -> list[Trace]:
    """Give the recordings of a file that is the only one their ranks; return those of ``ranks``, lowest first.

    Raises:
        TraceError: one of ``ranks`` is not there.
    """
    if len(traces) == 1:
        files = assign_ranks([FoundFile(path, traces[0].rank)])
    else:
        files = [RankFile(path, trace.rank or 0, "process") for trace in traces]
    if len(traces) > 1 and ranks is None:
        how = ranks_by and f", by {ranks_by}"
        say(f"{path}: holds the recordings of {len(traces)} ranks; read as ranks {_spans(traces)}{how}")
    numbered = {file.rank: replace(trace, rank=file.rank) for file, trace in zip(files, traces, strict=True)}
    return [numbered[file.rank] for file in choose_ranks(files, ranks)]


def _spans(traces: Sequence[Trace]) -> str:
    """List ranks; where they follow each other, the first and the last."""
    ranks = [trace.rank or 0 for trace in traces]
    if len(ranks) > 2 and ranks == list(range(ranks[0], ranks[0] + len(ranks))):
        return f"{ranks[0]} to {ranks[-1]}"
    return ", ".join(map(str, ranks[:8])) + (", …" if len(ranks) > 8 else "")


def read_rank(file: RankFile, *, salvage: bool = False) -> Trace:
    """Read the trace of a file whose rank is known.

    Raises:
        HtaGraphError: the file cannot be read.
    """
    if file.error:
        raise file.error
    found, _ = read_recordings(file.path, process=file.process, salvage=salvage)
    own = [trace for trace in found if file.process and trace.settings.get("process") == file.process]
    return replace(_only_one(file.path, own or found, "pass this file alone"), rank=file.rank)
