"""Kernels that torch.compile generated. Recorded are the tensors that a kernel was given, results too, and its loops.

Its arithmetic is not known. Its least traffic is: each tensor once, and one that is read and written still once. That
holds where each is used as a whole, and fails where a kernel looks at a part: at a slice, at rows that an index names
(which may repeat), at what a padding leaves. The name lists the fused operators, and so tells where that may be. Then
one thing stays sure, of a kernel that goes element by element: as many elements as its loop has are written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from hta_graph.roofline.cost_models.triton import FusedName, fused_name
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, Tensor
from hta_graph.roofline.operators_demand import CostModel, Demand

__all__ = ["TRITON"]

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
        "each tensor once, no more of it than the loops have steps; where the name lists what uses parts, and the "
        "kernel goes element by element: as many elements as the loop has", _triton_kernel,
    ),
)  # fmt: skip
