"""A user's script: what the public names are to a type checker, and that they are that when it runs.

``.ci/package`` checks it with ``mypy --strict`` where only the wheel is installed, and runs it there:
``python public_api_script.py FOLDER`` with the traces of ``hta-graph demo --traces FOLDER``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import assert_type

import pandas as pd

import analyses
import hta_graph as hg
from analyses import TraceAnalysis, in_window, whole


def ask_one_rank(file: Path) -> None:
    """Read, build, and ask a graph."""
    trace = assert_type(hg.read_trace(file), hg.Trace)
    graph = assert_type(hg.build_graph(trace), hg.DependencyGraph)
    assert_type(graph.events, pd.DataFrame)
    assert_type(graph.edges, pd.DataFrame)
    assert_type(graph.rank, int | None)
    last = int(graph.events["event_index"].iloc[-1])
    assert_type(graph.predecessors(last), pd.DataFrame)
    assert_type(graph.ancestors(last), pd.DataFrame)
    assert_type(graph.filter(kind="kernel"), hg.DependencyGraph)
    assert_type(graph.neighbourhood(last, depth=2), hg.DependencyGraph)
    assert_type(hg.sync_dependencies(graph), pd.DataFrame)
    assert_type(hg.__version__, str)


def ask_paths(graph: hg.DependencyGraph) -> None:
    """Ask what decided, and what a change would gain."""
    path = assert_type(hg.critical_path(graph, hg.step(2)), hg.CriticalPath)
    assert_type(path.segments, pd.DataFrame)
    assert_type(path.by_event(), pd.DataFrame)
    assert_type(path.summary(), pd.DataFrame)
    assert_type(path.length_ns, int)
    assert_type(path.coverage, float)
    assert_type(path.by_bound_ns, dict[str, int])
    assert sum(path.by_bound_ns.values()) == path.length_ns
    replayed = hg.replay(graph, [hg.scale("kernel:.", 0.5)], hg.step(2))
    assert_type(replayed.predicted_ns, int)
    assert_type(replayed.saved_ns, int)
    assert_type(replayed.events, pd.DataFrame)
    assert_type(hg.opportunities(graph, hg.step(2)), pd.DataFrame)
    assert_type(hg.slack(graph, hg.step(2)), pd.DataFrame)
    assert_type(hg.near_critical(graph, hg.step(2), share=0.05).alternatives, pd.DataFrame)
    assert_type(hg.sensitivity(graph, "kernel:.", hg.step(2)).frame, pd.DataFrame)


def ask_job(folder: Path) -> None:
    """Ask several ranks at once."""
    job = assert_type(hg.read_job(folder), hg.JobGraph)
    assert_type(job.ranks, pd.DataFrame)
    assert_type(job.collectives, pd.DataFrame)
    assert_type(job.graph(2), hg.DependencyGraph)
    assert_type(hg.critical_path(job).by_rank_ns, dict[int, int])
    graphs = assert_type(hg.read_graphs(folder), Iterator[hg.DependencyGraph])
    scopes = [whole(graph.rank or 0, graph) for graph in graphs]
    assert_type(scopes, list[analyses.Scope])
    assert_type(analyses.stragglers.answer(scopes).main, pd.DataFrame)


def ask_analyses(graph: hg.DependencyGraph) -> None:
    """Ask what the command line asks."""
    scope = assert_type(in_window(0, graph, hg.step(2)), analyses.Scope)
    found = analyses.temporal_breakdown.answer([scope])
    assert_type(found.main, pd.DataFrame)
    assert_type(found.notes, list[str])
    assert_type(analyses.kernel_breakdown.answer([scope], num_kernels=3).main, pd.DataFrame)


def ask_as_with_hta(folder: Path) -> None:
    """Ask with HTA's names."""
    asked = TraceAnalysis(trace_dir=str(folder))
    assert_type(asked.get_temporal_breakdown(visualize=False), pd.DataFrame)


def mistype(file: Path) -> None:
    """Ask wrongly, never at run time: strict mypy would call these comments unused if it did not notice."""
    hg.critcal_path(hg.build_graph(hg.read_trace(file)))  # type: ignore[attr-defined]
    hg.critical_path(5)  # type: ignore[arg-type]
    analyses.straglers.answer([])  # type: ignore[attr-defined]
    analyses.stragglers.answer([], 5)  # type: ignore[call-arg]


def main() -> None:
    """Ask everything."""
    folder = Path(sys.argv[1])
    graph = hg.build_graph(hg.read_trace(folder / "trace.json.gz"))
    ask_one_rank(folder / "trace.json.gz")
    ask_paths(graph)
    ask_job(folder / "job")
    ask_analyses(graph)
    ask_as_with_hta(folder / "job")
    try:
        hg.read_trace(folder / "none.json")
    except hg.HtaGraphError as error:
        sys.stdout.write(f"asked everything; {type(error).__name__} is an HtaGraphError\n")


if __name__ == "__main__":
    main()
