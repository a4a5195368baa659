"""Programs of several ranks in; of every rank its events, and of all together every rendezvous, wait and cause out.

job = simulate_job(ddp(JobShape(ranks=4, faults=[Fault(rank=2, step=1, phase="forward", ns=5_000_000)])))
recorded = record_job(job, Recording(loss=0.01, clocks={1: Clock(offset_ns=5_000_000)}), folder)
recorded.paths           # a Kineto file per rank
recorded.rendezvous()    # kind, members: rank, event_index, arrival, wait, transfer, whom each waits for
recorded.delays()        # what was injected: rank, event_index, name, true interval
true_path(recorded)      # [(rank, event_index, start, end, what binds its end)], true time; the product has no part
"""

from tests.simulator.ranks.communication_statements import Group, JobProgram
from tests.simulator.ranks.engine import JobRun, simulate_job
from tests.simulator.ranks.jobs import (
    JobShape,
    ddp,
    experts,
    fsdp,
    gpipe,
    meshes,
    parameter_server,
    pipeline,
    ring,
    rooted,
    tensor_parallel,
    wide,
)
from tests.simulator.ranks.recorded_job import (
    Clock,
    PathPiece,
    RecordedJob,
    Recording,
    TrueDelay,
    TrueMember,
    record_job,
    true_path,
)
from tests.simulator.ranks.scripts import Fault

__all__ = [
    "Clock",
    "Fault",
    "Group",
    "JobProgram",
    "JobRun",
    "JobShape",
    "PathPiece",
    "RecordedJob",
    "Recording",
    "TrueDelay",
    "TrueMember",
    "ddp",
    "experts",
    "fsdp",
    "gpipe",
    "meshes",
    "parameter_server",
    "pipeline",
    "record_job",
    "ring",
    "rooted",
    "simulate_job",
    "tensor_parallel",
    "true_path",
    "wide",
]
