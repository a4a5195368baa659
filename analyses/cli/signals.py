"""The program as a process: signals that end it, and standard streams that were closed before it began."""

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
    """Put something in the place of standard streams that are closed, so that no file of ours gets their number.

    What is written to a standard output that is closed is an error; what is said on a closed standard error is lost.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free is the one that is looked at: those below are open by now.
            os.open(os.devnull, mode)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - a number is no path, and stays open
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def install_signal_handlers() -> None:
    """Let an interrupt, a request to end and a terminal that closes leave nothing half written and no process.

    A signal that whoever started the program has switched off stays so, as that of ``nohup``.
    """
    for name in SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _exit_on_signal)


def _exit_on_signal(number: int, _: object) -> NoReturn:
    """Tidy up and leave at once: an exception could be swallowed by whatever is imported or tidied up just now."""
    for name in SIGNALS:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    # Nothing runs and nothing is half written where what starts processes, or writes, has not even been imported.
    if "subprocess" in sys.modules:
        _kill_children()
    if files := sys.modules.get("hta_graph.storage.atomic_write"):
        with suppress(Exception):
            files.remove_unfinished()
    with suppress(OSError):
        if os.isatty(2):
            os.write(2, CLEAR_LINE + SHOW_CURSOR)
        if number == signal.SIGINT:
            os.write(2, b"hta-graph: interrupted\n")
    os._exit(128 + number)


def _kill_children() -> None:
    """End what reads ranks or draws for this process; elsewhere than on Linux it ends when it finds its pipe closed."""
    from pathlib import Path

    for children in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError, ValueError):
            for child in map(int, children.read_text().split()):
                os.kill(child, signal.SIGKILL)
