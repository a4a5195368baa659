"""Write the bundled samples, simulated training steps: ``python -m tests.support.make_samples`` from the root.

``sample_trace`` is one rank whose GPU is busy. ``slower_trace`` is the same script after three changes: a loader that
takes longer, a loss that is logged in mid-step, a layer whose backward kernel is another. ``four_ranks`` train together
and wait for rank 2, whose loader is slow. ``two_gpus`` is one process whose model is split over two GPUs.
``serving`` is an inference server whose scheduler is slow.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any

from tests.simulator import Dialect, Program, Run, pytorch_idioms, simulate, to_bytes, write
from tests.simulator.program import Frame, Gap, Launch, Op, Statement, Stream, SyncDevice, ThreadProgram, Wait
from tests.simulator.serving import ServingFault, ServingShape, serve
from tests.support.samples import SAMPLES

FOLDER = SAMPLES
SAMPLE = FOLDER / "sample_trace.json.gz"

LAYERS = 4
STEPS = (1, 2, 3)
RANKS = 4
STRAGGLER = 2
TRANSFER_NS = 100_000
BUCKET = 4_194_304
"""How many 4-byte numbers an all-reduce of the four ranks adds up."""
BUCKETS = 2
"""How many all-reduces a step of theirs has: the first one in the middle of the backward pass."""


@dataclass(frozen=True)
class Script:
    """What a training script does in each of its steps; times in ns."""

    load_ns: int = 80_000
    log_ns: int = 0
    """Python's time for logging the loss after the forward pass, which reads it from the GPU first."""
    last_backward: tuple[str, int] = ("ampere_sgemm_64x32_tn", 110_000)
    """The kernel of the last layer's backward pass, which runs first, and how long it takes."""
    reductions_ns: tuple[int, ...] = ()
    """How long each bucket's all-reduce lasts, step by step; the optimizer waits for them. None: one, unawaited."""


PLAIN = Script()
SLOWER = Script(load_ns=420_000, log_ns=120_000, last_backward=("sgemm_largek_lds64", 165_000))
LOADS_NS = tuple(300_000 if rank == STRAGGLER else 80_000 + 10_000 * rank for rank in range(RANKS))


def training_step(number: int, script: Script = PLAIN) -> Statement:
    """Load and prefetch a batch, run forward, backward and all-reduce, read the loss, update."""
    first = number * LAYERS
    forward = [
        part for layer in range(LAYERS) for part in pytorch_idioms.forward(first + layer, 60_000 + 15_000 * layer)
    ]
    body = (
        *pytorch_idioms.load_data(script.load_ns),
        *pytorch_idioms.prefetch(10 * number, 45_000),
        *forward,
        *logging(script.log_ns),
        *pytorch_idioms.side_stream(10 * number + 2, 70_000),
        *backward(number, script),
        *pytorch_idioms.item(4_000),
        *pytorch_idioms.optimizer(3, 20_000),
        *pytorch_idioms.clear(6_000),
        Gap(25_000),
    )
    return pytorch_idioms.step(number, body)


def logging(ns: int) -> tuple[Statement, ...]:
    """Read the loss and write it down, while the GPU has nothing to do."""
    return (Frame("train.py(61): log_loss", (*pytorch_idioms.item(4_000), Gap(ns))),) if ns else ()


def last_backward(sequence: int, kernel: str, ns: int) -> Op:
    """A layer's backward pass with a kernel of its own."""
    products = Op("aten::mm", (Launch(pytorch_idioms.COMPUTE, ns, kernel),)), Op("aten::t")
    node = Op("AddmmBackward0", products, sequence)
    return Op("autograd::engine::evaluate_function: AddmmBackward0", (node,), sequence)


def backward(number: int, script: Script) -> tuple[Statement, ...]:
    """Run backward, and reduce the gradients behind it, or bucket by bucket while it runs."""
    first, event = number * LAYERS, 10 * number + 4
    others = [pytorch_idioms.backward(first + layer, 110_000) for layer in reversed(range(LAYERS - 1))]
    layers = [last_backward(first + LAYERS - 1, *script.last_backward), *others]
    if not script.reductions_ns:
        return *layers, pytorch_idioms.all_reduce(event, 180_000)
    begin = STEPS.index(number) * BUCKETS
    one, other = (
        pytorch_idioms.all_reduce(event + 2 * bucket, script.reductions_ns[begin + bucket]) for bucket in range(BUCKETS)
    )
    half = LAYERS // 2
    waits = (Wait(pytorch_idioms.COMPUTE, event + 2 * bucket + 1) for bucket in range(BUCKETS))
    return *layers[:half], one, *layers[half:], other, *waits


def run_of(script: Script) -> Run:
    """Simulate all steps of a script."""
    steps = tuple(training_step(number, script) for number in STEPS)
    return simulate(Program((ThreadProgram((*steps, *pytorch_idioms.finish())),)))


def runs_together() -> list[Run]:
    """Simulate ranks that meet in their all-reduces: each lasts until all have come and the data are through."""
    times = (TRANSFER_NS,) * (len(STEPS) * BUCKETS)
    scripts = [Script(load_ns=load_ns, reductions_ns=times) for load_ns in LOADS_NS]
    for at in range(len(times)):
        starts = [reductions(run_of(script))[at] for script in scripts]
        done = max(starts) + TRANSFER_NS
        scripts = [
            replace(script, reductions_ns=_replaced(script.reductions_ns, at, done - start))
            for script, start in zip(scripts, starts, strict=True)
        ]
    return [run_of(script) for script in scripts]


def reductions(run: Run) -> list[int]:
    """Return when a rank's all-reduces start (ns)."""
    return [event.start_ns for event in run.events if event.name == pytorch_idioms.ALL_REDUCE]


