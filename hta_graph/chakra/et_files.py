"""A folder of ``.et`` files: found and read, or written whole or not at all."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from hta_graph.chakra.et_file import EtFile, length_prefixed, read_et, skip_message
from hta_graph.errors import OutputError, Remedy, TraceError
from hta_graph.storage.atomic_write import new_folder
from hta_graph.storage.location import Location
from hta_graph.storage.named_places import resolve_location
from hta_graph.storage.output_paths import check_new_folder

__all__ = ["GROUPS_FILE", "NAMES_FILE", "EtFolder", "check_prefix", "check_target", "read_folder", "write_folder"]

GROUPS_FILE = "comm_groups.json"
"""Group → ranks, as ASTRA-sim reads it with ``--comm-group-configuration``."""

NAMES_FILE = "group_names.json"
"""What groups and ranks stand for, for people."""

ET_NAME = re.compile(r"(?P<prefix>.+)\.(?P<rank>0|[1-9][0-9]{0,8})\.et")


@dataclass(frozen=True)
class EtFolder:
    """All ranks of a workload, and the ranks of each group; ``groups`` is ``None`` where there is no such file."""

    path: Location
    prefix: str
    files: dict[int, EtFile]
    groups: dict[str, list[int]] | None


def read_folder(folder: str | Location) -> EtFolder:
    """Read a folder of ``PREFIX.<rank>.et`` files and its ``comm_groups.json``.

    Raises:
        TraceError: there are none, they have several prefixes, or one cannot be read.
    """
    folder = resolve_location(folder)
    if not folder.is_dir():
        raise TraceError(folder, "is no folder" if folder.exists() else "no such folder", "name a folder of .et files")
    files: list[Location] = sorted(folder.glob("*.et"))
    named = {path: ET_NAME.fullmatch(path.name) for path in files}
    if not named:
        raise TraceError(
            folder, "holds no .et file", Remedy("convert() writes them", "hta-graph chakra convert writes them")
        )
    for path, match in named.items():
        if not match:
            raise TraceError(path, "is not named PREFIX.<rank>.et, as ASTRA-sim expects", "rename it")
    prefixes = sorted({match["prefix"] for match in named.values() if match})
    if len(prefixes) > 1:
        raise TraceError(folder, f"holds files of {', '.join(prefixes[:5])}", "keep one workload in a folder")
    by_rank = sorted((int(match["rank"]), path) for path, match in named.items() if match)
    return EtFolder(
        folder, prefixes[0], {rank: read_et(path) for rank, path in by_rank}, _read_groups(folder / GROUPS_FILE)
    )


def _read_groups(path: Location) -> dict[str, list[int]] | None:
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise TraceError(path, "is no file", "write it again")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TraceError(path, f"cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise TraceError(path, f"cannot be read, it is no JSON: {error}", "write it again") from None
    if not isinstance(found, dict) or not all(_is_rank_list(ranks) for ranks in found.values()):
        raise TraceError(path, 'is not an object of rank lists such as {"1": [0, 1]}')
    return found


def _is_rank_list(value: object) -> bool:
    # A bool is an int to Python and no rank to ASTRA-sim.
    return isinstance(value, list) and all(isinstance(rank, int) and not isinstance(rank, bool) for rank in value)


def check_prefix(prefix: str) -> None:
    """Refuse what cannot begin the files' names; a "/" would lead out of the folder.

    Raises:
        OutputError: it is empty, would hide the files, or holds a character that a file's name cannot.
    """
    is_name = ET_NAME.fullmatch(f"{prefix}.0.et") and prefix.isprintable() and not {"/", "\\"} & set(prefix)
    if not is_name or prefix.startswith("."):
        raise OutputError(f"the prefix {prefix!r} cannot begin a file's name; give one such as 'trace'")


def check_target(target: Location, *, force: bool) -> None:
    """Refuse a folder that cannot be written, before any work is done; with ``force`` an earlier one is replaced.

    Raises:
        OutputError: it exists and holds something, its parent does not exist, or ASTRA-sim would ignore its groups.
    """
    check_new_folder(target)
    if "empty" in str(target):
        raise OutputError(f'{target}: ASTRA-sim ignores groups in a path that contains "empty"; name another folder')
    try:
        inside = [item.name for item in target.iterdir()] if target.is_dir() else []
    except OSError as error:
        raise OutputError(f"{target}: cannot be written: {error.strerror or error}") from None
    foreign = [name for name in inside if name not in (GROUPS_FILE, NAMES_FILE) and not ET_NAME.fullmatch(name)]
    if foreign:
        raise OutputError(f"{target}: holds other files, such as {foreign[0]}; name a new folder")
    if inside and not force:
        raise OutputError(f"{target}: exists", Remedy("force=True replaces it", "--force replaces it"))


def write_folder(
    target: Location,
    files: Mapping[str, Iterable[bytes]],
    copies: Mapping[str, tuple[str, bytes]],
    examine: Callable[[EtFolder], None],
    *,
    force: bool,
) -> None:
    """Write files into a new folder beside the target, examine that, and put it in the target's place.

    Args:
        target: the folder; :func:`check_target` has let it pass.
        files: name → pieces.
        copies: name → name of the file that it equals, and the metadata that it has instead of that one's.
        examine: raises what speaks against the folder, which it is told is the target.
        force: an earlier workload there is replaced.

    Raises:
        OutputError: it cannot be written; what stood there is left as it was.
    """
    with new_folder(target, lambda: check_target(target, force=force), [".0.et"]) as new:
        for name, pieces in files.items():
            with (new / name).open("wb") as file:
                file.writelines(pieces)
        for name, (original, metadata) in copies.items():
            with (new / original).open("rb") as source, (new / name).open("wb") as file:
                file.writelines(length_prefixed([metadata]))
                skip_message(source)
                shutil.copyfileobj(source, file)
        # Checks look at names too, and what they say has to hold for the target.
        examine(replace(read_folder(new), path=target))
