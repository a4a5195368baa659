"""What a second run lost is the same list in diff and gate, beyond its noise first."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from analyses.compare.diff.comparable_names import OTHERS
from analyses.compare.diff.lost_time import IN_NOISE, LISTED, lost_time
from tests.support.command_line import run_command
from tests.support.deep_tests import deep
from tests.support.samples import FOUR_RANKS, ONE_RANK
from tests.support.shared_traces import SHARED

COLUMNS = ["name", "bound_by", "control_ns", "test_ns", "diff_ns", "noise_ns"]
PAIRS = [
    *((f"gloo_shapes/{name}_base", f"gloo_shapes/{name}_fault") for name in ("tp", "zero1", "ep", "rl")),
    ("gloo_shapes/tp_base/rank0.json.gz", "gloo_shapes/tp_fault/rank0.json.gz"),
    ("gloo/ddp_4r_base_1", "gloo/ddp_4r_slowfwd_1"),
    ("traces/nanogpt_ab_current/rank0.json.gz", "traces/nanogpt_ab_hook/rank0.json.gz"),
]


def judged(capsys: pytest.CaptureFixture[str], command: str, before: Path, after: Path) -> list[dict[str, object]]:
    status, out, err = run_command(capsys, command, before, after, "--json", "-")
    assert status in (0, 1, 3), err
    found: list[dict[str, object]] = json.loads(out)["judgement"]
    return found


@pytest.mark.sampled(2)
@pytest.mark.shared
@pytest.mark.parametrize(("before", "after"), [pair if pair[0].endswith("z") else deep(*pair) for pair in PAIRS])
def test_diff_and_gate_list_the_same(capsys: pytest.CaptureFixture[str], before: str, after: str) -> None:
    of_diff, of_gate = (judged(capsys, command, SHARED / before, SHARED / after) for command in ("diff", "gate"))
    assert of_diff == of_gate
    assert bool(of_diff) == ("nanogpt" not in before)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("run", [ONE_RANK, FOUR_RANKS], ids=lambda run: run.name)
def test_a_run_loses_nothing_against_itself(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    assert judged(capsys, "diff", run, run) == []


def test_what_is_beyond_its_noise_comes_first_and_little_is_left_out() -> None:
    rows = [
        ("a", "cpu_bound", 10, 500, 490, 900),
        ("/home/jane/train.py(61): step", "cpu_gap", 100, 300, 200, 20),
        ("train.py(70): step", "cpu_gap", 0, 100, 100, 10),
        (OTHERS, "cpu_bound", 0, 700, 700, 0),
        ("faster", "cpu_bound", 700, 100, -600, 0),
        ("little", "cpu_bound", 0, 9, 9, 0),
    ]
    found = lost_time(pd.DataFrame(rows, columns=COLUMNS), 1_000)
    # A frame is one whatever its folder and line are.
    assert [(one["id"], one["saves_ns"], one["expected_ns"]) for one in found] == [
        ("lost:cpu_gap:train.py: step", 300, 270),
        ("lost:cpu_bound:a", 490, 0),
    ]
    assert [(one["confidence"], one["reason"]) for one in found] == [("high", None), ("low", IN_NOISE)]
    many = [(f"n{at}", "cpu_bound", 0, 100 + at, 100 + at, 1) for at in range(2 * LISTED)]
    assert [one["saves_ns"] for one in lost_time(pd.DataFrame(many, columns=COLUMNS), 1_000)] == [
        109,
        108,
        107,
        106,
        105,
    ]
