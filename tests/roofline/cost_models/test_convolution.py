"""Convolutions, each counted by hand; and the geometry of windows against counting them one by one."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from hta_graph.roofline.cost_models.convolution import SlidingWindow, shape_after, shape_before, touched_part
from hta_graph.roofline.cost_models.table import demand_of
from hta_graph.roofline.demand import Unit
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, Tensor
from tests.roofline.recorded_inputs import Case, recorded
from tests.support.deep_tests import for_all

BF16 = "c10::BFloat16"
MATRIX = Unit.MATRIX

IMAGE, OUT, WEIGHT = "half[2, 6, 9, 9]", "half[2, 4, 5, 5]", "half[4, 3, 3, 3]"
"""Two images of 6 channels in 2 groups, 3 × 3 windows two apart with a rim of one: 5 × 5 places of 4 channels."""
HALVED = ("[2, 2]", "[1, 1]", "[1, 1]")
FLOPS = 2 * (2 * 4 * 5 * 5) * (3 * 3 * 3)
OF_IMAGE, OF_OUT, OF_WEIGHT = 2 * 2 * 6 * 9 * 9, 2 * 2 * 4 * 5 * 5, 2 * 4 * 3 * 3 * 3
CACHE = ["False", "False", "True"]
SMALL, GROWN = "half[2, 4, 5, 5]", "[1, 1]"
"""Transposed: 5 × 5 windows of 3 × 3, two apart, and one beyond: (5 - 1) · 2 + 3 + 1 = 12 a side, 3 channels."""
SPREAD = 2 * (2 * 4 * 5 * 5) * (3 * 3 * 3)
OF_SPREAD = 2 * (2 * 4 * 5 * 5 + 4 * 3 * 3 * 3 + 2 * 3 * 12 * 12)


def ahead(name: str, *parameters: str, more: int = 0) -> Case:
    """Return the example's convolution by an operator whose bias or so takes some more bytes."""
    return Case(recorded(name, IMAGE, WEIGHT, *parameters), FLOPS, OF_IMAGE + OF_OUT + OF_WEIGHT + more, "half", MATRIX)


def back(name: str, *inputs: str, flops: int, moved: int, unit: Unit = MATRIX) -> Case:
    return Case(recorded(name, *inputs), flops, moved, "half", unit)


