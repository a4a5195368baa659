"""Running sums, sorting, and what is found or counted, each counted by hand."""

from __future__ import annotations

import pytest

from hta_graph.roofline.cost_models.table import demand_of
from hta_graph.roofline.operator_call import NotRecordedError
from tests.roofline.recorded_inputs import Case, recorded

GRID = "float[4, 6]"

CASES = [
    Case(recorded("aten::cumsum", GRID, "0", ""), 24, 96 + 96, "float"),
    Case(recorded("aten::cumsum", "int[4, 6]", "0", ""), 24, 96 + 24 * 8, "long int"),
    Case(recorded("aten::cumsum", "int[4, 6]", "0", "3"), 24, 96 + 96, "int"),
    Case(recorded("aten::cumsum_", "int[4, 6]", "0", ""), 24, 96 + 96, "int"),
    Case(recorded("aten::cumprod", GRID, "0", "", "double[4, 6]"), 24, 96 + 24 * 8, "double"),
    Case(recorded("aten::_cummax_helper", GRID, GRID, "long int[4, 6]", "0"), 24, 96 + 24 * (4 + 8), "float"),
    Case(recorded("aten::_cummin_helper", GRID, GRID, "long int[4, 6]", "0"), 24, 96 + 24 * (4 + 8), "float"),
    Case(recorded("aten::sort", GRID, "False", "-1", "True"), 0, 96 + 24 * (4 + 8), "float", is_least=True),
    Case(recorded("aten::topk", GRID, "2", "-1", "True", "True"), 0, 96 + 4 * 2 * (4 + 8), "float", is_least=True),
    Case(recorded("aten::topk", GRID, "3", "0", "True", "True"), 0, 96 + 3 * 6 * (4 + 8), "float", is_least=True),
    Case(recorded("aten::nonzero", "bool[4, 6]"), 24, 24, "bool"),
    Case(recorded("aten::_unique2", GRID, "True", "False", "False"), 0, 96, "float", is_least=True),
    Case(recorded("aten::_unique", GRID, "True", "False"), 0, 96, "float", is_least=True),
    Case(recorded("aten::unique_dim", GRID, "0", "True", "False", "False"), 0, 96, "float", is_least=True),
    Case(recorded("aten::unique_consecutive", GRID, "False", "False", ""), 0, 96, "float", is_least=True),
    Case(recorded("aten::histc", "long int[100]", "8", "0", "8"), 3 * 100, 800 + 64, "long int"),
    Case(recorded("aten::bincount", "long int[100]", "", "0"), 100, 800, "long int"),
    Case(recorded("aten::bincount", "long int[100]", "float[100]", "0"), 100, 800 + 400, "float"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("inputs", [("7", "-1"), ("2", "2"), ("2", ""), ("-1", "0"), ("", "")])
def test_what_is_not_there_is_not_taken(inputs: tuple[str, str]) -> None:
    with pytest.raises(NotRecordedError):
        demand_of(recorded("aten::topk", GRID, *inputs))


def test_there_are_no_fewer_bins_than_none() -> None:
    with pytest.raises(NotRecordedError):
        demand_of(recorded("aten::histc", GRID, "-1", "0", "8"))
