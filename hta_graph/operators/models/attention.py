"""Attention in one kernel: products of queries and keys, and of their scores and values; the softmax counts nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hta_graph.operators.demand import Demand, Model, Unit
from hta_graph.operators.operator_call import NotToldError, OperatorCall, Tensor, bytes_of

__all__ = ["ATTENTION"]


@dataclass(frozen=True)
class Shape:
    """Batches, heads, lengths of queries and keys, and the dimensions of a key and of a value."""

    batch: int
    heads: int
    queries: int
    keys: int
    key_size: int
    value_size: int


@dataclass(frozen=True)
class Places:
    """Where things stand among the inputs; ``lengths`` are those of sequences laid end to end."""

    query: int = 0
    causal: int | None = None
    mask_kind: int | None = None
    window: int | None = None
    lengths: int | None = None
    read: tuple[int, ...] = ()
    heads_first: bool = True
    is_backward: bool = False


def _attention(at: Places) -> Callable[[OperatorCall], Demand]:
    def demand(call: OperatorCall) -> Demand:
        query, key, value = (call.tensor(at.query + place) for place in range(3))
        lengths = call.tensor_or_none(at.lengths) if at.lengths is not None else None
        causal = _is_causal(call, at)
        if lengths is not None:
            shape, sequences = _end_to_end(query, key, value, lengths)
        else:
            shape, sequences = _shape_of(query, key, value, heads_first=at.heads_first), 1
        pairs = sequences * _pairs(shape, causal is not False, _window(call, at))
        sure = causal is not None and lengths is None and (causal is False or shape.queries == shape.keys)
        return Demand(
            flops=2 * shape.batch * shape.heads * pairs * _sizes_met(shape, at),
            bytes=_moved(call, at, shape, query, key, value),
            dtype=query.dtype,
            unit=Unit.MATRIX,
            is_least=not sure,
            sizes={"heads": shape.heads, "queries": shape.queries, "keys": shape.keys, "head size": shape.key_size},
        )

    return demand


def _sizes_met(shape: Shape, at: Places) -> int:
    """Return over how many numbers each pair of a query and a key is summed, in all products together.

    Forward: scores and their product with values. Backward: scores once more, the gradients of scores and values, and
    those of queries and keys.
    """
    return 3 * shape.key_size + 2 * shape.value_size if at.is_backward else shape.key_size + shape.value_size


def _moved(call: OperatorCall, at: Places, shape: Shape, *given: Tensor) -> int:
    """Return the least traffic: what is given is read, the result written; backward the gradients of all three."""
    read = bytes_of(*given, *(call.tensor_or_none(place) for place in at.read))
    result = given[0].elements // max(shape.key_size, 1) * shape.value_size * given[0].width
    return read + (bytes_of(*given) if at.is_backward else result)


def _shape_of(query: Tensor, key: Tensor, value: Tensor, *, heads_first: bool) -> Shape:
    """Read dense tensors: [batch, heads, length, size] or [batch, length, heads, size]."""
    if {len(one.shape) for one in (query, key, value)} != {4}:
        raise NotToldError("shapes of four dimensions")
    heads, length = (1, 2) if heads_first else (2, 1)
    if key.shape[length] != value.shape[length] or query.shape[3] != key.shape[3]:
        raise NotToldError("shapes that fit each other")
    return Shape(
        query.shape[0], query.shape[heads], query.shape[length], key.shape[length], query.shape[3], value.shape[3]
    )


def _end_to_end(query: Tensor, key: Tensor, value: Tensor, lengths: Tensor) -> tuple[Shape, int]:
    """Read sequences laid end to end, as if all were equally long: of all ways to divide them the one with least work.

    The work of a sequence grows faster than its length, with a window no slower.
    """
    *_, total, heads, size = query.shape if len(query.shape) >= 3 else (0, 0, 0)
    sequences = lengths.elements - 1
    # Of queries and keys that differ, or of unused room, nobody knows how they are paired.
    if sequences < 1 or key.shape[:-2] != query.shape[:-2] or len(value.shape) < 3:
        raise NotToldError("the lengths of the sequences")
    length = total // sequences
    return Shape(1, heads, length, length, size, value.shape[-1]), sequences


def _is_causal(call: OperatorCall, at: Places) -> bool | None:
    """Tell whether queries meet earlier keys only; ``None``: not recorded."""
    if at.mask_kind is not None:
        # Before PyTorch 2.3 there was one input less in front: there a whole number stands where dropout does now.
        place = at.mask_kind - call.text(at.mask_kind - 1).isdecimal()
        return {"0": False, "1": True, "2": True}.get(call.text(place))
    return call.switch(at.causal) if at.causal is not None else None


def _window(call: OperatorCall, at: Places) -> int | None:
    """Return how many keys back a query reaches, itself included; ``None``: all."""
    text = call.text(at.window) if at.window is not None else ""
    return int(text) + 1 if text.isdecimal() and len(text) < 10 else None


def _pairs(shape: Shape, causal: bool, window: int | None) -> int:  # noqa: FBT001 - both are said by name above
    """Return how many pairs of a query and a key meet.

    A causal mask lets query i meet the keys up to i; with as many queries as keys that is their half and the diagonal.
    """
    # k0 k1 k2 k3
    #  #              q0      window 2:   #
    #  #  #           q1                  #  #
    #  #  #  #        q2                     #  #
    #  #  #  #  #     q3                        #  #
    if not causal:
        if window is not None:
            raise NotToldError("a window on both sides")
        return shape.queries * shape.keys
    length, reach = min(shape.queries, shape.keys), min(window or shape.keys, shape.keys)
    full = max(length - reach, 0)
    rising = length - full
    return rising * (rising + 1) // 2 + full * reach


SDPA = "2·B·H·pairs·(key size + value size), pairs being queries × keys, of a causal mask those that meet"
SDPA_BACK = "2·B·H·pairs·(3·key size + 2·value size)"
READ = "query + key + value + bias + output"
READ_BACK = "gradient + query + key + value + output + sums + the three gradients"

FLASH = Places(causal=8, window=11, lengths=3, heads_first=False)
FLASH_BACK = Places(1, causal=11, window=15, lengths=6, read=(0, 4, 5), heads_first=False, is_backward=True)
EFFICIENT = Places(mask_kind=9, lengths=4, read=(3,), heads_first=False)
EFFICIENT_BACK = Places(1, mask_kind=14, lengths=6, read=(0, 4, 5, 10), heads_first=False, is_backward=True)

ATTENTION = (
    Model(
        ("aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_flash_attention_for_cpu"),
        SDPA, READ, _attention(Places(causal=4)),
    ),
    Model(
        ("aten::_scaled_dot_product_efficient_attention", "aten::_scaled_dot_product_cudnn_attention"),
        SDPA, READ, _attention(Places(causal=6, read=(3,))),
    ),
    Model(
        ("aten::_scaled_dot_product_fused_attention_overrideable",), SDPA, READ,
        _attention(Places(causal=5, read=(3,))),
    ),
    Model(
        ("aten::_scaled_dot_product_flash_attention_backward",), SDPA_BACK, READ_BACK,
        _attention(Places(1, causal=11, read=(0, 4, 5), is_backward=True)),
    ),
    Model(
        ("aten::_scaled_dot_product_flash_attention_for_cpu_backward",), SDPA_BACK, READ_BACK,
        _attention(Places(1, causal=7, read=(0, 4, 5), is_backward=True)),
    ),
    Model(
        ("aten::_scaled_dot_product_efficient_attention_backward",), SDPA_BACK, READ_BACK,
        _attention(Places(1, causal=11, read=(0, 4, 5, 6), is_backward=True)),
    ),
    Model(
        ("aten::_scaled_dot_product_cudnn_attention_backward", "aten::_cudnn_attention_backward"),
        SDPA_BACK, READ_BACK, _attention(Places(1, causal=14, lengths=9, read=(0, 4, 5, 8), is_backward=True)),
    ),
    Model(("aten::_cudnn_attention_forward",), SDPA, READ, _attention(Places(causal=10, lengths=4, read=(3,)))),
    Model(("aten::_flash_attention_forward",), SDPA, READ, _attention(FLASH)),
    Model(("aten::_flash_attention_backward",), SDPA_BACK, READ_BACK, _attention(FLASH_BACK)),
    Model(("aten::_efficient_attention_forward",), SDPA, READ, _attention(EFFICIENT)),
    Model(("aten::_efficient_attention_backward",), SDPA_BACK, READ_BACK, _attention(EFFICIENT_BACK)),
    Model(
        ("flash_attn::_flash_attn_forward",), SDPA, READ,
        _attention(Places(causal=5, window=6, heads_first=False)),
    ),
    Model(
        ("flash_attn::_flash_attn_backward",), SDPA_BACK, READ_BACK,
        _attention(Places(1, causal=11, window=12, read=(0, 4, 5), heads_first=False, is_backward=True)),
    ),
    Model(
        ("flash_attn::_flash_attn_varlen_forward",), SDPA, READ,
        _attention(Places(causal=9, window=10, lengths=3, heads_first=False)),
    ),
    Model(
        ("flash_attn::_flash_attn_varlen_backward",), SDPA_BACK, READ_BACK,
        _attention(Places(1, causal=15, window=16, lengths=9, read=(0, 4, 5), heads_first=False, is_backward=True)),
    ),
    Model(
        ("flash_attn_3::fwd",), SDPA, READ,
        _attention(Places(causal=24, window=25, lengths=7, heads_first=False)),
    ),
    Model(
        ("flash_attn_3::bwd",), SDPA_BACK, READ_BACK,
        _attention(Places(1, causal=16, window=17, lengths=9, read=(0, 4, 5), heads_first=False, is_backward=True)),
    ),
)  # fmt: skip
