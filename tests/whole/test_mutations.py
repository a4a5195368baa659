"""The deliberate defects can still be made: one whose place has gone is noticed here, not in a run of hours."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.mutations.__main__ import copy_of_the_tree, judge
from tests.mutations.defects import ROOT, Defect, defects
from tests.mutations.operators import PLAIN, rewritten
from tests.mutations.table import DEFECTS
from tests.support.deep_tests import deep

pytestmark = pytest.mark.sources


def _fault(defect: Defect) -> str | None:
    try:
        ast.parse(defect.mutant((ROOT / defect.path).read_text()))
        assert defect.test_paths
    except LookupError as error:
        return str(error)
    return None


@pytest.mark.parametrize("chosen", [DEFECTS[::8], deep(DEFECTS)], ids=["quick", "deep"])
def test_every_defect_can_be_made(chosen: list[Defect]) -> None:
    assert [fault for defect in chosen if (fault := _fault(defect))] == []


def test_every_defect_is_listed_once() -> None:
    assert [defect for defect, count in Counter(DEFECTS).items() if count > 1] == []


@pytest.mark.parametrize(
    "gone", ["no_such_module.function: skip 1", "arrays.no_such_function: skip 1", "arrays.freeze: skip 9"]
)
def test_a_place_that_has_gone_is_named(gone: str) -> None:
    (defect,) = defects(f"graph/test_validate\n    {gone}")
    with pytest.raises(LookupError, match=gone.partition(".")[0]):
        defect.broken((ROOT / defect.path).read_text())


@pytest.mark.parametrize(
    ("operator", "place", "mutant"),
    [
        ("never", 1, "min(a, b[0]) if False else -c + d"),
        ("boundary", 1, "min(a, b[0]) if a <= b and c else -c + d"),
        ("opposite", 1, "min(a, b[0]) if a >= b and c else -c + d"),
        ("arithmetic", 2, "min(a, b[0]) if a < b and c else -c - d"),
        ("other", 1, "max(a, b[0]) if a < b and c else -c + d"),
        ("drop", 2, "min(a, b[0]) if a < b else -c + d"),
        ("bare", 3, "min(a, b) if a < b and c else -c + d"),
        ("without", 2, "min(a) if a < b and c else -c + d"),
        ("exchange", 1, "min(b[0], a) if a < b and c else -c + d"),
    ],
)
def test_places_are_counted_in_the_order_of_the_tree(operator: str, place: int, mutant: str) -> None:
    tree = ast.parse("min(a, b[0]) if a < b and c else -c + d", mode="eval")
    made = rewritten(tree, PLAIN[operator], place)
    assert made is not None
    assert ast.unparse(made) == mutant


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hta_graph/base/arrays.py", "text/csv_text.py"])
def test_some_are_noticed(name: str, tmp_path: Path) -> None:
    origin = copy_of_the_tree(tmp_path)
    some = [defect for defect in DEFECTS if str(defect.path).endswith(name)][:2]
    assert [str(defect) for defect in some if judge(defect, origin, defect.test_paths).killer is None] == []
