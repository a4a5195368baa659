"""diff: compare two runs or jobs."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from analyses.cli.command import Command
from analyses.cli.options import (
    READING,
    WINDOW,
    add_all_rows,
    add_cache,
    add_capture,
    add_jobs,
    add_salvage,
    add_summaries,
    add_table_answer,
    add_window_and_loading,
    heading,
)
from analyses.cli.outputs import Outputs
from analyses.cli.path_args import InputTraces
from analyses.cli.rank_inputs import RankInputs
from analyses.cli.run_analysis import write_answer
from analyses.cli.window_args import WindowArgs
from analyses.declare.arg_types import RANK, STEP, share_of_one
from analyses.display.stderr import say
from hta_graph.base.errors import CannotCompareError, RegressionError
from hta_graph.base.progress import begin_stage

if TYPE_CHECKING:
    from analyses.cli.run_analysis import AnswerOfScopes
    from analyses.compare.diff.job_side import JobSide
    from analyses.compare.diff.length_comparison import Comparison
    from analyses.compare.diff.regression import Setting
    from analyses.compare.diff.sides import Lengths, Side
    from hta_graph.base.storage.location import Location
    from hta_graph.graph.dependency_graph import DependencyGraph
    from hta_graph.paths.windows import WindowForm, WindowQuery

    Run = JobSide | DependencyGraph


def _add_pair(parser: argparse.ArgumentParser) -> None:
    """Add the two runs and the options of each side."""
    parser.add_argument(
        "control", type=InputTraces, metavar="BEFORE", help="trace or folder of rank files to compare with"
    )
    parser.add_argument("test", type=InputTraces, metavar="AFTER", help="trace or folder of rank files that changed")
    reading = heading(parser, READING)
    reading.add_argument("--rank", type=RANK, metavar="N", help="compare only rank N")
    reading.add_argument("--test-rank", type=RANK, metavar="N", help="rank of AFTER (default: --rank)")
    add_salvage(parser)
    add_cache(parser)
    add_capture(parser)
    parser.add_argument(
        "--fail-above",
        type=share_of_one,
        metavar="SHARE",
        help="exit with status 1 if AFTER is slower by more than SHARE (such as 5%%) and more than the noise",
    )


def _add_test_step(parser: argparse.ArgumentParser) -> None:
    """Add the step of the test where it has another number."""
    heading(parser, WINDOW).add_argument("--test-step", type=STEP, metavar="N", help="step of AFTER (default: --step)")


def _run_diff(options: argparse.Namespace) -> None:
    """Print what changed between two runs, or write it as JSON, CSV or a figure."""
    (answer, scopes, figure), judged, ranks = _compared(options)
    try:
        write_answer("diff", answer, scopes, Outputs.of(options), figure)
    except BrokenPipeError:  # `… | head` has read enough, which must not hide a regression
        if options.fail_above is None:
            raise
    if options.fail_above is not None:
        _fail_above(options, judged, ranks)


def _compared(options: argparse.Namespace) -> tuple[AnswerOfScopes, Comparison[Lengths], Comparison[Side]]:
    """Return the answer with its scopes, what a regression is judged by, and the comparison of two ranks."""
    from analyses.compare.diff import job_diff, run_diff
    from analyses.compare.diff.job_side import JobSide

    sides, (windows, form) = _inputs_of_sides(options), _windows_of_sides(options)
    runs = _read_runs(sides, windows, form, options)
    control, test = _lowest_common_rank(sides, runs)
    begin_stage("comparing runs")
    ranks = run_diff.between_runs(control, test, windows, options.data_load or (), form)
    judged: Comparison[Lengths] = ranks
    if isinstance(runs[0], JobSide) and isinstance(runs[1], JobSide):
        judged = jobs = job_diff.between_jobs(runs[0], runs[1], ranks)
        answer = job_diff.answer_of_jobs(jobs, ranks)
    else:
        answer = run_diff.answer_of_comparison(ranks)
    return (answer, [side.scope for side in ranks.sides.values()], run_diff.figure), judged, ranks


def _read_runs(
    sides: Sequence[RankInputs],
    windows: tuple[WindowQuery, WindowQuery] | None,
    form: WindowForm,
    options: argparse.Namespace,
) -> list[Run]:
    """Read both sides: their jobs if both have several ranks and no rank is named, else one rank of each."""
    is_same = _is_same(*sides)
    if options.rank is not None or options.test_rank is not None or min(len(side.files) for side in sides) < 2:
        first = sides[0].one_graph()
        return [first, first if is_same else sides[1].one_graph()]
    runs: list[Run] = []
    graph = None
    for side, window in zip(sides, windows or (None, None), strict=True):
        if graph is None:
            graph = side.job_or_graph(WindowArgs.of(options).summary_with_causes)
        begin_stage("comparing steps")
        runs.append(_run_of(graph, window, options.data_load or (), form))
        graph = graph if is_same else None
    return runs


def _is_same(control: RankInputs, test: RankInputs) -> bool:
    """Return whether both sides read the same ranks of the same files, so that they are read once."""
    same = [os.path.realpath(str(side.inputs[0])) for side in (control, test)]
    return same[0] == same[1] and control.ranks == test.ranks


def _run_of(graph: DependencyGraph, window: WindowQuery | None, data_load: Sequence[str], form: WindowForm) -> Run:
    """Return the kept part of a job; the graph itself if only one rank could be read."""
    from analyses.compare.diff.job_side import side_of_job

    return side_of_job(graph, window, data_load, form) if graph.is_job else graph


def _lowest_common_rank(sides: Sequence[RankInputs], runs: Sequence[Run]) -> list[DependencyGraph]:
    """Return the graphs of the lowest common rank, else of the lowest rank of each side."""
    from analyses.compare.diff.job_diff import common_rank
    from analyses.compare.diff.job_side import JobSide

    jobs = [run for run in runs if isinstance(run, JobSide)]
    alone = [run.rank for run in runs if not isinstance(run, JobSide)]
    wanted = alone[0] if alone else common_rank(*jobs)
    found: list[DependencyGraph] = []
    read: dict[Location, DependencyGraph] = {}
    for side, run in zip(sides, runs, strict=True):
        if isinstance(run, JobSide):
            rank = min(run.files) if wanted is None or wanted not in run.files else wanted
            file = run.files[rank]
            found.append(read.get(file) or read.setdefault(file, side.graph_of(file, run.captures.get(rank, ()))))
        else:
            found.append(run)
    return found


def _windows_of_sides(options: argparse.Namespace) -> tuple[tuple[WindowQuery, WindowQuery] | None, WindowForm]:
    """Return the windows of both sides if one is named, else the form in which all steps are compared."""
    window_args = WindowArgs.of(options)
    if window_args.names_window or window_args.whole or options.test_step is not None:
        other = window_args if options.test_step is None else replace(window_args, step=options.test_step)
        return (window_args.window(), other.window()), "usual"
    return None, "cpu" if window_args.cpu_window else "gpu"


def _fail_above(options: argparse.Namespace, found: Comparison[Lengths], ranks: Comparison[Side]) -> None:
    """Fail if the second run is slower by the rule of gate.

    Raises:
        CannotCompareError: the runs cannot be compared, or an input was left out.
        RegressionError: it is.
    """
    from analyses.compare.diff.conclusion import is_same_recording
    from analyses.compare.diff.differences import manner_of
    from analyses.compare.diff.regression import notes_on, obstacles, refuse, ruling

    if options.left_out:
        raise CannotCompareError("partial", "--fail-above: cannot compare: an input could not be read")
    allowed = ("ranks",) if options.test_rank is not None else ()
    try:
        refuse(list(obstacles(*_settings(found, ranks), allowed)))
        if is_same_recording(found):
            return
        ruled = ruling(found, options.fail_above)
    except CannotCompareError as error:
        raise CannotCompareError(error.why, f"--fail-above: cannot compare: {error.on_command_line}") from None
    if ruled.verdict == "cannot_compare":
        raise CannotCompareError("noise", f"--fail-above: cannot compare: {ruled.doubt}")
    if ruled.exceeding:
        main = ruled.main
        slower, least, noise = (f"{value:.1%}" for value in (main.share, ruled.limit, main.noise_share))
        limits = f"above the limit of {least} and the noise of {noise}"
        raise RegressionError(f"--fail-above: {slower} slower{manner_of(main, found.course)}, {limits}")
    for line in notes_on(found, ruled):
        say(f"hta-graph: --fail-above: {line}")


def _settings(found: Comparison[Lengths], ranks: Comparison[Side]) -> tuple[Setting, Setting]:
    """Return what both runs must share to be compared."""
    from analyses.compare.diff.environment import facts_of_run, operator_times
    from analyses.compare.diff.job_side import JobSide
    from analyses.compare.diff.regression import Setting

    made = []
    for side, rank in zip((found.control, found.test), (ranks.control, ranks.test), strict=True):
        of_job = side if isinstance(side, JobSide) else None
        compared = [rank.graph.rank or 0] if of_job is None else set(of_job.files) - set(of_job.missing)
        size = rank.graph.trace.world_size if of_job is None else of_job.world_size
        made.append(Setting(facts_of_run(rank.graph), operator_times(rank.scope), frozenset(compared), size))
    return made[0], made[1]


def _inputs_of_sides(options: argparse.Namespace) -> tuple[RankInputs, RankInputs]:
    """Return the inputs of both sides; ranks differ only with ``--test-rank``."""
    # 0 is a rank: only None means that no rank is named.
    test_rank = options.rank if options.test_rank is None else options.test_rank
    control = RankInputs.of(options, [options.control])
    return control, replace(control, inputs=[options.test], ranks=None if test_rank is None else [test_rank])


DIFF = Command(
    name="diff",
    help="Compare two runs or jobs and explain the difference",
    more=(
        "All steps are compared: on the critical path, by rank, by call path and in the order of kernels. "
        "Differences within the noise are marked. With --fail-above the exit status is 1 for a regression, and 3 if "
        "the runs cannot be compared."
    ),
    examples=("diff trace.json.gz slower.json.gz", "diff trace.json.gz slower.json.gz --fail-above 80%"),
    page="comparing.md",
    options=(
        _add_pair,
        add_jobs,
        add_summaries,
        add_all_rows,
        add_window_and_loading,
        _add_test_step,
        add_table_answer,
    ),
    run=_run_diff,
)
