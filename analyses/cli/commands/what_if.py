"""what-if: the predicted length of a window after changes, and the largest savings."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from analyses.cli.command import Command
from analyses.cli.options import (
    add_answer_with_table,
    add_flight,
    add_inputs,
    add_jobs,
    add_near,
    add_summaries,
    add_window,
)
from analyses.cli.outputs import print_lines, write_output
from analyses.cli.rank_inputs import RankInputs
from analyses.cli.window_args import WindowArgs
from analyses.declare.arg_types import factor_text
from analyses.display.text_layout import clipped
from hta_graph.base.errors import UsageError
from hta_graph.base.progress import begin_stage

if TYPE_CHECKING:
    from analyses.questions.what_if.answer import NamedChange, WhatIf


WHAT = "WHAT is PATTERN or KIND:PATTERN. KIND is kernel, operator, module, frame, annotation, collective, class or rank"


class _NamedChange(argparse.Action):
    """Keep changes in the order of the command line, across options."""

    def __call__(self, parser: object, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        """Append the values of one option."""
        kept = [*(getattr(namespace, self.dest) or []), *((str(option).lstrip("-"), value) for value in values)]
        setattr(namespace, self.dest, kept)


class _ScenarioList(argparse.Action):
    """Print the named scenarios and exit, as ``--help`` does."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print them."""
        from analyses.questions.what_if.text import scenario_lines

        print_lines(scenario_lines())
        parser.exit()


def _add_changes(parser: argparse.ArgumentParser) -> None:
    """Add the changes."""
    parser.epilog = f"{WHAT}. PATTERN is an exact name, or else a regular expression to search for in names."
    for option, value, says in (
        ("--scale", "WHAT=FACTOR", "multiply the time of WHAT by FACTOR; 0 takes no time"),
        ("--remove", "WHAT", "remove WHAT and its launches"),
        ("--scenario", "NAME[=ARG]", "apply a named change (see --scenarios)"),
    ):
        parser.add_argument(option, nargs="+", action=_NamedChange, dest="changes", metavar=value, help=says)
    parser.add_argument("--scenarios", nargs=0, action=_ScenarioList, help="list the named changes and exit")
    parser.add_argument("--curve", metavar="WHAT", help="also predict the length for factors of WHAT; from 1 to 0")


def _run_what_if(options: argparse.Namespace) -> None:
    """Print or write the predicted length after changes, or without changes the largest savings."""
    found = _predicted(options)
    from analyses.questions.what_if.answer import what_if_document
    from analyses.questions.what_if.text import what_if_lines

    write_output(options, lambda: what_if_document(found), lambda: what_if_lines(found), table="opportunities")


def _predicted(options: argparse.Namespace) -> WhatIf:
    window_args = WindowArgs.of(options)
    window = window_args.window()
    # Invalid changes are refused before anything is read.
    asked = read_changes(options.changes) if options.changes else []
    if options.curve is not None:
        from hta_graph.what_if.selectors import Selector

        Selector.of(options.curve)
    ranks = RankInputs.of(options)
    if (options.near is not None or options.curve is not None) and ranks.many_ranks:
        raise UsageError("--near and --curve need all events of all ranks; use --rank N or --summaries never")
    graph = ranks.job_or_graph(window_args.summary_with_causes)
    from analyses.questions.what_if.answer import what_if

    begin_stage("replaying changes")
    return what_if(graph, window, asked, curve=options.curve, near=options.near)


def read_changes(changes: Sequence[tuple[str, str]]) -> list[NamedChange]:
    """Return the changes of a command line: each an option (scale, remove or scenario) and its text.

    Raises:
        UsageError: a text is not valid.
    """
    from analyses.questions.what_if.answer import removal_change, scenario_change

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


def changes_of_finding(finding: Mapping[str, Any]) -> list[NamedChange]:
    """Return the changes that reproduce the saving of a finding, which JSON lists as arguments of this command."""
    words = finding["change"]
    pairs = zip(words[::2], words[1::2], strict=True)
    return read_changes([(option.removeprefix("--"), text) for option, text in pairs])


def _read_scale(text: str) -> NamedChange:
    """Read WHAT=FACTOR; names can contain further equals signs, so the last one counts.

    Raises:
        UsageError: the factor is missing or not a number.
    """
    from analyses.questions.what_if.answer import scale_change

    what, equals, factor = text.rpartition("=")
    if not equals or not what:
        raise UsageError(f"--scale: expected WHAT=FACTOR such as kernel:gemm=0.5, got {text!r}")
    try:
        return scale_change(what, float(factor_text(factor)))
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--scale {clipped(what, 60)}: {error}") from None


WHAT_IF = Command(
    name="what-if",
    help="Predict how much time a change would save",
    more=(
        "Changes are replayed on the graph, so that work starts as soon as its dependencies allow. Without a change "
        "it lists the largest savings."
    ),
    examples=(
        "what-if trace.json.gz",
        "what-if trace.json.gz --scale kernel:gemm=0.5",
        "what-if job --scenario cuda_graphs",
    ),
    page="what_if.md",
    options=(
        add_inputs,
        add_jobs,
        add_flight,
        add_summaries,
        add_window,
        _add_changes,
        add_near,
        add_answer_with_table,
    ),
    run=_run_what_if,
)
