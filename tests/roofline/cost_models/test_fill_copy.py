"""Tensors that are filled and copied, each counted by hand."""

from __future__ import annotations

import pytest

from hta_graph.roofline.cost_models.table import demand_of
from hta_graph.roofline.operator_call import NotRecordedError
from tests.roofline.recorded_inputs import Case, recorded

GRID = "float[3, 5]"
FILLED = "fill_ zero_ uniform_ normal_ random_ exponential_ cauchy_ log_normal_ geometric_"

CASES = [
    *(Case(recorded(f"aten::{name}", GRID), 0, 60, "float") for name in FILLED.split()),
    Case(recorded("aten::bernoulli_", GRID, "0.5", ""), 0, 60, "float"),
    Case(recorded("aten::bernoulli_", GRID, "double[3, 5]", ""), 0, 60 + 120, "float"),
    # types may differ, and what is read may be repeated
    Case(recorded("aten::copy_", "c10::BFloat16[3, 5]", GRID, "False"), 0, 30 + 60, "bfloat16"),
    Case(recorded("aten::copy_", GRID, "float[5]", "False"), 0, 60 + 20, "float"),
    Case(recorded("aten::copy_", GRID, "float[3, 5]@0,1", "False"), 0, 60 + 20, "float"),
    # of what goes from or to the host, one side is on the GPU
    Case(recorded("aten::copy_", GRID, "double[5]", kernel="Memcpy HtoD (Pinned -> Device)"), 0, 60, "float"),
    Case(recorded("aten::copy_", GRID, "double[5]", kernel="Memcpy DtoH (Device -> Pinned)"), 0, 40, "float"),
    Case(recorded("aten::copy_", GRID, GRID, kernel="Memcpy DtoD (Device -> Device)"), 0, 120, "float"),
    Case(recorded("aten::clone", "float[3, 5]@0,1", ""), 0, 20 + 60, "float"),
    Case(recorded("aten::contiguous", GRID, "0"), 0, 60 + 60, "float"),
    Case(recorded("aten::_to_copy", GRID, "15", "", "", "", "False", ""), 0, 60 + 30, "bfloat16"),
    Case(recorded("aten::_to_copy", GRID, "", "", "", "", "False", ""), 0, 60 + 60, "float"),
]


@pytest.mark.parametrize("inputs", [(GRID,), (GRID, "99")])
def test_a_type_that_is_not_told_is_not_guessed(inputs: tuple[str, ...]) -> None:
    call = recorded("aten::_to_copy", *inputs)
    silent = type(call)(call.name, call.inputs) if len(inputs) == 1 else call
    with pytest.raises(NotRecordedError):
        demand_of(silent)
