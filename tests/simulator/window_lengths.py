"""How long a run took, in the windows that one asks about: all of it, or one profiler step of one rank."""

from collections.abc import Iterator

from tests.simulator.ranks.engine import JobRun
from tests.simulator.run import ACTIVITIES, WALKABLE, Run

Span = tuple[int, int]
NO_WORK = ("cudaEventQuery", "cudaHostAlloc", "cudaMalloc", "cudaEventRecord", "cudaStreamWaitEvent")
"""Calls that neither launch nor block; a thread that makes no others does no work of the program."""


def whole_span(run: Run) -> Span:
    """Return a run from its first row to the last end on the GPU or on a thread that works."""
    rows = [event for event in run.events if event.kind in WALKABLE]
    working = {event.tid for event in rows if event.context is None and _works(event.kind, event.name)}
    ends = (event.end_ns for event in rows if event.kind in ACTIVITIES or event.tid in working)
    return min(event.start_ns for event in rows), max(ends)


def step_span(run: Run, number: int) -> Span:
    """Return a step from its start to the later of its own end and that of what was launched in it."""
    step = next(event for event in run.events if event.name == f"ProfilerStep#{number}" and event.kind == "annotation")
    launches = {
        event.correlation
        for event in run.events
        if event.kind == "runtime" and step.start_ns <= event.start_ns < step.end_ns
    }
    ends = (event.end_ns for event in run.events if event.kind in ACTIVITIES and event.correlation in launches)
    return step.start_ns, max([step.end_ns, *ends])


def job_span(job: JobRun) -> Span:
    """Return a job from its first row on any rank to its last end; work of groups on CPUs has rows too."""
    spans = [whole_span(run) for run in job.runs.values()]
    ends = (member.row.end_ns for _, member in job.meetings() if not member.lasts_until_waited)
    return min(start for start, _ in spans), max([*(end for _, end in spans), *ends])


def _works(kind: str, name: str) -> bool:
    return kind == "cpu_op" or name not in NO_WORK


def steps_of(run: Run) -> Iterator[int]:
    """Yield the numbers of a run's steps."""
    for event in run.events:
        if event.kind == "annotation" and event.name.startswith("ProfilerStep#"):
            yield int(event.name.partition("#")[2])
