"""Pictures → files: the text for ``dot``, or what ``dot`` makes of it; and the one way to a picture from Python."""

from __future__ import annotations

import shutil
from pathlib import Path

from hta_graph.algorithms.time.critical_path import CriticalPath
from hta_graph.errors import MissingProgramError, UsageError
from hta_graph.export.files import write_file
from hta_graph.export.picture.dot import rendered
from hta_graph.export.picture.drawing import Picture
from hta_graph.export.picture.pictures import around_picture, between_picture, path_picture
from hta_graph.graph import DependencyGraph
from hta_graph.graph.dependency_graph import EventName
from hta_graph.places.named_places import named_place

__all__ = ["check_picture", "render", "write_picture"]

FORMATS = {".dot": "dot", ".gv": "dot", ".svg": "svg", ".png": "png"}
"""What a picture can be written as, by the file's suffix."""


def render(
    what: CriticalPath | DependencyGraph,
    target: str | Path | None = None,
    *,
    around: EventName | None = None,
    between: tuple[EventName, EventName] | None = None,
    depth: int = 2,
) -> Picture:
    """Draw a critical path; or of a graph an event's surroundings, or the way from one event to another.

    In a notebook the picture shows itself, where graphviz' ``dot`` is installed.

    Args:
        what: a critical path, or a graph.
        target: also write the picture there (``.svg``, ``.png``, ``.dot``).
        around: an event of a graph: its ``event_index``, of a job its rank and that.
        between: two events of a graph.
        depth: how many edges around the event.

    Raises:
        UsageError: a path with events, a graph without any, an unknown suffix.
        QueryError: an event is not there, or no way leads from one to the other.
        MissingProgramError: the format needs ``dot``, which is not installed.
        OutputError: the file cannot be written.
    """
    if target is not None:
        check_picture(target)
    picture = _picture_of(what, around, between, depth)
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
            raise UsageError("around and between are events of a graph; pass path.graph")
        return path_picture(what)
    if (around is None) == (between is None):
        raise UsageError("a graph is drawn around an event or between two; pass around=… or between=(…, …), or a path")
    if between is not None:
        return between_picture(what, *between)
    return around_picture(what, around or 0, depth)


def check_picture(target: str | Path) -> None:
    """Refuse a file that no picture can be written to, before any work is done.

    Raises:
        UsageError: the suffix is unknown.
        MissingProgramError: the format needs ``dot``, which is not installed.
    """
    if _format_of(target) != "dot" and shutil.which("dot") is None:
        raise MissingProgramError


def write_picture(picture: Picture, target: str | Path) -> None:
    """Write a picture in the format that the file's suffix names; ``-`` prints the text for ``dot``.

    Raises:
        UsageError: the suffix is unknown.
        MissingProgramError: the format needs ``dot``, which is not installed.
        OutputError: the file cannot be written, or ``dot`` failed.
    """
    check_picture(target)
    form = _format_of(target)
    write_file(target, picture.source.encode() if form == "dot" else rendered(picture.source, form, target))


def _format_of(target: str | Path) -> str:
    if str(target) == "-":
        return "dot"
    suffix = named_place(target).suffix.lower()
    if suffix not in FORMATS:
        raise UsageError(f"{target}: a picture's name ends in {', '.join(FORMATS)}")
    return FORMATS[suffix]
