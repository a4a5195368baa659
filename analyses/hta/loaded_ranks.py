"""The ranks that a facade object works on: found at once, read when first asked for, in parallel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hta_graph.errors import QueryError, TraceError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.storage.location import Location
from hta_graph.storage.named_places import is_remote, resolve_location

__all__ = ["RankGraphs", "TraceFiles", "trace_paths"]

TraceFiles = Mapping[int, str] | Sequence[str] | None
Paths = Mapping[int, Location] | Sequence[Location]


class RankGraphs(Mapping[int, DependencyGraph]):
    """Rank → dependency graph; all are read the first time one is asked for, and never change."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._graphs: dict[int, DependencyGraph] | None = None

    def __getitem__(self, rank: int) -> DependencyGraph:
        graphs = self._all_graphs()
        if rank not in graphs:
            raise QueryError(f"rank {rank} is not loaded; there are: {', '.join(map(str, graphs))}")
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
        """Return some ranks; without any named rank 0 if it is there, else the first one.

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
    """Read the traces in parallel; a mapping says the ranks itself, else headers, names and order do."""
    from analyses.display.stderr import ProgressLine
    from hta_graph.multi_rank.read_ranks import read_graphs

    if isinstance(paths, Mapping):
        return _read_graphs_by_rank(paths)
    with ProgressLine("reading traces") as line:
        return {found.trace.rank or 0: found for found in read_graphs(paths, say=line.say, progress=line.update)}


def _read_graphs_by_rank(paths: Mapping[int, Location]) -> dict[int, DependencyGraph]:
    """Read the files of a mapping; where their own headers contradict each other, one by one."""
    from analyses.display.stderr import ProgressLine
    from hta_graph.multi_rank.read_ranks import read_graphs

    with ProgressLine("reading traces") as line:
        try:
            found = {item.trace.path: item for item in read_graphs(list(paths.values()), progress=line.update)}
        # Headers may claim one rank twice (copied files): the mapping's word counts, file by file.
        except TraceError:
            return {rank: next(read_graphs(path)) for rank, path in paths.items()}
    return {rank: found[path] for rank, path in paths.items()}


def trace_paths(trace_files: TraceFiles, trace_dir: str | Location | None) -> Paths:
    """Return what to read: rank → file, files, or the folder. Relative names are looked for in the folder first.

    Raises:
        QueryError: neither files nor a folder is given.
    """
    folder = resolve_location(trace_dir).expanduser() if trace_dir else Path()
    if not trace_files:
        if not trace_dir:
            raise QueryError("no trace is named; give trace_dir (a folder of rank files) or trace_files")
        return [folder]
    if isinstance(trace_files, Mapping):
        return {int(rank): _existing_path(folder, name) for rank, name in sorted(trace_files.items())}
    return [_existing_path(folder, name) for name in trace_files]


def _existing_path(folder: Location, name: str | Location) -> Location:
    """Return a file in the folder if it is there, else as it was named."""
    path = resolve_location(name).expanduser()
    if is_remote(path):
        return path
    return folder / path if (folder / path).exists() else path
