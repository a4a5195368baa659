"""The entry point of ``hta-graph``: the only place that picks an exit status.

It imports little at first, so that an interrupt in the first moments is handled.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from analyses.cli.signals import EXIT_INTERRUPTED, install_signal_handlers, reopen_closed_streams

if TYPE_CHECKING:
    from argparse import Namespace

EXIT_DONE, EXIT_NO_ANSWER, EXIT_CANNOT_COMPARE = 0, 1, 3


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0 done, 1 no answer or an unreadable input, 2 invalid usage.

    Where runs are compared for a regression, 1 means one and nothing else, and 3 that they cannot be compared.
    """
    import argparse
    import io

    from analyses.cli.outputs import resolve_answer_file, run_command
    from analyses.cli.parser import EXIT_USAGE, command_parser
    from analyses.cli.path_args import check_paths
    from analyses.display.stderr import say, shown_stages

    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    parser = command_parser(arguments)
    if not arguments:
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    options = argparse.Namespace()
    try:
        # Names in a trace may hold what the terminal's encoding cannot write.
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        options = parser.parse_args(arguments)
        resolve_answer_file(options)
        check_paths(options)
        from hta_graph.trace.memory_limit import paused_gc, within_memory  # late: help and errors need neither

        # A command that needs more memory than available ends with an error line instead of being killed.
        with paused_gc(), within_memory(getattr(options, "memory", None)), shown_stages():
            run_command(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        say("hta-graph: interrupted")
        return EXIT_INTERRUPTED
    except Exception as error:
        if (status := _status_after(error, _no_answer(options))) is None:
            raise
        if status:
            return status
    return _no_answer(options) if options.left_out else EXIT_DONE


def _status_after(error: Exception, no_answer: int) -> int | None:
    """Print an error and return the exit status that it has; None for a defect, which is raised.

    Where runs are compared for a regression a defect is no regression, either.
    """
    from analyses.display.stderr import say
    from hta_graph.base.errors import DefectError, HtaGraphError, RegressionError

    if isinstance(error, OSError):
        return _status_without_output(error, no_answer)
    if isinstance(error, MemoryError):
        say("hta-graph: not enough memory for this trace; record fewer steps, or use a machine with more memory")
        return no_answer
    if not isinstance(error, HtaGraphError):
        if no_answer == EXIT_NO_ANSWER:
            return None
        error = DefectError(f"{type(error).__name__}: {error}")
    say(f"hta-graph: {error.on_command_line}")
    is_answer = error.exit_status != EXIT_NO_ANSWER or isinstance(error, RegressionError)
    return error.exit_status if is_answer else no_answer


def _no_answer(options: Namespace) -> int:
    """Return the exit status without an answer, which is none of a regression where runs are compared for one."""
    return EXIT_NO_ANSWER if getattr(options, "fail_above", None) is None else EXIT_CANNOT_COMPARE


def _status_without_output(error: OSError, no_answer: int = EXIT_NO_ANSWER) -> int:
    """Return the exit status where standard output is closed or full, and discard what is left for it."""
    from analyses.display.stderr import say

    # The interpreter's own flush at its end must not fail once more.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):  # `… | head` has read enough: no error
        return EXIT_DONE
    say(f"hta-graph: {error.filename or 'standard output'}: {error.strerror or error}")
    return no_answer


def run() -> NoReturn:
    """Run as a program and exit without the interpreter's cleanup, which frees millions of objects one by one.

    NumPy's BLAS, which is never used, would keep a thread per core spinning after its import.
    """
    gc.disable()  # as while a command runs: what is imported stays
    install_signal_handlers()
    reopen_closed_streams()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        status = main()
    except SystemExit as stop:  # the help, or an invalid argument
        status = stop.code if isinstance(stop.code, int) else EXIT_DONE
    try:
        sys.stdout.flush()
    except OSError as error:
        status = status or _status_without_output(error)
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    run()
