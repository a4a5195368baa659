"""diff: two runs side by side on the command line."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hta_graph.algorithms.time.windows import Window
    from hta_graph.graph import DependencyGraph

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
    from analyses.command_line.ask import write_answer
    from analyses.command_line.commands import check_outputs
    from analyses.paths import run_diff
    from analyses.scope import in_window
    from hta_graph.algorithms.time.critical_path import critical_path
    from hta_graph.trace.vocabulary import DATA_LOADING

    options.inputs = [options.control, options.test]
    check_outputs(options, options.json, options.csv, options.plot)
    graphs = _graph(options, options.control, options.rank), _graph(options, options.test, _test_rank(options))
    windows = _windows(options)
    patterns = options.data_load or DATA_LOADING
    scopes = [in_window(found.trace.rank or 0, found, ask) for found, ask in zip(graphs, windows, strict=True)]
    paths = [critical_path(found, ask, data_load=patterns) for found, ask in zip(graphs, windows, strict=True)]
    write_answer("diff", run_diff.answer(scopes[0], scopes[1], (paths[0], paths[1])), scopes, options, run_diff)


def _test_rank(options: argparse.Namespace) -> int | None:
    rank: int | None = options.rank if options.test_rank is None else options.test_rank
    return rank


def _graph(options: argparse.Namespace, source: str, rank: int | None) -> DependencyGraph:
    from analyses.command_line.commands import one_graph

    asked = argparse.Namespace(**{**vars(options), "inputs": [source], "rank": rank})
    return one_graph(asked)


def _windows(options: argparse.Namespace) -> tuple[Window, Window]:
    """Return the window of each side: the same question, but for ``--test-step``."""
    from analyses.command_line.options import asked_window

    control = asked_window(options)
    if options.test_step is None:
        return control, control
    return control, asked_window(argparse.Namespace(**{**vars(options), "step": options.test_step}))
