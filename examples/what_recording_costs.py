"""Measure what each option of the profiler costs: ``python examples/what_recording_costs.py``.

Needs PyTorch; takes a GPU if there is one. A small network, whose operators are short, is trained with each option in
turn, round by round: so each costs more here than in a large model. A step's time is what nine tenths of all steps
exceed, which a busy machine disturbs least; the other numbers are medians.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

try:
    import torch
except ImportError:
    torch = None

WARM_UP_STEPS = 3
OPTIONS: dict[str, dict[str, bool]] = {
    "activities alone": {},
    "record_shapes": {"record_shapes": True},
    "profile_memory": {"profile_memory": True},
    "with_stack": {"with_stack": True},
    "all three": {"record_shapes": True, "profile_memory": True, "with_stack": True},
}


@dataclass
class Costs:
    """What one option took, round by round."""

    step_s: list[float] = field(default_factory=list)  # of every step
    stop_s: list[float] = field(default_factory=list)
    bytes_per_step: list[float] = field(default_factory=list)


def training(layers: int, width: int, batch: int) -> Callable[[], None]:
    """Return a function that trains a network by one step, and waits for it."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(layers))).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = torch.randn(batch, width, device=device)

    def step() -> None:
        model(data).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if device == "cuda":
            torch.cuda.synchronize()

    return step


@contextmanager
def recorded(option: dict[str, bool], steps: int, costs: Costs) -> Iterator[Any]:
    """Record what is done inside; note how long stopping and writing take, and how large the file is."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        recording = torch.profiler.profile(activities=torch.profiler.supported_activities(), **option)
        recording.start()
        yield recording
        begin = time.perf_counter()
        recording.stop()
        recording.export_chrome_trace(os.fspath(file))
        costs.stop_s.append(time.perf_counter() - begin)
        costs.bytes_per_step.append(file.stat().st_size / (WARM_UP_STEPS + steps))


def measure(step: Callable[[], None], steps: int, costs: Costs, option: dict[str, bool] | None) -> None:
    """Train some steps with an option, or without a profiler (None)."""
    recording: AbstractContextManager[Any] = nullcontext() if option is None else recorded(option, steps, costs)
    with recording as profiler:
        for number in range(WARM_UP_STEPS + steps):
            begin = time.perf_counter()
            step()
            if profiler:
                profiler.step()
            if number >= WARM_UP_STEPS:
                costs.step_s.append(time.perf_counter() - begin)


def undisturbed(step_s: list[float]) -> float:
    """Return the time that nine tenths of the steps exceed."""
    return sorted(step_s)[len(step_s) // 10]


def print_costs(found: dict[str, Costs]) -> None:
    plain = undisturbed(found["no profiler"].step_s)
    print(f"{'':18}  step ms  times  KB a step  stop and write s")
    for name, costs in found.items():
        step_s = undisturbed(costs.step_s)
        written = f"{median(costs.bytes_per_step) / 1e3:9.0f}  {median(costs.stop_s):16.2f}" if costs.stop_s else ""
        print(f"{name:18}  {step_s * 1e3:7.2f}  {step_s / plain:5.2f}  {written}".rstrip())


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what each option of the profiler costs.")
    parser.add_argument("--steps", type=int, default=20, help="how many steps to record (20)")
    parser.add_argument("--rounds", type=int, default=5, help="how often to take each option in turn (5)")
    parser.add_argument("--layers", type=int, default=24, help="the network's linear layers (24)")
    parser.add_argument("--width", type=int, default=128, help="their width (128)")
    parser.add_argument("--batch", type=int, default=32, help="rows of a batch (32)")
    options = parser.parse_args()
    if torch is None:
        sys.exit("what_recording_costs.py needs PyTorch; see https://pytorch.org/get-started")
    torch.set_num_threads(1)  # on a busy machine threads wait for each other
    step = training(options.layers, options.width, options.batch)
    found = {name: Costs() for name in ("no profiler", *OPTIONS)}
    for _ in range(options.rounds):
        for name, costs in found.items():
            measure(step, options.steps, costs, OPTIONS.get(name))
    print(f"PyTorch {torch.__version__}, {'GPU' if torch.cuda.is_available() else 'CPU'}, {options.layers} layers")
    print_costs(found)


if __name__ == "__main__":
    main()
