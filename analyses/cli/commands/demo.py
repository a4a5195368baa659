"""demo: the main job on the bundled sample, and the bundled traces, with which anybody can follow the manual."""

from __future__ import annotations

import argparse
import shutil
from importlib.resources import as_file, files
from pathlib import Path
from shutil import which

from analyses.cli.command import Command
from analyses.cli.commands.critical_path import write_path_overlay
from analyses.cli.path_args import OutputFolder
from analyses.cli.rank_inputs import RankInputs, print_lines

TRACES = {
    "trace.json.gz": ("sample_trace.json.gz", "three training steps of one rank"),
    "slower.json.gz": ("slower_trace.json.gz", "the same script after three changes"),
    "two_gpus.json.gz": ("two_gpus.json.gz", "one process whose model is split over two GPUs"),
    "job": ("four_ranks", "four ranks that train together"),
}
"""What the bundled traces are called where a person follows the manual → the file or folder here, and what it is."""


def _add_traces(parser: argparse.ArgumentParser) -> None:
    """Add that the bundled traces are wanted instead of the job on one of them."""
    parser.add_argument(
        "--traces", type=OutputFolder, metavar="DIR", help="only write the bundled traces there, to follow the manual"
    )


def _run_demo(options: argparse.Namespace) -> None:
    """Do the main job on the bundled sample: print the table, write overlay, picture and timeline here."""
    from hta_graph.storage.output_paths import check_outputs

    if options.traces:
        _write_traces(options.traces)
        return
    targets = "demo_overlay.json", "demo_path.svg" if which("dot") else "demo_path.dot", "demo_timeline.html"
    with as_file(files("analyses") / "sample" / "sample_trace.json.gz") as sample:
        check_outputs(targets, [sample])
        _write_demo(RankInputs([str(sample)], left_out=options.left_out), *targets)


def _write_traces(target: str) -> None:
    """Copy the bundled traces into a new folder, and say what each is."""
    from hta_graph.storage.atomic_write import new_folder
    from hta_graph.storage.location import resolve_location
    from hta_graph.storage.output_paths import check_empty_folder

    folder = resolve_location(target)
    check_empty_folder(folder)
    with (
        new_folder(folder, lambda: check_empty_folder(folder)) as new,
        as_file(files("analyses") / "sample") as sample,
    ):
        for name, (bundled, _) in TRACES.items():
            source, copy = Path(sample) / bundled, new / name
            (shutil.copytree if source.is_dir() else shutil.copyfile)(source, copy)
    print_lines(["simulated, written there:", *(f"  {target}/{name:16} {what}" for name, (_, what) in TRACES.items())])


def _write_demo(ranks: RankInputs, overlay: str, picture: str, page: str) -> None:
    """Do the main job on a trace with a second step."""
    from analyses.questions.critical_path import path_lines
    from analyses.report.timeline import timeline_page
    from hta_graph.export.picture import path_picture, write_picture
    from hta_graph.paths.critical_path import critical_path as extract
    from hta_graph.paths.step_table import step_rows
    from hta_graph.paths.windows import step
    from hta_graph.storage.atomic_write import write_file

    path = extract(ranks.one_graph(), step(2))
    print_lines(["three simulated training steps, the second of them:", "", *path_lines(path), ""])
    write_path_overlay(path, overlay)
    write_picture(path_picture(path), picture)
    write_file(page, timeline_page(path, step_rows(path.graph)).html())
    print_lines(
        [
            "written here:",
            f"  {overlay}   open it in ui.perfetto.dev",
            f"  {picture}       the path as a picture",
            f"  {page}  open it in a browser",
        ]
    )


DEMO = Command(
    name="demo",
    help="The main job on a bundled sample; writes overlay, picture and timeline here.",
    more="The sample is simulated. With --traces it only writes the bundled traces.",
    examples=("demo", "demo --traces DIR"),
    page="commands.md",
    options=(_add_traces,),
    run=_run_demo,
)
