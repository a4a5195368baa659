"""Columns of tables, each described once: its name, the type of its values, one sentence, its unit.

A table of an answer is declared as its columns. The JSON Schema, the docstring of the function that returns the table
and the manual have them from there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from textwrap import indent
from typing import Any, TypeVar

from hta_graph.model import BoundBy, GapCause

Function = TypeVar("Function", bound=Callable[..., Any])

MORE = "…"
"""The name of a column that stands for others, which depend on the trace."""
GAP_CAUSES = [cause.label for cause in GapCause]


@dataclass(frozen=True)
class Column:
    """What a column holds.

    ``type`` is the type in JSON, and ``null`` whether values can be missing. ``values`` are all that occur, if these
    are known, and ``items`` describes the elements of lists.
    """

    name: str
    meaning: str
    type: str
    unit: str = ""
    null: bool = False
    values: Sequence[str] = ()
    items: Column | None = None

    @property
    def description(self) -> str:
        """The meaning with its unit."""
        return f"{self.meaning} ({self.unit})" if self.unit else self.meaning


integer, number = partial(Column, type="integer"), partial(Column, type="number")
text, boolean, listed = partial(Column, type="string"), partial(Column, type="boolean"), partial(Column, type="array")
ns, byte_count = partial(integer, unit="ns"), partial(integer, unit="bytes")
share, rate = partial(number, unit="a fraction of one"), partial(number, unit="GB/s, 10^9 bytes per second")
bound_by = partial(text, values=[kind.label for kind in BoundBy])
GROUP_KIND = text("kind", "Purpose of the groups, such as tp; null if the traces do not describe it.", null=True)


class Table:
    """A table of an answer: its columns, each with a name, a meaning, a type and a unit. Iteration yields the names.

    Args:
        parts: a column, the name of a shared one, or a table for all of its columns.
    """

    def __init__(self, *parts: str | Column | Table) -> None:
        self.columns: tuple[Column, ...] = tuple(column for part in parts for column in _columns_of(part))

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the columns."""
        return (column.name for column in self.columns)

    def __repr__(self) -> str:
        """Return a line for each column."""
        return "\n".join(f"{column.name}: {column.description}" for column in self.columns)

    def returned(self, function: Function) -> Function:
        """Add the columns to the docstring of a function that returns the table."""
        if function.__doc__:  # none with python -OO
            function.__doc__ = f"{inspect.cleandoc(function.__doc__)}\n\nColumns:\n{indent(repr(self), ' ' * 4)}"
        return function


def _columns_of(part: str | Column | Table) -> Sequence[Column]:
    if isinstance(part, Table):
        return part.columns
    return (SHARED[part] if isinstance(part, str) else part,)


SHARED: Mapping[str, Column] = {column.name: column for column in (
    # -- where
    integer("rank", "Rank of the row."),
    text("scope", "Window of the row, as in scopes."),
    text("stream", "Stream, as stream DEVICE:CONTEXT:STREAM."),
    integer("event_index", "Index of the event in traceEvents."),
    # -- names
    text("name", "Name; null if there is none.", null=True),
    text("operator", "Operator; null if none is open.", null=True),
    text("kernel", "Name of the kernel."),
    text("kernel_sequence", "Names of the kernels in order of their start, joined with arrows."),
    text("call", "Runtime call; null if not in the file.", null=True),
    text("annotation", "Name of the annotation; null if there is none.", null=True),
    text(
        "call_path", "Enclosing operators and frames, outermost first, joined with slashes; null if unknown.", null=True
    ),
    bound_by("bound_by", "Class of the time."),
    # -- event indices
    integer("call_index", "Event index of the runtime call; null if not in the file.", null=True),
    # -- the GPU's time
    ns("window_ns", "Length of the window"),
    ns("exposed_communication_ns", "Time with communication but no computation running"),
    ns("exposed_memory_ns", "Time with only copies or memsets running"),
    ns("idle_ns", "Time with nothing running"),
    ns("time_ns", "Time"),
    # -- statistics
    integer("count", "Number of occurrences."),
    ns("sum_ns", "Total duration"),
    ns("min_ns", "Shortest duration"),
    ns("max_ns", "Longest duration"),
    ns("mean_ns", "Mean duration, rounded"),
    # -- overlap
    text("collective", "Recorded name of the collective; null if not recorded.", null=True),
    text("group", "Process group; null if not recorded.", null=True),
    text("dtype", "Type of the elements; null if not recorded.", null=True),
    ns("start_ns", "Start time, absolute"),
    ns("duration_ns", "Total duration"),
    # -- launches and queues
    integer("launches", "Number of launched activities."),
    integer("calls", "Number of calls."),
    ns("cpu_ns", "Total CPU time"),
    ns("gpu_ns", "Total GPU time"),
    # -- owners
    integer("activities", "Number of GPU activities."),
    ns("gpu_self_ns", "Self GPU time: the activities whose innermost owner it is"),
    # -- memory
    byte_count("first_bytes", "Total before the first event"),
    byte_count("last_bytes", "Total after the last event"),
    # -- ranks
    rate("bus_gbps", "Bus bandwidth as nccl-tests define it; null if not recorded", null=True),
    integer("times_last", "Number of collectives in which the rank came last."),
    ns("wait_caused_ns", "Waiting of other ranks for this one, which came last of those they needed"),
    integer("groups", "Number of groups."),
    text("worst_group", "Group whose ranks wait longest."),
    integer("worst_rank", "Rank that causes the most waiting; null if no rank waits.", null=True),
    text("host", "Host; null if not recorded.", null=True),
    # -- two runs
    ns("control_ns", "Median of the control"),
    ns("test_ns", "Median of the test"),
    ns("diff_ns", "Test minus control"),
    ns("noise_ns", "Largest difference that noise explains"),
    integer("control_calls", "Number of calls in the control."),
    integer("test_calls", "Number of calls in the test."),
)}  # fmt: skip
"""Columns that several tables have: what each means in every table that does not declare its own."""
