"""A discrete-event simulator of CUDA execution: programs in, events and every true constraint out.

stream = Stream(7)
program = Program.of(Op("aten::add", (Launch(stream, 10_000),)), SyncStream(stream))
run = simulate(program)
run.events, run.constraints, run.binding  # all there is to know
written = write(run, Dialect(sync_rows="none", shuffle_seed=1))
path.write_bytes(to_bytes(written.document))  # a Kineto file; written.index_of[uid] is the row's position
"""

from tests.simulator.dialect import Dialect, GpuClock
from tests.simulator.engine import simulate
from tests.simulator.program import Program, Stream, ThreadProgram
from tests.simulator.programs import random_program
from tests.simulator.run import Constraint, Flow, Run, SimEvent, SyncRow
from tests.simulator.writer import Written, to_bytes, write

__all__ = [
    "Constraint",
    "Dialect",
    "Flow",
    "GpuClock",
    "Program",
    "Run",
    "SimEvent",
    "Stream",
    "SyncRow",
    "ThreadProgram",
    "Written",
    "random_program",
    "simulate",
    "to_bytes",
    "write",
]
