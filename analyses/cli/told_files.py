"""What is told of files that cannot be read: the causes of many in one line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hta_graph.errors import HtaGraphError

__all__ = ["error_summary"]

CAUSES_LISTED = 5
"""How many causes the line about files names that cannot be read and have no line of their own."""

NUMBER = re.compile(r"\d[\d,.]*")


def error_summary(errors: Sequence[HtaGraphError]) -> str:
    """Say of how many files more there are errors, by their causes, the most frequent first.

    >>> from hta_graph.errors import TraceError
    >>> broken = TraceError("b.json", "breaks off at byte 7", "record it again")
    >>> error_summary([TraceError("a.json", "is empty"), broken])
    '… and 2 more files that cannot be read: 1 × is empty, 1 × breaks off at byte …'
    """
    causes = Counter(NUMBER.sub("…", _cause_of(error)) for error in errors).most_common(CAUSES_LISTED)
    told = [f"{count:,} × {cause}" for cause, count in causes]
    rest = len(errors) - sum(count for _, count in causes)
    told += [f"{rest:,} × another cause"] if rest else []
    return f"… and {len(errors):,} more files that cannot be read: {', '.join(told)}"


def _cause_of(error: HtaGraphError) -> str:
    """Return what an error says about its file, without the file and the remedy."""
    cause = str(error).partition(": ")[2] or str(error)
    return cause.partition("; ")[0]
