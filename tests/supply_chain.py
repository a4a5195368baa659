"""What the package is made of: Pythons to try it on, lowest versions, licences, known vulnerabilities.

``python -m tests.supply_chain pythons|lowest|licences|vulnerabilities``; ``.ci/package`` asks all four.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "licences.md"
USUAL_EXTRAS = frozenset({"parquet", "plot", "zstd"})
FURTHER_EXTRAS = ("cluster", "completion", "s3", "gs", "http", "mcp", "isal")
OLDEST = (3, 11)
NEWEST_MINOR = 30
OF_OLDER = {"pytz": "MIT", "six": "MIT", "tenacity": "Apache-2.0"}
"""What older versions of these packages bring, and no version of today."""
VERSION = "import sys; print(*sys.version_info[:2], sys.executable)"


def pythons() -> Iterator[str]:
    """Yield a program for each minor version of Python that is installed and supported."""
    named = [f"python3.{minor}" for minor in range(OLDEST[1], NEWEST_MINOR)]
    of_pyenv = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/*/bin/python3"))
    found: dict[tuple[int, int], str] = {}
    for program in [sys.executable, *named, *map(str, of_pyenv)]:
        try:
            done = subprocess.run([program, "-c", VERSION], capture_output=True, text=True, check=False)
        except OSError:
            continue
        # pyenv's stand-in for a version that is installed and not chosen answers with an error.
        if done.returncode:
            continue
        major, minor, path = done.stdout.strip().split(" ", 2)
        if (version := (int(major), int(minor))) >= OLDEST:
            found.setdefault(version, path)
    yield from (found[version] for version in sorted(found))


def lowest() -> Iterator[str]:
    """Yield a constraint for each requirement: its lower bound exactly."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for line in chain(project["dependencies"], *project["optional-dependencies"].values()):
        requirement = Requirement(line)
        yield from (f"{requirement.name}=={bound.version}" for bound in requirement.specifier if bound.operator == ">=")


def needed(extras: frozenset[str] = USUAL_EXTRAS) -> dict[str, Distribution]:
    """Return the packages that come with ``hta-graph``, directly or not, by name."""
    found: dict[str, Distribution] = {}
    asked = list(_asked_for(extras))
    while asked:
        wanted = asked.pop()
        name = canonicalize_name(wanted.name)
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            sys.exit(f"{name} is needed and not installed")
        for line in found[name].requires or []:
            requirement = Requirement(line)
            marker = requirement.marker
            if not marker or any(marker.evaluate({"extra": extra}) for extra in (*wanted.extras, "")):
                asked.append(requirement)
    return dict(sorted(found.items()))


def _asked_for(extras: Iterable[str]) -> Iterator[Requirement]:
    """Yield what the package asks for by itself, and with some of its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *chain(*(project["optional-dependencies"][extra] for extra in extras))]
    for requirement in map(Requirement, lines):
        if requirement.name == project["name"]:
            yield from _asked_for(requirement.extras)
        else:
            yield requirement


def licence(package: Distribution) -> str:
    """Return what a package says of its licence, shortly."""
    expression, *_ = package.metadata.get_all("License-Expression") or [""]
    if expression:
        return str(expression)
    lines = package.metadata.get_all("Classifier") or []
    classes = [line.rpartition(" :: ")[2] for line in lines if line.startswith("License ::")]
    text, *_ = package.metadata.get_all("License") or [""]
    first_line = text.strip().partition("\n")[0]
    return ", ".join(classes) or first_line or "not said"


def licences() -> Iterator[str]:
    """Yield the page of licences."""
    yield "# Licenses"
    yield ""
    yield "This package has the MIT license. `pip install 'hta-graph[parquet,plot,zstd]'` installs these packages:"
    yield ""
    yield "| package | license |"
    yield "|---|---|"
    rows = OF_OLDER | {name: licence(package) for name, package in needed().items()}
    yield from (f"| {name} | {said} |" for name, said in sorted(rows.items()))
    yield ""
    yield "Other extras install these packages. `[remote]` is `[s3]`, `[gs]` and `[http]` together."
    yield ""
    yield "| package | license | extra |"
    yield "|---|---|---|"
    further = {extra: needed(frozenset({extra})) for extra in FURTHER_EXTRAS}
    for name, package in sorted({name: own for of in further.values() for name, own in of.items()}.items()):
        if name not in rows:
            extras = ", ".join(f"`[{extra}]`" for extra in FURTHER_EXTRAS if name in further[extra])
            yield f"| {name} | {licence(package)} | {extras} |"


def listed() -> set[str]:
    """Return the packages that the page names."""
    return set(re.findall(r"^\| ([a-z0-9-]+) \|", PAGE.read_text(), re.MULTILINE)) - {"package"}


def vulnerabilities() -> Iterator[str]:
    """Ask PyPI for known vulnerabilities of what is installed; yield a line on what could not be asked.

    ``pip-audit`` says "No known vulnerabilities found" also of packages that it found nowhere; those are counted here.
    """
    pinned = [f"{name}=={package.version}" for name, package in needed().items()]
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder, "asked.txt")
        asked.write_text("\n".join(pinned))
        command = [
            sys.executable,
            "-m",
            "pip_audit",
            "--format",
            "json",
            "--no-deps",
            "--disable-pip",
            "-r",
            str(asked),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.startswith("{"):
        yield f"known vulnerabilities: not checked, the list is out of reach ({done.stderr.strip()[-200:]!r})"
        return
    answers = json.loads(done.stdout)["dependencies"]
    known = [answer for answer in answers if "skip_reason" not in answer]
    yield f"known vulnerabilities: {len(known)} of {len(pinned)} packages checked" + (
        "" if len(known) == len(pinned) else "; the others are not known where this machine may ask"
    )
    bad = [f"{answer['name']} {answer['version']}: {hole['id']}" for answer in known for hole in answer["vulns"]]
    if bad:
        sys.exit("\n".join(bad))


def main() -> None:
    """Print the answer."""
    questions: dict[str, Callable[[], Iterator[str]]] = {
        "pythons": pythons, "lowest": lowest, "licences": licences, "vulnerabilities": vulnerabilities,
    }  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("question", choices=questions)
    for line in questions[parser.parse_args().question]():
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
