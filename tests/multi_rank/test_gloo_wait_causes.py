"""Recorded jobs with injected delays: the first cause is the delayed rank and what was injected."""

from __future__ import annotations

import json
import re

import pytest

import hta_graph as hg
from hta_graph.multi_rank.wait_causes import WaitCauses
from tests.support.shared_traces import SHARED

QUICK = ("ddp_4r_slowdata_1",)
SETS = sorted(path.name for path in (SHARED / "gloo").glob("*_*r_*"))
EVERY = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in SETS]
OTHERS_WERE_SLOWER = ("ddp_2r_slowfwd_1",)
"""Where the delayed rank kept nobody waiting: its peer came last to every collective, by the stamps too."""


def injected(fault: dict[str, str]) -> str:
    """Return an expression of what a cause by a fault is called, with its call path: sleeps are no row."""
    if fault["work"] == "sleep":
        return "DataLoader" if fault["phase"] == "data" else "^ProfilerStep$"
    return fault["annotation"] or "backward.*aten::mm$"


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("name", EVERY)
def test_the_first_cause_is_what_was_injected(name: str) -> None:
    folder = SHARED / "gloo" / name
    job = hg.read_job(sorted(folder.glob("rank*.json.gz")))
    found, members = WaitCauses(job), job.members
    attributed, activities = found.attribute(), found.activities
    assert attributed.caused.sum() == members.wait[members.number >= 0].sum()
    assert attributed.caused[attributed.activity < 0].sum() <= 0.25 * attributed.caused.sum()
    fault = json.loads((folder / "truth.json").read_text())["fault"]
    if fault is not None and name not in OTHERS_WERE_SLOWER:
        first = int(attributed.activity[0])
        assert attributed.rank[0] == fault["rank"]
        assert re.search(
            injected(fault), " / ".join(filter(None, (activities.call_path[first], activities.name[first])))
        )
