"""The errors that hta-graph raises: each is one line that names the file, the place, the cause and the remedy."""

from __future__ import annotations

from pathlib import Path

__all__ = [
    "HtaGraphError",
    "MissingExtraError",
    "MissingProgramError",
    "NotATraceError",
    "OutputError",
    "QueryError",
    "TraceError",
    "UsageError",
]

MESSAGE_LIMIT = 500
"""Longest message in characters; names from a trace can be megabytes long."""


class HtaGraphError(Exception):
    r"""Base of every error that hta-graph raises on purpose.

    >>> str(HtaGraphError("two\nlines"))
    'two lines'
    """

    exit_status = 1

    def __init__(self, message: str) -> None:
        line = " ".join(message.split())
        super().__init__(line if len(line) <= MESSAGE_LIMIT else line[: MESSAGE_LIMIT - 1] + "…")


class TraceError(HtaGraphError):
    """A trace file cannot be read or is not a trace."""

    def __init__(self, path: Path | str, cause: str, remedy: str = "") -> None:
        super().__init__(f"{path}: {cause}" + (f"; {remedy}" if remedy else ""))


class NotATraceError(TraceError):
    """A file is readable but holds something else than a trace, such as a host execution trace."""


class QueryError(HtaGraphError):
    """A graph cannot answer the question: a step, annotation, event or window that is not in the trace."""


class OutputError(HtaGraphError):
    """An output cannot be written."""


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


class UsageError(HtaGraphError):
    """The command line contradicts itself."""

    exit_status = 2
