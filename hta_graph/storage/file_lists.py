"""What inputs name: themselves, or the files that a list of them names, one a line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hta_graph.errors import PlaceError
from hta_graph.storage.location import Location, RemotePath
from hta_graph.storage.named_places import is_remote, named_place

__all__ = ["MANIFEST_MARK", "given_places"]

MANIFEST_MARK = "@"
LONGEST_LIST = 64 << 20


def given_places(inputs: str | Location | Iterable[str | Location]) -> list[Location]:
    """Return the places that inputs name; ``@FILE`` is a list with one path or URL a line, ``#`` begins a comment.

    Paths in a list are relative to its place. A file whose name begins so is ``./@FILE``.

    Raises:
        PlaceError: a list cannot be read, or a line of it names no place.
    """
    listed = [inputs] if isinstance(inputs, (str, Path, RemotePath)) else inputs
    found: list[Location] = []
    for item in listed:
        if isinstance(item, str) and item.startswith(MANIFEST_MARK):
            found += _places_in(named_place(item.removeprefix(MANIFEST_MARK)))
        else:
            found.append(named_place(item))
    return found


def _places_in(manifest: Location) -> list[Location]:
    found = []
    for number, line in enumerate(_text_of(manifest).splitlines(), start=1):
        name = line.strip()
        if name and not name.startswith("#"):
            found.append(_place_in(manifest, number, name))
    if not found:
        raise PlaceError(f"{manifest}: lists no file", "write one path or URL a line")
    return found


def _text_of(manifest: Location) -> str:
    try:
        if manifest.stat().st_size > LONGEST_LIST:
            raise PlaceError(f"{manifest}: is no list of files, so long it is", "write one path or URL a line")
        return manifest.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise PlaceError(f"{manifest}: no such list of files", f"a file of that name is ./@{manifest.name}") from None
    except OSError as error:
        raise PlaceError(f"{manifest}: the list cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise PlaceError(f"{manifest}: is no list of files, but no text", "write one path or URL a line") from None


def _place_in(manifest: Location, number: int, name: str) -> Location:
    """Return what a line names.

    Raises:
        PlaceError: it names another list, or a file that whoever wrote the list has no say over.
    """
    if "\0" in name or name.startswith(MANIFEST_MARK):
        cause = "names another list" if name.startswith(MANIFEST_MARK) else "no file can have such a name"
        raise PlaceError(f"{manifest}: line {number}: {cause}", "write one path or URL a line")
    try:
        place = named_place(name)
    except PlaceError as error:
        raise PlaceError(f"{manifest}: line {number}: {error}") from None
    if is_remote(place):
        return place
    # Who puts a list on the network does not choose files of this machine.
    if is_remote(manifest) and (place.is_absolute() or "://" in name):
        raise PlaceError(
            f"{manifest}: line {number}: names a file of this machine", "a list on the network names what is there"
        )
    return manifest.parent / (name if is_remote(manifest) else place)
