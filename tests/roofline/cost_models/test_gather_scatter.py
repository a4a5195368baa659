"""What moves or picks data, each counted by hand."""

from __future__ import annotations

import itertools

import pytest

from hta_graph.roofline.cost_models.table import MODELS, demand_of
from hta_graph.roofline.operator_call import NotRecordedError
from tests.roofline.recorded_inputs import Case, recorded

BF16 = "c10::BFloat16"
LONG = "long int"

CASES = [
    # 16384 rows of a table; they may all be the same one
    Case(
        recorded("aten::index_select", f"{BF16}[50304, 768]", "0", f"{LONG}[16384]"),
        0, 8 * 16384 + 2 * 16384 * 768 + 2 * 768, "bfloat16",
    ),
    Case(recorded("aten::index_select", "float[6, 5]", "-1", f"{LONG}[2]"), 0, 8 * 2 + 4 * 12 + 4 * 6, "float"),
    Case(recorded("aten::index_select", "float[6, 5]", "0", f"{LONG}[0]"), 0, 0, "float"),
    # each of the 8192 rows is taken from itself
    Case(
        recorded("aten::gather", "float[8192, 8]", "1", f"{LONG}[8192, 2]", "False"),
        0, 8 * 16384 + 4 * 16384 + 4 * 8192, "float",
    ),
    Case(recorded("aten::take", "float[6, 5]", f"{LONG}[7]"), 0, 8 * 7 + 4 * 7 + 4, "float"),
    Case(
        recorded("aten::embedding", "float[100, 16]", f"{LONG}[4, 5]", "-1", "False", "False"),
        0, 8 * 20 + 4 * 20 * 16 + 4 * 16, "float",
    ),
    Case(recorded("aten::masked_scatter", "float[6, 5]", "bool[6, 5]", "float[30]"), 0, 30, "float"),
    Case(
        recorded("aten::scatter", "float[6, 5]", "0", f"{LONG}[3, 5]", "float[4, 5]"),
        0, 8 * 15 + 4 * 15 + 4 * 5, "float",
    ),
    Case(recorded("aten::scatter_", f"{LONG}[16, 10]", "1", f"{LONG}[16, 1]", "1"), 0, 8 * 16 + 8 * 16, "long int"),
    Case(
        recorded("aten::scatter_", "float[6, 5]", "0", f"{LONG}[3, 5]", "float[3, 5]", "add"),
        15, 8 * 15 + 4 * 15 + 2 * 4 * 5, "float",
    ),
    Case(
        recorded("aten::scatter_add", "float[6, 5]", "0", f"{LONG}[3, 5]", "float[3, 5]"),
        15, 8 * 15 + 4 * 15 + 2 * 4 * 5, "float",
    ),
    Case(
        recorded("aten::scatter_reduce", "float[6, 5]", "0", f"{LONG}[3, 5]", "float[3, 5]", "amax", "True"),
        15, 8 * 15 + 4 * 15 + 2 * 4 * 5, "float",
    ),
    Case(
        recorded("aten::index_add", "float[6, 5]", "0", f"{LONG}[3]", "float[3, 5]", "1"),
        15, 8 * 3 + 4 * 15 + 2 * 4 * 5, "float",
    ),
    Case(
        recorded("aten::index_copy", "float[6, 5]", "1", f"{LONG}[2]", "float[6, 2]"),
        0, 8 * 2 + 4 * 12 + 4 * 6, "float",
    ),
    Case(recorded("aten::index_fill", "float[6, 5]", "0", f"{LONG}[2]", "0"), 0, 8 * 2 + 4 * 5, "float"),
    Case(recorded("aten::index_put", "float[6, 5]", "", "float[3, 5]", "False"), 0, 4 * 15 + 4, "float"),
    Case(
        recorded("aten::_index_put_impl_", "float[6, 5]", "", "float[3, 5]", "True", "False"),
        0, 4 * 15 + 4, "float", is_least=True,
    ),
    Case(
        recorded("aten::embedding_dense_backward", f"{BF16}[4, 5, 16]", f"{LONG}[4, 5]", "100", "-1", "False"),
        320, 2 * 320 + 8 * 20 + 2 * 16, "bfloat16",
    ),
    # 40 rows in 8 bags
    Case(
        recorded(
            "aten::_embedding_bag", "float[100, 16]", f"{LONG}[40]", f"{LONG}[8]", "False", "0", "False", "", "False",
            "-1",
        ),
        40 * 16, 8 * 48 + 4 * 8 * 16 + 4 * 16, "float",
    ),
    # the last offset is the end; a mean divides; each row has a weight
    Case(
        recorded(
            "aten::_embedding_bag", "float[100, 16]", f"{LONG}[40]", f"{LONG}[9]", "False", "1", "False", "float[40]",
            "True", "-1",
        ),
        2 * 40 * 16 + 8 * 16, 8 * 49 + 4 * 8 * 16 + 4 * 16, "float",
    ),
    Case(
        recorded(
            "aten::_embedding_bag_forward_only", "float[100, 16]", f"{LONG}[40]", f"{LONG}[8]", "False", "0", "False",
            "", "False", "3",
        ),
        0, 8 * 48 + 4 * 8 * 16, "float", is_least=True,
    ),
    Case(
        recorded(
            "aten::_embedding_bag_dense_backward", "float[8, 16]", f"{LONG}[40]", f"{LONG}[40]", f"{LONG}[8]",
            f"{LONG}[8]", "100", "False", "0", "", "-1",
        ),
        40 * 16, 8 * 80 + 2 * 4 * 16, "float",
    ),
    Case(recorded("aten::flip", "float[6, 5]", "[0]"), 0, 4 * 60, "float"),
    Case(recorded("aten::roll", "float[6, 5]", "[1]", "[0]"), 0, 4 * 60, "float"),
    Case(recorded("aten::repeat", "float[6, 5]", "[2, 1, 3]"), 0, 4 * (30 + 2 * 6 * 15), "float"),
    Case(recorded("aten::repeat_interleave", f"{LONG}[6]", "20"), 0, 8 * (6 + 20), "long int"),
    Case(recorded("aten::repeat_interleave", "float[6, 5]", "2", "0", ""), 0, 4 * (30 + 60), "float"),
    # 1 + 2 + 3 + 4 of each of two 4 × 4
    Case(recorded("aten::tril", "float[2, 4, 4]", "0"), 0, 4 * (20 + 32), "float"),
    # above the diagonal 3 + 2 + 1
    Case(recorded("aten::triu", "float[4, 4]", "1"), 0, 4 * (6 + 16), "float"),
    Case(recorded("aten::triu_", "float[4, 4]", "1"), 0, 4 * 10, "float"),
    Case(recorded("aten::arange", "0", "8192", "1", f"{LONG}[0]"), 2 * 8192, 8 * 8192, "long int"),
    Case(recorded("aten::arange", "10", "0", "-3", "float[0]"), 2 * 4, 4 * 4, "float"),
    Case(recorded("aten::linspace", "0", "1", "100", "float[0]"), 2 * 100, 4 * 100, "float"),
    Case(recorded("aten::one_hot", f"{LONG}[6]", "10"), 0, 8 * (6 + 60), "long int"),
    Case(
        recorded("aten::bucketize", "float[6, 5]", "float[9]", "False", "False"),
        0, 4 * 30 + 8 * 30, "float", is_least=True,
    ),
    Case(recorded("aten::searchsorted", "float[9]", "float[6, 5]", "True"), 0, 4 * 30 + 4 * 30, "float", is_least=True),
    Case(recorded("aten::_local_scalar_dense", f"{BF16}[]"), 0, 2, "bfloat16"),
]  # fmt: skip

