"""What a command prints or writes about graphs in the cache is kept next to them: asked again, it is only read."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyses.cli.rank_inputs import print_lines
from analyses.display.text_layout import Line, TextTable

if TYPE_CHECKING:
    from hta_graph.graph.dependency_graph import DependencyGraph

NOT_ASKED = (
    "parser_of_all", "run", "left_out", "cache", "no_cache", "jobs", "memory", "cluster",
    "answer", "json", "csv", "plot", "wide", "output",
)  # fmt: skip
"""Options that change no answer: who reads, and where the output goes."""
NEVER_KEPT = ("capture", "flight", "overlay", "dot", "peaks", "fail_above")
"""Options with which nothing is kept: the files that they name may change, or they do more than write an answer."""


def kept_pieces(
    command: str,
    options: argparse.Namespace,
    graphs: Iterable[DependencyGraph],
    compute: Callable[[], Iterable[bytes]],
    is_sound: Callable[[bytes], bool],
    *,
    is_whole: Callable[[], bool] = lambda: True,
) -> Iterable[bytes]:
    """Return what a command writes about graphs.

    Args:
        command: its name and the form.
        options: its command line.
        graphs: all that its answer is about.
        compute: returns what it writes.
        is_sound: returns whether that has the form that its reader expects.
        is_whole: returns, after that, whether this is all that the command has to say.
    """
    asked = vars(options)
    if options.left_out or any(asked.get(name) not in (None, ()) for name in NEVER_KEPT):
        return compute()
    from hta_graph.graph_cache.kept_answers import kept_output

    question = {name: value for name, value in sorted(asked.items()) if name not in NOT_ASKED}
    return kept_output([*graphs], [command, _plain(question), _version()], compute, is_sound, is_whole)


def print_kept_lines(
    command: str, options: argparse.Namespace, graphs: Iterable[DependencyGraph], compute: Callable[[], Sequence[Line]]
) -> None:
    """Print the lines of a command about graphs."""
    pieces = kept_pieces(f"{command} as text", options, graphs, lambda: _encoded(compute()), _are_lines)
    print_lines(_decoded(b"".join(pieces)), wide=options.wide)


def write_kept_json(
    command: str,
    options: argparse.Namespace,
    graphs: Iterable[DependencyGraph],
    compute: Callable[[], Mapping[str, Any]],
) -> None:
    """Write the document of a command about graphs."""
    from analyses.cli.outputs import json_pieces
    from hta_graph.storage.atomic_write import write_file

    def pieces() -> Iterable[bytes]:
        return json_pieces(compute(), options.left_out)

    write_file(options.json, kept_pieces(f"{command} as JSON", options, graphs, pieces, _is_document))


def _encoded(lines: Sequence[Line]) -> Iterator[bytes]:
    yield json.dumps([line if isinstance(line, str) else vars(line) for line in lines], default=list).encode()


def _decoded(text: bytes) -> list[Line]:
    return [line if isinstance(line, str) else TextTable(**line) for line in json.loads(text)]


def _are_lines(text: bytes) -> bool:
    try:
        return text.startswith(b"[") and all(isinstance(line, str) or _is_table(line) for line in _decoded(text))
    except (ValueError, TypeError, AttributeError):
        return False


def _is_table(table: TextTable) -> bool:
    """Return whether a table is one that was printed: cells of text, and columns that exist."""
    widths = {len(row) for row in (table.header, *table.rows) if row}
    cells = (cell for row in (table.header, *table.rows, table.bases, table.bases.values()) for cell in row)
    places = (*table.texts, *table.names, *table.words, *table.order)
    is_text = all(isinstance(cell, str) for cell in (*cells, table.caption, table.more))
    return is_text and len(widths) == 1 and all(type(at) is int and 0 <= at < max(widths) for at in places)


def _is_document(text: bytes) -> bool:
    return text.startswith(b'{"schema":"hta-graph/') and text.endswith(b"}\n")


def _plain(question: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(question, default=str))


@cache
def _version() -> list[str]:
    from hta_graph.graph_cache.cached_graphs import sources_version

    return sources_version(Path(__file__).parents[1])
