"""What answers say about the steps of an inference engine: phase, batch, tokens, idle time, other phases."""

from __future__ import annotations

from collections.abc import Sequence

from analyses.display.sentence_format import brief_duration, brief_share, counted, time_and_share
from analyses.display.text_layout import duration_text


def sizes(requests: Sequence[int], tokens: Sequence[int], image_size: str | None = None) -> str:
    """Name the batch of steps, and the tokens where these are others; what no name says is left out.

    >>> sizes([32, 32], [32, 32]), sizes([15], [15360]), sizes([48, 64], []), sizes([], [])
    (' of batch 32', ' of batch 15 (15,360 tokens)', ' of batch 48 to 64', '')
    """
    if image_size:
        return f" of {_span(requests)} × {image_size}" if requests else f" of {image_size}"
    computed = f" ({_span(tokens)} tokens)" if tokens and list(tokens) != list(requests) else ""
    return f" of batch {_span(requests)}{computed}" if requests else computed


def _span(numbers: Sequence[int]) -> str:
    least, most = min(numbers), max(numbers)
    return f"{most:,}" if least == most else f"{least:,} to {most:,}"


def several(count: int, phase: str, of: str, graph_launches: Sequence[int]) -> str:
    """Count the steps of a phase.

    >>> several(37, "decode", " of batch 64", [1]), several(9, "graph", "", [81, 81]), several(1, "eager", "", [0])
    ('37 decode steps of batch 64', '9 steps of 81 graph launches', '1 eager step')
    """
    if phase == "graph":
        return (
            f"{counted(count, 'step')} of {_span(graph_launches)} graph launch{'es' if max(graph_launches) > 1 else ''}"
        )
    return of_phase(count, phase, of)


def of_phase(count: int, phase: str, of: str = "") -> str:
    """Count the steps of a phase, with their batch; how many graphs they launch is not said.

    >>> of_phase(2, "prefill", " of batch 15"), of_phase(1, "graph")
    ('2 prefill steps of batch 15', '1 graph step')
    """
    return f"{counted(count, f'{phase} step')}{of}"


def one(label: str, of: str) -> str:
    """Name one step, with its batch."""
    return f"{label}{of}"


def first_iteration(label: str, length_ns: int) -> str:
    """Name the iteration of the first step; before it nothing is recorded."""
    return f"{label}: {duration_text(length_ns)}, from its first GPU work (no previous step) to the end of that work"


def median(ns: int) -> str:
    """Name the median iteration."""
    return f"median {brief_duration(ns)}"


def idle(before_ns: int, inside_ns: int, whole_ns: int, *, on_cpu: bool = False) -> str:
    """Say how long the GPU is idle in an iteration, and where; on a rank without GPU work how long no operator runs.

    >>> idle(1_320_000, 2_050_000, 18_900_000), idle(0, 1_700_000, 10_468_000)
    ('GPU idle 3.37 ms (18%): 1.32 ms before its first kernel, 2.05 ms after', 'GPU idle 1.70 ms (16%)')
    >>> idle(30_000_000, 2_000_000, 64_000_000, on_cpu=True)
    'in no operator of the step 32.0 ms (50%): 30.0 ms before its first operator, 2.00 ms after'
    """
    if not before_ns + inside_ns:
        return "always in an operator of the step" if on_cpu else "GPU never idle"
    idle_for, work = ("in no operator of the step", "operator") if on_cpu else ("GPU idle", "kernel")
    said = f"{idle_for} {time_and_share(before_ns + inside_ns, whole_ns)}"
    if before_ns and inside_ns:
        return f"{said}: {brief_duration(before_ns)} before its first {work}, {brief_duration(inside_ns)} after"
    return f"{said}, before its first {work}" if before_ns else said


def waits(latency_ns: int, waits_ns: int, earlier: str) -> str:
    """Say how much of a latency is the GPU work of the step before."""
    return f"{brief_duration(waits_ns)} of its {brief_duration(latency_ns)} latency waits for {earlier}"


def before_recording(ns: int) -> str:
    """Say how long the first step waits for GPU work that is not recorded."""
    return f"it first waits {brief_duration(ns)} for GPU work from before the recording"


def other_phase(count: int, phase: str, share: float) -> str:
    """Say how much of the time the steps of another phase take.

    >>> other_phase(2, "prefill", 0.18), other_phase(1, "idle", 0.001)
    ('2 prefill steps take 18% of the time', '1 idle step takes <1% of the time')
    """
    return f"{counted(count, f'{phase} step')} {'takes' if count == 1 else 'take'} {brief_share(share)} of the time"


def chosen(label: str, count: int, phase: str, steps: int) -> str:
    """Say of which steps one is the median."""
    if count == 1:
        return f"{label} is the only {phase} step of {counted(steps, 'step')}; use --step N for another."
    of = counted(count, f"{phase} step")
    among = f" ({counted(steps, 'step')} in all)" if steps > count else ""
    return f"{label} is the median of {of}{among}; use --step N for another."


def dropped_calls(count: int) -> str:
    """Say which calls at the end are no steps."""
    calls = counted(count, "call of the engine", "calls of the engine")
    return f"The last {calls} launched no GPU work in the recording and {'is' if count == 1 else 'are'} not counted."


BY_GRAPH_LAUNCH = (
    "No annotation names a step: each graph launch is taken as one, because the host waits for the GPU between them."
)
ONE_GRAPH_LAUNCH = "No annotation names a step: the only graph launch is taken as one."


PATTERNS = "annotations that are steps of inference engines, in the order in which they are tried"
PATTERN_COLUMNS = ("engine", "name of the annotation", "phase", "batch", "tokens", "since")
