"""diff: two runs or jobs side by side."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from analyses.arg_types import RANK, share_of_one, whole_number
from analyses.cli.command import Command
from analyses.cli.options import (
    add_all_rows,
    add_jobs,
    add_json,
    add_summaries,
    add_table_outputs,
    add_window_and_loading,
)
from analyses.cli.outputs import Outputs
from analyses.cli.path_args import InputTraces
from analyses.cli.rank_inputs import RankInputs
from analyses.cli.run_analysis import write_answer
from analyses.cli.window_args import WindowArgs
from analyses.display.stderr import say
from hta_graph.errors import QueryError

if TYPE_CHECKING:
    from analyses.diff.job_side import JobSide
    from analyses.diff.length_comparison import Comparison
    from analyses.diff.sides import Lengths
    from hta_graph.graph.dependency_graph import DependencyGraph
    from hta_graph.paths.windows import WindowForm, WindowQuery

    Run = JobSide | DependencyGraph


def _add_pair(parser: argparse.ArgumentParser) -> None:
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


def _run_diff(options: argparse.Namespace) -> None:
    """Print what changed between two runs, or write it as JSON, CSV or a figure."""
    from analyses.diff import job_diff, run_diff
    from analyses.diff.job_side import JobSide

    outputs, sides = Outputs.of(options), _inputs_of_sides(options)
    windows, form = _windows_of_sides(options)
    runs = _read_runs(sides, windows, form, options)
    control, test = _lowest_common_rank(sides, runs)
    ranks = run_diff.between_runs(control, test, windows, options.data_load or (), form)
    judged: Comparison[Lengths] = ranks
    if isinstance(runs[0], JobSide) and isinstance(runs[1], JobSide):
        judged = jobs = job_diff.between_jobs(runs[0], runs[1], ranks)
        answer = job_diff.answer_of_jobs(jobs, ranks)
    else:
        answer = run_diff.answer_of_comparison(ranks)
    write_answer("diff", answer, [side.scope for side in ranks.sides.values()], outputs, run_diff.figure)
    if options.fail_above is not None:
        _fail_above(options.fail_above, judged)


def _read_runs(
    sides: Sequence[RankInputs],
    windows: tuple[WindowQuery, WindowQuery] | None,
    form: WindowForm,
    options: argparse.Namespace,
) -> list[Run]:
    """Read both sides: their jobs, where each has several ranks and none is named, else a rank of each."""
    counts = [side.count_files() for side in sides]
    if options.rank is not None or options.test_rank is not None or min(counts) < 2:
        return [side.one_graph() for side in sides]
    runs = []
    for side, count, window in zip(sides, counts, windows or (None, None), strict=True):
        few = WindowArgs.of(options).summary_with_causes(count)
        runs.append(_run_of(side.job_or_graph(few), window, options.data_load or (), form))
        # A job and what finds its paths refer to each other: it would be here still when the other one is read.
        gc.collect()
    return runs


def _run_of(graph: DependencyGraph, window: WindowQuery | None, data_load: Sequence[str], form: WindowForm) -> Run:
    """Return what is kept of a job; of a job of which one rank can be read its graph."""
    from analyses.diff.job_side import side_of_job
    from hta_graph.graph.job_graph import JobGraph

    return side_of_job(graph, window, data_load, form) if isinstance(graph, JobGraph) else graph


def _lowest_common_rank(sides: Sequence[RankInputs], runs: Sequence[Run]) -> list[DependencyGraph]:
    """Return the graphs of the lowest rank that both sides have, else of the lowest of each."""
    from analyses.diff.job_diff import common_rank
    from analyses.diff.job_side import JobSide

    jobs = [run for run in runs if isinstance(run, JobSide)]
    alone = [run.rank for run in runs if not isinstance(run, JobSide)]
    wanted = alone[0] if alone else common_rank(*jobs)
    return [
        side.graph_of(run.files.get(-1 if wanted is None else wanted, run.files[min(run.files)]))
        if isinstance(run, JobSide)
        else run
        for side, run in zip(sides, runs, strict=True)
    ]


def _windows_of_sides(options: argparse.Namespace) -> tuple[tuple[WindowQuery, WindowQuery] | None, WindowForm]:
    """Return the windows of both sides where one is named, and the form of all steps otherwise."""
    window_args = WindowArgs.of(options)
    if window_args.names_window or window_args.whole or options.test_step is not None:
        other = window_args if options.test_step is None else replace(window_args, step=options.test_step)
        return (window_args.window(), other.window()), "usual"
    return None, "cpu" if window_args.cpu_window else "gpu"


def _fail_above(share: float, found: Comparison[Lengths]) -> None:
    """Refuse a test that is slower than a share of the control and than noise.

    Raises:
        QueryError: it is, or nothing can be said.
    """
    if found.refused:
        raise QueryError(f"--fail-above: whether the test is slower cannot be said: {found.refused}")
    slower, least, noise = (f"{value:.1%}" for value in (found.change_share, share, found.noise_share))
    if found.beyond_noise and found.change_share > share:
        raise QueryError(
            f"--fail-above: the test is {slower} slower, which is more than {least} and than noise ({noise})"
        )
    if not found.beyond_noise and found.noise_share > share:
        say(f"hta-graph: --fail-above: a test that is {least} slower would pass too, for noise is {noise}")


def _inputs_of_sides(options: argparse.Namespace) -> tuple[RankInputs, RankInputs]:
    """Return what is read of each side: the same rank, but for ``--test-rank``."""
    # 0 is a rank: only None means that none was named.
    test_rank = options.rank if options.test_rank is None else options.test_rank
    control = RankInputs.of(options, [options.control])
    return control, replace(control, inputs=[options.test], rank=test_rank)


DIFF = Command(
    name="diff",
    help="What changed between two runs or jobs: on the critical path, by rank, by call path, in the order of kernels.",
    more=(
        "All steps of both are compared, and a difference within the noise is called one. With --fail-above the "
        "exit status is 1 where the test is slower than that."
    ),
    examples=("diff trace.json.gz slower.json.gz", "diff trace.json.gz slower.json.gz --step 2 --fail-above 80%"),
    page="comparing.md",
    options=(_add_pair, add_jobs, add_summaries, add_json, add_all_rows, add_window_and_loading, add_table_outputs),
    run=_run_diff,
)
