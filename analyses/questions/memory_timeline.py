"""memory-timeline: peak tensor memory and what was alive at the peak, from allocator events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.declare.analysis import Analysis
from analyses.declare.answer import Answer
from analyses.declare.columns import Table, byte_count, integer, ns, share, text
from analyses.declare.description import OWNER_KINDS, Flag
from analyses.declare.scope import Scope
from analyses.declare.tables import Rows, joined, labelled
from analyses.display.charts import step_lines
from analyses.display.headline import outlier
from analyses.display.sentence_format import quoted
from analyses.display.text_layout import clipped
from hta_graph.attribution.owners import OWNERS_BY_KIND, owners
from hta_graph.base.arrays import freeze, last_of_runs, summed_by, take_or
from hta_graph.base.errors import UsageError
from hta_graph.graph.conversion import texts_of_codes
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import EventKind, Ids, Ints
from hta_graph.trace.event_args import EventArgs, Objects, read_event_args

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["TABLES", "Allocations", "alive_at_peak", "allocations", "answer", "figure", "memory_events", "peaks"]

UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))

KEYS = ("Bytes", "Addr", "Device Type", "Device Id", "Total Allocated", "Total Reserved", "Ev Idx")
DEVICES = {0: "CPU", 1: "GPU", 6: "GPU", 12: "XPU", 13: "MPS", 15: "HPU", 19: "MTIA"}
"""PyTorch's numbers of device types, of those that allocate."""

MOST_BYTES = 1 << 50
"""A petabyte, beyond the memory of any device."""

EARLIER = "(allocated earlier)"
UNKNOWN = "(unknown)"
DEVICE = Table("rank", "scope", text("device", "Device."))
PEAKS = Table(
    DEVICE,
    integer("allocations", "Number of allocations."),
    integer("frees", "Number of frees."),
    *("first_bytes", byte_count("peak_bytes", "Highest total allocated"), "last_bytes"),
    byte_count("peak_reserved_bytes", "Highest total reserved by the allocator; null if not recorded", null=True),
    integer(
        "peak_event_index",
        "Event index of the allocation that reached the peak; null if the initial total was the peak.",
        null=True,
    ),
    text("peak_by", "Owner of that allocation; null if the initial total was the peak.", null=True),
)
ALIVE = Table(
    *(DEVICE, "name"),
    integer("allocations", "Number of allocations; null for memory allocated before recording started.", null=True),
    byte_count("alive_bytes", "Memory alive at the peak"),
    share("alive_share", "alive_bytes as a share of the peak", null=True),
)
EVENTS = Table(
    *(DEVICE, "event_index", ns("time_ns", "Time of the event, absolute")),
    byte_count("bytes", "Size of the allocation; negative for a free"),
    byte_count("allocated_bytes", "Total allocated after the event; -1 if not recorded"),
    byte_count("reserved_bytes", "Total reserved after the event; -1 if not recorded"),
    "name",
)


@dataclass(frozen=True)
class Allocations:
    """The allocator's events of one device in one window, in order of time.

    ``row`` is canonical, ``moved`` what was allocated (positive) or freed (negative), ``allocated`` and ``reserved``
    the device's totals after each event (bytes, -1 where not recorded), ``address`` the address of the block;
    ``owner`` is the event that the memory is attributed to (-1: unknown).
    """

    scope: Scope
    device: str
    row: Ids
    moved: Ints
    allocated: Ints
    reserved: Ints
    address: Ints
    owner: Ids

    @property
    def first(self) -> int:
        """The total before the first event (bytes)."""
        return int(self.allocated[0] - self.moved[0])

    @property
    def peak(self) -> tuple[int, int]:
        """The highest total (bytes), and the place of the event that reached it: -1 if it was the initial total."""
        at = int(np.argmax(self.allocated))  # of equal totals the first
        return (int(self.allocated[at]), at) if self.allocated[at] >= self.first else (self.first, -1)

    @property
    def names(self) -> Objects:
        """The owners' names."""
        graph = self.scope.graph
        return texts_of_codes(graph.names, take_or(graph.event_table.name, self.owner), UNKNOWN)


