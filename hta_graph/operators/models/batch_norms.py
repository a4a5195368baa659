"""Batch normalisation, whole or in the pieces of several ranks, forward and backward.

Arithmetic is counted by element of the data as for other normalisations; what is done once for a channel is left out.
"""

from __future__ import annotations

from hta_graph.operators.demand import Demand, Model
from hta_graph.operators.models.normalisations import NORMALISED, STATISTICS
from hta_graph.operators.models.traffic import accumulated, moving, switches
from hta_graph.operators.operator_call import NotToldError, OperatorCall, Tensor

__all__ = ["BATCH_NORMS"]

ALL = (True, True, True)


def _channels(data: Tensor) -> int:
    if len(data.shape) < 2:
        raise NotToldError("how many channels there are")
    return data.shape[1]


def _statistics(data: Tensor, count: int = 2) -> Tensor:
    """Return as many numbers for each channel, in the type in which sums are kept."""
    return Tensor((count, _channels(data)), accumulated(data.dtype))


def _forward(call: OperatorCall, *, training: bool | None) -> Demand:
    """Return the work of a call; what both training and inference do where it is not told which it was."""
    data, weight, bias = call.tensor(0), call.tensor_or_none(1), call.tensor_or_none(2)
    running = call.tensor_or_none(3), call.tensor_or_none(4)
    per_element = NORMALISED + (weight is not None) + (bias is not None) + STATISTICS * bool(training)
    written = [Tensor(data.shape, data.dtype)]
    if training:
        written += [_statistics(data), *(Tensor(one.shape, one.dtype) for one in running if one)]
    read = (data, weight, bias, *running)
    return moving(data.dtype, data.elements * per_element, read, written, is_least=training is None)


def _batch_norm(call: OperatorCall) -> Demand:
    # An overload without running statistics has the switch where they would be.
    without = call.switch(3)
    return _forward(call, training=call.switch(5) if without is None else without)


def _backward(
    call: OperatorCall, grad: Tensor, data: Tensor, asked: tuple[bool, ...], *, training: bool | None
) -> Demand:
    """Return the work of the gradients; a channel's two sums serve those of weight and bias and that of the data."""
    weight, (of_data, of_weight, of_bias) = call.tensor_or_none(2), asked
    through_sums = of_data and bool(training)
    centred = through_sums or of_weight
    sums = 2 * centred + (through_sums or of_bias)
    per_element = NORMALISED * centred + sums + (4 if training else 1) * of_data
    mean, deviation = (5, 6) if training else (3, 4)
    statistics = (
        call.tensor_or_none(mean) if centred else None,
        call.tensor_or_none(deviation) if of_data or of_weight else None,
    )
    read = (grad if any(asked) else None, data if centred else None, weight if of_data else None)
    kind = weight.dtype if weight else accumulated(data.dtype)
    written = [Tensor(data.shape, data.dtype)] * of_data + [Tensor((_channels(data),), kind)] * (of_weight + of_bias)
    known = () if training is None else statistics
    return moving(data.dtype, data.elements * per_element, (*read, *known), written, is_least=training is None)


def _native_backward(call: OperatorCall) -> Demand:
    return _backward(call, call.tensor(0), call.tensor(1), switches(call, 9, 3), training=call.switch(7))


def _library_backward(call: OperatorCall) -> Demand:
    return _backward(call, call.tensor(1), call.tensor(0), ALL, training=True)


def _stats(call: OperatorCall) -> Demand:
    data = call.tensor(0)
    return moving(data.dtype, STATISTICS * data.elements, (data,), (_statistics(data),))


def _update_stats(call: OperatorCall) -> Demand:
    data, running = call.tensor(0), (call.tensor_or_none(1), call.tensor_or_none(2))
    written = (_statistics(data), *(Tensor(one.shape, one.dtype) for one in running if one))
    return moving(data.dtype, STATISTICS * data.elements, (data, *running), written)


