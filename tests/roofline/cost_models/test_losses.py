"""Losses, each counted by hand."""

from __future__ import annotations

import pytest

from hta_graph.roofline.cost_models.table import demand_of
from hta_graph.roofline.operator_call import NotRecordedError
from tests.roofline.recorded_inputs import Case, recorded

BF16 = "c10::BFloat16"
X = "float[5, 7]"

CASES = [
    Case(recorded("aten::mse_loss", X, X, "1"), 2 * 35, 4 * (35 + 35 + 1), "float"),
    Case(recorded("aten::mse_loss", X, "float[7]", "0"), 2 * 35, 4 * (35 + 7 + 35), "float"),
    Case(recorded("aten::mse_loss_backward", "float[]", X, X, "1"), 3 * 35, 4 * (1 + 35 + 35 + 35), "float"),
    Case(recorded("aten::smooth_l1_loss", X, X, "0", "1."), 4 * 35, 4 * 3 * 35, "float", is_least=True),
    Case(
        recorded("aten::smooth_l1_loss_backward", X, X, X, "0", "1."), 3 * 35, 4 * 4 * 35, "float", is_least=True
    ),
    Case(recorded("aten::huber_loss", X, X, "2", "1."), 5 * 35, 4 * (35 + 35 + 1), "float"),
    Case(
        recorded("aten::huber_loss_backward", "float[]", X, X, "2", "1."), 3 * 35, 4 * (1 + 3 * 35), "float",
        is_least=True,
    ),
    Case(recorded("aten::binary_cross_entropy", X, X, "", "1"), 9 * 35, 4 * (35 + 35 + 1), "float"),
    Case(
        recorded("aten::binary_cross_entropy_backward", "float[]", X, X, "", "1"), 6 * 35, 4 * (1 + 3 * 35), "float"
    ),
    # 16 targets among 50304 words; loss and weight of all are two numbers
    Case(
        recorded("aten::nll_loss_forward", f"{BF16}[16, 50304]", "long int[16]", "", "1", "-100"),
        2 * 16, 8 * 16 + 2 * 2, "bfloat16",
    ),
    Case(
        recorded("aten::nll_loss_forward", "float[16, 10]", "long int[16]", "", "0", "-100"),
        16, 8 * 16 + 4 * 16, "float",
    ),
    Case(
        recorded("aten::nll_loss2d_forward", "float[2, 10, 4, 4]", "long int[2, 4, 4]", "float[10]", "2", "-100"),
        2 * 32, 8 * 32 + 4 * 2, "float",
    ),
    Case(
        recorded(
            "aten::nll_loss_backward", "float[]", "float[16, 10]", "long int[16]", "", "1", "-100", "float[]"
        ),
        16, 8 * 16, "float",
    ),
    Case(
        recorded(
            "aten::nll_loss2d_backward", "float[]", "float[2, 10, 4, 4]", "long int[2, 4, 4]", "", "1", "-100",
            "float[]",
        ),
        32, 8 * 32, "float",
    ),
]  # fmt: skip


def test_tensors_that_do_not_fit_have_no_loss() -> None:
    with pytest.raises(NotRecordedError):
        demand_of(recorded("aten::mse_loss", X, "float[4]", "1"))
