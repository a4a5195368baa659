"""Record long runs of small training programs on the CPU, equal ones and some with a known fault.

Each run is recorded by a process of its own; ``python -m tests.gate_accuracy --only recorded FOLDER`` cuts equal runs
in two, and compares those with a fault with the equal ones. Needs PyTorch::

    python tests/long_runs.py FOLDER --runs 6
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEPS = 48
PROGRAMS = ("mlp", "convolutions", "evaluation", "batches")
LOADS = ("alone", "bursts")
HANGING, EVERY = 0.12, 8
"""How long (s) a step hangs, and each how many steps."""
GROWTH, HISTOGRAM = 0.0001, 120_000
"""By how much (s) each step is longer than the one before, and of how many values an operator makes a histogram."""


def late(fault: str, number: int) -> None:
    """Do what each step does after its work, and what a fault adds to it."""
    import torch
    from torch.profiler import record_function

    with record_function("read_shard"):
        if fault == "hangs" and number % EVERY == EVERY - 3:
            time.sleep(HANGING)
        elif fault == "once" and number == STEPS // 2:
            time.sleep(1.0)
    with record_function("history"):
        ends = time.perf_counter() + (GROWTH * number if fault == "drift" else 0)
        while time.perf_counter() < ends:
            pass
    torch.histc(torch.rand(HISTOGRAM if fault == "operator" else 64), bins=64)


def program(name: str) -> Callable[[int], None]:
    """Return what a step of a program does."""
    import torch
    from torch import nn

    torch.manual_seed(1)
    if name == "convolutions":
        model: Any = nn.Sequential(nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.Flatten(), nn.LazyLinear(8))
        given = torch.randn(8, 8, 20, 20)
    else:
        model = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(256, 256), nn.ReLU())), nn.Linear(256, 8))
        given = torch.randn(96, 256)
    model(given)
    optimizer = torch.optim.Adam(model.parameters())

    def step(number: int) -> None:
        of = given[: 32 + 16 * (number * 7 % 5)] if name == "batches" else given
        model(of).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if name == "evaluation" and number % 6 == 5:
            with torch.no_grad():
                for _ in range(4):
                    model(given)

    return step


def run(name: str, fault: str, target: str) -> None:
    """Record one run."""
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    torch.set_num_threads(1)
    step = program(name)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=3, warmup=3, active=STEPS, repeat=1),
        on_trace_ready=lambda made: made.export_chrome_trace(target),
    ) as prof:
        for number in range(-6, STEPS):
            step(number)
            late(fault, number)
            prof.step()


def in_bursts(seed: int, seconds: float) -> None:
    """Keep all processors busy now and then, for some steps each time."""
    drawn, ends = random.Random(seed), time.perf_counter() + seconds
    while time.perf_counter() < ends:
        until = time.perf_counter() + drawn.uniform(0.005, 0.03)
        while time.perf_counter() < until:
            pass
        time.sleep(drawn.uniform(0.02, 0.1))


def main(folder: Path, runs: int) -> None:
    """Record all programs, some runs of each alone and some next to a load, then those with a fault."""
    cases = [(name, load, "none", at) for name in PROGRAMS for load in LOADS for at in range(runs)]
    cases += [(name, "alone", fault, 0) for name in PROGRAMS for fault in ("hangs", "once", "drift", "operator")]
    for name, load, fault, at in cases:
        target = folder / f"{name}_{load}_{fault}_{at}.json.gz"
        if target.exists():
            continue
        others = [
            subprocess.Popen([sys.executable, __file__, "--burst", f"{one + 2 * at}"]) for one in range(2)
        ] if load == "bursts" else []  # fmt: skip
        subprocess.run([sys.executable, __file__, str(target), "--one", name, fault], check=True)
        for one in others:
            one.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--one", nargs=2)
    parser.add_argument("--burst", type=int)
    options = parser.parse_args()
    if options.burst is not None:
        in_bursts(options.burst, 60)
    elif options.one:
        run(options.one[0], options.one[1], str(options.folder))
    else:
        options.folder.mkdir(parents=True, exist_ok=True)
        main(options.folder, options.runs)
