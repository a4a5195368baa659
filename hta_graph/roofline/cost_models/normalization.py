"""Normalizations and softmax, forward and backward; batch normalization whole or in the parts of each rank.

Arithmetic is counted by element of the data; what is done once for each row or channel, such as a root, is left out.
A mean takes 1, a variance 3 (difference, square, sum), the normalized value 2, weight and bias 1 each.
"""

from __future__ import annotations

import math

from hta_graph.roofline.demand import CostModel, Demand, accumulation_type, memory_bound_demand, output_mask
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, Tensor

STATISTICS = 1 + 3
NORMALIZED = 2


def _row_count(data: Tensor, call: OperatorCall, at: int, weight: Tensor | None) -> int:
    """Return how many rows are normalized; the shape of a row is recorded, or that of its weight."""
    row = weight.shape if weight else call.integers(at)
    if not row or data.shape[-len(row) :] != tuple(row):
        raise NotRecordedError("shapes that fit each other")
    return math.prod(data.shape[: -len(row)])


def _count_given(*tensors: Tensor | None) -> int:
    return sum(tensor is not None for tensor in tensors)


def _layer_norm(call: OperatorCall) -> Demand:
    data, weight, bias = call.tensor(0), call.tensor_or_none(2), call.tensor_or_none(3)
    statistics = Tensor((2, _row_count(data, call, 1, weight)), accumulation_type(data.dtype))
    flops = data.elements * (STATISTICS + NORMALIZED + _count_given(weight, bias))
    return memory_bound_demand(data.dtype, flops, (data, weight, bias), (Tensor(data.shape, data.dtype), statistics))


def _group_norm(call: OperatorCall) -> Demand:
    data, weight, bias = call.tensor(0), call.tensor_or_none(1), call.tensor_or_none(2)
    images, groups = call.integer(3), call.integer(6)
    if min(images, groups) < 0:
        raise NotRecordedError("how many groups there are")
    statistics = Tensor((2, images, groups), data.dtype)
    flops = data.elements * (STATISTICS + NORMALIZED + _count_given(weight, bias))
    return memory_bound_demand(data.dtype, flops, (data, weight, bias), (Tensor(data.shape, data.dtype), statistics))


def _row_backward(
    call: OperatorCall,
    statistics: tuple[Tensor, Tensor],
    weight: Tensor | None,
    output_mask: tuple[bool, ...],
    row: int,
) -> Demand:
    """Return the work of the gradients of data, weight and bias, as far as they are asked for."""
    grad, data = call.tensor(0), call.tensor(1)
    of_data, of_weight, of_bias = output_mask
    per_element = 2 * (of_data or of_weight) + (7 + _count_given(weight)) * of_data + 2 * of_weight + of_bias
    read = (grad, data, *statistics, weight if of_data else None) if of_data or of_weight else (grad,) * of_bias
    kind = weight.dtype if weight else data.dtype
    written = [Tensor(data.shape, data.dtype)] * of_data + [Tensor((row,), kind)] * (of_weight + of_bias)
    return memory_bound_demand(data.dtype, data.elements * per_element, read, written)


def _layer_norm_backward(call: OperatorCall) -> Demand:
    data, weight = call.tensor(1), call.tensor_or_none(5)
    row = data.elements // max(_row_count(data, call, 2, weight), 1)
    return _row_backward(call, (call.tensor(3), call.tensor(4)), weight, output_mask(call, 7, 3), row)


def _group_norm_backward(call: OperatorCall) -> Demand:
    channels = call.integer(6)
    if channels < 0:
        raise NotRecordedError("how many channels there are")
    statistics = call.tensor(2), call.tensor(3)
    return _row_backward(call, statistics, call.tensor_or_none(4), output_mask(call, 9, 3), channels)


def _rms_norm(call: OperatorCall) -> Demand:
    data, weight = call.tensor(0), call.tensor_or_none(2)
    statistics = Tensor((_row_count(data, call, 1, weight),), accumulation_type(data.dtype))
    flops = data.elements * (3 + _count_given(weight))
    return memory_bound_demand(data.dtype, flops, (data, weight), (Tensor(data.shape, data.dtype), statistics))


