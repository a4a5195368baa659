"""Is what fusing chains would save true? Simulated programs, run again with one kernel for each chain.

``python -m tests.fusion_accuracy`` prints how often ``unfused_chains`` spoke where the second run was 5% shorter, how
often where it was not 1% shorter, and how often what the second run saves lies between what replay predicts and the
bound. The second run knows which tensors are shared; the rule sees only shapes.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import hta_graph as hg
from analyses.advice.facts import NOTABLE_SHARE, PathFacts
from analyses.judgement.verdict import replayed_advice
from tests.simulator import Dialect, Program, Run, pytorch_idioms, simulate, to_bytes, write
from tests.simulator.program import Gap, Launch, Op, Statement, SyncDevice

DEPTH = 1024
"""Elements of a row."""
BYTES_PER_NS = 1_500.0
"""What a memory of 1.5 TB/s moves."""

Step = tuple[str, tuple[str, ...], str]
"""An operator, the tensors that it reads, and the one that it writes; those named ``row…`` have one element a row."""

RMS_NORM: tuple[Step, ...] = (
    ("pow", ("x",), "square"), ("mean", ("square",), "row"), ("add", ("row",), "row eps"),
    ("rsqrt", ("row eps",), "row root"), ("mul", ("x", "row root"), "normal"), ("mul", ("normal", "weight"), "y"),
)  # fmt: skip
TANH_GELU: tuple[Step, ...] = (
    ("mul", ("x",), "half"), ("pow", ("x",), "cube"), ("mul", ("cube",), "part"), ("add", ("x", "part"), "inner"),
    ("tanh", ("inner",), "curve"), ("add", ("curve",), "above"), ("mul", ("half", "above"), "y"),
)  # fmt: skip
SWISH: tuple[Step, ...] = (("sigmoid", ("x",), "gate"), ("mul", ("x", "gate"), "y"))
RESIDUAL: tuple[Step, ...] = (("add", ("x", "z"), "sum"), ("neg", ("sum",), "y"))
GATED: tuple[Step, ...] = (("silu", ("x",), "gate"), ("mul", ("gate", "z"), "y"))
ALONE: tuple[Step, ...] = (("exp", ("x",), "y"),)
CHAINS = (RMS_NORM, TANH_GELU, SWISH, GATED, RESIDUAL, ALONE)


@dataclass(frozen=True)
class Chain:
    """A chain over a tensor of so many rows, and the share of the memory's rate that its kernels reach."""

    steps: tuple[Step, ...]
    rows: int
    reached: float

    def shape(self, tensor: str) -> list[int]:
        """Return the shape of a tensor."""
        if tensor == "weight":
            return [DEPTH]
        return [self.rows, 1 if tensor.startswith("row") else DEPTH]

    def ns(self, tensors: Sequence[str]) -> int:
        """Return how long tensors of 4 bytes an element take to move; no kernel takes less than 2 µs."""
        moved = sum(4 * self.shape(one)[0] * (self.shape(one)[1:] or [1])[0] for one in tensors)
        return max(round(moved / BYTES_PER_NS / self.reached), 2_000)

    @property
    def fused_ns(self) -> int:
        """Return what one kernel would take: inputs from outside are read once, the last result is written."""
        inside = {written for _, _, written in self.steps}
        outside = sorted({one for _, read, _ in self.steps for one in read} - inside)
        return self.ns([*outside, self.steps[-1][2]])

    def body(self, *, fused: bool) -> tuple[Statement, ...]:
        """Return the chain's operators, or the one that does the same."""
        if fused and len(self.steps) > 1:
            return (Op("fused", (Launch(pytorch_idioms.COMPUTE, self.fused_ns, "triton_red_fused_0"),)),)
        return tuple(
            Op(f"aten::{name}", (Launch(pytorch_idioms.COMPUTE, self.ns([*read, written]), "elementwise_kernel"),))
            for name, read, written in self.steps
        )

    def inputs(self) -> list[dict[str, list[object]]]:
        """Return what the profiler records of each operator's inputs."""
        return [self._inputs_of(name, read) for name, read, _ in self.steps]

    def _inputs_of(self, name: str, read: tuple[str, ...]) -> dict[str, list[object]]:
        shapes: list[object] = [self.shape(one) for one in read]
        types: list[object] = ["float"] * len(read)
        values: list[object] = [""] * len(read)
        if name == "mean":
            return {
                "Input Dims": [*shapes, [], [], []], "Input type": [*types, "ScalarList", "Scalar", ""],
                "Concrete Inputs": [*values, "[-1]", "True", ""],
            }  # fmt: skip
        if len(read) == 1 and name in ("pow", "add", "mul"):
            shapes, types, values = [*shapes, []], [*types, "Scalar"], [*values, "2."]
        if name == "add":
            shapes, types, values = [*shapes, []], [*types, "Scalar"], [*values, "1"]
        return {"Input Dims": shapes, "Input type": types, "Concrete Inputs": values}


