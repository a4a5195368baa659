"""What only moves data, or picks it by index: gathered, scattered, flipped, repeated, counted up.

Rows that an index names several times are read once from memory. So of what is gathered from, and of what is scattered
into, at least one place along the dimension is counted, and the rest is not known.
"""

from __future__ import annotations

from hta_graph.roofline.demand import CostModel, Demand, dimension, memory_bound_demand, partial_bytes
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, Tensor


def _slice_elements(tensor: Tensor, at: int) -> int:
    """Return how many elements a tensor has at one place along a dimension."""
    return tensor.elements // tensor.shape[at] if tensor.shape and tensor.shape[at] else tensor.elements


def _index_select(call: OperatorCall) -> Demand:
    data, index = call.tensor(0), call.tensor(2)
    at = dimension(call, 1, data.shape or (1,))
    shape = (*data.shape[:at], index.elements, *data.shape[at + 1 :]) if data.shape else ()
    read = partial_bytes(data, _slice_elements(data, at) if index.elements else 0)
    return memory_bound_demand(data.dtype, 0, (index,), (Tensor(shape, data.dtype),), parts=read)


def _gather(call: OperatorCall) -> Demand:
    data, index = call.tensor(0), call.tensor(2)
    at = dimension(call, 1, index.shape or (1,))
    read = partial_bytes(data, _slice_elements(index, at))
    return memory_bound_demand(data.dtype, 0, (index,), (Tensor(index.shape, data.dtype),), parts=read)


def _take(call: OperatorCall) -> Demand:
    data, index = call.tensor(0), call.tensor(1)
    read = partial_bytes(data, min(1, index.elements))
    return memory_bound_demand(data.dtype, 0, (index,), (Tensor(index.shape, data.dtype),), parts=read)


def _embedding(call: OperatorCall) -> Demand:
    table, index = call.tensor(0), call.tensor(1)
    row = _row_length(table)
    read = partial_bytes(table, row * min(1, index.elements))
    return memory_bound_demand(table.dtype, 0, (index,), (Tensor((*index.shape, row), table.dtype),), parts=read)


def _row_length(table: Tensor) -> int:
    if len(table.shape) != 2:
        raise NotRecordedError("a table with rows")
    return table.shape[1]


def _scatter(call: OperatorCall, *, adds: bool = False) -> Demand:
    """Return the work of writing elements to where an index says, or of adding them there."""
    data, index, source = call.tensor(0), call.tensor(2), call.tensor_or_none(3)
    at = dimension(call, 1, index.shape or (1,))
    changed = partial_bytes(data, _slice_elements(index, at))
    read = partial_bytes(source, index.elements) if source else 0
    reduces = adds or bool(call.text(4))
    parts = changed * (2 if reduces else 1) + read
    return memory_bound_demand(data.dtype, index.elements * reduces, (index,), (), parts=parts)


def _scatter_add(call: OperatorCall) -> Demand:
    return _scatter(call, adds=True)


def _index_add(call: OperatorCall) -> Demand:
    data, index, source = call.tensor(0), call.tensor(2), call.tensor(3)
    changed = 2 * partial_bytes(data, _slice_elements(source, dimension(call, 1, source.shape or (1,))))
    return memory_bound_demand(data.dtype, source.elements, (index, source), (), parts=changed)


def _index_copy(call: OperatorCall) -> Demand:
    data, index, source = call.tensor(0), call.tensor(2), call.tensor(3)
    changed = partial_bytes(data, _slice_elements(source, dimension(call, 1, source.shape or (1,))))
    return memory_bound_demand(data.dtype, 0, (index, source), (), parts=changed)


def _index_fill(call: OperatorCall) -> Demand:
    data, index = call.tensor(0), call.tensor(2)
    at = dimension(call, 1, data.shape or (1,))
    return memory_bound_demand(
        data.dtype, 0, (index,), (), parts=partial_bytes(data, _slice_elements(data, at) * min(1, index.elements))
    )


def _index_put(call: OperatorCall) -> Demand:
    """Return the work of writing values to where a list of indices says, whose shapes are not recorded."""
    data, values = call.tensor(0), call.tensor(2)
    adds = call.boolean(3)
    return memory_bound_demand(data.dtype, 0, (values,), (), parts=partial_bytes(data, 1), is_least=adds is not False)


def _index(call: OperatorCall) -> Demand:
    raise NotRecordedError("the shapes of the indices")


def _masked_select(call: OperatorCall) -> Demand:
    raise NotRecordedError("how many elements the mask chooses")


def _masked_scatter(call: OperatorCall) -> Demand:
    data, mask = call.tensor(0), call.tensor(1)
    return memory_bound_demand(data.dtype, 0, (mask,), ())


