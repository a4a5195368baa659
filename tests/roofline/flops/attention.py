"""Attention to compare."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import torch

from tests.roofline.flops.comparison import NO_DEVICE, Comparison, Run, as_recorded, like, meta, part, same, tensor

__all__ = ["attention"]

aten = torch.ops.aten
F = torch.nn.functional
CAUSAL = "it counts pairs that a causal mask leaves out"
ORDER = "it takes B×S×H×D for B×H×S×D"
SIX = Fraction(1 + 2 + 3 + 4 + 5 + 6, 6 * 6)
"""What a causal mask leaves of six queries and six keys."""
FROM_FIRST, FROM_LAST = Fraction(1 + 2 + 3, 3 * 5), Fraction(3 + 4 + 5, 3 * 5)
"""What it leaves of three queries and five keys."""
half = partial(meta, dtype=torch.bfloat16)


def heads(*sides: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return queries, keys and values of a shape."""
    return half(*sides), half(*sides), half(*sides)


def attention() -> list[Comparison]:
    return [*scaled(), *inner(), *scaled_back(), *inner_back(), *packages()]


def scaled() -> list[Comparison]:
    six, flash = heads(2, 4, 6, 8), aten._scaled_dot_product_flash_attention
    few = (half(1, 8, 3, 16), half(1, 2, 5, 16), half(1, 2, 5, 4))
    short = (half(1, 8, 3, 16), half(1, 8, 5, 16), half(1, 8, 5, 16))
    efficient = aten._scaled_dot_product_efficient_attention
    cudnn = aten._scaled_dot_product_cudnn_attention
    name = "aten::_scaled_dot_product_{}_attention"
    on_cpu = "aten::_scaled_dot_product_flash_attention_for_cpu"
    cpu = [tensor(2, 4, 6, 8) for _ in range(3)]
    return [
        same(name.format("flash"), lambda: flash(*six)),
        same(name.format("flash"), lambda: flash(*heads(4, 16, 2048, 128))),
        same(name.format("flash"), lambda: flash(*few)),
        part(name.format("flash"), lambda: flash(*six, 0.0, True), SIX, CAUSAL),
        part(name.format("flash"), lambda: flash(*short, 0.0, True), FROM_FIRST, f"{CAUSAL}; of two the less"),
        same(name.format("efficient"), lambda: efficient(*six, None, True)),
        same(name.format("efficient"), lambda: efficient(*six, half(2, 4, 6, 6), False)),
        part(name.format("efficient"), lambda: efficient(*six, None, True, 0.0, True), SIX, CAUSAL),
        part(name.format("efficient"), lambda: efficient(*short, None, True, 0.0, True), FROM_FIRST, CAUSAL),
        same(name.format("cudnn"), lambda: cudnn(*six, None, True)),
        part(name.format("cudnn"), lambda: cudnn(*six, None, True, 0.0, True), SIX, CAUSAL),
        like(on_cpu, lambda: F.scaled_dot_product_attention(*cpu), lambda: flash(*six)),
        part(on_cpu, lambda: F.scaled_dot_product_attention(*cpu, is_causal=True), SIX, CAUSAL, lambda: flash(*six)),
    ]


