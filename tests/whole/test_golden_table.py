"""The table beside HTA's golden answers: nothing is unexplained, and what is wrong is noticed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.golden_table import exact_numbers, verdict
from tests.golden_table.exact_numbers import exact_traces, tallies
from tests.golden_table.golden_files import Golden, golden_answers
from tests.golden_table.golden_form import Range, between, difference, encoded
from tests.golden_table.gpu_time import by_what_runs, merged
from tests.golden_table.hta_faults import Fault
from tests.golden_table.table import first_table, judged, second_table
from tests.golden_table.verdict import EQUAL, UNEXPLAINED
from tests.support.deep_tests import SHARE, deep
from tests.support.shared_traces import SHARED

GOLDEN = SHARED / "golden"
QUICK = ("execution_trace_sample", "memory_timeline")
WITHOUT_ROUNDING = "__ns_rounding_off"
"""HTA's second answers on the same trace; CI judges the first ones."""
OTHERS = sorted(
    {
        path.parent.name
        for path in GOLDEN.glob("*/*.json")
        if SHARE >= 1 or not path.parent.name.endswith(WITHOUT_ROUNDING)
    }
    - set(QUICK)
)


# -- comparing --------------------------------------------------------------------------------------------------------


def encoded_frame(**columns: Any) -> dict[str, Any]:
    found: dict[str, Any] = encoded(pd.DataFrame(columns))
    return found


def test_answers_are_compared_value_by_value() -> None:
    one = encoded_frame(rank=[0, 1], time=[1.5, np.nan])
    assert not difference(one, encoded_frame(rank=[0, 1], time=[1.5, np.nan]))
    assert difference(one, encoded_frame(rank=[0, 1], time=[1.5, 0.0])) == "row 1, time: None and 0.0"
    assert difference(one, encoded_frame(rank=[0], time=[1.5])) == "2 rows and 1"
    assert "columns" in difference(one, encoded_frame(time=[1.5, np.nan], rank=[0, 1]))
    assert not difference({"kind": "value", "value": []}, encoded({}))
    assert "a value and a frame" in difference({"kind": "value", "value": [1]}, one)


def test_long_answers_are_compared_by_their_ends_and_sums() -> None:
    many = pd.DataFrame({"a": np.arange(5_000.0)})
    theirs = encoded(many)
    assert theirs["kind"] == "frame_summary"
    changed = many.copy()
    changed.loc[2_500, "a"] = 7
    assert difference(theirs, encoded(changed)).startswith("sum of a")


def test_ranges_orders_and_empty_stretches_are_allowed_only_where_the_recomputation_says_so() -> None:
    theirs = encoded_frame(name=["b", "a"], sum=[3.0, 0.0])
    ours = pd.DataFrame({"name": ["a", "b"], "sum": [0.0, 3.0]})
    assert difference(theirs, encoded(ours))
    ours.attrs["unordered"] = True
    assert not difference(theirs, encoded(ours))
    short = pd.DataFrame({"name": ["b"], "sum": [3.0]})
    assert difference(theirs, encoded(short))
    short.attrs["zero"] = "sum"
    assert not difference(theirs, encoded(short))
    bounds = between(pd.DataFrame({"a": [1, 5]}), pd.DataFrame({"a": [3, 5]}))
    assert bounds["a"].tolist() == [Range(1, 3), 5]
    assert not difference(encoded_frame(a=[2, 5]), encoded(bounds))
    assert difference(encoded_frame(a=[4, 5]), encoded(bounds))


def test_intervals_are_joined_and_swept() -> None:
    rows = pd.DataFrame({"start": [0, 5, 10, 30], "end": [6, 8, 12, 29]})
    assert merged(rows).tolist() == [[0, 10, 30], [8, 12, 29]]
    parts = [np.array([[0], [10]]), np.array([[5], [20]])]
    assert by_what_runs(parts) == {1: 5, 2: 10, 3: 5}


def test_faults_have_letters_of_their_own() -> None:
    letters = [fault.letter for fault in Fault]
    assert len(set(letters)) == len(letters)
    assert all(fault.meaning and fault.section for fault in Fault)


