"""Attention in one operator, forward and backward: PyTorch's own operators and those of the packages flash-attn.

Forward there are two products for each pair of a query and a key that it attends to, backward five: the scores are
computed again. Softmax, masks and dropout are not counted. Of sequences one after the other only the bounds' number
is recorded, not where they are: their lengths are known where all are as long as the longest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

from hta_graph.roofline.demand import CostModel, Demand, Unit
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, Tensor, known_bytes


@dataclass(frozen=True)
class BandMask:
    """A band of keys before the diagonal and after it, ``None``: all.

    The diagonal goes through the first query and the first key, or, ``lower_right``, through the last of both.
    """

    before: int | None = None
    after: int | None = None
    lower_right: bool = False

    def pairs(self, queries: int, keys: int) -> int:
        """Return how many pairs of a query and a key lie in it.

        >>> BandMask(after=0).pairs(4, 4)
        10
        """
        shift = self._shift(queries, keys)
        until = queries * keys if self.after is None else _up_to(shift + self.after, queries, keys)
        return until - (0 if self.before is None else _up_to(shift - self.before - 1, queries, keys))

    def attended_keys(self, queries: int, keys: int) -> int:
        """Return how many keys any query attends to."""
        shift = self._shift(queries, keys)
        first = 0 if self.before is None else max(0, shift - self.before)
        end = keys if self.after is None else min(keys, queries + shift + self.after)
        return max(0, end - first) if queries else 0

    def attending_queries(self, queries: int, keys: int) -> int:
        """Return how many queries attend to any key."""
        return BandMask(self.after, self.before, self.lower_right).attended_keys(keys, queries)

    def _shift(self, queries: int, keys: int) -> int:
        return keys - queries if self.lower_right else 0


def _up_to(last: int, queries: int, keys: int) -> int:
    """Count the pairs of a query and a key that is at most ``last`` places after it."""
    return _ramp(last, queries) - _ramp(last - keys, queries)


def _ramp(last: int, queries: int) -> int:
    """Add up, over the queries, how many of unboundedly many keys are at most ``last`` places after one."""
    return _triangle(last + queries) - _triangle(last)


def _triangle(side: int) -> int:
    return side * (side + 1) // 2 if side > 0 else 0


UPPER_LEFT, LOWER_RIGHT = (False,), (True,)
"""Where a causal mask's diagonal begins; an operator that has had both kinds has both."""
MASK_KINDS = {"0": (), "1": UPPER_LEFT, "2": LOWER_RIGHT}
"""What the memory-efficient kernels call their masks: none, causal from the first pair, causal from the last."""
Positions = tuple[int, int]


@dataclass(frozen=True)
class AttentionArgs:
    """At which positions an operator has its inputs; ``None`` or empty where it has none.

    ``causal`` is a boolean, or a kind of :data:`MASK_KINDS` where ``causal_by_kind``. ``cu_seqlens`` are the bounds of
    the sequences of queries and keys, ``max_seqlens`` the longest of them. What is given at ``unknown`` changes lengths
    or masks in ways that are not recorded. Backward, ``saved`` are the positions of output and logarithms.
    """

    causal: int | None
    query: int = 0
    heads_first: bool = False
    causal_by_kind: bool = False
    corners: tuple[bool, ...] = UPPER_LEFT + LOWER_RIGHT
    bias: int | None = None
    cu_seqlens: Positions | None = None
    max_seqlens: Positions | None = None
    window: Positions | None = None
    unknown: tuple[int, ...] = ()
    saved: Positions | None = None
    output: int | None = None
    arity: int | None = None


@dataclass(frozen=True)
class SequenceLayout:
    """The tensors of a call, what their sides are, and how many of what there is.

    ``token_axis`` is the side along which tokens lie, of ``packed`` sequences; ``head_axis`` is that of the heads.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    token_axis: int
    head_axis: int
    packed: int
    batch: int
    queries: int
    keys: int

    @property
    def heads(self) -> int:
        """How many heads of queries there are."""
        return self.query.shape[self.head_axis]

    def sizes(self) -> dict[str, int]:
        """Return how many of what there is by name; ``K`` is the sum over a head's elements."""
        named = {"batch": self.batch, "heads": self.heads, "queries": self.queries, "keys": self.keys}
        return named | {"K": self.query.shape[-1]}

    def part(self, tensor: Tensor, tokens: int) -> Tensor:
        """Return what remains of a tensor with some number of tokens of each sequence."""
        sides = list(tensor.shape)
        sides[self.token_axis] = tokens * self.packed
        return Tensor(tuple(sides), tensor.dtype, tensor.strides)


