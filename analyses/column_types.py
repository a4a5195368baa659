"""What a column of a table holds: its type, one sentence about it, its unit, and when it is null.

That is a JSON Schema, as the documents of answers need it. What a column means in several analyses stands here once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hta_graph.model import BoundBy, GapCause

Column = dict[str, Any]
"""A JSON Schema of the values in a column."""


def integer(meaning: str, *, null: bool = False) -> Column:
    """Describe an integer."""
    return _described("integer", meaning, null=null)


def ns(meaning: str, *, null: bool = False) -> Column:
    """Describe a time in integer nanoseconds."""
    return integer(f"{meaning} (ns)", null=null)


def byte_count(meaning: str, *, null: bool = False) -> Column:
    """Describe a number of bytes."""
    return integer(f"{meaning} (bytes)", null=null)


def share(meaning: str, *, null: bool = False) -> Column:
    """Describe a fraction of one."""
    return number(f"{meaning} (a fraction of one)", null=null)


def rate(meaning: str, *, null: bool = False) -> Column:
    """Describe a rate in 10^9 bytes per second."""
    return number(f"{meaning} (GB/s, 10^9 bytes per second)", null=null)


def number(meaning: str, *, null: bool = False) -> Column:
    """Describe a number that need not be an integer."""
    return _described("number", meaning, null=null)


def text(meaning: str, *, null: bool = False) -> Column:
    """Describe a text."""
    return _described("string", meaning, null=null)


def boolean(meaning: str) -> Column:
    """Describe what is true or false."""
    return _described("boolean", meaning)


def one_of(labels: Iterable[str], meaning: str, *, null: bool = False) -> Column:
    """Describe a word out of a list."""
    return {**text(meaning, null=null), "enum": [*labels, *([None] if null else [])]}


def bound_by(meaning: str, *, null: bool = False) -> Column:
    """Describe a class of time on a critical path."""
    return one_of([kind.label for kind in BoundBy], meaning, null=null)


def list_of(of: Column, meaning: str) -> Column:
    """Describe a list."""
    return {"type": "array", "description": meaning, "items": of}


def _described(kind: str, meaning: str, *, null: bool = False) -> Column:
    return {"type": [kind, "null"] if null else kind, "description": meaning}


GAP_CAUSES = [cause.label for cause in GapCause]
GROUP_KIND = text("What the groups are for, such as tp; null: the traces do not describe them.", null=True)
PATH_OF_CALLS = "The operators and frames around it, outermost first, joined with slashes"

SHARED: Mapping[str, Column] = {
    # -- where
    "rank": integer("The rank that the row is about."),
    "scope": text("The stretch of time that the row is about, as in scopes."),
    "stream": text("The stream: stream DEVICE:CONTEXT:STREAM."),
    "event_index": integer("The event, by its place in traceEvents."),
    # -- names
    "name": text("The name; null: nobody's.", null=True),
    "operator": text("The operator; null: none is open.", null=True),
    "kernel": text("The kernel's name."),
    "kernel_sequence": text("The names of the kernels in order of their start, joined with arrows."),
    "call": text("The runtime call; null: not in the file.", null=True),
    "annotation": text("The annotation's name; null: none.", null=True),
    "call_path": text(f"{PATH_OF_CALLS}; null: not known.", null=True),
    "bound_by": bound_by("The class of the time."),
    # -- event indices
    "call_index": integer("The event index of the runtime call; null: not in the file.", null=True),
    # -- the GPU's time
    "window_ns": ns("How long the stretch is"),
    "exposed_communication_ns": ns("How long communication runs and nothing computes"),
    "exposed_memory_ns": ns("How long copies and sets run and nothing else does"),
    "idle_ns": ns("How long nothing runs"),
    "time_ns": ns("The time"),
    # -- statistics
    "count": integer("How many there are."),
    "sum_ns": ns("Their lengths added up"),
    "min_ns": ns("The shortest"),
    "max_ns": ns("The longest"),
    "mean_ns": ns("Their mean, rounded"),
    # -- overlap
    "collective": text("The collective's recorded name; null: not recorded.", null=True),
    "group": text("The process group; null: not recorded.", null=True),
    "dtype": text("The type of the elements; null: not recorded.", null=True),
    "start_ns": ns("Where it begins, absolute"),
    "duration_ns": ns("How long it takes, added up"),
    # -- launches and queues
    "launches": integer("How many activities are launched."),
    "calls": integer("How many calls there are."),
    "cpu_ns": ns("Time on the CPU, added up"),
    "gpu_ns": ns("Time on the GPU, added up"),
    # -- owners
    "activities": integer("How many GPU activities there are."),
    "gpu_self_ns": ns("GPU time of which it is the innermost owner"),
    # -- memory
    "first_bytes": byte_count("The total before the first event"),
    "last_bytes": byte_count("The total after the last event"),
    # -- ranks
    "bus_gbps": rate("The same with nccl-tests' factor for the kind; null: not recorded", null=True),
    "times_last": integer("In how many collectives it came last."),
    "wait_caused_ns": ns("The waiting of others in collectives to which it came last"),
    "groups": integer("How many groups there are."),
    "worst_group": text("The group whose ranks wait longest."),
    "worst_rank": integer("The rank for which the others wait longest; null: nobody waits.", null=True),
    "host": text("The host; null: not recorded.", null=True),
    # -- two runs
    "control_ns": ns("The control's median"),
    "test_ns": ns("The test's median"),
    "diff_ns": ns("The test's minus the control's"),
    "noise_ns": ns("How much of that chance may do"),
    "control_calls": integer("How many calls the control has."),
    "test_calls": integer("How many calls the test has."),
}
"""Column → what it means in every table that does not declare a meaning of its own."""
