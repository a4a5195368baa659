"""Write the bundled sample, three simulated training steps: ``python -m tests.make_sample`` from the root."""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.simulator import Dialect, Program, idioms, simulate, to_bytes, write
from tests.simulator.program import Gap, Statement, ThreadProgram

SAMPLE = Path(__file__).parents[1] / "analyses" / "sample" / "sample_trace.json.gz"

LAYERS = 4


def training_step(number: int) -> Statement:
    """Load and prefetch a batch, run forward, backward and all-reduce, read the loss, update."""
    first = number * LAYERS
    forward = [part for layer in range(LAYERS) for part in idioms.forward(first + layer, 60_000 + 15_000 * layer)]
    backward = [idioms.backward(first + layer, 110_000) for layer in reversed(range(LAYERS))]
    body = (
        *idioms.load_data(80_000),
        *idioms.prefetch(10 * number, 45_000),
        *forward,
        *idioms.side_stream(10 * number + 2, 70_000),
        *backward,
        idioms.all_reduce(10 * number + 4, 180_000),
        *idioms.item(4_000),
        *idioms.optimizer(3, 20_000),
        *idioms.clear(6_000),
        Gap(25_000),
    )
    return idioms.step(number, body)


def sample() -> bytes:
    """Return the sample's bytes: the same at every call."""
    steps = tuple(training_step(number) for number in range(1, 4))
    program = Program((ThreadProgram((*steps, *idioms.finish())),))
    written = write(simulate(program), Dialect(sync_rows="resolved"))
    document = dict(written.document) if isinstance(written.document, dict) else {}
    document["traceName"] = "simulated training steps, not a recording"
    return gzip.compress(to_bytes(document), mtime=0)


if __name__ == "__main__":
    SAMPLE.write_bytes(sample())
