"""The one way from a command line to an analysis: read the ranks, choose the windows, ask, print or write."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hta_graph.errors import UsageError

if TYPE_CHECKING:
    from analyses.answer import Answer
    from analyses.scope import Scope
    from hta_graph.graph import DependencyGraph

__all__ = ["Flag", "add_flags", "add_tables", "add_written", "ask", "asked_scopes", "number", "one_of", "write_answer"]


@dataclass(frozen=True)
class Flag:
    """An option of one analysis: ``--launch-delay-us`` becomes the argument ``launch_delay_us`` of its ``answer``.

    One of kind ``bool`` is a switch and takes no value; one that takes ``many`` values does not show its default.
    """

    name: str
    kind: Callable[[str], Any]
    default: Any
    help: str
    many: bool = False

    @property
    def argument(self) -> str:
        """The name of the argument.

        >>> Flag("--top-k", int, 5, "").argument
        'top_k'
        """
        return self.name.removeprefix("--").replace("-", "_")


def one_of(*allowed: str) -> Callable[[str], str]:
    """Return what reads an option that takes one of some words."""

    def read(text: str) -> str:
        if text not in allowed:
            raise argparse.ArgumentTypeError(f"takes {', '.join(allowed[:-1])} or {allowed[-1]}, not {text!r}")
        return text

    return read


def number(kind: type[float], least: float) -> Callable[[str], float]:
    """Return what reads an option that takes a number from ``least``.

    >>> number(float, 0)("1.5"), number(int, 1)("20")
    (1.5, 20)
    """

    def read(text: str) -> float:
        value = kind(text)
        if not least <= value < float("inf"):
            raise argparse.ArgumentTypeError(f"takes a number from {least}, not {text!r}")
        return value

    read.__name__ = kind.__name__
    return read


def add_flags(flags: Iterable[Flag]) -> Callable[[argparse.ArgumentParser], None]:
    """Return what adds an analysis's own options to a parser."""

    def add(parser: argparse.ArgumentParser) -> None:
        for flag in flags:
            if flag.kind is bool:
                parser.add_argument(flag.name, action="store_true", help=flag.help)
                continue
            shown = f" ({flag.default})" if flag.default not in (None, "") and not flag.many else ""
            parser.add_argument(
                flag.name,
                type=flag.kind,
                nargs="+" if flag.many else None,
                default=flag.default,
                metavar=flag.argument.upper(),
                help=flag.help + shown,
            )

    return add


def add_tables(parser: argparse.ArgumentParser) -> None:
    """Add the ways to ask per step, and to write tables and a figure."""
    parser.add_argument("--per-step", action="store_true", help="one row per profiler step instead of one per rank")
    add_written(parser)


def add_written(parser: argparse.ArgumentParser) -> None:
    """Add what an answer can be written as."""
    parser.add_argument("--csv", metavar="FILE", help="write the main table as CSV (- for standard output)")
    parser.add_argument("--plot", metavar="FILE", help="write a figure as a page of its own (.html)")


def ask(name: str, module: str, flags: tuple[Flag, ...], options: argparse.Namespace) -> None:
    """Ask one analysis about every rank and write its answer."""
    from analyses.command_line.commands import check_outputs

    check_outputs(options, options.json, options.csv, options.plot)
    analysis = import_module(module)
    scopes = asked_scopes(options)
    found = analysis.answer(scopes, **{flag.argument: getattr(options, flag.argument) for flag in flags})
    write_answer(name, found, scopes, options, analysis)


def asked_scopes(options: argparse.Namespace) -> list[Scope]:
    """Return the stretches of all ranks that the options name: whole traces, a window of each, or every step."""
    from analyses.command_line.commands import graphs_by_rank

    choose = _chosen(options)
    return [scope for rank, graph in graphs_by_rank(options) for scope in choose(rank, graph)]


def write_answer(name: str, found: Answer, scopes: list[Scope], options: argparse.Namespace, analysis: Any) -> None:
    """Write an answer as JSON, CSV and a figure by the analysis' module; print it if none of them is asked for."""
    from analyses.answer import answer_document, answer_lines
    from analyses.command_line.commands import print_lines
    from analyses.display.charts import figure_html
    from hta_graph.export.files import write_file
    from hta_graph.export.json_text import to_json

    if options.json:
        write_file(options.json, to_json(answer_document(name, found, map(_described, scopes))))
    if options.csv:
        write_file(options.csv, found.main.to_csv(index=False, lineterminator="\n").encode())
    if options.plot:
        write_file(options.plot, figure_html(analysis.figure(found), name))
    if not (options.json or options.csv or options.plot):
        print_lines(answer_lines(found))


def _chosen(options: argparse.Namespace) -> Callable[[int, DependencyGraph], list[Scope]]:
    """Return how to cut a rank's trace into the stretches asked about."""
    from analyses.command_line.options import asked_window, check_window
    from analyses.scope import in_window, per_step, whole

    check_window(options)
    named = options.step is not None or options.annotation is not None or options.window
    if options.per_step:
        if named or options.whole:
            raise UsageError("--per-step asks about every step; leave the other window out")
        return partial(per_step, cpu_window=options.cpu_window, gpu_window=options.gpu_window)
    if not named and not options.gpu_window and not options.cpu_window:
        return lambda rank, graph: [whole(rank, graph)]
    window = asked_window(options)
    return lambda rank, graph: [in_window(rank, graph, window)]


def _described(scope: Scope) -> dict[str, Any]:
    from hta_graph.export.files import printable

    return {
        "file": printable(scope.graph.trace.path),
        "rank": scope.rank,
        "window": {"start_ns": scope.start_ns, "end_ns": scope.end_ns, "label": scope.label},
    }