def attention(call: OperatorCall, arguments: AttentionArgs) -> Demand:
    """Return the work of attention.

    Raises:
        NotRecordedError: the recording does not say what each query attends to.
    """
    _refuse_unknown_lengths(call, arguments)
    found = _sequences(call, arguments)
    bands = _masks(call, arguments)
    counts = {band.pairs(found.queries, found.keys) for band in bands}
    inner, outer = found.query.shape[-1], found.value.shape[-1]
    products = 3 * inner + 2 * outer if arguments.saved else inner + outer
    return Demand(
        flops=2 * found.batch * found.heads * min(counts) * products,
        bytes=_least_bytes(call, arguments, found, bands),
        dtype=found.query.dtype,
        unit=Unit.MATRIX,
        is_least=len(counts) > 1,
        sizes=found.sizes(),
    )


def _refuse_unknown_lengths(call: OperatorCall, arguments: AttentionArgs) -> None:
    """Raise where something is given of which nothing follows for the work."""
    if arguments.arity not in {None, len(call.inputs)}:
        raise NotRecordedError("the inputs as this version of the operator has them")
    for at in arguments.unknown:
        if (at < len(call.inputs) and call.inputs[at] is not None) or call.text(at) not in {"", "0"}:
            raise NotRecordedError("the lengths of the sequences")


def _sequences(call: OperatorCall, arguments: AttentionArgs) -> SequenceLayout:
    query, key, value = (call.tensor(arguments.query + step) for step in range(3))
    cu_seqlens = [call.tensor_or_none(at) for at in arguments.cu_seqlens or ()]
    found = (
        _packed_sequences(call, arguments, query, key, value)
        if any(cu_seqlens)
        else _padded_sequences(arguments, query, key, value)
    )
    of_keys = key.shape[found.head_axis]
    fits = query.shape[-1] == key.shape[-1] and key.shape[:-1] == value.shape[:-1]
    if not fits or not of_keys or found.heads % of_keys:
        raise NotRecordedError("shapes that fit each other")
    return found


def _padded_sequences(arguments: AttentionArgs, query: Tensor, key: Tensor, value: Tensor) -> SequenceLayout:
    """Return the sequences of tensors that have a side for them."""
    if not len(query.shape) == len(key.shape) == len(value.shape) == 4 or query.shape[0] != key.shape[0]:
        raise NotRecordedError("shapes that fit each other")
    token_axis, head_axis = (2, 1) if arguments.heads_first else (1, 2)
    return SequenceLayout(
        query, key, value, token_axis, head_axis, 1, query.shape[0], query.shape[token_axis], key.shape[token_axis]
    )


def _packed_sequences(
    call: OperatorCall, arguments: AttentionArgs, query: Tensor, key: Tensor, value: Tensor
) -> SequenceLayout:
    """Return the sequences that lie one after the other, if all are as long as the longest."""
    if (
        not arguments.cu_seqlens
        or not arguments.max_seqlens
        or not len(query.shape) == len(key.shape) == len(value.shape) > 2
    ):
        raise NotRecordedError("the lengths of the sequences")
    count = call.tensor(arguments.cu_seqlens[0]).elements - 1
    lengths = [call.integer(at) for at in arguments.max_seqlens]
    token_axis = len(query.shape) - 3
    tokens = [tensor.shape[token_axis] for tensor in (query, key)]
    if (
        count < 1
        or call.tensor(arguments.cu_seqlens[1]).elements - 1 != count
        or math.prod(query.shape[:token_axis]) != 1
    ):
        raise NotRecordedError("the lengths of the sequences")
    if tokens != [length * count for length in lengths]:
        raise NotRecordedError("the lengths of the sequences")
    return SequenceLayout(query, key, value, token_axis, token_axis + 1, count, count, *lengths)


def _masks(call: OperatorCall, arguments: AttentionArgs) -> set[BandMask]:
    """Return the bands that the recording allows."""
    before, after = _window(call, arguments)
    corners = arguments.corners
    causal_options: tuple[bool, ...] = (True, False)
    if arguments.causal is not None and arguments.causal_by_kind and call.text(arguments.causal) in MASK_KINDS:
        corners = MASK_KINDS[call.text(arguments.causal)] or corners
        causal_options = (call.text(arguments.causal) != "0",)
    elif (
        arguments.causal is not None
        and not arguments.causal_by_kind
        and (told := call.boolean(arguments.causal)) is not None
    ):
        causal_options = (told,)
    return {BandMask(before, 0 if causal else after, last) for causal in causal_options for last in corners}


def _window(call: OperatorCall, arguments: AttentionArgs) -> tuple[int | None, int | None]:
    """Return how far before and after itself a query attends; a negative number is no bound."""
    if not arguments.window or arguments.window[0] >= len(call.inputs):
        return None, None
    if not call.values:
        raise NotRecordedError("the window of the attention")
    before, after = (call.integer(at) if call.text(at) else -1 for at in arguments.window)
    return before if before >= 0 else None, after if after >= 0 else None


