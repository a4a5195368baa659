"""Rows of CUDA graphs as PyTorch's Cuspy recorder writes them: lanes in place of streams, arrows between nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.trace_builder import TraceBuilder

FIRST_ARROW = 1 << 40


class NodeBuilder(TraceBuilder):
    """Adds nodes of graph launches; times are microseconds.

    Args:
        lanes: whether all nodes are shown on lane 7, wherever they ran.
        arrows: whether the recorder draws what each node waited for.
    """

    def __init__(self, *, lanes: bool = False, arrows: bool = True, **header: Any) -> None:
        super().__init__(**header)
        self.lanes, self.arrows, self.drawn = lanes, arrows, 0

    def node(
        self, name: str, start: float, end: float, corr: int, after: Sequence[int] = (), *, stream: int = 7,
        cat: str = "kernel",
    ) -> int:  # fmt: skip
        """Add a node that waited for some others, named by their rows."""
        lane = 7 if self.lanes else stream
        args = {"correlation": corr, "graph id": 9, "graph node id": len(self.rows) + 1}
        if lane != stream:
            args["original_stream"] = stream
        found = self._gpu(cat, name, start, end, lane, 0, **args)
        for source in after if self.arrows else ():
            self.arrow(source, found)
        return found

    def arrow(self, source: int, target: int) -> None:
        """Draw an arrow between two rows."""
        first, last = self.rows[source], self.rows[target]
        for row, time, phase in ((first, first["ts"] + first["dur"], "s"), (last, last["ts"], "f")):
            self.row(
                ph=phase, id=FIRST_ARROW + self.drawn, pid=row["pid"], tid=row["tid"], ts=time, cat="ac2g", name="ac2g"
            )
        self.drawn += 1


def forked_graph(*, lanes: bool = False, arrows: bool = True, replays: int = 3) -> NodeBuilder:
    """Replays of a graph: A and B are its roots, C waits for A, D for B and C; B takes longest, on a stream of its own.

    stream 7    [A   ][C ]       [D ]
    stream 20   [B              ]
    """
    trace = NodeBuilder(lanes=lanes, arrows=arrows)
    for number in range(1, replays + 1):
        at = 1_000.0 * number
        trace.call("cudaGraphLaunch", at, at + 20, number)
        a = trace.node("A", at + 30, at + 130, number)
        b = trace.node("B", at + 31, at + 431, number, stream=20)
        c = trace.node("C", at + 131, at + 181, number, [a])
        trace.node("D", at + 432, at + 482, number, [b, c])
        trace.call("cudaDeviceSynchronize", at + 60, at + 485, 100 + number)
    return trace