def allocations(scopes: Sequence[Scope], by: str = "operator") -> list[Allocations]:
    """Return the ``[memory]`` events of each scope, one entry for each of its devices, CPU first.

    Args:
        scopes: where to look.
        by: the kind of owner to attribute memory to: ``operator``, ``frame``, ``module`` or ``annotation``.

    Raises:
        UsageError: another owner.
        TraceError: the file, which is read once more where there are such events, is gone or has changed.
    """
    if by not in OWNERS_BY_KIND:
        raise UsageError(f"by={by!r}: unknown kind of owner; choose one of {', '.join(OWNERS_BY_KIND)}")
    graphs = dict.fromkeys(scope.graph for scope in scopes)
    recorded = {graph: MemoryEvents.of(graph, by) for graph in graphs}
    return [item for scope in scopes for item in recorded[scope.graph].of_scope(scope)]


@dataclass(frozen=True)
class MemoryEvents:
    """All memory events of a trace in order, as columns."""

    device: list[str]
    columns: dict[str, Any]

    @classmethod
    def of(cls, graph: DependencyGraph, by: str) -> MemoryEvents:
        """Read the events of a graph's trace, and the owner of each."""
        events = graph.event_table
        rows = np.flatnonzero(events.kind == EventKind.MEMORY).astype(np.int32)
        if not len(rows):
            return cls([], {"row": rows})
        details = read_event_args(graph.trace, KEYS, rows, has_header=False)
        numbers = {
            key: np.array([_plausible_size(value, key, absent) for value in details[key].tolist()], np.int64)
            for key in KEYS
            for absent in [0 if key == "Bytes" else -1]
        }
        # Frees and allocations share instants: the allocator's own counter says which came first, else the file.
        order = np.lexsort((events.index[rows], numbers["Ev Idx"], events.start[rows]))
        return cls(
            [_device_name(details, at) for at in order.tolist()],
            {
                "row": rows[order],
                "moved": numbers["Bytes"][order],
                "allocated": numbers["Total Allocated"][order],
                "reserved": numbers["Total Reserved"][order],
                "address": numbers["Addr"][order],
                "owner": owners(graph, by).innermost(rows[order]),
            },
        )

    def of_scope(self, scope: Scope) -> list[Allocations]:
        """Return those that belong to a window, device by device."""
        inside = scope.holds(self.columns["row"])
        device = np.array(self.device, dtype=object)
        names = sorted(set(device[inside].tolist()))
        return [self._on_device(scope, name, np.flatnonzero(inside & (device == name))) for name in names]

    def _on_device(self, scope: Scope, name: str, at: Ints) -> Allocations:
        columns = {key: freeze(column[at]) for key, column in self.columns.items()}
        # Old profilers write changes but no totals: then these count from the first event.
        if (columns["allocated"] < 0).any():
            columns["allocated"] = freeze(np.cumsum(columns["moved"]))
        return Allocations(scope, name, **columns)


def _plausible_size(value: object, key: str, absent: int) -> int:
    """Return a number that the allocator can have meant; addresses have all 64 bits."""
    if not isinstance(value, int) or abs(value) >= (1 << 64 if key == "Addr" else MOST_BYTES):
        return absent
    return value if value < 1 << 63 else value - (1 << 64)


def _device_name(details: EventArgs, at: int) -> str:
    """Name the device of a memory event."""
    kind, number = details["Device Type"][at], details["Device Id"][at]
    name = "unknown device" if kind is None else f"device type {clipped(str(kind), 20)}"
    name = DEVICES.get(kind, name) if isinstance(kind, int) else name
    return f"{name} {number}" if isinstance(number, int) and number >= 0 else name


@PEAKS.returned
def peaks(found: Sequence[Allocations]) -> pd.DataFrame:
    """Sum up each device's memory."""
    frame = _table_of_devices(found, _peak_row, PEAKS)
    return frame.astype({"peak_event_index": "Int64", "peak_reserved_bytes": "Int64"})


