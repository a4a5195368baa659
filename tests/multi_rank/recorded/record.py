"""Record a small job of four ranks with PyTorch and Gloo, with a fault of known size on one of them.

``python tests/multi_rank/recorded/record.py JOB FOLDER --rank 1 --ms 120`` needs PyTorch. The folder then contains the
traces of the ranks and ``truth.json``: for each rank ``walls`` (start and end of each step) and ``inj`` (each injected
delay) in nanoseconds of the performance counter, and one time of that counter in Unix nanoseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "KINETO_LOG_LEVEL": "6"}

import torch
import torch.distributed as dist
import torch.distributed.pipelining as pipelining
from torch import multiprocessing, nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

RANKS, WIDTH, ROWS = 4, 256, 64
WARM_UP = 2


class Fault:
    """Delays one rank, in the steps that are asked for."""

    def __init__(self, rank: int, args: argparse.Namespace) -> None:
        self.rank, self._args = rank, args
        self.step = -1
        self.injected: list[dict[str, Any]] = []

    def delay(self) -> None:
        """Sleep, if this is the rank and the step."""
        asked = self._args
        if self.rank != asked.rank or self.step < asked.since or (asked.once and self.step != asked.since):
            return
        began = time.perf_counter_ns()
        time.sleep(asked.ms / 1e3)
        took = (time.perf_counter_ns() - began) / 1e6
        self.injected.append({"rank": self.rank, "step": self.step, "start": began, "ms": took})


class Job(ABC):
    """What a rank does in each step."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault

    @abstractmethod
    def step(self) -> None:
        """Do one step."""


def layers(count: int) -> nn.Sequential:
    """Make a network."""
    return nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(count)])


def own_group(rank: int, *groups: list[int]) -> Any:
    """Make groups on all ranks, and return the one of this rank."""
    return next(made for ranks, made in [(ranks, dist.new_group(ranks)) for ranks in groups] if rank in ranks)


class Hierarchical(Job):
    """Gradients are reduced and scattered in a pair, all-reduced between pairs, gathered in the pair."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.inner = own_group(fault.rank, [0, 1], [2, 3])
        self.outer = own_group(fault.rank, [0, 2], [1, 3])
        self.model = layers(3)

    def step(self) -> None:
        loss = self.model(torch.randn(ROWS, WIDTH)).square().mean()
        self.fault.delay()
        loss.backward()
        for weight in self.model.parameters():
            flat = weight.grad.flatten()
            part = torch.empty(len(flat) // 2)
            dist.reduce_scatter_tensor(part, flat, group=self.inner)
            dist.all_reduce(part, group=self.outer)
            dist.all_gather_into_tensor(flat, part, group=self.inner)


class TensorAndData(Job):
    """Pairs of ranks share each layer; each rank shares its weights with one of the other pair."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.tensor = own_group(fault.rank, [0, 1], [2, 3])
        self.data = own_group(fault.rank, [0, 2], [1, 3])
        self.model = layers(3)

    def step(self) -> None:
        rows = torch.randn(ROWS, WIDTH)
        for number, layer in enumerate(self.model):
            rows = layer(rows)
            if number == 1:
                self.fault.delay()
            dist.all_reduce(rows.detach().clone(), group=self.tensor)
        rows.square().mean().backward()
        for weight in self.model.parameters():
            dist.all_reduce(weight.grad, group=self.data)


class Experts(Job):
    """Two layers of experts, each behind an all-to-all of uneven parts."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.experts, self.gate = [layers(2), layers(2)], layers(1)

    def step(self) -> None:
        rank = self.fault.rank
        chance = torch.Generator().manual_seed(100 * self.fault.step + rank)
        rows = self.gate(torch.randn(2 * ROWS, WIDTH)).detach()
        for number, expert in enumerate(self.experts):
            cuts = sorted(torch.randint(4, 2 * ROWS - 4, (RANKS - 1,), generator=chance).tolist())
            sent = [end - start for start, end in zip([0, *cuts], [*cuts, 2 * ROWS], strict=True)]
            counts = torch.empty(RANKS, dtype=torch.int64)
            dist.all_to_all_single(counts, torch.tensor(sent))
            received = counts.tolist()
            own = torch.empty(sum(received), WIDTH)
            dist.all_to_all_single(own, rows, received, sent)
            with record_function(f"expert {number}"):
                if number:
                    self.fault.delay()
                done = expert(own).detach()
            rows = torch.empty(2 * ROWS, WIDTH)
            dist.all_to_all_single(rows, done, sent, received)
        for weight in self.gate.parameters():
            dist.all_reduce(torch.randn_like(weight))


class Interleaved(Job):
    """A pipeline with two stages on each rank (interleaved 1F1B)."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)

        models, cpu = [layers(2), layers(2)], torch.device("cpu")
        for model in models:
            model.register_forward_pre_hook(lambda *_: fault.delay())
        stages = [
            pipelining.PipelineStage(model, fault.rank + number * RANKS, len(models) * RANKS, cpu)
            for number, model in enumerate(models)
        ]
        self.pipeline = pipelining.ScheduleInterleaved1F1B(
            stages, n_microbatches=4, loss_fn=lambda out, target: (out - target).square().mean()
        )

    def step(self) -> None:
        first, last = self.fault.rank == 0, self.fault.rank == RANKS - 1
        rows, target = torch.randn(2 * ROWS, WIDTH), torch.randn(2 * ROWS, WIDTH)
        self.pipeline.step(*[rows] * first, **({"target": target, "losses": []} if last else {}))


JOBS: dict[str, Callable[[Fault], Job]] = {
    "hierarchical": Hierarchical,
    "tensor_and_data": TensorAndData,
    "experts": Experts,
    "interleaved": Interleaved,
}


def run(rank: int, args: argparse.Namespace, shared: str) -> None:
    """Record one rank."""
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    dist.init_process_group("gloo", init_method=f"file://{shared}/store", rank=rank, world_size=RANKS)
    fault = Fault(rank, args)
    job, walls = JOBS[args.job](fault), []
    dist.barrier()
    with profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=True,
        schedule=schedule(wait=1, warmup=1, active=args.steps, repeat=1),
        on_trace_ready=lambda found: found.export_chrome_trace(str(args.folder / f"rank{rank}.json.gz")),
    ) as profiler:
        for number in range(args.steps + WARM_UP):
            fault.step, began = number, time.perf_counter_ns()
            job.step()
            walls.append((began, time.perf_counter_ns()))
            profiler.step()
    clock = {"perf_counter_ns": time.perf_counter_ns(), "unix_ns": time.time_ns()}
    truth = {"walls": walls, "inj": fault.injected, "clock": clock}
    Path(shared, str(rank)).write_text(json.dumps(truth), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    """Record a job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rank", type=int, default=-1, help="the rank to delay (default: none)")
    parser.add_argument("--ms", type=float, default=120.0, help="how long, each time")
    parser.add_argument("--since", type=int, default=WARM_UP, help="the first step with a delay")
    parser.add_argument("--once", action="store_true", help="delay in that step only")
    parser.add_argument("--steps", type=int, default=5, help="how many to record")
    args = parser.parse_args()
    args.folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as shared:
        multiprocessing.start_processes(run, (args, shared), RANKS, start_method="fork")
        ranks = [json.loads(Path(shared, str(rank)).read_text(encoding="utf-8")) for rank in range(RANKS)]
    truth = {"job": args.job, "rank": args.rank, "ms": args.ms, "ranks": ranks}
    (args.folder / "truth.json").write_text(json.dumps(truth), encoding="utf-8")


if __name__ == "__main__":
    main()
