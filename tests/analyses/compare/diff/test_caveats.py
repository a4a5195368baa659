"""What else than a change to the program lies between two runs: another GPU, another rank, another program."""

from __future__ import annotations

from pathlib import Path

import pytest

import hta_graph as hg
from analyses.compare.diff.environment import caveats, environment, share_in_common
from analyses.compare.diff.run_diff import answer_of_comparison, between_runs
from analyses.declare.scope import Scope, whole
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import TraceBuilder


def with_operators(folder: Path, name: str, operators: dict[str, int]) -> Scope:
    """Record operators of these lengths (µs) one after the other."""
    trace, at = TraceBuilder(), 0
    for operator, length in operators.items():
        trace.op(operator, at, at + length)
        at += length
    (folder / name).mkdir()
    return whole(0, trace.graph(folder / name))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("test", "share"),
    [
        ({"mm": 60, "relu": 40}, 1.0),
        ({"mm": 300, "relu": 40}, 1.0),
        ({"mm": 60, "gelu": 40}, 0.6),
        ({"mm": 10, "conv": 90}, 0.1),
        ({}, 1.0),
    ],
)
def test_the_share_is_the_smaller_one_of_both_sides(tmp_path: Path, test: dict[str, int], share: float) -> None:
    sides = with_operators(tmp_path, "a", {"mm": 60, "relu": 40}), with_operators(tmp_path, "b", test)
    assert share_in_common(*sides) == share_in_common(*sides[::-1]) == pytest.approx(share)


def test_numbers_in_names_do_not_part_operators(tmp_path: Path) -> None:
    sides = [with_operators(tmp_path, str(at), {f"Torch-Compiled Region: {at}/2": 9}) for at in range(2)]
    assert share_in_common(*sides) == 1


def test_other_operators_are_said_in_the_first_sentence(tmp_path: Path) -> None:
    sides = with_operators(tmp_path, "a", {"mm": 100}), with_operators(tmp_path, "b", {"mm": 20, "conv": 180})
    assert caveats(*sides, environment(*sides)) == ["with mostly different operators"]
    found = between_runs(sides[0].graph, sides[1].graph)
    assert (
        answer_of_comparison(found)
        .opening[0]
        .startswith("The whole trace is 100.0% longer, but with mostly different operators: ")
    )


PAIRS = {
    ("dlrm_8xv100/kineto_rank0.json.gz", "dlrm_8xv100/kineto_rank3.json.gz"): ["on a different rank"],
    ("ddp_v100/rank1.json.gz", "nccl_args_a100/rank0.json.gz"): [
        *("on a different GPU", "on a different rank", "with mostly different operators")
    ],
}


@pytest.mark.shared
@pytest.mark.parametrize(("files", "expected"), PAIRS.items())
def test_ranks_and_jobs_that_are_no_versions_of_a_program(files: tuple[str, str], expected: list[str]) -> None:
    sides = [whole(0, hg.build_graph(hg.read_trace(SHARED / "traces" / file))) for file in files]
    assert caveats(sides[0], sides[1], environment(sides[0], sides[1])) == expected
