"""Graphs to try: of simulated programs and of soups of rows that no profiler would write."""

from __future__ import annotations

from tests.simulator import Dialect, simulate, to_bytes, write
from tests.simulator.strategies import programs
from tests.support.random_rows import SOUPS, Soup, graph_of

SIMULATED = (programs("arbitrary") | programs("pytorch")).map(
    lambda program: graph_of(to_bytes(write(simulate(program), Dialect()).document))
)
GRAPHS = SOUPS.map(Soup.graph) | SIMULATED
FILLED = GRAPHS.filter(lambda graph: len(graph.trace.events) > 0)
