"""The verdict on a critical path: what bounds it, its largest item, what has no recorded cause, which rank is late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from analyses.display.labels import SHORT
from analyses.display.sentence_format import brief_duration, brief_share, counted, outside_operators, quoted
from analyses.display.text_layout import clipped, duration_text, percent
from analyses.messages.advice import on_rank

NOTHING_OWNED = "No recorded event is on the critical path."
NOTHING_UNEXPLAINED = "Unexplained: 0 ms"
NO_COMMUNICATION = "No communication between ranks was found in this window; each rank has its own path."

REASON_CLAUSE: Mapping[str, str] = {
    "before_recording": "probably waited for work that was enqueued before the recording started",
    "missing_graph_node": "is a CUDA graph node that no replay recorded",
    "wait_without_record": "is a wait that the trace does not record",
    "other_rank": "is a wait for another rank",
    "clock_fault": "has timestamps that contradict each other",
    "unknown": "has no recorded cause",
}
"""Each reason for being unexplained, as the verb of a sentence."""


def empty_window(window: str) -> str:
    """Name a window without any time."""
    return f"{window}: empty (0 ms)"


HOST_WORK = "host time"
HOST_OR_POLLED = "host time, or by GPU work that the host may poll for"
GLOO = "communication (Gloo)"


MOST = 0.5
"""From this share on something is mostly so."""


def bound_by(
    window: str, what: str, share: float, rank: int | None, lengths: Sequence[str], gain: str = "",
    *, has_gpu_rows: bool = True, others: Sequence[tuple[str, float]] = (), is_longest: bool = True,
) -> str:  # fmt: skip
    """Say what bounds a window, and what is gained without it: the headline; first that nothing of a GPU is known.

    ``others`` is what else much of the path is, with shares. Where that is more (not ``is_longest``), the order is by
    what would be saved, which is said.
    """
    is_known = what != "unexplained"
    unexplained = "mostly unexplained" if share >= MOST else "largely unexplained"
    named = f"bound by {what}" if is_longest else f"largest saving: {what}"
    bound = f"{named}{on_rank(rank)}" if is_known else f"{unexplained}{on_rank(rank)}"
    first = _first_words(window, has_gpu_rows=has_gpu_rows)
    shares = "; ".join([f"{brief_share(share)} of the critical path", *(f"{of} {brief_share(n)}" for of, n in others)])
    return f"{first} {bound} ({shares}){gain}; {', '.join(lengths)}"


def polled_for(window: str, busy: float, share: float, gain: str, lengths: Sequence[str]) -> str:
    """Name what bounds a window whose host may poll for a GPU that works for longer than the path is on the host."""
    of_gpu, of_host = f"{brief_share(busy)} of the window", f"{brief_share(share)} of the critical path"
    return (
        f"{window}: bound by GPU work ({of_gpu}) that the host may poll for, or by host time ({of_host}){gain}; "
        f"{', '.join(lengths)}"
    )


def saves_less(what: str, saved: str, *, halved: bool) -> str:
    """Say what the longest class of a path would save, where that is less than what another one saves."""
    condition = "at 2x speed" if halved else "without it"
    return f"{what[:1].upper()}{what[1:]} is longer on the path but saves less: {saved} {condition}."


LEADS: Mapping[str, tuple[str, str]] = {
    "values_read": ("waits for values read from the GPU", "without them"),
    "explicit_synchronisation": ("synchronization", "without it"),
    "waits_of_all_kinds": ("waits of the host for the GPU", "without them"),
    "synchronous_launches": ("a wait after each launch", "without it"),
    "blocking_uploads": ("waits for copies to the GPU", "without them"),
    "pageable_copies": ("copies from pageable memory", "from pinned memory"),
    "host_pauses": ("pauses of the host", "without them"),
    "launch_bound": ("launch overhead", "without it"),
    "code_loading": ("code loading", "without it"),
    "compilation": ("compilation", "without it"),
    "garbage_collection": ("garbage collection", "without it"),
    "driver_allocations": ("memory allocation", "without it"),
    "data_loading_exposed": ("data loading", "without it"),
    "python_bound": ("Python between operators", "without it"),
    "exposed_communication": ("GPU communication", "without it"),
    "serial_communication": ("communication that does not overlap", "overlapped"),
    "unbucketed_collectives": ("unbucketed collectives", "in buckets"),
    "far_from_limit": ("an operator far below its limit", "near the limit"),
    "float32_products": ("float32 matrix products", "in TF32"),
    "unfused_chains": ("unfused operators", "fused"),
}
"""By rule of the advice that saves most: what bounds a window then, and under which condition that is saved."""


PLURAL = frozenset({"GPU copies", "kernel gaps"})
"""Names of classes that are plurals."""

START_UP, RECORDED_LATER = "one-time start-up", "recorded later"


def bound_by_advice(
    window: str, what: str, condition: str, found: Shorter, lengths: Sequence[str], *, has_gpu_rows: bool
) -> str:
    """Say what bounds a window where following a piece of advice saves more than any cause costs: the headline."""
    first = _first_words(window, has_gpu_rows=has_gpu_rows)
    return f"{first} bound by {what}; {condition}, {_shorter(found, is_little=False)}; {', '.join(lengths)}"


def _first_words(window: str, *, has_gpu_rows: bool) -> str:
    return f"{window}:" if has_gpu_rows else f"{window}: {NO_GPU};"


class Shorter(NamedTuple):
    """What a window would be shorter by: how much, and what the window is; ``at_most``: rows allow no more."""

    saved: str
    whole: str
    at_most: bool
    doubt: str


def pronoun(what: str) -> str:
    """Return the pronoun of what bounds a window.

    >>> pronoun("GPU copies"), pronoun("data loading")
    ('them', 'it')
    """
    return "them" if what in PLURAL else "it"


def gain(found: Shorter, *, halved: bool, is_little: bool, without: str = "it") -> str:
    """Say what is gained without what bounds a window, or at twice its speed, as a part of the headline."""
    condition = "at 2x speed" if halved else f"without {without}"
    return (f", but {condition} " if is_little else f"; {condition}, ") + _shorter(found, is_little=is_little)


def gain_of_another(what: str, found: Shorter, *, halved: bool) -> str:
    """Say what is gained without the largest cause that is known, where most of a window is unexplained."""
    return f"; {f'with {what} at 2x speed' if halved else f'without {what}'}, " + _shorter(found, is_little=False)


def _shorter(found: Shorter, *, is_little: bool) -> str:
    amount = f"{'at most ' if found.at_most else 'only ' if is_little else ''}{found.saved}"
    return f"{found.whole} would be {amount} shorter{found.doubt}"


NOT_SHOWN: Mapping[str, str] = {
    "gpu_not_recorded": "the launched GPU work is not recorded",
    "kernels_not_recorded": "the launched kernels are not recorded",
    "nothing_recorded": "no operator or call is recorded for {share} of the window",
    "not_started": "launched work does not start for {share} of the window",
}
"""What the rows of a window do not show, as a clause."""

NO_GPU = "no GPU activity is recorded"


def only_host_time(window: str, launches: int) -> str:
    """Say that what was launched left no row on the GPU."""
    return f"{window}: {NO_GPU} for {counted(launches, 'launch call')}, only host time"


def no_kernels(window: str, launches: int) -> str:
    """Say that the kernels left no rows, although copies or sets did."""
    return f"{window}: no kernel is recorded for {counted(launches, 'launch call')}"


def nothing_recorded(window: str, time: str) -> str:
    """Say that most of a window has no row."""
    return f"{window}: no operator or call is recorded for {time}"


def not_started(window: str, time: str, rank: int | None = None) -> str:
    """Name what bounds a window where the GPU does not start what it was given."""
    return f"{window}: bound by launched work{on_rank(rank)} that does not start for {time}"


def savings_unknown(what: str, lengths: Sequence[str]) -> str:
    """Say first what a window does not show: the headline.

    >>> savings_unknown(no_kernels("step 2", 3), ["latency 1.07 ms"])
    'step 2: no kernel is recorded for 3 launch calls; savings are unknown; latency 1.07 ms'
    """
    return f"{what}; savings are unknown; {', '.join(lengths)}"


WHAT_IT_WAITS_FOR = (
    "The launch calls of that work have returned and the GPU is idle: it may run another process in turn, or the work "
    "may wait for other ranks; the trace does not show which."
)
"""Behind :func:`not_started`."""


def no_prediction(reason: str, share: float) -> str:
    """Say that replay does not show what would be gained."""
    return f"; savings are unknown, because {untrusted(reason, share)}"


def untrusted(reason: str, share: float) -> str:
    """Say why a prediction cannot be trusted, as a clause."""
    if reason in NOT_SHOWN:
        return NOT_SHOWN[reason].format(share=brief_share(share))
    if reason == "fixed":
        return f"{brief_share(share)} of the path is fixed in replay"
    if reason == "waiting":
        return f"{brief_share(share)} of the predicted time may be waiting for other ranks"
    if reason == "steps_differ":
        return f"the steps differ so much that another run may be {brief_share(share)} off"
    if reason == "contended":
        return f"driver calls of other threads may change it by {brief_share(share)} of the window"
    if reason == "unusual":
        return (
            f"{brief_share(share)} of the window rests on kernel gaps, launch calls, waits or an order inside CUDA "
            "graphs that the trace does not explain"
        )
    return f"replay follows another path for {brief_share(share)} of the window"


def doubt(
    fixed_share: float, inferred_share: float, *, waiting: bool, polling: bool, is_low: bool = False
) -> str:  # fmt: skip
    """Doubt a prediction, right behind it: what it may include, or what most of it rests on."""
    parts = [
        *(["may include waiting for other ranks"] if waiting else []),
        *(["low confidence"] if is_low else []),
        *(["uncertain: the host may be polling"] if polling else []),
        *([f"uncertain: {brief_share(fixed_share)} of the path is fixed in replay"] if fixed_share else []),
        *([f"uncertain: {brief_share(inferred_share)} of the path is on inferred edges"] if inferred_share else []),
    ]
    return f" ({'; '.join(parts)})" if parts else ""


NO_SINGLE_CAUSE = "; without any single cause, nothing would be saved"


def known_causes_save_little(least: float, whole: str) -> str:
    """Say of a largely unexplained window that no cause that is known matters."""
    return f"; no known cause would save {brief_share(least)} of {whole}"


def of_operator(operator: str, evidence: str) -> str:
    """Name the operator that kernels of graph replays belong to, and how that is known."""
    return f" of {clipped(operator, 60)} ({evidence})"


def largest_item(name: str, what: str, time_ns: int, calls: int, ranks: Sequence[int], operator: str = "") -> str:
    """Name what takes most of the path, with the ranks of a job, and the operator of a graph's kernels."""
    where = on_rank(ranks[0]) if len(ranks) == 1 else f" on {len(ranks)} ranks" if ranks else ""
    spent = f"{duration_text(time_ns)} in {counted(calls, 'call')}{where}"
    return f"Largest item on the critical path: {clipped(name, 80)}{operator} ({what}), {spent}."


