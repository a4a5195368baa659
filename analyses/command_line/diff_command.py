"""diff: two runs side by side on the command line."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from analyses.command_line.ask import write_answer
from analyses.command_line.asked_ranks import AskedRanks, say
from analyses.command_line.named_files import InputTraces
from analyses.command_line.outputs import Outputs
from analyses.command_line.stretch import Stretch
from analyses.given_numbers import RANK, share_of_one, whole_number
from hta_graph.errors import QueryError

if TYPE_CHECKING:
    from analyses.two_runs.comparison import Comparison
    from hta_graph.algorithms.time.windows import Window, WindowForm

__all__ = ["add_pair", "diff"]


def add_pair(parser: argparse.ArgumentParser) -> None:
    """Add the two traces and what each side is asked about."""
    parser.add_argument(
        "control", type=InputTraces, metavar="CONTROL", help="the trace (or folder of rank files) to compare with"
    )
    parser.add_argument("test", type=InputTraces, metavar="TEST", help="the trace (or folder) that changed")
    parser.add_argument("--rank", type=RANK, metavar="N", help="of several ranks this one, on both sides")
    parser.add_argument("--test-rank", type=RANK, metavar="N", help="another rank of the test")
    parser.add_argument("--test-step", type=whole_number(), metavar="N", help="another step of the test than --step")
    parser.add_argument("--salvage", action="store_true", help="read the whole events of files that break off")
    parser.add_argument(
        "--fail-above",
        type=share_of_one,
        metavar="SHARE",
        help="exit with 1 if the test is slower by more than this (5%% or 0.05) and by more than noise",
    )


def diff(options: argparse.Namespace) -> None:
    """Print what changed between two runs, or write it as JSON, CSV or a figure."""
    from analyses.two_runs import run_diff

    outputs = Outputs.of(options)
    windows, form = _asked_windows(options)
    control, test = (ranks.one_graph() for ranks in _ranks_of_sides(options))
    found = run_diff.between_runs(control, test, windows, options.data_load or (), form)
    scopes = [side.scope for side in found.sides.values()]
    write_answer("diff", run_diff.answer_of_comparison(found), scopes, outputs, run_diff.figure)
    if options.fail_above is not None:
        _fail_above(options.fail_above, found)


def _asked_windows(options: argparse.Namespace) -> tuple[tuple[Window, Window] | None, WindowForm]:
    """Return the windows of both sides where one is named, and the form of all steps otherwise."""
    stretch = Stretch.of(options)
    if stretch.names_a_window or stretch.whole or options.test_step is not None:
        other = stretch if options.test_step is None else replace(stretch, step=options.test_step)
        return (stretch.window(), other.window()), "usual"
    return None, "cpu" if stretch.cpu_window else "gpu"


def _fail_above(share: float, found: Comparison) -> None:
    """Refuse a test that is slower than a share of the control and than noise.

    Raises:
        QueryError: it is, or nothing can be said.
    """
    if found.refused:
        raise QueryError(f"--fail-above: whether the test is slower cannot be said: {found.refused}")
    slower, least, noise = (
        f"{value:.1%}".replace("%", " %") for value in (found.change_share, share, found.noise_share)
    )
    if found.beyond_noise and found.change_share > share:
        raise QueryError(
            f"--fail-above: the test is {slower} slower, which is more than {least} and than noise ({noise})"
        )
    if not found.beyond_noise and found.noise_share > share:
        say(f"hta-graph: --fail-above: a test that is {least} slower would pass too, for noise is {noise}")


def _ranks_of_sides(options: argparse.Namespace) -> tuple[AskedRanks, AskedRanks]:
    """Return what is read of each side: the same rank, but for ``--test-rank``."""
    # 0 is a rank: only None means that none was named.
    test_rank = options.rank if options.test_rank is None else options.test_rank
    sides = ((options.control, options.rank), (options.test, test_rank))
    control, test = (AskedRanks([path], rank, options.salvage, left_out=options.left_out) for path, rank in sides)
    return control, test
