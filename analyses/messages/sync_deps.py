"""What ``sync-deps`` says: which calls and streams wait for GPU work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analyses.display.sentence_format import brief_duration, counted, quoted

LONGEST_WAITS = "longest waits"
NO_DEPENDENCY = "not counted as dependencies, in the whole trace"
NONE = "no synchronization dependencies: no call and no stream is known to wait for GPU work"
KIND_COLUMNS: Sequence[str] = ("recorded", "inferred", "binding", "kind", "meaning")
WAIT_COLUMNS: Sequence[str] = ("waited", "rank", "event", "call", "next", "waited for")
NO_OPERATOR = "(none)"

WITHOUT_DEPENDENCY: Mapping[str, str] = {
    "stream_syncs_unresolved": "stream synchronizations whose stream is not recorded",
    "event_syncs_unresolved": "event synchronizations whose work is not recorded",
    "event_waits_unresolved": "stream waits for an event whose work is not recorded",
    "event_waits_for_nothing": "stream waits for a stream without recorded work",
    "event_queries": "event queries, which do not wait",
    "sync_records_without_call": "synchronization records without a CPU call in the file",
    "sync_records_contradicted": "synchronization records whose work ended after their call; waits inferred instead",
}
"""Diagnostics key → what looks like a wait and is no dependency."""


KINDS = (
    "recorded: the trace records what is waited for; inferred: deduced from calls and times; binding: the work that "
    "ended the wait"
)


def headline(calls: int, streams: int, waited_ns: int, longest_ns: int, longest: str) -> str:
    """Say how long what waits."""
    named = ((calls, "CPU call"), (streams, "stream"))
    who = " and ".join(counted(count, one) for count, one in named if count)
    time = f"{brief_duration(waited_ns)} in all; longest {brief_duration(longest_ns)}: {quoted(longest)}"
    return f"{who} waited for the GPU, {time}"


def dependencies(on_gpu: int, calls: int, between_streams: int) -> str:
    """Count the dependencies."""
    return (
        f"{counted(on_gpu, 'dependency', 'dependencies')} of {counted(calls, 'CPU call')} on GPU work, "
        f"{between_streams:,} between streams"
    )


def left_out(size: int, reason: str) -> str:
    """Count the dependencies that a map of external ids cannot hold."""
    return f"{counted(size, 'dependency', 'dependencies')} {reason} left out"


WITHOUT_IDS, ON_ITSELF = "without an external id on both ends", "of an operator on itself"
