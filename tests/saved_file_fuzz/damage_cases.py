"""What all families of damaged input share: a case, what may become of it, and the counts per kind of damage."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.fuzzing import Case, Examine
from tests.support.invariants import require
from tests.trace_fuzz import BYTES, as_bytes, time_limit

Files = dict[str, bytes]
"""What a folder holds: names, with ``/`` for folders inside, and contents."""

Rng = random.Random
Harm = Callable[[Files, Rng], None]
OUTCOMES = ("answered", "refused")
PIPE = b"\x00pipe"
"""Content that stands for a named pipe, into which nobody writes."""
LINK = b"\x00link to "
"""Content that stands for a link to another name of the folder."""

GARBAGE = (b"PAR1", b"PAR1" * 3, b"{}", b"[]", b"null", b"\x00" * 64, b"\x80\x04K\x01.")


@dataclass(frozen=True)
class Family:
    """One form of input: sound examples, kinds of damage, and the questions that a damaged one is asked."""

    name: str
    sound: Callable[[], tuple[tuple[str, Files], ...]]
    harms: Mapping[str, Harm]
    ask: Callable[[Path, Rng, str], str]


@dataclass(frozen=True)
class DamagedFolder:
    """A folder that was damaged."""

    harm: str
    origin: str
    files: Files


def damaged_folder(family: Family, seed: int, number: int) -> DamagedFolder:
    """Damage a sound folder once or a few times; equal arguments give equal folders."""
    rng = Rng(f"{family.name} {seed} {number}")
    harms = sorted(family.harms)
    harm = harms[number % len(harms)]
    origin, sound = rng.choice(family.sound())
    files = dict(sound)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        family.harms[harm](files, rng)
    return DamagedFolder(harm, origin, files)


def write_files(files: Files, folder: Path) -> None:
    """Write a folder; a name that is a folder of others too stays the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in sorted(files.items(), reverse=True):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            continue
        if content == PIPE:
            os.mkfifo(path)
        elif content.startswith(LINK):
            path.symlink_to(content.removeprefix(LINK).decode())
        else:
            path.write_bytes(content)


def read_files(folder: Path) -> Files:
    """Return what a folder holds."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def damaged_folders(family: Family, seed: int) -> Examine:
    """Return what makes and questions the folders of a family and a seed."""

    def examine_case(case: Case) -> str:
        made = damaged_folder(family, seed, case.number)
        case.kind, case.origin = f"{family.name} {made.harm}", made.origin
        folder = case.folder / "case"
        write_files(made.files, folder)
        with time_limit():
            outcome = family.ask(folder, Rng(f"{seed} {case.number} questions"), case.origin)
        require(outcome in OUTCOMES, f"{outcome} is no outcome")
        require({path.name for path in case.folder.iterdir()} == {"case"}, "something is left behind")
        return outcome

    return examine_case


def check_refusal(line: str, folder: Path) -> None:
    """Check that an error is one clear line that says where."""
    require(line.strip() and "\n" not in line and len(line) <= 500, f"not one clear line: {line[:80]!r}")
    require(folder.name in line, f"the line does not say where: {line[:120]!r}")


# --- damage that any folder can suffer --------------------------------------------------------------------------------


def any_file(files: Files, rng: Rng, suffix: str = "") -> str:
    """Choose a file, of those with an ending if there are any; an empty one is made where there is none."""
    chosen = sorted(name for name in files if name.endswith(suffix)) or sorted(files)
    if not chosen:
        files["left"] = b" "
        return "left"
    return rng.choice(chosen)


def edit_json(files: Files, rng: Rng, part: str, change: Callable[[Any, Any], object]) -> None:
    """Change a document, which ``change`` gets with a part of it; one that has no such place stays as it is."""
    name = any_file(files, rng, ".json")
    try:
        document = json.loads(files[name])
        change(document, document[part])
        depth = rng.choice((50, 1_100, 20_000))
        files[name] = as_bytes(document).replace(b'"\\u0002nested"', b"[" * depth + b"]" * depth)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return


def harm_bytes(files: Files, rng: Rng) -> None:
    name = any_file(files, rng)
    if files[name] and files[name] != PIPE and not files[name].startswith(LINK):
        files[name] = BYTES[rng.choice(sorted(set(BYTES) - {"damage_gzip"}))](bytearray(files[name]), rng)


def flip_one_bit(files: Files, rng: Rng) -> None:
    name = any_file(files, rng)
    if files[name] and files[name] != PIPE:
        files[name] = BYTES["flip_bits"](bytearray(files[name]), rng)


def cut_a_file(files: Files, rng: Rng) -> None:
    name = any_file(files, rng)
    files[name] = files[name][: rng.randrange(len(files[name]) + 1)]


def drop_a_file(files: Files, rng: Rng) -> None:
    files.pop(any_file(files, rng), None)


def empty_a_file(files: Files, rng: Rng) -> None:
    files[any_file(files, rng)] = b""


def garbage_in_a_file(files: Files, rng: Rng) -> None:
    files[any_file(files, rng)] = rng.choice((*GARBAGE, rng.randbytes(200), b"\x1f\x8b" + rng.randbytes(80)))


def pack_a_file(files: Files, rng: Rng) -> None:
    import gzip

    name = any_file(files, rng)
    files[name] = gzip.compress(files[name], 1, mtime=0)


def exchange_two_files(files: Files, rng: Rng) -> None:
    one, two = any_file(files, rng), any_file(files, rng)
    files[one], files[two] = files[two], files[one]


def folder_for_a_file(files: Files, rng: Rng) -> None:
    name = any_file(files, rng)
    content = files.pop(name)
    files[f"{name}/{rng.choice(('inside', Path(name).name))}"] = content


def link_for_a_file(files: Files, rng: Rng) -> None:
    name = any_file(files, rng)
    target = rng.choice((".", Path(name).name, "absent", "..", Path(any_file(files, rng)).name))
    files[name] = LINK + target.encode()


def pipe_for_a_file(files: Files, rng: Rng) -> None:
    files[any_file(files, rng)] = PIPE


OF_ANY_FOLDER: dict[str, Harm] = {
    harm.__name__: harm
    for harm in (
        harm_bytes, flip_one_bit, cut_a_file, drop_a_file, empty_a_file, garbage_in_a_file, pack_a_file,
        exchange_two_files, folder_for_a_file, link_for_a_file,
    )
}  # fmt: skip
