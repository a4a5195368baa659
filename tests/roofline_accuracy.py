"""Is what operators would save near their limits true? Simulated programs, run again with kernels that are quicker.

``python -m tests.roofline_accuracy`` prints how many programs were run, how often ``far_from_limit`` and
``float32_products`` spoke where a kernel really was far (or a product plain) and mattered, how often where not, and how
far the savings that replay predicts are from those of the second run.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import hta_graph as hg
from analyses.advice.facts import PathFacts
from analyses.advice.rules import advice_of
from analyses.declare.scope import whole
from analyses.questions import roofline
from hta_graph.roofline.devices import known_devices
from tests.simulator import Dialect, Program, Run, Stream, pytorch_idioms, simulate, to_bytes, write
from tests.simulator.program import Gap, Launch, Op, Record, Statement, SyncDevice, Wait

DEVICE = next(one for one in known_devices() if one.name == "A100 SXM 40 GB")
SIDE = Stream(20)
FAR, WORTH, REACHED, SHORT_NS = 0.5, 0.05, 0.8, 10_000
PLAIN, ROUNDED = "ampere_sgemm_128x64_tn", "ampere_s1688gemm_tf32_128x64_tn"


@dataclass(frozen=True)
class Product:
    """A product of an operator of its own shape: how near its limit its kernel is, and how often it runs."""

    rows: int
    kernel: str
    share: float
    side: bool

    @property
    def limit_ns(self) -> float:
        """Its least time: the arithmetic, or reading both matrices and writing the result."""
        peak = DEVICE.matrix_tflops["tf32" if self.kernel == ROUNDED else "float"] * 1e12
        moved = 4 * (self.rows * 1024 + 1024 * 1024 + self.rows * 1024)
        return max(2 * self.rows * 1024 * 1024 / peak, moved / (DEVICE.memory_gb_per_s or 1) / 1e9) * 1e9

    @property
    def ns(self) -> int:
        """How long its kernel takes."""
        return round(self.limit_ns / self.share)

    @property
    def rounded_share(self) -> float:
        """Which share of its time it would save in TF32, as near to its limit as it is now."""
        return 1 - replace(self, kernel=ROUNDED).limit_ns / self.limit_ns

    @property
    def reached_ns(self) -> int:
        """How long it would take at 80% of its limit."""
        return min(self.ns, round(self.limit_ns / REACHED))


def products(seed: int) -> tuple[list[Product], list[Product]]:
    """Return the shapes of a program, and its calls in order."""
    dice = random.Random(seed)
    kinds = [
        Product(512 * (at + 1), dice.choice((PLAIN, ROUNDED)), dice.uniform(0.1, 0.95), dice.random() < 0.25)
        for at in range(dice.randint(2, 5))
    ]
    return kinds, [dice.choice(kinds) for _ in range(dice.randint(8, 30))]


def program(calls: Sequence[Product], lengths: Sequence[int], seed: int) -> Run:
    """Run the calls one after the other, some on a side stream that is waited for now and then."""
    dice, body, event = random.Random(seed), list[Statement](), 0
    for call, ns in zip(calls, lengths, strict=True):
        stream = SIDE if call.side else pytorch_idioms.COMPUTE
        body += [Op("aten::mm", (Launch(stream, ns, call.kernel),)), Gap(dice.choice((0, 2_000, 40_000)))]
        if call.side and dice.random() < 0.5:
            event += 1
            body += [Record(event, SIDE), Wait(pytorch_idioms.COMPUTE, event)]
    return simulate(Program.of(*body, SyncDevice(0)))


def recorded(run: Run, calls: Sequence[Product], folder: Path) -> hg.DependencyGraph:
    """Write a run with the shapes that its operators were given, on a device that is known, and read it."""
    written = write(run, Dialect(sync_rows="resolved"))
    document = {**written.document, "deviceProperties": [{"id": 0, "name": DEVICE.recorded[0]}]}
    rows = [row for row in document["traceEvents"] if row["name"] == "aten::mm" and row.get("cat") == "cpu_op"]
    for row, call in zip(sorted(rows, key=lambda one: one["ts"]), calls, strict=True):
        row["args"] |= {"Input Dims": [[call.rows, 1024], [1024, 1024]], "Input type": ["float", "float"]}
    path = folder / "trace.json"
    path.write_bytes(to_bytes(document))
    return hg.build_graph(hg.read_trace(path))


@dataclass(frozen=True)
class Proved:
    """Of a program: by rule whether it spoke and whether it should; savings predicted and true, by shape."""

    spoke: set[str]
    should: set[str]
    savings: list[tuple[int, int]]
    window_ns: int


def proved(seed: int) -> Proved:
    """Prove one program."""
    kinds, calls = products(seed)
    lengths = [call.ns for call in calls]
    with tempfile.TemporaryDirectory() as folder:
        graph = recorded(program(calls, lengths, seed), calls, Path(folder))
        spoke = {one.rule for one in advice_of(PathFacts(hg.critical_path(graph, hg.whole())))}
        frame = roofline.answer([whole(0, graph)]).tables["roofline"]
        before = hg.whole()(graph)
        window_ns, savings, lost = before.end_ns - before.start_ns, [], Counter[str]()
        plain_ns = 0.0
        for kind in kinds:
            row = frame[frame["inputs"] == f"float[{kind.rows}×1024, 1024×1024]"]
            plain_ns += 0 if row.empty else row["path_ns"].item() * kind.rounded_share
            if row.empty or row["saves_ns"].isna().item():
                continue
            quicker = [call.reached_ns if call == kind else call.ns for call in calls]
            after = hg.whole()(recorded(program(calls, quicker, seed), calls, Path(folder)))
            true = window_ns - (after.end_ns - after.start_ns)
            savings.append((int(row["saves_ns"].item()), true))
            # On the path it has what it would save at most; else it does not matter.
            if (
                kind.share < FAR
                and kind.ns >= SHORT_NS
                and row["path_ns"].item() * (1 - kind.reached_ns / kind.ns) >= WORTH * window_ns
            ):
                lost["far_from_limit"] += 1
    if plain_ns >= WORTH * window_ns:
        lost["float32_products"] += 1
    return Proved(spoke & {"far_from_limit", "float32_products"}, set(lost), savings, window_ns)


def main() -> None:
    """Print what came of many programs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=200)
    found = [proved(seed) for seed in range(parser.parse_args().programs)]
    for rule in ("far_from_limit", "float32_products"):
        right = sum(rule in one.spoke and rule in one.should for one in found)
        silent = sum(rule not in one.spoke and rule in one.should for one in found)
        more = sum(rule in one.spoke and rule not in one.should for one in found)
        print(f"{rule}: spoke {right} times where it should, silent {silent} times, spoke else {more} times")  # noqa: T201
    off = [abs(told - true) / one.window_ns for one in found for told, true in one.savings]
    print(f"{len(off)} savings: within {max(off):.2%} of the window, {sum(x < 0.001 for x in off)} within 0.1%")  # noqa: T201


if __name__ == "__main__":
    main()
