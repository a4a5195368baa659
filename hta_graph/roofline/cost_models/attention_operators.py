"""The operators of attention: PyTorch's own and those of the packages flash-attn."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hta_graph.roofline.cost_models.attention import LOWER_RIGHT, UPPER_LEFT, AttentionArgs, attention
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall
from hta_graph.roofline.operators_demand import CostModel, Demand

__all__ = ["ATTENTION"]

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
    """Count memory-efficient attention; at first it was not told the longest sequence of keys.

    The chance of dropout, the one fraction among its inputs, tells where the kind of its mask is.
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


FORWARD_FLOPS = "2·B·H·pairs·(D of keys + D of values); pairs: of a query and a key that it attends to, exactly"
BACKWARD_FLOPS = "2·B·H·pairs·(3·D of keys + 2·D of values): the scores are computed again"
FORWARD_BYTES = "queries, keys and values that are attended to + bias + output"
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