def unexplained(time_ns: int, share: float, longest: str) -> str:
    """Say how much has no cause, and what is known of its longest part."""
    return f"Unexplained: {duration_text(time_ns)} ({percent(share)}); {longest}."


def longest_unexplained(time_ns: int, inside: str | None, before: str | None, reason: str) -> str:
    """Place the longest unexplained part and say what is known of it, as the end of a sentence."""
    where = f", in {clipped(inside, 40)}" if inside else ""
    where += f", before {clipped(before, 40)}" if before else ", after the last work on the path"
    return f"the longest part ({duration_text(time_ns)}{where}) {REASON_CLAUSE[reason]}"


def before_rank_began(time_ns: int, rank: int | None) -> str:
    """Say that the longest unexplained part is from before a rank's recording."""
    return f"the longest part ({duration_text(time_ns)}) is before the recording of rank {rank} starts"


def missing_graph_nodes(time_ns: int, with_hole: int, replays: int) -> str:
    """Say how much of the unexplained is nodes of graphs."""
    return (
        f"{duration_text(time_ns)} of it is CUDA graph nodes that were not recorded, in {with_hole} of "
        f"{counted(replays, 'replay')}."
    )


# -- ranks -------------------------------------------------------------------------------------------------------------


def meanwhile(name: str | None, what: str) -> str:
    """Say what the late rank does while the others wait."""
    if name and what == SHORT["cpu_gap"]:
        return f"mostly in {outside_operators(name)}"
    return f"mostly in {quoted(name)} ({what})" if name else f"mostly in unrecorded work ({what})"


