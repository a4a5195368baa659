"""Turn every GPU trace into a typed dependency graph, and ask it for critical paths, causes and savings.

>>> import hta_graph as hg
>>> callable(hg.read_trace) and callable(hg.critical_path)
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hta_graph.base.errors import HtaGraphError
    from hta_graph.build.from_dataframes import from_dataframes
    from hta_graph.build.from_trace import DEFAULT_RULES, build_graph, critical_path
    from hta_graph.export.parquet import write_parquet
    from hta_graph.export.picture import render
    from hta_graph.export.sync_dependencies import sync_dependencies
    from hta_graph.graph.dependency_graph import DependencyGraph
    from hta_graph.graph.job_graph import JobGraph
    from hta_graph.model import EdgeKind, EventKind
    from hta_graph.multi_rank.build_job import build_job
    from hta_graph.multi_rank.job_source import read_graphs, read_job
    from hta_graph.paths.critical_path import CriticalPath
    from hta_graph.paths.windows import annotation, between, step, whole
    from hta_graph.store.save import load_graph, save_graph
    from hta_graph.trace.read import read_trace, read_traces
    from hta_graph.trace.table import Trace
    from hta_graph.what_if.changes import insert, remove, reroute, scale, weigh
    from hta_graph.what_if.opportunities import opportunities
    from hta_graph.what_if.predict import predict
    from hta_graph.what_if.replay import replay
    from hta_graph.what_if.scenarios import scenario
    from hta_graph.what_if.sensitivity import sensitivity
    from hta_graph.what_if.slack import near_critical, slack


__version__ = "0.2.0"

_HOME = {
    "CriticalPath": "hta_graph.paths.critical_path",
    "DEFAULT_RULES": "hta_graph.build.from_trace",
    "DependencyGraph": "hta_graph.graph.dependency_graph",
    "EdgeKind": "hta_graph.model",
    "EventKind": "hta_graph.model",
    "HtaGraphError": "hta_graph.base.errors",
    "JobGraph": "hta_graph.graph.job_graph",
    "Trace": "hta_graph.trace.table",
    "annotation": "hta_graph.paths.windows",
    "between": "hta_graph.paths.windows",
    "build_graph": "hta_graph.build.from_trace",
    "build_job": "hta_graph.multi_rank.build_job",
    "critical_path": "hta_graph.build.from_trace",
    "from_dataframes": "hta_graph.build.from_dataframes",
    "load_graph": "hta_graph.store.save",
    "read_graphs": "hta_graph.multi_rank.job_source",
    "read_job": "hta_graph.multi_rank.job_source",
    "read_trace": "hta_graph.trace.read",
    "read_traces": "hta_graph.trace.read",
    "render": "hta_graph.export.picture",
    "insert": "hta_graph.what_if.changes",
    "remove": "hta_graph.what_if.changes",
    "replay": "hta_graph.what_if.replay",
    "reroute": "hta_graph.what_if.changes",
    "scale": "hta_graph.what_if.changes",
    "weigh": "hta_graph.what_if.changes",
    "near_critical": "hta_graph.what_if.slack",
    "opportunities": "hta_graph.what_if.opportunities",
    "predict": "hta_graph.what_if.predict",
    "scenario": "hta_graph.what_if.scenarios",
    "sensitivity": "hta_graph.what_if.sensitivity",
    "slack": "hta_graph.what_if.slack",
    "save_graph": "hta_graph.store.save",
    "step": "hta_graph.paths.windows",
    "sync_dependencies": "hta_graph.export.sync_dependencies",
    "whole": "hta_graph.paths.windows",
    "write_parquet": "hta_graph.export.parquet",
}

__all__ = [
    "DEFAULT_RULES",
    "CriticalPath",
    "DependencyGraph",
    "EdgeKind",
    "EventKind",
    "HtaGraphError",
    "JobGraph",
    "Trace",
    "annotation",
    "between",
    "build_graph",
    "build_job",
    "critical_path",
    "from_dataframes",
    "insert",
    "load_graph",
    "near_critical",
    "opportunities",
    "predict",
    "read_graphs",
    "read_job",
    "read_trace",
    "read_traces",
    "remove",
    "render",
    "replay",
    "reroute",
    "save_graph",
    "scale",
    "scenario",
    "sensitivity",
    "slack",
    "step",
    "sync_dependencies",
    "weigh",
    "whole",
    "write_parquet",
]


if not TYPE_CHECKING:  # which would believe that any name is there

    def __getattr__(name: str) -> Any:
        """Import on first use: the command line answers ``--help`` without loading NumPy."""
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
