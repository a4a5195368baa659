"""Recordings of the capture of CUDA or HIP graphs: what was launched in them, and which replay runs which of them.

A server captures its graphs once, at start, and replays them. A recording of that start has, between the begin and the
end of each capture, a call for every kernel; AMD's profiler notes the kernel's name on it, NVIDIA's does not.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from hta_graph.attribution.captured_launches import ReplayAlignment, align_replay
from hta_graph.attribution.graph_annotations import with_annotations
from hta_graph.attribution.graph_kernels import UNCHECKED, CaptureSource, GraphKernels, Replay
from hta_graph.base.arrays import freeze, rows_by_value, take_or
from hta_graph.base.errors import Remedy, TraceError
from hta_graph.base.storage.location import Location, expand_file_lists
from hta_graph.build.from_trace import build_without_log
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.timeline import nearest_around
from hta_graph.model import EventKind, Ids, Ints, kind_mask
from hta_graph.trace.engine_steps import read_step_name
from hta_graph.trace.event_args import read_event_args
from hta_graph.trace.header import has_captures, has_gpu_rows, has_node_names, peek_header
from hta_graph.trace.json_reader import Header
from hta_graph.trace.profiler_names import CAPTURE_CALL, CAPTURE_END_CALL, CAPTURED_CALL, FILL_KERNEL, KERNEL_OF_CALL
from hta_graph.trace.rank_files import expand_inputs, header_count, rank_in_name
from hta_graph.trace.read import read_without_log

COPY, SET = "\0copy", "\0set"
"""What stands for the name of a copy and of a set, which a capture and a replay write differently."""

RECORD_START = Remedy(
    "name the recording in which the graphs are captured",
    "give --capture the recording in which the graphs are captured",
)

CAPTURE_SIZE = re.compile(r"capture_(?:graph_bs_)?(\d{1,12})(?:_[A-Z]+)?$")
"""Annotations around a capture that say the padded number of tokens: vLLM, SGLang, ATOM (2026)."""


@dataclass(frozen=True)
class CapturedGraph:
    """The launches of one capture (canonical rows of the recording), in order, and their names (None: not recorded).

    ``size`` is the number of tokens that it is for (-1: not said).
    """

    launches: Ids
    names: tuple[str | None, ...]
    size: int = -1


@dataclass(frozen=True)
class Capture:
    """A recording with captures."""

    graph: DependencyGraph
    captured: tuple[CapturedGraph, ...]


def read_capture(path: Location, *, salvage: bool = False) -> Capture:
    """Read a recording of captures.

    Raises:
        TraceError: it cannot be read, or nothing is captured in it.
    """
    graph = build_without_log(read_without_log(path, salvage=salvage))
    captured = captured_graphs(graph)
    if not captured:
        raise TraceError(path, "no launch is recorded between a begin and an end of stream capture", RECORD_START)
    return Capture(graph, captured)


def captured_graphs(graph: DependencyGraph) -> tuple[CapturedGraph, ...]:
    """Find what was captured, in order of time: each from its begin to the next end on the same thread."""
    events, trace = graph.event_table, graph.trace
    is_call = kind_mask(events.kind, (EventKind.RUNTIME,))
    begins, ends, launches = (
        np.flatnonzero(is_call & trace.names_starting_with(pattern)[events.name])
        for pattern in (CAPTURE_CALL, CAPTURE_END_CALL, CAPTURED_CALL)
    )
    found = []
    for begin in begins[np.argsort(events.start[begins], kind="stable")].tolist():
        lane = events.lane[begin]
        after = ends[(events.lane[ends] == lane) & (events.start[ends] > events.start[begin])]
        if not len(after):
            continue
        end = int(events.start[after].min())
        inside = launches[events.lane[launches] == lane]
        inside = inside[(events.start[inside] >= events.end[begin]) & (events.start[inside] < end)]
        if len(inside):
            found.append((begin, inside[np.argsort(events.start[inside], kind="stable")].astype(np.int32)))
    if not found:
        return ()
    names = _launched_names(graph, np.concatenate([inside for _, inside in found]))
    sizes = _numbers_around(graph, [begin for begin, _ in found], _captured_tokens)
    first, captured = 0, []
    for (begin, inside), size in zip(found, sizes, strict=True):
        own = tuple(names[first : first + len(inside)])
        first += len(inside)
        captured.append(CapturedGraph(inside, _or_of_warm_up(graph, launches, begin, inside, own), size))
    return tuple(captured)


def _launched_names(graph: DependencyGraph, rows: Ids) -> list[str | None]:
    """Return the names of what calls launch; None where a call does not say its kernel."""
    small, capital = read_event_args(graph.trace, KERNEL_OF_CALL, rows, has_header=False).arguments.values()
    found: list[str | None] = []
    for row, one, other in zip(rows.tolist(), small, capital, strict=True):
        name, call = one or other, graph.name_of(row)
        if isinstance(name, str):
            found.append(_sequence_name(name))
        else:
            found.append(COPY if "Memcpy" in call else SET if "Memset" in call else None)
    return found


def _sequence_name(name: str) -> str:
    """Return what a kernel is called in sequences: AMD sets memory with a kernel.

    >>> _sequence_name("gemm"), _sequence_name("__amd_rocclr_fillBufferAligned") == SET
    ('gemm', True)
    """
    return SET if FILL_KERNEL.search(name) else name


def _or_of_warm_up(
    graph: DependencyGraph, launches: Ints, begin: int, inside: Ids, names: tuple[str | None, ...]
) -> tuple[str | None, ...]:
    """Return the names of a capture, where it has none those of the run before it, which launched the same.

    SGLang runs what it captures twice before: the calls right before a capture that are the same by position.
    """
    if None not in names:
        return names
    events = graph.event_table
    before = launches[(events.lane[launches] == events.lane[begin]) & (events.start[launches] < events.start[begin])]
    before = before[np.argsort(events.start[before], kind="stable")][-len(inside) :]
    if len(before) < len(inside) or not np.array_equal(events.name[before], events.name[inside]):
        return names
    calls = graph.launching_call
    activities = np.flatnonzero(np.isin(calls, before))
    of_call = dict(zip(calls[activities].tolist(), activities.tolist(), strict=True))
    if len(of_call) != len(before) or len(activities) != len(before):
        return names
    return tuple(_activity_name(graph, of_call[call]) for call in before.tolist())


def _activity_name(graph: DependencyGraph, row: int) -> str:
    kind = graph.event_table.kind[row]
    return COPY if kind == EventKind.MEMCPY else SET if kind == EventKind.MEMSET else _sequence_name(graph.name_of(row))


def _numbers_around(graph: DependencyGraph, rows: Iterable[int], read: Callable[[str], int]) -> list[int]:
    """Read a number from the innermost annotation that says one (not negative) around each CPU row; else -1."""
    listed = np.array([*rows], np.int32)
    said = np.array([read(name) for name in graph.names] or [-1], np.int64)[graph.event_table.name]
    innermost = graph.enclosing(listed, EventKind.ANNOTATION)
    found = nearest_around(graph.nesting(EventKind.ANNOTATION).parent, innermost, said >= 0)
    numbers: list[int] = take_or(said, found).tolist()
    return numbers


def _captured_tokens(name: str) -> int:
    match = CAPTURE_SIZE.match(name)
    return int(match[1]) if match else -1


def _step_tokens(name: str) -> int:
    """Return the tokens that a step is padded to, or else has; -1 where its name says none."""
    step = read_step_name(name)
    return next(filter(None, (step.padded_requests, step.tokens, step.requests)), -1) if step else -1


@dataclass(frozen=True)
class NamedCaptures:
    """Recordings of captures, and files of annotations, that are named, with the ranks that they say (None: none)."""

    ranks: dict[Location, int | None]
    annotation_ranks: dict[Location, int | None]

    def of_rank(self, rank: int | None) -> tuple[Location, ...]:
        """Return the captures of a rank: its own; where none is of that rank, those that may be of any."""
        return _of_rank(self.ranks, rank)

    def annotations_of_rank(self, rank: int | None) -> tuple[Location, ...]:
        """Return the files of annotations of a rank, as :meth:`of_rank`."""
        return _of_rank(self.annotation_ranks, rank)


def _of_rank(ranks: Mapping[Location, int | None], rank: int | None) -> tuple[Location, ...]:
    own = tuple(path for path, of in ranks.items() if of == rank)
    return own or tuple(path for path, of in ranks.items() if of is None or len(set(ranks.values())) == 1)


def find_captures(inputs: Sequence[str | Location], *, salvage: bool = False) -> NamedCaptures:
    """Find the recordings of captures, and files of annotations, among files and folders; of a folder those that are.

    Raises:
        TraceError: a file that was named is none or cannot be read, or a folder has none.
    """
    found: dict[Location, int | None] = {}
    annotations: dict[Location, int | None] = {}
    for place in expand_file_lists(inputs):
        paths = expand_inputs([place])
        captures = [path for path in paths if has_captures(path)]
        named = [path for path in paths if path not in captures and has_node_names(path)]
        annotations |= {path: rank_in_name(path) for path in named}
        if not captures and not named:
            if paths == [place] and has_gpu_rows(place) is None:
                read_without_log(place, salvage=salvage)  # says what is wrong with a file that is not whole
            raise TraceError(place, "records no begin and end of stream capture, so it names no kernel", RECORD_START)
        for path in captures:
            in_header = header_count(peek_header(path) or Header(), "rank")
            found[path] = rank_in_name(path) if in_header is None else in_header
    return NamedCaptures(found, annotations)


def with_names_of_replays(
    graph: DependencyGraph, named: NamedCaptures, beside: Sequence[Location], *, salvage: bool
) -> DependencyGraph:
    """Return a rank's graph whose replayed kernels have the names of captures and annotations of its rank.

    These are among the files that are named, and those that lie next to the rank's.
    """
    annotations = [path for path in beside if has_node_names(path)]
    captures = [path for path in beside if path not in annotations]
    with_names = with_annotations(graph, (*annotations, *named.annotations_of_rank(graph.rank)))
    return with_captures(with_names, (*captures, *named.of_rank(graph.rank)), salvage=salvage)


def with_captures(graph: DependencyGraph, paths: Sequence[Location], *, salvage: bool = False) -> DependencyGraph:
    """Return a graph whose replays are named by captures, which are read when a question needs the names."""
    if not paths:
        return graph
    names_of = partial(_read_and_name, paths=tuple(paths), salvage=salvage)
    return graph.with_attached(CaptureSource(names_of, tuple(paths)))


def _read_and_name(graph: DependencyGraph, paths: tuple[Location, ...], salvage: bool) -> GraphKernels:  # noqa: FBT001
    rows = replayed_rows(graph)
    if not rows:
        return GraphKernels(len(graph.event_table), freeze(np.full(len(graph.event_table), -1, np.int32)))
    return named_kernels(graph, [read_capture(path, salvage=salvage) for path in paths])


def replayed_rows(graph: DependencyGraph) -> dict[int, Ids]:
    """Return the activities of each graph launch (canonical row), in order of time."""
    calls = graph.launching_call
    rows = np.flatnonzero(graph.is_gpu & take_or(graph.event_flags.graph_launch_call, calls, otherwise=False))
    groups = rows_by_value(calls[rows])
    start = graph.event_table.start
    launched = sorted(groups, key=lambda call: (start[call], call))
    return {call: rows[groups[call]].astype(np.int32) for call in launched}


def named_kernels(graph: DependencyGraph, captures: Sequence[Capture]) -> GraphKernels:
    """Find the launch during capture of each kernel of each replay."""
    size = len(graph.event_table)
    launch = np.full(size, -1, np.int32)
    found = GraphKernels(size, launch, tuple(one.graph for one in captures))
    replays = replayed_rows(graph)
    tokens = _numbers_around(graph, replays, _step_tokens)
    known = _Windows(graph, captures)
    fitting = [known.fitting(rows) for rows in replays.values()]
    chosen = _in_order_of_capture(fitting, tokens, known)
    said = []
    for (call, rows), at, fits in zip(replays.items(), chosen, fitting, strict=True):
        if at < 0:
            said.append(Replay(call, len(rows)))
            continue
        capture, captured = known.windows[at]
        alignment = fits[at]
        of_capture = take_or(captured.launches, alignment.place)
        launch[rows] = np.where(of_capture >= 0, of_capture + found.first[capture], -1)
        sizes = {known.windows[other][1].size for other in fits}
        unsure = len(sizes) > 1 and tokens[len(said)] < 0
        named = int(np.count_nonzero(of_capture >= 0))
        said.append(Replay(call, len(rows), named, alignment.rule, alignment.edits, capture, unsure))
    return replace(found, launch=freeze(launch), replays=tuple(said))


class _Windows:
    """All captured graphs of some recordings, and which of them fit a replay."""

    def __init__(self, graph: DependencyGraph, captures: Sequence[Capture]) -> None:
        self.windows = [(place, one) for place, capture in enumerate(captures) for one in capture.captured]
        self._graph = graph
        number: dict[str | None, int] = {None: -1}
        # Equal sequences are aligned once: the layers of a model, each captured by itself, are the same.
        self._alike: defaultdict[bytes, list[int]] = defaultdict(list)
        self._codes: dict[bytes, Ints] = {}
        for at, (_, one) in enumerate(self.windows):
            codes = np.array([number.setdefault(name, len(number) - 1) for name in one.names], np.int64)
            self._alike[codes.tobytes()].append(at)
            self._codes[codes.tobytes()] = codes
        self._number = number
        self._known: dict[bytes, dict[int, ReplayAlignment]] = {}

    def fitting(self, rows: Ids) -> dict[int, ReplayAlignment]:
        """Return the captured graphs that a replay fits best, with its alignment."""
        names = [_activity_name(self._graph, row) for row in rows.tolist()]
        codes = np.array([self._number.setdefault(name, len(self._number) - 1) for name in names], np.int64)
        lanes = self._graph.event_table.lane[rows]
        key = codes.tobytes() + lanes.tobytes()
        if key not in self._known:
            self._known[key] = self._fitting(codes, lanes)
        return self._known[key]

    def _fitting(self, codes: Ints, lanes: Ids) -> dict[int, ReplayAlignment]:
        exact = codes.tobytes()
        sequences = [exact] if exact in self._alike else list(self._alike)
        found = {key: align_replay(self._codes[key], codes, lanes) for key in sequences}
        sound = {key: one for key, one in found.items() if one is not None}
        # What is checked by names goes before what is not.
        best = min(((one.rule == UNCHECKED, one.edits) for one in sound.values()), default=None)
        return {
            at: one
            for key, one in sound.items()
            if (one.rule == UNCHECKED, one.edits) == best
            for at in self._alike[key]
        }


def _in_order_of_capture(
    fitting: Sequence[dict[int, ReplayAlignment]], tokens: Sequence[int], known: _Windows
) -> list[int]:
    """Choose one of the captured graphs that fit each replay; -1 where none does.

    Of several sizes the smallest that holds the step's tokens. Of several in one recording, such as the layers of a
    model, the one that was captured after that of the replay before; what comes before the first replay that only one
    fits is counted back from it.
    """
    options = [_of_size(sorted(fits), of_step, known) for fits, of_step in zip(fitting, tokens, strict=True)]
    sure = [at for at, one in enumerate(options) if len(one) == 1]
    chosen = [-1] * len(options)
    first = sure[0] if sure else 0
    for at in range(first, len(options)):
        before = chosen[at - 1] if at else -1
        chosen[at] = _next_of(options[at], before)
    for at in range(first - 1, -1, -1):
        chosen[at] = -_next_of([-one for one in reversed(options[at])], -chosen[at + 1]) if options[at] else -1
    return chosen


def _of_size(options: list[int], tokens: int, known: _Windows) -> list[int]:
    """Keep the captured graphs of one size: the smallest that holds the step's tokens."""
    sizes = sorted({known.windows[at][1].size for at in options})
    if len(sizes) < 2:
        return options
    size = next((size for size in sizes if size >= tokens), sizes[-1])
    return [at for at in options if known.windows[at][1].size == size]


def _next_of(options: Sequence[int], before: int) -> int:
    """Return the first option (ascending) behind the one before, around the end; -1 if there is none.

    >>> _next_of([1, 2, 3], 2), _next_of([1, 2, 3], 3), _next_of([], 0)
    (3, 1, -1)
    """
    return next((at for at in options if at > before), options[0] if options else -1)
