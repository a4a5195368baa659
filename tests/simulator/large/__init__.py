"""Jobs of thousands of ranks: times for all ranks at once, files from templates, the truth beside them.

job = large_job(LargeShape(ranks=4_096, collectives=40, rows=2_000))
times = job_times(job)                   # starts, ends and waits of every member of every collective
write_large_job(job, times, folder)      # rank_N.json.gz each, the truth in folder.truth.json
simulate_job(unrolled(job))              # the same job by the simulator of events: the same times to the nanosecond
"""

from tests.simulator.large.event_programs import recording_of, unrolled
from tests.simulator.large.job_times import JobTimes, Met, job_times
from tests.simulator.large.mesh import MESHES, Axis, Mesh
from tests.simulator.large.scripts import Injection, LargeJob, LargeShape, large_job
from tests.simulator.large.write_job import read_truth, truth_path, write_large_job

__all__ = [
    "MESHES",
    "Axis",
    "Injection",
    "JobTimes",
    "LargeJob",
    "LargeShape",
    "Mesh",
    "Met",
    "job_times",
    "large_job",
    "read_truth",
    "recording_of",
    "truth_path",
    "unrolled",
    "write_large_job",
]
