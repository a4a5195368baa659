"""What a command prints or writes about files is kept in the cache: asked again, it is only read."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyses.cli.path_args import InputFile, InputTraces, OutputFile
from analyses.cli.rank_inputs import graph_cache, print_lines
from analyses.display.stderr import heard, say
from analyses.display.text_layout import Line, TextTable

if TYPE_CHECKING:
    from hta_graph.graph_cache.kept_outputs import KeptOutputs

INPUTS = ("inputs", "control", "test")
"""Options that name the files which an answer is about."""
OUTPUTS = ("answer", "json", "csv", "plot", "output")
NOT_ASKED = (
    "parser_of_all",
    "run",
    "left_out",
    "cache",
    "no_cache",
    "opened_cache",
    "jobs",
    "cluster",
    "wide",
    *OUTPUTS,
)
"""Options that change no answer: who reads, and where the output goes."""


def kept_pieces(
    command: str,
    options: argparse.Namespace,
    compute: Callable[[], Iterable[bytes]],
    is_sound: Callable[[bytes], bool],
) -> Iterable[bytes]:
    """Return what a command writes.

    Args:
        command: its name and the form.
        options: its command line.
        compute: reads the files and returns what it writes.
        is_sound: returns whether that has the form that its reader expects.
    """
    kept = None if _does_more(options) else _kept_outputs(options)
    if kept is None:
        return compute()
    asked = {name: value for name, value in sorted(vars(options).items()) if name not in NOT_ASKED}
    question = [command, _plain(asked), _version()]
    entry = kept.find(question)
    if entry is not None and is_sound(text := bytes(entry.text)) and _are_texts(entry.record.get("said")):
        for line in entry.record["said"]:
            say(line)
        return [text]
    with heard() as said:
        pieces = compute()
    return pieces if options.left_out else kept.while_written(question, pieces, {"said": said})


def _does_more(options: argparse.Namespace) -> bool:
    """Return whether an answer rests on a file besides the inputs, or the command does more than write it."""
    others = [value for name, value in vars(options).items() if name not in (*INPUTS, *OUTPUTS)]
    named = [item for value in others for item in (value if isinstance(value, (list, tuple)) else [value])]
    if any(isinstance(item, (InputFile, InputTraces, OutputFile)) for item in named):
        return True
    return bool(options.left_out) or getattr(options, "fail_above", None) is not None


def _kept_outputs(options: argparse.Namespace) -> KeptOutputs | None:
    known = graph_cache(options)
    if known is None:
        return None
    from hta_graph.graph_cache.kept_outputs import KeptOutputs

    given = [getattr(options, name, ()) for name in INPUTS]
    return KeptOutputs.about(known, [item for one in given for item in ([one] if isinstance(one, str) else one)])


def print_kept_lines(command: str, options: argparse.Namespace, compute: Callable[[], Sequence[Line]]) -> None:
    """Print the lines of a command."""
    pieces = kept_pieces(f"{command} as text", options, lambda: _encoded(compute()), _are_lines)
    print_lines(_decoded(b"".join(pieces)), wide=options.wide)


def write_kept_json(command: str, options: argparse.Namespace, compute: Callable[[], Mapping[str, Any]]) -> None:
    """Write the document of a command."""
    from analyses.cli.outputs import json_pieces
    from hta_graph.base.storage.atomic_write import write_file

    def pieces() -> Iterable[bytes]:
        return json_pieces(compute(), options.left_out)

    write_file(options.json, kept_pieces(f"{command} as JSON", options, pieces, _is_document))


def _are_texts(said: Any) -> bool:
    return isinstance(said, list) and all(isinstance(line, str) for line in said)


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
    from hta_graph.graph_cache.trace_cache import sources_version

    return sources_version(Path(__file__).parents[1])
