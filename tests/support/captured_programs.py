"""Programs whose kernels are captured in a graph and replayed: what is launched, and what recordings lose or reorder.

The truth is the place of each kernel among the launches.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from tests.support.trace_builder import TraceBuilder

__all__ = ["LOST", "PROGRAMS", "Kernel", "Mutation", "captured", "mutated", "program", "replayed"]


@dataclass(frozen=True)
class Kernel:
    """A kernel's name, the operator and module that launch it, the shapes of that, its length (µs) and its stream."""

    name: str
    operator: str
    module: str
    dims: tuple[tuple[int, ...], ...] = ()
    length: float = 5.0
    side: bool = False


def _layer(number: int, kind: str, batch: int) -> list[Kernel]:
    """List a decoder layer's kernels; a mixture of experts has another part, on a second stream a shared expert."""
    inside, wide = f"Layer_{number}", 4096
    attention = [
        Kernel("rms_norm", "aten::rms_norm", f"RMSNorm_{2 * number}"),
        Kernel("gemm_64x128", "aten::mm", f"QKV_{number}", ((batch, wide), (wide, 6144)), 20),
        Kernel("rotary", "aten::rotary", f"Rotary_{number}"),
        Kernel("store_cache", "aten::store", f"Attention_{number}"),
        Kernel("attention_split" if number % 2 else "attention_full", "aten::attend", f"Attention_{number}", (), 30),
        Kernel("attention_reduce", "aten::attend", f"Attention_{number}"),
        Kernel("gemm_32x64", "aten::mm", f"Output_{number}", ((batch, wide), (wide, wide)), 15),
        Kernel("rms_norm_add", "aten::rms_norm", f"RMSNorm_{2 * number + 1}"),
    ]
    dense = [
        Kernel("gemm_64x256", "aten::mm", f"GateUp_{number}", ((batch, wide), (wide, 24576)), 60),
        Kernel("silu_mul", "aten::silu", f"Act_{number}"),
        Kernel("gemm_32x64", "aten::mm", f"Down_{number}", ((batch, 12288), (12288, wide)), 30),
    ]
    experts = [
        Kernel("top_k", "aten::topk", f"Router_{number}"),
        Kernel("gemm_shared", "aten::mm", f"Shared_{number}", ((batch, wide), (wide, 2048)), 12, side=True),
        Kernel("sort_tokens", "aten::sort", f"Router_{number}"),
        Kernel("silu_mul", "aten::silu", f"Shared_{number}", (), 5, side=True),
        Kernel("moe_gemm_1", "aten::moe", f"Experts_{number}", (), 80),
        Kernel("gemm_shared_2", "aten::mm", f"Shared_{number}", ((batch, 1024), (1024, wide)), 12, side=True),
        Kernel("silu_quant", "aten::silu", f"Experts_{number}"),
        Kernel("moe_gemm_2", "aten::moe", f"Experts_{number}", (), 60),
        Kernel("add", "aten::add", inside),
    ]
    fused = [Kernel("fused_mlp", "aten::fused", f"MLP_{number}", (), 90)]
    image = [
        Kernel("layer_norm", "aten::layer_norm", f"Norm_{number}"),
        Kernel("gemm_img", "aten::addmm", f"Linear_{number}", ((batch, wide), (wide, wide)), 40),
        Kernel("gelu", "aten::gelu", f"MLP_{number}"),
        Kernel("sage_attention", "aten::sage", f"Attention_{number}", (), 50),
    ]
    return {
        "dense": attention + dense,
        "experts": attention + experts,
        "fused": attention[:3] + fused + attention[4:6],
        "image": image,
    }[kind]


PROGRAMS = ("dense", "experts", "fused", "image")


def program(kind: str, layers: int = 36, batch: int = 32) -> list[Kernel]:
    """List what a step of a model launches."""
    embed = Kernel("embedding", "aten::embedding", "Embedding_0")
    norm = Kernel("final_norm", "aten::rms_norm", "RMSNorm_last")
    return [embed, *(kernel for number in range(layers) for kernel in _layer(number, kind, batch)), norm]


@dataclass(frozen=True)
class Mutation:
    """Places of launches in the capture and of kernels in the replay (-1: of another program), and their streams."""

    captured: list[int]
    replayed: list[int]
    streams: list[int]


LOST = ("capture_1", "capture", "replay", "both", "extra", "swapped", "swapped_and_replay")
"""What happens to one stream: a row or 1% is lost, 1 is added, 1% of neighbors change places."""


