"""Whether a product of 32-bit floats was computed with fewer bits, which only the kernel's name tells.

``torch.backends`` decides it and the profiler does not record that. cuBLAS, cuDNN and CUTLASS write ``tf32``, or for a
matrix instruction of 16 × 8 × 8 on 32-bit floats, which there is for TF32 alone, ``tensorop_s1688`` without another
type; AMD's Tensile writes ``xf32`` or, for its math operation X, ``_MX_``. Plain kernels are called after the BLAS
routine, ``sgemm``, ``scudnn``, after the instruction, ``ffma``, or after the units, ``simt``; in xmma's names each
``f32f32`` is a type of what is multiplied and of what is added to.
"""

from __future__ import annotations

import re

__all__ = ["is_tf32"]

TF32_NAMES = re.compile(r"tf32|xf32|cijk_[a-z]{1,8}_[a-z]{1,8}_s_mx_|tensorop_s1688(?!f16|bf16)")
FP32_NAMES = re.compile(r"sgemm|scudnn|ffma|_simt_|gemm_f32f32_f32f32_f32|cijk_[a-z]{1,8}_[a-z]{1,8}_s(?:b|_b|_h)?_")
OTHER_TYPE_NAMES = re.compile(r"(?<!t)b?f16_s1688|s1688\w{0,60}?_b?f16")
NAME_PREFIX = 400
"""How much of a name is looked at; templates are far longer, and say it at their beginning."""


def is_tf32(kernel: str) -> bool | None:
    """Tell whether a kernel rounds 32-bit floats to TF32 (on AMD: XF32) before it multiplies; ``None``: not told.

    >>> is_tf32("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x16"), is_tf32("ampere_sgemm_128x64_tn")
    (True, False)
    >>> is_tf32("triton_tem_fused_mm_0")
    """
    name = kernel[:NAME_PREFIX].lower()
    if TF32_NAMES.search(name) and not OTHER_TYPE_NAMES.search(name):
        return True
    return False if FP32_NAMES.search(name) else None
