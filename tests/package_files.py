"""What is in the wheel and in the sdist: all that git knows and nothing else, with one version and the licence.

``python -m tests.package_files DIST`` prints the faults and fails, or says how much is there.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import hta_graph as hg

ROOT = Path(__file__).parents[1]
PACKAGES = ("hta_graph/", "analyses/")
OF_A_WHEEL = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "top_level.txt", "licenses/LICENSE"}
OF_AN_SDIST = {"PKG-INFO", "setup.cfg"}
WRITTEN_BY_THE_BUILD = "hta_graph.egg-info/"


@dataclass(frozen=True)
class Archive:
    """The files of a distribution by their names below its folder, and the one in which it says what it is."""

    name: str
    files: dict[str, bytes]
    about: bytes

    @classmethod
    def of_wheel(cls, path: Path) -> Archive:
        """Read a wheel."""
        with ZipFile(path) as archive:
            files = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
        (about,) = (content for name, content in files.items() if name.endswith(".dist-info/METADATA"))
        return cls(path.name, files, about)

    @classmethod
    def of_sdist(cls, path: Path) -> Archive:
        """Read an sdist, without the folder in which everything stands."""
        files = {name.partition("/")[2]: content for name, content in _files_of_tar(path.read_bytes()).items()}
        return cls(path.name, files, files["PKG-INFO"])


def known_to_git() -> dict[str, bytes]:
    """Return the files of the last commit, by their names."""
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", "HEAD"]
    return _files_of_tar(subprocess.run(command, capture_output=True, check=True).stdout)


def _files_of_tar(content: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=BytesIO(content)) as archive:
        opened = ((member.name, archive.extractfile(member)) for member in archive.getmembers())
        return {name: file.read() for name, file in opened if file}


def wheel_faults(wheel: Archive, known: dict[str, bytes]) -> Iterator[str]:
    """Say what a wheel lacks, and what does not belong there."""
    info = f"hta_graph-{hg.__version__}.dist-info/"
    wanted = {name: content for name, content in known.items() if name.startswith(PACKAGES)}
    yield from _differences(wheel, wanted, {f"{info}{name}" for name in OF_A_WHEEL})
    yield from (f"{wheel.name}: no {name}py.typed" for name in PACKAGES if f"{name}py.typed" not in wheel.files)
    if wheel.files.get(f"{info}licenses/LICENSE") != known["LICENSE"]:
        yield f"{wheel.name}: its licence is not LICENSE"
    yield from _faults_of_words(wheel, known)


def sdist_faults(sdist: Archive, known: dict[str, bytes]) -> Iterator[str]:
    """Say what an sdist lacks, and what does not belong there: it is the repository."""
    made = {name for name in sdist.files if name.startswith(WRITTEN_BY_THE_BUILD)}
    yield from _differences(sdist, known, OF_AN_SDIST | made)
    yield from _faults_of_words(sdist, known)


def _differences(archive: Archive, wanted: dict[str, bytes], besides: set[str]) -> Iterator[str]:
    yield from (
        f"{archive.name}: lacks {name}" for name in sorted(wanted.keys() | besides) if name not in archive.files
    )
    yield from (f"{archive.name}: holds {name}" for name in sorted(archive.files.keys() - wanted.keys() - besides))
    changed = (name for name in sorted(wanted.keys() & archive.files.keys()) if archive.files[name] != wanted[name])
    yield from (f"{archive.name}: {name} is not what git knows" for name in changed)


def _faults_of_words(archive: Archive, known: dict[str, bytes]) -> Iterator[str]:
    """Say what is wrong with what the metadata says: version, licence, the page that an index shows."""
    wanted = {"Version": hg.__version__, "License-Expression": "MIT", "Description-Content-Type": "text/markdown"}
    said = message_from_bytes(archive.about)
    yield from (
        f"{archive.name}: {key} is {said[key]}, not {wanted[key]}" for key in wanted if said[key] != wanted[key]
    )
    if archive.about.partition(b"\n\n")[2].strip() != known["README.md"].strip():
        yield f"{archive.name}: its page is not the README"


def main() -> None:
    """Print the faults of the distributions in a folder."""
    folder, known = Path(sys.argv[1]), known_to_git()
    (wheel,), (sdist,) = (
        [Archive.of_wheel(path) for path in folder.glob("*.whl")],
        [Archive.of_sdist(path) for path in folder.glob("*.tar.gz")],
    )
    if faults := [*wheel_faults(wheel, known), *sdist_faults(sdist, known)]:
        sys.exit("\n".join(faults))
    sys.stdout.write(
        f"{wheel.name}: {len(wheel.files)} files, {sdist.name}: {len(sdist.files)} files, as git knows them\n"
    )


if __name__ == "__main__":
    main()