def path_on_rank(share: float, rank: int) -> str:
    """Say how much of the path is on the late rank; none where it delays only ranks that end early."""
    if not share:
        return f"Rank {rank} is not on the critical path; use --rank {rank} for its own."
    return f"{brief_share(share)} of the path is on rank {rank}."


def like_the_others(what: str, time: str, longer: str | None) -> str:
    """Say what the late rank would save at the others' speed, and in what it takes longer."""
    extra = f"; the extra time is in {longer}" if longer else ""
    return f"At the others' speed {what} would be {time} shorter{extra}."


def delay_next_to_saving(what: str, delay: str, *, more: bool | None) -> str:
    """Say by how much the late rank delays a step, and why more or less would be saved; ``more``: None if neither."""
    said = f"In {what} it delays the others by {delay}"
    if more is None:
        return f"{said}."
    if more:
        return f"{said}, the time that it works longer than they do; on a busy host they work longer, too."
    return f"{said}; without that, other work is the bottleneck."


def matched(collectives: int, messages: int, alone: int, alone_share: float) -> str:
    """Count the communication that ranks share, and what has no partner."""
    amounts = ((collectives, "collective"), (messages, "send/receive pair"))
    together = " and ".join(counted(count, one) for count, one in amounts if count)
    said = f"Matched between ranks: {together}" if together else "No communication has a partner on another rank"
    lone = f"{counted(alone, 'communication')} ({brief_share(alone_share)} of communication time) without a partner"
    return f"{said}; {lone}." if alone else f"{said}."


