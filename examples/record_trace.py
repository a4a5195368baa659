"""Record a trace that holds all that hta-graph can use: ``python examples/record_trace.py -o trace.json.gz``.

Needs an NVIDIA GPU and PyTorch 2.2 or later. A small network is trained the way large ones are: the next batch comes
on a stream of its own and the main stream waits for its event, a CUDA graph prepares it, and the CPU waits for the GPU
in another way at each step. For a trace of your own program take :func:`profiler`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

try:
    import torch
except ImportError:
    torch = None

SKIPPED_STEPS, WARM_UP_STEPS = 3, 2


def profiler(steps: int, trace: Path, host_trace: Path | None = None, *, stacks: bool = False) -> Any:
    """Return a profiler that writes some steps, with records of synchronisation, and the host's execution trace."""
    observer = torch.profiler.ExecutionTraceObserver().register_callback(str(host_trace)) if host_trace else None
    return torch.profiler.profile(
        activities=torch.profiler.supported_activities(),
        schedule=torch.profiler.schedule(wait=SKIPPED_STEPS, warmup=WARM_UP_STEPS, active=steps, repeat=1),
        on_trace_ready=lambda found: found.export_chrome_trace(str(trace)),
        record_shapes=True,
        with_stack=stacks,
        experimental_config=torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True),  # noqa: SLF001
        execution_trace_observer=observer,
    )


class Training:
    """A training loop in which streams, the CPU and a CUDA graph wait for one another."""

    def __init__(self, width: int, batch: int) -> None:
        layers = [torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)]
        self.model = torch.nn.Sequential(*layers).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.data = torch.randn(batch, width).pin_memory()
        self.copies = torch.cuda.Stream()
        self.input = torch.zeros(batch, width, device="cuda")
        self.graph, self.prepared = captured(self.input)
        self.coming = self.fetch()

    def fetch(self) -> tuple[torch.Tensor, torch.cuda.Event]:
        """Copy a batch on the side stream; return it and the event of its arrival."""
        with torch.cuda.stream(self.copies):
            batch = self.data.to("cuda", non_blocking=True)
            return batch, self.copies.record_event()

    def step(self, number: int) -> None:
        """Train on one batch."""
        batch, arrived = self.coming
        torch.cuda.current_stream().wait_event(arrived)
        batch.record_stream(torch.cuda.current_stream())
        self.coming = self.fetch()
        self.input.copy_(batch)
        self.graph.replay()
        with torch.profiler.record_function("forward"):
            loss = self.model(self.prepared).square().mean()
        with torch.profiler.record_function("backward"):
            loss.backward()
        with torch.profiler.record_function("optimizer"):
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
        self.wait(number, loss)

    def wait(self, number: int, loss: torch.Tensor) -> None:
        """Wait for a blocking copy, the stream, an event or the device, in turn."""
        stream = torch.cuda.current_stream()
        event = stream.record_event()
        (loss.item, stream.synchronize, event.synchronize, torch.cuda.synchronize)[number % 4]()


def captured(given: torch.Tensor) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    """Capture some kernels as a CUDA graph; replaying it computes the result from the given tensor again."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        normalised(given)  # what is set up on first use must not be captured
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = normalised(given)
    return graph, result


def normalised(given: torch.Tensor) -> torch.Tensor:
    return (given - given.mean(1, keepdim=True)) / (given.std(1, keepdim=True) + 1e-6)


def main() -> None:
    parser = argparse.ArgumentParser(description="Record a trace that holds all that hta-graph can use.")
    parser.add_argument("-o", "--output", type=Path, default=Path("trace.json.gz"), help="the trace (trace.json.gz)")
    parser.add_argument("--host-trace", type=Path, metavar="FILE", help="also write the host's execution trace (.json)")
    parser.add_argument("--steps", type=int, default=4, help="how many steps to record (4)")
    parser.add_argument("--width", type=int, default=2048, help="the network's width (2048)")
    parser.add_argument("--batch", type=int, default=4096, help="rows of a batch (4096)")
    parser.add_argument("--stacks", action="store_true", help="record Python frames too")
    options = parser.parse_args()
    if options.steps < 1:
        parser.error("--steps takes a number from 1")
    if torch is None:
        sys.exit("record_trace.py needs PyTorch; see https://pytorch.org/get-started")
    if not torch.cuda.is_available():
        sys.exit("record_trace.py needs a GPU that PyTorch can use; torch.cuda.is_available() says there is none")
    training = Training(options.width, options.batch)
    with profiler(options.steps, options.output, options.host_trace, stacks=options.stacks) as recording:
        for number in range(SKIPPED_STEPS + WARM_UP_STEPS + options.steps):
            training.step(number)
            recording.step()
    print(f"{options.output} is written; next: hta-graph critical-path {options.output}")


if __name__ == "__main__":
    main()
