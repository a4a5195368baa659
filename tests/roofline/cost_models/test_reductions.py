"""Reductions, each counted by hand on 4 × 6 elements or 4 × 5 × 6."""

from __future__ import annotations

import pytest

from hta_graph.roofline.cost_models.table import demand_of
from hta_graph.roofline.operator_call import NotRecordedError
from tests.roofline.recorded_inputs import Case, recorded

GRID = "float[4, 6]"

CASES = [
    # all elements, along one dimension, along two, into an output
    Case(recorded("aten::sum", GRID, ""), 24, 96 + 4, "float"),
    Case(recorded("aten::sum", GRID, "[0]", "False", ""), 24, 96 + 24, "float"),
    Case(recorded("aten::sum", "c10::BFloat16[4, 5, 6]", "[0, -1]", "True", ""), 120, 240 + 10, "bfloat16"),
    Case(recorded("aten::sum", GRID, "[]", "False", ""), 24, 96 + 4, "float"),
    Case(recorded("aten::sum", GRID, "[1]", "False", "", "double[0]"), 24, 96 + 32, "double"),
    # whole numbers add up to long ones, unless another type is asked for
    Case(recorded("aten::sum", "bool[4, 6]", "[1]", "False", ""), 24, 24 + 32, "long int"),
    Case(recorded("aten::sum", "bool[4, 6]", "[1]", "False", "3"), 24, 24 + 16, "int"),
    Case(recorded("aten::sum", "c10::Half[4, 6]", "6"), 24, 48 + 4, "float"),
    Case(recorded("aten::nansum", GRID, "[0]", "False", ""), 24, 96 + 24, "float"),
    Case(recorded("aten::prod", GRID, "1", "False", ""), 24, 96 + 16, "float"),
    Case(recorded("aten::mean", GRID, ""), 24, 96 + 4, "float"),
    Case(recorded("aten::mean", "c10::BFloat16[4, 6]", "[-2]", "True", ""), 24, 48 + 12, "bfloat16"),
    # of an expanded tensor one copy is read
    Case(recorded("aten::sum", "float[4, 6]@0,1", "[0]", "False", ""), 24, 24 + 24, "float"),
    Case(recorded("aten::amax", GRID, "[1]", "False"), 24, 96 + 16, "float"),
    Case(recorded("aten::amin", GRID, "[]", "False"), 24, 96 + 4, "float"),
    Case(recorded("aten::aminmax", GRID, "1", "False"), 2 * 24, 96 + 16 + 16, "float"),
    Case(recorded("aten::argmax", GRID, "1", "False"), 24, 96 + 4 * 8, "float"),
    Case(recorded("aten::argmin", GRID, "", "False"), 24, 96 + 8, "float"),
    Case(recorded("aten::any", "bool[4, 6]", "1", "False"), 24, 24 + 4, "bool"),
    Case(recorded("aten::all", GRID), 24, 96 + 1, "float"),
    Case(recorded("aten::count_nonzero", GRID, "[1]"), 2 * 24, 96 + 4 * 8, "float"),
    Case(recorded("aten::var", GRID, "[0]", "True", "False"), 4 * 24, 96 + 24, "float"),
    Case(recorded("aten::std", GRID, "False"), 4 * 24, 96 + 4, "float"),
    Case(recorded("aten::var_mean", GRID, "[0]", "1", "False"), 4 * 24, 96 + 24 + 24, "float"),
    Case(recorded("aten::std_mean", GRID, "", "", "False"), 4 * 24, 96 + 4 + 4, "float"),
    Case(recorded("aten::logsumexp", GRID, "[1]", "False"), 4 * 24, 96 + 16, "float"),
    Case(recorded("aten::max", GRID), 24, 96 + 4, "float"),
    Case(recorded("aten::max", GRID, "1", "False"), 24, 96 + 4 * (4 + 8), "float"),
    Case(recorded("aten::min", GRID, "-2", "True"), 24, 96 + 6 * (4 + 8), "float"),
    Case(recorded("aten::linalg_vector_norm", GRID, "2", "[-1]", "True", ""), 2 * 24, 96 + 16, "float"),
    Case(recorded("aten::linalg_vector_norm", GRID, "3.5", "", "False", ""), 3 * 24, 96 + 4, "float"),
    Case(recorded("aten::linalg_vector_norm", "c10::Half[4, 6]", "2", "", "False", "6"), 2 * 24, 48 + 4, "float"),
    Case(recorded("aten::norm", GRID, "2"), 2 * 24, 96 + 4, "float"),
    Case(recorded("aten::norm", GRID, "inf", "[0]", "False"), 2 * 24, 96 + 24, "float"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "call",
    [
        recorded("aten::sum", ""),
        recorded("aten::sum", GRID, "[2]", "False", ""),
        recorded("aten::sum", GRID, "[one]", "False", ""),
        recorded("aten::sum", "mystery[4, 6]", "[1]", "False", ""),
        recorded("aten::sum", GRID, "99"),
        recorded("aten::max", GRID, GRID),
    ],
)
def test_what_does_not_say_its_result_is_not_guessed(call: object) -> None:
    with pytest.raises(NotRecordedError):
        demand_of(call)  # type: ignore[arg-type]


def test_where_the_dimensions_are_not_recorded_one_result_is_the_least() -> None:
    call = recorded("aten::sum", GRID, "[0]", "False", "")
    found = demand_of(type(call)(call.name, call.inputs))
    assert found is not None
    assert found.bytes == 96 + 4


def test_a_number_alone_is_its_own_sum() -> None:
    found = demand_of(recorded("aten::sum", "float[]", "[-1]", "False", ""))
    assert found is not None
    assert (found.flops, found.bytes) == (1, 4 + 4)
