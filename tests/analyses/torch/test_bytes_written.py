"""What models say is read and written, beside what PyTorch's own results are large, of calls that its profiler saw."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hta_graph.roofline.cost_models.table import demand_of
from hta_graph.roofline.operator_call import OperatorCall, operator_call

# Looked for without importing it: what calls is another process.
pytest.importorskip("torch", reason="PyTorch is absent; pip install torch runs them")

NAMED = """
import json, sys, torch
from torch.profiler import profile, record_function

a, b, c = (torch.rand(4, 6) + 0.1 for _ in range(3))
e, r, w, z = torch.rand(6) + 0.1, torch.rand(4, 1), torch.rand(6)[None].expand(4, 6), torch.tensor(0.5)
h, g, f = torch.rand(4, 6).half(), torch.rand(4, 6).bfloat16(), torch.rand(4, 6).double()
i, j, t = torch.randint(1, 9, (4, 6)), torch.randint(1, 9, (4, 6)).int(), torch.rand(4, 6) > 0.5
x, y, k = torch.rand(3, 4, 6), torch.rand(4, 12), torch.complex(a, b)
l, m, n, o = ([torch.rand(3, 5), torch.rand(7)] for _ in range(4))
s = [torch.ones(()), torch.ones(())]
"""
"""Tensors with names of one letter; lists of them too."""

PROGRAM = """
def held(found):
    if isinstance(found, torch.Tensor):
        distinct = 1
        for side, stride in zip(found.shape, found.stride()):
            distinct *= side if stride else 1
        return distinct * found.element_size()
    return sum(map(held, found))

def has_sides(found):
    return any(one.dim() for one in found) if isinstance(found, list) else found.dim()

asked, told = json.loads(sys.argv[1]), []
with profile(record_shapes=True) as run:
    for number, (expression, read, written) in enumerate(asked):
        named = [eval(name) for name in read]
        reading = held([one for one in named if has_sides(one)])
        with record_function(f"call {number}"):
            result = eval(expression)
        told.append([reading, held([eval(name) for name in written] or result)])
