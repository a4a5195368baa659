"""What answers say about a window: its lengths, its steps, its ranks, near-critical work."""

from __future__ import annotations

from collections.abc import Sequence

from analyses.display.sentence_format import brief_duration, brief_share, counted, enumerated
from analyses.display.text_layout import clipped, duration_text, percent

NO_GPU = "no GPU activity in the trace"
SHARES_OF_LATENCY = "  Percentages are of the latency; use --gpu-window for the iteration."
NOT_RECORDED = "(nothing recorded)"


def lengths(latency_ns: int | None, iteration_ns: int | None, cpu_ns: int | None, length_ns: int | None) -> list[str]:
    """Name the lengths of a window for a headline, those that there are."""
    named = (("latency ", latency_ns, ""), ("iteration ", iteration_ns, ""), ("", cpu_ns, " on the CPU"),
             ("length ", length_ns, ""))  # fmt: skip
    return [f"{kind}{brief_duration(ns)}{behind}" for kind, ns, behind in named if ns is not None]


LONGER_NAMED = 3
"""More longer steps than this are counted."""


def longer_steps(numbers: Sequence[int], share: float, steps: int) -> str:
    """Say which steps take most of the time of all: a headline that is about a usual one does not speak of them.

    >>> longer_steps([4], 0.61, 9)
    'step 4 takes 61% of the time of 9 steps'
    >>> longer_steps([4, 7], 0.93, 5)
    'steps 4 and 7 take 93% of the time of 5 steps'
    >>> longer_steps([4, 14, 24, 34], 0.93, 40)
    '4 longer steps take 93% of the time of 40 steps'
    """
    if len(numbers) > LONGER_NAMED:
        named = f"{len(numbers)} longer steps take"
    else:
        named = f"steps {enumerated(numbers)} take" if len(numbers) > 1 else f"step {numbers[0]} takes"
    return f"{named} {brief_share(share)} of the time of {counted(steps, 'step')}"


# -- the lengths of a window -------------------------------------------------------------------------------------------


def on_cpu(cpu_ns: int) -> str:
    """Say how long a window is on the CPU."""
    return f"{duration_text(cpu_ns)} on the CPU"


def part_of_trace(label: str, length_ns: int, *, is_whole: bool, has_gpu: bool) -> str:
    """Name a window without a name of its own, or the whole trace."""
    extent = ", from the first operator, call or GPU activity to the end of the last work" if is_whole else ""
    return f"{label}: {duration_text(length_ns)}{extent}{'' if has_gpu else f'; {NO_GPU}'}"


def job_iteration(label: str, length_ns: int, *, is_first: bool) -> str:
    """Name the iteration of a job; before the first step nothing is recorded."""
    if is_first:
        return f"{label}: {duration_text(length_ns)}, from its start (no previous step) to the end of its work"
    return (
        f"{label}: iteration {duration_text(length_ns)}, from the end of the previous step's work on all ranks to the "
        "end of this step's work"
    )


def latency(length_ns: int) -> str:
    """Name a latency."""
    return f"latency {duration_text(length_ns)}, from its start to the end of its last work"


def iteration(gpu_ns: int) -> str:
    """Name an iteration."""
    return f"iteration {duration_text(gpu_ns)}, from the end of the previous step's work to the end of this step's work"


NO_ITERATION = "iteration: not recorded (no previous step)"


def events_after(count: int, after_ns: int) -> str:
    """Say what begins after the end of the work."""
    begin = "event begins" if count == 1 else "events begin"
    return f"The window ends with its last work; {count:,} {begin} later, up to {duration_text(after_ns)} after it."


def missing_ranks(ranks: str, label: str, count: int) -> str:
    """Say which ranks have no such window."""
    return f"{ranks[0].upper()}{ranks[1:]} {'has' if count == 1 else 'have'} no {label} and {_verb(count)} nothing."


def _verb(count: int) -> str:
    return "contributes" if count == 1 else "contribute"


# -- the choice of a window --------------------------------------------------------------------------------------------


def no_steps(count: int, name: str, flags: str) -> str:
    """Say that the whole trace is analyzed, and offer the annotation that is repeated most."""
    said = "No profiler steps in this trace; the whole trace is analyzed."
    return f"{said} Use --annotation {flags} --instance I to select one of {count:,} × {name}." if count > 1 else said


def only_step(label: str) -> str:
    """Say that there is one step."""
    return f"{label} is the only step."


OTHER_STEP = "use --step N for another"


