"""``Trace``: the ranks of a run, read in parallel on first use, their windows and their frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyses.declare.scope import Scope, whole
from analyses.hta.frame import earliest_ns, hta_scopes
from hta_graph.base.errors import QueryError, TraceError, UsageError
from hta_graph.base.storage.location import Location, is_remote, resolve_location
from hta_graph.graph.dependency_graph import DependencyGraph

if TYPE_CHECKING:
    import pandas as pd

    from analyses.hta.frame import SymbolTable


TraceFiles = Mapping[int, str] | Sequence[str] | None
Paths = Mapping[int, Location] | Sequence[Location]


class RankGraphs(Mapping[int, DependencyGraph]):
    """Rank → dependency graph; all are read on first use, and never change."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._graphs: dict[int, DependencyGraph] | None = None

    def __getitem__(self, rank: int) -> DependencyGraph:
        graphs = self._all_graphs()
        if rank not in graphs:
            raise QueryError(f"rank {rank} is not loaded; choose one of {', '.join(map(str, graphs))}")
        return graphs[rank]

    def __iter__(self) -> Iterator[int]:
        return iter(self._all_graphs())

    def __len__(self) -> int:
        return len(self._all_graphs())

    def __contains__(self, rank: object) -> bool:
        return rank in self._all_graphs()

    @property
    def files(self) -> list[Location]:
        """The files of all ranks, which no output may replace."""
        return [graph.path for graph in self.values()]

    def chosen(self, ranks: Sequence[int] | None) -> dict[int, DependencyGraph]:
        """Return some ranks; by default rank 0 if it is loaded, else the first one.

        Raises:
            QueryError: a rank is not loaded.
        """
        if not ranks:
            first = 0 if 0 in self else next(iter(self))
            return {first: self[first]}
        return {rank: self[rank] for rank in ranks}

    def _all_graphs(self) -> dict[int, DependencyGraph]:
        if self._graphs is None:
            self._graphs = _read_graphs(self._paths)
        return self._graphs


def _read_graphs(paths: Paths) -> dict[int, DependencyGraph]:
    """Read the traces in parallel; ranks come from a mapping, else from headers, names and order."""
    from analyses.display.stderr import ProgressLine, say
    from hta_graph.multi_rank.job_source import read_graphs

    if isinstance(paths, Mapping):
        return _read_graphs_by_rank(paths)
    with ProgressLine("reading traces") as line:
        return {found.trace.rank or 0: found for found in read_graphs(paths, say=say, progress=line.update)}


def _read_graphs_by_rank(paths: Mapping[int, Location]) -> dict[int, DependencyGraph]:
    """Read the files of a mapping; one by one where their headers contradict each other.

    Of a file into which several ranks were merged each rank gets its own graph.
    """
    from analyses.display.stderr import ProgressLine
    from hta_graph.multi_rank.job_source import read_graphs

    with ProgressLine("reading traces") as line:
        try:
            graphs = list(read_graphs(list(paths.values()), say=lambda _: None, progress=line.update))
        except TraceError:
            graphs = []
    of_file: dict[Location, list[DependencyGraph]] = {}
    for graph in graphs:
        of_file.setdefault(graph.path, []).append(graph)
    # Headers can claim one rank twice (copied files), or a merged file stands among others: the mapping counts.
    for path in paths.values():
        if path not in of_file:
            of_file[path] = list(read_graphs(path))
    return {rank: _graph_of_rank(of_file[path], rank) for rank, path in paths.items()}


def _graph_of_rank(graphs: Sequence[DependencyGraph], rank: int) -> DependencyGraph:
    """Return the only graph of a file, else that of the rank."""
    found = [graph for graph in graphs if graph.rank == rank] if len(graphs) > 1 else graphs
    if not found:
        known = ", ".join(str(graph.rank) for graph in graphs)
        raise QueryError(f"{graphs[0].path}: rank {rank} is not among the merged ranks {known}")
    return found[0]


def trace_paths(trace_files: TraceFiles, trace_dir: str | Location | None) -> Paths:
    """Return what to read: rank → file, files, or the folder. Relative names are searched in the folder first.

    Raises:
        QueryError: neither files nor a folder is given.
    """
    folder = resolve_location(trace_dir).expanduser() if trace_dir else Path()
    if not trace_files:
        if not trace_dir:
            raise QueryError("no trace given; pass trace_dir (a folder of rank files) or trace_files")
        return [folder]
    if isinstance(trace_files, Mapping):
        return {int(rank): _existing_path(folder, name) for rank, name in sorted(trace_files.items())}
    return [_existing_path(folder, name) for name in trace_files]


def _existing_path(folder: Location, name: str | Location) -> Location:
    """Return a file in the folder if it exists there, else as it was given."""
    path = resolve_location(name).expanduser()
    if is_remote(path):
        return path
    return folder / path if (folder / path).exists() else path


WINDOWS = ("hta", "whole")


