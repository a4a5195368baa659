"""Boxes and links → text for graphviz's ``dot``, and what that draws: lanes as clusters, rows of boxes, a legend."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import graphviz

from hta_graph.base.errors import MissingProgramError, OutputError
from hta_graph.export.picture.boxes import IDLE_PREFIX, OPERATOR_SIGN, Box, Link, NamedTime, operator_over
from hta_graph.export.picture.style import (
    ANCHOR,
    CLUSTER,
    CONNECTOR,
    EDGE,
    GRAPH,
    GRAPH_CLUSTER,
    NODE,
    fill_and_border,
    format_duration,
    link_colour,
    short_label,
)
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import CLASS_LABELS, EventKind


def run_dot(source: str, form: str, target: str | Path) -> bytes:
    """Render a text as ``svg`` or ``png``; ``target`` is what an error names.

    Raises:
        MissingProgramError: ``dot`` is not installed.
        OutputError: it failed.
    """
    try:
        picture: bytes = graphviz.pipe("dot", form, source.encode(), quiet=True)
    except graphviz.ExecutableNotFound:
        raise MissingProgramError from None
    except subprocess.CalledProcessError as error:
        output = bytes(error.stderr or b"").decode(errors="replace")
        raise OutputError(f"{target}: dot failed: {output or error.returncode}") from None
    return picture


BOXES_PER_ROW = 7
"""A longer chain continues in the next row, as text does."""

VISIBLE_LAG_NS = 1_000
"""Shorter lags are not printed."""


@dataclass(frozen=True, repr=False)
class Picture:
    """A picture as text for ``dot`` or as SVG (``form``), and a line about what was left out."""

    source: str
    left_out: str | None
    form: Literal["dot", "svg"] = "dot"

    def __repr__(self) -> str:
        return f"<Picture: {len(self.source):,} characters {'for dot' if self.form == 'dot' else 'of SVG'}>"

    def _repr_svg_(self) -> str | None:
        """Show itself in a notebook; nothing where ``dot`` is needed and not installed."""
        if self.form == "svg":
            return self.source
        try:
            return run_dot(self.source, "svg", "the picture").decode()
        except MissingProgramError:
            return None


def chain_picture(
    graph: DependencyGraph,
    title: tuple[str, str],
    boxes: list[Box],
    links: list[Link],
    *,
    origin_ns: int,
    total_ns: int,
) -> Picture:
    """Draw boxes one after the other, in rows."""
    unnamed = [part for box in boxes for part in box.unnamed()]
    ns, events = sum(part.ns for part in unnamed), sum(len(part.events) for part in unnamed)
    share = f" ({ns / total_ns:.1%} of the window)" if total_ns else ""
    left_out = (
        f"left out: the names of {events:,} short events in shared boxes, {format_duration(ns)}{share}"
        if events
        else None
    )
    count = math.ceil(len(boxes) / BOXES_PER_ROW)
    cuts = [len(boxes) * at // max(count, 1) for at in range(count + 1)]
    rows = [list(range(low, high)) for low, high in pairwise(cuts)]
    drawing = DotDrawing(graph, title, left_out, bold="bold: the path", origin_ns=origin_ns, total_ns=total_ns)
    return Picture(drawing.source(rows, boxes, links), left_out)


@dataclass(frozen=True)
class DotDrawing:
    """What all parts of one picture share."""

    graph: DependencyGraph
    title: tuple[str, str]
    left_out: str | None
    bold: str
    origin_ns: int
    total_ns: int = 0
    nodes: frozenset[int] = frozenset()
    """The numbers of the boxes that hold nodes of one graph launch: they have a frame of their own."""

    def source(self, rows: Sequence[Sequence[int]], boxes: Sequence[Box], links: Sequence[Link]) -> str:
        """Return the text for ``dot``: a cluster for each lane of each row, links, a heading with the legend."""
        picture = graphviz.Digraph("picture", graph_attr=GRAPH, node_attr=NODE, edge_attr=EDGE)
        picture.attr("graph", label=self._heading_text(boxes, links))
        if not boxes:
            picture.node("nothing", "no events in this window", shape="plaintext")
        ordered = sorted(boxes, key=lambda box: (self._lane_order(box.lane), box.start_ns))
        lanes = list(dict.fromkeys(box.lane for box in ordered))
        anchors = [
            name for at, row in enumerate(rows) for name in self._draw_row(picture, at, row, lanes, boxes, links)
        ]
        _in_one_column(picture, anchors)
        row_of = {box: at for at, row in enumerate(rows) for box in row}
        for link in links:
            self._draw_link(picture, link, (row_of[link.source], row_of[link.target]), boxes)
        text: str = picture.source
        return text

    def _lane_order(self, lane: int) -> tuple[int, int, int]:
        """Return the order of a lane: rank by rank, threads, communication, streams.

        Collectives, and what is on no lane, come first.
        """
        if lane < 0:
            return -1, 0, 0
        lanes = self.graph.lanes
        return int(self.graph.rank_index_of_lane[lane]), int(lanes.is_stream[lane]), int(lanes.is_communication[lane])

    def _draw_row(
        self, picture: Any, row: int, members: Sequence[int], lanes: Sequence[int], boxes: Sequence[Box],
        links: Sequence[Link],
    ) -> list[str]:  # fmt: skip
        """Draw the lanes of a row, each in order of time; return their anchors."""
        inside = {(link.source, link.target) for link in links}
        others = [at for at in members if at not in self.nodes]
        anchors = self._draw_lanes(picture, f"lane{row}", others, lanes, boxes, inside)
        if nodes := [at for at in members if at in self.nodes]:
            count = sum(boxes[at].count for at in nodes)
            with picture.subgraph(name=f"cluster_graph{row}") as cluster:
                cluster.attr(**GRAPH_CLUSTER, label=f"<<B>nodes of the graph ({count:,})</B>>")
                anchors += self._draw_lanes(cluster, f"graph{row}", nodes, lanes, boxes, inside)
        return anchors

    def _draw_lanes(
        self, picture: Any, prefix: str, members: Sequence[int], lanes: Sequence[int], boxes: Sequence[Box],
        inside: Collection[tuple[int, int]],
    ) -> list[str]:  # fmt: skip
        anchors = []
        for lane in lanes:
            own = [at for at in members if boxes[at].lane == lane]
            if not own:
                continue
            anchors.append(_lane_anchor(prefix, lane))
            with picture.subgraph(name=f"cluster_{anchors[-1]}") as cluster:
                cluster.attr(**CLUSTER, label=f"<<B>{escape(self._lane_label(lane))}</B>>")
                cluster.node(anchors[-1], **ANCHOR)
                for at in own:
                    cluster.node(f"b{at}", **self._box_attributes(boxes[at]))
            # Invisible edges keep a lane's boxes in order of time where no link does.
            for one, other in zip([-1, *own], own, strict=False):
                if (one, other) not in inside:
                    picture.edge(f"b{one}" if one >= 0 else anchors[-1], f"b{other}", style="invis", weight="0")
        return anchors

    def _draw_link(self, picture: Any, link: Link, rows: tuple[int, int], boxes: Sequence[Box]) -> None:
        """Draw a link; from one row to the next it ends at a numbered circle and continues at its twin."""
        style = self._link_style(link)
        if rows[0] == rows[1]:
            # A link back in time must not pull its boxes out of order.
            forward = link.source < link.target
            picture.edge(f"b{link.source}", f"b{link.target}", **style, constraint=str(forward).lower())
            return
        for row, at, name in ((rows[0], link.source, "out"), (rows[1], link.target, "in")):
            with picture.subgraph(name=f"cluster_{_lane_anchor(f'lane{row}', boxes[at].lane)}") as cluster:
                cluster.node(f"{name}{rows[1]}", label=str(rows[1]), **CONNECTOR)
        picture.edge(f"b{link.source}", f"out{rows[1]}", **style)
        picture.edge(f"in{rows[1]}", f"b{link.target}", **{**style, "label": ""})

    def _link_style(self, link: Link) -> dict[str, str]:
        colour = link_colour(link.kind)
        lines = [link.kind.label if link.kind is not None else ""]
        lines[0] += f" ×{link.count}" if link.count > 1 else ""
        lines += [link.note] if link.note else []
        lines += [f"+{format_duration(link.lag_ns)}"] if link.lag_ns >= VISIBLE_LAG_NS else []
        style = "dashed" if link.inferred else "bold" if link.bold else "solid"
        width = "3" if link.bold else "1"
        label = "\\n".join(lines)
        return {"color": colour, "fontcolor": colour, "label": label, "style": style, "penwidth": width}

    def _box_attributes(self, box: Box) -> dict[str, str]:
        """Return a box's attributes: name and time, or the time and the largest of many names."""
        fill, border = fill_and_border(box.fill)
        return {
            "label": f"<{'<BR/>'.join([*self._box_text(box), self._place_line(box)])}>",
            "fillcolor": fill,
            "color": border,
            "style": "rounded,filled,dashed" if box.fill in IDLE_PREFIX else "rounded,filled",
            "penwidth": "4" if box.focus else "1.2",
        }

    def _box_text(self, box: Box) -> list[str]:
        largest, more = box.largest(), box.unnamed()
        share = f" · {box.ns / self.total_ns:.1%}" if self.total_ns else ""
        time = f"{format_duration(box.ns)}{share}"
        rest = [f"{len(more):,} more, {format_duration(sum(part.ns for part in more))}"] if more else []
        if box.main is not None:
            name = escape(_with_count(box.main, len(largest[0][1].events))).replace(" [", "<BR/>[")
            # A collective as a point takes no time.
            times = [] if box.fill == EventKind.RENDEZVOUS.label else [time]
            return [f"<B>{name}</B>", *times, *(f"with {line}" for line in rest)]
        return [
            f"<B>{time}</B>",
            *(self._part_line(box, *item) for item in largest[: box.lines]),
            *(f"and {line}" for line in rest),
        ]

    def _place_line(self, box: Box) -> str:
        """Return the small line: when it begins, and the numbers of its events."""
        numbers = list(dict.fromkeys([*box.indices[:1], *box.indices[-1:]]))
        events = "…".join(f"#{number}" for number in numbers if number >= 0)
        text = f"at +{format_duration(max(box.start_ns - self.origin_ns, 0), 5)} {events}"
        return f'<FONT POINT-SIZE="8" COLOR="#606060">{text}</FONT>'

    def _part_line(self, box: Box, key: tuple[int, str], part: NamedTime) -> str:
        lane, text = key
        elsewhere = f" ({self._lane_label(lane)})" if lane != box.lane else ""
        return escape(f"{_with_count(text, len(part.events))}, {format_duration(part.ns)}{elsewhere}")

    def _lane_label(self, lane: int) -> str:
        if lane < 0:
            return "nothing recorded"
        place = int(self.graph.rank_index_of_lane[lane])
        of_rank = f"rank {self.graph.rank_graphs[place].rank}: " if self.graph.is_job and place >= 0 else ""
        return of_rank + short_label(self.graph.lanes.labels[lane], 60)

    def _heading_text(self, boxes: Sequence[Box], links: Sequence[Link]) -> str:
        """Return the title, the legend of what occurs, and what was left out."""
        rows = [f'<FONT POINT-SIZE="16"><B>{escape(self.title[0])}</B></FONT>', escape(self.title[1])]
        if self.left_out:
            rows.append(f'<FONT COLOR="#a03000"><I>{escape(self.left_out)}</I></FONT>')
        cells = "".join(f'<TR><TD ALIGN="LEFT">{row}</TD></TR>' for row in [*rows, *self._legend_lines(boxes, links)])
        return f'<<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="2">{cells}</TABLE>>'

    def _legend_lines(self, boxes: Sequence[Box], links: Sequence[Link]) -> list[str]:
        kinds = sorted({link.kind for link in links if link.kind is not None})
        lines = [f'<FONT COLOR="{link_colour(kind)}"><B>→ {kind.label}</B></FONT>' for kind in kinds]
        lines += ["dashed arrow: inferred"] if any(link.inferred for link in links) else []
        lines += [self.bold] if any(link.bold for link in links) else []
        # Hatched for waits, whose boxes are dashed.
        marks = {fill: "▨" if fill in IDLE_PREFIX else "■" for fill in sorted({box.fill for box in boxes})}
        fills = [
            f'<FONT COLOR="{fill_and_border(fill)[1]}">{mark}</FONT> {CLASS_LABELS.get(fill, fill)}'
            for fill, mark in marks.items()
        ]
        named = (("boxes", fills), ("arrows", lines), ("names", self._naming_lines(boxes)))
        return [f"legend, {what}: {' &nbsp; '.join(items)}" for what, items in named if items]

    def _naming_lines(self, boxes: Sequence[Box]) -> list[str]:
        """Say how the operators of replayed kernels are known, where there are any."""
        events = {event for box in boxes for part in box.parts.values() for event in part.events if event >= 0}
        known = {found[1] for event in events if (found := operator_over(self.graph, event))}
        return [f"operator{OPERATOR_SIGN}kernel of a graph replay: {evidence}" for evidence in sorted(known)]


def _lane_anchor(prefix: str, lane: int) -> str:
    return f"{prefix}_{lane}".replace("-", "_")


def _with_count(text: str, count: int) -> str:
    return f"{text} ×{count:,}" if count > 1 else text


def _in_one_column(picture: Any, anchors: Sequence[str]) -> None:
    """Stack the lanes in order: dot keeps the order of the links out of one node."""
    picture.node("left", **ANCHOR, ordering="out")
    for anchor in anchors:
        picture.edge("left", anchor, style="invis")