def inner() -> list[Comparison]:
    tokens, alike = heads(2, 6, 4, 8), heads(2, 6, 6, 8)
    ragged = (*heads(18, 4, 8), *[meta(4, dtype=torch.int32)] * 2)
    flash, efficient = aten._flash_attention_forward, aten._efficient_attention_forward
    six = [tensor(2, 4, 6, 8, device="meta", dtype=torch.bfloat16)] * 3
    whole = lambda: aten._scaled_dot_product_cudnn_attention(*six, None, True)  # noqa: E731
    packed = (*heads(1, 18, 4, 8), None, *[meta(4, dtype=torch.int32)] * 2)
    named = "aten::_flash_attention_forward"
    kind = "aten::_efficient_attention_forward"
    dense = (None, None, None, 6, 6)
    return [
        same(named, lambda: flash(*alike, None, None, 6, 6, 0.0, False, False)),
        part(named, lambda: flash(*tokens, None, None, 6, 6, 0.0, False, False), Fraction(6, 4), ORDER),
        same(named, lambda: flash(*ragged, 6, 6, 0.0, False, False)),
        part(named, lambda: flash(*ragged, 6, 6, 0.0, True, False), SIX, CAUSAL),
        part(
            named, lambda: flash(*ragged, 6, 6, 0.0, True, False, window_size_left=1, window_size_right=0),
            Fraction(1 + 2 * 5, 36), "it counts pairs that a window leaves out",
        ),
        same(kind, lambda: efficient(*alike, *dense, 0.0, 0)),
        part(kind, lambda: efficient(*tokens, *dense, 0.0, 0), Fraction(6, 4), ORDER),
        part(kind, lambda: efficient(*tokens, *dense, 0.0, 1, True), SIX * Fraction(6, 4), f"{CAUSAL}; {ORDER}"),
        same(kind, lambda: efficient(*packed, 6, 6, 0.0, 0, True)),
        part(kind, lambda: efficient(*packed, 6, 6, 0.0, 2, True), SIX, CAUSAL),
        like(
            "aten::_cudnn_attention_forward",
            as_recorded("aten::_cudnn_attention_forward", *six, None, None, None, 6, 6, True, 0.0, False, False, None),
            whole,
        ),
    ]  # fmt: skip


def scaled_back() -> list[Comparison]:
    flash = aten._scaled_dot_product_flash_attention_backward
    efficient = aten._scaled_dot_product_efficient_attention_backward
    cudnn = aten._scaled_dot_product_cudnn_attention_backward
    six, few = of_back(2, 4, 6, 6, 8, 8), of_back(1, 8, 3, 5, 16, 4)
    seed = [meta(dtype=torch.long)] * 2
    asked = [True, True, True, False]
    named = "aten::_scaled_dot_product_{}_attention_backward"
    run: dict[str, Any] = {
        "flash": lambda given, causal: flash(*given, None, None, 6, 6, 0.0, causal, *seed),
        "efficient": lambda given, causal: efficient(*given[:4], None, *given[4:], *seed, 0.0, asked, causal),
    }
    whole: Run = partial(run["flash"], six, False)
    given = [*six, *seed, None, None, None, 6, 6, 0.0, True, None]
    on_cpu = "aten::_scaled_dot_product_flash_attention_for_cpu_backward"
    cpu = [tensor(*one.shape) for one in six]
    return [
        *(same(named.format(kind), partial(run[kind], six, False)) for kind in run),
        *(part(named.format(kind), partial(run[kind], six, True), SIX, CAUSAL) for kind in run),
        same(named.format("efficient"), partial(run["efficient"], few, False)),
        same(named.format("cudnn"), lambda: cudnn(*few, *seed, None, None, None, 3, 5, 0.0, False)),
        *(
            part(name, as_recorded(name, *given), SIX, f"{NO_DEVICE}; {CAUSAL}", whole)
            for name in (named.format("cudnn"), "aten::_cudnn_attention_backward")
        ),
        like(
            on_cpu, lambda: aten._scaled_dot_product_flash_attention_for_cpu_backward(*cpu, 0.0, False), whole
        ),
    ]  # fmt: skip


def of_back(batch: int, count: int, queries: int, keys: int, inner: int, outer: int) -> list[torch.Tensor]:
    """Return the gradient of an output, queries, keys, values, the output and logarithms."""
    out = half(batch, count, queries, outer)
    key, value = half(batch, count, keys, inner), half(batch, count, keys, outer)
    return [out, half(batch, count, queries, inner), key, value, out, meta(batch, count, queries)]


