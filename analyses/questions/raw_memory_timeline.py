"""memory-timeline of the profiler's raw export: memory by tensor category over time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pandas as pd

from analyses.declare.answer import Answer
from analyses.declare.columns import Table, byte_count, ns, share, text
from analyses.display.charts import SERIES, downsample, empty_figure, new_figure
from hta_graph.base.arrays import last_of_runs
from hta_graph.base.errors import TraceError
from hta_graph.base.storage.location import Location, resolve_location
from hta_graph.model import Ints
from hta_graph.trace.decompress import read_bytes, text_head

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

CATEGORIES_TITLE = "Memory by tensor category"
EMPTY_TIMELINE = "the memory timeline is empty"


CATEGORIES = ("parameter", "optimizer_state", "input", "temporary", "activation", "gradient", "autograd", "unknown")
"""The categories of tensors, in the order of the export's numbers."""

MOST_BYTES = 1 << 50
BEFORE = -1
"""The time of what existed before recording started."""

PEAK_PER_BYTE = 16
"""The memory that the rows of a raw timeline take, per byte of its text."""
HEAD = 256
"""The number of bytes that identify a file."""

POINTS = 20_000
PEAKS = Table(
    *(text("category", "Category of the tensors."), "first_bytes"),
    byte_count("at_peak_bytes", "Memory of the category at the peak of all categories"),
    share("at_peak_share", "at_peak_bytes as a share of the peak", null=True),
    *(byte_count("own_peak_bytes", "Highest memory of the category"), "last_bytes"),
)
TIMES = Table(
    ns("time_ns", "Time of the change, absolute; -1 before recording started"),
    *(byte_count(f"{name}_bytes", f"Memory of category {name.replace('_', ' ')} from then on") for name in CATEGORIES),
    byte_count("all_bytes", "Memory of all categories from then on"),
)


@dataclass(frozen=True)
class RawTimeline:
    """Running totals per category: ``time`` (ns), and one row of ``totals`` (bytes, as :data:`CATEGORIES`) for each."""

    time: Ints
    totals: Ints

    @cached_property
    def peak(self) -> int:
        """Where all categories together are highest, the first time."""
        return int(np.argmax(self.totals.sum(axis=1)))


def is_raw_timeline(path: Location) -> bool:
    """Return whether a file starts like a raw memory timeline, a list of lists."""
    # A file may be gigabytes inside: the first bytes are enough.
    return b"".join(text_head(path, HEAD).split()).startswith(b"[[")


def read_raw_timeline(path: str | Location) -> RawTimeline:
    """Read what ``prof.export_memory_timeline("….raw.json.gz")`` wrote.

    The file lists [time in ns, action, change in bytes, category]; time -1 is what existed before, and counts as the
    earliest time.

    Raises:
        TraceError: the file cannot be read or is something else.
    """
    path = resolve_location(path)
    content = read_bytes(path, per_byte=PEAK_PER_BYTE)
    if content.broken:
        raise TraceError(path, content.broken, "export it again")
    try:
        rows = np.array(msgspec.json.decode(content.data, type=list[tuple[int, int, int, int]]), np.int64)
    except (msgspec.DecodeError, OverflowError):
        raise TraceError(path, "is not a raw memory timeline (a list of [time, action, bytes, category])") from None
    rows = rows.reshape(-1, 4)  # an empty list has no second axis
    if len(rows) and (rows[:, 3].min() < 0 or rows[:, 3].max() >= len(CATEGORIES)):
        raise TraceError(path, f"has a category outside 0 to {len(CATEGORIES) - 1}", "export it with torch.profiler")
    if len(rows) and max(int(rows[:, 2].max()), -int(rows[:, 2].min())) >= MOST_BYTES:
        raise TraceError(path, f"has a change of more than {MOST_BYTES:,} bytes", "export it again")
    return _running_totals(rows[:, 0], rows[:, 2], rows[:, 3])


def _running_totals(time: Ints, moved: Ints, category: Ints) -> RawTimeline:
    """Add up the changes of each category, one row of totals for each instant."""
    changes = np.zeros((len(time), len(CATEGORIES)), np.int64)
    changes[np.arange(len(time)), category] = moved
    last = np.flatnonzero(last_of_runs(time))
    at = time[last]
    # What existed before recording started has time -1, far from all others: it is drawn at the beginning.
    earliest = int(at[at >= 0].min(initial=np.iinfo(np.int64).max)) if (at >= 0).any() else 0
    return RawTimeline(np.where(at == BEFORE, earliest, at), np.cumsum(changes, axis=0)[last])


@PEAKS.returned
def peak_table(timeline: RawTimeline) -> pd.DataFrame:
    """List the memory of each category; the row ``all`` comes last."""
    if not len(timeline.time):
        return pd.DataFrame(columns=[*PEAKS])
    every = np.column_stack([timeline.totals, timeline.totals.sum(axis=1)])
    columns = {
        "category": [*CATEGORIES, "all"],
        "first_bytes": every[0],
        "at_peak_bytes": every[timeline.peak],
        "at_peak_share": every[timeline.peak] / max(int(every[timeline.peak, -1]), 1),
        "own_peak_bytes": every.max(axis=0),
        "last_bytes": every[-1],
    }
    return pd.DataFrame(columns, columns=[*PEAKS])


@TIMES.returned
def timeline_table(timeline: RawTimeline) -> pd.DataFrame:
    """List the running totals."""
    columns = [timeline.time, *timeline.totals.T, timeline.totals.sum(axis=1)]
    return pd.DataFrame(dict(zip(TIMES, columns, strict=True)))


def answer(timeline: RawTimeline) -> Answer:
    """Return the table ``memory_by_category`` and the series ``timeline``.

    Args:
        timeline: what :func:`read_raw_timeline` returns.
    """
    notes = [] if len(timeline.time) else [f"{EMPTY_TIMELINE}; record with profile_memory=True"]
    return Answer({"memory_by_category": peak_table(timeline)}, notes, {"timeline": timeline_table(timeline)})


def figure(found: Answer) -> Figure:
    """Draw the categories as stacked areas."""
    frame = found.series["timeline"]
    if not len(frame):
        return empty_figure(CATEGORIES_TITLE, EMPTY_TIMELINE)
    kept = downsample(frame["time_ns"].to_numpy(), frame["all_bytes"].to_numpy(), POINTS // len(CATEGORIES))
    shown = frame.iloc[kept]
    made = new_figure(title=CATEGORIES_TITLE, x="ms since the first event", y="GiB")
    x = (shown["time_ns"] - frame["time_ns"].min()) / 1e6
    for name, colour in zip(CATEGORIES, SERIES, strict=False):
        style = {"shape": "hv", "width": 0.5, "color": colour}
        sizes = shown[f"{name}_bytes"] / 2**30
        made.add_scatter(name=name.replace("_", " "), x=x, y=sizes, mode="lines", line=style, stackgroup="all")
    made.update_layout(hovermode="x unified")
    return made


TABLES = {"memory_by_category": PEAKS, "timeline": TIMES}
