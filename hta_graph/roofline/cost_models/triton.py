"""Triton kernels that torch.compile generated: what their names say, and what they move at least.

Recorded are the tensors that a kernel was given, results too, and its loops. Its arithmetic is not known. Its least
traffic is: each tensor once, and one that is read and written still once. That holds where each is used as a whole, and
fails where a kernel looks at a part: at a slice, at rows that an index names (which may repeat), at what a padding
leaves. The name lists the fused operators, and so shows where that may be. Then one thing stays sure, of a kernel that
goes element by element: as many elements as its loop has are written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from hta_graph.roofline.demand import CostModel, Demand
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, Tensor

TRITON_NAME = re.compile(r"triton_(?:(?P<kind>[a-z]{3})_)?fused_(?P<body>\w*?)(?:(?:(?<=fused_)|_)(?P<number>\d+))?")
"""A kind, operators in alphabetical order, a number; a name may be cut, and then has no number."""

FUSED_OPERATORS = """
_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d _cdist_forward _conj _convolution
_efficient_attention_backward _efficient_attention_forward _embedding_bag _embedding_bag_forward_only
_euclidean_dist _flash_attention_backward _flash_attention_forward _flash_attn_backward _flash_attn_forward
_fused_rms_norm _fused_rms_norm_backward _grouped_mm _int_mm _local_scalar_dense _log_softmax
_log_softmax_backward_data _low_memory_max_pool2d_offsets_to_indices _low_memory_max_pool2d_with_offsets
_low_memory_max_pool_offsets_to_indices _low_memory_max_pool_with_offsets _native_batch_norm_legit
_native_batch_norm_legit_functional _native_batch_norm_legit_no_training _pdist_forward _prelu_kernel
_prelu_kernel_backward _reshape_alias _safe_softmax _scaled_dot_product_cudnn_attention
_scaled_dot_product_cudnn_attention_backward _scaled_dot_product_efficient_attention
_scaled_dot_product_efficient_attention_backward _scaled_dot_product_flash_attention
_scaled_dot_product_flash_attention_backward _scaled_grouped_mm _scaled_mm _softmax _softmax_backward_data _to_copy
_trilinear _unsafe_index _unsafe_index_put _unsafe_masked_index _unsafe_masked_index_put_accumulate _unsafe_view
_upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact2d abs acos acosh adaptive_avg_pool2d
adaptive_max_pool2d add addcdiv addcmul addmm addmv alias all amax amin aminmax angle any arange argmax argmin
as_strided as_strided_scatter asin asinh atan atan2 atanh avg_pool2d avg_pool2d_backward avg_pool3d baddbmm
batch_norm_backward bernoulli bernoulli_p binary_cross_entropy binary_cross_entropy_backward
binary_cross_entropy_with_logits bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
bitwise_xor bmm bucketize cat ceil chunk clamp clamp_max clamp_min clone col2im complex constant_pad_nd contiguous
convert_element_type convolution convolution_backward copy copy_ cos cosh count_nonzero cross_entropy_loss
cudnn_batch_norm cudnn_batch_norm_backward cummax cummin cumprod cumsum detach detach_ diag_embed diagonal
diagonal_copy diagonal_scatter digamma div div_ dot dropout elu elu_backward embedding embedding_backward
embedding_dense_backward empty empty_like empty_strided eq erf erfc erfinv exp exp2 expand expm1 exponential eye
fill fill_ flash_attn_backward flip floor floor_divide fmax fmin fmod frac full full_like gather ge gelu
gelu_backward glu glu_backward grid_sampler_2d gt hardsigmoid hardsigmoid_backward hardswish hardswish_backward
hardtanh hardtanh_backward hsplit huber_loss huber_loss_backward hypot im2col index index_add index_copy index_fill
index_put index_put_ index_reduce index_select inductor_force_stride_order inductor_lookup_seed inductor_random
inductor_seeds iota isfinite isinf isnan l1_loss layer_norm le leaky_relu leaky_relu_backward lerp lgamma lift
lift_fresh lift_fresh_copy linalg_vector_norm linear linspace log log10 log1p log2 log_sigmoid_backward
log_sigmoid_forward log_softmax logaddexp logical_and logical_not logical_or logical_xor logit logsumexp lt
masked_fill masked_fill_ masked_scatter masked_scatter_backward matmul max max_pool2d_with_indices
max_pool2d_with_indices_backward max_pool3d_with_indices maximum mean mean_ min minimum mish mish_backward mm
mm_backward movedim mse_loss mse_loss_backward mul mul_ mv nan_to_num narrow native_batch_norm
native_batch_norm_backward native_dropout native_dropout_backward native_group_norm native_group_norm_backward
native_layer_norm native_layer_norm_backward ne neg new_empty new_empty_strided new_full new_ones new_zeros
nll_loss2d_backward nll_loss2d_forward nll_loss_backward nll_loss_forward normal normal_functional ones ones_like
permute pixel_shuffle pixel_unshuffle polar polygamma pow prepare_softmax_online prod put rand rand_like randint
randint_like randn randn_like randperm reciprocal reflection_pad1d reflection_pad2d reflection_pad2d_backward relu
relu_ remainder repeat repeat_interleave replication_pad2d reshape resize_as_ rev roll rot90 round rrelu_with_noise
rsqrt rsub scalar_tensor scatter scatter_ scatter_add scatter_add_ scatter_reduce searchsorted select
select_backward select_copy select_scatter selu sgn sigmoid sigmoid_backward sign signbit silu silu_backward sin
sinh slice slice_backward slice_copy slice_scatter smooth_l1_loss smooth_l1_loss_backward softmax softmax_backward
softplus softplus_backward sort split split_copy split_with_sizes split_with_sizes_copy sqrt square squeeze stack
std std_mean sub sub_ sum t take take_along_dim tan tanh tanh_backward tensor_split threshold threshold_backward to
topk transpose tril triu trunc unbind unfold unfold_backward uniform unsafe_chunk unsafe_split
unsafe_split_with_sizes unsqueeze unsqueeze_ upsample_bicubic2d upsample_bilinear2d upsample_bilinear2d_backward
upsample_nearest1d upsample_nearest2d upsample_nearest2d_backward upsample_nearest3d var var_mean vector_norm view
view_as_complex view_as_real vsplit where xlogy zero zero_ zeros zeros_like
"""
LONGEST_FIRST = re.compile("(?:" + "|".join(sorted(FUSED_OPERATORS.split(), key=len, reverse=True)) + ")(?=_|$)")


@dataclass(frozen=True)
class FusedName:
    """What a generated kernel's name says.

    ``kind`` is ``poi`` (element by element), ``red`` or ``per`` (a reduction), another, or empty; ``operators`` are in
    the order of the name; ``is_whole``: the name was not cut, and that each of them is a known one.
    """

    kind: str
    operators: tuple[str, ...]
    is_whole: bool


def fused_name(kernel: str) -> FusedName | None:
    """Read a generated kernel's name; ``None`` of others, and of those that say nothing, such as older ones."""
    found = TRITON_NAME.fullmatch(kernel)
    if not found or not found["body"]:
        return None
    operators, rest = _split_operators(found["body"])
    shown = (*operators, rest) if rest else tuple(operators)
    return FusedName(found["kind"] or "", shown, not rest and found["number"] is not None)


