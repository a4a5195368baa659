"""The section on waiting: the ranks that cause it, hosts and groups, and a picture of when each rank waits.

rank 0     ▓▓▓▓░░        ▓▓▓▓
rank 1        ░░░░          ▓     one image: 100,000 shapes would be too many for a page
           0 ms              4
"""

from __future__ import annotations

import math
import struct
import zlib
from base64 import b64encode
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.display.dataframe_text import worst_and_typical
from analyses.display.phrases import MANY_RANKS
from analyses.display.sentence_format import brief_share
from analyses.report.page_labels import is_about_options, sentence
from analyses.report.page_tables import Bar, Section, SectionTable, class_bar
from hta_graph.base.colours import WAITING_COLOUR
from hta_graph.model import BoundBy

if TYPE_CHECKING:
    from analyses.declare.answer import Answer

WAITING_MEANING = (
    "Caused: each wait is attributed to the work that took the late rank longer since the previous collective, even if "
    "other ranks passed the delay on. Wait caused: all waiting in a collective counts for the rank that arrives last."
)
WAITING_BY_RANK = "Waiting caused by each rank, and its own waiting"


WIDTH, LEFT, RIGHT, TOP = 1000, 130, 985, 8
"""Of the picture and of the pixels in it, in units of the picture."""
HEIGHT = 400
"""The height of all rows together, if each has at least one unit."""
BELOW = 62
COLOUR = tuple(bytes.fromhex(WAITING_COLOUR[1:]))
LEVELS = 255
TICKS = 8
LEAST_SHARE = 1e-4
"""The smallest share that the full color can mean: a picture without waiting is empty."""


@dataclass(frozen=True)
class HeatmapTick:
    """A tick of an axis: its place and its label."""

    at: float
    text: str


@dataclass(frozen=True)
class HeatmapRow:
    """A rank, or a band of ranks: where its row begins, and its tooltip."""

    at: float
    text: str


@dataclass(frozen=True)
class WaitHeatmap:
    """A picture: its size, its pixels as the address of an image, its axes, the share that the full color means."""

    height: int
    bottom: int
    row_height: int
    image: str
    rows: Sequence[HeatmapRow]
    across: Sequence[HeatmapTick]
    down: Sequence[HeatmapTick]
    most: str
    width: int = WIDTH
    left: int = LEFT
    right: int = RIGHT
    top: int = TOP
    colour: str = "#{:02x}{:02x}{:02x}".format(*COLOUR)


