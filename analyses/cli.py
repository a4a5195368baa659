"""The command line: the only place that prints and that picks an exit status."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from hta_graph import __version__
from hta_graph.errors import HtaGraphError, UsageError

if TYPE_CHECKING:
    from hta_graph.algorithms.windows import Window
    from hta_graph.graph import DependencyGraph
    from hta_graph.trace import Trace

__all__ = ["main", "run"]

DESCRIPTION = "Turn PyTorch-profiler (Kineto) traces into dependency graphs and ask questions of them."
EXIT_DONE, EXIT_NO_ANSWER, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Print one line; where an argument is missing, the usage before it."""
        if "required" in message:
            self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0 done, 1 the trace cannot answer, 2 usage."""
    parser = _parser()
    arguments = sys.argv[1:] if argv is None else list(argv)
    if not arguments:
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    options = parser.parse_args(arguments)
    from hta_graph.trace.decode import paused_gc  # late: --help answers without NumPy

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with paused_gc():
            options.run(options)
        sys.stdout.flush()
    except HtaGraphError as error:
        _say(f"hta-graph: {error}")
        return error.exit_status
    except MemoryError:
        _say("hta-graph: not enough memory for this trace; analyse a smaller recording or a bigger machine")
        return EXIT_NO_ANSWER
    except KeyboardInterrupt:
        _say("hta-graph: interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _drop_output()
    except OSError as error:
        _drop_output()
        _say(f"hta-graph: {error.strerror or error}")
        return EXIT_NO_ANSWER
    return EXIT_DONE


def _drop_output() -> None:
    """Let what is left in the buffer go nowhere, so that the interpreter's own flush at exit cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="hta-graph", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"hta-graph {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_info(commands)
    _add_critical_path(commands)
    _add_graph(commands)
    return parser


