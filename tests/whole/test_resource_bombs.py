"""A sample of ``python -m tests.resource_bombs``: bombs give one line, and their success is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.resource_bombs import BESIDE, SECONDS, Attack, Ran, attacks, fault_of, results
from tests.support.deep_tests import deep

PATH = Path("folder/rank1.json.gz")
LINE = "hta-graph: rank1.json.gz: holds more than 96 MiB of text"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("ran", "fault"),
    [
        (Ran(1, '"rank":0,', LINE, BESIDE, 1), ""),
        (Ran(0, '"rank":0,', "", 0, 1), ""),
        (Ran(1, '"rank":0,', "Traceback", 0, 1), "status 1: Traceback"),
        (Ran(-9, '"rank":0,', "", 0, 1), "status -9: "),
        (Ran(1, '"rank":0,', "hta-graph: not enough memory", 0, 1), "does not name the file"),
        (Ran(1, '"rank":0,', LINE, BESIDE + (1 << 28), 1), "took 704 MiB"),
        (Ran(1, '"rank":0,', LINE, 0, SECONDS + 1), "took 31 s"),
        (Ran(1, "", LINE, 0, 1), "ranks [0] are not answered"),
    ],
)
def test_a_success_of_a_bomb_is_a_fault(ran: Ran, fault: str) -> None:
    found = fault_of(ran, PATH, memory=0, ranks=(0,))
    assert found.startswith(fault)
    assert bool(found) == bool(fault)


@pytest.mark.parametrize(
    "name", [deep("rows {}"), deep("gzip, 64 KiB a member"), deep("zstd, a million skippable frames")]
)
def test_a_bomb_has_no_success(name: str) -> None:
    (attack,) = [own for own in attacks() if own.name == name]
    assert [fault for _, _, fault in results(attack)] == [""] * 4
    assert isinstance(attack, Attack)
