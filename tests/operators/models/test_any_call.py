"""Whatever a recording says of an operator's inputs: it is counted, or said not to be told, and never anything else."""

from __future__ import annotations

from hypothesis import strategies as st

from hta_graph.operators.demand import Model
from hta_graph.operators.models.all_models import MODELS
from hta_graph.operators.operator_call import NotToldError, operator_call
from tests.support.depth import for_all

SIDES = st.one_of(st.integers(0, 5), st.sampled_from([-1, 1 << 40, 1 << 70]))
SHAPES = st.lists(SIDES, max_size=4)
VALUES = ["", "0", "1", "-1", "2", "0.", "1.5", "inf", "nan", "[]", "[0]", "[1, -1]", "[7]", "True", "False", "1e-08",
          "[1, 1]", "[0, 1, 2]", "-9223372036854775808", "6", "15", "99", "none", "[", "(1+2j)", "[2.5]"]  # fmt: skip
TYPES = ["float", "c10::BFloat16", "bool", "long int", "double", "c10::complex<float>", "c10::Float8_e4m3fn", "spam"]
KERNELS = ["", "Memcpy DtoH (Device -> Pinned)", "k<Functor<float, 1>, double>", "k<c10::Half>", "CopyFunctor<float>"]
Input = tuple[object, str, str, object]
NUMBER: st.SearchStrategy[Input] = st.tuples(
    st.just([]), st.sampled_from(["Scalar", "ScalarList", ""]), st.sampled_from(VALUES), st.just([])
)
TENSOR: st.SearchStrategy[Input] = st.tuples(SHAPES, st.sampled_from(TYPES), st.just(""), SHAPES)
SAME: st.SearchStrategy[Input] = st.tuples(
    st.just([4, 3]), st.sampled_from(TYPES), st.just(""), st.sampled_from([[3, 1], [0, 1], []])
)
LIST: st.SearchStrategy[Input] = st.tuples(
    st.lists(SHAPES, max_size=3), st.just("TensorList"), st.just(""), st.just([])
)
SAME_LIST: st.SearchStrategy[Input] = st.just(([[3, 2], [4], []], "TensorList", "", []))
INPUTS = st.lists(st.one_of(NUMBER, TENSOR, SAME, LIST, SAME_LIST), max_size=16)
NAMES = [(model, name + ending) for model in MODELS for name in model.operators for ending in ("", "_")]


@for_all(st.sampled_from(NAMES), INPUTS, st.sampled_from(KERNELS), st.booleans(), examples=40_000)
def test_a_call_of_anything_is_counted_or_not_told(
    named: tuple[Model, str], inputs: list[Input], kernel: str, is_older: bool
) -> None:
    model, name = named
    shapes, types, values, strides = (list(column) for column in zip(*inputs, strict=True)) if inputs else ([],) * 4
    call = operator_call(name, shapes, types, None if is_older else values, strides, kernel)
    try:
        found = model.demand(call)
    except NotToldError:
        return
    assert type(found.flops) is int
    assert found.flops >= 0
    assert found.bytes is None or (type(found.bytes) is int and found.bytes >= 0)
