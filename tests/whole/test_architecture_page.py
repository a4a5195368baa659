"""The page on the architecture names every folder, and its order is that of the import contracts."""

from __future__ import annotations

import re
import tomllib
from itertools import combinations
from pathlib import Path

import pytest

from analyses.questions.catalogue import CATALOGUE
from tests.architecture_picture import PICTURE, SAYS, dot_source, drawn_rooms

pytestmark = pytest.mark.sources

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
Row = list[str]
"""What a row of the page names, as paths from the root: folders end in a slash."""


def rows_of_the_page() -> list[Row]:
    sections = re.findall(r"^## `(\w+)`.*?\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    cells = [(package, cell) for package, text in sections for cell in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)]
    return [[f"{package}/{name}" for name in re.findall(r"`(.*?)`", cell)] for package, cell in cells]


def files_of(name: str) -> set[Path]:
    """Return the files that a name of the page stands for: itself, those of its folder, or those that it matches."""
    return {path for path in ROOT.glob(f"{name}*.py" if name.endswith("/") else name) if path.stem != "__init__"}


def modules_of(row: Row) -> list[tuple[str, ...]]:
    return [path.relative_to(ROOT).with_suffix("").parts for name in row for path in sorted(files_of(name))]


def floors() -> dict[tuple[str, ...], int]:
    """Return on which floor each module of a contract of layers stands: 0 is the lowest of its container."""
    found = {}
    for contract in CONTRACTS:
        for container in contract.get("containers", [""]) if contract["type"] == "layers" else []:
            for floor, layer in enumerate(reversed(contract["layers"])):
                for name in layer.split(" | "):
                    found[tuple(f"{container}.{name}".strip(".").split("."))] = floor
    return found


FLOORS = floors()


def may_import(module: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Say whether the contracts put a module above another: the innermost container of both decides."""
    depth = next(depth for depth, (mine, yours) in enumerate(zip(module, other, strict=False)) if mine != yours)
    mine, yours = FLOORS.get(module[: depth + 1]), FLOORS.get(other[: depth + 1])
    return mine is not None and yours is not None and mine > yours


def test_the_way_from_a_file_to_a_sentence_names_what_is_there() -> None:
    (way,) = re.findall(r"^## From a file.*?\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    for step in re.split(r"^(?=\d\.|Analyses)", way, flags=re.MULTILINE)[1:]:
        words = re.findall(r"`([\w/.]+)`", step)
        text = "".join((ROOT / name).read_text(encoding="utf-8") for name in words if "/" in name)
        assert [name for name in words if "/" not in name and not re.search(rf"\b{name}\b", text)] == [], step


def test_what_the_page_names_exists() -> None:
    named = [name for row in rows_of_the_page() for name in row if not files_of(name)]
    assert [name for name in named if not (ROOT / name / "__init__.py").exists()] == [], (
        "a folder of one file is its own"
    )


def test_every_file_stands_in_one_row() -> None:
    rows = [path for row in rows_of_the_page() for name in row for path in files_of(name)]
    files = [path for name in ("hta_graph", "analyses") for path in (ROOT / name).rglob("*.py")]
    assert sorted(rows) == sorted(path for path in files if path.stem != "__init__")


def test_the_rows_stand_in_the_order_of_the_import_contracts() -> None:
    rows = [(row, modules_of(row)) for row in rows_of_the_page()]
    turned = [
        (above, below)
        for (above, higher), (below, lower) in combinations(rows, 2)
        if any(may_import(a, b) for a in higher for b in lower)
    ]
    assert turned == []


def test_the_contract_of_questions_holds_each_of_them() -> None:
    assert any(contract.get("modules") == ["analyses.questions.*"] for contract in CONTRACTS)
    assert {entry.module.rpartition(".")[0] for entry in CATALOGUE} == {"analyses.questions"}


def test_every_box_of_the_picture_says_what_it_is() -> None:
    assert set(drawn_rooms()) == set(SAYS)


def test_the_picture_is_that_of_the_contracts() -> None:
    drawn = PICTURE.with_suffix(".dot").read_text(encoding="utf-8")
    assert drawn == dot_source(), "python -m tests.architecture_picture draws it anew"
    picture = PICTURE.with_suffix(".svg").read_text(encoding="utf-8")
    assert [room for room in drawn_rooms() if f">{room}<" not in picture and f"<title>{room}<" not in picture] == []
