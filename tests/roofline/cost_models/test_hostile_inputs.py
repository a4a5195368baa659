"""Whatever a recording has as an operator's inputs, its model counts something or says that it is not told."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from hta_graph.roofline.cost_models.table import MODELS, demand_of
from hta_graph.roofline.demand import Demand
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, operator_call
from tests.roofline.hand_counted_cases import CASES
from tests.roofline.recorded_inputs import Case
from tests.support.deep_tests import for_all

NAMES = sorted(name for model in MODELS for name in model.operators)
# The characters of st.text(), without looking at each of them in every new clone.
CHARACTERS = st.characters(exclude_categories=["Cs"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(CHARACTERS, max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(CHARACTERS, max_size=2), inner, max_size=2),
    max_leaves=6,
)
SIDE = st.sampled_from([0, 1, 2, 3, 4, 6, 8, 16]) | st.integers(0, 1 << 40)
SHAPE = st.lists(SIDE, max_size=6)
TYPES = st.sampled_from(
    ["float", "c10::BFloat16", "c10::Float8_e4m3fn", "c10::Float4_e2m1fn_x2", "long int", "bool", "Scalar",
     "ScalarList", "TensorList", "", "nothing known"]
)  # fmt: skip
VALUES = st.sampled_from(
    ["", "0", "1", "2", "-1", "0.", "0.5", "1e-05", "True", "False", "[]", "[0, 0]", "[1, 1]", "[2, 2]", "[-1, 3]",
     "[True, False, True]", "[True, True]", "[,]", "inf", "nan", "9" * 18, "9" * 40, "None"]
)  # fmt: skip
INPUT = st.tuples(
    SHAPE | st.lists(SHAPE, max_size=3) | JSON, TYPES | JSON, VALUES | JSON, st.lists(st.integers(-2, 9), max_size=6)
)


def is_told_or_not(call: OperatorCall) -> None:
    """Count a call: whole numbers that are not negative, or that it was not told."""
    try:
        found = demand_of(call)
    except NotRecordedError:
        return
    assert isinstance(found, Demand)
    counts = [found.flops, *found.sizes.values(), *([] if found.bytes is None else [found.bytes])]
    assert all(type(count) is int and count >= 0 for count in counts), (call, found)


def called(name: str, inputs: list[tuple[Any, Any, Any, Any]]) -> OperatorCall:
    columns = [list(column) for column in zip(*inputs, strict=True)] if inputs else [[]] * 4
    shapes, types, values, strides = columns
    return operator_call(name, shapes, types, values, strides)


@for_all(st.sampled_from(NAMES), st.lists(INPUT, max_size=24), examples=8000)
def test_any_inputs_are_counted_or_not_told(name: str, inputs: list[tuple[Any, Any, Any, Any]]) -> None:
    is_told_or_not(called(name, inputs))


@for_all(st.sampled_from(NAMES), JSON, JSON, JSON, JSON, examples=2000)
def test_columns_that_are_none_are_counted_or_not_told(
    name: str, shapes: Any, types: Any, values: Any, strides: Any
) -> None:
    is_told_or_not(operator_call(name, shapes, types, values, strides))


@st.composite
def spoilt(draw: st.DrawFn) -> OperatorCall:
    """Return a call that was counted by hand, with some of its inputs changed, moved or left out."""
    case: Case = draw(st.sampled_from(CASES))
    inputs = list(case.call.inputs)
    values = list(case.call.values)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(inputs) - 1))
        change = draw(st.sampled_from(["shape", "value", "cut", "without values"]))
        if change == "shape":
            shape, kind, _, strides = draw(INPUT)
            inputs[at] = operator_call("", [shape], [kind], None, [strides]).inputs[0]
        elif change == "value" and values:
            values[at] = draw(VALUES)
        elif change == "cut":
            inputs, values = inputs[: at + 1], values[: at + 1]
        elif change == "without values":
            values = []
    return OperatorCall(case.call.name, tuple(inputs), tuple(values), case.call.kernel)


@for_all(spoilt(), examples=16_000)
def test_a_call_with_some_inputs_spoilt_is_counted_or_not_told(call: OperatorCall) -> None:
    is_told_or_not(call)
