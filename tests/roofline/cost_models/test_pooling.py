"""Pools and unfoldings, each counted by hand; where windows lie is compared with trying every place."""

from __future__ import annotations

import itertools

import pytest

from hta_graph.roofline.cost_models.convolution import SlidingWindow
from hta_graph.roofline.cost_models.table import demand_of
from hta_graph.roofline.operator_call import NotRecordedError
from tests.roofline.recorded_inputs import Case, recorded

BF16 = "c10::BFloat16"

CASES = [
    # ResNet's first pool: windows of 3 × 3 at every second place of 112 × 112 make 56 × 56 and touch all
    Case(
        recorded(
            "aten::max_pool2d_with_indices", f"{BF16}[10, 64, 112, 112]", "[3, 3]", "[2, 2]", "[1, 1]", "[1, 1]",
            "False",
        ),
        640 * 56 * 56 * 9, 2 * 640 * 112 * 112 + (2 + 8) * 640 * 56 * 56, "bfloat16",
    ),
    # without a stride it is the window; of 9 × 9 the last row and column are in no window
    Case(
        recorded("aten::max_pool2d_with_indices", "float[1, 9, 9]", "[2, 2]", "[]", "[0, 0]", "[1, 1]", "False"),
        16 * 4, 4 * 8 * 8 + (4 + 8) * 16, "float",
    ),
    # rounded up there is a fifth window, with one element along each side
    Case(
        recorded("aten::max_pool2d_with_indices", "float[1, 9, 9]", "[2]", "[2]", "[0]", "[1]", "True"),
        25 * 4, 4 * 81 + (4 + 8) * 25, "float",
    ),
    Case(
        recorded(
            "aten::max_pool3d_with_indices", "float[2, 3, 4, 4, 4]", "[2, 2, 2]", "[2, 2, 2]", "[0, 0, 0]", "[1, 1, 1]",
            "False",
        ),
        6 * 8 * 8, 4 * 6 * 64 + (4 + 8) * 6 * 8, "float",
    ),
    Case(
        recorded(
            "aten::max_pool2d_with_indices_backward", f"{BF16}[2, 3, 4, 4]", f"{BF16}[2, 3, 8, 8]", "[2, 2]", "[2, 2]",
            "[0, 0]", "[1, 1]", "False", "long int[2, 3, 4, 4]",
        ),
        96, 2 * 96 + 8 * 96 + 2 * 384, "bfloat16",
    ),
    Case(
        recorded(
            "aten::max_pool3d_with_indices_backward", "float[3, 2, 2, 2]", "float[3, 4, 4, 4]", "[2, 2, 2]",
            "[2, 2, 2]", "[0, 0, 0]", "[1, 1, 1]", "False", "long int[3, 2, 2, 2]",
        ),
        24, 4 * 24 + 8 * 24 + 4 * 192, "float",
    ),
    # one element of each four is read
    Case(
        recorded("aten::avg_pool2d", "float[2, 3, 8, 8]", "[1, 1]", "[2, 2]", "[0, 0]", "False", "True", ""),
        96 * 2, 4 * 96 + 4 * 96, "float",
    ),
    Case(
        recorded("aten::avg_pool3d", "float[1, 1, 4, 4, 4]", "[2, 2, 2]", "[]", "[0, 0, 0]", "False", "True", ""),
        8 * 9, 4 * 64 + 4 * 8, "float",
    ),
    Case(
        recorded(
            "aten::avg_pool2d_backward", "float[2, 3, 4, 4]", "float[2, 3, 8, 8]", "[2, 2]", "[2, 2]", "[0, 0]",
            "False", "True", "",
        ),
        96 * 5, 4 * 96 + 4 * 384, "float",
    ),
    Case(
        recorded(
            "aten::avg_pool3d_backward", "float[1, 2, 2, 2]", "float[1, 4, 4, 4]", "[2, 2, 2]", "[]", "[0, 0, 0]",
            "False", "True", "",
        ),
        8 * 9, 4 * 8 + 4 * 64, "float",
    ),
    # 8 into 3: from 0, 2, 5 to 3, 6, 8: 3 + 4 + 3 elements; 9 into 3: 3 each
    Case(
        recorded("aten::_adaptive_avg_pool2d", "float[2, 8, 9]", "[3, 3]"),
        2 * 10 * 9 + 18, 4 * 144 + 4 * 18, "float",
    ),
    Case(
        recorded("aten::_adaptive_avg_pool3d", "float[1, 2, 4, 4, 4]", "[1, 1, 1]"), 128 + 2, 4 * 128 + 4 * 2, "float"
    ),
    Case(
        recorded("aten::_adaptive_avg_pool2d_backward", "float[2, 3, 3]", "float[2, 8, 9]"),
        2 * 10 * 9 + 18, 4 * 18 + 4 * 144, "float",
    ),
    Case(
        recorded("aten::_adaptive_avg_pool3d_backward", "float[2, 1, 1, 1]", "float[2, 4, 4, 4]"),
        128 + 2, 4 * 2 + 4 * 128, "float",
    ),
    Case(
        recorded("aten::adaptive_max_pool2d", "float[2, 8, 8]", "[2, 2]"), 128, 4 * 128 + (4 + 8) * 8, "float"
    ),
    Case(
        recorded("aten::adaptive_max_pool3d", "float[2, 4, 4, 4]", "[2, 2, 2]"), 128, 4 * 128 + (4 + 8) * 16, "float"
    ),
    Case(
        recorded("aten::adaptive_max_pool2d_backward", "float[2, 2, 2]", "float[2, 8, 8]", "long int[2, 2, 2]"),
        8, (4 + 8) * 8 + 4 * 128, "float",
    ),
    Case(
        recorded(
            "aten::adaptive_max_pool3d_backward", "float[2, 2, 2, 2]", "float[2, 4, 4, 4]", "long int[2, 2, 2, 2]"
        ),
        16, (4 + 8) * 16 + 4 * 128, "float",
    ),
    # 3 × 3 with padding 1 around 4 × 4: 16 windows of 9 in each of 2 channels
    Case(
        recorded("aten::im2col", "float[1, 2, 4, 4]", "[3, 3]", "[1, 1]", "[1, 1]", "[1, 1]"),
        0, 4 * 32 + 4 * 2 * 9 * 16, "float",
    ),
    Case(
        recorded("aten::col2im", "float[1, 8, 4]", "[4, 4]", "[2, 2]", "[1, 1]", "[0, 0]", "[2, 2]"),
        32, 4 * 32 + 4 * 2 * 16, "float",
    ),
    # of 4 × 4 windows the 2 × 2 inner ones lie wholly in the image
    Case(
        recorded("aten::col2im", "float[1, 18, 16]", "[4, 4]", "[3, 3]", "[1, 1]", "[1, 1]", "[1, 1]"),
        288, 4 * 2 * 9 * 4 + 4 * 2 * 16, "float",
    ),
]  # fmt: skip