def _rms_norm_backward(call: OperatorCall) -> Demand:
    grad, data, weight = call.tensor(0), call.tensor(1), call.tensor_or_none(4)
    row = data.elements // max(_row_count(data, call, 2, weight), 1)
    of_data, of_weight = output_mask(call, 5, 2)
    per_element = (of_data or of_weight) + (5 + _count_given(weight)) * of_data + 2 * of_weight
    read = (grad, data, call.tensor(3), weight if of_data else None) if of_data or of_weight else ()
    kind = weight.dtype if weight else data.dtype
    written = [Tensor(data.shape, data.dtype)] * of_data + [Tensor((row,), kind)] * of_weight
    return memory_bound_demand(data.dtype, data.elements * per_element, read, written)


SCALAR_TYPE = {5: "half", 6: "float", 7: "double", 15: "bfloat16"}
"""PyTorch's numbers of types."""


def _softmax(call: OperatorCall) -> Demand:
    data = call.tensor(0)
    result = Tensor(data.shape, "float" if call.boolean(2) else data.dtype)
    return memory_bound_demand(data.dtype, 5 * data.elements, (data,), (result,))


def _softmax_backward(call: OperatorCall) -> Demand:
    grad, result = call.tensor(0), call.tensor(1)
    # Where the type is not told, a softmax from half precision to float may be meant, whose gradient is half as wide.
    of_float = "half" if grad.dtype == "float" else grad.dtype
    kind = SCALAR_TYPE.get(call.integer(3), of_float) if call.text(3) else of_float
    return memory_bound_demand(grad.dtype, 4 * result.elements, (grad, result), (Tensor(result.shape, kind),))


def _masked_softmax(call: OperatorCall) -> Demand:
    data, mask = call.tensor(0), call.tensor(1)
    return memory_bound_demand(data.dtype, 5 * data.elements, (data, mask), (Tensor(data.shape, data.dtype),))


def _masked_softmax_backward(call: OperatorCall) -> Demand:
    grad, result, mask = call.tensor(0), call.tensor(1), call.tensor(2)
    return memory_bound_demand(
        grad.dtype, 4 * result.elements, (grad, result, mask), (Tensor(result.shape, grad.dtype),)
    )


def _weight_norm(call: OperatorCall) -> Demand:
    direction, length = call.tensor(0), call.tensor(1)
    written = Tensor(direction.shape, direction.dtype), Tensor(length.shape, accumulation_type(length.dtype))
    return memory_bound_demand(direction.dtype, 3 * direction.elements, (direction, length), written)


def _weight_norm_backward(call: OperatorCall) -> Demand:
    grad, direction, length = call.tensor(0), call.tensor(1), call.tensor(2)
    written = Tensor(direction.shape, direction.dtype), Tensor(length.shape, length.dtype)
    return memory_bound_demand(grad.dtype, 5 * direction.elements, (grad, direction, length, call.tensor(3)), written)


NORMALIZATIONS = (
    CostModel(
        ("aten::native_layer_norm",), "elements · (4 for statistics + 2 + weight + bias)",
        "data + weight + bias + result + mean and deviation of each row", _layer_norm,
    ),
    CostModel(
        ("aten::native_layer_norm_backward",),
        "elements · (2 + 7 for data's gradient + weight, 2 for weight's, 1 for bias's)",
        "gradient + data + statistics + weight + the requested gradients", _layer_norm_backward,
    ),
    CostModel(
        ("aten::native_group_norm",), "elements · (4 for statistics + 2 + weight + bias)",
        "data + weight + bias + result + mean and deviation of each group", _group_norm,
    ),
    CostModel(
        ("aten::native_group_norm_backward",), "as native_layer_norm_backward",
        "gradient + data + statistics + weight + the requested gradients", _group_norm_backward,
    ),
    CostModel(
        ("aten::_fused_rms_norm",), "elements · (3 + weight)",
        "data + weight + result + deviation of each row", _rms_norm,
    ),
    CostModel(
        ("aten::_fused_rms_norm_backward",), "elements · (1 + 5 for data's gradient + weight, 2 for weight's)",
        "gradient + data + deviations + weight + the requested gradients", _rms_norm_backward,
    ),
    CostModel(
        ("aten::_softmax", "aten::_log_softmax"), "5 · elements: maximum, difference, exp, sum, quotient or difference",
        "data + result", _softmax,
    ),
    CostModel(
        ("aten::_softmax_backward_data", "aten::_log_softmax_backward_data"), "4 · elements",
        "gradient + forward's result + result", _softmax_backward,
    ),
    CostModel(
        ("aten::_weight_norm_interface",), "3 · elements: square, sum, product", "direction + length + result + norms",
        _weight_norm,
    ),
    CostModel(
        ("aten::_weight_norm_interface_backward",), "5 · elements: product and sum, two products, difference",
        "gradient + direction + length + norms + two gradients", _weight_norm_backward,
    ),
    CostModel(("aten::_masked_softmax",), "5 · elements", "data + mask + result", _masked_softmax),
    CostModel(
        ("aten::_masked_softmax_backward",), "4 · elements", "gradient + forward's result + mask + result",
        _masked_softmax_backward,
    ),
)  # fmt: skip


