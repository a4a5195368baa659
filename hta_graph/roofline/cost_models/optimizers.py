"""Steps of optimizers over lists of tensors: ``_foreach_`` operators and fused ones.

The type of a list's tensors is not recorded; the kernel's name has it, else the bytes are unknown. FLOPs of a
fused step are those of its formula for each parameter, with what is switched on; tensors of step numbers are left out.
Gradients that are unscaled on the way are divided and written, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from hta_graph.roofline.demand import CostModel, Demand
from hta_graph.roofline.operator_call import (
    NAMED_TYPE,
    NotRecordedError,
    OperatorCall,
    element_type_in,
    output_bytes,
    total_elements,
)

FUNCTOR = re.compile(rf"Functor<\s*({NAMED_TYPE.pattern})")
"""What works on lists names the type of their tensors first; ``std::plus<float>`` behind it is what it computes in."""
ZERO = re.compile(r"-?0*+(?:\.0*+)?")


def element_type_of_lists(call: OperatorCall) -> str:
    """Return the type of the lists' tensors in the kernel's name; empty where it has none.

    >>> name = "multi_tensor_apply_kernel<Metadata<2>, BinaryOpListAlphaFunctor<c10::Half, 2, 2, 0>, std::plus<float> >"
    >>> element_type_of_lists(OperatorCall("aten::_foreach_add_", (), kernel=name))
    'half'
    """
    named = {element_type_in(f"<{found[1]}>") for found in FUNCTOR.finditer(call.kernel)}
    return named.pop() if len(named) == 1 else element_type_in(call.kernel)


def _of_lists(call: OperatorCall, flops: int, moved: int, *, is_least: bool = False) -> Demand:
    """Return the work on lists of which some number of elements is read or written."""
    kind = element_type_of_lists(call)
    return Demand(flops, output_bytes((moved,), kind) if kind else None, kind, is_least=is_least)


@dataclass(frozen=True)
class Foreach:
    """A row of the table: operators without ``aten::_foreach_``, FLOPs of an element, lists that may be given.

    ``factor`` is the position of a number that multiplies besides, unless it is one.
    """

    operators: str
    flops: int
    lists: int = 1
    factor: int | None = None
    is_read: bool = True


FOREACH_ROWS = (
    Foreach("zero", 0, is_read=False),
    Foreach("clone", 0),
    Foreach("abs neg sign ceil floor round trunc sqrt rsqrt reciprocal exp expm1 log log10 log1p log2 sin cos tan", 1),
    Foreach("asin acos atan sinh cosh tanh erf erfc lgamma", 1),
    Foreach("frac", 2),
    Foreach("sigmoid", 4),
    Foreach("add sub", 1, 2, factor=2),
    Foreach("mul div pow maximum minimum clamp_min clamp_max", 1, 2),
    Foreach("addcmul addcdiv", 2, 3, factor=3),
    Foreach("lerp", 3, 3),
)


def _foreach(row: Foreach, call: OperatorCall) -> Demand:
    """Count the lists that are read and the one that is written."""
    first = call.tensor_list(0)
    others = [found for at in range(1, row.lists) if isinstance(found := _input(call, at), tuple)]
    if any(len(other) != len(first) for other in others):
        raise NotRecordedError("lists that fit each other")
    count = total_elements(first)
    read = count * row.is_read + sum(map(total_elements, others))
    scaled, is_least = _is_scaled(row, call, len(others))
    return _of_lists(call, (row.flops + scaled) * count, read + count, is_least=is_least)


def _input(call: OperatorCall, at: int) -> object:
    return call.inputs[at] if at < len(call.inputs) else None


def _is_scaled(row: Foreach, call: OperatorCall, others: int) -> tuple[bool, bool]:
    """Return whether a list is multiplied by a number besides, and whether that is not known."""
    if row.factor is None or not others or row.factor >= len(call.inputs):
        return False, False
    factor = call.text(row.factor)
    return factor not in {"", "1", "1.", "1.0"}, not factor


def _foreach_copy(call: OperatorCall) -> Demand:
    """Count a copy of a list; where the kernel converts, it names two types, and the bytes are not known."""
    count = total_elements(call.tensor_list(0))
    kind = element_type_in(call.kernel) if "CopyFunctor" in call.kernel else element_type_of_lists(call)
    return Demand(0, output_bytes((2 * count,), kind) if kind else None, kind)


def _foreach_norm(call: OperatorCall) -> Demand:
    """Count that each element is raised and added; a number for each tensor is written."""
    tensors = call.tensor_list(0)
    return _of_lists(
        call, 2 * total_elements(tensors), total_elements(tensors) + len(tensors), is_least=not call.text(1)
    )


def _unscale(call: OperatorCall) -> Demand:
    """Count that each gradient is looked at and multiplied."""
    count = total_elements(call.tensor_list(0))
    return _of_lists(call, 2 * count, 2 * count)


def _is_on(number: str) -> bool:
    """Return whether a number was recorded and is not zero."""
    return bool(number) and not ZERO.fullmatch(number)


def _is_unscaled(call: OperatorCall, at: int) -> bool:
    """Return whether gradients are divided by a scale on the way, and written back."""
    return call.tensor_or_none(at) is not None


def _adam(call: OperatorCall) -> Demand:
    """Count a step: both averages, the root of the second, the parameter; decay of weights and the maximum if asked."""
    count, keeps_maximum, decay = total_elements(call.tensor_list(0)), call.boolean(11), call.text(9)
    unscaled = _is_unscaled(call, 13)
    flops = 13 + 2 * _is_on(decay) + bool(keeps_maximum) + unscaled
    lists = 7 + 2 * bool(keeps_maximum) + unscaled
    return _of_lists(call, flops * count, lists * count, is_least=not decay or keeps_maximum is None)


def _sgd(call: OperatorCall) -> Demand:
    """Count a step: the parameter; decay of weights, momentum and its look ahead if asked."""
    count, decay, momentum = total_elements(call.tensor_list(0)), call.text(3), call.text(4)
    moves, is_first, unscaled = _is_on(momentum), call.boolean(9) is not False, _is_unscaled(call, 10)
    flops = 2 + 2 * _is_on(decay) + moves * (3 * (not is_first) + 2 * bool(call.boolean(7))) + unscaled
    lists = 3 + moves * (1 if is_first else 2) + unscaled
    return _of_lists(call, flops * count, lists * count, is_least=not (decay and momentum) or call.boolean(9) is None)


def _adagrad(call: OperatorCall) -> Demand:
    """Count a step: the sum of squares, and the parameter by its root; decay of weights if asked."""
    count, decay, unscaled = total_elements(call.tensor_list(0)), call.text(6), _is_unscaled(call, 9)
    flops = 7 + 2 * _is_on(decay) + unscaled
    return _of_lists(call, flops * count, (5 + unscaled) * count, is_least=not decay)


def _update_scale(call: OperatorCall) -> Demand:
    """Count the scale and its tracker, read and written, and what was found."""
    scale, tracker, found = call.tensor(0), call.tensor(1), call.tensor(2)
    return Demand(3, 2 * scale.bytes + 2 * tracker.bytes + found.bytes, scale.dtype)


def _model(names: tuple[str, ...], flops: str, moved: str, demand: Callable[[OperatorCall], Demand]) -> CostModel:
    return CostModel(tuple(f"aten::{name}" for name in names), flops, moved, demand)


def _model_of(row: Foreach) -> CostModel:
    names = tuple(f"_foreach_{name}" for name in row.operators.split())
    count = f"{row.flops} per element" + (", 1 more where scaled" if row.factor is not None else "")
    return _model(names, count, "lists + result" if row.is_read else "result", lambda call: _foreach(row, call))


OPTIMIZERS = (
    *map(_model_of, FOREACH_ROWS),
    _model(("_foreach_copy_",), "none", "source + target", _foreach_copy),
    _model(("_foreach_norm",), "2 per element", "list + a number per tensor", _foreach_norm),
    _model(("_amp_foreach_non_finite_check_and_unscale_",), "2 per element", "list, read and written", _unscale),
    _model(("_amp_update_scale_",), "3", "scale and tracker, read and written, what was found", _update_scale),
    _model(
        ("_fused_adam_", "_fused_adamw_"),
        "m + (1 − β₁)·(g − m): 3, β₂·v + (1 − β₂)·g·g: 4, √v ÷ c + ε: 3, p − s·m ÷ that: 3; decay 2, maximum 1",
        "p, g, m, v read, p, m, v written; with amsgrad the maximum too", _adam,
    ),
    _model(
        ("_fused_sgd_",), "p − s·g: 2; decay 2, momentum 3, but not in the first step, Nesterov 2",
        "p, g read, p written; with momentum its buffer too", _sgd,
    ),
    _model(
        ("_fused_adagrad_",), "s + g·g: 2, p − r·g ÷ (√s + ε): 5; decay 2", "p, g, s read, p, s written", _adagrad,
    ),
)  # fmt: skip
