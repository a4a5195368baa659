"""Graphs to try: of simulated programs and of soups of rows that no profiler would write."""

from __future__ import annotations

from tests.simulator import Dialect, simulate, to_bytes, write
from tests.simulator.strategies import programs
from tests.support.random_rows import RANDOM_ROWS, RandomRows, graph_of

SIMULATED = (programs("arbitrary") | programs("pytorch")).map(
    lambda program: graph_of(to_bytes(write(simulate(program), Dialect()).document))
)
GRAPHS = RANDOM_ROWS.map(RandomRows.graph) | SIMULATED
FILLED = GRAPHS.filter(lambda graph: len(graph.trace.events) > 0)