ALL_GRADIENTS = (True, True, True)


def _channels(data: Tensor) -> int:
    if len(data.shape) < 2:
        raise NotRecordedError("how many channels there are")
    return data.shape[1]


def _channel_statistics(data: Tensor) -> Tensor:
    """Return two numbers for each channel, in the type in which sums are kept."""
    return Tensor((2, _channels(data)), accumulation_type(data.dtype))


def _batch_norm_forward(call: OperatorCall, *, training: bool | None) -> Demand:
    """Return the work of a call; what both training and inference do where the mode is unknown."""
    data, weight, bias = call.tensor(0), call.tensor_or_none(1), call.tensor_or_none(2)
    running = call.tensor_or_none(3), call.tensor_or_none(4)
    per_element = NORMALIZED + (weight is not None) + (bias is not None) + STATISTICS * bool(training)
    written = [Tensor(data.shape, data.dtype)]
    if training:
        written += [_channel_statistics(data), *(Tensor(one.shape, one.dtype) for one in running if one)]
    read = (data, weight, bias, *running)
    return memory_bound_demand(data.dtype, data.elements * per_element, read, written, is_least=training is None)


def _batch_norm(call: OperatorCall) -> Demand:
    # An overload without running statistics has the switch where they would be.
    without = call.boolean(3)
    return _batch_norm_forward(call, training=call.boolean(5) if without is None else without)


def _batch_norm_backward(
    call: OperatorCall, grad: Tensor, data: Tensor, output_mask: tuple[bool, ...], *, training: bool | None
) -> Demand:
    """Return the work of the gradients; a channel's two sums serve those of weight and bias and that of the data."""
    weight, (of_data, of_weight, of_bias) = call.tensor_or_none(2), output_mask
    through_sums = of_data and bool(training)
    centred = through_sums or of_weight
    sums = 2 * centred + (through_sums or of_bias)
    per_element = NORMALIZED * centred + sums + (4 if training else 1) * of_data
    mean, deviation = (5, 6) if training else (3, 4)
    statistics = (
        call.tensor_or_none(mean) if centred else None,
        call.tensor_or_none(deviation) if of_data or of_weight else None,
    )
    read = (grad if any(output_mask) else None, data if centred else None, weight if of_data else None)
    kind = weight.dtype if weight else accumulation_type(data.dtype)
    written = [Tensor(data.shape, data.dtype)] * of_data + [Tensor((_channels(data),), kind)] * (of_weight + of_bias)
    known = () if training is None else statistics
    return memory_bound_demand(
        data.dtype, data.elements * per_element, (*read, *known), written, is_least=training is None
    )


def _native_backward(call: OperatorCall) -> Demand:
    return _batch_norm_backward(call, call.tensor(0), call.tensor(1), output_mask(call, 9, 3), training=call.boolean(7))


def _library_backward(call: OperatorCall) -> Demand:
    return _batch_norm_backward(call, call.tensor(1), call.tensor(0), ALL_GRADIENTS, training=True)


def _stats(call: OperatorCall) -> Demand:
    data = call.tensor(0)
    return memory_bound_demand(data.dtype, STATISTICS * data.elements, (data,), (_channel_statistics(data),))


def _update_stats(call: OperatorCall) -> Demand:
    data, running = call.tensor(0), (call.tensor_or_none(1), call.tensor_or_none(2))
    written = (_channel_statistics(data), *(Tensor(one.shape, one.dtype) for one in running if one))
    return memory_bound_demand(data.dtype, STATISTICS * data.elements, (data, *running), written)


