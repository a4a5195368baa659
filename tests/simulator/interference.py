"""Kernels that slow each other down while they run side by side, which a plain simulation leaves out.

compute    |=====|~~~~~~|===|       ~ takes longer, since another stream works too
group            |======|
"""

from collections.abc import Iterator
from dataclasses import replace

from tests.simulator.engine import simulate
from tests.simulator.program import Body, Launch, Program, Statement
from tests.simulator.rewriting import Around, rewritten
from tests.simulator.run import Run, SimEvent

SLOWER = 0.3
"""How much longer a kernel takes that never runs alone."""
ROUNDS = 4


def with_interference(program: Program) -> Run:
    """Execute a program of one working thread whose kernels take the longer the more of them is overlapped."""
    run = simulate(program)
    for _ in range(ROUNDS):
        run = simulate(_slowed(program, _overlapped(run)))
    return run


def _slowed(program: Program, shares: Iterator[float]) -> Program:
    def change(own: Statement, _: Around) -> Body:
        if isinstance(own, Launch) and own.ns is not None:
            return (replace(own, ns=round(own.ns * (1 + SLOWER * next(shares, 0.0)))),)
        return (own,)

    return rewritten(program, change)


def _overlapped(run: Run) -> Iterator[float]:
    """Yield which share of each launched kernel lies beside kernels of other streams, in the order of launches."""
    kernels = [event for event in run.events if event.kind == "kernel" and event.name != "graph_kernel"]
    others = sorted((event.start_ns, event.end_ns, event.tid) for event in kernels)
    for kernel in kernels:
        yield _share_beside(kernel, others)


def _share_beside(kernel: SimEvent, others: list[tuple[int, int, int]]) -> float:
    beside, reached = 0, kernel.start_ns
    for start_ns, end_ns, stream in others:
        if stream != kernel.tid:
            beside += max(0, min(end_ns, kernel.end_ns) - max(start_ns, reached))
            reached = max(reached, min(end_ns, kernel.end_ns))
    return beside / max(kernel.end_ns - kernel.start_ns, 1)
