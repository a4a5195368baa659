"""diff: two runs side by side on the command line."""

from __future__ import annotations

import argparse
from dataclasses import replace

from analyses.command_line.ask import write_answer
from analyses.command_line.asked_ranks import AskedRanks
from analyses.command_line.outputs import Outputs
from analyses.command_line.stretch import Stretch

__all__ = ["add_pair", "diff"]


def add_pair(parser: argparse.ArgumentParser) -> None:
    """Add the two traces and what each side is asked about."""
    parser.add_argument("control", metavar="CONTROL", help="the trace (or folder of rank files) to compare with")
    parser.add_argument("test", metavar="TEST", help="the trace (or folder) that changed")
    parser.add_argument("--rank", type=int, metavar="N", help="of several ranks this one, on both sides")
    parser.add_argument("--test-rank", type=int, metavar="N", help="another rank of the test")
    parser.add_argument("--test-step", type=int, metavar="N", help="another step of the test than --step")
    parser.add_argument("--salvage", action="store_true", help="read the whole events of files that break off")


def diff(options: argparse.Namespace) -> None:
    """Print what changed between two runs, or write it as JSON, CSV or a figure."""
    from analyses.paths import run_diff
    from analyses.scope import in_window
    from hta_graph.algorithms.time.critical_path import critical_path
    from hta_graph.algorithms.time.step_table import step_rows

    outputs = Outputs.of(options, [options.control, options.test])
    graphs = [ranks.one_graph() for ranks in _ranks_of_sides(options)]
    stretch = Stretch.of(options)
    other = stretch if options.test_step is None else replace(stretch, step=options.test_step)
    windows = [stretch.window(), other.window()]
    patterns = options.data_load
    control, test = (in_window(graph.rank or 0, graph, ask) for graph, ask in zip(graphs, windows, strict=True))
    was, now = (critical_path(graph, ask, data_load=patterns) for graph, ask in zip(graphs, windows, strict=True))
    steps = [step_rows(path.graph, patterns) if path.window.is_default else [] for path in (was, now)]
    write_answer("diff", run_diff.answer(control, test, (was, now), steps), [control, test], outputs, run_diff.figure)


def _ranks_of_sides(options: argparse.Namespace) -> tuple[AskedRanks, AskedRanks]:
    """Return what is read of each side: the same rank, but for ``--test-rank``."""
    # 0 is a rank: only None means that none was named.
    test_rank = options.rank if options.test_rank is None else options.test_rank
    sides = ((options.control, options.rank), (options.test, test_rank))
    control, test = (AskedRanks([path], rank, options.salvage, left_out=options.left_out) for path, rank in sides)
    return control, test