def _gather_stats(call: OperatorCall) -> Demand:
    """Return the work of merging the ranks' statistics; the data are given for their type only."""
    mean, deviation, running = call.tensor(1), call.tensor(2), (call.tensor_or_none(3), call.tensor_or_none(4))
    channels = mean.shape[-1] if mean.shape else 1
    written = (Tensor((2, channels), mean.dtype), *(Tensor(one.shape, one.dtype) for one in running if one))
    # For a rank and channel: the variance from its deviation 3, its difference to the mean so far 1, the sums 6.
    return memory_bound_demand(
        mean.dtype, 10 * mean.elements, (mean, deviation, *running, call.tensor_or_none(7)), written
    )


def _elemt(call: OperatorCall) -> Demand:
    data, weight, bias = call.tensor(0), call.tensor_or_none(1), call.tensor_or_none(2)
    per_element = NORMALIZED + (weight is not None) + (bias is not None)
    read = (data, weight, bias, call.tensor(3), call.tensor(4))
    return memory_bound_demand(data.dtype, data.elements * per_element, read, (Tensor(data.shape, data.dtype),))


def _backward_reduce(call: OperatorCall) -> Demand:
    grad, data = call.tensor(0), call.tensor(1)
    of_weight, of_bias = call.boolean(6), call.boolean(7)
    kind = weight.dtype if (weight := call.tensor_or_none(4)) else accumulation_type(data.dtype)
    gradients = Tensor((bool(of_weight) + bool(of_bias), _channels(data)), kind)
    # Difference to the mean, product with the gradient, two sums.
    return memory_bound_demand(
        data.dtype,
        4 * data.elements,
        (grad, data, call.tensor(2), call.tensor(3)),
        (_channel_statistics(data), gradients),
    )


def _backward_elemt(call: OperatorCall) -> Demand:
    grad, data = call.tensor(0), call.tensor(1)
    others = (call.tensor(2), call.tensor(3), call.tensor_or_none(4), call.tensor(5), call.tensor(6))
    # Difference to the mean, its product with a channel's number, two differences, product with another number.
    return memory_bound_demand(data.dtype, 5 * data.elements, (grad, data, *others), (Tensor(data.shape, data.dtype),))


BATCH_NORMS = (
    CostModel(
        (
            "aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm",
            "aten::_native_batch_norm_legit",
        ),
        "elements · (2 + weight + bias, and 4 for statistics in training)",
        "data + weight + bias + running statistics + result; in training also new statistics", _batch_norm,
    ),
    CostModel(
        ("aten::_batch_norm_with_update",), "elements · (6 + weight + bias)",
        "data + weight + bias + running statistics, read and written + result + statistics",
        lambda call: _batch_norm_forward(call, training=True),
    ),
    CostModel(
        ("aten::_batch_norm_no_update",), "elements · (2 + weight + bias)",
        "data + weight + bias + running statistics + result", lambda call: _batch_norm_forward(call, training=False),
    ),
    CostModel(
        ("aten::native_batch_norm_backward", "aten::batch_norm_backward"),
        "elements · (in training 9: 2, sums 3, 4 for data's gradient; in inference 1, 4 for weight's, 1 for bias's)",
        "gradient + data + statistics + weight + the requested gradients", _native_backward,
    ),
    CostModel(
        ("aten::cudnn_batch_norm_backward", "aten::miopen_batch_norm_backward"), "9 · elements",
        "gradient + data + statistics + weight + three gradients", _library_backward,
    ),
    CostModel(("aten::batch_norm_stats",), "4 · elements", "data + statistics", _stats),
    CostModel(
        ("aten::batch_norm_update_stats",), "4 · elements", "data + running statistics, read and written + statistics",
        _update_stats,
    ),
    CostModel(
        ("aten::batch_norm_gather_stats", "aten::batch_norm_gather_stats_with_counts"), "10 · ranks · channels",
        "the ranks' statistics + running ones, read and written + statistics", _gather_stats,
    ),
    CostModel(
        ("aten::batch_norm_elemt",), "elements · (2 + weight + bias)", "data + weight + bias + statistics + result",
        _elemt,
    ),
    CostModel(
        ("aten::batch_norm_backward_reduce",), "4 · elements",
        "gradient + data + statistics + two sums + the requested gradients", _backward_reduce,
    ),
    CostModel(
        ("aten::batch_norm_backward_elemt",), "5 · elements",
        "gradient + data + statistics + weight + sums + result", _backward_elemt,
    ),
)  # fmt: skip
