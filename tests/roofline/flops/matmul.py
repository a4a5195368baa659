"""Matrix products to compare."""

from __future__ import annotations

from functools import partial

import torch

from tests.roofline.flops.comparison import Comparison, as_recorded, like, meta, same, tensor

__all__ = ["products"]

aten = torch.ops.aten
F = torch.nn.functional


def products() -> list[Comparison]:
    half, quarter = torch.bfloat16, torch.float8_e4m3fn
    ones = torch.ones(())
    e4m3 = partial(tensor, dtype=quarter)
    return [
        same("aten::mm", lambda: tensor(6, 5) @ tensor(5, 8)),
        same("aten::mm", lambda: torch.mm(tensor(6, 5), tensor(8, 5).t())),
        same("aten::mm", lambda: torch.mm(tensor(6, 5), tensor(5, 8), out=tensor(6, 8))),
        same("aten::mm", lambda: torch.mm(tensor(6, 0), tensor(0, 8))),
        same("aten::mm", lambda: torch.mm(meta(8192, 7168, dtype=half), meta(7168, 8, dtype=half))),
        same("aten::bmm", lambda: torch.bmm(tensor(3, 6, 5), tensor(3, 5, 8))),
        same("aten::bmm", lambda: torch.bmm(meta(96, 128, 64, dtype=half), meta(96, 64, 128, dtype=half))),
        same("aten::bmm", lambda: torch.einsum("bij,bjk->bik", tensor(2, 3, 4), tensor(2, 4, 5))),
        same("aten::bmm", lambda: torch.einsum("bhwc,hkc->bhwk", tensor(8, 4, 4, 16), tensor(4, 6, 16))),
        same("aten::addmm", lambda: torch.addmm(tensor(8), tensor(6, 5), tensor(5, 8))),
        same("aten::addmm", lambda: torch.addmm(tensor(6, 8), tensor(6, 5), tensor(5, 8), beta=0, alpha=2)),
        same("aten::addmm", lambda: F.linear(tensor(4, 3, 5), tensor(8, 5), tensor(8))),
        like(
            "aten::addmm_",
            lambda: tensor(6, 8).addmm_(tensor(6, 5), tensor(5, 8)),
            lambda: torch.addmm(tensor(6, 8), tensor(6, 5), tensor(5, 8)),
        ),
        same("aten::baddbmm", lambda: torch.baddbmm(tensor(3, 6, 8), tensor(3, 6, 5), tensor(3, 5, 8))),
        same("aten::baddbmm", lambda: torch.baddbmm(tensor(1, 1, 8), tensor(3, 6, 5), tensor(3, 5, 8), beta=0.5)),
        same("aten::linear", lambda: F.linear(tensor(7, 5), tensor(8, 5))),
        same("aten::linear", lambda: F.linear(tensor(2, 7, 5), tensor(8, 5), tensor(8))),
        same("aten::linear", lambda: F.linear(tensor(2, 7, 5), tensor(8, 5))),
        same("aten::matmul", lambda: tensor(2, 1, 6, 5) @ tensor(3, 5, 8)),
        same("aten::matmul", lambda: tensor(4, 6, 5) @ tensor(5, 8)),
        like("aten::matmul", lambda: tensor(6, 5) @ tensor(5), lambda: tensor(6, 5) @ tensor(5, 1)),
        like(
            "aten::addbmm",
            lambda: torch.addbmm(tensor(6, 8), tensor(3, 6, 5), tensor(3, 5, 8)),
            lambda: torch.bmm(tensor(3, 6, 5), tensor(3, 5, 8)),
        ),
        like("aten::mv", lambda: torch.mv(tensor(6, 5), tensor(5)), lambda: tensor(6, 5) @ tensor(5, 1)),
        like(
            "aten::addmv",
            lambda: torch.addmv(tensor(6), tensor(6, 5), tensor(5)),
            lambda: tensor(6, 5) @ tensor(5, 1),
        ),
        like("aten::dot", lambda: torch.dot(tensor(9), tensor(9)), lambda: tensor(1, 9) @ tensor(9, 1)),
        like("aten::vdot", lambda: torch.vdot(tensor(9), tensor(9)), lambda: tensor(1, 9) @ tensor(9, 1)),
        like(
            "aten::addr",
            lambda: torch.addr(tensor(6, 8), tensor(6), tensor(8)),
            lambda: tensor(6, 1) @ tensor(1, 8),
        ),
        like(
            "aten::_addmm_activation",
            lambda: aten._addmm_activation(tensor(8), tensor(6, 5), tensor(5, 8), use_gelu=True),
            lambda: torch.addmm(tensor(8), tensor(6, 5), tensor(5, 8)),
        ),
        like(
            "aten::_int_mm",
            lambda: torch._int_mm(tensor(32, 16, dtype=torch.int8), tensor(16, 8, dtype=torch.int8)),
            lambda: tensor(32, 16) @ tensor(16, 8),
        ),
        like(
            "aten::_weight_int8pack_mm",
            lambda: aten._weight_int8pack_mm(
                tensor(3, 64, dtype=half), tensor(32, 64, dtype=torch.int8), tensor(32, dtype=half)
            ),
            lambda: F.linear(tensor(3, 64), tensor(32, 64)),
        ),
        like(
            "aten::_weight_int4pack_mm",
            as_recorded(
                "aten::_weight_int4pack_mm", meta(3, 64, dtype=half), meta(4, 1, 32, 4, dtype=torch.int32), 32,
                meta(2, 32, 2, dtype=half),
            ),
            lambda: F.linear(tensor(3, 64), tensor(32, 64)),
        ),
        same("aten::_scaled_mm", lambda: torch._scaled_mm(e4m3(16, 32), e4m3(48, 32).t(), ones, ones, out_dtype=half)),
        same("aten::_scaled_mm", lambda: torch._scaled_mm(e4m3(64, 16), e4m3(16, 16).t(), ones, ones)),
        *grouped(),
    ]  # fmt: skip


def grouped() -> list[Comparison]:
    half = partial(tensor, dtype=torch.bfloat16)
    bounds = torch.tensor([16, 48, 48, 64], dtype=torch.int32)
    wide, deep = half(64, 32), half(4, 32, 16)
    rows = lambda: [half(count, 32) @ half(32, 16) for count in (16, 32, 0, 16)]  # noqa: E731
    columns = lambda: [half(16, 32) @ half(32, count) for count in (16, 32, 0, 16)]  # noqa: E731
    inner = lambda: [half(16, count) @ half(count, 48) for count in (16, 32, 0, 16)]  # noqa: E731
    return [
        like("aten::_grouped_mm", lambda: torch._grouped_mm(wide, deep, offs=bounds), rows),
        like(
            "aten::_grouped_mm",
            lambda: torch._grouped_mm(half(4, 16, 32), half(64, 32).t(), offs=bounds),
            columns,
        ),
        like(
            "aten::_grouped_mm", lambda: torch._grouped_mm(half(64, 16).t(), half(64, 48), offs=bounds), inner
        ),
        like(
            "aten::_grouped_mm",
            lambda: torch._grouped_mm(half(4, 24, 32), deep),
            lambda: torch.bmm(half(4, 24, 32), deep),
        ),
    ]  # fmt: skip
