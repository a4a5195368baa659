"""gate: pass or fail a run against a baseline, and write baselines."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from analyses.cli.command import Command
from analyses.cli.options import (
    OUTPUT,
    READING,
    add_answer,
    add_cache,
    add_capture,
    add_jobs,
    add_step_pattern,
    add_summaries,
    heading,
)
from analyses.cli.outputs import print_first_sentence, print_lines, write_json
from analyses.cli.path_args import BaselineFile, InputTraces, OutputFile, check_exists
from analyses.cli.rank_inputs import RankInputs
from analyses.cli.window_args import WindowArgs
from analyses.declare.arg_types import RANK, share_of_one, whole_number
from analyses.display.stderr import say
from hta_graph.base.errors import CannotCompareError, HtaGraphError, RegressionError, UsageError
from hta_graph.base.progress import begin_stage
from hta_graph.base.storage.location import is_remote, resolve_location

if TYPE_CHECKING:
    from analyses.compare.gate.run_profile import RunProfile

METRICS = ("iteration", "critical-path", "exposed-communication", "gpu-busy", "gpu-idle", "memory")
ALLOWED = ("gpu", "world_size", "ranks", "model", "pytorch", "noise")
DEFAULT_LIMIT = 0.01
MOST_KEPT = 10
HOW_TO_BEGIN = "hta-graph gate --update BASELINE TRACE makes a baseline"


def _add_gate(parser: argparse.ArgumentParser) -> None:
    """Add the runs, the rule and the outputs."""
    parser.add_argument(
        "baseline", type=InputTraces, metavar="BASELINE", help="baseline file, trace or folder of rank files"
    )
    parser.add_argument(
        "new",
        type=InputTraces,
        nargs="*",
        metavar="NEW",
        help="trace, folder or baseline file of the new run; more recordings of it show the noise between runs",
    )
    parser.add_argument(
        "--fail-above",
        type=share_of_one,
        default=DEFAULT_LIMIT,
        metavar="SHARE",
        help="fail if NEW is slower by SHARE (default: 1%%); and by more than the noise",
    )
    parser.add_argument(
        "--metric",
        choices=METRICS,
        default="iteration",
        metavar="METRIC",
        help=f"what is compared: {', '.join(METRICS)}",
    )
    parser.add_argument("--per-phase", action="store_true", help="also compare each phase or kind of steps by itself")
    parser.add_argument(
        "--allow", action="append", choices=ALLOWED, default=[], help="compare although this differs; can be repeated"
    )
    # What a damaged file lacks would be a difference; the comment reports an absent one.
    parser.set_defaults(salvage=False, checks_inputs=True)
    heading(parser, READING).add_argument("--rank", type=RANK, metavar="N", help="compare only rank N")
    heading(parser, READING).add_argument(
        "--cpu-window", action="store_true", help="compare the steps' time on the CPU"
    )
    output = heading(parser, OUTPUT)
    output.add_argument(
        "--markdown", type=OutputFile, metavar="FILE", help="write a pull-request comment; - for standard output"
    )
    output.add_argument(
        "--update",
        type=BaselineFile,
        metavar="FILE",
        help="add the inputs to a baseline file",
    )
    output.add_argument(
        "--keep",
        type=whole_number(1, 1_000),
        default=MOST_KEPT,
        metavar="N",
        help=f"newest recordings that --update keeps (default: {MOST_KEPT})",
    )
    output.add_argument("--plan", action="store_true", help="say how many steps show a change; takes BASELINE alone")
    output.add_argument("--with-hosts", action="store_true", help="keep the names of hosts in the baseline")


def _run_gate(options: argparse.Namespace) -> None:
    """Write a baseline, or compare runs and fail for a regression."""
    if options.plan:
        _plan(options)
        return
    if options.update is not None:
        _update(options)
        return
    if options.with_hosts:
        raise UsageError("--with-hosts needs --update FILE")
    if not options.new:
        raise UsageError("expected BASELINE and NEW; --update FILE RUN writes a baseline")
    from analyses.compare.gate.answer_of_gate import GivenFiles, document_of_refusal, refusal_of

    given = GivenFiles((str(options.baseline),), tuple(map(str, options.new)))
    try:
        found = _compared(options, given)
    except UsageError:
        raise
    except HtaGraphError as error:
        from hta_graph.trace.json_reader import SALVAGE_REMEDY

        text = error.on_command_line.replace(SALVAGE_REMEDY.command_line, "record it again")
        if not is_remote(place := resolve_location(options.baseline)) and not place.exists():
            text = f"{text}; {HOW_TO_BEGIN}"
        _write(document_of_refusal(refusal_of(error), text, options.metric, options.fail_above, given), options)
        raise CannotCompareError(refusal_of(error), f"gate: cannot compare: {text}") from None
    try:
        _write(found, options)
    except BrokenPipeError:  # `… | head` has read enough, which must not hide a verdict
        if found["verdict"] == "pass":
            raise
    _fail_unless_passed(found)


def _fail_unless_passed(found: dict[str, Any]) -> None:
    """Give the verdict as the exit status.

    Raises:
        RegressionError: the new run is slower.
        CannotCompareError: noise hides whether it is.
    """
    from analyses.compare.gate.text_of_gate import verdict_line

    if found["verdict"] == "regression":
        raise RegressionError(f"gate: {verdict_line(found)}")
    if found["verdict"] == "cannot_compare":
        raise CannotCompareError("noise", f"gate: {verdict_line(found)}")


def _update(options: argparse.Namespace) -> None:
    """Add the recordings of a run to a baseline, and keep the newest ones."""
    if options.json or options.markdown:
        raise UsageError("--update writes a baseline and no answer; omit --json and --markdown")
    from analyses.compare.gate.baseline_file import write_baseline
    from analyses.compare.gate.compare_profiles import noise_of_recordings

    given = [one for item in (options.baseline, *options.new) for one in _profiles(item, options)]
    known = _known_recordings(options, given) if len(given) < options.keep else []
    profiles = [*known, *given][-options.keep :]
    write_baseline(options.update, profiles, with_hosts=options.with_hosts)
    if options.update != "-":
        steps = [len(one.side.lengths_ns) for one in profiles]
        say(_written(options.update, len(profiles), steps, noise_of_recordings(profiles)[1]))


def _known_recordings(options: argparse.Namespace, given: Sequence[RunProfile]) -> list[RunProfile]:
    """Read what a baseline holds already, without the given recordings; none where there is no file.

    Raises:
        CannotCompareError: the recordings are of another program or machine.
    """
    from analyses.compare.diff.regression import obstacles, refuse
    from analyses.compare.gate.baseline_file import is_baseline, read_baseline

    place = resolve_location(options.update) if options.update != "-" else None
    if place is None or not is_baseline(place):
        return []
    known = read_baseline(place)
    try:
        for own in given:
            refuse(list(obstacles(known[0].setting, own.setting, options.allow)))
    except CannotCompareError as error:
        raise CannotCompareError(error.why, f"{options.update}: {error}; --keep 1 begins a new baseline") from None
    lengths = [own.side.lengths_ns.tolist() for own in given]
    return [own for own in known if own.side.lengths_ns.tolist() not in lengths]


def _written(target: str, recordings: int, steps: Sequence[int], spread: float | None) -> str:
    """State what a baseline was made of, and by how much its recordings differ.

    >>> _written("base.json", 2, [10, 12], 0.004)
    'base.json: a baseline of 2 recordings with 10 and 12 steps, which differ by 0.4%'
    """
    from analyses.display.sentence_format import counted, enumerated

    counts = f"{enumerated([f'{one:,}' for one in steps])} step{'s' * (list(steps) != [1])}"
    differ = "" if spread is None else f", which differ by {spread:.1%}"
    return f"{target}: a baseline of {counted(recordings, 'recording')} with {counts}{differ}"


def _plan(options: argparse.Namespace) -> None:
    """Print how many steps show a change."""
    if options.new or options.json or options.markdown or options.update is not None:
        raise UsageError("--plan takes BASELINE alone and prints text")
    from analyses.compare.gate.plan import plan_lines

    print_lines(plan_lines(_profiles(options.baseline, options)), wide=options.wide)


def _compared(options: argparse.Namespace, given: Any) -> dict[str, Any]:
    from analyses.compare.diff.regression import ruling
    from analyses.compare.gate.answer_of_gate import document_of_ruling
    from analyses.compare.gate.compare_profiles import compare_profiles

    sides = [[one for item in own for one in _profiles(item, options)] for own in ([options.baseline], options.new)]
    begin_stage("comparing runs")
    found = compare_profiles(sides[0], sides[1], options.metric, options.allow)
    ruled = ruling(found.lengths, options.fail_above, per_kind=options.per_phase)
    ruled = replace(ruled, doubt="") if "noise" in options.allow else ruled
    return document_of_ruling(found, ruled, options.metric, given)


def _profiles(item: InputTraces, options: argparse.Namespace) -> Sequence[RunProfile]:
    """Read an input: the recordings of a baseline, or one recording of a rank or a job."""
    from analyses.compare.gate.baseline_file import is_baseline, read_baseline
    from analyses.compare.gate.run_profile import profile_of

    check_exists(item)
    place = resolve_location(item)
    if is_baseline(place):
        return read_baseline(place)
    ranks = replace(RankInputs.of(options, [item]), report=None)
    graph = ranks.job_or_graph(WindowArgs().summary_with_causes)
    begin_stage("comparing steps")
    of_rank = None
    if graph.is_job:
        lowest = min(part.rank for part in graph.rank_graphs)
        of_rank = ranks.graph_of(graph.graph(lowest).path) if ranks.many_ranks else graph.graph(lowest)
    return [profile_of(graph, of_rank, "cpu" if options.cpu_window else "gpu")]


def _write(found: dict[str, Any], options: argparse.Namespace) -> None:
    """Write the answer as JSON and as Markdown, else print it; the reason of a refusal is printed as an error."""
    from analyses.compare.gate.text_of_gate import markdown, text_lines
    from hta_graph.base.storage.atomic_write import write_file

    if options.json:
        write_json(options.json, found, ())
        if options.markdown != "-" and found["compared_by"]:
            print_first_sentence(options.json, text_lines(found, wide=options.wide))
    if options.markdown:
        write_file(options.markdown, markdown(found).encode(errors="backslashreplace"))
    if not (options.json or options.markdown) and found["compared_by"]:
        print_lines(text_lines(found, wide=options.wide), wide=options.wide)


GATE = Command(
    name="gate",
    help="Fail a slower run against a baseline, with the cause",
    more=(
        "A run fails if it is slower by more than the noise and more than a limit. The exit status is 1 for a "
        "regression and nothing else, 3 if that cannot be known."
    ),
    examples=(
        "gate trace.json.gz trace.json.gz",
        "gate --update baseline.json.gz trace.json.gz",
        "gate trace.json.gz slower.json.gz --fail-above 60%",
    ),
    page="how_to/gate_a_pull_request.md",
    options=(_add_gate, add_jobs, add_cache, add_capture, add_summaries, add_step_pattern, add_answer),
    run=_run_gate,
)
