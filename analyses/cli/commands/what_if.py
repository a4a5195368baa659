"""what-if: how long a window would be after changes, and which changes would gain most."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from analyses.arg_types import factor_text
from analyses.cli.command import Command
from analyses.cli.options import add_flight, add_inputs, add_jobs, add_json, add_near, add_summaries, add_window
from analyses.cli.outputs import write_json
from analyses.cli.rank_inputs import RankInputs, print_lines
from analyses.cli.window_args import WindowArgs
from analyses.display.text_layout import clipped
from hta_graph.errors import UsageError

if TYPE_CHECKING:
    from analyses.questions.what_if import NamedChange


WHAT = "WHAT is KIND:PATTERN, KIND one of kernel, operator, module, annotation, collective, class, rank; or a PATTERN"


class _NamedChange(argparse.Action):
    """Keep what was asked for in the order of the command line, whatever option it was given with."""

    def __call__(self, parser: object, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        """Add the values of one option behind those before."""
        kept = [*(getattr(namespace, self.dest) or []), *((str(option).lstrip("-"), value) for value in values)]
        setattr(namespace, self.dest, kept)


class _ScenarioList(argparse.Action):
    """Print the named scenarios and leave, as ``--help`` does."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print them."""
        from analyses.questions.what_if import scenario_lines

        print_lines(scenario_lines())
        parser.exit()


def _add_changes(parser: argparse.ArgumentParser) -> None:
    """Add what may be changed."""
    parser.epilog = f"{WHAT}. A pattern is a name, else a regular expression that is found in names."
    for option, value, says in (
        ("--scale", "WHAT=FACTOR", "it takes FACTOR times as long; 0 makes it free"),
        ("--remove", "WHAT", "it is not there, nor what launches it"),
        ("--scenario", "NAME[=ARG]", "a named change, see --scenarios"),
    ):
        parser.add_argument(option, nargs="+", action=_NamedChange, dest="changes", metavar=value, help=says)
    parser.add_argument("--scenarios", nargs=0, action=_ScenarioList, help="list the named scenarios and leave")
    parser.add_argument("--curve", metavar="WHAT", help="also the length for every factor of WHAT from 1 to 0")


def _run_what_if(options: argparse.Namespace) -> None:
    """Print how long a window would be after changes, or what changes would gain, or write it as JSON."""
    from analyses.questions import what_if as asking
    from analyses.questions.what_if import what_if_lines
    from hta_graph.what_if.selectors import Selector

    window_args = WindowArgs.of(options)
    window = window_args.window()
    # What is written wrongly is refused before anything is read.
    asked = _read_changes(options.changes or [])
    if options.curve is not None:
        Selector.of(options.curve)
    ranks = RankInputs.of(options)
    if (options.near is not None or options.curve is not None) and ranks.many_ranks:
        raise UsageError("--near and --curve take all rows of all ranks; name one with --rank, or --skeletons never")
    graph = ranks.job_or_graph(window_args.summary_request())
    found = asking.what_if(graph, window, asked, curve=options.curve, near=options.near)
    if options.json:
        write_json(options.json, asking.what_if_document(found), options.left_out)
    else:
        print_lines(what_if_lines(found), wide=options.wide)


def _read_changes(changes: Sequence[tuple[str, str]]) -> list[NamedChange]:
    from analyses.questions.what_if import removal_change, scenario_change

    found = []
    for option, text in changes:
        if option == "scale":
            found.append(_read_scale(text))
        elif option == "remove":
            found.append(removal_change(text))
        else:
            name, equals, argument = text.partition("=")
            found.append(scenario_change(name, argument if equals else None))
    return found


def _read_scale(text: str) -> NamedChange:
    """Read WHAT=FACTOR; names may hold more of these signs, so that the last one counts.

    Raises:
        UsageError: the factor is missing or no number.
    """
    from analyses.questions.what_if import scale_change

    what, equals, factor = text.rpartition("=")
    if not equals or not what:
        raise UsageError(f"--scale takes WHAT=FACTOR, such as kernel:gemm=0.5, not {text!r}")
    try:
        return scale_change(what, float(factor_text(factor)))
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--scale {clipped(what, 60)}: the factor {error}; give one such as 0.5") from None


WHAT_IF = Command(
    name="what-if",
    help="How long a window would be after changes; without any, which changes would gain most.",
    more=(
        "Changes are replayed on the graph: what no longer waits starts earlier. Without a change it lists what "
        "would gain most."
    ),
    examples=(
        "what-if trace.json.gz",
        "what-if trace.json.gz --scale kernel:gemm=0.5",
        "what-if job --scenario cuda_graphs",
    ),
    page="what_if.md",
    options=(add_inputs, add_jobs, add_flight, add_summaries, add_json, add_window, _add_changes, add_near),
    run=_run_what_if,
)
