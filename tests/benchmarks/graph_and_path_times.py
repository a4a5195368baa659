"""Graph and path of a trace in memory: ``python -m tests.benchmarks.graph_and_path_times TRACE``; prints JSON."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import fields
from pathlib import Path

import hta_graph as hg
from hta_graph.graph.edges import EdgeTable
from hta_graph.trace.decompress import read_bytes


def main() -> None:
    """Measure one trace in this process."""
    parser = argparse.ArgumentParser(description="Time graph and path without reading.")
    parser.add_argument("trace", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    text_bytes = len(read_bytes(options.trace).data)
    trace = hg.read_trace(options.trace)
    walls, cpus = [], []
    for _ in range(options.runs):
        wall, cpu = time.perf_counter(), time.process_time()
        path = hg.critical_path(hg.build_graph(trace), hg.whole())
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    edges = path.graph.edge_table
    found = {"graph and path": [statistics.median(walls), statistics.median(cpus)], "text_bytes": text_bytes}
    sizes = {"events": len(trace.events), "edges": len(edges), "segments": len(path.segment_table)}
    print(json.dumps({**found, **sizes, "edge_bytes": edge_bytes(edges)}))  # noqa: T201


def edge_bytes(edges: EdgeTable) -> int:
    """Return what a table of edges holds in memory."""
    return sum(getattr(edges, column.name).nbytes for column in fields(edges))


if __name__ == "__main__":
    main()