def _embedding_backward(call: OperatorCall) -> Demand:
    grad, index = call.tensor(0), call.tensor(1)
    if call.integer(3) >= 0:
        raise NotRecordedError("how many rows are padding, whose gradients are not read")
    changed = partial_bytes(grad, grad.shape[-1] if grad.shape else 0)
    return memory_bound_demand(grad.dtype, grad.elements, (grad, index), (), parts=changed)


def _embedding_bag(call: OperatorCall) -> Demand:
    table, index, offsets = call.tensor(0), call.tensor(1), call.tensor(2)
    row, weights = _row_length(table), call.tensor_or_none(6)
    bags = max(0, offsets.elements - (call.boolean(7) is not False))
    # A row that is padding is not added; 2 is the largest element instead of the sum, 1 the mean.
    padded = call.text(8) != "-1"
    flops = 0 if padded else row * (index.elements * (1 + (weights is not None)) + bags * (call.text(4) == "1"))
    read = partial_bytes(table, 0 if padded else row * min(1, index.elements))
    return memory_bound_demand(
        table.dtype, flops, (index, offsets), (Tensor((bags, row), table.dtype),), read, is_least=padded
    )


def _embedding_bag_backward(call: OperatorCall) -> Demand:
    grad, index, bag_of = call.tensor(0), call.tensor(1), call.tensor(2)
    padded = call.text(9) != "-1"
    row = grad.shape[-1] if grad.shape else 0
    changed = 0 if padded else 2 * partial_bytes(grad, row * min(1, index.elements))
    flops = 0 if padded else row * index.elements
    return memory_bound_demand(grad.dtype, flops, (index, bag_of), (), parts=changed, is_least=padded)


def _permuted(call: OperatorCall) -> Demand:
    data = call.tensor(0)
    return memory_bound_demand(data.dtype, 0, (data,), (Tensor(data.shape, data.dtype),))


def _repeat(call: OperatorCall) -> Demand:
    data, times = call.tensor(0), call.integers(1)
    if len(times) < len(data.shape) or min(times, default=0) < 0:
        raise NotRecordedError("how often it is repeated")
    shape = (*(1,) * (len(times) - len(data.shape)), *data.shape)
    result = Tensor(tuple(side * count for side, count in zip(shape, times, strict=True)), data.dtype)
    return memory_bound_demand(data.dtype, 0, (data,) if result.elements else (), (result,))


def _repeat_interleave(call: OperatorCall) -> Demand:
    """Return the work of repeating elements equally often, or of a list of how often each index is repeated."""
    data = call.tensor(0)
    if call.tensor_or_none(1) or (found := call.integer(1)) < 0:
        raise NotRecordedError("how often each element is repeated")
    size = found if len(call.inputs) == 2 else found * data.elements
    return memory_bound_demand(data.dtype, 0, (data,) if size else (), (Tensor((size,), data.dtype),))


def _triangle_elements(rows: int, columns: int, diagonal: int) -> int:
    """Return how many elements of a matrix lie on a diagonal or below it."""
    whole = max(0, min(rows, rows - columns + diagonal + 1)) if columns else 0
    first = max(0, -diagonal)
    partly = max(0, rows - whole - first)
    start = first + diagonal + 1
    return whole * columns + partly * start + partly * (partly - 1) // 2


def _triangle(call: OperatorCall, *, lower: bool) -> Demand:
    """Return the work of setting the rest of matrices to zero; in place only that is written, else the rest is read."""
    data, diagonal = call.tensor(0), call.integer(1)
    if len(data.shape) < 2:
        raise NotRecordedError("matrices")
    rows, columns = data.shape[-2:]
    below = _triangle_elements(rows, columns, diagonal if lower else diagonal - 1)
    matrices = data.elements // (rows * columns) if data.elements else 0
    kept = matrices * (below if lower else rows * columns - below)
    if call.name.endswith("_"):
        return memory_bound_demand(data.dtype, 0, (), (), parts=partial_bytes(data, data.elements - kept))
    return memory_bound_demand(data.dtype, 0, (), (Tensor(data.shape, data.dtype),), parts=partial_bytes(data, kept))


def _lower(call: OperatorCall) -> Demand:
    return _triangle(call, lower=True)


def _upper(call: OperatorCall) -> Demand:
    return _triangle(call, lower=False)