def wait_heatmap(waiting: pd.DataFrame) -> WaitHeatmap:
    """Draw the shares of time that ranks wait: a row per rank or band, columns by their beginnings in ms."""
    shares = waiting.to_numpy(np.float64)
    full = min(max(float(shares.max()), LEAST_SHARE), 1.0)
    row_height = max(HEIGHT // len(shares), 1)
    bottom = TOP + row_height * len(shares)
    levels = np.ceil(shares.clip(max=full) / full * LEVELS).astype(np.uint8)
    return WaitHeatmap(
        bottom + BELOW,
        bottom,
        row_height,
        f"data:image/png;base64,{b64encode(_png_of_levels(levels)).decode()}",
        _rows(waiting, row_height),
        _ticks_across(waiting.columns.to_numpy(np.float64)),
        _ticks_down(list(map(str, waiting.index)), row_height),
        brief_share(full),
    )


def _rows(waiting: pd.DataFrame, row_height: int) -> list[HeatmapRow]:
    shares, begins = waiting.to_numpy(np.float64), waiting.columns.to_numpy(np.float64)
    columns = (waiting.index, shares.mean(axis=1).tolist(), begins[shares.argmax(axis=1)].tolist())
    return [
        HeatmapRow(
            TOP + row_height * at,
            _waits_of_rank(str(name), brief_share(mean), f"{begin:,.3f} ms" if mean else ""),
        )
        for at, (name, mean, begin) in enumerate(zip(*columns, strict=True))
    ]


def _waits_of_rank(name: str, mean: str, most_from: str) -> str:
    """Describe a row of the picture."""
    return f"{name}: waits {mean} of the time" + (f", most from {most_from}" if most_from else "")


def _ticks_across(begins: np.ndarray[Any, Any]) -> list[HeatmapTick]:
    """Return round numbers of ms; columns are equally long."""
    end = float(begins[-1] + (begins[1] - begins[0] if len(begins) > 1 else 1))
    return [HeatmapTick(round(LEFT + value / end * (RIGHT - LEFT), 1), f"{value:g}") for value in ticks_of(end, TICKS)]


def ticks_of(end: float, most: int) -> list[float]:
    """Return round numbers from 0 to an end, about as many as given.

    >>> ticks_of(9.4, 5)
    [0.0, 2.0, 4.0, 6.0, 8.0]
    """
    step = _round_step(end / most)
    return [step * at for at in range(int(end / step) + 1)]


def _round_step(least: float) -> float:
    """Return the first of 1, 2, 5, 10, 20 … that is not less.

    >>> _round_step(0.3), _round_step(7), _round_step(20)
    (0.5, 10.0, 20.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1.0, 2.0, 5.0, 10.0) if power * factor >= least)


def _ticks_down(names: Sequence[str], row_height: int) -> list[HeatmapTick]:
    middle = TOP + row_height / 2
    return [HeatmapTick(middle + row_height * at, names[at]) for at in range(0, len(names), -(-len(names) // TICKS))]


def _png_of_levels(levels: np.ndarray[Any, Any]) -> bytes:
    """Return an image of one color whose pixels are as opaque as their levels, so that it suits light and dark."""
    height, width = levels.shape
    # Each row begins with the number of its filter: none.
    rows = np.pad(levels, ((0, 0), (1, 0))).tobytes()
    return b"".join([
        b"\x89PNG\r\n\x1a\n",
        _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        _chunk(b"PLTE", bytes(COLOUR) * (LEVELS + 1)),
        _chunk(b"tRNS", bytes(range(LEVELS + 1))),
        _chunk(b"IDAT", zlib.compress(rows, 9)),
        _chunk(b"IEND", b""),
    ])  # fmt: skip


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


BY_RANK = ["rank", "scope"]


@dataclass(frozen=True)
class WaitSection(Section):
    """A section with a picture of when ranks wait, where there are many, and a note on its numbers."""

    figure: WaitHeatmap | None = None
    figure_title: str = ""
    closing: str = ""


def wait_section(waiting: Answer, together: Answer) -> Section:
    """Return the section on the waiting of all ranks.

    Args:
        waiting: the answer of ``stragglers``.
        together: the answer of ``collectives`` about the same windows.
    """
    caused, charged = waiting.tables["stragglers"], waiting.tables["causes"]
    tables = [
        _rank_table(caused, charged, together.tables["ranks"]),
        _largest_first("Hosts", waiting.tables["hosts"], "caused_ns"),
        _largest_first("Process groups by purpose", together.tables["group_kinds"], "waited_ns"),
        _largest_first("Process groups", together.tables["groups"], "waited_ns"),
    ]
    ranks = caused["rank"].nunique()
    drawn = waiting.drawn.get("waiting", pd.DataFrame())
    return WaitSection(
        "Waiting",
        WAITING_MEANING,
        tables,
        notes=[sentence(str(line)) for line in waiting.opening],
        template="waiting_part.html",
        figure=wait_heatmap(drawn) if len(drawn) else None,
        figure_title=_waiting_figure(ranks, -(-ranks // len(drawn))) if len(drawn) else "",
        closing=" ".join(sentence(line) for line in waiting.closing if not is_about_options(line)),
    )


def _waiting_figure(ranks: int, ranks_per_row: int) -> str:
    """Name the picture of waiting.

    >>> _waiting_figure(64, 1), _waiting_figure(1024, 2)
    ('When each of 64 ranks waits for others', 'When each of 1,024 ranks waits for others, 2 ranks per row')
    """
    rows = f", {ranks_per_row} ranks per row" if ranks_per_row > 1 else ""
    return f"When each of {ranks:,} ranks waits for others{rows}"


def _rank_table(caused: pd.DataFrame, charged: pd.DataFrame, own: pd.DataFrame) -> SectionTable:
    """List the ranks that cause most waiting, of many also typical values; bars are the classes of the causes."""
    by_class = charged.pivot_table("caused_ns", BY_RANK, "bound_by", aggfunc="sum", fill_value=0)
    frame = caused[[*BY_RANK, "times_last", "wait_caused_ns"]].merge(
        own[[*BY_RANK, "wait_ns", "transfer_ns"]], on=BY_RANK, how="left"
    )
    of_rows = by_class.reindex(pd.MultiIndex.from_frame(frame[BY_RANK]), fill_value=0)
    frame.insert(len(BY_RANK), "caused_ns", of_rows.sum(axis=1).to_numpy(np.int64))
    frame = frame.sort_values("caused_ns", ascending=False, kind="stable", ignore_index=True)
    title = WAITING_BY_RANK
    if len(frame) > MANY_RANKS:
        every = frame["rank"].nunique()
        frame, hidden = worst_and_typical(frame, "caused_ns")
        title = f"{WAITING_BY_RANK}: the top {every - hidden:,} of {every:,} ranks, median and 95th percentile"
    longest = int(frame["caused_ns"].max()) if len(frame) else 0
    times = {key: dict(zip(by_class, row, strict=True)) for key, *row in by_class.itertuples(name=None)}
    bars = [_class_bar(times.get(key, {}), longest) for key in zip(frame["rank"], frame["scope"], strict=True)]
    return SectionTable(title, frame, bars)


def _class_bar(times: Mapping[Hashable, int], longest: int) -> Bar:
    return class_bar({bound.label: int(times.get(bound.label, 0)) for bound in BoundBy}, longest)


def _largest_first(title: str, frame: pd.DataFrame, by: str) -> SectionTable:
    """Return a table in order of waiting."""
    return SectionTable(title, frame.sort_values(by, ascending=False, kind="stable"))
