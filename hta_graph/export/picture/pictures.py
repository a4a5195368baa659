"""The three pictures: a critical path, an event's surroundings, a way from one event to another."""

from __future__ import annotations

from hta_graph.errors import UsageError
from hta_graph.export.picture.boxes import box_of_event, fold_boxes, path_boxes
from hta_graph.export.picture.dot import DotDrawing, Picture, chain_picture
from hta_graph.export.picture.path_links import Link, path_links
from hta_graph.export.picture.short_names import MAX_NAME_LENGTH, format_duration, short_label, trace_label
from hta_graph.export.picture.web import event_label, events_between, surroundings
from hta_graph.graph.dependency_graph import DependencyGraph, EventName
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.text.shorten import short_name

__all__ = ["around_picture", "between_picture", "path_picture"]


def path_picture(path: CriticalPath, *, limit: int = 40) -> Picture:
    """Draw a critical path: stretches of time in their lanes, small ones folded until at most ``limit`` boxes remain.

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
    """Draw the events at most ``depth`` edges away from one; bold is what held it up.

    Raises:
        QueryError: there is no such event.
        UsageError: the depth is negative or the limit below 1.
    """
    _check_limit(limit)
    if depth < 0:
        raise UsageError(f"a depth of {depth} is negative")
    near = graph.neighbourhood(event_index, depth)
    focus = near.row_of(event_index)
    shown = surroundings(near, focus, depth, limit)
    hidden = shown.hidden
    left_out = f"left out: {hidden:,} events, further away than those in the {limit} boxes shown" if hidden else None
    what = f"{event_label(event_index)} ({_event_name(graph, event_index)})"
    title = (f"Around {what}, depth {depth}", trace_label(graph.trace))
    boxes, bold = shown.boxes, "bold: what held it up last"
    drawing = DotDrawing(near, title, left_out, bold=bold, origin_ns=boxes[0].start_ns)
    return Picture(drawing.source([list(range(len(boxes)))], boxes, shown.links), left_out)


def _event_name(graph: DependencyGraph, event: EventName) -> str:
    return short_label(short_name(graph.name_of(graph.row_of(event))), MAX_NAME_LENGTH)


def _check_limit(limit: int) -> None:
    if limit < 1:
        raise UsageError(f"a picture of at most {limit} boxes shows nothing")
