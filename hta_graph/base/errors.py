"""The errors that hta-graph raises, and what it logs: each is one line that names the file, the cause and the remedy.

Skipped files, dropped events, missing ranks and corrected clocks go to the logger ``hta_graph``, which is silent until
a program asks for them: ``logging.basicConfig()`` prints the warnings. The command line prints its own lines.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Self

from hta_graph.base.text.sanitize import one_line

MESSAGE_LIMIT = 500
"""Longest message in characters; names from a trace can be megabytes long."""


@dataclass(frozen=True)
class Remedy:
    """What to do about an error: in Python, and on the command line."""

    python: str
    command_line: str


class HtaGraphError(Exception):
    r"""Base of every error that hta-graph raises on purpose.

    Its text gives the remedy in Python; ``on_command_line`` is the same with the remedy on the command line.

    >>> error = HtaGraphError("two\nlines", Remedy("pass force=True", "--force replaces it"))
    >>> str(error), error.on_command_line
    ('two lines; pass force=True', 'two lines; --force replaces it')
    """

    exit_status = 1

    def __init__(self, message: str, remedy: Remedy | str = "") -> None:
        words = remedy if isinstance(remedy, Remedy) else Remedy(remedy, remedy)
        self.on_command_line = _one_line(message, words.command_line)
        super().__init__(_one_line(message, words.python))

    def to_keep(self) -> Self:
        """Return it without the places that it came through, which would keep what was read there."""
        self.__context__ = self.__cause__ = None
        return self.with_traceback(None)


def _one_line(message: str, remedy: str) -> str:
    line = one_line(f"{message}; {remedy}" if remedy else message)
    return line if len(line) <= MESSAGE_LIMIT else line[: MESSAGE_LIMIT - 1] + "…"


class TraceError(HtaGraphError):
    """A trace file cannot be read or is not a trace."""

    def __init__(self, path: object, cause: str, remedy: Remedy | str = "") -> None:
        super().__init__(f"{path}: {cause}", remedy)


class NotATraceError(TraceError):
    """A file is readable but is not a trace, such as a host execution trace."""


class TooLargeError(TraceError):
    """Reading a file needs more memory than the limit allows."""


class QueryError(HtaGraphError):
    """A graph cannot answer: the step, annotation, event or window is not in the trace."""


class PatternError(QueryError):
    """A regular expression is invalid or takes too long."""

    exit_status = 2


class OutputError(HtaGraphError):
    """An output cannot be written."""


class LocationError(HtaGraphError):
    """A location cannot be resolved: a URL of an unknown kind, or an invalid file list."""


class MissingExtraError(HtaGraphError):
    """An optional package is not installed."""

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} needs an optional package; install it with: pip install 'hta-graph[{extra}]'")


class MissingProgramError(HtaGraphError):
    """Graphviz's ``dot`` is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "SVG and PNG pictures need the graphviz program dot; install it with: apt-get install graphviz, "
            "or write a file whose name ends in .dot"
        )


class ClusterError(HtaGraphError):
    """A Dask cluster cannot be reached, or cannot run a task."""


class DefectError(HtaGraphError):
    """A result contradicts itself: a defect of this package, never an answer."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; this is a defect of hta-graph, please report it")


class RegressionError(HtaGraphError):
    """A run is slower than the one that it is compared with."""


class CannotCompareError(HtaGraphError):
    """Two runs cannot be compared, so that nothing is known; ``why`` is a short code."""

    exit_status = 3

    def __init__(self, why: str, message: str, remedy: str = "") -> None:
        self.why = why
        super().__init__(message, remedy)


class UsageError(HtaGraphError):
    """Arguments are invalid or contradict each other."""

    exit_status = 2


LOGGER_NAME = "hta_graph"
INFO, WARNING = 20, 30
"""As :mod:`logging` has them."""


def log_warning(line: str) -> None:
    """Log that something is lost or doubtful."""
    _log(WARNING, line)


def log_info(line: str) -> None:
    """Log that something was corrected."""
    _log(INFO, line)


def _log(level: int, line: str) -> None:
    # Who has not imported it does not listen either: commands start without it.
    if logging := sys.modules.get("logging"):
        logger = logging.getLogger(LOGGER_NAME)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())  # else Python would print what nobody asked for
        logger.log(level, "%s", one_line(line))