BACK = (OUT, IMAGE, WEIGHT, "[4]", *HALVED, "False", "[0, 0]", "2")
VOLUME, CUBE, CUBES = "half[2, 3, 7, 7, 7]", "half[4, 3, 3, 3, 3]", "[1, 1, 1]"
OF_CUBES = 2 * (2 * 3 * 7**3 + 4 * 3 * 27 + 2 * 4 * 5**3)
CASES = [
    ahead("aten::convolution", "", *HALVED, "False", "[0, 0]", "2"),
    ahead("aten::convolution_overrideable", "half[4]", *HALVED, "False", "[0, 0]", "2", more=2 * 4),
    ahead("aten::_convolution", "half[4]", *HALVED, "False", "[0, 0]", "2", "False", "False", "True", "True", more=8),
    ahead("aten::cudnn_convolution", "[1, 1]", "[2, 2]", "[1, 1]", "2", *CACHE),
    ahead("aten::miopen_convolution", "half[4]", "[1, 1]", "[2, 2]", "[1, 1]", "2", "False", "False", more=2 * 4),
    ahead("aten::mkldnn_convolution", "", "[1, 1]", "[2, 2]", "[1, 1]", "2"),
    ahead("aten::cudnn_convolution_relu", "half[4]", *HALVED, "2", more=2 * 4),
    ahead("aten::miopen_convolution_relu", "half[4]", *HALVED, "2", more=2 * 4),
    ahead("aten::cudnn_convolution_add_relu", OUT, "1", "half[4]", *HALVED, "2", more=2 * 4 + OF_OUT),
    ahead("aten::miopen_convolution_add_relu", OUT, "1", "half[4]", *HALVED, "2", more=2 * 4 + OF_OUT),
    # one channel of each: 8 channels with 5 × 5 windows and a rim of two keep their 10 × 10 places
    *(
        Case(
            recorded(name, f"{BF16}[3, 8, 10, 10]", f"{BF16}[8, 1, 5, 5]", *parameters),
            2 * 3 * 8 * 100 * 25, 2 * (2 * 3 * 8 * 100 + 8 * 25), "bfloat16", MATRIX,
        )
        for name, *parameters in [
            ("aten::_conv_depthwise2d", "[5, 5]", "", "[1, 1]", "[2, 2]", "[1, 1]"),
            ("aten::miopen_depthwise_convolution", "", "[2, 2]", "[1, 1]", "[1, 1]", "8", "False", "False"),
        ]
    ),
    Case(
        recorded("aten::conv_depthwise3d", "float[1, 2, 4, 4, 4]", "float[2, 1, 2, 2, 2]", "[2, 2, 2]", "", "[1, 1, 1]",
                 "[0, 0, 0]", "[1, 1, 1]"),
        2 * 2 * 27 * 8, 4 * (2 * 64 + 2 * 8 + 2 * 27), "float", MATRIX,
    ),
    # 3 × 3 windows on 7 × 7 without a rim: 5 × 5
    *(
        Case(
            recorded(name, "half[2, 3, 7, 7]", "half[4, 3, 3, 3]", "[3, 3]", "half[4]", "[1, 1]", "[0, 0]"),
            2 * (2 * 4 * 25) * 27, 2 * (2 * 3 * 49 + 4 * 27 + 4 + 2 * 4 * 25), "half", MATRIX,
        )
        for name in ("aten::thnn_conv2d", "aten::_slow_conv2d_forward")
    ),
    *(
        Case(
            recorded(name, VOLUME, CUBE, "[3, 3, 3]", "", CUBES, "[0, 0, 0]"),
            2 * (2 * 4 * 125) * 81, OF_CUBES, "half", MATRIX,
        )
        for name in ("aten::slow_conv3d", "aten::slow_conv3d_forward")
    ),
    # gaps of two: a window of three spans five, 9 × 9 hold 5 × 5
    Case(
        recorded("aten::slow_conv_dilated2d", "half[2, 3, 9, 9]", "half[4, 3, 3, 3]", "[3, 3]", "", "[1, 1]", "[0, 0]",
                 "[2, 2]"),
        2 * (2 * 4 * 25) * 27, 2 * (2 * 3 * 81 + 4 * 27 + 2 * 4 * 25), "half", MATRIX,
    ),
    Case(
        recorded("aten::slow_conv_dilated3d", "half[2, 3, 9, 9, 9]", CUBE, "[3, 3, 3]", "", CUBES, "[0, 0, 0]",
                 "[2, 2, 2]"),
        2 * (2 * 4 * 125) * 81, 2 * (2 * 3 * 9**3 + 4 * 81 + 2 * 4 * 125), "half", MATRIX,
    ),
    # the first of owlv2: patches of 14 × 14, 72 × 72 of them
    Case(
        recorded("aten::cudnn_convolution", f"{BF16}[1, 3, 1008, 1008]", f"{BF16}[1024, 3, 14, 14]", "[0, 0]",
                 "[14, 14]", "[1, 1]", "1", *CACHE),
        2 * (72 * 72) * 1024 * (3 * 14 * 14), 2 * (3 * 1008 * 1008 + 1024 * 3 * 14 * 14 + 1024 * 72 * 72),
        "bfloat16", MATRIX,
    ),
    # windows of one, two apart: of 8 × 8 places 4 × 4 are read
    Case(
        recorded("aten::cudnn_convolution", "half[1, 16, 8, 8]", "half[32, 16, 1, 1]", "[0, 0]", "[2, 2]", "[1, 1]",
                 "1", *CACHE),
        2 * 16 * 32 * 16, 2 * (16 * 16 + 32 * 16 + 32 * 16), "half", MATRIX,
    ),
    # one side, one number for it
    Case(
        recorded("aten::convolution", "float[2, 3, 10]", "float[5, 3, 4]", "float[5]", "[1]", "[0]", "[1]", "False",
                 "[0]", "1"),
        2 * (2 * 5 * 7) * 12, 4 * (2 * 3 * 10 + 5 * 3 * 4 + 5 + 2 * 5 * 7), "float", MATRIX,
    ),
    Case(
        recorded("aten::convolution", SMALL, WEIGHT, "", "[2, 2]", "[0, 0]", "[1, 1]", "True", GROWN, "1"),
        SPREAD, OF_SPREAD, "half", MATRIX,
    ),
    # two groups: twice the channels of the output
    Case(
        recorded("aten::cudnn_convolution_transpose", SMALL, WEIGHT, "[0, 0]", GROWN, "[2, 2]", "[1, 1]", "2", *CACHE),
        SPREAD, OF_SPREAD + 2 * (2 * 3 * 12 * 12), "half", MATRIX,
    ),
    Case(
        recorded("aten::miopen_convolution_transpose", SMALL, WEIGHT, "half[3]", "[0, 0]", GROWN, "[2, 2]", "[1, 1]",
                 "1", "False", "False"),
        SPREAD, OF_SPREAD + 2 * 3, "half", MATRIX,
    ),
    Case(
        recorded("aten::slow_conv_transpose2d", SMALL, WEIGHT, "[3, 3]", "", "[2, 2]", "[0, 0]", GROWN, "[1, 1]"),
        SPREAD, OF_SPREAD, "half", MATRIX,
    ),
    # 2 · 1 + 2 - 2 = 2 a side, whatever is left of the rim
    Case(
        recorded("aten::slow_conv_transpose3d", "float[1, 2, 2, 2, 2]", "float[2, 5, 2, 2, 2]", "[2, 2, 2]", "float[5]",
                 "[2, 2, 2]", "[1, 1, 1]", "[0, 0, 0]", "[1, 1, 1]"),
        2 * (2 * 8) * (5 * 8), 4 * (2 * 8 + 2 * 5 * 8 + 5 + 5 * 8), "float", MATRIX,
    ),
    back("aten::convolution_backward", *BACK, "[True, True, True]",
         flops=2 * FLOPS, moved=OF_OUT + 2 * OF_IMAGE + 2 * OF_WEIGHT + 2 * 4),
    back("aten::convolution_backward", *BACK, "[True, False, False]",
         flops=FLOPS, moved=OF_OUT + OF_WEIGHT + OF_IMAGE),
    back("aten::convolution_backward", *BACK, "[False, True, True]",
         flops=FLOPS, moved=OF_OUT + OF_IMAGE + OF_WEIGHT + 2 * 4),
    # the bias alone: 200 additions
    back("aten::convolution_backward", *BACK, "[False, False, True]",
         flops=2 * 4 * 5 * 5, moved=OF_OUT + 2 * 4, unit=Unit.VECTOR),
    back("aten::convolution_backward", *BACK, "[False, False, False]", flops=0, moved=0, unit=Unit.VECTOR),
    # the transposed one's: the gradient of its output has 12 × 12
    back("aten::convolution_backward", "half[2, 3, 12, 12]", SMALL, WEIGHT, "[0]", "[2, 2]", "[0, 0]", "[1, 1]", "True",
         GROWN, "1", "[True, True, False]",
         flops=2 * SPREAD, moved=2 * (2 * 3 * 144 + 2 * 2 * 4 * 25 + 2 * 4 * 27)),
    # a gradient that is one number for all takes the memory of one
    back("aten::convolution_backward", "half[2, 4, 5, 5]@0,0,0,0", *BACK[1:], "[True, False, False]",
         flops=FLOPS, moved=2 + OF_WEIGHT + OF_IMAGE),
    back("aten::convolution_backward_overrideable", OUT, IMAGE, WEIGHT, *HALVED, "False", "[0, 0]", "2",
         "[True, True, False]", flops=2 * FLOPS, moved=OF_OUT + 2 * OF_IMAGE + 2 * OF_WEIGHT),
    back("aten::_slow_conv2d_backward", "half[2, 4, 5, 5]", "half[2, 3, 7, 7]", WEIGHT, "[3, 3]", "[1, 1]", "[0, 0]",
         "[True, True, True]", flops=2 * 2 * (2 * 4 * 25) * 27, moved=2 * (200 + 2 * 2 * 3 * 49 + 2 * 4 * 27 + 4)),
    back("aten::cudnn_convolution_backward", IMAGE, OUT, WEIGHT, "[1, 1]", "[2, 2]", "[1, 1]", "2", *CACHE,
         "[True, True]", flops=2 * FLOPS, moved=OF_OUT + 2 * OF_IMAGE + 2 * OF_WEIGHT),
    back("aten::miopen_convolution_backward", IMAGE, OUT, WEIGHT, "[1, 1]", "[2, 2]", "[1, 1]", "2", "False", "False",
         "[True, True, True]", flops=2 * FLOPS, moved=OF_OUT + 2 * OF_IMAGE + 2 * OF_WEIGHT + 2 * 4),
    *(
        back(name, "[2, 6, 9, 9]", OUT, WEIGHT, "[1, 1]", "[2, 2]", "[1, 1]", "2", *CACHE,
             flops=FLOPS, moved=OF_OUT + OF_IMAGE + OF_WEIGHT)
        for name in ("aten::cudnn_convolution_backward_input", "aten::miopen_convolution_backward_input")
    ),
    *(
        back(name, "[4, 3, 3, 3]", OUT, IMAGE, "[1, 1]", "[2, 2]", "[1, 1]", "2", *CACHE,
             flops=FLOPS, moved=OF_OUT + OF_IMAGE + OF_WEIGHT)
        for name in ("aten::cudnn_convolution_backward_weight", "aten::miopen_convolution_backward_weight")
    ),
]  # fmt: skip


