"""The command line: the only place that prints and that picks an exit status."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from typing import NoReturn

from analyses.command_line.all_commands import COMMANDS, Command, CommandGroup
from analyses.command_line.asked_ranks import say
from hta_graph import __version__
from hta_graph.errors import HtaGraphError

__all__ = ["main", "run"]

DESCRIPTION = "Turn PyTorch-profiler (Kineto) traces into dependency graphs and ask questions of them."
EXIT_DONE, EXIT_NO_ANSWER, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Print one line; where an argument is missing, the usage before it."""
        # Who forgot an argument needs to see which ones there are; who mistyped one needs its name only.
        if "required" in message:
            self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0 done, 1 the trace cannot answer, 2 usage."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    parser = _whole_parser(arguments)
    if not arguments:
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    options = parser.parse_args(arguments)
    from hta_graph.trace.allowance import within_memory  # late: --help answers without NumPy
    from hta_graph.trace.reader import paused_gc

    # Names in a trace may hold what the terminal's encoding cannot write.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with paused_gc(), within_memory(getattr(options, "memory", None)):
            options.run(options)
        sys.stdout.flush()
    except HtaGraphError as error:
        say(f"hta-graph: {error.on_command_line}")
        return error.exit_status
    except MemoryError:
        say("hta-graph: not enough memory for this trace; analyse a smaller recording or a bigger machine")
        return EXIT_NO_ANSWER
    except KeyboardInterrupt:
        say("hta-graph: interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # `… | head` has seen enough: no error
        _drop_output()
    except OSError as error:
        _drop_output()
        say(f"hta-graph: {error.strerror or error}")
        return EXIT_NO_ANSWER
    return EXIT_NO_ANSWER if options.left_out else EXIT_DONE


def _drop_output() -> None:
    """Let what is left in the buffer go nowhere, so that the interpreter's own flush at exit cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _whole_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Make the parser of all commands, with the options of those that a command line names."""
    parser = OneLineParser(prog="hta-graph", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"hta-graph {__version__}")
    _add_commands(parser, COMMANDS, words)
    return parser


def _add_commands(
    parser: argparse.ArgumentParser, commands: Iterable[Command | CommandGroup], words: Sequence[str]
) -> None:
    """Add the command or group that the words begin with; all where they begin with none, for the help and errors."""
    under = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in [command for command in commands if command.name in words[:1]] or commands:
        own = under.add_parser(command.name, help=command.summary, description=command.summary, allow_abbrev=False)
        if isinstance(command, CommandGroup):
            _add_commands(own, command.commands, words[1:])
            continue
        # The options of thirty commands take longer to make than the help takes to print: the others stay without.
        for add in command.options if command.name in words else ():
            add(own)
        # Each run has its own list of ranks that could not be read: it decides the exit status.
        own.set_defaults(run=command.run, left_out=[])


def _end_by_signal(number: int, _: object) -> NoReturn:
    """Leave by an exception, so that what is half written is taken away."""
    sys.exit(128 + number)


def run() -> NoReturn:
    """Run as a program: exit without the interpreter's tidy end, which frees millions of rows one by one.

    NumPy's BLAS, which nothing here uses, would keep a thread per core spinning from its import on.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    signal.signal(signal.SIGTERM, _end_by_signal)
    status = main()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        status = status or EXIT_NO_ANSWER
    os._exit(status)


if __name__ == "__main__":
    run()