NEVER = {"aten::index", "aten::_unsafe_index", "aten::masked_select"}
"""Their recordings never tell what they need."""


@pytest.mark.parametrize("name", sorted(NEVER))
def test_what_a_mask_or_a_list_of_indices_chooses_is_not_known(name: str) -> None:
    with pytest.raises(NotRecordedError):
        demand_of(recorded(name, "float[6, 5]", "bool[6, 5]"))
    assert any(name in model.operators for model in MODELS)


def test_gradients_of_padding_are_not_read_and_how_many_there_are_is_not_known() -> None:
    for padding in ("0", "7", ""):
        with pytest.raises(NotRecordedError):
            demand_of(recorded("aten::embedding_dense_backward", "float[4, 16]", f"{LONG}[4]", "100", padding, "False"))


def test_triangles_have_the_elements_that_counting_finds() -> None:
    for rows, columns, diagonal in itertools.product(range(1, 5), range(1, 5), range(-6, 7)):
        kept = sum(at_column - at_row <= diagonal for at_row in range(rows) for at_column in range(columns))
        found = demand_of(recorded("aten::tril", f"float[{rows}, {columns}]", str(diagonal)))
        assert found is not None
        assert found.bytes == 4 * (kept + rows * columns)
        upper = demand_of(recorded("aten::triu_", f"float[{rows}, {columns}]", str(diagonal + 1)))
        assert upper is not None
        assert upper.bytes == 4 * kept


def test_numbers_that_do_not_lead_from_start_to_end_are_not_known() -> None:
    for start, end, step in (("0", "8", "0"), ("0", "8", "-1"), ("0", "1e9", "1"), ("0.", "8.", "1."), ("", "", "")):
        with pytest.raises(NotRecordedError):
            demand_of(recorded("aten::arange", start, end, step, f"{LONG}[0]"))


def test_a_dimension_that_the_shape_does_not_have_is_not_known() -> None:
    for dimension in ("2", "-3", "", "[0, 1]"):
        with pytest.raises(NotRecordedError):
            demand_of(recorded("aten::index_select", "float[6, 5]", dimension, f"{LONG}[2]"))
