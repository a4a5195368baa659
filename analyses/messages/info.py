"""What ``info`` says about a trace and its graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analyses.display.sentence_format import counted
from analyses.display.text_layout import clipped, duration_text

EVENTS, LANES, EDGES, DIAGNOSTICS = "events", "lanes", "edges", "diagnostics"
NO_DIAGNOSTICS = "Diagnostics: nothing dropped, repaired or unresolved."
EDGE_COLUMNS: Sequence[str] = ("recorded", "inferred", "kind", "meaning")

NAME_COLUMNS: Sequence[str] = ("pattern", "meaning")
NAME_CAPTIONS: Sequence[str] = (
    "communication kernels (any place in the name; recorded collectives count whatever the name)",
    "calls that wait for the GPU (start of the name)",
    "kernels that are copies, where no launch call decides (start of the name)",
)
NAME_MEANINGS: Mapping[str, str] = {"copy": "a copy", "set": "a memset", "mark": "the mark of an event, no work"}
FORMAT_CAPTIONS: Sequence[str] = ("formats that are read", "formats that are refused, and what to do")
FORMAT_COLUMNS: Sequence[Sequence[str]] = (("format", "first bytes", "read", "not read"), ("format", "what to do"))
PROFILER_OF_PYTORCH = "PyTorch's profiler"


def recorded_by(recorder: str | None) -> str:
    """Name the program that recorded a trace."""
    return f"recorded by {recorder or PROFILER_OF_PYTORCH}"


def names_as_of(month: str) -> str:
    """Say what the lists of names are, and how old."""
    return f"Names are regular expressions, last updated {month}. Recorded ids, categories and arguments decide first."


def of_world(rank: int | None, world_size: int | None) -> str:
    """Name a rank behind its file."""
    return "" if rank is None else f", rank {rank}" + (f" of {world_size}" if world_size else "")


def empty(file: str, rank: str) -> str:
    """Say that a trace has no events."""
    return f"{file}{rank}: no events"


def span(file: str, rank: str, events: int, span_ns: int) -> str:
    """Count the events of a trace."""
    return f"{file}{rank}: {events:,} events in {duration_text(span_ns)}"


def gpus(names: Sequence[str]) -> str:
    """Name the GPUs of the host."""
    unique = list(dict.fromkeys(names))  # usually one model, many times
    found = f"{len(names)} × {clipped(', '.join(unique), 60)}" if names else "not recorded"
    return f"GPUs of the host: {found}"


def driven_gpus(events: Mapping[int, int]) -> str:
    """Count the events of each GPU that one process drives."""
    each = ", ".join(f"{gpu} ({counted(events[gpu], 'event')})" for gpu in sorted(events))
    return f"GPUs of this process: {each}"


def steps(numbers: Sequence[int], lengths_ns: Sequence[int]) -> str:
    """Say which steps there are, and how long they are."""
    if not numbers:
        return "steps: none recorded"
    listed = clipped(", ".join(map(str, numbers)), 50)
    shortest, longest = duration_text(min(lengths_ns)), duration_text(max(lengths_ns))
    spread = shortest if shortest == longest else f"{shortest} to {longest}"
    return f"steps: {len(numbers)} ({listed}), {spread} on the CPU"


def phases(listed: Sequence[str]) -> str:
    """Count the steps of an inference engine by phase."""
    return f"phases: {', '.join(listed)}"


def more_lanes(hidden: int) -> str:
    """Count the lanes that are left out."""
    return f"  … and {counted(hidden, 'more lane')}"


def more_ranks(events: Sequence[int], ranks: Sequence[int]) -> str:
    """Say what the ranks hold that are not listed."""
    named = f" ({ranks[0]} to {ranks[-1]})" if ranks else ""
    total = f"{sum(events):,} events, {min(events):,} to {max(events):,} each"
    return f"… and {len(events):,} more ranks{named}: {total}; use --rank N for one, --wide for all"
