"""Inputs: locations themselves, or lists of them (``@FILE``), one a line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hta_graph.errors import LocationError
from hta_graph.storage.location import Location, RemotePath, is_remote, resolve_location

FILE_LIST_PREFIX = "@"
LONGEST_LIST = 64 << 20


def expand_file_lists(inputs: str | Location | Iterable[str | Location]) -> list[Location]:
    """Return the places that inputs name; ``@FILE`` is a list with one path or URL a line, ``#`` begins a comment.

    Paths in a list are relative to its place. A file whose name begins so is ``./@FILE``.

    Raises:
        LocationError: a list cannot be read, or a line of it names no place.
    """
    listed = [inputs] if isinstance(inputs, (str, Path, RemotePath)) else inputs
    found: list[Location] = []
    for item in listed:
        if isinstance(item, str) and item.startswith(FILE_LIST_PREFIX):
            found += _listed_locations(resolve_location(item.removeprefix(FILE_LIST_PREFIX)))
        else:
            found.append(resolve_location(item))
    return found


def _listed_locations(manifest: Location) -> list[Location]:
    found = []
    for number, line in enumerate(_text_of(manifest).splitlines(), start=1):
        name = line.strip()
        if name and not name.startswith("#"):
            found.append(_listed_location(manifest, number, name))
    if not found:
        raise LocationError(f"{manifest}: lists no file", "write one path or URL a line")
    return found


def _text_of(manifest: Location) -> str:
    try:
        if manifest.stat().st_size > LONGEST_LIST:
            raise LocationError(f"{manifest}: is no list of files, so long it is", "write one path or URL a line")
        return manifest.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise LocationError(
            f"{manifest}: no such list of files", f"a file of that name is ./@{manifest.name}"
        ) from None
    except OSError as error:
        raise LocationError(f"{manifest}: the list cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise LocationError(f"{manifest}: is no list of files, but no text", "write one path or URL a line") from None


def _listed_location(manifest: Location, number: int, name: str) -> Location:
    """Return what a line names.

    Raises:
        LocationError: it names another list, or a file that whoever wrote the list has no say over.
    """
    if "\0" in name or name.startswith(FILE_LIST_PREFIX):
        cause = "names another list" if name.startswith(FILE_LIST_PREFIX) else "no file can have such a name"
        raise LocationError(f"{manifest}: line {number}: {cause}", "write one path or URL a line")
    try:
        place = resolve_location(name)
    except LocationError as error:
        raise LocationError(f"{manifest}: line {number}: {error}") from None
    if is_remote(place):
        return place
    # Who puts a list on the network does not choose files of this machine.
    if is_remote(manifest) and (place.is_absolute() or "://" in name):
        raise LocationError(
            f"{manifest}: line {number}: names a file of this machine", "a list on the network names what is there"
        )
    return manifest.parent / (name if is_remote(manifest) else place)
