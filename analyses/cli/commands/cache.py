"""cache: what the cache of graphs holds, its size, and how it is emptied."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from analyses.cli.command import Command
from analyses.cli.outputs import print_lines
from analyses.cli.path_args import ReusedFolder

if TYPE_CHECKING:
    from pathlib import Path

    from analyses.display.text_layout import Line
    from hta_graph.store.cache_folder import EntryFile


def _add_cache_command(parser: argparse.ArgumentParser) -> None:
    """Add which cache, and whether it is emptied."""
    parser.add_argument("--cache", type=ReusedFolder, metavar="DIR", help="folder (default: the user's cache folder)")
    parser.add_argument("--clear", action="store_true", help="remove all entries")


def _run_cache(options: argparse.Namespace) -> None:
    """List the traces in the cache, or remove them.

    Raises:
        OutputError: an entry cannot be removed, or the folder that is named is none.
    """
    from hta_graph.base.errors import OutputError
    from hta_graph.store.cache_folder import CacheFolder, default_cache_folder, local_folder

    folder = default_cache_folder() if options.cache is None else local_folder(options.cache)
    if folder is None:
        print_lines(["the cache is turned off; --cache DIR names a folder"])
        return
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{options.cache}: not a local folder; name one for the cache")
    cache = CacheFolder(folder, lambda _: None)
    if options.clear:
        try:
            count, size = cache.clear()
        except OSError as error:
            raise OutputError(f"{folder}: cannot be cleared: {error.strerror or error}") from None
        print_lines([f"{folder}: {count:,} entries removed, {size / 1e6:,.1f} MB"])
        return
    print_lines(_cache_lines(folder, cache.entries(), cache.most_bytes))


def _cache_lines(folder: Path, entries: list[EntryFile], most_bytes: int) -> list[Line]:
    """List the traces, the one first that was used last."""
    from datetime import datetime

    from analyses.display.sentence_format import counted
    from analyses.display.text_layout import table

    traces: dict[str, list[tuple[EntryFile, str]]] = {}
    for entry in reversed(entries):
        record = entry.record()
        content = str(record.get("content", entry.path.name))
        traces.setdefault(content, []).append((entry, str(record.get("file", "(damaged)"))))
    size = sum(entry.size for entry in entries)
    first = f"{folder}: {counted(len(traces), 'trace')}, {size / 1e6:,.1f} MB of at most {most_bytes / 1e9:,.1f} GB"
    rows = [
        [
            found[0][1],
            f"{len(found):,}",
            f"{sum(entry.size for entry, _ in found) / 1e6:,.1f}",
            datetime.fromtimestamp(found[0][0].used_s).astimezone().strftime("%Y-%m-%d %H:%M"),
        ]
        for found in traces.values()
    ]
    return [first, *table(rows, ["trace", "entries", "MB", "last used"], left=[0, 3])]


CACHE = Command(
    name="cache",
    help="List or clear the cache of graphs",
    more="After the first question about a trace, its graph lies in this cache; commands take it from there.",
    examples=("cache",),
    page="cache.md",
    options=(_add_cache_command,),
    run=_run_cache,
)
