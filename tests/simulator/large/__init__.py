"""Jobs of thousands of ranks: times for all ranks at once, files from templates, the truth beside them.

job = large_job(LargeShape(ranks=4_096, collectives=40, rows=2_000))
times = job_times(job)                   # starts, ends and waits of every member of every collective
write_large_job(job, times, folder)      # rank_N.json.gz each, the truth in folder.truth.json
simulate_job(unrolled(job))              # the same job by the simulator of events: the same times to the nanosecond
"""

from .files import read_truth, truth_path, write_large_job
from .job_times import JobTimes, Met, job_times
from .mesh import MESHES, Axis, Mesh
from .scripts import Injection, LargeJob, LargeShape, large_job
from .unrolled import recording_of, unrolled

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