def _least_bytes(
    call: OperatorCall, arguments: AttentionArgs, found: SequenceLayout, bands: set[BandMask]
) -> int | None:
    """Return the memory of what is read and written; of what no pair needs, nothing is read."""
    queries = min(band.attending_queries(found.queries, found.keys) for band in bands)
    keys = min(band.attended_keys(found.queries, found.keys) for band in bands)
    whole = all(band.pairs(found.queries, found.keys) == found.queries * found.keys for band in bands)
    bias = call.tensor_or_none(arguments.bias) if arguments.bias is not None and whole else None
    read = [found.part(found.query, queries), found.part(found.key, keys), found.part(found.value, keys), bias]
    result = Tensor((*found.query.shape[:-1], found.value.shape[-1]), _result_type(call, arguments, found.query))
    if not arguments.saved:
        return known_bytes(*read, result)
    logarithms = call.tensor_or_none(arguments.saved[1]) if queries == found.queries else None
    gradients = [replace(tensor, strides=None) for tensor in (found.query, found.key, found.value)]
    return known_bytes(*read, *_backward_inputs(call, arguments, found, queries), logarithms, *gradients)


def _backward_inputs(call: OperatorCall, arguments: AttentionArgs, found: SequenceLayout, queries: int) -> list[Tensor]:
    """Return the output's gradient and the output, as far as they are read."""
    given = [call.tensor(at) for at in (0, arguments.saved[0] if arguments.saved else 0)]
    if any(len(tensor.shape) != len(found.query.shape) for tensor in given):
        raise NotRecordedError("shapes that fit each other")
    return [found.part(tensor, queries) for tensor in given]


def _result_type(call: OperatorCall, arguments: AttentionArgs, query: Tensor) -> str:
    """Return the type of the output: for eight bits it is a wider one, known only where the output is given."""
    given = None if arguments.output is None else call.tensor_or_none(arguments.output)
    if given:
        return given.dtype
    return "" if query.dtype.startswith("float8") else query.dtype


FLASH = AttentionArgs(causal=8, cu_seqlens=(3, 4), max_seqlens=(5, 6), window=(11, 12), unknown=(13, 15))
SCALED = AttentionArgs(causal=4, heads_first=True)
CUDNN = AttentionArgs(causal=6, heads_first=True, bias=3)


def _flash(call: OperatorCall) -> Demand:
    """Count flash attention, of which a variant for eight bits has three scales before the rest."""
    if len(call.inputs) == 18:
        return attention(call, replace(FLASH, window=(14, 15), unknown=(16,)))
    return attention(call, FLASH)


def _scaled_flash(call: OperatorCall) -> Demand:
    """Count flash attention by its outer operator, of which a variant for eight bits has three scales in between."""
    return attention(call, replace(SCALED, causal=7) if len(call.inputs) == 10 else SCALED)


def _scaled_cudnn(call: OperatorCall) -> Demand:
    """Count cuDNN's attention by its outer operator, which had no bias at first."""
    return attention(call, SCALED if len(call.inputs) == 7 else CUDNN)


def _efficient(call: OperatorCall) -> Demand:
    """Count memory-efficient attention; early versions do not get the longest sequence of keys.

    The chance of dropout, the one fraction among its inputs, shows where the kind of its mask is.
    """
    arguments = AttentionArgs(causal=None, causal_by_kind=True, bias=3, cu_seqlens=(4, 5))
    chance = next((at for at in (7, 8) if "." in call.text(at)), None)
    if chance is None and (call.values or len(call.inputs) > 13):
        raise NotRecordedError("the kind of the mask")
    if chance is None:
        return attention(call, arguments)
    after = tuple(range(chance + 4, len(call.inputs)))
    max_seqlens = (6, 7) if chance == 8 else None
    return attention(call, replace(arguments, causal=chance + 1, max_seqlens=max_seqlens, unknown=after))


FORWARD_FLOPS = "2·B·H·pairs·(D of keys + D of values); pairs: the exact number of query-key pairs that are not masked"
BACKWARD_FLOPS = "2·B·H·pairs·(3·D of keys + 2·D of values): the scores are computed again"
FORWARD_BYTES = "the queries, keys and values that are used + bias + output"
BACKWARD_BYTES = "as forward + the output and its gradient + logarithms + the three gradients"


def _forward_model(arguments: AttentionArgs, *operators: str) -> CostModel:
    return CostModel(operators, FORWARD_FLOPS, FORWARD_BYTES, partial(attention, arguments=arguments))