def group_not_recorded(collectives: int) -> str:
    """Say of how many collectives of the whole job the group is unknown."""
    return f"The process group of {counted(collectives, 'collective')} is not recorded; they are left out."


def clock_uncertain(rank: int, error_ns: int) -> str:
    """Say that a clock is too uncertain for waits of that length."""
    return (
        f"The clock of rank {rank} is uncertain by {brief_duration(error_ns)}; waits shorter than the error of two "
        "clocks are not attributed."
    )


# -- doubts ------------------------------------------------------------------------------------------------------------


def host_may_poll(time: str) -> str:
    """Doubt silences of the host that the GPU covers."""
    return (
        f"The path is on the host for {time} in which no operator or call is open and the GPU works the whole time. "
        "The host may be polling, or waiting without a record; in that case the time belongs to the GPU."
    )


def gpu_busy_meanwhile(share: float, idle: str) -> str:
    """Doubt a host that the GPU hardly waits for."""
    return (
        f"The path is on the host for {brief_share(share)} of the time, but the GPU is idle for only {idle}: the host "
        "is barely slower than the GPU, or a wait for the GPU is missing from the trace."
    )


# -- several ranks without a job's path --------------------------------------------------------------------------------


def ranks_alike(count: int, shortest_ns: int, longest_ns: int) -> str:
    """Say that the ranks take the same time."""
    return f"The {count} ranks take about the same time: {_range(shortest_ns, longest_ns)}."


def slowest_rank(rank: int, count: int, longest_ns: int, median_ns: int) -> str:
    """Name the slowest rank."""
    times = f"{brief_duration(longest_ns)}, the others {brief_duration(median_ns)} (median)"
    return f"Rank {rank} is the slowest of {count}: {times}."


def no_slowest_rank(count: int, shortest_ns: int, longest_ns: int) -> str:
    """Say that ranks differ, but none stands out."""
    return f"The {count} ranks take {_range(shortest_ns, longest_ns)}; none stands out as the slowest."


def _range(shortest_ns: int, longest_ns: int) -> str:
    return f"{brief_duration(shortest_ns)} to {brief_duration(longest_ns)}"


WHY_REPRESENTATIVE: Mapping[str, str] = {
    "holds_up_the_job": "which delays the job",
    "first_cause": "which has the largest single cause of waiting",
    "most_of_the_path": "which holds most of the job's path",
    "typical": "a typical rank: its waiting for other ranks is the median",
}
"""Why a rank is shown."""
