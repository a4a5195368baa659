"""What models say is read and written, beside the tensors that PyTorch's own operators take and return on the CPU."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hta_graph.roofline.cost_models.table import demand_of
from hta_graph.roofline.operator_call import OperatorCall, operator_call

torch = pytest.importorskip("torch", reason="PyTorch is absent; pip install torch runs them")

if TYPE_CHECKING:
    from collections.abc import Iterable

RECORDED = ("Input Dims", "Input type", "Concrete Inputs", "Input Strides")


@dataclass(frozen=True)
class Call:
    """An operator and its inputs.

    ``unread`` are the positions of tensors that it needs for their shape only, or of which an index chooses.
    ``besides`` are the bytes of such a choice that are counted, and of what is written in place, less what is not.
    """

    name: str
    inputs: tuple[Any, ...]
    unread: tuple[int, ...] = ()
    besides: int = 0

    def run(self) -> Any:
        return getattr(torch.ops.aten, self.name)(*self.inputs)


def floats(*shape: int) -> Any:
    return torch.rand(shape) / 2 + 0.25


def longs(*shape: int, below: int = 4) -> Any:
    return torch.randint(0, below, shape)


X, W, IMAGE, CUBE = floats(6, 8), floats(8), floats(2, 3, 8, 8), floats(2, 3, 4, 4, 4)
ROW = floats(6, 1)
C = floats(3)
ALL = [True, True, True]

CALLS = [
    Call("native_layer_norm", (X, [8], W, W.clone(), 1e-5)),
    Call("native_layer_norm", (X, [8], None, None, 1e-5)),
    Call("native_layer_norm", (floats(2, 3, 4, 5), [4, 5], floats(4, 5), None, 1e-5)),
    Call("native_layer_norm_backward", (X, X.clone(), [8], ROW, ROW.clone(), W, W.clone(), ALL), unread=(6,)),
    Call("native_layer_norm_backward", (X, X.clone(), [8], ROW, ROW.clone(), W, None, [True, True, False])),
    Call("native_group_norm", (IMAGE, C, C.clone(), 2, 3, 64, 3, 1e-5)),
    Call("native_group_norm_backward", (IMAGE, IMAGE.clone(), floats(2, 3), floats(2, 3), C, 2, 3, 64, 3, ALL)),
    Call("native_batch_norm", (IMAGE, C, C.clone(), C.clone(), C.clone(), False, 0.1, 1e-5)),
    Call("native_batch_norm", (IMAGE, C, C.clone(), C.clone(), C.clone(), True, 0.1, 1e-5), besides=4 * 6),
    Call("_native_batch_norm_legit", (IMAGE, C, C.clone(), True, 0.1, 1e-5)),
    Call("_native_batch_norm_legit", (IMAGE, C, C.clone(), C.clone(), C.clone(), True, 0.1, 1e-5), besides=4 * 6),
    Call("_batch_norm_with_update", (IMAGE, C, C.clone(), C.clone(), C.clone(), 0.1, 1e-5), besides=4 * 6),
    Call("_batch_norm_no_update", (IMAGE, C, C.clone(), C.clone(), C.clone(), 0.1, 1e-5)),
    Call(
        "native_batch_norm_backward",
        (IMAGE, IMAGE.clone(), C, C.clone(), C.clone(), C.clone(), C.clone(), True, 1e-5, ALL), unread=(3, 4),
    ),
    Call(
        "native_batch_norm_backward",
        (IMAGE, IMAGE.clone(), C, C.clone(), C.clone(), C.clone(), C.clone(), False, 1e-5, ALL), unread=(5, 6),
    ),
    Call("_softmax", (X, -1, False)),
    Call("_log_softmax", (IMAGE, 1, False)),
    Call("_softmax_backward_data", (X, X.clone(), -1, torch.float32)),
    Call("_log_softmax_backward_data", (X, X.clone(), -1, torch.float32)),
    Call("_log_softmax", (X.double(), 0, False)),
    Call("_masked_softmax", (floats(2, 2, 4, 4), longs(2, 2, 4, 4, below=2).bool(), -1, 2)),
    Call("_masked_softmax_backward", (floats(2, 2, 4, 4), floats(2, 2, 4, 4), longs(2, 2, 4, 4, below=2).bool(), -1)),
    Call("_fused_rms_norm", (X, [8], W, 1e-6)),
    Call("_weight_norm_interface", (X, ROW, 0)),
    Call("_weight_norm_interface_backward", (X, X.clone(), ROW, ROW.clone(), 0)),
    Call("mse_loss", (X, X.clone(), 0)),
    Call("mse_loss", (X, X.clone(), 1)),
    Call("mse_loss", (X.bfloat16(), X.bfloat16(), 2)),
    Call("mse_loss_backward", (floats(), X, X.clone(), 1)),
    Call("mse_loss_backward", (X, X.clone(), X.clone(), 0)),
    Call("smooth_l1_loss", (X, X.clone(), 0, 1.0)),
    Call("smooth_l1_loss_backward", (floats(), X, X.clone(), 1, 1.0)),
    Call("huber_loss", (X, X.clone(), 2, 1.0)),
    Call("huber_loss_backward", (X, X.clone(), X.clone(), 0, 1.0)),
    Call("binary_cross_entropy", (X, X.clone(), None, 0)),
    Call("binary_cross_entropy", (X, X.clone(), None, 1)),
    Call("binary_cross_entropy_backward", (X, X.clone(), X.clone(), None, 0)),
    Call("nll_loss_forward", (X, longs(6), None, 1, -100), unread=(0,)),
    Call("nll_loss2d_forward", (IMAGE, longs(2, 8, 8, below=3), None, 2, -100), unread=(0,)),
    Call("max_pool2d_with_indices", (IMAGE, [2, 2], [2, 2], [0, 0], [1, 1], False)),
    Call("max_pool2d_with_indices", (IMAGE, [3, 3], [2, 2], [1, 1], [1, 1], False)),
    Call("max_pool2d_with_indices", (IMAGE, [3, 3], [2, 2], [0, 0], [1, 1], True)),
    Call("max_pool2d_with_indices", (IMAGE, [3], [], [1], [1], True)),
    Call("max_pool2d_with_indices", (floats(3, 8, 8), [2, 2], [1, 1], [0, 0], [2, 2], False)),
    Call("max_pool3d_with_indices", (CUBE, [2, 2, 2], [], [0, 0, 0], [1, 1, 1], False)),
    Call(
        "max_pool2d_with_indices_backward",
        (floats(2, 3, 4, 4), IMAGE, [2, 2], [2, 2], [0, 0], [1, 1], False, longs(2, 3, 4, 4)), unread=(1,),
    ),
    Call(
        "max_pool3d_with_indices_backward",
        (floats(2, 3, 2, 2, 2), CUBE, [2] * 3, [2] * 3, [0] * 3, [1] * 3, False, longs(2, 3, 2, 2, 2)), unread=(1,),
    ),
    Call("avg_pool2d", (IMAGE, [3, 3], [2, 2], [1, 1], False, True, None)),
    Call("avg_pool2d", (IMAGE, [1, 1], [2, 2], [0, 0], False, True, None), unread=(0,), besides=4 * 6 * 16),
    Call("avg_pool3d", (CUBE, [2, 2, 2], [], [0, 0, 0], False, True, None)),
    Call(
        "avg_pool2d_backward", (floats(2, 3, 4, 4), IMAGE, [2, 2], [2, 2], [0, 0], False, True, None), unread=(1,)
    ),
    Call(
        "avg_pool3d_backward", (floats(2, 3, 2, 2, 2), CUBE, [2] * 3, [2] * 3, [0] * 3, False, True, None), unread=(1,)
    ),
    Call("_adaptive_avg_pool2d", (IMAGE, [3, 5])),
    Call("_adaptive_avg_pool3d", (CUBE, [3, 2, 1])),
    Call("_adaptive_avg_pool2d_backward", (floats(2, 3, 3, 5), IMAGE), unread=(1,)),
    Call("_adaptive_avg_pool3d_backward", (floats(2, 3, 3, 2, 1), CUBE), unread=(1,)),
    Call("adaptive_max_pool2d", (IMAGE, [3, 5])),
    Call("adaptive_max_pool3d", (CUBE, [3, 2, 1])),
    Call("adaptive_max_pool2d_backward", (floats(2, 3, 3, 5), IMAGE, longs(2, 3, 3, 5)), unread=(1,)),
    Call("im2col", (IMAGE, [3, 3], [1, 1], [1, 1], [2, 2])),
    Call("im2col", (IMAGE, [2, 2], [1, 1], [0, 0], [4, 4]), unread=(0,), besides=4 * 6 * 16),
    Call("col2im", (floats(2, 12, 16), [8, 8], [2, 2], [1, 1], [0, 0], [2, 2])),
    Call("upsample_nearest1d", (floats(2, 3, 8), [16], None)),
    Call("upsample_nearest2d", (IMAGE, [16, 12], None, None)),
    Call("_upsample_nearest_exact2d", (IMAGE, [16, 12], None, None)),
    Call("upsample_nearest3d", (CUBE, [8, 8, 5], None, None, None)),
    Call("upsample_linear1d", (floats(2, 3, 8), [16], False, None)),
    Call("upsample_bilinear2d", (IMAGE, [16, 12], False, None, None)),
    Call("upsample_bilinear2d", (IMAGE, [4, 16], False, None, None), unread=(0,), besides=4 * 6 * 4 * 8),
    Call("upsample_trilinear3d", (CUBE, [8, 8, 5], True, None, None, None)),
    Call("upsample_bicubic2d", (IMAGE, [16, 12], False, None, None)),
    Call("_upsample_bilinear2d_aa", (IMAGE, [16, 12], False, None, None)),
    Call("upsample_nearest2d_backward", (floats(2, 3, 16, 12), [16, 12], [2, 3, 8, 8], None, None)),
    Call("upsample_bilinear2d_backward", (floats(2, 3, 16, 12), [16, 12], [2, 3, 8, 8], False, None, None)),
    Call("upsample_bicubic2d_backward", (floats(2, 3, 16, 12), [16, 12], [2, 3, 8, 8], False, None, None)),
    Call("constant_pad_nd", (IMAGE, [1, 2, 3, 4], 0.0)),
    Call("constant_pad_nd", (X, [0, 5], 0.0)),
    Call("reflection_pad1d", (X, [1, 2])),
    Call("reflection_pad2d", (IMAGE, [1, 2, 3, 4])),
    Call("reflection_pad3d", (CUBE, [1, 2, 3, 1, 2, 3])),
    Call("replication_pad2d", (IMAGE, [1, 2, 3, 4])),
    Call("replication_pad3d", (CUBE, [1, 2, 3, 1, 2, 3])),
    Call("reflection_pad2d_backward", (floats(2, 3, 10, 10), IMAGE, [1, 1, 1, 1]), unread=(1,)),
    Call("replication_pad2d_backward", (floats(2, 3, 10, 10), IMAGE, [1, 1, 1, 1]), unread=(1,)),
    Call("grid_sampler_2d", (IMAGE, floats(2, 5, 6, 2), 0, 0, False), unread=(0,)),
    Call("grid_sampler_3d", (CUBE, floats(2, 5, 6, 7, 3), 0, 0, False), unread=(0,)),
    Call("split_with_sizes_copy", (X, [2, 4], 0)),
    Call("index_select", (X, 0, longs(9)), unread=(0,), besides=4 * 8),
    Call("index_select", (X, -1, longs(3)), unread=(0,), besides=4 * 6),
    Call("gather", (X, 1, longs(6, 2)), unread=(0,), besides=4 * 6),
    Call("take", (X, longs(9)), unread=(0,), besides=4),
    Call("embedding", (floats(100, 16), longs(4, 5)), unread=(0,), besides=4 * 16),
    # What it returns beside the result, the bags' sizes and largest rows, is not counted.
    Call(
        "_embedding_bag_forward_only", (floats(100, 16), longs(9), torch.tensor([0, 2, 4])), unread=(0,),
        besides=4 * 16 - 8 * 3 - 8 * 3,
    ),
    Call("flip", (X, [0, 1])),
    Call("roll", (X, [1], [0])),
    Call("repeat", (X, [3, 2, 1])),
    Call("repeat_interleave", (X, 3, 1)),
    Call("tril", (X, 100)),
    Call("triu", (X, -100)),
    Call("one_hot", (longs(6), 10)),
    Call("bucketize", (X, W), unread=(1,)),
    Call("searchsorted", (W, X), unread=(0,)),
]  # fmt: skip


def recorded_call(call: Call, folder: Path) -> tuple[OperatorCall, Any]:
    """Run a call under the profiler; return what was recorded of it, and what it returned."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        result = call.run()
    profiler.export_chrome_trace(str(folder / "trace.json"))
    rows = json.loads((folder / "trace.json").read_text())["traceEvents"]
    args = next(row["args"] for row in rows if row.get("name") == f"aten::{call.name}")
    return operator_call(f"aten::{call.name}", *(args.get(column) for column in RECORDED)), result


def bytes_in(found: Iterable[Any]) -> int:
    """Add up the memory of the tensors among some values, each once."""
    tensors = {id(one): one for one in found if isinstance(one, torch.Tensor)}
    return sum(one.numel() * one.element_size() for one in tensors.values())


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_each_tensor_is_read_or_written_once(call: Call, tmp_path: Path) -> None:
    recorded, result = recorded_call(call, tmp_path)
    found = demand_of(recorded)
    assert found is not None
    read = bytes_in(one for at, one in enumerate(call.inputs) if at not in call.unread)
    written = bytes_in(result if isinstance(result, tuple | list) else [result])
    assert found.bytes == read + written + call.besides
