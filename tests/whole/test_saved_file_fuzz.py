"""A fixed budget of damaged folders and dumps, which are answered or refused, and what fuzzing has found in them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import hta_graph as hg
from tests.support.deep_tests import deep
from tests.support.fuzzing import fuzz
from tests.support.invariants import BrokenRuleError

pytest.importorskip("pyarrow")
from tests.saved_file_fuzz.damage_cases import damaged_folder, damaged_folders, write_files
from tests.saved_file_fuzz.input_kinds import FAMILIES
from tests.saved_file_fuzz.saved_graphs import ask_loaded, saved_graphs

QUICK, DEEP = 4, 96


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [name if name in ("graph", "et") else deep(name) for name in FAMILIES])
@pytest.mark.parametrize(("first", "part"), [(0, QUICK), deep(QUICK, DEEP)])
def test_damaged_input_is_answered_or_refused_in_one_clear_line(name: str, first: int, part: int) -> None:
    found = fuzz(damaged_folders(FAMILIES[name], 20_261_123), range(first, first + part))
    assert found.failures == {}
    assert found.total("cases") == part


def test_every_kind_of_damage_changes_folders() -> None:
    """Cases are equal for equal seeds, and most kinds change most folders that they are given."""
    family = FAMILIES["graph"]
    whole = [files for _, files in family.sound()]
    made = [damaged_folder(family, 1, number) for number in range(2 * len(family.harms))]
    assert made[:5] == [damaged_folder(family, 1, number) for number in range(5)]
    assert {case.harm for case in made} == set(family.harms)
    assert sum(case.files not in whole for case in made) >= len(made) * 3 // 4


def test_the_fuzzer_notices_what_is_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_files(saved_graphs()[0][1], tmp_path / "case")
    assert ask_loaded(tmp_path / "case", random.Random(1), "") == "answered"
    monkeypatch.setattr(hg, "load_graph", lambda _: (_ for _ in ()).throw(hg.HtaGraphError("no")))
    with pytest.raises(BrokenRuleError, match="does not say where"):
        ask_loaded(tmp_path / "case", random.Random(1), "")
