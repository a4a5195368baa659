"""What ``serving`` says: steps of an inference engine, their phases, what bounds them, why the GPU is idle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analyses.display.sentence_format import brief_duration, brief_share, counted, quoted
from analyses.messages.engine_steps import idle, median
from hta_graph.base.errors import Remedy

TITLE = "Engine steps: iteration by part"
NO_STEPS_FIGURE = "no steps of an inference engine"

CAUSES = {
    "scheduler": "the scheduler",
    "tokenizer": "the tokenizer or detokenizer",
    "sampling": "sampling on the CPU",
    "output": "processing of results",
    "requests": "receiving requests",
    "preparation": "preparing the step's inputs",
    "in_step": "host code in the step",
    "sync": "a synchronizing call",
    "host_code": "other host code",
    "waiting": "the engine's thread waits",
    "launching": "launching",
    "not_started": "launched work that does not start",
    "unrecorded": "no recorded cause",
    "other_ranks": "waiting for other ranks",
    "no_requests": "no requests to compute",
}
"""What each cause of an idle GPU is called in a sentence."""

BOUNDS = {
    "gpu_compute": "GPU compute",
    "exposed_communication": "exposed communication",
    "host_between_steps": "the host between steps",
    "host_in_steps": "the host in the steps",
    "cpu_compute": "operators on the CPU",
    "too_few_requests": "too few requests",
}
"""What bounds a phase, as a sentence says it."""

PARTS = {
    "gpu_work_ns": "GPU compute and copies",
    "exposed_communication_ns": "exposed communication",
    "idle_before_ns": "GPU idle before the step's work",
    "idle_inside_ns": "GPU idle in the step's work",
}
"""What a figure calls the parts of an iteration."""


def headline(subject: str, length_ns: int, idle_ns: Mapping[str, int], bound: str, steps: int, *, on_cpu: bool) -> str:
    """Say how long the steps of the main phase take, and what bounds them."""
    length = median(length_ns) if steps > 1 else brief_duration(length_ns)
    said = idle(idle_ns["idle_before_ns"], idle_ns["idle_inside_ns"], length_ns, on_cpu=on_cpu)
    return f"{subject}: {length}, bound by {BOUNDS[bound]}; {said}"


def largest_cause(cause: str, name: str, share: float, saving: str, *, on_cpu: bool = False) -> str:
    """Name the largest cause of idle time, and the bound of what removing it saves."""
    named = f", {quoted(name)}" if name else ""
    of = "time outside operators" if on_cpu else "idle time"
    return f"largest cause of {of}: {CAUSES[cause]} ({brief_share(share)} of it{named}); {saving}"


ONLY_REQUESTS = "only more requests use that time"
"""Where an engine has nothing to compute."""


def saves_per_step(ns: int, steps: int) -> str:
    """Bound what removing a cause saves, which is in many steps.

    >>> saves_per_step(3_000_000, 12), saves_per_step(3_000_000, 1)
    ('removing it saves at most 250.0 µs per step on average', 'removing it saves at most 3.00 ms')
    """
    return f"removing it saves at most {brief_duration(round(ns / steps))}{' per step on average' * (steps > 1)}"


def saves_in_step(ns: int, step: int) -> str:
    """Bound what removing a cause saves, most of which is in one step.

    >>> saves_in_step(60_000_000, 11)
    'most of it is in step 11 alone, where removing it saves at most 60.0 ms'
    """
    return f"most of it is in step {step} alone, where removing it saves at most {brief_duration(ns)}"


def idle_in_others(share: float, phase: str, cause: str, name: str, of_cause: float) -> str:
    """Say in which other phase the GPU is idle, where the phase with most time hardly has idle time.

    >>> idle_in_others(0.15, "draft", "scheduler", "schedule", 0.92)
    'over all steps the GPU is idle 15% of the time, mostly in draft steps: the scheduler (92% of that, schedule)'
    """
    named = f", {quoted(name)}" if name else ""
    return (
        f"over all steps the GPU is idle {brief_share(share)} of the time, mostly in {phase} steps: {CAUSES[cause]} "
        f"({brief_share(of_cause)} of that{named})"
    )


def without_launch(rank: int, activities: int, ns: int) -> str:
    """Say how much GPU work belongs to no step because its launch is not recorded.

    >>> without_launch(0, 20, 20_000_000)
    'rank 0: 20 GPU activities (20.0 ms) have no recorded launch and count for no step'
    """
    return (
        f"rank {rank}: {counted(activities, 'GPU activity', 'GPU activities')} ({brief_duration(ns)}) "
        f"{'has' if activities == 1 else 'have'} no recorded launch and {'counts' if activities == 1 else 'count'} "
        "for no step"
    )


def longest(step: str, length_ns: int, share: float) -> str:
    """Name the step that takes most of a phase's time.

    >>> longest("prefill step 4 of batch 1 (1,500 tokens)", 1_630_000_000, 0.86)
    'prefill step 4 of batch 1 (1,500 tokens) alone takes 1.63 s (86% of their time)'
    """
    return f"{step} alone takes {brief_duration(length_ns)} ({brief_share(share)} of their time)"


def at_double_speed(saved_ns: int) -> str:
    """Say what faster kernels save at most.

    >>> at_double_speed(5_340_000)
    'GPU compute at 2x speed saves at most 5.34 ms per step'
    """
    return f"GPU compute at 2x speed saves at most {brief_duration(saved_ns)} per step"


def without_communication(exposed_ns: int) -> str:
    """Say what a step gains at most without exposed communication."""
    return f"without exposed communication a step is at most {brief_duration(exposed_ns)} shorter"


def padding(padded: int, share: float) -> str:
    """Say how much of the requests of replayed graphs is padding.

    >>> padding(9, 0.12)
    'padding to the batch sizes of CUDA graphs is 12% of the requests computed in 9 steps'
    """
    return (
        f"padding to the batch sizes of CUDA graphs is {brief_share(share)} of the requests computed in "
        f"{counted(padded, 'step')}"
    )


def waits_for_earlier(label: str, waits_ns: int, latency_ns: int) -> str:
    """Say that most of a step's latency is work of the steps before it."""
    return (
        f"{label}: {brief_duration(waits_ns)} of its {brief_duration(latency_ns)} latency waits for GPU work of "
        "earlier steps, which is not counted as its own"
    )