def mutated(kernels: list[Kernel], what: str, seed: int, *, two_streams: bool = False) -> Mutation:
    """Lose, add and move rows of a recording of a program."""
    rng = random.Random(f"{what} {seed}")
    count, places = len(kernels), list(range(len(kernels)))
    streams = [int(kernel.side and two_streams) for kernel in kernels]
    captured, replayed = places, places
    if two_streams:
        # The second stream runs behind: each of its kernels starts some places later, in its own order.
        late = np.array([place + (rng.uniform(0, 5) if streams[place] else 0) for place in places])
        for of in (0, 1):
            own = np.flatnonzero(np.array(streams) == of)
            late[own] = np.maximum.accumulate(late[own]) + np.arange(len(own)) * 1e-9
        replayed = np.argsort(late, kind="stable").tolist()
    few = max(count // 100, 1)
    if what.startswith("swapped"):
        replayed = list(replayed)
        for at in rng.sample(range(0, count - 1, 2), few):
            replayed[at], replayed[at + 1] = replayed[at + 1], replayed[at]
    if what in ("capture", "both", "capture_1"):
        captured = _without(captured, 1 if what == "capture_1" else few, rng)
    if what in ("replay", "both", "swapped_and_replay"):
        replayed = _without(replayed, few, rng)
    if what == "extra":
        at = rng.randrange(count)
        captured = [*captured[:at], -1, *captured[at:]]
    return Mutation(captured, replayed, [streams[place] for place in replayed])


def _without(places: list[int], count: int, rng: random.Random) -> list[int]:
    gone = set(rng.sample(range(len(places)), count))
    return [place for at, place in enumerate(places) if at not in gone]


def captured(
    graphs: list[tuple[str, list[Kernel]]], *, vendor: str = "hip", rank: int | None = 0, warm_up: bool = False
) -> TraceBuilder:
    """Record the capture of graphs, each in an annotation; on AMD calls name their kernels.

    With ``warm_up`` each program runs before its capture, as SGLang's do, so that the kernels' names are known.
    """
    trace = TraceBuilder(**({} if rank is None else {"distributedInfo": {"rank": rank, "world_size": 1}}))
    at, number = 0.0, 10_000
    for label, kernels in graphs:
        if warm_up:
            for kernel in kernels:
                trace.launch(kernel.name, (at, at + 2), (at + 4, at + 4 + kernel.length), number)
                at, number = at + 3, number + 1
        begin = at
        trace.row(**_call(f"{vendor}StreamBeginCapture", at + 1, 1, number))
        at, number = at + 5, number + 1
        for kernel in kernels:
            trace.frame(f"nn.Module: {kernel.module}", at, at + 9)
            trace.op(kernel.operator, at + 1, at + 8, **_shapes(kernel))
            name = {"kernel": kernel.name} if vendor == "hip" else {}
            launch = "hipModuleLaunchKernel" if vendor == "hip" else "cudaLaunchKernel"
            trace.row(**_call(launch, at + 2, 2, number, **name))
            at, number = at + 10, number + 1
        trace.row(**_call(f"{vendor}StreamEndCapture", at + 1, 1, number))
        trace.annotation(label, begin, at + 4)
        at, number = at + 10, number + 1
    return trace


def _shapes(kernel: Kernel) -> dict[str, object]:
    if not kernel.dims:
        return {}
    return {"Input Dims": [list(of) for of in kernel.dims], "Input type": ["c10::BFloat16"] * len(kernel.dims)}


def _call(name: str, start: float, length: float, correlation: int, **args: object) -> dict[str, object]:
    fields: dict[str, object] = {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 100, "tid": 1}
    return fields | {"ts": start, "dur": length, "args": {"correlation": correlation, **args}}


def replayed(steps: list[tuple[str, list[list[Kernel]]]], *, vendor: str = "hip", rank: int | None = 0) -> TraceBuilder:
    """Record steps, each an annotation around the launches of graphs; kernels of a side stream are on stream 9."""
    trace = TraceBuilder(**({} if rank is None else {"distributedInfo": {"rank": rank, "world_size": 1}}))
    at, runs, number = 0.0, 10.0, 1
    for label, graphs in steps:
        begin = at
        for kernels in graphs:
            trace.row(**_call(f"{vendor}GraphLaunch", at + 1, 5, number))
            runs = max(runs, at + 8)
            for kernel in kernels:
                trace.kernel(kernel.name, runs, runs + kernel.length, number, stream=9 if kernel.side else 7)
                runs += kernel.length + 1
            at, number = at + 8, number + 1
        trace.annotation(label, begin, at)
        at += 5
    trace.row(**_call(f"{vendor}DeviceSynchronize", at, runs - at + 5, number))
    return trace
