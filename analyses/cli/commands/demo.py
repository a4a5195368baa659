"""demo: a critical path on a sample trace, and the sample traces of the manual."""

from __future__ import annotations

import argparse
from pathlib import Path

from analyses.cli.command import Command
from analyses.cli.commands.critical_path import write_path_overlay
from analyses.cli.outputs import print_lines
from analyses.cli.path_args import OutputFolder

TRACES = {
    "trace.json.gz": ("sample_trace.json.gz", "three training steps of one rank"),
    "slower.json.gz": ("slower_trace.json.gz", "the same script after three changes"),
    "two_gpus.json.gz": ("two_gpus.json.gz", "one process whose model is split over two GPUs"),
    "serving.json.gz": ("serving.json.gz", "an inference server: prefill, decode, CUDA graphs"),
    "job": ("four_ranks", "four ranks that train together"),
}
"""Name of a sample trace in the manual → the bundled file or folder, and its description."""


def _add_traces(parser: argparse.ArgumentParser) -> None:
    """Add the folder for the sample traces."""
    parser.add_argument(
        "--traces", type=OutputFolder, metavar="DIR", help="only write the sample traces of the manual to DIR"
    )


def _run_demo(options: argparse.Namespace) -> None:
    """Analyze the sample trace: print its path, write overlay, picture and timeline."""
    from importlib.resources import as_file, files
    from shutil import which

    from hta_graph.base.storage.output_paths import check_outputs

    if options.traces:
        _write_traces(options.traces)
        return
    targets = "demo_overlay.json", "demo_path.svg" if which("dot") else "demo_path.dot", "demo_timeline.html"
    with as_file(files("analyses") / "sample" / "sample_trace.json.gz") as sample:
        check_outputs(targets, [sample])
        _write_demo(sample, *targets)


def _write_traces(target: str) -> None:
    """Copy the sample traces into a new folder, and describe each."""
    import shutil
    from importlib.resources import as_file, files

    from hta_graph.base.storage.atomic_write import new_folder
    from hta_graph.base.storage.location import resolve_location
    from hta_graph.base.storage.output_paths import check_empty_folder

    folder = resolve_location(target)
    check_empty_folder(folder)
    with (
        new_folder(folder, lambda: check_empty_folder(folder)) as new,
        as_file(files("analyses") / "sample") as sample,
    ):
        for name, (bundled, _) in TRACES.items():
            source, copy = Path(sample) / bundled, new / name
            if not source.is_dir():
                shutil.copyfile(source, copy)
                continue
            copy.mkdir()
            # shutil.copytree would collect the errors of all files, and say them in one list.
            for one in sorted(source.iterdir()):
                shutil.copyfile(one, copy / one.name)
    print_lines(["simulated traces:", *(f"  {target}/{name:17} {what}" for name, (_, what) in TRACES.items())])


def _write_demo(sample: Path, overlay: str, picture: str, page: str) -> None:
    """Analyze the second step of a trace."""
    from analyses.questions.critical_path import PathText, path_lines
    from analyses.report.timeline import timeline_page
    from hta_graph.base.storage.atomic_write import write_file
    from hta_graph.build.from_trace import build_graph
    from hta_graph.export.picture import path_picture, write_picture
    from hta_graph.paths.critical_path import critical_path as extract
    from hta_graph.paths.step_table import step_rows
    from hta_graph.paths.windows import step

    path = extract(build_graph(sample), step(2))
    print_lines(["step 2 of 3 simulated training steps:", "", *path_lines(PathText.of(path)), ""])
    write_path_overlay(path, overlay)
    write_picture(path_picture(path), picture)
    write_file(page, timeline_page(path, step_rows(path.graph)).html())
    print_lines(
        [
            "files written:",
            f"  {overlay}   open it at ui.perfetto.dev",
            f"  {picture}       picture of the path",
            f"  {page}  open it in a browser",
        ]
    )


DEMO = Command(
    name="demo",
    help="Analyze a sample trace, or write the sample traces",
    more="It prints the critical path and writes an overlay, a picture and a timeline to the current folder.",
    examples=("demo", "demo --traces DIR"),
    page="commands.md",
    options=(_add_traces,),
    run=_run_demo,
)