def chains(seed: int) -> list[Chain | int]:
    """Return a program: chains, and between them the time of products (ns) that nothing is fused with."""
    dice = random.Random(seed)
    kinds = [
        Chain(dice.choice(CHAINS), dice.choice((64, 2048, 8192, 32768)), dice.uniform(0.4, 0.95))
        for _ in range(dice.randint(1, 4))
    ]
    product_ns = dice.choice((20_000, 200_000, 2_000_000))
    return [part for _ in range(dice.randint(6, 20)) for part in (dice.choice(kinds), product_ns)]


def run(parts: Sequence[Chain | int], *, fused: bool) -> Run:
    """Run a program, with its chains fused or apart."""
    body: list[Statement] = []
    for part in parts:
        if isinstance(part, Chain):
            body += part.body(fused=fused)
        else:
            body += [Op("aten::mm", (Launch(pytorch_idioms.COMPUTE, part, "gemm"),)), Gap(1_000)]
    return simulate(Program.of(*body, SyncDevice(0)))


def recorded(parts: Sequence[Chain | int], folder: Path) -> hg.DependencyGraph:
    """Write the run apart with the shapes that its operators were given, and read it."""
    document = write(run(parts, fused=False), Dialect(sync_rows="resolved")).document
    rows = [row for row in document["traceEvents"] if row.get("cat") == "cpu_op" and row["name"] != "aten::mm"]
    given = [one for part in parts if isinstance(part, Chain) for one in part.inputs()]
    for row, args in zip(sorted(rows, key=lambda one: one["ts"]), given, strict=True):
        row["args"] |= args
    path = folder / "trace.json"
    path.write_bytes(to_bytes(document))
    return hg.build_graph(hg.read_trace(path))


@dataclass(frozen=True)
class Proved:
    """Of a program: whether the rule spoke, what it promised and what its bound is, and what the second run saved."""

    spoke: bool
    promised_ns: int
    bound_ns: int
    true_ns: int
    window_ns: int

    def is_kept(self, share: float = 0.001) -> bool:
        """Return whether the truth lies between promise and bound, but for a share of the window."""
        room = share * self.window_ns
        return self.promised_ns - room <= self.true_ns <= self.bound_ns + room


def proved(seed: int) -> Proved:
    """Prove one program."""
    parts = chains(seed)
    with tempfile.TemporaryDirectory() as folder:
        facts = PathFacts(hg.critical_path(recorded(parts, Path(folder)), hg.whole()))
        found = [one for one in replayed_advice(facts) if one.rule == "unfused_chains"]
        after = Path(folder, "fused.json")
        after.write_bytes(to_bytes(write(run(parts, fused=True), Dialect(sync_rows="resolved")).document))
        window = hg.whole()(hg.build_graph(hg.read_trace(after)))
    window_ns = facts.priced.length_ns
    true_ns = window_ns - (window.end_ns - window.start_ns)
    promised = (found[0].saves_ns or 0, found[0].bound_ns or 0) if found else (0, 0)
    return Proved(bool(found), *promised, true_ns, window_ns)


def main() -> None:
    """Print what came of many programs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=100)
    found = [proved(seed) for seed in range(parser.parse_args().programs)]
    spoke = [one for one in found if one.spoke]
    silent = sum(not one.spoke and one.true_ns >= NOTABLE_SHARE * one.window_ns for one in found)
    useless = sum(one.true_ns < 0.01 * one.window_ns for one in spoke)
    kept = sum(one.is_kept() for one in spoke)
    close = [min(abs(one.true_ns - end) for end in (one.promised_ns, one.bound_ns)) / one.window_ns for one in spoke]
    print(f"spoke {len(spoke)} times, useless {useless}; silent where 5% were to be saved {silent} times")  # noqa: T201
    print(f"the truth is between promise and bound {kept} of {len(spoke)} times,")  # noqa: T201
    print(f"within 3% of the window of one of them {sum(one <= 0.03 for one in close)} times")  # noqa: T201


if __name__ == "__main__":
    main()
