"""What ``serving`` says: steps of an inference engine, their phases, what bounds them, why the GPU is idle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analyses.display.sentence_format import brief_duration, brief_share, counted, quoted
from analyses.messages.engine_steps import idle, median
from hta_graph.errors import Remedy

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
}
"""What each cause of an idle GPU is called in a sentence."""

BOUNDS = {
    "gpu_compute": "GPU compute",
    "exposed_communication": "exposed communication",
    "host_between_steps": "the host between steps",
    "host_in_steps": "the host in the steps",
    "cpu_compute": "operators on the CPU",
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


def largest_cause(cause: str, name: str, per_step_ns: int, share: float, *, on_cpu: bool = False) -> str:
    """Name the largest cause of idle time, and the bound of what removing it saves."""
    of = "time outside operators" if on_cpu else "idle time"
    named = f", {quoted(name)}" if name else ""
    return (
        f"largest cause of {of}: {CAUSES[cause]} ({brief_share(share)} of it{named}); "
        f"removing it saves at most {brief_duration(per_step_ns)} per step on average"
    )


def longest(step: str, length_ns: int, share: float) -> str:
    """Name the step that takes most of a phase's time.

    >>> longest("prefill step 4 of batch 1 (1,500 tokens)", 1_630_000_000, 0.86)
    'prefill step 4 of batch 1 (1,500 tokens) alone takes 1.63 s (86% of their time)'
    """
    return f"{step} alone takes {brief_duration(length_ns)} ({brief_share(share)} of their time)"


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


def no_gpu_work(ranks: Sequence[int]) -> str:
    """Say of what the table speaks where ranks have no GPU work.

    >>> no_gpu_work([0]), no_gpu_work([0, 1])
    ('rank 0 has no GPU work: "GPU work" is operators of the steps on the CPU, and "idle" is time outside them',
    '2 ranks have no GPU work: "GPU work" is operators of the steps on the CPU, and "idle" is time outside them')
    """
    who = f"rank {ranks[0]} has" if len(ranks) == 1 else f"{len(ranks):,} ranks have"
    return f'{who} no GPU work: "GPU work" is operators of the steps on the CPU, and "idle" is time outside them'


def no_steps(rank: int) -> str:
    """Report a window without steps of an engine."""
    return f"rank {rank}: the window has no steps of an inference engine"


NAME_STEPS = Remedy(
    "read_graphs(…, step_patterns=[…]) names the annotations that are steps",
    "--step-pattern names the annotations that are steps",
)
"""How to name some."""
