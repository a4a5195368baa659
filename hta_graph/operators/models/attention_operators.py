"""The operators of attention: PyTorch's own and those of the packages flash-attn."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hta_graph.operators.demand import Demand, Model
from hta_graph.operators.models.attention import FIRST, LAST, FusedPlaces, attention
from hta_graph.operators.operator_call import NotToldError, OperatorCall

__all__ = ["ATTENTION"]

FLASH = FusedPlaces(causal=8, bounds=(3, 4), longest=(5, 6), window=(11, 12), hidden=(13, 15))
SCALED = FusedPlaces(causal=4, heads_first=True)
CUDNN = FusedPlaces(causal=6, heads_first=True, bias=3)


def _flash(call: OperatorCall) -> Demand:
    """Count flash attention, of which a variant for eight bits has three scales before the rest."""
    if len(call.inputs) == 18:
        return attention(call, replace(FLASH, window=(14, 15), hidden=(16,)))
    return attention(call, FLASH)


def _scaled_flash(call: OperatorCall) -> Demand:
    """Count flash attention by its outer operator, of which a variant for eight bits has three scales in between."""
    return attention(call, replace(SCALED, causal=7) if len(call.inputs) == 10 else SCALED)


def _scaled_cudnn(call: OperatorCall) -> Demand:
    """Count cuDNN's attention by its outer operator, which had no bias at first."""
    return attention(call, SCALED if len(call.inputs) == 7 else CUDNN)


def _efficient(call: OperatorCall) -> Demand:
    """Count memory-efficient attention; at first it was not told the longest sequence of keys.

    The chance of dropout, the one fraction among its inputs, tells where the kind of its mask is.
    """
    places = FusedPlaces(causal=None, by_kind=True, bias=3, bounds=(4, 5))
    chance = next((at for at in (7, 8) if "." in call.text(at)), None)
    if chance is None and (call.values or len(call.inputs) > 13):
        raise NotToldError("the kind of the mask")
    if chance is None:
        return attention(call, places)
    after = tuple(range(chance + 4, len(call.inputs)))
    longest = (6, 7) if chance == 8 else None
    return attention(call, replace(places, causal=chance + 1, longest=longest, hidden=after))


FORWARD = "2·B·H·pairs·(D of keys + D of values); pairs: of a query and a key that it attends to, exactly"
BACKWARD = "2·B·H·pairs·(3·D of keys + 2·D of values): the scores are computed again"
READ = "queries, keys and values that are attended to + bias + output"
READ_BACK = "as forward + the output and its gradient + logarithms + the three gradients"


def _ahead(places: FusedPlaces, *operators: str) -> Model:
    return Model(operators, FORWARD, READ, partial(attention, places=places))


def _back(places: FusedPlaces, *operators: str) -> Model:
    return Model(operators, BACKWARD, READ_BACK, partial(attention, places=places))


ATTENTION = (
    Model(("aten::_flash_attention_forward",), FORWARD, READ, _flash),
    Model(("aten::_efficient_attention_forward",), FORWARD, READ, _efficient),
    Model(("aten::_scaled_dot_product_flash_attention",), FORWARD, READ, _scaled_flash),
    Model(("aten::_scaled_dot_product_cudnn_attention",), FORWARD, READ, _scaled_cudnn),
    _ahead(replace(SCALED, bias=5, corners=FIRST), "aten::_scaled_dot_product_flash_attention_for_cpu"),
    _ahead(replace(CUDNN, corners=FIRST), "aten::_scaled_dot_product_efficient_attention"),
    _ahead(replace(CUDNN, causal=10, bounds=(4, 5), longest=(6, 7)), "aten::_cudnn_attention_forward"),
    _ahead(
        FusedPlaces(causal=5, corners=LAST, window=(6, 7)), "flash_attn::_flash_attn_forward"
    ),
    _ahead(
        FusedPlaces(causal=9, corners=LAST, bounds=(3, 4), longest=(5, 6), window=(10, 11), hidden=(15, 16, 17)),
        "flash_attn::_flash_attn_varlen_forward",
    ),
    _ahead(
        FusedPlaces(
            causal=24, corners=LAST, bounds=(7, 8), longest=(12, 13), window=(25, 26), output=6, arity=34,
            hidden=(3, 4, 5, 9, 10, 11, 14, 15, 16, 27),
        ),
        "flash_attn_3::fwd", "flash_attn_3::_flash_attn_forward",
    ),
    _back(
        FusedPlaces(causal=11, query=1, bounds=(6, 7), longest=(8, 9), window=(15, 16), back=(4, 5)),
        "aten::_flash_attention_backward",
    ),
    _back(
        FusedPlaces(
            causal=14, by_kind=True, query=1, bias=4, bounds=(6, 7), longest=(8, 9), hidden=(18,), back=(5, 10)
        ),
        "aten::_efficient_attention_backward",
    ),
    _back(
        replace(SCALED, causal=11, query=1, bounds=(6, 7), longest=(8, 9), back=(4, 5)),
        "aten::_scaled_dot_product_flash_attention_backward",
    ),
    _back(
        replace(SCALED, causal=11, query=1, corners=FIRST, bias=4, back=(5, 6)),
        "aten::_scaled_dot_product_efficient_attention_backward",
    ),
    _back(
        replace(SCALED, causal=14, query=1, bias=8, bounds=(9, 10), longest=(11, 12), back=(4, 5)),
        "aten::_scaled_dot_product_cudnn_attention_backward", "aten::_cudnn_attention_backward",
    ),
    _back(
        replace(SCALED, causal=7, query=1, corners=FIRST, bias=8, back=(4, 5)),
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
    ),
    _back(
        FusedPlaces(causal=11, query=1, corners=LAST, window=(12, 13), back=(4, 5)), "flash_attn::_flash_attn_backward"
    ),
    _back(
        FusedPlaces(causal=15, query=1, corners=LAST, bounds=(9, 10), longest=(11, 12), window=(16, 17), back=(4, 5)),
        "flash_attn::_flash_attn_varlen_backward",
    ),
    _back(
        FusedPlaces(
            causal=16, query=1, corners=LAST, bounds=(9, 10), longest=(13, 14), window=(17, 18), hidden=(11, 12),
            back=(4, 5), arity=22,
        ),
        "flash_attn_3::bwd",
    ),
    _back(
        FusedPlaces(
            causal=13, query=1, corners=LAST, bounds=(6, 7), longest=(10, 11), window=(14, 15), hidden=(8, 9),
            back=(4, 5), arity=19,
        ),
        "flash_attn_3::_flash_attn_backward",
    ),
)  # fmt: skip
