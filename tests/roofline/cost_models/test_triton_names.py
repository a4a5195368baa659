"""Names of generated kernels, as they were recorded, tell which operators were fused."""

from __future__ import annotations

import pytest

from hta_graph.roofline.cost_models.triton import fused_name, fused_operators


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kernel", "operators"),
    [
        ("triton_poi_fused_add_mul_3", ("add", "mul")),
        ("triton_poi_fused_embedding_dense_backward_55", ("embedding_dense_backward",)),
        (
            "triton_poi_fused_embedding_dense_backward_select_backward_2",
            ("embedding_dense_backward", "select_backward"),
        ),
        ("triton_poi_fused_copy__ge_mul_sub_0", ("copy_", "ge", "mul", "sub")),
        (
            "triton_red_fused__log_softmax_div_mul_prepare_softmax_online_sigmoid_view_40",
            ("_log_softmax", "div", "mul", "prepare_softmax_online", "sigmoid", "view"),
        ),
        (
            "triton_red_fused__fused_rms_norm__fused_rms_norm_backward_add_cat_mul_neg_select_backward_slice_unsqueeze_11",
            (
                "_fused_rms_norm", "_fused_rms_norm_backward", "add", "cat", "mul", "neg", "select_backward", "slice",
                "unsqueeze",
            ),
        ),
        (
            "triton_poi_fused__scaled_mm__to_copy_clone_div_lift_fresh_permute_0",
            ("_scaled_mm", "_to_copy", "clone", "div", "lift_fresh", "permute"),
        ),
        (
            "triton_poi_fused__to_copy_clamp_min_copy__div_lerp_mean_mul_pow_rsqrt_sqrt_3",
            ("_to_copy", "clamp_min", "copy_", "div", "lerp", "mean", "mul", "pow", "rsqrt", "sqrt"),
        ),
        ("triton_per_fused_native_layer_norm_12", ("native_layer_norm",)),
        ("triton_fused_add_relu_3", ("add", "relu")),
        ("triton_poi_fused_add_their_own_operator_3", ("add", "their_own_operator")),
        ("triton_poi_fused_add_native_lay", ("add", "native_lay")),
        ("triton_poi_fused_0", ()),
        ("triton_poi_fused_", ()),
        ("triton__0d1d2de", ()),
        ("triton_", ()),
        ("ampere_sgemm_128x128_tn", ()),
        ("", ()),
    ],
)  # fmt: skip
def test_the_operators_of_a_name(kernel: str, operators: tuple[str, ...]) -> None:
    assert fused_operators(kernel) == operators


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kernel", "kind", "is_whole"),
    [
        ("triton_poi_fused_add_3", "poi", True),
        ("triton_red_fused_sum_3", "red", True),
        ("triton_fused_add_3", "", True),
        ("triton_poi_fused_add", "poi", False),
        ("triton_poi_fused_add_mystery_3", "poi", False),
    ],
)
def test_a_kind_and_whether_all_of_a_name_is_understood(kernel: str, kind: str, is_whole: bool) -> None:
    found = fused_name(kernel)
    assert found is not None
    assert (found.kind, found.is_whole) == (kind, is_whole)


def test_a_very_long_name_is_read_at_once() -> None:
    assert len(fused_operators("triton_poi_fused_" + "add_" * 20_000 + "3")) == 20_000
    assert fused_operators("triton_poi_fused_" + "_" * 100_000 + "3") == ("_" * 99_999,)