def _table_of_devices(
    found: Sequence[Allocations], rows: Callable[[Allocations], Rows], columns: Table
) -> pd.DataFrame:
    """Join the rows of each device into one table."""
    return joined([labelled(rows(item), item.scope).assign(device=item.device) for item in found], columns)


def _peak_row(item: Allocations) -> dict[str, Any]:
    """Return the row of one device."""
    peak, at = item.peak
    reserved = int(item.reserved.max()) if (item.reserved >= 0).any() else None
    index = int(item.scope.graph.event_table.index[item.row[at]]) if at >= 0 else None
    return {
        "allocations": [int(np.count_nonzero(item.moved > 0))],
        "frees": [int(np.count_nonzero(item.moved <= 0))],
        "first_bytes": [item.first],
        "peak_bytes": [peak],
        "last_bytes": [int(item.allocated[-1])],
        "peak_reserved_bytes": pd.array([reserved], "Int64"),
        "peak_event_index": pd.array([index], "Int64"),
        "peak_by": [item.names[at] if at >= 0 else None],
    }


@ALIVE.returned
def alive_at_peak(found: Sequence[Allocations]) -> pd.DataFrame:
    """List the owners of the memory that was alive at each device's peak, most bytes first.

    An allocation is alive if its address was not freed up to then. The rows of a device sum to its peak: memory
    allocated before the first event is ``(allocated earlier)``.
    """
    return _table_of_devices(found, _owners_at_peak, ALIVE)


def _owners_at_peak(item: Allocations) -> pd.DataFrame:
    """List the owners of one device's memory, most first."""
    peak, last = item.peak
    at = _unfreed_at_end(item.address[: last + 1], item.moved[: last + 1])
    names, place = np.unique(item.names[at].astype(str), return_inverse=True)
    size = summed_by(place, item.moved[at], len(names))
    # What is not accounted for was there before the recording: so the rows add up to the peak.
    earlier = int(peak - size.sum())
    columns = {
        "name": [*names.tolist(), EARLIER],
        "allocations": pd.array([*np.bincount(place, minlength=len(names)).tolist(), None], "Int64"),
        "alive_bytes": [*size.tolist(), earlier],
    }
    frame = pd.DataFrame(columns)
    frame["alive_share"] = frame["alive_bytes"] / max(peak, 1)
    frame = frame[(frame["name"] != EARLIER) | (frame["alive_bytes"] != 0)]
    return frame.sort_values(["alive_bytes", "name"], ascending=[False, True])


def _unfreed_at_end(address: Ints, moved: Ints) -> Ints:
    """Return the places of the allocations whose address has no later event."""
    # Sorted by address, in order of time within one: the last event of each tells whether it is still in use.
    order = np.argsort(address, kind="stable")
    last = order[last_of_runs(address[order])]
    return np.sort(last[moved[last] > 0])


@EVENTS.returned
def memory_events(found: Sequence[Allocations]) -> pd.DataFrame:
    """List every event of the allocator, each with the name of its owner."""
    return _table_of_devices(found, _event_rows, EVENTS)


def _event_rows(item: Allocations) -> dict[str, Any]:
    """Return the columns of one device's events."""
    events = item.scope.graph.event_table
    return {
        "event_index": events.index[item.row],
        "time_ns": events.start[item.row],
        "bytes": item.moved,
        "allocated_bytes": item.allocated,
        "reserved_bytes": item.reserved,
        "name": item.names,
    }


def answer(scopes: Sequence[Scope], by: str = "operator") -> Answer:
    """Return the tensor memory of each device.

    Args:
        scopes: where to look.
        by: the kind of owner to attribute memory to: ``operator``, ``frame``, ``module`` or ``annotation``.

    Returns:
        The tables ``memory`` (one row per device) and ``alive_at_the_peak``, and the series ``events``.

    Raises:
        UsageError: another owner.
        TraceError: the file, which is read once more where there are such events, is gone or has changed.
    """
    found = allocations(scopes, by)
    tables = {"memory": peaks(found), "alive_at_the_peak": alive_at_peak(found)}
    notes = [note for scope in scopes if (note := _missing_note(scope, found))]
    return Answer(tables, notes, {"events": memory_events(found)}, conclusion=_conclusion(tables["memory"]))


