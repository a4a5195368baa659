"""The paths that a command line names, by what is done with them, and the one check of all of them before any work.

An option that names a file has one of these types: what has it is found in whatever was parsed, so that no command can
forget to have its paths checked.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Self

from hta_graph.storage.location import Location, expand_file_lists, resolve_location


class PathArgument(str):
    """A file or folder as it is written on a command line."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Refuse an empty name, which is often that of a variable of the shell that is not set."""
        if not text:
            raise argparse.ArgumentTypeError("names no file; it is empty")
        if "\0" in text:
            raise argparse.ArgumentTypeError(f"no file can have the name {text!r}")
        return super().__new__(cls, text)


class InputTraces(PathArgument):
    """A trace, a dump, or a folder of them."""

    __slots__ = ()


class InputFolder(PathArgument):
    """A workload or a log: a folder of which any file may be read, or a file that others belong to."""

    __slots__ = ()


class InputFile(PathArgument):
    """A file that is read, or a word that stands for what could be in one."""

    __slots__ = ()


class OutputFile(PathArgument):
    """A file that is written; ``-`` is standard output."""

    __slots__ = ()


class OutputFolder(PathArgument):
    """A folder that is written anew, with all that it holds."""

    __slots__ = ()


class CacheFolder(PathArgument):
    """A folder in which files are kept for the next time; whatever else is in it stays."""

    __slots__ = ()


class OutputFileOrFolder(OutputFile):
    """A file that is written, or a folder that is there and into which files are put."""

    __slots__ = ()


def check_paths(options: argparse.Namespace) -> None:
    """Refuse outputs that cannot be written, are inputs, or are one and the same, before any work is done.

    Raises:
        OutputError: one of them cannot be.
        TraceError: an input is not there.
    """
    named = list(_path_arguments(options))
    folders = [resolve_location(item) for item in named if isinstance(item, OutputFolder)]
    # What is put into a folder has names that the command knows; it looks at them itself.
    files = [
        item
        for item in named
        if isinstance(item, OutputFile)
        and not (isinstance(item, OutputFileOrFolder) and resolve_location(item).is_dir())
    ]
    # Folders are expanded only where something is written: for a table on the terminal nothing can be in the way.
    if files or folders:
        from hta_graph.storage.output_paths import check_outputs  # late: --help answers without what writes

        check_outputs(files, input_files(options), folders)


def input_files(options: argparse.Namespace) -> list[Location]:
    """Return every file that a command line lets be read.

    Raises:
        TraceError: one is not there.
    """
    from hta_graph.multi_rank.matching.flight_recorder import FLIGHT_FOLDER
    from hta_graph.trace.rank_files import expand_inputs

    found: list[Location] = []
    for item in _path_arguments(options):
        if isinstance(item, InputTraces):
            for path in expand_file_lists(item):
                found += expand_inputs([path])
                # Dumps in this folder are read without being named.
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