class Trace:
    """The traces of a run; they are read, in parallel, on first use.

    Frames are made on first use and belong to the caller: changes to them change no answer.
    """

    def __init__(
        self,
        trace_files: TraceFiles = None,
        trace_dir: str | None = None,
        include_last_profiler_step: bool = False,
        *,
        window: str = "hta",
    ) -> None:
        """Set the traces, as :class:`analyses.TraceAnalysis` does.

        Raises:
            QueryError: neither files nor a folder is given.
            UsageError: the window is unknown.
        """
        if window not in WINDOWS:
            raise UsageError(f"window={window!r}: unknown window; choose one of {', '.join(WINDOWS)}")
        self.graphs = RankGraphs(trace_paths(trace_files, trace_dir))
        self.include_last_profiler_step = include_last_profiler_step
        self._window = window
        self._is_parsed_only = False

    @cached_property
    def scopes(self) -> list[Scope]:
        """The analyzed window of every rank."""
        if self._window == "whole":
            return [whole(rank, graph) for rank, graph in self.graphs.items()]
        return hta_scopes(self.graphs, include_last_step=self.include_last_profiler_step)

    def scopes_of(self, ranks: Sequence[int] | None) -> list[Scope]:
        """Return the windows of some ranks; by default of rank 0 if it is loaded, else of the first one.

        Raises:
            QueryError: a rank is not loaded.
        """
        own = {scope.rank: scope for scope in self.scopes}
        return [own[rank] for rank in self.graphs.chosen(ranks)]

    @cached_property
    def read_only(self) -> tuple[dict[int, pd.DataFrame], SymbolTable]:
        """The frames that answers are computed from, and the texts of their symbols."""
        from analyses.hta.frame import hta_trace_frames

        return hta_trace_frames(self.scopes)

    @cached_property
    def _shown(self) -> tuple[dict[int, pd.DataFrame], SymbolTable]:
        """The frames that the caller sees, and the texts of their symbols."""
        from analyses.hta.frame import hta_trace_frames

        if not self._is_parsed_only:
            return self.read_only
        return hta_trace_frames([whole(rank, graph) for rank, graph in self.graphs.items()], origin_ns=None)

    @cached_property
    def traces(self) -> dict[int, pd.DataFrame]:
        """Rank → its rows with HTA's columns, and their texts as ``s_name`` and ``s_cat``."""
        return {rank: frame.copy() for rank, frame in self._shown[0].items()}

    @property
    def symbol_table(self) -> SymbolTable:
        """The texts of the ``name`` and ``cat`` columns."""
        return self._shown[1]

    @property
    def trace_files(self) -> dict[int, str]:
        """Rank → file."""
        return {rank: str(graph.path) for rank, graph in self.graphs.items()}

    @property
    def origin_ns(self) -> int:
        """The origin of times in frames: the earliest event of all ranks (ns, absolute)."""
        return earliest_ns(self.scopes)

    @property
    def min_ts(self) -> float:
        """The same in µs."""
        return self.origin_ns / 1e3

    def load_traces(self, include_last_profiler_step: bool = False, *_: object, **__: object) -> None:
        """Choose whether to keep the last step; the traces are read on first use.

        Frames have the rows of HTA's window, and times count from the earliest event of all ranks.
        """
        self.align_and_filter_trace(include_last_profiler_step)

    def parse_traces(self, *_: object, **__: object) -> None:
        """Choose frames as the files have them: all rows, and times on the files' own clocks.

        As in HTA, answers need :meth:`load_traces` or :meth:`align_and_filter_trace`; here they are not affected.
        """
        self._remake(parsed_only=True)

    def align_and_filter_trace(self, include_last_profiler_step: bool = False) -> None:
        """Go from the frames of :meth:`parse_traces` to those of :meth:`load_traces`."""
        self.include_last_profiler_step = bool(include_last_profiler_step)
        self._remake(parsed_only=False)

    def _remake(self, *, parsed_only: bool) -> None:
        """Let frames be made anew from the same graphs on next use."""
        self._is_parsed_only = parsed_only
        for made in ("scopes", "read_only", "_shown", "traces"):
            self.__dict__.pop(made, None)

    def get_raw_trace_for_one_rank(self, rank: int = 0) -> dict[str, Any]:
        """Return a rank's file as JSON has it: ``traceEvents`` and the header; places in it are event indices.

        Raises:
            QueryError: the rank is not loaded.
            TraceError: the file cannot be read any more.
        """
        from hta_graph.trace.decompress import read_bytes
        from hta_graph.trace.json_reader import parse_plainly

        found = parse_plainly(read_bytes(self.graphs[rank].path).data)
        return found if isinstance(found, dict) else {"traceEvents": found}

    def decode_symbol_ids(self, *_: object, **__: object) -> None:
        """Do nothing: frames hold their texts."""

    def get_ranks(self) -> list[int]:
        """Return the ranks."""
        return list(self.graphs)

    def get_all_traces(self) -> Mapping[int, pd.DataFrame]:
        """Return :attr:`traces`."""
        return self.traces

    def get_trace(self, rank: int) -> pd.DataFrame:
        """Return a rank's frame.

        Raises:
            QueryError: the rank is not loaded.
        """
        self.graphs.chosen([rank])
        return self.traces[rank]

    def get_iterations(self, rank: int | None = None) -> list[int]:
        """Return the numbers of the profiler steps of a rank's rows, by default of the first rank."""
        steps = self.get_trace(self._or_first(rank))["iteration"].unique().tolist()
        return sorted(step for step in steps if step >= 0)

    def get_trace_duration(self, rank: int | None = None) -> float:
        """Return the time from the first to the last start of a rank's rows (µs); as in HTA, ends do not count."""
        start = self.get_trace(self._or_first(rank))["ts"]
        return float(start.max() - start.min()) if len(start) else 0.0

    def _or_first(self, rank: int | None) -> int:
        return next(iter(self.graphs)) if rank is None else rank