def _replaced(values: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    return *values[:at], value, *values[at + 1 :]


FIRST_HALF, SECOND_HALF = Stream(7, device=0), Stream(7, device=1)
"""Where each half of a model runs that is split over two GPUs of one process."""


def split_step(number: int) -> Statement:
    """Run two layers on each GPU, forward and back, with a copy between the GPUs in the middle of either."""
    first, event = number * LAYERS, 10 * number
    there, back = (
        pytorch_idioms.across(event, FIRST_HALF, SECOND_HALF, 30_000),
        pytorch_idioms.across(event + 2, SECOND_HALF, FIRST_HALF, 30_000),
    )
    forward = [
        part
        for layer in range(LAYERS)
        for part in (
            *(there if layer == LAYERS // 2 else ()),
            *pytorch_idioms.forward(first + layer, 90_000, stream=SECOND_HALF if layer >= LAYERS // 2 else FIRST_HALF),
        )
    ]
    backward = [
        part
        for layer in reversed(range(LAYERS))
        for part in (
            pytorch_idioms.backward(first + layer, 140_000, stream=SECOND_HALF if layer >= LAYERS // 2 else FIRST_HALF),
            *(back if layer == LAYERS // 2 else ()),
        )
    ]
    return pytorch_idioms.step(
        number, (*pytorch_idioms.load_data(60_000), *forward, *backward, SyncDevice(0), SyncDevice(1))
    )


def split_run() -> Run:
    """Simulate one process whose model is split over two GPUs."""
    return simulate(Program((ThreadProgram(tuple(split_step(number) for number in STEPS)),)))


PRODUCT = (("float", (768, 1024)), ("float", (1024, 768)))
INPUTS: dict[str, list[tuple[Any, ...]]] = {
    "aten::addmm": [
        (("float", (width,)), ("float", (1024, 768)), ("float", (768, width)), "1", "1")
        for width in (512, 640, 768, 896)
    ],
    "aten::mm": [(("float", (8192, 8)), ("float", (8, 3072))), PRODUCT, PRODUCT, PRODUCT],
    "aten::index_select": [(("float", (50_000, 512)), "0", ("long int", (8192,)))],
    "aten::_foreach_add_": [(("TensorList", ((768, 512), (768, 640))), ("TensorList", ((768, 512), (768, 640))), "1")],
    "aten::zero_": [(("float", (1_048_576,)),)],
}
"""What operators are given, in turn: types and shapes of tensors, the texts of what is none."""


def with_inputs(document: dict[str, Any]) -> dict[str, Any]:
    """Note on operators what ``record_shapes=True`` does."""
    for name, turns in INPUTS.items():
        rows = [row for row in document["traceEvents"] if row["name"] == name and row.get("cat") == "cpu_op"]
        for row, given in zip(rows, cycle(turns), strict=False):
            tensors = [one if isinstance(one, tuple) else ("Scalar", ()) for one in given]
            row["args"] |= {
                "Input Dims": [shape for _, shape in tensors],
                "Input type": [kind for kind, _ in tensors],
                "Concrete Inputs": [one if isinstance(one, str) else "" for one in given],
            }
    return document | {"record_shapes": 1}


def document_of(run: Run) -> dict[str, Any]:
    """Write a run as a trace that says what it is."""
    written = write(run, Dialect(sync_rows="resolved"))
    return with_inputs({**written.document, "traceName": "simulated training steps, not a recording"})


def served() -> dict[str, Any]:
    """Simulate a server that answers some requests."""
    shape = ServingShape(
        "vllm", requests=6, seed=4, fault=ServingFault("scheduler", 350_000), prompt=(100, 500), answer=(6, 14)
    )
    document = document_of(serve(shape).job.runs[0])
    return document | {"traceName": "a simulated inference server, not a recording"}


def with_two_gpus(document: dict[str, Any]) -> dict[str, Any]:
    """Note a second device like the first."""
    (device,) = document["deviceProperties"]
    return document | {"deviceProperties": [device, device | {"id": 1}]}


def as_rank(document: dict[str, Any], rank: int) -> dict[str, Any]:
    """Note the rank, and on its collectives what PyTorch records there."""
    kernels = (row for row in document["traceEvents"] if row["name"] == pytorch_idioms.ALL_REDUCE)
    for number, row in enumerate(kernels, 1):
        row["args"] |= {
            "Collective name": "allreduce",
            "In msg nelems": BUCKET,
            "Out msg nelems": BUCKET,
            "Group size": RANKS,
            "dtype": "Float",
            "Process Group Name": "0",
            "Process Group Description": "default_pg",
            "Process Group Ranks": str(list(range(RANKS))),
            "Seq": number,
        }
    return document | {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": RANKS}}


def sample() -> bytes:
    """Return the first sample's bytes: the same at every call."""
    return compressed(document_of(run_of(PLAIN)))


def samples() -> dict[Path, bytes]:
    """Return all samples' bytes by file."""
    ranks = (as_rank(document_of(run), rank) for rank, run in enumerate(runs_together()))
    return {
        SAMPLE: sample(),
        FOLDER / "slower_trace.json.gz": compressed(document_of(run_of(SLOWER))),
        FOLDER / "two_gpus.json.gz": compressed(with_two_gpus(document_of(split_run()))),
        FOLDER / "serving.json.gz": compressed(served()),
        **{FOLDER / "four_ranks" / f"rank_{rank}.json.gz": compressed(found) for rank, found in enumerate(ranks)},
    }


def compressed(document: dict[str, Any]) -> bytes:
    """Return a trace's bytes."""
    return gzip.compress(to_bytes(document), mtime=0)


def write_samples(found: Iterable[tuple[Path, bytes]]) -> None:
    """Write the samples' files."""
    for path, data in found:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    write_samples(samples().items())