def test_a_convolution_tells_the_sizes_of_its_product() -> None:
    found = demand_of(ahead("aten::cudnn_convolution", "[1, 1]", "[2, 2]", "[1, 1]", "2", *CACHE).call)
    assert found is not None
    assert dict(found.sizes) == {"M": 2 * 5 * 5, "N": 2, "K": 27, "groups": 2}
    assert found.flops == 2 * 50 * 2 * 27 * 2


def test_without_recorded_sizes_the_gradient_of_the_input_tells_its_arithmetic_alone() -> None:
    found = demand_of(recorded("aten::cudnn_convolution_backward_input", "", OUT, WEIGHT))
    assert found is not None
    assert (found.flops, found.bytes) == (FLOPS, None)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "call",
    [
        recorded("aten::cudnn_convolution", IMAGE, WEIGHT, "", "", "", "", "", "", ""),
        recorded("aten::cudnn_convolution", IMAGE, WEIGHT, "[1, 1]", "[0, 0]", "[1, 1]", "2", *CACHE),
        recorded("aten::cudnn_convolution", IMAGE, WEIGHT, "[1, 1, 1]", "[2, 2]", "[1, 1]", "2", *CACHE),
        recorded("aten::cudnn_convolution", IMAGE, "half[4, 5, 3, 3]", "[1, 1]", "[2, 2]", "[1, 1]", "2", *CACHE),
        recorded("aten::cudnn_convolution", IMAGE, "half[4, 6, 30, 30]", "[1, 1]", "[2, 2]", "[1, 1]", "1", *CACHE),
        recorded("aten::convolution", IMAGE, WEIGHT, "", *HALVED, "", "[0, 0]", "2"),
        recorded("aten::convolution_backward", *BACK, ""),
        recorded("aten::cudnn_convolution_backward_weight", "", OUT, IMAGE, "[1, 1]", "[2, 2]", "[1, 1]", "2"),
    ],
    ids=lambda call: call.name,
)
def test_a_convolution_whose_parameters_are_missing_or_do_not_fit_tells_nothing(call: OperatorCall) -> None:
    with pytest.raises(NotRecordedError):
        demand_of(call)