def inner_back() -> list[Comparison]:
    tokens, alike = heads(2, 6, 4, 8), heads(2, 6, 6, 8)
    flash, efficient = aten._flash_attention_backward, aten._efficient_attention_backward
    ragged, bounds = half(18, 4, 8), meta(4, dtype=torch.int32)
    seed = [meta(dtype=torch.long)] * 2
    packed = [ragged] * 5

    def dense(one: torch.Tensor, kind: int) -> Any:
        return efficient(*[one] * 4, None, one, None, None, 6, 6, meta(2, 4, 6), 0.0, *seed, kind, False)

    named, kind = "aten::_flash_attention_backward", "aten::_efficient_attention_backward"
    end = (bounds, bounds, 6, 6, 0.0)
    return [
        same(named, lambda: flash(*packed, meta(4, 18), *end, False, *seed)),
        part(named, lambda: flash(*packed, meta(4, 18), *end, True, *seed), SIX, CAUSAL),
        same(kind, lambda: dense(alike[0], 0)),
        part(kind, lambda: dense(tokens[0], 0), Fraction(6, 4), ORDER),
        part(kind, lambda: dense(tokens[0], 1), SIX * Fraction(6, 4), f"{CAUSAL}; {ORDER}"),
    ]


def packages() -> list[Comparison]:
    """Return the operators of flash-attn, by the formula for attention of the same shapes."""
    tokens, ragged, bounds = heads(2, 6, 4, 8), heads(18, 4, 8), meta(4, dtype=torch.int32)
    flash, back = aten._scaled_dot_product_flash_attention, aten._scaled_dot_product_flash_attention_backward
    two, three = heads(2, 4, 6, 8), heads(3, 4, 6, 8)
    seed = [meta(dtype=torch.long)] * 2

    def whole(batch: int) -> Any:
        return back(*of_back(batch, 4, 6, 6, 8, 8), None, None, 6, 6, 0.0, False, *seed)

    dense_back = (tokens[0], *tokens, tokens[0], meta(2, 4, 6), None, None, None)
    ragged_back = (ragged[0], *ragged, ragged[0], meta(4, 18))
    plain = (0.0, 0.3, True, -1, -1, 0.0, None)
    third = (0.3, True, -1, -1)
    ahead, behind = lambda: flash(*two), lambda: whole(2)
    ahead_ragged, behind_ragged = lambda: flash(*three), lambda: whole(3)
    spread = (bounds, bounds, None, None, 6, 6)
    given: list[tuple[str, tuple[Any, ...], Run]] = [
        ("flash_attn::_flash_attn_forward", (*tokens, *plain, False), ahead),
        (
            "flash_attn::_flash_attn_varlen_forward",
            (*ragged, bounds, bounds, 6, 6, *plain, False, None, None, None, False), ahead_ragged,
        ),
        ("flash_attn::_flash_attn_backward", (*dense_back, *plain, False, None), behind),
        (
            "flash_attn::_flash_attn_varlen_backward",
            (*ragged_back, None, None, None, bounds, bounds, 6, 6, *plain, False, None, False), behind_ragged,
        ),
        ("flash_attn_3::bwd", (*ragged_back, None, None, None, *spread, *third, 0.0, False, 0), behind_ragged),
        ("flash_attn_3::_flash_attn_backward", (*ragged_back, *spread, *third, 0.0, False, 0), behind_ragged),
        *(
            (
                f"flash_attn_3::{name}",
                (*ragged, *[None] * 4, bounds, bounds, *[None] * 3, 6, 6, *[None] * 9, *third, 0, 0.0, True, None, 1,
                 None, 0),
                ahead_ragged,
            )
            for name in ("fwd", "_flash_attn_forward")
        ),
    ]  # fmt: skip
    return [
        part(name, as_recorded(name, *inputs), SIX, f"{NO_DEVICE}; {CAUSAL}", other) for name, inputs, other in given
    ]