def _backward_model(arguments: AttentionArgs, *operators: str) -> CostModel:
    return CostModel(operators, BACKWARD_FLOPS, BACKWARD_BYTES, partial(attention, arguments=arguments))


ATTENTION = (
    CostModel(("aten::_flash_attention_forward",), FORWARD_FLOPS, FORWARD_BYTES, _flash),
    CostModel(("aten::_efficient_attention_forward",), FORWARD_FLOPS, FORWARD_BYTES, _efficient),
    CostModel(("aten::_scaled_dot_product_flash_attention",), FORWARD_FLOPS, FORWARD_BYTES, _scaled_flash),
    CostModel(("aten::_scaled_dot_product_cudnn_attention",), FORWARD_FLOPS, FORWARD_BYTES, _scaled_cudnn),
    _forward_model(replace(SCALED, bias=5, corners=UPPER_LEFT), "aten::_scaled_dot_product_flash_attention_for_cpu"),
    _forward_model(replace(CUDNN, corners=UPPER_LEFT), "aten::_scaled_dot_product_efficient_attention"),
    _forward_model(replace(CUDNN, causal=10, cu_seqlens=(4, 5), max_seqlens=(6, 7)), "aten::_cudnn_attention_forward"),
    _forward_model(
        AttentionArgs(causal=5, corners=LOWER_RIGHT, window=(6, 7)), "flash_attn::_flash_attn_forward"
    ),
    _forward_model(
        AttentionArgs(
            causal=9, corners=LOWER_RIGHT, cu_seqlens=(3, 4), max_seqlens=(5, 6), window=(10, 11), unknown=(15, 16, 17),
        ),
        "flash_attn::_flash_attn_varlen_forward",
    ),
    _forward_model(
        AttentionArgs(
            causal=24, corners=LOWER_RIGHT, cu_seqlens=(7, 8), max_seqlens=(12, 13), window=(25, 26), output=6,
            arity=34,
            unknown=(3, 4, 5, 9, 10, 11, 14, 15, 16, 27),
        ),
        "flash_attn_3::fwd", "flash_attn_3::_flash_attn_forward",
    ),
    _backward_model(
        AttentionArgs(causal=11, query=1, cu_seqlens=(6, 7), max_seqlens=(8, 9), window=(15, 16), saved=(4, 5)),
        "aten::_flash_attention_backward",
    ),
    _backward_model(
        AttentionArgs(
            causal=14, causal_by_kind=True, query=1, bias=4, cu_seqlens=(6, 7), max_seqlens=(8, 9), unknown=(18,),
            saved=(5, 10)
        ),
        "aten::_efficient_attention_backward",
    ),
    _backward_model(
        replace(SCALED, causal=11, query=1, cu_seqlens=(6, 7), max_seqlens=(8, 9), saved=(4, 5)),
        "aten::_scaled_dot_product_flash_attention_backward",
    ),
    _backward_model(
        replace(SCALED, causal=11, query=1, corners=UPPER_LEFT, bias=4, saved=(5, 6)),
        "aten::_scaled_dot_product_efficient_attention_backward",
    ),
    _backward_model(
        replace(SCALED, causal=14, query=1, bias=8, cu_seqlens=(9, 10), max_seqlens=(11, 12), saved=(4, 5)),
        "aten::_scaled_dot_product_cudnn_attention_backward", "aten::_cudnn_attention_backward",
    ),
    _backward_model(
        replace(SCALED, causal=7, query=1, corners=UPPER_LEFT, bias=8, saved=(4, 5)),
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
    ),
    _backward_model(
        AttentionArgs(
            causal=11, query=1, corners=LOWER_RIGHT, window=(12, 13), saved=(4, 5),
        ),
        "flash_attn::_flash_attn_backward"
    ),
    _backward_model(
        AttentionArgs(
            causal=15, query=1, corners=LOWER_RIGHT, cu_seqlens=(9, 10), max_seqlens=(11, 12), window=(16, 17),
            saved=(4, 5),
        ),
        "flash_attn::_flash_attn_varlen_backward",
    ),
    _backward_model(
        AttentionArgs(
            causal=16, query=1, corners=LOWER_RIGHT, cu_seqlens=(9, 10), max_seqlens=(13, 14), window=(17, 18),
            unknown=(11, 12),
            saved=(4, 5), arity=22,
        ),
        "flash_attn_3::bwd",
    ),
    _backward_model(
        AttentionArgs(
            causal=13, query=1, corners=LOWER_RIGHT, cu_seqlens=(6, 7), max_seqlens=(10, 11), window=(14, 15),
            unknown=(8, 9),
            saved=(4, 5), arity=19,
        ),
        "flash_attn_3::_flash_attn_backward",
    ),
)  # fmt: skip