def _split_operators(body: str) -> tuple[list[str], str]:
    """Return the known operators that a text begins with, and the rest of it."""
    operators, at = [], 0
    while found := LONGEST_FIRST.match(body, at):
        operators.append(found[0])
        at = found.end() + 1
    return operators, body[at:]


def fused_operators(kernel: str) -> tuple[str, ...]:
    """Return the operators that a kernel's name lists as fused; what is not known as one is kept whole as the last.

    >>> fused_operators("triton_poi_fused_add_mul_3")
    ('add', 'mul')
    >>> fused_operators("triton_red_fused__log_softmax__to_copy_copy__native_layer_norm_12")
    ('_log_softmax', '_to_copy', 'copy_', 'native_layer_norm')
    >>> fused_operators("triton__0d1d2de")
    ()
    """
    found = fused_name(kernel)
    return found.operators if found else ()


SCATTERING = frozenset({
    "_unsafe_index_put", "_unsafe_masked_index_put_accumulate", "embedding_backward",
    "embedding_dense_backward", "index_add", "index_copy", "index_fill", "index_put", "index_put_",
    "index_reduce", "masked_scatter_backward", "put", "scatter", "scatter_", "scatter_add", "scatter_add_",
    "scatter_reduce",
})  # fmt: skip
"""They may write only a part of a tensor, and one place several times."""