def _command(commands: Any, name: str, run: Any, summary: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
    parser.add_argument(
        "inputs", nargs="+", metavar="INPUT", help="a trace file, a folder of rank files, or several files"
    )
    parser.add_argument("--rank", type=int, metavar="N", help="of several ranks this one")
    parser.add_argument("--salvage", action="store_true", help="read the whole events of a file that breaks off")
    parser.add_argument("--json", metavar="FILE", help="write machine-readable output (- for standard output)")
    parser.set_defaults(run=run)
    return parser


def _add_info(commands: Any) -> None:
    _command(commands, "info", _info, "What is in a trace: events, lanes, steps, edges, diagnostics.")


def _add_critical_path(commands: Any) -> None:
    summary = "The critical path of a window; by default the first step that launched GPU work, else the whole trace."
    parser = _command(commands, "critical-path", _critical_path, summary)
    window = parser.add_mutually_exclusive_group()
    window.add_argument("--step", type=int, metavar="N", help="the step ProfilerStep#N")
    window.add_argument("--annotation", metavar="NAME", help="a CPU annotation by its exact name")
    window.add_argument("--window", metavar="START_NS:END_NS", help="absolute times in nanoseconds")
    window.add_argument("--whole", action="store_true", help="the whole trace")
    parser.add_argument(
        "--regex", action="store_true", help="take NAME as a regular expression that matches the whole name"
    )
    parser.add_argument(
        "--instance", metavar="I[:J]", help="instance I of the annotation, or I to J (both included), from 0"
    )
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument(
        "--cpu-window", action="store_true", help="stop at the end of the step or annotation on the CPU"
    )
    extent.add_argument(
        "--gpu-window", action="store_true", help="from the end of the previous step's GPU work to this one's"
    )
    parser.add_argument("--data-load", nargs="+", metavar="PATTERN", help="regular expressions of data-loading rows")


def _add_graph(commands: Any) -> None:
    parser = _command(
        commands, "graph", _graph, "Dump the dependency graph as JSON or Parquet; without either, count its edges."
    )
    parser.add_argument("--parquet", metavar="DIR", help="write the graph's columns as Parquet tables")


def _say(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201


def _print(lines: Sequence[str]) -> None:
    sys.stdout.write("\n".join(lines) + "\n")


def _check(options: argparse.Namespace) -> None:
    from hta_graph.export.files import check_output
    from hta_graph.trace.ranks import expand

    if options.json:
        check_output(options.json, expand([Path(item) for item in options.inputs]))


def _graphs(options: argparse.Namespace) -> Iterator[DependencyGraph]:
    """Build the graph of each rank in turn, and say what was dropped."""
    from hta_graph.build import build_graph
    from hta_graph.trace import read_traces

    for trace in read_traces(options.inputs, rank=options.rank, salvage=options.salvage, say=_say):
        _report_repairs(trace)
        yield build_graph(trace)


def _one_graph(options: argparse.Namespace) -> DependencyGraph:
    """Build the graph of the rank asked for, else of the lowest."""
    return next(_graphs(options))


def _report_repairs(trace: Trace) -> None:
    from hta_graph.trace.table import READING_DIAGNOSTICS

    if trace.salvaged:
        _say(f"{trace.path}: {trace.salvaged}")
    found = {key: count for key, count in trace.diagnostics.items() if count and key.startswith("rows_")}
    if found:
        listed = ", ".join(
            f"{count:,} {READING_DIAGNOSTICS[key].split(',')[0]} ({key})" for key, count in found.items()
        )
        _say(f"{trace.path}: {listed}")


def _info(options: argparse.Namespace) -> None:
    from analyses.info import info_document, info_lines
    from hta_graph.export.files import write_file
    from hta_graph.export.json_text import to_json

    _check(options)
    ranks = []
    for graph in _graphs(options):
        ranks.append(info_document(graph))
        if not options.json:
            _print(info_lines(ranks[-1]) + [""] * (len(ranks) > 0))
    if options.json:
        write_file(options.json, to_json({"schema": "hta-graph/info/1", "ranks": ranks}))


def _critical_path(options: argparse.Namespace) -> None:
    from analyses.path_report import path_document, path_lines
    from hta_graph.algorithms.critical_path import critical_path
    from hta_graph.export.files import write_file
    from hta_graph.export.json_text import to_json
    from hta_graph.trace.vocabulary import DATA_LOADING

    _check(options)
    window = _window(options)
    path = critical_path(_one_graph(options), window, data_load=options.data_load or DATA_LOADING)
    if options.json:
        write_file(options.json, to_json(path_document(path)))
    else:
        _print(path_lines(path))


def _window(options: argparse.Namespace) -> Window:
    from hta_graph.algorithms.windows import annotation, between, first_busy_step, step, whole

    if options.annotation is None and (options.regex or options.instance):
        raise UsageError("--regex and --instance go with --annotation")
    if options.gpu_window and (options.annotation or options.window or options.whole):
        raise UsageError("--gpu-window goes with steps only")
    if options.cpu_window and (options.window or options.whole):
        raise UsageError("--cpu-window goes with steps and annotations only")
    if options.annotation is not None:
        first, last = _instance(options.instance)
        return annotation(
            options.annotation, regex=options.regex, first=first, last=last, cpu_window=options.cpu_window
        )
    if options.window:
        return between(*_times(options.window))
    if options.whole:
        return whole()
    if options.step is not None:
        return step(options.step, cpu_window=options.cpu_window, gpu_window=options.gpu_window)
    return first_busy_step(cpu_window=options.cpu_window, gpu_window=options.gpu_window)


def _instance(text: str | None) -> tuple[int, int | None]:
    match = re.fullmatch(r"(\d{1,99})(?::(\d{1,99}))?", "0" if text is None else text)
    if not match:
        raise UsageError(f"--instance takes I or I:J, not {text!r}")
    return int(match[1]), int(match[2]) if match[2] else None


def _times(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(-?\d{1,18}|\d{19}):(-?\d{1,18}|\d{19})", text)
    if not match:
        raise UsageError(f"--window takes START_NS:END_NS, not {text!r}")
    return int(match[1]), int(match[2])


def _graph(options: argparse.Namespace) -> None:
    from analyses.info import info_document, info_lines
    from hta_graph.export.files import write_file
    from hta_graph.export.graph_json import graph_document
    from hta_graph.export.json_text import to_json
    from hta_graph.export.parquet import check_folder, save_graph

    _check(options)
    if options.parquet:
        check_folder(Path(options.parquet))
        if options.json and Path(options.json).absolute().is_relative_to(Path(options.parquet).absolute()):
            raise UsageError("--json and --parquet name the same place")
    graph = _one_graph(options)
    if options.parquet:
        save_graph(graph, options.parquet)
    if options.json:
        write_file(options.json, to_json(graph_document(graph)))
    if not options.parquet and not options.json:
        _print(info_lines(info_document(graph)))


def run() -> NoReturn:
    """Run as a program: exit without the interpreter's tidy end, which frees millions of rows one by one."""
    status = main()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        status = status or EXIT_NO_ANSWER
    os._exit(status)


if __name__ == "__main__":
    run()
