"""render and timeline: pictures of paths, lanes and events, and a page of lanes."""

from __future__ import annotations

import argparse
import re

from analyses.cli.command import Command
from analyses.cli.commands.critical_path import path_of_window, print_default_window
from analyses.cli.options import OUTPUT, add_flight, add_inputs, add_jobs, add_window_and_loading, heading
from analyses.cli.path_args import OutputFile
from analyses.cli.rank_inputs import RankInputs
from analyses.declare.arg_types import expected, whole_number
from analyses.display.stderr import say
from hta_graph.base.progress import begin_stage


def _add_picture(parser: argparse.ArgumentParser) -> None:
    """Add what to draw, and the file for it."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--path", action="store_true", help="draw the critical path of the window")
    what.add_argument(
        "--lanes", action="store_true", help="draw threads and streams of the window with the path (.svg)"
    )
    what.add_argument(
        "--around",
        type=_event_name,
        metavar="[RANK:]EVENT_INDEX",
        help="draw an event and its dependencies",
    )
    what.add_argument(
        "--between", type=_event_name, nargs=2, metavar=("A", "B"), help="draw the path from one event to another"
    )
    parser.add_argument(
        "--depth",
        type=whole_number(0, 999_999),
        default=2,
        metavar="N",
        help="number of edges around the event (default: 2)",
    )
    heading(parser, OUTPUT).add_argument(
        "-o", "--output", type=OutputFile, required=True, metavar="FILE", help=".svg, .png or .dot file to write"
    )


def _event_name(text: str) -> int | tuple[int, int]:
    """Read the number of an event, or its rank and number.

    >>> _event_name("512"), _event_name("1:512")
    (512, (1, 512))
    """
    match = re.fullmatch(r"(?:(\d{1,9}):)?(-?\d{1,18})", text)
    if not match:
        raise expected("EVENT_INDEX or RANK:EVENT_INDEX", text)
    return int(match[2]) if match[1] is None else (int(match[1]), int(match[2]))


def _run_render(options: argparse.Namespace) -> None:
    """Draw a path, the lanes of a window, an event's neighborhood, or the path between two events."""
    from hta_graph.export import picture as drawn

    drawn.check_picture(options.output, lanes=options.lanes)
    if options.path or options.lanes:
        path = path_of_window(options)
        print_default_window(path, options)
        begin_stage("drawing the picture")
        picture = drawn.lanes_picture(path) if options.lanes else drawn.path_picture(path)
    elif options.around is not None:
        picture = drawn.around_picture(RankInputs.of(options).job_or_graph(), options.around, options.depth)
    else:
        picture = drawn.between_picture(RankInputs.of(options).job_or_graph(), *options.between)
    drawn.write_picture(picture, options.output)
    if picture.left_out:
        say(f"{options.output}: {picture.left_out}")


RENDER = Command(
    name="render",
    help="Draw a critical path, lanes, or an event's neighborhood",
    more="SVG and PNG need Graphviz (dot); a .dot file is the source. EVENT_INDEX is a position in traceEvents.",
    examples=("render trace.json.gz --path -o path.dot", "render trace.json.gz --around 100 --depth 2 -o around.dot"),
    page="how_to/explain_a_delay.md",
    options=(add_inputs, add_jobs, add_flight, add_window_and_loading, _add_picture),
    run=_run_render,
)


def _add_page(parser: argparse.ArgumentParser) -> None:
    """Add the file for the page."""
    heading(parser, OUTPUT).add_argument(
        "-o", "--output", type=OutputFile, required=True, metavar="FILE", help=".html file to write"
    )


def _run_timeline(options: argparse.Namespace) -> None:
    """Write a page of lanes with the critical path."""
    from analyses.cli.outputs import check_page_name
    from analyses.report.timeline import steps_on_page, timeline_page
    from hta_graph.base.storage.atomic_write import write_file
    from hta_graph.paths.step_table import step_rows

    check_page_name(options.output)
    path = path_of_window(options)
    print_default_window(path, options)
    begin_stage("drawing the timeline")
    # The page of a step links the steps around it.
    steps = step_rows(path.graph, options.data_load, steps_on_page(path))
    write_file(options.output, timeline_page(path, steps).html())


TIMELINE = Command(
    name="timeline",
    help="Write a page of lanes with the critical path",
    more="It shows CPU threads and streams, and the waits along the path.",
    examples=("timeline trace.json.gz -o timeline.html",),
    page="pages.md",
    options=(add_inputs, add_jobs, add_flight, add_window_and_loading, _add_page),
    run=_run_timeline,
)
