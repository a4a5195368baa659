"""Record a small inference server of two tensor-parallel ranks with PyTorch and Gloo, with a fault of known size.

``python tests/multi_rank/recorded_serving/record.py FOLDER --fault scheduler`` needs PyTorch. The folder then contains
the traces of the ranks and ``truth.json``: for each rank its ``steps`` (what was computed, start and end) and ``inj``
(each injected delay, by the step that it delays) in nanoseconds of the performance counter.

Requests are batched continuously, their keys and values are kept, and a thread makes tokens of text and text of tokens.
Steps are named as vLLM's, with Python stacks, or as SGLang's, with the annotations of its scheduler.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "KINETO_LOG_LEVEL": "6"}

import torch
import torch.distributed as dist
from torch import Tensor, multiprocessing
from torch._C._profiler import _ExperimentalConfig
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, record_function

RANKS, LAYERS, WIDTH, HEADS, VOCABULARY, SLOTS, LONGEST = 2, 1, 1_024, 16, 2_048, 4, 2_048
TOKEN_BUDGET = 256
FAULTS = ("none", "scheduler", "detokenizer", "sampling", "slow_rank", "long_prefill")
LONG_PROMPT, LONG_ARRIVES = 1_500, 4
FAULT_SINCE = 2


class Clock:
    """What a rank notes down: its steps, and each delay that is put into it."""

    def __init__(self, rank: int, args: argparse.Namespace) -> None:
        self.rank, self._args = rank, args
        self.step = 0
        self.phase = ""
        self.steps: list[dict[str, Any]] = []
        self.injected: list[dict[str, Any]] = []

    def delay(self, cause: str, delayed_step: int) -> None:
        """Compute for a while, if this is the fault and the rank."""
        asked = self._args
        if cause != asked.fault or asked.rank not in (-1, self.rank) or delayed_step < FAULT_SINCE:
            return
        began = time.perf_counter_ns()
        while time.perf_counter_ns() - began < asked.ms * 1e6:
            sum(range(200_000))
        took = (time.perf_counter_ns() - began) / 1e6
        self.injected.append({"cause": cause, "step": delayed_step, "start": began, "ms": took})


@dataclass
class Request:
    """A request: its prompt, how many tokens to answer, and what is done."""

    number: int
    arrives: int
    text: str
    answer: int
    prompt: list[int] = field(default_factory=list)
    computed: int = 0
    produced: list[int] = field(default_factory=list)
    slot: int = -1

    @property
    def is_decoding(self) -> bool:
        """Whether its prompt is computed."""
        return self.computed >= len(self.prompt)

    @property
    def is_done(self) -> bool:
        """Whether it is answered."""
        return len(self.produced) >= self.answer


def requests_of(args: argparse.Namespace) -> list[Request]:
    """Make the requests of a run: the same on all ranks."""
    rng = random.Random(args.seed)
    made = [
        Request(number, rng.randint(0, 6), "word " * rng.randint(20, 110), rng.randint(3, 5)) for number in range(4)
    ]
    if args.fault == "long_prefill":
        made.append(Request(4, LONG_ARRIVES, "word " * LONG_PROMPT, 3))
    made[0].arrives = 0
    return sorted(made, key=lambda one: one.arrives)


class TextThread:
    """A thread that makes tokens of text, and text of tokens."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked: queue.Queue[Any] = queue.Queue()
        self._made: queue.Queue[Any] = queue.Queue()
        self._words = [f"w{number} " for number in range(VOCABULARY)]
        self._thread = threading.Thread(target=self._loop, name="tokenizer", daemon=True)
        self._thread.start()

    def ask(self, what: str, items: list[Any], step: int) -> Any:
        """Ask for something and wait for it."""
        self._asked.put((what, items, step))
        return self._made.get()

    def stop(self) -> None:
        """End the thread."""
        self._asked.put(None)
        self._thread.join()

    def _loop(self) -> None:
        while (asked := self._asked.get()) is not None:
            what, items, step = asked
            self._made.put(self.tokenize(items) if what == "tokenize" else self.detokenize(items, step))

    def tokenize(self, texts: list[str]) -> list[list[int]]:
        """Make tokens of text."""
        with record_function("tokenize"):
            return [[byte % VOCABULARY for byte in text.encode()[::5]] for text in texts]

    def detokenize(self, tokens: list[int], step: int) -> list[str]:
        """Make text of tokens."""
        with record_function("detokenize"):
            self._clock.delay("detokenizer", step)
            return [self._words[token] for token in tokens]


