"""Records jobs in shapes of distributed training, each with a fault and without; needs PyTorch (tested with 2.13).

    python tests/job_shapes.py OUT [NAME…]      writes OUT/NAME_base and OUT/NAME_fault, and a line for each
    python -m tests.job_verdict_accuracy OUT    asks for the verdict of all of them

Four processes talk by Gloo on one machine. Kernels are sleeps inside an autograd function, so that cores do not
contend, and faults are sleeps, too. A program is a generator that is asked for one step after the other; steps 2 to 9
are recorded. ``truth.json`` says what was done before anybody is asked: the sentence, the guilty ranks, and each delay
with its rank, step, place and length (``ranks[].inj``). A line printed has the iterations' lengths (ms).
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WORLD, STEPS, FIRST_STEP, WIDTH = 4, 8, 2, 64
Delay = Callable[[int, int, str], float]
"""How long (ms) a rank sleeps in a step at a place."""


@dataclass
class Rank:
    """One process: what a program asks for layers, delays and PyTorch."""

    rank: int
    store: str
    delay: Delay
    torch: Any
    dist: Any
    annotate: Any
    step: int = 0
    injected: list[dict[str, Any]] = field(default_factory=list)
    slow: Any = None

    @property
    def before(self) -> int:
        return (self.rank - 1) % WORLD

    @property
    def behind(self) -> int:
        return (self.rank + 1) % WORLD

    def late(self, place: str) -> None:
        """Sleep if this rank is late here."""
        ms = self.delay(self.rank, self.step, place) if self.step >= FIRST_STEP else 0
        if ms:
            begin = time.perf_counter_ns()
            time.sleep(ms / 1e3)
            taken = (time.perf_counter_ns() - begin) / 1e6
            self.injected.append({"rank": self.rank, "step": self.step, "place": place, "start": begin, "ms": taken})

    def data(self, rows: int = 16) -> Any:
        return self.torch.randn(rows, WIDTH)

    def model(self, layers: int = 3, forward: float = 4, backward: float = 6) -> Any:
        """Return a model whose layers take so long (ms)."""
        nn, rank = self.torch.nn, self

        class Layer(nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.linear = nn.Linear(WIDTH, WIDTH)

            def forward(self, given: Any) -> Any:
                times = rank.delay(rank.rank, rank.step, "factor") or 1
                return rank.slow.apply(self.linear(given).relu(), times * forward, times * backward)

        return nn.Sequential(*(Layer() for _ in range(layers)))

    def replicated(self, layers: int = 3, backward: float = 6) -> Any:
        """Return the same, data parallel, in buckets of a layer."""
        return self.torch.nn.parallel.DistributedDataParallel(self.model(layers, 4, backward), bucket_cap_mb=0.02)

    def train(self, model: Any, given: Any) -> None:
        model(given).square().mean().backward()

    def reduce(self, model: Any, group: Any = None) -> None:
        for one in model.parameters():
            self.dist.all_reduce(one.grad, group=group)

    def update(self, model: Any) -> None:
        for one in model.parameters():
            one.data.sub_(one.grad, alpha=1e-3)
            one.grad = None


Program = Callable[[Rank], Iterator[None]]


def pairs(own: Rank, *, meet: bool) -> Iterator[None]:
    """Two groups of two ranks, which all meet in the end, or never."""
    group = [own.dist.new_group(ranks) for ranks in ([0, 1], [2, 3])][own.rank // 2]
    model = own.model(2)
    while True:
        with own.annotate("load_batch"):
            own.late("load")
        own.train(model, own.data())
        own.reduce(model, group)
        if meet:
            own.dist.all_reduce(own.torch.ones(4))
        own.update(model)
        yield


def elastic(own: Rank) -> Iterator[None]:
    """A job that restarts with a new process group in step 5."""
    model = own.model()
    while True:
        if own.step == 5:
            with own.annotate("restart"):
                own.dist.destroy_process_group()
                store = f"file://{own.store}_again"
                own.dist.init_process_group("gloo", init_method=store, rank=own.rank, world_size=WORLD)
        with own.annotate("load_batch"):
            own.late("load")
        own.train(model, own.data())
        own.reduce(model)
        own.update(model)
        yield


def pipeline(own: Rank, costs: tuple[float, ...], *, ahead: bool) -> Iterator[None]:
    """All forwards, then all backwards; with ``ahead`` the next receive is asked for before the work."""
    model, dist, parts = own.model(1, costs[own.rank], costs[own.rank]), own.dist, 4
    while True:
        made: list[tuple[Any, Any]] = []
        for phase, to in (("forward", 1), ("backward", -1)):
            source, target = own.rank - to, own.rank + to
            buffers, sent = [own.data(8) for _ in range(parts)], []
            receives, sends = 0 <= source < WORLD, 0 <= target < WORLD
            asked = dist.irecv(buffers[0], source) if receives and ahead else None
            for number, got in enumerate(buffers):
                if asked is not None:
                    asked.wait()
                    asked = dist.irecv(buffers[number + 1], source) if number + 1 < parts else asked
                elif receives:
                    dist.recv(got, source)
                if phase == "forward":
                    got.requires_grad_()
                    with own.annotate("stage"):
                        made.append((got, model(got)))
                        own.late("stage")
                    out = made[-1][1].detach()
                else:
                    given, result = made[number]
                    result.backward(got if receives else own.torch.ones_like(result))
                    out = given.grad
                if sends:
                    sent.append(dist.isend(out, target))
                    if not ahead:
                        sent.pop().wait()
            for one in sent:
                one.wait()
        own.update(model)
        yield


def diloco(own: Rank) -> Iterator[None]:
    """Steps of its own; every third one an average is asked for, and awaited in the next one."""
    model, asked, copies = own.model(2), list[Any](), list[Any]()
    while True:
        with own.annotate("inner"):
            own.late("inner")
            own.train(model, own.data())
            own.update(model)
        if own.step % 3 == 1:
            copies = [one.detach().clone() for one in model.parameters()]
            asked = [own.dist.all_reduce(one, async_op=True) for one in copies]
        if own.step % 3 == 2 and asked:
            for one in asked:
                one.wait()
            for one, mean in zip(model.parameters(), copies, strict=True):
                one.data.copy_(mean / WORLD)
        yield


def ring(own: Rank, layers: int, at: int, annotation: str | None) -> Iterator[None]:
    """Ring attention and async tensor parallel: the next part is asked for before the work with this one."""
    while True:
        for _ in range(layers):
            part = own.data()
            for number in range(WORLD):
                got, asked = own.torch.empty_like(part), list[Any]()
                if number < WORLD - 1:
                    asked = [own.dist.irecv(got, own.before), own.dist.isend(part, own.behind)]
                if annotation is None:
                    own.slow.apply(part @ part.t(), 6, 0)
                    own.late("work") if number == at else None
                    part.relu()
                else:
                    with own.annotate(annotation):
                        part @ part.t()
                        time.sleep(0.006)
                        own.late("work") if number == at else None
                for one in asked:
                    one.wait()
                part = got
            own.dist.all_reduce(own.torch.ones(8))
        yield


def halo(own: Rank) -> Iterator[None]:
    """Halos of both neighbors are asked for before the interior, and awaited before the boundary."""
    others = [rank for rank in (own.rank - 1, own.rank + 1) if 0 <= rank < WORLD]
    while True:
        got = [own.data(1) for _ in others]
        received = [own.dist.irecv(one, rank) for one, rank in zip(got, others, strict=True)]
        sent = [own.dist.isend(own.data(1), rank) for rank in others]
        with own.annotate("interior"):
            time.sleep(0.012)
            own.late("interior")
        for one in received:
            one.wait()
        with own.annotate("boundary"):
            time.sleep(0.004)
        for one in sent:
            one.wait()
        own.dist.all_reduce(own.torch.ones(1))
        yield


def context(own: Rank) -> Iterator[None]:
    """Context parallel: keys of all ranks are gathered while each works with its own."""
    model = own.model(1, 8, 8)
    while True:
        keys, every = own.data(), own.torch.empty(16 * WORLD, WIDTH)
        asked = own.dist.all_gather_into_tensor(every, keys, async_op=True)
        with own.annotate("local_attention"):
            local = model(keys)
            own.late("attention")
        asked.wait()
        with own.annotate("remote_attention"):
            result = own.slow.apply(local @ every.t() @ every, 6, 6)
        result.square().mean().backward()
        own.reduce(model)
        own.update(model)
        yield


def data_parallel(own: Rank, backward: float = 6) -> Iterator[None]:
    """Data parallel in buckets."""
    model = own.replicated(backward=backward)
    while True:
        with own.annotate("load_batch"):
            own.late("load")
        own.train(model, own.data())
        own.update(model)
        yield


def objects(own: Rank) -> Iterator[None]:
    """Objects are gathered by all, broadcast, and gathered by rank 0."""
    model = own.model(2)
    while True:
        model(own.data())
        with own.annotate("tokenize"):
            time.sleep(0.004)
            own.late("tokenize")
        every: list[Any] = [None] * WORLD
        own.dist.all_gather_object(every, {"rank": own.rank})
        own.dist.broadcast_object_list(every, src=0)
        own.dist.gather_object(every, [None] * WORLD if own.rank == 0 else None, dst=0)
        own.dist.barrier()
        yield


def accumulation(own: Rank) -> Iterator[None]:
    """Four microbatches, of which the last one reduces."""
    model = own.replicated()
    while True:
        for number in range(3):
            with own.annotate("microbatch"), model.no_sync():
                own.late(f"microbatch {number}")
                own.train(model, own.data(8))
        own.train(model, own.data(8))
        own.update(model)
        yield


def sleeps(ms: Mapping[int, float], place: str, steps: range = range(FIRST_STEP, 99)) -> Delay:
    """Let ranks sleep at a place in some steps."""
    return lambda rank, step, here: ms.get(rank, 0) if here == place and step in steps else 0


def swaps(rank: int, step: int, place: str) -> float:
    """Let rank 1 stand still for a random time in most steps."""
    return random.Random(step).choice((20, 60, 110, 150)) if rank == 1 and step >= 4 and place == "load" else 0


def throttles(rank: int, step: int, place: str) -> float:
    """Let every layer of rank 3 take longer and longer; nobody sleeps."""
    return min(1 + 0.6 * (step - 3), 4) if rank == 3 and step >= 4 and place == "factor" else 0


SHAPES: Mapping[str, tuple[Program, Delay, str, list[int]]] = {
    "two_groups": (lambda own: pairs(own, meet=True), sleeps({1: 90, 2: 60}, "load"),
        "rank 1 sleeps 90 ms and rank 2 60 ms while loading in every step: without rank 1 30 ms less, without both 90",
        [1, 2]),
    "apart": (lambda own: pairs(own, meet=False), sleeps({1: 90, 2: 70}, "load"),
        "rank 1 sleeps 90 ms and rank 2 70 ms while loading in every step, in groups that never meet", [1, 2]),
    "elastic": (elastic, sleeps({2: 90}, "load", range(6, 99)),
        "the job restarts in step 5; rank 2 sleeps 90 ms while loading since step 6", [2]),
    "uneven": (lambda own: pipeline(own, (5, 5, 9, 5), ahead=False), sleeps({1: 25}, "stage"),
        "rank 1 sleeps 25 ms in each of 4 microbatches; stage 2 has 9 ms of work for 5 of the others", [1]),
    "prefetch": (lambda own: pipeline(own, (6, 6, 6, 6), ahead=True), sleeps({1: 25}, "stage"),
        "rank 1 sleeps 25 ms in each of 4 microbatches; receives are asked for before the work", [1]),
    "diloco": (diloco, sleeps({1: 60}, "inner"),
        "rank 1 sleeps 60 ms in every step; ranks meet in every third one, asynchronously", [1]),
    "async_tp": (lambda own: ring(own, 2, 2, None), sleeps({2: 40}, "work"),
        "rank 2 sleeps 40 ms in the third part of both layers in every step", [2]),
    "ring": (lambda own: ring(own, 1, 1, "attention"), sleeps({1: 80}, "work"),
        "rank 1 sleeps 80 ms in its second attention in every step", [1]),
    "halo": (halo, sleeps({2: 80}, "interior"), "rank 2 sleeps 80 ms in the interior in every step", [2]),
    "context": (context, sleeps({3: 80}, "attention"), "rank 3 sleeps 80 ms in local_attention in every step", [3]),
    "swap": (data_parallel, swaps, "rank 1 stands still for 20 to 150 ms in every step since step 4", [1]),
    "throttle": (lambda own: data_parallel(own, 12), throttles,
        "every layer of rank 3 takes 1.6 times since step 4, growing to 4 times", [3]),
    "objects": (objects, sleeps({2: 80}, "tokenize"), "rank 2 sleeps 80 ms in tokenize in every step", [2]),
    "late_start": (data_parallel, sleeps({2: 300}, "load", range(3, 4)), "rank 2 comes 300 ms late to step 3", [2]),
    "accumulation": (accumulation, sleeps({1: 70}, "microbatch 2"),
        "rank 1 sleeps 70 ms in the third microbatch in every step", [1]),
}  # fmt: skip


def run(rank: int, name: str, folder: str, scratch: str, fault: bool) -> None:
    """Run one process of a job under the profiler."""
    import torch
    from torch import distributed
    from torch.profiler import ProfilerActivity, profile, record_function, schedule

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, given: Any, forward: float, backward: float) -> Any:
            ctx.backward_ms = backward
            time.sleep(forward / 1e3)
            return given.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            time.sleep(ctx.backward_ms / 1e3)
            return gradient.clone(), None, None

    torch.set_num_threads(1)
    torch.manual_seed(rank)
    store = f"{scratch}/store"
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    program, delay, _, _ = SHAPES[name]
    own = Rank(rank, store, delay if fault else lambda *_: 0, torch, distributed, record_function, slow=Slow)
    steps, walls = program(own), []
    planned = schedule(wait=1, warmup=1, active=STEPS)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, schedule=planned) as found:
        for own.step in range(FIRST_STEP + STEPS):
            begin = time.perf_counter_ns()
            next(steps)
            walls.append((begin, time.perf_counter_ns()))
            if fault and name == "throttle" and (times := delay(rank, own.step, "factor")):
                extra = 3 * (4 + 12) * (times - 1)
                own.injected.append({"rank": rank, "step": own.step, "place": "layers", "start": begin, "ms": extra})
            if own.step == FIRST_STEP + STEPS - 1:
                distributed.barrier()
            found.step()
    found.export_chrome_trace(f"{folder}/rank{rank}.json.gz")
    Path(scratch, str(rank)).write_text(json.dumps({"walls": walls, "inj": own.injected}), encoding="utf-8")
    os._exit(0)


def record(name: str, folder: Path, *, fault: bool) -> list[float]:
    """Record a job and its truth; return the lengths of its iterations (ms)."""
    import torch.multiprocessing as processes

    folder.mkdir(parents=True)
    _, _, sentence, guilty = SHAPES[name]
    with tempfile.TemporaryDirectory() as scratch:
        processes.start_processes(run, (name, str(folder), scratch, fault), WORLD, start_method="fork")
        ranks = [json.loads(Path(scratch, str(rank)).read_text(encoding="utf-8")) for rank in range(WORLD)]
    ends = [max(rank["walls"][step][1] for rank in ranks) for step in range(FIRST_STEP + STEPS)]
    lengths = {step: round((ends[step] - ends[step - 1]) / 1e6, 1) for step in range(FIRST_STEP, len(ends))}
    truth = {"truth": sentence, "guilty": guilty} if fault else {"truth": "nobody is late", "guilty": []}
    record = {"name": name, **truth, "iterations_ms": lengths, "ranks": ranks}
    (folder / "truth.json").write_text(json.dumps(record), encoding="utf-8")
    return list(lengths.values())


def main() -> None:
    """Record jobs with their faults and without."""
    os.environ |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "KINETO_LOG_LEVEL": "6"}
    out, *names = sys.argv[1:]
    for name in names or SHAPES:
        for kind in ("base", "fault"):
            print(name, kind, record(name, Path(out, f"{name}_{kind}"), fault=kind == "fault"), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
