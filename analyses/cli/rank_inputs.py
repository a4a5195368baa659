"""What a command adds to the source of its ranks: its options, progress, and lines about repairs and errors.

Files that cannot be read are left out; their errors are printed, the rest as a summary.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from analyses.display.stderr import say, shown_progress
from hta_graph.base.memory import keep_freed_memory
from hta_graph.base.storage.location import Location
from hta_graph.multi_rank.job_source import JobSource, captures_of

if TYPE_CHECKING:
    from hta_graph.base.errors import HtaGraphError
    from hta_graph.graph.dependency_graph import DependencyGraph
    from hta_graph.multi_rank.summary.summarize import SummaryRequest
    from hta_graph.store.cache_folder import CacheFolder
    from hta_graph.store.trace_cache import GraphCache


CAUSES_LISTED = 5
"""The number of causes in the summary of errors."""

NUMBER = re.compile(r"\d[\d,.]*")


def error_summary(errors: Sequence[HtaGraphError]) -> str:
    """Summarize the errors of further files by cause, the most frequent first.

    >>> from hta_graph.base.errors import TraceError
    >>> broken = TraceError("b.json", "truncated at byte 7", "record it again")
    >>> error_summary([TraceError("a.json", "is empty"), broken])
    '… and 2 more files that cannot be read: 1 × is empty, 1 × truncated at byte …'
    """
    causes = Counter(NUMBER.sub("…", _cause_of(error)) for error in errors).most_common(CAUSES_LISTED)
    listed = [f"{count:,} × {cause}" for cause, count in causes]
    rest = len(errors) - sum(count for _, count in causes)
    listed += [f"{rest:,} × another cause"] if rest else []
    return f"… and {len(errors):,} more files that cannot be read: {', '.join(listed)}"


def _cause_of(error: HtaGraphError) -> str:
    """Return an error's cause, without the file and the remedy."""
    cause = str(error).partition(": ")[2] or str(error)
    return cause.partition("; ")[0]


ERRORS_LISTED = 10
"""The number of files that cannot be read with a line of their own."""


@dataclass(frozen=True, kw_only=True)
class RankInputs(JobSource):
    """The ranks of a command line; files that cannot be read are printed and kept in ``left_out``."""

    left_out: list[HtaGraphError] = field(default_factory=list)

    @classmethod
    def of(cls, options: argparse.Namespace, inputs: Sequence[str | Location] | None = None) -> RankInputs:
        """Return the inputs of a command line; some commands lack the options for multiple ranks.

        ``inputs`` are those of one side of a comparison.
        """
        ignores_records = getattr(options, "ignore_records", False)
        return cls(
            inputs=options.inputs if inputs is None else inputs,
            ranks=None if options.rank is None else [options.rank],
            salvage=options.salvage,
            jobs=getattr(options, "jobs", None),
            memory=getattr(options, "memory", None),
            cluster=getattr(options, "cluster", None),
            flight=getattr(options, "flight", None) or None,
            cache=None if ignores_records else graph_cache(options),
            summaries=getattr(options, "summaries", None),
            step_patterns=tuple(getattr(options, "step_pattern", None) or ()),
            ignore_records=ignores_records,
            captures=getattr(options, "capture", ()),
            left_out=options.left_out,
            report=partial(leave_out, options.left_out),
            say=say,
            progress=shown_progress,
        )

    def graphs(
        self, *, communications: bool = False, summary: SummaryRequest | None = None
    ) -> Iterator[DependencyGraph]:
        """Build the graph of each rank; print repairs and errors."""
        keep_freed_memory()
        known = None if communications or self.cluster is not None else self._cached_graph()
        read = super().graphs(communications=communications, summary=summary) if known is None else (known,)
        repaired, remedy = 0, ""
        try:
            for found in read:
                remedy = "; run info --json FILE to list them"
                repaired += bool(found.trace.repairs)
                for line in found.trace.repairs if repaired <= ERRORS_LISTED else ():
                    say(line)
                yield found
        finally:
            say_further_errors(self.left_out, remedy)
        if repaired > ERRORS_LISTED:
            say(f"… and {repaired - ERRORS_LISTED:,} more traces were repaired; run info to list them")

    def _cached_graph(self) -> DependencyGraph | None:
        """Return the graph of a single file from the cache, before what reads traces is imported."""
        if self.cache is None or self.captures or len(self.files) != 1:
            return None
        graph = self.cache.only_graph(self.files[0], self.ranks, self.step_patterns, salvage=self.salvage)
        # What is recorded of the kernels of replayed graphs is found by who reads traces.
        if graph is None or graph.event_flags.graph_launch_call.any():
            return None
        from hta_graph.store.trace_cache import with_kept_answers

        return with_kept_answers(graph, self.cache, salvage=self.salvage)

    def one_graph(self) -> DependencyGraph:
        """Build the graph of ``--rank``, else of the lowest rank that can be read."""
        found = super().one_graph()
        if self.left_out:
            say(f"continuing with {found.path}, rank {found.rank}")
        elif self.ranks is None and (files := len({*self.files} - {*captures_of(found)})) > 1:
            say(f"analyzing rank {found.rank} of {files} files; use --rank N for another one")
        return found


def leave_out(left_out: list[HtaGraphError], error: HtaGraphError) -> None:
    """Continue without a file; the first errors are printed one by one."""
    left_out.append(error)
    if len(left_out) <= ERRORS_LISTED:
        say(f"hta-graph: {error.on_command_line}")


def say_further_errors(left_out: Sequence[HtaGraphError], remedy: str = "") -> None:
    """Print a summary of the files left out that had no line of their own."""
    if len(left_out) > ERRORS_LISTED:
        say(f"hta-graph: {error_summary(left_out[ERRORS_LISTED:])}{remedy}")


def graph_cache(options: argparse.Namespace) -> GraphCache | None:
    """Return the cache of a command line, one for all its inputs; None where it is turned off, or there is no folder.

    Raises:
        OutputError: the folder that is named cannot be used.
    """
    if getattr(options, "no_cache", False):
        return None
    opened: GraphCache | None
    if hasattr(options, "opened_cache"):
        opened = options.opened_cache
        return opened
    from hta_graph.store.trace_cache import GraphCache

    folder = cache_folder(getattr(options, "cache", None))
    opened = None if folder is None else GraphCache(folder)
    options.opened_cache = opened
    return opened


def cache_folder(named: str | None = None) -> CacheFolder | None:
    """Return a named folder for a cache, else the user's; None where that is turned off, or there is none.

    Raises:
        OutputError: the folder that is named cannot be used.
    """
    from hta_graph.store.cache_folder import CacheFolder, default_cache_folder

    folder = default_cache_folder() if named is None else named_cache_folder(named)
    return None if folder is None else CacheFolder(folder, say)


def named_cache_folder(name: str) -> Path:
    """Return the folder that a command line names for the cache; create it if it does not exist.

    Raises:
        OutputError: it cannot be created.
    """
    from hta_graph.base.errors import OutputError
    from hta_graph.store.cache_folder import local_folder

    folder = local_folder(name)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{name}: cannot be created: {error.strerror or error}; name another folder") from None
    return folder.absolute()