# -- judging ----------------------------------------------------------------------------------------------------------


def judge_trace(trace: str) -> None:
    """Judge all answers on one trace."""
    found = judged([trace])
    verdicts = [(golden.name, verdict) for cell in found.values() for golden, verdict in cell]
    assert [(name, verdict.reason) for name, verdict in verdicts if verdict.code == UNEXPLAINED] == []
    assert len(verdicts) == len([path for path in (GOLDEN / trace).glob("*.json") if "independent" not in path.name])
    assert first_table(found)[0].endswith(" 0 unexplained.")


@pytest.mark.shared
@pytest.mark.parametrize("trace", QUICK)
@pytest.mark.slow
def test_no_answer_is_unexplained(trace: str) -> None:
    judge_trace(trace)


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("trace", OTHERS)
def test_no_answer_on_a_larger_trace_is_unexplained(trace: str) -> None:
    judge_trace(trace)


def golden_of(trace: str, name: str) -> Golden:
    return next(item for item in golden_answers(GOLDEN) if (item.trace, item.name) == (trace, name))


def with_another_value(golden: Golden, folder: Path, row: int, column: int, value: Any) -> Golden:
    """Return an answer in which one value is another."""
    document = json.loads(golden.path.read_text())
    document["result"]["rows"][row][column] = value
    path = folder / golden.path.name
    path.write_text(json.dumps(document))
    return replace(golden, path=path)


@pytest.mark.slow
@pytest.mark.shared
def test_a_wrong_number_of_hta_without_a_known_reason_is_unexplained(tmp_path: Path) -> None:
    right = golden_of("execution_trace_sample", "get_temporal_breakdown")
    assert verdict.judge(right).code == EQUAL
    assert verdict.judge(with_another_value(right, tmp_path, 0, 1, 12.0)).code == UNEXPLAINED
    rounded = golden_of("nccl_args_a100", "get_temporal_breakdown")
    assert verdict.judge(rounded).code == Fault.ROUNDED.letter
    assert (
        verdict.judge(with_another_value(rounded, tmp_path, 0, 1, rounded.result["rows"][0][1] + 1)).code == UNEXPLAINED
    )


@pytest.mark.shared
@pytest.mark.slow
def test_a_wrong_number_of_ours_is_unexplained_whatever_hta_says(monkeypatch: pytest.MonkeyPatch) -> None:
    golden = golden_of("nccl_args_a100", "get_comm_comp_overlap")
    monkeypatch.setattr(verdict, "asked_of_us", lambda _: golden.result)
    assert verdict.judge(golden).code == UNEXPLAINED  # HTA's own wrong number


@pytest.mark.shared
def test_an_error_of_hta_counts_only_for_the_reason_that_is_there(tmp_path: Path) -> None:
    golden = golden_of("cupti_counters", "get_temporal_breakdown")
    assert verdict.judge(golden).code == verdict.RAISES
    document = golden.document | {"error": "TypeError: cannot unpack non-iterable int object"}
    path = tmp_path / "other.json"
    path.write_text(json.dumps(document))
    assert verdict.judge(replace(golden, path=path)).code == UNEXPLAINED


# -- exact numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize(("traces", "numbers"), [(("sync_alexnet_a100", "cupti_counters"), 100), deep((), 5_000)])
def test_every_exact_number_is_met(traces: tuple[str, ...], numbers: int) -> None:
    """In the deep run on all traces that have some."""
    found = [one for trace in traces or exact_traces() for one in tallies(trace)]
    assert [text for one in found for text in one.different] == []
    assert sum(one.compared for one in found) > numbers
    assert second_table(found)[0].endswith(" 0 not.")


@pytest.mark.shared
def test_a_number_that_is_not_met_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    from analyses.questions.temporal_breakdown import temporal_breakdown

    monkeypatch.setattr(
        exact_numbers, "temporal_breakdown", lambda scopes: temporal_breakdown(scopes).assign(idle_ns=1)
    )
    found = tallies("execution_trace_sample")
    assert [one.kind for one in found if one.different] == ["temporal breakdown"]
    assert " 2 not." in second_table(found)[0]
