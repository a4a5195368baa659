"""Images made larger or smaller, each counted by hand."""

from __future__ import annotations

import pytest

from hta_graph.roofline.cost_models.table import demand_of
from hta_graph.roofline.operator_call import NotRecordedError
from tests.roofline.recorded_inputs import Case, recorded

NEAREST_1, NEAREST_2, NEAREST_3 = "float[2, 3, 4]", "float[2, 3, 4, 4]", "float[2, 3, 4, 4, 4]"


CASES = [
    Case(recorded("aten::upsample_nearest1d", NEAREST_1, "[8]", ""), 0, 4 * (24 + 48), "float"),
    Case(recorded("aten::_upsample_nearest_exact1d", NEAREST_1, "[8]", ""), 0, 4 * (24 + 48), "float"),
    Case(recorded("aten::upsample_nearest2d", NEAREST_2, "[8, 8]", "2.", "2."), 0, 4 * (96 + 384), "float"),
    # made smaller, no more is read than is written; here one side grows and the other shrinks
    Case(recorded("aten::_upsample_nearest_exact2d", NEAREST_2, "[8, 2]", "", ""), 0, 4 * (48 + 96), "float"),
    Case(recorded("aten::upsample_nearest3d", NEAREST_3, "[8, 8, 8]", "", "", ""), 0, 4 * (384 + 3072), "float"),
    Case(recorded("aten::_upsample_nearest_exact3d", NEAREST_3, "[8, 8, 8]", "", "", ""), 0, 4 * (384 + 3072), "float"),
    # along one side 3; along two sides 3 for each of two neighbours, and 3 between them
    Case(recorded("aten::upsample_linear1d", NEAREST_1, "[8]", "False", ""), 48 * 3, 4 * (24 + 48), "float"),
    Case(
        recorded("aten::upsample_bilinear2d", "float[64, 3, 256, 256]", "[1024, 1024]", "False", "", ""),
        192 * 1024 * 1024 * 9, 4 * 192 * (256 * 256 + 1024 * 1024), "float",
    ),
    Case(
        recorded("aten::upsample_trilinear3d", NEAREST_3, "[8, 8, 8]", "False", "", "", ""),
        3072 * 21, 4 * (384 + 3072), "float",
    ),
    # 7 for each of four rows, and 7 between them
    Case(recorded("aten::upsample_bicubic2d", NEAREST_2, "[8, 8]", "False", "", ""), 384 * 35, 4 * 480, "float"),
    Case(
        recorded("aten::_upsample_bilinear2d_aa", NEAREST_2, "[2, 2]", "False", "", ""),
        24 * 9, 4 * (24 + 24), "float", is_least=True,
    ),
    Case(
        recorded("aten::_upsample_bicubic2d_aa", NEAREST_2, "[8, 8]", "False", "", ""),
        384 * 35, 4 * 480, "float", is_least=True,
    ),
    Case(recorded("aten::upsample_nearest1d_backward", "float[2, 3, 8]", "[8]", "[2, 3, 4]", ""), 48, 4 * 72, "float"),
    Case(
        recorded("aten::_upsample_nearest_exact1d_backward", "float[2, 3, 8]", "[8]", "[2, 3, 4]", ""),
        48, 4 * 72, "float",
    ),
    Case(
        recorded("aten::upsample_nearest2d_backward", "float[2, 3, 8, 8]", "[8, 8]", "[2, 3, 4, 4]", "", ""),
        384, 4 * (384 + 96), "float",
    ),
    Case(
        recorded("aten::_upsample_nearest_exact2d_backward", "float[2, 3, 8, 8]", "[8, 8]", "[2, 3, 4, 4]", "", ""),
        384, 4 * (384 + 96), "float",
    ),
    Case(
        recorded(
            "aten::upsample_nearest3d_backward", "float[1, 1, 8, 8, 8]", "[8, 8, 8]", "[1, 1, 4, 4, 4]", "", "", ""
        ),
        512, 4 * (512 + 64), "float",
    ),
    Case(
        recorded(
            "aten::_upsample_nearest_exact3d_backward", "float[1, 1, 8, 8, 8]", "[8, 8, 8]", "[1, 1, 4, 4, 4]", "", "",
            "",
        ),
        512, 4 * (512 + 64), "float",
    ),
    # a product and a sum for each of two neighbours; of four; of eight
    Case(
        recorded("aten::upsample_linear1d_backward", "float[2, 3, 8]", "[8]", "[2, 3, 4]", "False", ""),
        48 * 4, 4 * 72, "float",
    ),
    Case(
        recorded("aten::upsample_bilinear2d_backward", "float[2, 3, 8, 8]", "[8, 8]", "[2, 3, 4, 4]", "False", "", ""),
        384 * 8, 4 * 480, "float",
    ),
    Case(
        recorded(
            "aten::upsample_trilinear3d_backward", "float[1, 1, 8, 8, 8]", "[8, 8, 8]", "[1, 1, 4, 4, 4]", "False"
        ),
        512 * 16, 4 * (512 + 64), "float",
    ),
    Case(
        recorded("aten::upsample_bicubic2d_backward", "float[2, 3, 8, 8]", "[8, 8]", "[2, 3, 4, 4]", "False", "", ""),
        384 * 32, 4 * 480, "float",
    ),
    Case(
        recorded("aten::_upsample_bilinear2d_aa_backward", "float[2, 3, 8, 8]", "[8, 8]", "[2, 3, 4, 4]", "False"),
        384 * 8, 4 * 480, "float", is_least=True,
    ),
    Case(
        recorded("aten::_upsample_bicubic2d_aa_backward", "float[2, 3, 8, 8]", "[8, 8]", "[2, 3, 4, 4]", "False"),
        384 * 32, 4 * 480, "float", is_least=True,
    ),
    # the last dimension's padding comes first: 5 becomes 5 + 1 + 2, 4 becomes 4 + 3
    Case(recorded("aten::constant_pad_nd", "float[3, 4, 5]", "[1, 2, 0, 3]", "0"), 0, 4 * (60 + 3 * 7 * 8), "float"),
    # a part may be cut off at one end and another added: how much is read is not counted
    Case(recorded("aten::constant_pad_nd", "float[3, 4, 5]", "[1, -1]", "0"), 0, 4 * 60, "float"),
    Case(recorded("aten::reflection_pad1d", "float[3, 5]", "[1, 2]"), 0, 4 * (15 + 24), "float"),
    Case(recorded("aten::reflection_pad2d", "float[3, 4, 5]", "[1, 1, 1, 1]"), 0, 4 * (60 + 3 * 6 * 7), "float"),
    Case(
        recorded("aten::reflection_pad3d", "float[3, 4, 4, 4]", "[1, 1, 1, 1, 1, 1]"), 0, 4 * (192 + 3 * 216), "float"
    ),
    Case(recorded("aten::replication_pad1d", "float[3, 5]", "[1, 2]"), 0, 4 * (15 + 24), "float"),
    Case(recorded("aten::replication_pad2d", "float[3, 4, 5]", "[1, 1, 1, 1]"), 0, 4 * (60 + 3 * 6 * 7), "float"),
    Case(
        recorded("aten::replication_pad3d", "float[3, 4, 4, 4]", "[1, 1, 1, 1, 1, 1]"), 0, 4 * (192 + 3 * 216), "float"
    ),
    *[
        Case(
            recorded(f"aten::{kind}_pad1d_backward", "float[3, 8]", "float[3, 5]", "[1, 2]"), 24, 4 * (24 + 15), "float"
        )
        for kind in ("reflection", "replication")
    ],
    *[
        Case(
            recorded(f"aten::{kind}_pad2d_backward", "float[3, 6, 7]", "float[3, 4, 5]", "[1, 1, 1, 1]"),
            126, 4 * (126 + 60), "float",
        )
        for kind in ("reflection", "replication")
    ],
    *[
        Case(
            recorded(f"aten::{kind}_pad3d_backward", "float[3, 6, 6, 6]", "float[3, 4, 4, 4]", "[1, 1, 1, 1, 1, 1]"),
            648, 4 * (648 + 192), "float",
        )
        for kind in ("reflection", "replication")
    ],
    # two coordinates for each of 5 × 6 places in two images; three channels are taken there
    Case(
        recorded("aten::grid_sampler_2d", "float[2, 3, 8, 8]", "float[2, 5, 6, 2]", "0", "0", "False"),
        180 * 9, 4 * (120 + 180), "float",
    ),
    Case(
        recorded("aten::grid_sampler_3d", "float[1, 3, 8, 8, 8]", "float[1, 5, 6, 2, 3]", "1", "0", "False"),
        0, 4 * (180 + 180), "float",
    ),
    Case(
        recorded("aten::cudnn_grid_sampler", "float[2, 3, 8, 8]", "float[2, 5, 6, 2]"),
        180 * 9, 4 * (120 + 180), "float",
    ),
    Case(
        recorded(
            "aten::grid_sampler_2d_backward", "float[2, 3, 5, 6]", "float[2, 3, 8, 8]", "float[2, 5, 6, 2]", "0", "0",
            "False", "[True, True]",
        ),
        180 * 8, 4 * (180 + 120 + 120), "float", is_least=True,
    ),
    Case(
        recorded(
            "aten::grid_sampler_3d_backward", "float[1, 3, 5, 6, 2]", "float[1, 3, 8, 8, 8]", "float[1, 5, 6, 2, 3]",
            "0", "0", "False", "[False, True]",
        ),
        0, 4 * (180 + 180 + 180), "float", is_least=True,
    ),
]  # fmt: skip


def test_a_size_that_was_not_recorded_or_does_not_fit_is_not_known() -> None:
    for size in ("", "[8]", "[-1, 8]", "[2.0, 2.0]"):
        with pytest.raises(NotRecordedError):
            demand_of(recorded("aten::upsample_nearest2d", NEAREST_2, size, "", ""))


def test_a_padding_that_takes_more_than_there_is_leaves_nothing_that_is_known() -> None:
    for padding in ("[-3, -3]", "[1]", "[1, 1, 1, 1, 1, 1, 1, 1]", "[]"):
        with pytest.raises(NotRecordedError):
            demand_of(recorded("aten::constant_pad_nd", "float[3, 4, 5]", padding, "0"))
