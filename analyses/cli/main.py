"""The entry point of ``hta-graph``: the only place that picks an exit status; signals end it, closed streams reopen.

It imports little at first, so that an interrupt in the first moments is handled.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from argparse import Namespace

EXIT_DONE, EXIT_NO_ANSWER, EXIT_CANNOT_COMPARE, EXIT_INTERRUPTED = 0, 1, 3, 130


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


SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
CLEAR_LINE, SHOW_CURSOR = b"\r\x1b[K", b"\x1b[?25h"


def reopen_closed_streams() -> None:
    """Replace closed standard streams, so that no opened file gets their number.

    Writing to a closed standard output is an error; messages on a closed standard error are lost.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            # open() takes the lowest free number, which is this one: those below are open.
            os.open(os.devnull, mode)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - stays open
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def install_signal_handlers() -> None:
    """Handle signals that end the program, so that no partial file and no process remains.

    A signal that is ignored at the start, as by ``nohup``, stays ignored.
    """
    for name in SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _exit_on_signal)


def _exit_on_signal(number: int, _: object) -> NoReturn:
    """Clean up and exit at once: an exception could be swallowed by an import or by cleanup code."""
    for name in SIGNALS:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    # If the modules that start processes or write files are not imported, nothing is left to clean up.
    if "subprocess" in sys.modules:
        _kill_children()
    if files := sys.modules.get("hta_graph.base.storage.atomic_write"):
        with suppress(Exception):
            files.remove_unfinished()
    with suppress(OSError):
        if os.isatty(2):
            os.write(2, CLEAR_LINE + SHOW_CURSOR)
        if number == signal.SIGINT:
            os.write(2, b"hta-graph: interrupted\n")
    os._exit(128 + number)


def _kill_children() -> None:
    """End the child processes; on other systems than Linux they end when their pipe closes."""
    from pathlib import Path

    for children in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError, ValueError):
            for child in map(int, children.read_text().split()):
                os.kill(child, signal.SIGKILL)


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