class Layer:
    """A rank's half of a transformer's layer, with the keys and values of all requests."""

    def __init__(self) -> None:
        own = WIDTH // RANKS
        self.bias = torch.zeros(1, 3 * own)
        self.attention_in, self.attention_out = weights(WIDTH, 3 * own), weights(own, WIDTH)
        self.up, self.down = weights(WIDTH, 4 * own), weights(4 * own, WIDTH)
        self.kept = torch.zeros(SLOTS, 2, LONGEST, own)

    def forward(self, rows: Tensor, chunks: list[tuple[Request, int]], clock: Clock) -> Tensor:
        """Compute the new tokens of a batch."""
        own = WIDTH // RANKS
        normal = functional.layer_norm(rows, (WIDTH,))
        found = []
        for (request, count), new in zip(
            chunks, torch.addmm(self.bias, normal, self.attention_in).split([count for _, count in chunks]), strict=True
        ):
            since, until = request.computed, request.computed + count
            self.kept[request.slot, :, since:until] = new[:, own:].view(count, 2, own).transpose(0, 1)
            asked, known = (
                new[:, :own].view(1, count, HEADS // RANKS, -1).transpose(1, 2),
                self.kept[request.slot, :, :until],
            )
            keys, values = known.view(2, 1, until, HEADS // RANKS, -1).transpose(2, 3).unbind()
            mask = torch.ones(count, until, dtype=torch.bool).tril(since) if count > 1 else None
            found.append(functional.scaled_dot_product_attention(asked, keys, values, mask).transpose(1, 2))
        rows = rows + reduced(torch.mm(torch.cat(found, 1).view(-1, own), self.attention_out))
        if clock.phase == "decode":
            clock.delay("slow_rank", clock.step)
        return rows + reduced(torch.mm(functional.gelu(torch.mm(rows, self.up)), self.down))


def weights(count: int, width: int) -> Tensor:
    """Make the weights of a rank."""
    return torch.randn(count, width) / count**0.5


def reduced(part: Tensor) -> Tensor:
    """Add the parts of both ranks."""
    dist.group.WORLD.allreduce([part]).wait()
    return part


class Engine:
    """What each rank does in turn: receive requests, schedule, run the model, sample, and hand out what it made."""

    def __init__(self, clock: Clock, args: argparse.Namespace) -> None:
        self.clock, self.is_sglang = clock, args.engine == "sglang"
        self.coming, self.running = requests_of(args), []
        self.text = TextThread(clock) if clock.rank == 0 else None
        self.free = list(range(SLOTS))
        self.embedding, self.layers = torch.randn(VOCABULARY, WIDTH), [Layer() for _ in range(LAYERS)]
        self.head = weights(WIDTH, VOCABULARY)
        self.running: list[Request]

    def part(self, name: str) -> AbstractContextManager[Any]:
        """Annotate a part of the scheduler's loop, as SGLang does."""
        return record_function(f"scheduler.{name}") if self.is_sglang else nullcontext()

    def run(self) -> None:
        """Answer all requests."""
        while self.coming or self.running:
            with self.part("recv_requests"):
                arrived = self.recv_requests()
            with self.part("get_next_batch_to_run"):
                chunks = self.schedule(arrived)
            if not chunks:
                self.clock.step += 1
                continue
            with self.part("run_batch"):
                tokens = self.execute_model(chunks)
            with self.part("process_batch_result"):
                self.update_from_output(chunks, tokens)
            self.clock.step += 1

    def recv_requests(self) -> list[Request]:
        """Take the requests that have come; rank 0 makes tokens of them, and sends these to the other."""
        arrived = []
        while self.coming and self.coming[0].arrives <= self.clock.step:
            arrived.append(self.coming.pop(0))
        prompts = [self.text.ask("tokenize", [one.text for one in arrived], 0) if self.text and arrived else []]
        if arrived:
            dist.broadcast_object_list(prompts, 0)
        for request, prompt in zip(arrived, prompts[0], strict=True):
            request.prompt = prompt
        return arrived

    def schedule(self, arrived: list[Request]) -> list[tuple[Request, int]]:
        """Choose how many tokens of which requests to compute: prompts first in SGLang, all together in vLLM."""
        self.clock.delay("scheduler", self.clock.step)
        self.running += arrived
        chunks, left = [], LONGEST if self.is_sglang else TOKEN_BUDGET
        for request in self.running:
            if request.slot < 0 and self.free:
                request.slot = self.free.pop()
            want = 1 if request.is_decoding else min(len(request.prompt) - request.computed, left)
            if request.slot >= 0 and want:
                chunks.append((request, want))
                left -= want
        prompts = [(request, count) for request, count in chunks if not request.is_decoding]
        return prompts if self.is_sglang and prompts else chunks

    def step_name(self, chunks: list[tuple[Request, int]]) -> str:
        """Name a step as the engine does; note what it is."""
        prompts = [count for request, count in chunks if not request.is_decoding]
        decoding = len(chunks) - len(prompts)
        phase = "mixed" if prompts and decoding else "prefill" if prompts else "decode"
        self.clock.phase, tokens = phase, sum(count for _, count in chunks)
        self.clock.steps.append({"step": self.clock.step, "phase": phase, "requests": len(chunks), "tokens": tokens})
        if not self.is_sglang:
            return f"execute_context_{len(prompts)}({sum(prompts)})_generation_{decoding}({decoding})"
        return f"step[EXTEND bs={len(chunks)} toks={tokens}]" if prompts else f"step[DECODE bs={decoding}]"

    def execute_model(self, chunks: list[tuple[Request, int]]) -> list[int]:
        """Run the model on a batch, and sample."""
        began = time.perf_counter_ns()
        with record_function(self.step_name(chunks)):
            logits = self.forward(chunks)
        self.clock.steps[-1] |= {"start": began, "end": time.perf_counter_ns()}
        return self.sample(logits)

    def forward(self, chunks: list[tuple[Request, int]]) -> Tensor:
        """Compute the logits of the last token of each request."""
        tokens = [
            token
            for request, count in chunks
            for token in (request.prompt + request.produced)[request.computed : request.computed + count]
        ]
        rows = self.embedding[torch.tensor(tokens)]
        for layer in self.layers:
            rows = layer.forward(rows, chunks, self.clock)
        last = torch.tensor([count for _, count in chunks]).cumsum(0) - 1
        return torch.mm(rows[last], self.head)

    def sample(self, logits: Tensor) -> list[int]:
        """Draw a token for each request; rank 0 decides."""
        scope = nullcontext() if self.is_sglang else record_function("gpu_model_runner: sample")
        with scope if not self.is_sglang else record_function("sample"):
            self.clock.delay("sampling", self.clock.step + 1)
            best, place = logits.topk(20)
            drawn = torch.multinomial(functional.softmax(best / 0.8, dim=-1), 1)
            return place.gather(-1, drawn).flatten().tolist()

    def update_from_output(self, chunks: list[tuple[Request, int]], tokens: list[int]) -> None:
        """Keep what was made; rank 0 waits for its text, to look for where an answer stops."""
        ready = []
        for (request, count), token in zip(chunks, tokens, strict=True):
            request.computed += count
            if request.is_decoding:
                request.produced.append(token)
                ready.append(token)
        if self.text is not None:
            pieces = self.text.ask("detokenize", ready, self.clock.step + 1)
            assert "stop" not in pieces
        for request in [one for one in self.running if one.is_done]:
            self.free.append(request.slot)
            self.running.remove(request)


@contextmanager
def recorded(path: Path, with_stack: bool) -> Iterator[None]:
    """Record what is done in it, on all threads."""
    with profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=True,
        with_stack=with_stack,
        experimental_config=_ExperimentalConfig(profile_all_threads=True),
    ) as profiler:
        yield
    profiler.export_chrome_trace(str(path))


def run(rank: int, args: argparse.Namespace, shared: str) -> None:
    """Record one rank."""
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    dist.init_process_group("gloo", init_method=f"file://{shared}/store", rank=rank, world_size=RANKS)
    with torch.no_grad():
        warm = argparse.Namespace(**{**vars(args), "fault": "none"})
        Engine(Clock(rank, warm), warm).run()
        clock = Clock(rank, args)
        engine = Engine(clock, args)
        dist.barrier()
        with recorded(args.folder / f"rank{rank}.json", args.engine == "vllm"):
            engine.run()
    truth = {"steps": clock.steps, "inj": clock.injected}
    now = {"perf_counter_ns": time.perf_counter_ns(), "unix_ns": time.time_ns()}
    Path(shared, str(rank)).write_text(json.dumps(truth | {"clock": now}), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    """Record a server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engine", choices=("vllm", "sglang"), default="vllm", help="whose names the steps have")
    parser.add_argument("--fault", choices=FAULTS, default="none", help="what to make slow")
    parser.add_argument("--rank", type=int, default=-1, help="the rank to delay (default: all)")
    parser.add_argument("--ms", type=float, default=40.0, help="how long, each time")
    parser.add_argument("--seed", type=int, default=1, help="of the requests")
    args = parser.parse_args()
    args.folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as shared:
        multiprocessing.start_processes(run, (args, shared), RANKS, start_method="fork")
        ranks = [json.loads(Path(shared, str(rank)).read_text(encoding="utf-8")) for rank in range(RANKS)]
    asked = {"engine": args.engine, "fault": args.fault, "rank": args.rank, "ms": args.ms}
    (args.folder / "truth.json").write_text(json.dumps(asked | {"ranks": ranks}), encoding="utf-8")


if __name__ == "__main__":
    main()
