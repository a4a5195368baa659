"""The program as a process: signals that end it, and standard streams that are closed at its start."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

EXIT_INTERRUPTED = 130
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
