"""What a picture prints: short names, times, and where a trace comes from."""

from __future__ import annotations

import re

from hta_graph.trace.table import Trace

__all__ = ["NAME_SIZE", "clean", "duration", "file_and_rank", "short_name"]

NAME_SIZE = 44
"""Longest name in a box, in characters."""

FRAME = re.compile(r"(?:.*/)?([^/]+\.py\(\d+\): .*)", re.DOTALL)
PREFIX = re.compile(r"^nccl(Dev)?Kernel_(?=\w)|^autograd::engine::evaluate_function: |^nn\.Module: ")
FUNCTION = re.compile(r"(void )?[\w:~]+[<(].*[>)]( \[clone.*\])?|void .*", re.DOTALL)
TELLING = re.compile(r"\w*(?:[Ff]unctor|_kernel|Kernel|Ops\b|gemm|Gemm|fprop|dgrad|wgrad|[a-z]Op\b)\w*")
"""Names of functors and inner kernels, which tell one instance of a C++ template from another."""


def short_name(name: str) -> str:
    """Shorten a name: of a C++ kernel the function and what tells it from others, of a Python frame the file's name.

    >>> short_name("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)")
    'vectorized_elementwise [CUDAFunctor_add]'
    >>> short_name("torch/nn/modules/module.py(1501): _call_impl"), short_name("aten::mm")
    ('module.py(1501): _call_impl', 'aten::mm')
    """
    if frame := FRAME.match(name):
        return frame[1]
    name = PREFIX.sub("", name)
    if not FUNCTION.fullmatch(name):
        return name
    base, arguments = _without_arguments(name.replace("(anonymous namespace)::", ""))
    base = base.removeprefix("void ").strip().rsplit("::", 1)[-1] or name
    # The last one is the innermost: outer templates are the same for hundreds of kernels.
    telling = TELLING.findall(arguments)
    return f"{base.removesuffix('_kernel')} [{telling[-1]}]" if telling else base


def _without_arguments(name: str) -> tuple[str, str]:
    """Split a C++ name into what stands before all brackets and its template arguments."""
    first = min((at for at in (name.find("<"), name.find("(")) if at >= 0), default=len(name))
    depth, last = 0, first
    for last, char in enumerate(name[first:], first):
        depth += (char == "<") - (char == ">" and name[last - 1] != "-")
        if depth == 0:
            break
    return name[:first], name[first:last]


def clean(text: str, size: int) -> str:
    r"""Cut the middle out of a text, on one line, without characters that XML forbids.

    >>> clean("triton_poi_fused_add_mul_12", 16), clean("a\0b", 9)
    ('triton_po…mul_12', 'a\ufffdb')
    """
    line = "".join(char if char.isprintable() else "\ufffd" for char in " ".join(text.split())) or "(no name)"
    tail = size * 2 // 5
    return line if len(line) <= size else f"{line[: size - tail - 1]}…{line[-tail:]}"


def duration(ns: int, digits: int = 3) -> str:
    """Print a time with three digits, or with another number of them.

    >>> duration(950), duration(96_000), duration(1_234_567), duration(12_345_678_900)
    ('950 ns', '96 µs', '1.23 ms', '12.3 s')
    """
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size * 0.9995:
            return f"{float(f'{ns / size:.{digits}g}'):,.{max(digits, 4)}g} {unit}"
    return f"{ns} ns"


def file_and_rank(trace: Trace) -> str:
    """Print the name of a trace's file and its rank."""
    return clean(trace.path.name, 80) + (f", rank {trace.rank}" if trace.rank is not None else "")
