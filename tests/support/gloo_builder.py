"""A rank that talks by Gloo, in five lines of a test: calls on the main thread, work on the workers of its groups."""

from __future__ import annotations

from pathlib import Path

from tests.support.trace_builder import PID, TraceBuilder

__all__ = ["MAIN", "WORKER", "GlooRank", "late_ranks"]

MAIN, WORKER = 100, 201
"""The numbers of the calling thread and of the first group's first worker."""

CALLS = {
    "all_reduce": ("c10d::allreduce_", ["", "", "", "", "False", "-1"]),
    "reduce_scatter": ("c10d::_reduce_scatter_base_", ["", "", "", "", "False", "-1"]),
    "broadcast": ("c10d::broadcast_", ["", "", "1", "0", "False", "-1"]),
    "gather": ("c10d::gather_", ["[]", "", "", "0", "False", "-1"]),
    "send": ("c10d::send", ["", "", "1", "0"]),
    "recv": ("c10d::recv_", ["", "", "0", "0"]),
}


class GlooRank(TraceBuilder):
    """A rank that talks by Gloo: calls on the main thread, work on the workers of its groups."""

    def __init__(self, rank: int, *groups: list[int], names: str = "0123") -> None:
        listed = [
            {"pg_name": name, "backend_config": "cpu:gloo", "ranks": own}
            for name, own in zip(names, groups, strict=False)
        ]
        super().__init__(distributedInfo={"rank": rank, "world_size": 4, "pg_config": listed})

    def called(self, kind: str, start: float, end: float, elements: int = 8) -> int:
        """Add the call of a collective or message."""
        name, inputs = CALLS[kind]
        dims = [[[elements]], *([[]] * (len(inputs) - 1))]
        return self.op(name, start, end, tid=MAIN, **{"Concrete Inputs": inputs, "Input Dims": dims})

    def worked(self, name: str, start: float, end: float, *, tid: int = WORKER, elements: int = 8) -> int:
        """Add the row of its work."""
        args = {"Concrete Inputs": [""], "Input Dims": [[elements]], "Input type": ["float"]}
        times = {"ts": start, "dur": round(end - start, 3)}
        return self.row(ph="X", cat="user_annotation", name=f"gloo:{name}", pid=PID, tid=tid, **times, args=args)


def late_ranks(
    folder: Path, *arrivals: float, kind: str = "all_reduce", step_end: float = 60, met: bool = False
) -> list[Path]:
    """Write ranks of one step that multiply until they come to a collective (µs), and add after it.

    With ``met`` they have met before the step: from there on it is known who was late.

    The first comes to it at 10, the second at 35:

    µs       0      10        20        30        40       50      60
    rank 0   [mul  ]call                                 [add]
    worker           [~~~~~~~~~~~~~~~~~~~~~~~~~====]
    rank 1   [mul                       ]call            [add]
    worker                                [========]
    """
    paths, last = [], max(arrivals)
    for rank, arrival in enumerate(arrivals):
        trace = GlooRank(rank, list(range(len(arrivals))))
        if met:
            trace.called(kind, -20 + rank, -15)
            trace.worked(kind, -14, -5)
        trace.annotation("ProfilerStep#1", 0, step_end, tid=MAIN)
        trace.op("aten::mul", 1, arrival - 1, tid=MAIN)
        trace.called(kind, arrival, arrival + 2)
        trace.worked(kind, arrival + 3, last + 9 + rank)
        trace.op("aten::add", last + 15, last + 20, tid=MAIN)
        paths.append(trace.write(folder / f"rank{rank}.json"))
    return paths