WINDOWS = st.builds(SlidingWindow, st.integers(1, 5), st.integers(1, 6), st.integers(0, 6), st.integers(1, 4))


def reached(side: int, one: SlidingWindow, count: int) -> list[list[int]]:
    """Return which elements of a side, without the rim, each of so many windows meets."""
    starts = [place * one.stride - one.padding for place in range(count)]
    return [[at + step * one.dilation for step in range(one.size)] for at in starts]


@for_all(st.integers(0, 20), WINDOWS, examples=4000)
def test_windows_fit_into_a_side_and_its_rim(side: int, one: SlidingWindow) -> None:
    if side + 2 * one.padding < one.span:
        return
    (count,) = shape_after((side,), [one])
    assert reached(side, one, count)[-1][-1] < side + one.padding
    assert reached(side, one, count + 1)[-1][-1] >= side + one.padding


@for_all(st.integers(0, 20), WINDOWS, examples=4000)
def test_no_more_of_a_side_is_read_than_windows_meet(side: int, one: SlidingWindow) -> None:
    if side + 2 * one.padding < one.span:
        return
    (count,) = shape_after((side,), [one])
    met = {at for window in reached(side, one, count) for at in window if 0 <= at < side}
    found = touched_part(Tensor((1, 1, side), "float"), (count,), [one]).shape[2]
    assert 0 <= found <= len(met)
    if one.dilation == 1 and not one.padding:
        assert found == len(met)


@for_all(st.integers(1, 12), WINDOWS, st.integers(0, 5), examples=4000)
def test_what_a_transposed_convolution_writes_holds_the_windows_of_its_input(
    side: int, one: SlidingWindow, more: int
) -> None:
    beyond = min(more, one.stride - 1)
    try:
        (wide,) = shape_before((side,), [one], (beyond,))
    except NotRecordedError:
        return
    assert shape_after((wide,), [one]) == (side,)
