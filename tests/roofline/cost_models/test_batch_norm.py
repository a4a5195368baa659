"""Batch normalisation, each counted by hand."""

from __future__ import annotations

from tests.roofline.recorded_inputs import Case, recorded

BF16 = "c10::BFloat16"
ALL = "[True, True, True]"
# 10 images of 64 channels, 56 × 56
DATA, CHANNEL = f"{BF16}[10, 64, 56, 56]", f"{BF16}[64]"
N = 10 * 64 * 56 * 56
SMALL = "float[2, 3, 4]"
THREE = "float[3]"

CASES = [
    # in training the running statistics are written too, and mean and deviation of the batch, in float
    Case(
        recorded("aten::native_batch_norm", DATA, CHANNEL, CHANNEL, CHANNEL, CHANNEL, "True", "0.1", "1e-05"),
        N * (4 + 2 + 2), 2 * N + 2 * 4 * 64 + 2 * N + 4 * 2 * 64 + 2 * 2 * 64, "bfloat16",
    ),
    Case(
        recorded("aten::native_batch_norm", SMALL, THREE, THREE, THREE, THREE, "False", "0.1", "1e-05"),
        24 * 4, 4 * (24 + 4 * 3 + 24), "float",
    ),
    # an old recording has no values: what inference does is done in any case
    Case(
        recorded("aten::native_batch_norm", SMALL, THREE, THREE, THREE, THREE, "", "", ""),
        24 * 4, 4 * (24 + 4 * 3 + 24), "float", is_least=True,
    ),
    Case(
        recorded("aten::cudnn_batch_norm", SMALL, THREE, THREE, THREE, THREE, "True", "0.1", "1e-05"),
        24 * 8, 4 * (24 + 4 * 3 + 24 + 2 * 3 + 2 * 3), "float",
    ),
    Case(
        recorded("aten::miopen_batch_norm", SMALL, THREE, THREE, "", "", "True", "0.1", "1e-05"),
        24 * 8, 4 * (24 + 2 * 3 + 24 + 2 * 3), "float",
    ),
    # the overload without running statistics
    Case(
        recorded("aten::_native_batch_norm_legit", SMALL, THREE, THREE, "True", "0.1", "1e-05"),
        24 * 8, 4 * (24 + 2 * 3 + 24 + 2 * 3), "float",
    ),
    Case(
        recorded("aten::_batch_norm_with_update", SMALL, THREE, THREE, THREE, THREE, "0.1", "1e-05"),
        24 * 8, 4 * (24 + 4 * 3 + 24 + 2 * 3 + 2 * 3), "float",
    ),
    Case(
        recorded("aten::_batch_norm_no_update", SMALL, "", "", THREE, THREE, "0.1", "1e-05"),
        24 * 2, 4 * (24 + 2 * 3 + 24), "float",
    ),
    # 2 for the normalised value, 3 for two sums, 4 for the data's gradient
    Case(
        recorded(
            "aten::native_batch_norm_backward", SMALL, SMALL, THREE, THREE, THREE, THREE, THREE, "True", "1e-05", ALL
        ),
        24 * 9, 4 * (24 + 24 + 3 + 3 + 3) + 4 * (24 + 3 + 3), "float",
    ),
    # in inference the data's gradient needs neither the data nor the mean
    Case(
        recorded(
            "aten::native_batch_norm_backward", SMALL, SMALL, THREE, THREE, THREE, "", "", "False", "1e-05",
            "[True, False, False]",
        ),
        24, 4 * (24 + 3 + 3) + 4 * 24, "float",
    ),
    Case(
        recorded(
            "aten::batch_norm_backward", SMALL, SMALL, THREE, THREE, THREE, THREE, THREE, "True", "1e-05",
            "[False, True, True]", "unsigned char[0]",
        ),
        24 * 5, 4 * (24 + 24 + 3 + 3) + 4 * (3 + 3), "float",
    ),
    Case(
        recorded(
            "aten::cudnn_batch_norm_backward", SMALL, SMALL, THREE, THREE, THREE, THREE, THREE, "1e-05",
            "unsigned char[0]",
        ),
        24 * 9, 4 * (24 + 24 + 3 + 3 + 3) + 4 * (24 + 3 + 3), "float",
    ),
    Case(
        recorded("aten::miopen_batch_norm_backward", SMALL, SMALL, THREE, THREE, THREE, THREE, THREE, "1e-05"),
        24 * 9, 4 * (24 + 24 + 3 + 3 + 3) + 4 * (24 + 3 + 3), "float",
    ),
    Case(recorded("aten::batch_norm_stats", SMALL, "1e-05"), 24 * 4, 4 * (24 + 2 * 3), "float"),
    Case(
        recorded("aten::batch_norm_update_stats", SMALL, THREE, THREE, "0.1"),
        24 * 4, 4 * (24 + 2 * 3 + 2 * 3 + 2 * 3), "float",
    ),
    # of 8 ranks
    Case(
        recorded(
            "aten::batch_norm_gather_stats_with_counts", SMALL, "float[8, 3]", "float[8, 3]", THREE, THREE, "0.1",
            "1e-05", "float[8]",
        ),
        10 * 8 * 3, 4 * (24 + 24 + 2 * 3 + 8) + 4 * (2 * 3 + 2 * 3), "float",
    ),
    Case(
        recorded("aten::batch_norm_gather_stats", SMALL, "float[8, 3]", "float[8, 3]", "", "", "0.1", "1e-05", "16"),
        10 * 8 * 3, 4 * (24 + 24) + 4 * 2 * 3, "float",
    ),
    Case(
        recorded("aten::batch_norm_elemt", SMALL, THREE, THREE, THREE, THREE, "1e-05"),
        24 * 4, 4 * (24 + 4 * 3 + 24), "float",
    ),
    Case(
        recorded("aten::batch_norm_backward_reduce", SMALL, SMALL, THREE, THREE, THREE, "True", "True", "True"),
        24 * 4, 4 * (24 + 24 + 2 * 3) + 4 * 4 * 3, "float",
    ),
    Case(
        recorded(
            "aten::batch_norm_backward_elemt", SMALL, SMALL, THREE, THREE, THREE, THREE, THREE, "int[8]"
        ),
        24 * 5, 4 * (24 + 24 + 5 * 3 + 24), "float",
    ),
]  # fmt: skip
