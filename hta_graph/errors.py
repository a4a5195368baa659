"""The errors that hta-graph raises: each is one line that names the file, the place, the cause and the remedy."""

from __future__ import annotations

from dataclasses import dataclass

from hta_graph.text.sanitize import one_line

MESSAGE_LIMIT = 500
"""Longest message in characters; names from a trace can be megabytes long."""


@dataclass(frozen=True)
class Remedy:
    """What to do about an error, in the words of Python and in those of the command line."""

    python: str
    command_line: str


class HtaGraphError(Exception):
    r"""Base of every error that hta-graph raises on purpose.

    Its text speaks Python; ``on_command_line`` is the same for someone at a terminal.

    >>> error = HtaGraphError("two\nlines", Remedy("pass force=True", "--force replaces it"))
    >>> str(error), error.on_command_line
    ('two lines; pass force=True', 'two lines; --force replaces it')
    """

    exit_status = 1

    def __init__(self, message: str, remedy: Remedy | str = "") -> None:
        words = remedy if isinstance(remedy, Remedy) else Remedy(remedy, remedy)
        self.on_command_line = _one_line(message, words.command_line)
        super().__init__(_one_line(message, words.python))


def _one_line(message: str, remedy: str) -> str:
    line = one_line(f"{message}; {remedy}" if remedy else message)
    return line if len(line) <= MESSAGE_LIMIT else line[: MESSAGE_LIMIT - 1] + "…"


class TraceError(HtaGraphError):
    """A trace file cannot be read or is not a trace."""

    def __init__(self, path: object, cause: str, remedy: Remedy | str = "") -> None:
        super().__init__(f"{path}: {cause}", remedy)


class NotATraceError(TraceError):
    """A file is readable but holds something else than a trace, such as a host execution trace."""


class TooLargeError(TraceError):
    """Reading a file takes more memory than it may."""


class QueryError(HtaGraphError):
    """A graph cannot answer the question: a step, annotation, event or window that is not in the trace."""


class PatternError(QueryError):
    """A regular expression is none, or takes too long."""

    exit_status = 2


class OutputError(HtaGraphError):
    """An output cannot be written."""


class LocationError(HtaGraphError):
    """A name that was given leads nowhere: a URL of a kind that is not known, a list of files that is none."""


class MissingExtraError(HtaGraphError):
    """An optional package is not installed."""

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} needs an optional package; install it with: pip install 'hta-graph[{extra}]'")


class MissingProgramError(HtaGraphError):
    """Graphviz's ``dot`` is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "a picture as SVG or PNG needs graphviz's program dot; install it with: apt-get install graphviz "
            "(a name that ends in .dot works without it)"
        )


class ClusterError(HtaGraphError):
    """A Dask cluster cannot be reached, or cannot run what it is asked."""


class DefectError(HtaGraphError):
    """A result contradicts itself: a defect of this package, which must not pass for an answer."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; this is a defect of hta-graph, please report it")


class UsageError(HtaGraphError):
    """The command line contradicts itself."""

    exit_status = 2
