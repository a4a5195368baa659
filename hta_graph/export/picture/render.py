"""Pictures → files: the text for ``dot``, or what ``dot`` makes of it; and the one way to a picture from Python.

The pictures: a critical path, an event's surroundings, the path from one event to another, lanes of time.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from hta_graph.base.errors import MissingProgramError, UsageError
from hta_graph.base.storage.atomic_write import write_file
from hta_graph.base.storage.location import resolve_location
from hta_graph.base.text.shorten import short_name
from hta_graph.export.picture.boxes import (
    Link,
    box_of_event,
    event_label,
    events_between,
    fold_boxes,
    path_boxes,
    path_links,
    surroundings,
)
from hta_graph.export.picture.dot import DotDrawing, Picture, chain_picture, run_dot
from hta_graph.export.picture.lanes_picture import lanes_picture
from hta_graph.export.picture.style import MAX_NAME_LENGTH, format_duration, short_label, trace_label
from hta_graph.graph.dependency_graph import DependencyGraph, EventName
from hta_graph.paths.critical_path import CriticalPath


def path_picture(path: CriticalPath, *, limit: int = 40) -> Picture:
    """Draw a critical path: segments in their lanes, small ones folded until at most ``limit`` boxes remain.

    Raises:
        UsageError: the limit is below 1.
    """
    _check_limit(limit)
    boxes = path_boxes(path, limit)
    what = f"Critical path of {short_label(path.window.label, 80)}: {format_duration(path.length_ns)}"
    title = (what, f"{trace_label(path.graph.trace)}; {path.coverage:.1%} of the time is explained")
    links = path_links(path, boxes)
    return chain_picture(path.graph, title, boxes, links, origin_ns=path.window.start_ns, total_ns=path.length_ns)


def between_picture(
    graph: DependencyGraph, source_index: EventName, target_index: EventName, *, limit: int = 40
) -> Picture:
    """Draw a path with the fewest edges from one event's start to another's end.

    Raises:
        QueryError: one of them is not there, or no path leads from one to the other.
        UsageError: the limit is below 1.
    """
    _check_limit(limit)
    rows, steps = events_between(graph, source_index, target_index)
    boxes = [box_of_event(graph, row, number) for number, row in enumerate(rows)]
    boxes = fold_boxes(boxes, limit)
    ends = [f"{event_label(event)} ({_event_name(graph, event)})" for event in (source_index, target_index)]
    title = (f"From {ends[0]} to {ends[1]}: {len(rows):,} events", trace_label(graph.trace))
    links = [Link(at, at + 1, *steps[box.first], bold=True) for at, box in enumerate(boxes[1:])]
    return chain_picture(graph, title, boxes, links, origin_ns=boxes[0].start_ns, total_ns=0)


def around_picture(graph: DependencyGraph, event_index: EventName, depth: int = 1, *, limit: int = 30) -> Picture:
    """Draw the events at most ``depth`` edges away from one; bold is its last dependency.

    The nodes of a graph launch have a frame of their own, in which forks and joins show.

    Raises:
        QueryError: there is no such event.
        UsageError: the depth is negative or the limit below 1.
    """
    _check_limit(limit)
    if depth < 0:
        raise UsageError(f"the depth is 0 or more, not {depth}")
    near = graph.neighbourhood(event_index, depth)
    focus = near.row_of(event_index)
    shown = surroundings(near, focus, depth, limit)
    hidden = shown.hidden
    left_out = f"left out: {hidden:,} events, further away than those in the {limit} boxes shown" if hidden else None
    what = f"{event_label(event_index)} ({_event_name(graph, event_index)})"
    title = (f"Around {what}, depth {depth}", trace_label(graph.trace))
    boxes, bold = shown.boxes, "bold: its last dependency"
    drawing = DotDrawing(near, title, left_out, bold=bold, origin_ns=boxes[0].start_ns, nodes=shown.nodes)
    return Picture(drawing.source([list(range(len(boxes)))], boxes, shown.links), left_out)


def _event_name(graph: DependencyGraph, event: EventName) -> str:
    return short_label(short_name(graph.name_of(graph.row_of(event))), MAX_NAME_LENGTH)


def _check_limit(limit: int) -> None:
    if limit < 1:
        raise UsageError(f"a picture needs at least 1 box, not {limit}")


FORMATS = {".dot": "dot", ".gv": "dot", ".svg": "svg", ".png": "png"}
"""The formats of pictures by the suffix of the file."""


def render(
    what: CriticalPath | DependencyGraph,
    target: str | Path | None = None,
    *,
    around: EventName | None = None,
    between: tuple[EventName, EventName] | None = None,
    depth: int = 2,
    lanes: bool = False,
) -> Picture:
    """Draw a critical path, the neighborhood of an event, or the path from one event to another.

    A notebook displays the picture, where graphviz' ``dot`` is installed; one of lanes needs no other program.

    Args:
        what: a critical path, or a graph.
        target: also write the picture there (``.svg``, ``.png``, ``.dot``).
        around: an event of a graph: its ``event_index``, of a job its rank and that.
        between: two events of a graph.
        depth: how many edges around the event.
        lanes: draw the threads and streams of a path's window, and the path through them (``.svg``).

    Raises:
        UsageError: a path with events, a graph without any, lanes of anything but a path, an unknown suffix.
        QueryError: an event is not there, or no path leads from one to the other.
        MissingProgramError: the format needs ``dot``, which is not installed.
        OutputError: the file cannot be written.
    """
    if target is not None:
        check_picture(target, lanes=lanes)
    picture = _lanes_of(what, around, between) if lanes else _picture_of(what, around, between, depth)
    if target is not None:
        write_picture(picture, target)
    return picture


def _picture_of(
    what: CriticalPath | DependencyGraph,
    around: EventName | None,
    between: tuple[EventName, EventName] | None,
    depth: int,
) -> Picture:
    if isinstance(what, CriticalPath):
        if around is not None or between is not None:
            raise UsageError("around and between need a graph; pass path.graph")
        return path_picture(what)
    if (around is None) == (between is None):
        raise UsageError("a graph is drawn around an event or between two; pass around=… or between=(…, …), or a path")
    if between is not None:
        return between_picture(what, *between)
    return around_picture(what, around or 0, depth)


def _lanes_of(
    what: CriticalPath | DependencyGraph, around: EventName | None, between: tuple[EventName, EventName] | None
) -> Picture:
    if not isinstance(what, CriticalPath):
        raise UsageError("lanes need a critical path; pass hg.critical_path(graph, …)")
    if around is not None or between is not None:
        raise UsageError("lanes show a whole window; omit around and between")
    return lanes_picture(what)


def check_picture(target: str | Path, *, lanes: bool = False) -> None:
    """Refuse a file that no picture can be written to, before any work is done.

    Raises:
        UsageError: the suffix is unknown, or lanes cannot be drawn in that format.
        MissingProgramError: the format needs ``dot``, which is not installed.
    """
    if lanes:
        if str(target) != "-" and _format_of(target) != "svg":
            raise UsageError(f"{target}: lanes are drawn as SVG; use a name that ends in .svg")
    elif _format_of(target) != "dot" and shutil.which("dot") is None:
        raise MissingProgramError


def write_picture(picture: Picture, target: str | Path) -> None:
    """Write a picture in the format that the file's suffix names; ``-`` prints its text, for ``dot`` or as SVG.

    Raises:
        UsageError: the suffix is unknown, or the picture is one of lanes and the suffix not ``.svg``.
        MissingProgramError: the format needs ``dot``, which is not installed.
        OutputError: the file cannot be written, or ``dot`` failed.
    """
    check_picture(target, lanes=picture.form == "svg")
    form = "dot" if picture.form == "svg" else _format_of(target)
    write_file(target, picture.source.encode() if form == "dot" else run_dot(picture.source, form, target))


def _format_of(target: str | Path) -> str:
    if str(target) == "-":
        return "dot"
    suffix = resolve_location(target).suffix.lower()
    if suffix not in FORMATS:
        raise UsageError(f"{target}: unknown picture format; use a name that ends in {', '.join(FORMATS)}")
    return FORMATS[suffix]
