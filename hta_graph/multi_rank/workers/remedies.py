"""What helps where reading ranks in other processes fails."""

from __future__ import annotations

from hta_graph.errors import Remedy

__all__ = ["READ_FEWER_HINT", "READ_HERE_HINT", "SHOW_WHERE_HINT"]

READ_HERE_HINT = Remedy("jobs=1 reads without other processes", "--jobs 1 reads without other processes")
READ_FEWER_HINT = Remedy(
    "read fewer files at once: pass jobs or memory", "read fewer files at once with --jobs or --memory"
)
SHOW_WHERE_HINT = Remedy("jobs=1 shows where", "--jobs 1 shows where")
