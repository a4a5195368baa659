"""Which kernels say that they round 32-bit floats, by names out of recordings and of the libraries."""

from __future__ import annotations

import time

import pytest

from hta_graph.roofline.devices import is_tf32

XMMA = "sm80_xmma_fprop_implicit_gemm"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "kernel",
    [
        f"{XMMA}_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4_warpsize2x2x1_g1_tensor16x8x8",
        "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x16_stage4_warpsize2x2x1_tensor16x8x8_kernel",
        "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>",
        "void cutlass_cudnn_infer::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_128x128_16x4_nhwc_unity_stride>",
        "cutlass_tensorop_s1688tf32gemm_128x128_16x3_nn_align4",
        "cutlass_tensorop_tf32_s1688gemm_tf32_256x128_16x3_nn_align4",
        "nvjet_sss_tf32_128x256_TNT",
        "Cijk_Alik_Bljk_S_MX_B_UserArgs_MT128x128x32_MI16x16x1_SN_LDSB0",
        "Custom_Cijk_Ailk_Bljk_S_MX_B_BIAS_HA_S_SAV_NTD_SK3_UserArgs_MT256x256x32",
        "some_xf32_kernel",
    ],
)
def test_a_kernel_that_rounds_says_so(kernel: str) -> None:
    assert is_tf32(kernel) is True


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "kernel",
    [
        "volta_sgemm_128x64_nn",
        "ampere_sgemm_32x32_sliced1x4_tn",
        "cudnn_infer_ampere_scudnn_128x64_relu_xregs_large_nn_v1",
        "void cutlass::Kernel<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(cutlass_80_simt_sgemm_128x32_8x5_nn_align1)",
        "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4",
        "void implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1, false, true, true>(int, int, int)",
        "Cijk_Ailk_Bljk_SB_MT64x64x16_MI32x32x2x1",
        "Cijk_Ailk_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT64x64x16",
    ],
)
def test_a_kernel_that_does_not_says_so_too(kernel: str) -> None:
    assert is_tf32(kernel) is False


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "kernel",
    [
        "",
        "triton_tem_fused_mm_0",
        "nvjet_tst_192x192_64x3_2x1_v_bz_coopB_NNN",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1",
        "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_64x64_nn_align1>(Params)",
        "void cutlass::Kernel2<cutlass_75_tensorop_s1688gemm_f16_64x64_nn_align1>(Params)",
        "void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_bf16_64x64_32x6_nt_align2>(Params)",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT160x256x64_MI16x16x1",
    ],
)
def test_of_others_nothing_is_told(kernel: str) -> None:
    assert is_tf32(kernel) is None


def test_a_name_of_megabytes_costs_nothing() -> None:
    begin = time.perf_counter()
    for part in ("cijk_", "s1688", "cijk_a_b_s", "tf3"):
        assert is_tf32(part * 1_000_000) is None or part == "s1688"
    assert time.perf_counter() - begin < 1