def _arange(call: OperatorCall) -> Demand:
    start, end, step, result = call.integer(0), call.integer(1), call.integer(2), call.tensor(3)
    if not step or (end - start) * step < 0:
        raise NotRecordedError("numbers from a start to an end")
    count = -((start - end) // step)
    return memory_bound_demand(result.dtype, 2 * count, (), (Tensor((count,), result.dtype),))


def _linspace(call: OperatorCall) -> Demand:
    count, result = call.integer(2), call.tensor(3)
    if count < 0:
        raise NotRecordedError("how many numbers")
    return memory_bound_demand(result.dtype, 2 * count, (), (Tensor((count,), result.dtype),))


def _one_hot(call: OperatorCall) -> Demand:
    data, classes = call.tensor(0), call.integer(1)
    if classes < 0:
        raise NotRecordedError("how many classes there are")
    return memory_bound_demand(data.dtype, 0, (data,), (Tensor((*data.shape, classes), data.dtype),))


def _local_scalar(call: OperatorCall) -> Demand:
    data = call.tensor(0)
    return memory_bound_demand(data.dtype, 0, (), (), parts=partial_bytes(data, 1))


def _bucket(call: OperatorCall, values: int) -> Demand:
    """Return the work of finding where values stand among sorted ones, of which a search looks at some."""
    data = call.tensor(values)
    kind = "int" if call.boolean(2) is not False else "long int"
    return memory_bound_demand(data.dtype, 0, (data,), (Tensor(data.shape, kind),), is_least=True)


def _bucketize(call: OperatorCall) -> Demand:
    return _bucket(call, values=0)


def _searchsorted(call: OperatorCall) -> Demand:
    return _bucket(call, values=1)


GATHER_BYTES = "indices + result + one place along the dimension, because rows can repeat"
SCATTER_BYTES = "indices + source + one place along the dimension, because rows can repeat"

GATHER_SCATTER = (
    CostModel(("aten::index_select",), "0", GATHER_BYTES, _index_select),
    CostModel(("aten::gather",), "0", GATHER_BYTES, _gather),
    CostModel(("aten::take",), "0", "indices + result + one element", _take),
    CostModel(("aten::embedding",), "0", "indices + result + one row, because rows can repeat", _embedding),
    CostModel(("aten::index", "aten::_unsafe_index"), "0", "unknown: the shapes of indices are not recorded", _index),
    CostModel(("aten::masked_select",), "0", "unknown: the number of selections is not recorded", _masked_select),
    CostModel(("aten::masked_scatter",), "0", "mask; the selected elements are not recorded", _masked_scatter),
    CostModel(("aten::scatter",), "0; 1 · indices with a reduction", SCATTER_BYTES, _scatter),
    CostModel(
        ("aten::scatter_add", "aten::scatter_reduce"), "1 · indices", SCATTER_BYTES + ", read and written",
        _scatter_add,
    ),
    CostModel(("aten::index_add",), "1 · source", SCATTER_BYTES + ", read and written", _index_add),
    CostModel(("aten::index_copy",), "0", SCATTER_BYTES, _index_copy),
    CostModel(("aten::index_fill",), "0", "indices + one place along the dimension", _index_fill),
    CostModel(
        ("aten::index_put", "aten::_index_put_impl_"),
        "0; additions where it adds: not counted, because values can repeat",
        "values + one element, since the shapes of indices are not recorded", _index_put,
    ),
    CostModel(
        ("aten::embedding_dense_backward",), "1 · gradients", "gradients + indices + one row, because rows can repeat",
        _embedding_backward,
    ),
    CostModel(
        ("aten::_embedding_bag", "aten::_embedding_bag_forward_only"),
        "indices · row, twice with weights, + bags · row for a mean; unknown if a row is padding",
        "indices + offsets + result + one row, because rows can repeat", _embedding_bag,
    ),
    CostModel(
        ("aten::_embedding_bag_dense_backward",), "indices · row",
        "indices + bags' numbers + one row read and one written, because bags can be empty", _embedding_bag_backward,
    ),
    CostModel(("aten::flip", "aten::roll"), "0", "data + result", _permuted),
    CostModel(("aten::repeat",), "0", "data + result", _repeat),
    CostModel(("aten::repeat_interleave",), "0", "data + result", _repeat_interleave),
    CostModel(("aten::tril",), "0", "kept elements + result; in place: the other elements", _lower),
    CostModel(("aten::triu",), "0", "kept elements + result; in place: the other elements", _upper),
    CostModel(("aten::arange",), "2 · results", "result", _arange),
    CostModel(("aten::linspace",), "2 · results", "result", _linspace),
    CostModel(("aten::one_hot",), "0", "data + result", _one_hot),
    CostModel(("aten::bucketize",), "not known: 0 at least", "values + result", _bucketize),
    CostModel(("aten::searchsorted",), "not known: 0 at least", "values + result", _searchsorted),
    CostModel(("aten::_local_scalar_dense",), "0", "one element", _local_scalar),
)  # fmt: skip
