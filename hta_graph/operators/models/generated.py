"""Kernels that torch.compile generates with Triton: traffic by the tensors given, what is fused by the names."""

from __future__ import annotations

import math
import re

from hta_graph.operators.demand import Demand, Model
from hta_graph.operators.operator_call import NotToldError, OperatorCall

__all__ = ["GENERATED", "fused_operators", "is_generated"]

NAME = re.compile(r"triton_(?P<kind>[a-z]{2,4})_fused_(?P<fused>.*?)(?:_\d+)?(?:_split)?")
LOOPS = {"poi", "red", "per", "for"}
"""Kinds that go over elements once; ``tem`` are templates of products and attention."""
PARTS_OF_TENSORS = re.compile(
    r"slice|select|index|embedding|gather|scatter|strided|split|chunk|unbind|diagonal|unfold|narrow|take|pool"
)
"""What reads or writes tensors in part: of which the least traffic is not known."""
LONGEST_NAME = 400
SEVERAL_WORDS = (
    "_native_batch_norm_legit_functional", "_softmax_backward_data", "_log_softmax_backward_data", "_log_softmax",
    "_softmax", "_to_copy", "_unsafe_view", "_unsafe_index", "native_layer_norm_backward", "native_layer_norm",
    "native_group_norm_backward", "native_group_norm", "native_batch_norm_backward", "native_batch_norm",
    "native_dropout_backward", "native_dropout", "_fused_rms_norm_backward", "_fused_rms_norm", "_scaled_mm",
    "embedding_dense_backward", "nll_loss_forward", "nll_loss_backward", "threshold_backward", "sigmoid_backward",
    "tanh_backward", "gelu_backward", "silu_backward", "convolution_backward", "slice_backward", "slice_scatter",
    "select_backward", "select_scatter", "index_select", "index_put", "masked_fill", "scalar_tensor", "lift_fresh",
    "new_zeros", "new_empty", "full_like", "zeros_like", "ones_like", "expand_as", "add_n", "_scaled_dot_product",
    "constant_pad_nd", "max_pool2d_with_indices", "_adaptive_avg_pool2d", "upsample_nearest2d", "clamp_min",
    "clamp_max",
    "logical_and", "logical_or", "logical_not", "bitwise_and", "bitwise_or", "bitwise_not", "prepare_softmax_online",
    "var_mean", "hardtanh_backward", "as_strided", "floor_divide", "mse_loss", "_flash_attention_forward",
    "_flash_attn_backward",
)  # fmt: skip
"""Operators whose names have an underscore, which also stands between names."""
WORDS = re.compile(f"(?:^|_)({'|'.join(sorted(SEVERAL_WORDS, key=len, reverse=True))}|[a-z0-9]+)")


def is_generated(name: str) -> bool:
    """Tell whether an operator or a kernel is one that torch.compile wrote.

    >>> is_generated("triton_poi_fused_add_mul_3"), is_generated("triton__0d1d2de"), is_generated("aten::add")
    (True, True, False)
    """
    return name.startswith("triton_")


def fused_operators(name: str) -> tuple[str, ...]:
    """List what the name of a generated kernel says that it fuses; a long name may have lost its end.

    >>> fused_operators("triton_per_fused__to_copy_native_layer_norm_mul_3"), fused_operators("triton__0d1d2de")
    (('_to_copy', 'native_layer_norm', 'mul'), ())
    """
    found = NAME.fullmatch(name[:LONGEST_NAME])
    return tuple(WORDS.findall(found["fused"])) if found else ()


def _generated(call: OperatorCall) -> Demand:
    """Count each tensor once, of one with more elements than the kernel goes over only as many.

    A tensor that is read and written stands among them once, and counts once: so this is the least. Of what the kernel
    computes with its elements nothing is told.
    """
    found = NAME.fullmatch(call.name[:LONGEST_NAME])
    if found is None or found["kind"] not in LOOPS:
        raise NotToldError("what the generated kernel computes")
    if PARTS_OF_TENSORS.search(found["fused"]):
        raise NotToldError("which part of its tensors it reads")
    numbers = [int(text) for text in call.values if text.isdecimal() and len(text) < 16]
    if not numbers or not call.tensors:
        raise NotToldError("how many elements it goes over")
    elements = math.prod(numbers)
    moved = sum(min(tensor.stored, elements) * tensor.width for tensor in call.tensors)
    return Demand(0, moved, max((one.dtype for one in call.tensors), key=_rank), is_least=True)


def _rank(dtype: str) -> tuple[bool, str]:
    return dtype in {"float", "double"}, dtype


GENERATED = Model(
    ("triton_",), "not known",
    "each tensor once, no more of it than the kernel goes over; not known where it takes parts", _generated,
)  # fmt: skip