def places(window: SlidingWindow, side: int, count: int) -> list[list[int]]:
    """Return the elements of each of the first windows, without those in the padding."""
    all_places = (
        [at * window.stride - window.padding + place * window.dilation for place in range(window.size)]
        for at in range(count)
    )
    return [[place for place in found if 0 <= place < side] for found in all_places]


def test_windows_touch_what_is_counted_and_dilated_ones_no_less() -> None:
    for size, stride, dilation, side in itertools.product((1, 2, 3, 5), (1, 2, 3, 7), (1, 2, 3), range(1, 12)):
        for padding, ceil in itertools.product(range(size // 2 + 1), (False, True)):
            window = SlidingWindow(size, stride, padding, dilation)
            if side + 2 * padding < window.span:
                continue
            found = places(window, side, count := window.count(side, ceil=ceil))
            reached = len(set(itertools.chain(*found)))
            assert window.touched(side, count) <= reached
            assert dilation > 1 or window.touched(side, count) == reached
            whole = sum(len(each) == size for each in found)
            assert window.inside(side, count) == whole


def test_a_window_that_is_larger_than_its_data_or_without_size_is_none() -> None:
    for size, stride in (("[9, 9]", "[1, 1]"), ("[0, 0]", "[1, 1]"), ("[2, 2]", "[0, 0]"), ("[2, 2, 2]", "[1, 1]")):
        with pytest.raises(NotRecordedError):
            demand_of(recorded("aten::avg_pool2d", "float[2, 3, 8, 8]", size, stride, "[0, 0]", "False", "True", ""))


def test_a_pool_whose_values_were_not_recorded_is_not_known() -> None:
    with pytest.raises(NotRecordedError):
        demand_of(recorded("aten::max_pool2d_with_indices", "float[2, 3, 8, 8]", "", "", "", "", ""))