def median_step(label: str, candidates: int, steps: int, *, only_first: bool) -> str:
    """Say of how many steps one is the median, and which are excluded."""
    if candidates == steps:
        of = counted(steps, "step")
    else:
        excluded = "the first is" if only_first else "the first, and steps without GPU work or on few ranks, are"
        of = f"{candidates} of {counted(steps, 'step')} ({excluded} excluded)"
    return f"{label} is the median of {of}; {OTHER_STEP}."


KINDS_NAMED = 3
"""More kinds of steps than this are counted."""


def kinds_of_steps(kinds: Sequence[tuple[str, int, int]]) -> str:
    """Say which kinds of steps there are, how often, and how long they take (ns)."""
    named = [f"{count} {name} ({duration_text(ns)})" for name, count, ns in kinds[:KINDS_NAMED]]
    more = [f"{len(kinds) - KINDS_NAMED} more"] * (len(kinds) > KINDS_NAMED)
    return (
        f"Steps of {len(kinds)} kinds, by median iteration: {', '.join([*named, *more])}. Outliers are within a kind."
    )


# -- ranks and hosts ---------------------------------------------------------------------------------------------------


def path_by_rank(switches: int) -> str:
    """Title the list of ranks on a path."""
    return f"critical path by rank ({counted(switches, 'switch', 'switches')} between ranks)"


OTHERS_WAIT = "others wait: the time that all other ranks wait for this rank alone"


PATH_BY_HOST = "critical path by host"

# -- near-critical work ------------------------------------------------------------------------------------------------

ALTERNATIVES = "alternative paths to the end of the window: the longest of each kind that is not on the critical path"
NO_ALTERNATIVES = "No other rank or class of work is near-critical."
ALTERNATIVE_COLUMNS: Sequence[str] = ("slack", "near-critical", "rank", "class", "through")


def near_critical(time_ns: int, share: float, threshold_ns: int) -> str:
    """Say how much work is near-critical."""
    slack = duration_text(threshold_ns)
    return f"near-critical work (slack below {slack}): {duration_text(time_ns)}, {percent(share)} of the window"


def near_critical_by_rank(threshold_ns: int) -> str:
    """Title the list of ranks with near-critical work."""
    return f"near-critical work (slack below {duration_text(threshold_ns)}), by rank"


# -- clocks ------------------------------------------------------------------------------------------------------------


def gpu_clock(offsets_ns: Sequence[int], drift_ppm: float, noise_ns: int) -> str:
    """Say how far a GPU clock is ahead of the host clock, in each part of the trace, and that this is corrected."""
    if noise_ns:
        return f"The GPU and host clocks contradict each other by up to {brief_duration(noise_ns)}."
    if len(offsets_ns) > 1:
        jumps = "once" if len(offsets_ns) == 2 else f"{len(offsets_ns) - 1} times"
        low, high = _ahead_or_behind(min(offsets_ns)), _ahead_or_behind(max(offsets_ns))
        return f"The GPU clock jumps {jumps} ({low} to {high} the host clock); GPU times are corrected."
    drift = f" and drifts by {drift_ppm:.0f} ppm" if drift_ppm else ""
    return f"The GPU clock is {_ahead_or_behind(offsets_ns[0])} the host clock{drift}; GPU times are corrected."


def several_gpu_clocks(first: str, count: int) -> str:
    """Say that more than one device has a clock of its own."""
    return f"{first} The clocks of {counted(count - 1, 'other device')} also differ."


def _ahead_or_behind(offset_ns: int) -> str:
    return f"{brief_duration(abs(offset_ns))} {'ahead of' if offset_ns > 0 else 'behind'}"


def on_rank(rank: int, line: str) -> str:
    """Say of which rank a line is."""
    return f"Rank {rank}: {line[0].lower()}{line[1:]}"


def unknown_waits(names: Sequence[str], calls: int) -> str:
    """Say which calls of unknown names are taken as waits."""
    return (
        f"{', '.join(names)}: {counted(calls, 'call')} taken as waits. The name is not in the vocabulary, but they "
        "return when the GPU runs out of work."
    )


def sync_records_contradicted(records: int) -> str:
    """Warn of synchronization records that were set aside."""
    return (
        f"Synchronization records were not used: {counted(records, 'record')} name work that ended after the call "
        "returned. Waits are inferred instead."
    )


def whose(rank: int | None, ranks: int) -> str:
    """Name the rank, or count the ranks of a job, behind the name of a file."""
    if ranks > 1:
        return f", {ranks:,} ranks"
    return "" if rank is None else f", rank {rank}"


def short_label(label: str) -> str:
    """Return the label of a window on one line."""
    return clipped(label, 60)
