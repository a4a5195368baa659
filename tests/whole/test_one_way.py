"""Data flows one way: from bytes to graphs, paths, verdicts, answers and the screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.code_figures import climbs
from tests.support.deep_tests import deep
from tests.support.samples import FOUR_RANKS, ONE_RANK


@pytest.mark.sources
@pytest.mark.parametrize("trace", [deep(ONE_RANK), FOUR_RANKS], ids=["a rank", "a job"])
def test_nothing_is_asked_once_the_answer_is_being_written(trace: Path) -> None:
    found = climbs(str(trace))
    assert not [climb for climb in found if climb.startswith("down")]
    assert len(found) <= 10