def several_threads(rank: int, threads: int) -> str:
    """Say what steps are where multiple threads name some and launch GPU work at the same time.

    >>> several_threads(0, 2)
    'rank 0: 2 threads name steps at the same time; overlapping steps count as one, with what all threads launch'
    """
    return (
        f"rank {rank}: {threads:,} threads name steps at the same time; overlapping steps count as one, with what all "
        "threads launch"
    )


def no_gpu_work(ranks: Sequence[int]) -> str:
    """Say of what the table speaks where ranks have no GPU work.

    >>> no_gpu_work([0, 1])
    '2 ranks have no GPU work: "GPU work" is operators of the steps on the CPU, and "idle" is time outside them'
    """
    who = f"rank {ranks[0]} has" if len(ranks) == 1 else f"{len(ranks):,} ranks have"
    return f'{who} no GPU work: "GPU work" is operators of the steps on the CPU, and "idle" is time outside them'


def waits_for_unrecorded(label: str, waits_ns: int, latency_ns: int) -> str:
    """Say how much of the first step's latency is GPU work from before the recording."""
    return (
        f"{label}: {brief_duration(waits_ns)} of its {brief_duration(latency_ns)} latency waits for GPU work from "
        "before the recording, which is not counted as its own"
    )


def no_steps(rank: int) -> str:
    """Report a window without steps of an engine."""
    return f"rank {rank}: the window has no steps of an inference engine"


NAME_STEPS = Remedy(
    "read_graphs(…, step_patterns=[…]) names the annotations that are steps",
    "--step-pattern names the annotations that are steps",
)
"""How to name some."""
