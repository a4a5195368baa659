"""Kinds of steps: found by what steps call and enqueue, matched between runs, never by length."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from analyses.compare.diff.length_comparison import Comparison
from analyses.compare.diff.run_diff import answer_of_comparison, between_runs
from analyses.compare.diff.sides import Side
from analyses.compare.diff.step_kinds import StepKinds, kinds_by_number, kinds_of_steps
from analyses.declare.scope import in_window
from tests.support.noisy_runs import noisy_run
from tests.support.step_programs import OF_ONE_KIND, SCRIPTS
from tests.support.trace_builder import TraceBuilder


def kinds_of(control: hg.DependencyGraph, test: hg.DependencyGraph) -> StepKinds:
    return kinds_of_steps(
        *([in_window(0, graph, hg.step(one.number)) for one in graph.steps()] for graph in (control, test))
    )


def recorded(folder: Path, steps: list[dict[str, int]]) -> hg.DependencyGraph:
    """Record steps of operators, by name and number."""
    trace, at = TraceBuilder(), 0.0
    for number, operators in enumerate(steps, 1):
        begin = at
        for name, count in operators.items():
            for _ in range(count):
                trace.op(name, at + 1, at + 9)
                at += 10
        trace.annotation(f"ProfilerStep#{number}", begin, at + 1)
        # Rows of other threads cross the borders of steps by chance.
        trace.annotation("gloo:all_reduce", at - 2, at + 4 + number, tid=2 + number % 2)
        at += 5
    folder.mkdir()
    return trace.graph(folder)


def test_steps_with_other_operators_are_of_another_kind(tmp_path: Path) -> None:
    control = recorded(tmp_path / "control", [{"mm": 2}, {"mm": 2, "save": 1}] * 3)
    test = recorded(tmp_path / "test", [{"mm": 2, "new": 1}, {"mm": 2, "save": 1, "new": 1}] * 3)
    found = kinds_of(control, test)
    assert found.control.tolist() == found.test.tolist() == [0, 1, 0, 1, 0, 1]
    assert found.names == ("without save", "with save")


def test_what_is_added_to_every_step_leaves_kinds_as_they_are(tmp_path: Path) -> None:
    """The usual steps of the test contain what the rare ones of the control do, but for the annotation."""
    usual, rare = {"mm": 8, "item": 1, "copy": 1}, {"mm": 8, "item": 2, "copy": 2, "save": 1}
    added = {"mm": 8, "item": 2, "copy": 2}, {"mm": 8, "item": 3, "copy": 3, "save": 1}
    control = recorded(tmp_path / "control", [usual, usual, rare] * 3)
    test = recorded(tmp_path / "test", [added[0], added[0], added[1]] * 3)
    found = kinds_of(control, test)
    assert found.control.tolist() == found.test.tolist() == [0, 0, 1] * 3
    found = kinds_of(test, control)
    assert found.control.tolist() == found.test.tolist() == [0, 0, 1] * 3


def test_kinds_that_occur_by_chance_are_matched_with_equal_ones(tmp_path: Path) -> None:
    """Steps of 2 to 4 batches against ones of 3 to 5: no batch was added to each step."""
    control = recorded(tmp_path / "control", [{"mm": count} for count in (2, 3, 4, 3, 4, 4)])
    test = recorded(tmp_path / "test", [{"mm": count} for count in (4, 3, 5, 3, 4, 3)])
    found = kinds_of(control, test)
    of_count = dict(zip((2, 3, 4, 3, 4, 4), found.control.tolist(), strict=True))
    assert [of_count.get(count) for count in (4, 3, 3, 4, 3)] == [found.test[at] for at in (0, 1, 3, 4, 5)]


def test_kinds_of_one_side_alone_are_counted(tmp_path: Path) -> None:
    control = recorded(tmp_path / "control", [{"mm": 2}] * 6)
    test = recorded(tmp_path / "test", [{"mm": 2}, {"mm": 2}, {"mm": 2, "save": 1}] * 2)
    found = kinds_of(control, test)
    assert found.test.tolist() == [0, 0, -1, 0, 0, -1]
    assert found.alone == ({}, {"with save": 2})


def test_numbers_of_operators_that_vary_with_the_input_make_no_kinds(tmp_path: Path) -> None:
    counts = [5, 7, 6, 9, 4, 8]
    sides = [[{"mm": 2, "item": count} for count in own] for own in (counts, counts[::-1])]
    found = kinds_of(*(recorded(tmp_path / str(at), own) for at, own in enumerate(sides)))
    assert not found.are_several
    with_saves = [[{**step, **({"save": 1} if at % 2 else {})} for at, step in enumerate(own)] for own in sides]
    found = kinds_of(*(recorded(tmp_path / f"saving{at}", own) for at, own in enumerate(with_saves)))
    assert found.control.tolist() == [0, 1, 0, 1, 0, 1]


def test_steps_that_all_differ_are_of_one_kind(tmp_path: Path) -> None:
    graphs = [recorded(tmp_path / str(at), [{f"op{number}": 1} for number in range(5)]) for at in range(2)]
    assert not kinds_of(*graphs).are_several


def test_kinds_of_a_rank_hold_for_the_job_that_has_all_of_its_steps() -> None:
    known = StepKinds(np.array([0, 1, 0]), np.array([1, 0]), ("a", "b"))
    numbers = np.array([3, 4, 5]), np.array([4, 5])
    found = kinds_by_number(known, numbers, (np.array([4, 5]), np.array([5])))
    assert (found.control.tolist(), found.test.tolist()) == ([1, 0], [0])
    assert not kinds_by_number(known, numbers, (np.array([4, 6]), np.array([5]))).are_several


def opening(found: Comparison[Side]) -> str:
    return "\n".join(answer_of_comparison(found).opening)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("script", sorted(OF_ONE_KIND))
def test_simulated_programs_have_two_kinds_of_steps(tmp_path: Path, script: str) -> None:
    sides = [noisy_run(tmp_path, seed, steps=13, script=SCRIPTS[script]) for seed in (1, 2)]
    found = between_runs(*sides)
    first = [OF_ONE_KIND[script](number) for number in found.control.numbers.tolist()]
    assert len({(kind, own) for kind, own in zip(found.kinds.control.tolist(), first, strict=True)}) == 2
    assert len(found.change.kinds) == 2
    assert not found.beyond_noise
    assert found.noise_share < 0.08
    assert " steps of 2 kinds" in opening(found).splitlines()[0]


@pytest.mark.slow
@pytest.mark.parametrize("script", ["alternating", "accumulating", "host"])
def test_a_slower_kind_is_found_and_named(tmp_path: Path, script: str) -> None:
    control = noisy_run(tmp_path, 1, steps=13, script=SCRIPTS[script])
    test = noisy_run(
        tmp_path, 2, steps=13, script=SCRIPTS[script], pace_of=lambda number: 1.2 if OF_ONE_KIND[script](number) else 1
    )
    found = between_runs(control, test)
    assert found.beyond_noise
    changed = [kind.difference_ns > kind.noise_ns for kind in found.change.kinds]
    assert sorted(changed) == [False, True]
    assert "\nKinds of steps: " in opening(found)


def test_tables_compare_kinds_with_each_other(tmp_path: Path) -> None:
    """The steps of one side begin with the other kind: medians over all steps would differ by a kind."""
    control = noisy_run(tmp_path, 1, steps=12, script=SCRIPTS["alternating"])
    test = noisy_run(tmp_path, 2, steps=12, script=SCRIPTS["alternating"], first=2)
    found = between_runs(control, test)
    frame = answer_of_comparison(found).tables["critical_path_by_class"].set_index("bound_by")
    assert abs(frame.loc["gpu_compute_bound", "diff_ns"]) < 0.05 * frame.loc["gpu_compute_bound", "control_ns"]
    paths = found.control.path, found.test.path
    assert paths[0].length_ns == pytest.approx(paths[1].length_ns, rel=0.1)
