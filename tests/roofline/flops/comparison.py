"""A call of an operator of which PyTorch's own counter is asked as well; needs PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from hta_graph.roofline.operator_call import OperatorCall, operator_call

__all__ = ["NO_DEVICE", "Comparison", "Run", "as_recorded", "counted", "like", "meta", "part", "same", "tensor"]

Run = Callable[[], Any]
NO_FORMULA = "it has no formula; asked for the same work by another operator"
NO_DEVICE = "needs a GPU; asked for the same work by another operator"
TYPES = {
    torch.float: "float",
    torch.half: "c10::Half",
    torch.bfloat16: "c10::BFloat16",
    torch.int32: "int",
    torch.long: "long int",
}


@dataclass(frozen=True)
class Comparison:
    """An operator's call, what PyTorch's counter is asked, and what share of its answer ours should be, and why.

    ``call`` is run and recorded, or, where that needs a GPU, as it would be recorded. ``ours`` is what we should count
    where PyTorch counts nothing.
    """

    operator: str
    call: Run | OperatorCall
    theirs: Callable[[], int]
    share: Fraction = Fraction(1)
    why: str = ""
    ours: int | None = None


def tensor(*sides: int, dtype: torch.dtype = torch.float, device: str = "cpu") -> torch.Tensor:
    return torch.zeros(sides, dtype=dtype, device=device)


meta = partial(tensor, device="meta")


def counted(run: Run) -> int:
    """Return what PyTorch's counter counts while something runs."""
    with FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())


def as_recorded(name: str, *inputs: Any) -> OperatorCall:
    """Return a call as the profiler would record it."""
    shapes = [list(one.shape) if isinstance(one, torch.Tensor) else [] for one in inputs]
    types = [TYPES[one.dtype] if isinstance(one, torch.Tensor) else "" if one is None else "Scalar" for one in inputs]
    strides = [list(one.stride()) if isinstance(one, torch.Tensor) else [] for one in inputs]
    values = ["" if one is None or isinstance(one, torch.Tensor) else str(one) for one in inputs]
    return operator_call(name, shapes, types, values, strides)


def same(operator: str, run: Run) -> Comparison:
    """Compare a call that PyTorch counts itself."""
    return Comparison(operator, run, partial(counted, run))


def like(operator: str, run: Run | OperatorCall, other: Run, why: str = NO_FORMULA) -> Comparison:
    """Compare a call with another that does the same work."""
    return Comparison(operator, run, partial(counted, other), why=why)


def part(operator: str, run: Run | OperatorCall, share: Fraction, why: str, other: Run | None = None) -> Comparison:
    """Compare a call of which PyTorch counts more or less than the work."""
    known = other or (run if not isinstance(run, OperatorCall) else None)
    assert known
    return Comparison(operator, run, partial(counted, known), share, why)