def _conclusion(frame: pd.DataFrame) -> list[str]:
    """Return the headline: the highest peak of a GPU (of the CPU without one), and what reached it."""
    on_gpus = frame[frame["device"] != DEVICES[0]]
    peak = outlier(_highest(on_gpus if len(on_gpus) else frame), "peak_bytes", _size)
    if peak is None:
        return []
    by = f", reached in {quoted(str(peak['peak_by']))}" if isinstance(peak["peak_by"], str) else ""
    return [f"peak tensor memory on {peak['device']}{peak.where}: {_size(peak['peak_bytes'])}{peak.typical}{by}"]


def _size(count: int) -> str:
    """Print a number of bytes with three digits or more.

    >>> _size(2_707_847_680), _size(12 * 2**20), _size(920)
    ('2.52 GiB', '12.0 MiB', '920 bytes')
    """
    for unit, name in UNITS:
        if count >= unit:
            return f"{count / unit:,.{1 if count >= 10 * unit else 2}f} {name}"
    return f"{count:,} bytes"


def _highest(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the device with the highest peak of each rank and scope."""
    ordered = frame.sort_values("peak_bytes", ascending=False, kind="stable")
    return ordered.drop_duplicates(["rank", "scope"]).sort_index()


def _missing_note(scope: Scope, found: Sequence[Allocations]) -> str:
    """Return a note on what was not recorded, and how to record it."""
    if not (scope.graph.event_table.kind == EventKind.MEMORY).any():
        return (
            f"rank {scope.rank}: the trace has no [memory] events; record with profile_memory=True, or pass the raw "
            "memory timeline that export_memory_timeline wrote"
        )
    own = [item for item in found if item.scope is scope]
    if not own:
        return f"rank {scope.rank}: no allocations in {scope.name}; choose another window"
    if any((item.reserved < 0).all() for item in own):
        return (
            f"rank {scope.rank}: the trace has no memory totals (old profiler); totals start at 0 with its first event"
        )
    return ""


def figure(found: Answer) -> Figure:
    """Draw the memory of each device over time."""
    events = found.series["events"]
    lines = {}
    if len(events):
        origin = int(events["time_ns"].min())
        several = len(events[["rank", "scope"]].drop_duplicates()) > 1
        for (rank, scope, device), part in events.groupby(["rank", "scope", "device"], sort=False):
            label = f"{device}, rank {rank}, {scope}" if several else str(device)
            at = ((part["time_ns"] - origin) / 1e6).to_numpy()
            lines[f"{label}: allocated"] = at, (part["allocated_bytes"] / 2**20).to_numpy()
            if (part["reserved_bytes"] > 0).any():
                lines[f"{label}: reserved"] = at, (part["reserved_bytes"] / 2**20).to_numpy()
    return step_lines(lines, title="Memory over time", x="ms since the first event", y="MiB")


TABLES = {"memory": PEAKS, "alive_at_the_peak": ALIVE, "events": EVENTS}

ANALYSIS = Analysis(
    name="memory-timeline",
    help="Peak tensor memory and what was alive at the peak, from traces or a raw memory timeline.",
    more="Requires a trace recorded with profile_memory=True.",
    question="how much memory is in use, and what is alive at the peak?",
    examples=("memory-timeline trace.json.gz",),
    flags=(
        Flag(
            "by",
            "text",
            f"attribute memory to: {', '.join(OWNER_KINDS)}",
            "operator",
            choices=OWNER_KINDS,
            value="KIND",
        ),
    ),
    tables=TABLES,
    answer=answer,
    figure=figure,
)