run.export_chrome_trace("trace.json")
json.dump(told, open("told.json", "w"))
"""

ADAM = "weight_decay=0., eps=1e-8, amsgrad=False, maximize=False"
MOVING = "weight_decay=0., momentum=0.9, dampening=0., nesterov=False, maximize=False"
STILL = MOVING.replace("0.9", "0.0")
OF_ONE = (
    "neg abs sign floor exp log sqrt rsqrt reciprocal sin tanh erf sigmoid frac nan_to_num logit isposinf signbit"
    " sum mean amax amin aminmax argmax argmin any all prod max min"
)
OF_TWO = "add sub mul div pow maximum fmin atan2 remainder eq lt ge logical_and xlogy hypot logaddexp"
CALLS = [
    # row, expression, and of what works in place on several the names of what is written
    *((name, f"torch.{name}(a)", "") for name in OF_ONE.split()),
    *((name, f"torch.{name}(a, b)", "") for name in OF_TWO.split()),
    ("abs", "torch.abs(k)", ""),
    ("mul", "k * a", ""),
    ("sum", "k.sum(0)", ""),
    ("exp", "torch.exp(i)", ""),
    ("sqrt", "torch.sqrt(g)", ""),
    ("bitwise_not", "torch.bitwise_not(t)", ""),
    ("logical_not", "torch.logical_not(i)", ""),
    ("hardtanh", "torch.nn.functional.hardtanh(a)", ""),
    ("hardswish", "torch.nn.functional.hardswish(a)", ""),
    ("leaky_relu", "torch.nn.functional.leaky_relu(a)", ""),
    ("elu", "torch.nn.functional.elu(a)", ""),
    ("gelu", "torch.nn.functional.gelu(g)", ""),
    ("silu", "torch.nn.functional.silu(a)", ""),
    ("mish", "torch.nn.functional.mish(a)", ""),
    ("softplus", "torch.nn.functional.softplus(a)", ""),
    ("glu", "torch.nn.functional.glu(a)", ""),
    ("glu_backward", "torch.ops.aten.glu_backward(a, y, 1)", ""),
    ("_prelu_kernel", "torch.ops.aten._prelu_kernel(a, r)", ""),
    ("add", "a + e", ""),
    ("add", "a + i", ""),
    ("add", "h + g", ""),
    ("mul", "g * 2.5", ""),
    ("mul", "i * 2.5", ""),
    ("mul", "i * 2", ""),
    ("mul", "t * 2", ""),
    ("mul", "a * w", ""),
    ("mul", "r * e", ""),
    ("mul", "h * z", ""),
    ("div", "i / j", ""),
    ("div", "i / 2", ""),
    ("rsub", "torch.rsub(a, 1)", ""),
    ("pow", "2 ** a", ""),
    ("bitwise_and", "i & j", ""),
    ("gt", "i > 0.5", ""),
    ("add_", "a.add_(g)", "a"),
    ("mul_", "g.mul_(a)", "g"),
    ("addcmul", "torch.addcmul(a, b, c)", ""),
    ("addcdiv", "torch.addcdiv(a, b, c, value=2)", ""),
    ("lerp", "torch.lerp(a, b, 0.5)", ""),
    ("lerp", "torch.lerp(a, b, c)", ""),
    ("where", "torch.where(t, a, b)", ""),
    ("masked_fill_", "a.masked_fill_(t, 1.)", "a"),
    ("clamp", "torch.clamp(a, 0.2, 0.9)", ""),
    ("clamp", "torch.clamp(a, min=b)", ""),
    ("clamp_min", "torch.clamp_min(a, 0.2)", ""),
    ("native_dropout", "torch.native_dropout(a, 0.5, True)", ""),
    ("threshold_backward", "torch.ops.aten.threshold_backward(a, b, 0)", ""),
    ("gelu_backward", "torch.ops.aten.gelu_backward(a, b)", ""),
    ("silu_backward", "torch.ops.aten.silu_backward(a, b)", ""),
    ("sigmoid_backward", "torch.ops.aten.sigmoid_backward(a, b)", ""),
    ("tanh_backward", "torch.ops.aten.tanh_backward(a, b)", ""),
    ("elu_backward", "torch.ops.aten.elu_backward(a, 1, 1, 1, True, b)", ""),
    ("native_dropout_backward", "torch.ops.aten.native_dropout_backward(a, t, 2.)", ""),
    ("_prelu_kernel_backward", "torch.ops.aten._prelu_kernel_backward(a, b, c)", ""),
    ("hardtanh_backward", "torch.ops.aten.hardtanh_backward(a, b, 0, 1)", ""),
    ("hardswish_backward", "torch.ops.aten.hardswish_backward(a, b)", ""),
    ("hardsigmoid_backward", "torch.ops.aten.hardsigmoid_backward(a, b)", ""),
    ("leaky_relu_backward", "torch.ops.aten.leaky_relu_backward(a, b, 0.1, False)", ""),
    ("softplus_backward", "torch.ops.aten.softplus_backward(a, b, 1, 20)", ""),
    ("mish_backward", "torch.ops.aten.mish_backward(a, b)", ""),
    ("fill_", "a.fill_(1)", "a"),
    ("zero_", "i.zero_()", "i"),
    ("normal_", "h.normal_()", "h"),
    ("random_", "j.random_(1, 9)", "j"),
    ("bernoulli_", "a.bernoulli_(f)", "a"),
    ("copy_", "g.copy_(e)", "g"),
    ("clone", "w.clone(memory_format=torch.contiguous_format)", ""),
    ("_to_copy", "a.to(torch.bfloat16)", ""),
    ("_to_copy", "i.to(torch.float8_e4m3fn)", ""),
    ("sum", "x.sum((0, 2))", ""),
    ("sum", "t.sum(1)", ""),
    ("sum", "j.sum(0, keepdim=True)", ""),
    ("sum", "h.sum(1, dtype=torch.float)", ""),
    ("sum", "w.sum(0)", ""),
    ("prod", "a.prod(1)", ""),
    ("mean", "x.mean((-1,))", ""),
    ("amax", "x.amax((0, 1))", ""),
    ("argmax", "a.argmax(1)", ""),
    ("any", "t.any(1)", ""),
    ("count_nonzero", "torch.count_nonzero(a, 1)", ""),
    ("max", "x.max(1)", ""),
    ("min", "x.min(-1, keepdim=True)", ""),
    ("var", "a.var(0)", ""),
    ("std", "a.std()", ""),
    ("var_mean", "torch.var_mean(a, 1)", ""),
    ("logsumexp", "x.logsumexp(2)", ""),
    ("linalg_vector_norm", "torch.linalg.vector_norm(x, dim=(1, 2))", ""),
    ("linalg_vector_norm", "torch.linalg.vector_norm(h, dtype=torch.float)", ""),
    ("norm", "torch.ops.aten.norm(a, 2)", ""),
    ("norm", "torch.ops.aten.norm(a, 2, [1])", ""),
    ("cumsum", "i.cumsum(0)", ""),
    ("cumsum", "j.cumsum(0)", ""),
    ("cumsum", "t.cumsum(0, dtype=torch.int)", ""),
    ("sort", "a.sort()", ""),
    ("topk", "x.topk(2, 1)", ""),
    ("histc", "torch.histc(f, 9)", ""),
    ("_foreach_mul_", "torch._foreach_mul_(l, 2.)", "l"),
    ("_foreach_add", "torch._foreach_add(l, m)", ""),
    ("_foreach_addcmul_", "torch._foreach_addcmul_(l, m, n)", "l"),
    ("_foreach_lerp_", "torch._foreach_lerp_(l, m, 0.5)", "l"),
    ("_foreach_sqrt", "torch._foreach_sqrt(l)", ""),
    ("_foreach_norm", "torch._foreach_norm(l)", ""),
    ("_fused_adam_", f"torch._fused_adam_(l, m, n, o, [], s, lr=1e-3, beta1=0.9, beta2=0.99, {ADAM})", "lno"),
    ("_fused_sgd_", f"torch._fused_sgd_(l, m, n, lr=0.1, {MOVING}, is_first_step=False)", "ln"),
    ("_fused_sgd_", f"torch._fused_sgd_(l, m, [], lr=0.1, {STILL}, is_first_step=False)", "l"),
]  # fmt: skip
WRITTEN_ONLY = {"fill_", "zero_", "normal_", "random_", "bernoulli_", "copy_"}
"""In place, but what was there is not read."""
KERNEL = "multi_tensor_apply_kernel<Functor<float, 1>>"
"""What runs on the CPU has no kernel, which would tell of what type lists are."""


def asked_of(row: str, expression: str, written: str) -> tuple[str, list[str], list[str]]:
    """Return what is to be evaluated, the names of what is read, and of what is written in place."""
    names = re.findall(r"\b[a-z]\b", expression)
    return expression, [name for name in names if row not in WRITTEN_ONLY or name != written], list(written)


def called(folder: Path) -> list[tuple[list[dict[str, Any]], int]]:
    """Return the rows of each call, the outermost first, and how many bytes it must at least read and write."""
    program = [sys.executable, "-c", NAMED + PROGRAM, json.dumps([asked_of(*call) for call in CALLS])]
    subprocess.run(program, cwd=folder, check=True, timeout=300, capture_output=True)
    rows = [row for row in json.loads((folder / "trace.json").read_text())["traceEvents"] if row.get("dur") is not None]
    told = json.loads((folder / "told.json").read_text())
    return [(rows_within(rows, f"call {number}"), read + written) for number, (read, written) in enumerate(told)]


def rows_within(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    around = next(row for row in rows if row["name"] == name)
    first, last = around["ts"], around["ts"] + around["dur"]
    return sorted((row for row in rows if first <= row["ts"] < last), key=lambda row: (row["ts"], -row["dur"]))


def call_of(row: dict[str, Any]) -> OperatorCall:
    keys = ("Input Dims", "Input type", "Concrete Inputs", "Input Strides")
    return operator_call(row["name"], *(row["args"].get(key) for key in keys), kernel=KERNEL)


def test_models_count_what_is_read_and_what_pytorch_wrote(tmp_path: Path) -> None:
    different = {}
    for (name, expression, _), (rows, expected) in zip(CALLS, called(tmp_path), strict=True):
        demand = demand_of(call_of(next(row for row in rows if row["name"] == f"aten::{name}")))
        if demand is None or demand.bytes != expected:
            different[expression] = (demand, expected)
    assert not different
