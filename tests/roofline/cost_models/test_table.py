"""Every row of the table of models has a case that was counted by hand, and counts as that does."""

from __future__ import annotations

import pytest

from hta_graph.roofline.cost_models.table import MODELS, demand_of, model_of
from tests.roofline.hand_counted_cases import CASES, NEVER_TOLD
from tests.roofline.recorded_inputs import Case


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.call.name)
def test_a_call_demands_what_was_counted_by_hand(case: Case) -> None:
    found = demand_of(case.call)
    assert found is not None
    assert found.flops == case.flops
    assert found.bytes == case.bytes
    assert (found.dtype, found.unit, found.is_least) == (case.dtype, case.unit, case.is_least)


def test_every_operator_of_the_table_has_a_case() -> None:
    counted = {"triton_*" if case.call.name.startswith("triton_") else case.call.name for case in CASES}
    named = {name for model in MODELS for name in model.operators}
    named -= NEVER_TOLD
    assert named <= counted, sorted(named - counted)


def test_no_operator_has_two_models() -> None:
    names = [name for model in MODELS for name in model.operators]
    assert len(names) == len(set(names))
    assert all(model_of(name) for name in names)
