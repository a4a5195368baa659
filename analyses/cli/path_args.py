"""The paths on a command line, by how they are used, and the check of all of them before any work.

An option that names a file has one of these types. The check finds them by type, so no command can skip it.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Self

from hta_graph.base.errors import TraceError
from hta_graph.base.storage.location import Location, expand_file_lists, is_remote, resolve_location


class PathArgument(str):
    """A file or folder as written on a command line."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Refuse an empty name, which often comes from an unset shell variable."""
        if not text:
            raise argparse.ArgumentTypeError("expected a file name, got an empty one")
        if "\0" in text:
            raise argparse.ArgumentTypeError(f"expected a file name, got {text!r}")
        return super().__new__(cls, text)


class InputTraces(PathArgument):
    """A trace, a dump, or a folder of them."""

    __slots__ = ()


class InputFolder(PathArgument):
    """A workload or a log: a folder with any files, or a file with others next to it."""

    __slots__ = ()


class InputFile(PathArgument):
    """A file that is read, or a known name for its content."""

    __slots__ = ()


class OutputFile(PathArgument):
    """A file that is written; ``-`` is standard output. Where it has a kind, it replaces only files of this kind."""

    __slots__ = ()
    kind = ""


class JsonFile(OutputFile):
    """A file that gets an answer as JSON."""

    __slots__ = ()
    kind = "JSON answer of hta-graph"


class BaselineFile(OutputFile):
    """A file that gets a baseline."""

    __slots__ = ()
    kind = "baseline of hta-graph"


class AnswerFile(OutputFile):
    """A file that gets an answer, in the format that its suffix selects."""

    __slots__ = ()
    kind = "text"


class OutputFolder(PathArgument):
    """A folder that is replaced as a whole."""

    __slots__ = ()


class ReusedFolder(PathArgument):
    """A folder for files that later runs reuse; other files in it stay."""

    __slots__ = ()


class OutputFileOrFolder(OutputFile):
    """A file that is written, or an existing folder that files are added to."""

    __slots__ = ()


def check_paths(options: argparse.Namespace) -> None:
    """Refuse inputs that do not exist, and outputs that cannot be written or would overwrite an input or each other.

    A command of whose answer a missing input is a part looks for inputs itself.

    Raises:
        OutputError: an output cannot be written.
        TraceError: an input does not exist.
    """
    named = list(_path_arguments(options))
    for item in named:
        if isinstance(item, (InputTraces, InputFolder)) and not getattr(options, "checks_inputs", False):
            check_exists(item)
    folders = [resolve_location(item) for item in named if isinstance(item, OutputFolder)]
    # A command checks the names of files that it adds to a folder itself.
    files = [
        item
        for item in named
        if isinstance(item, OutputFile)
        and not (isinstance(item, OutputFileOrFolder) and resolve_location(item).is_dir())
    ]
    # Folders are expanded only where something is written: a table on the terminal overwrites nothing.
    if files or folders:
        # late: --help needs nothing that writes
        from hta_graph.base.storage.output_paths import check_outputs, check_replaced

        check_outputs(files, input_files(options), folders)
        for item in files:
            if item.kind:
                check_replaced(item, item.kind)


PATTERN_OR_LIST = re.compile(r"[*?\[]|^@")


def check_exists(name: str) -> None:
    """Refuse a local file that is not there, before any reader is imported.

    Raises:
        TraceError: it does not exist.
    """
    place = resolve_location(name)
    if PATTERN_OR_LIST.search(name) or is_remote(place) or os.path.lexists(place):
        return
    if name == "-":
        raise TraceError(name, "no such file", "to read standard input, name /dev/stdin")
    from hta_graph.base.text.shorten import closest_names

    with suppress(OSError, ValueError):
        if close := closest_names(place.name, [path.name for path in place.parent.iterdir()], 1):
            raise TraceError(place, "no such file", f"did you mean {place.parent / close[0]}?")
    raise TraceError(place, "no such file")


def input_files(options: argparse.Namespace) -> list[Location]:
    """Return every file that a command may read.

    Raises:
        TraceError: one does not exist.
    """
    from hta_graph.trace.rank_files import FLIGHT_FOLDER, expand_inputs

    found: list[Location] = []
    for item in _path_arguments(options):
        if isinstance(item, InputTraces):
            for path in expand_file_lists(item):
                is_absent = getattr(options, "checks_inputs", False) and not (is_remote(path) or path.exists())
                found += [path] if is_absent else expand_inputs([path])
                # Dumps in this folder are read without an option.
                found += (path if path.is_dir() else path.parent).glob(f"{FLIGHT_FOLDER}/*")
        elif isinstance(item, InputFile):
            found.append(resolve_location(item))
        elif isinstance(item, InputFolder):
            path = resolve_location(item)
            found += path.iterdir() if path.is_dir() else [path, *path.parent.glob(f"*{path.suffix}")]
    return found


def _path_arguments(options: argparse.Namespace) -> Iterator[PathArgument]:
    for value in vars(options).values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, PathArgument):
                yield item