GATHERING = frozenset({
    "_embedding_bag", "_embedding_bag_forward_only", "_unsafe_index", "_unsafe_masked_index", "as_strided",
    "as_strided_scatter", "bucketize", "chunk", "constant_pad_nd", "diagonal", "diagonal_copy",
    "diagonal_scatter", "embedding", "gather", "grid_sampler_2d", "hsplit", "index", "index_select",
    "masked_scatter", "narrow", "searchsorted", "select", "select_copy", "select_scatter", "slice",
    "slice_copy", "slice_scatter", "split", "split_copy", "split_with_sizes", "split_with_sizes_copy", "take",
    "take_along_dim", "tensor_split", "unbind", "unfold", "unsafe_chunk", "unsafe_split",
    "unsafe_split_with_sizes", "vsplit",
})  # fmt: skip
"""They may read only a part of a tensor. Losses by target may not: they read a score for each step of the loop."""

RANDOM = frozenset({
    "bernoulli", "bernoulli_p", "dropout", "exponential", "inductor_lookup_seed", "inductor_random",
    "native_dropout", "normal", "normal_functional", "rand", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "randperm", "rrelu_with_noise", "uniform",
})  # fmt: skip
"""They are given a list of seeds, of which they read one."""

WHOLE_NUMBER = re.compile(r"\d{1,18}")


def _loop_lengths(call: OperatorCall) -> tuple[int, ...]:
    """Return the lengths of the loops, the last first; sizes that are not fixed may stand before them."""
    found = []
    for at in range(len(call.inputs) - 1, -1, -1):
        if call.inputs[at] is not None or not WHOLE_NUMBER.fullmatch(call.text(at)):
            break
        found.append(int(call.text(at)))
    if not found:
        raise NotRecordedError("the lengths of its loops")
    return tuple(found)


def _used_tensors(call: OperatorCall, name: FusedName) -> Iterator[Tensor]:
    """Return the tensors, without seeds, and without buffers of bytes, of which a kernel may use a part."""
    is_random = not RANDOM.isdisjoint(name.operators)
    for tensor in call.tensors:
        left_out = tensor.dtype in {"byte", "unsigned char"} or (is_random and tensor.dtype == "long int")
        if not left_out or len(tensor.shape) != 1:
            yield tensor


def _written_bytes(tensors: list[Tensor], loops: tuple[int, ...]) -> int:
    """Return what is written at least where parts may be read: the loop's elements, of the narrowest type that can be.

    Two lengths may be two loops, or a size and a loop.
    """
    widths = [tensor.width for tensor in tensors if tensor.stored_elements >= loops[0]]
    if len(loops) != 1 or not widths:
        raise NotRecordedError("which parts of its tensors it uses")
    return loops[0] * min(widths)


def _least_bytes(call: OperatorCall, name: FusedName) -> int:
    """Return the least traffic."""
    tensors, loops = list(_used_tensors(call, name)), _loop_lengths(call)
    operators = set(name.operators)
    if name.is_whole and not operators & (SCATTERING | GATHERING):
        # A loop reads no more of a tensor than it has steps, whatever the name may have left out.
        return sum(min(tensor.stored_elements, math.prod(loops)) * tensor.width for tensor in tensors)
    # A single tensor is the result.
    if name.kind != "poi" or (len(tensors) > 1 and (operators & SCATTERING or not name.is_whole)):
        raise NotRecordedError("which parts of its tensors it uses")
    return _written_bytes(tensors, loops)


def _triton_kernel(call: OperatorCall) -> Demand:
    name = fused_name(call.name)
    if not name or name.kind not in {"", "poi", "red", "per"} or not call.tensors:
        raise NotRecordedError("what a generated kernel does")
    largest = max(call.tensors, key=lambda tensor: tensor.stored_elements)
    return Demand(0, _least_bytes(call, name), largest.dtype, is_least=True)


TRITON = (
    CostModel(
        ("triton_*",), "not known: 0 at least",
        "each tensor once, at most as many elements as the loops have steps; if the name lists an operator that uses "
        "parts, and the kernel goes element by element: as many elements as the loop has", _triton_kernel,
    ),
)  # fmt: skip
