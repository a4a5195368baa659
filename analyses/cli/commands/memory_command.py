"""memory-timeline on the command line: of traces, or of the profiler's raw export."""

from __future__ import annotations

import argparse

from analyses.cli.outputs import Outputs
from analyses.cli.run_analysis import run_analysis, write_answer
from analyses.cli.window_args import WindowArgs
from analyses.description import IndexEntry
from hta_graph.errors import UsageError
from hta_graph.storage.file_lists import expand_file_lists

__all__ = ["run_memory_timeline"]


def run_memory_timeline(entry: IndexEntry, options: argparse.Namespace) -> None:
    """Answer for traces with [memory] events, or for one raw memory timeline."""
    from analyses.questions import raw_memory_timeline

    # The profiler's raw export has no rows of a trace: its first bytes tell it apart.
    if not any(raw_memory_timeline.is_raw_timeline(path) for path in expand_file_lists(options.inputs)):
        run_analysis(entry, options)
        return
    if len(expand_file_lists(options.inputs)) > 1:
        raise UsageError("a raw memory timeline is given alone")
    stretch = WindowArgs.of(options)
    if stretch.per_step or stretch.names_a_window:
        raise UsageError("a raw memory timeline has no steps and annotations; leave the window out")
    outputs = Outputs.of(options)
    found = raw_memory_timeline.answer(raw_memory_timeline.read_raw_timeline(expand_file_lists(options.inputs)[0]))
    write_answer(entry.name, found, [], outputs, raw_memory_timeline.figure)