def _gather_stats(call: OperatorCall) -> Demand:
    """Return the work of merging the ranks' statistics; the data are given for their type only."""
    mean, deviation, running = call.tensor(1), call.tensor(2), (call.tensor_or_none(3), call.tensor_or_none(4))
    channels = mean.shape[-1] if mean.shape else 1
    written = (Tensor((2, channels), mean.dtype), *(Tensor(one.shape, one.dtype) for one in running if one))
    # For a rank and channel: the variance from its deviation 3, its difference to the mean so far 1, the sums 6.
    return moving(mean.dtype, 10 * mean.elements, (mean, deviation, *running, call.tensor_or_none(7)), written)


def _elemt(call: OperatorCall) -> Demand:
    data, weight, bias = call.tensor(0), call.tensor_or_none(1), call.tensor_or_none(2)
    per_element = NORMALISED + (weight is not None) + (bias is not None)
    read = (data, weight, bias, call.tensor(3), call.tensor(4))
    return moving(data.dtype, data.elements * per_element, read, (Tensor(data.shape, data.dtype),))


def _backward_reduce(call: OperatorCall) -> Demand:
    grad, data = call.tensor(0), call.tensor(1)
    of_weight, of_bias = call.switch(6), call.switch(7)
    kind = weight.dtype if (weight := call.tensor_or_none(4)) else accumulated(data.dtype)
    gradients = Tensor((bool(of_weight) + bool(of_bias), _channels(data)), kind)
    # Difference to the mean, product with the gradient, two sums.
    return moving(
        data.dtype, 4 * data.elements, (grad, data, call.tensor(2), call.tensor(3)), (_statistics(data), gradients)
    )


def _backward_elemt(call: OperatorCall) -> Demand:
    grad, data = call.tensor(0), call.tensor(1)
    others = (call.tensor(2), call.tensor(3), call.tensor_or_none(4), call.tensor(5), call.tensor(6))
    # Difference to the mean, its product with a channel's number, two differences, product with another number.
    return moving(data.dtype, 5 * data.elements, (grad, data, *others), (Tensor(data.shape, data.dtype),))


BATCH_NORMS = (
    Model(
        (
            "aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm",
            "aten::_native_batch_norm_legit",
        ),
        "elements · (2 + weight + bias, and 4 for statistics in training)",
        "data + weight + bias + running statistics + result; in training also new statistics", _batch_norm,
    ),
    Model(
        ("aten::_batch_norm_with_update",), "elements · (6 + weight + bias)",
        "data + weight + bias + running statistics, read and written + result + statistics",
        lambda call: _forward(call, training=True),
    ),
    Model(
        ("aten::_batch_norm_no_update",), "elements · (2 + weight + bias)",
        "data + weight + bias + running statistics + result", lambda call: _forward(call, training=False),
    ),
    Model(
        ("aten::native_batch_norm_backward", "aten::batch_norm_backward"),
        "elements · (in training 9: 2, sums 3, 4 for data's gradient; in inference 1, 4 for weight's, 1 for bias's)",
        "gradient + data + statistics + weight + the gradients asked for", _native_backward,
    ),
    Model(
        ("aten::cudnn_batch_norm_backward", "aten::miopen_batch_norm_backward"), "9 · elements",
        "gradient + data + statistics + weight + three gradients", _library_backward,
    ),
    Model(("aten::batch_norm_stats",), "4 · elements", "data + statistics", _stats),
    Model(
        ("aten::batch_norm_update_stats",), "4 · elements", "data + running statistics, read and written + statistics",
        _update_stats,
    ),
    Model(
        ("aten::batch_norm_gather_stats", "aten::batch_norm_gather_stats_with_counts"), "10 · ranks · channels",
        "the ranks' statistics + running ones, read and written + statistics", _gather_stats,
    ),
    Model(
        ("aten::batch_norm_elemt",), "elements · (2 + weight + bias)", "data + weight + bias + statistics + result",
        _elemt,
    ),
    Model(
        ("aten::batch_norm_backward_reduce",), "4 · elements",
        "gradient + data + statistics + two sums + the gradients asked for", _backward_reduce,
    ),
    Model(
        ("aten::batch_norm_backward_elemt",), "5 · elements",
        "gradient + data + statistics + weight + sums + result", _backward_elemt,
    ),
)  # fmt: skip
