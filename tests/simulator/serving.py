"""Inference engines from a seed: continuous batching, chunked prefill, graphs of batch sizes, tensor parallel ranks.

served = serve(ServingShape(engine="sglang", fault=ServingFault("scheduler", 3_000_000)))
served.record(folder)    # a Kineto file per rank
served.steps             # phase, requests, tokens, padded batch, name of the annotation

What is injected is host time between the GPU work of two steps, in each step, where an engine does that work.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.simulator.engine import PID
from tests.simulator.program import (
    Annotation,
    Body,
    Copy,
    Frame,
    Gap,
    Graph,
    GraphLaunch,
    GraphNode,
    Launch,
    Op,
    Program,
    Statement,
    SyncStream,
)
from tests.simulator.ranks import Group, JobProgram, JobRun, Recording, record_job, simulate_job
from tests.simulator.ranks.recorded_job import RecordedJob
from tests.simulator.ranks.scripts import RankScript
from tests.simulator.run import Run, SimEvent

Engine = Literal["vllm", "sglang", "atom"]
InjectedCause = Literal["scheduler", "tokenizer", "sampling", "python", "no_row"]
CAUSES: tuple[InjectedCause, ...] = ("scheduler", "tokenizer", "sampling", "python", "no_row")
ENGINES: tuple[Engine, ...] = ("vllm", "sglang", "atom")
BUCKETS = (1, 2, 4, 8, 16, 32)
TOKEN_BUDGET = 1_024
LAYERS = 3
TOKENIZER_TID = 7_070
AWAITED = "queue.py(154): get"

FRAMES: dict[Engine, dict[str, str]] = {
    "vllm": {
        "scheduler": "vllm/v1/core/sched/scheduler.py(212): schedule",
        "tokenizer": "vllm/v1/engine/detokenizer.py(95): update",
        "sampling": "vllm/v1/sample/sampler.py(67): forward",
    },
    "sglang": {
        "scheduler": "scheduler.get_next_batch_to_run",
        "tokenizer": "sglang/srt/managers/tokenizer_manager.py(530): _tokenize_one_request",
        "sampling": "sglang/srt/layers/sampler.py(60): forward",
    },
    "atom": {
        "scheduler": "atom/model_engine/scheduler.py(140): schedule",
        "tokenizer": "transformers/tokenization_utils_fast.py(560): _batch_encode_plus",
        "sampling": "atom/model_ops/sampler.py(40): forward",
    },
}
OWN_CODE = "my_server.py(40): log_every_token"


@dataclass(frozen=True)
class ServingFault:
    """Host time that each step takes longer, in which part of the engine, and on which rank (None: on all)."""

    cause: InjectedCause
    ns: int
    rank: int | None = None


@dataclass(frozen=True)
class ServingShape:
    """How large a server is; ``waits_in_thread``: tokens are made by another thread, for which the engine waits.

    ``prompt`` and ``answer`` are the least and the most tokens of each request.
    """

    engine: Engine = "vllm"
    ranks: int = 1
    requests: int = 6
    seed: int = 0
    fault: ServingFault | None = None
    waits_in_thread: bool = False
    prompt: tuple[int, int] = (200, 1_800)
    answer: tuple[int, int] = (3, 8)


@dataclass(frozen=True)
class TrueStep:
    """What a step computes; a graph of ``padded`` requests is replayed, or none."""

    name: str
    phase: str
    requests: int
    tokens: int
    padded: int | None


@dataclass
class _Request:
    """A request: tokens of its prompt, and of its answer, that are still to be computed."""

    prompt: int
    answer: int


def planned_steps(shape: ServingShape) -> list[TrueStep]:
    """Batch requests continuously; a prompt is computed in chunks of at most the token budget.

    vLLM decodes in the steps that compute prompts (mixed), the others by turns.
    """
    rng = random.Random(f"requests {shape.seed}")
    coming = [_Request(rng.randint(*shape.prompt), rng.randint(*shape.answer)) for _ in range(shape.requests)]
    active: list[_Request] = []
    steps: list[TrueStep] = []
    while coming or active:
        active += [coming.pop() for _ in range(min(len(coming), rng.randint(1, 3)))]
        chunks = list(_chunks(active))
        decoding = [one for one in active if not one.prompt] if shape.engine == "vllm" or not chunks else []
        steps.append(_step_of(shape.engine, chunks, len(decoding)))
        for one, count in chunks:
            one.prompt -= count
        for one in decoding:
            one.answer -= 1
        active = [one for one in active if one.prompt or one.answer]
    return steps


def _chunks(active: list[_Request]) -> Iterator[tuple[_Request, int]]:
    left = TOKEN_BUDGET
    for one in active:
        count = min(one.prompt, left)
        if count:
            yield one, count
            left -= count


def _step_of(engine: Engine, chunks: list[tuple[_Request, int]], decoding: int) -> TrueStep:
    prompts, tokens = len(chunks), sum(count for _, count in chunks)
    requests, phase = prompts + decoding, "mixed" if chunks and decoding else "prefill" if chunks else "decode"
    padded = None if chunks else min(size for size in BUCKETS if size >= decoding)
    if engine == "vllm":
        name = f"execute_context_{prompts}({tokens})_generation_{decoding}({decoding})"
    elif engine == "sglang":
        name = f"step[EXTEND bs={prompts} toks={tokens}]" if chunks else f"step[DECODE bs={decoding}]"
    else:
        name = f"prefill[bs={prompts} tok={tokens}]" if chunks else f"decode[bs={decoding}/{padded} tok={decoding}]"
    return TrueStep(name, phase, requests, tokens + decoding, padded)


@dataclass(frozen=True)
class Served:
    """A simulated server beside its truth."""

    shape: ServingShape
    steps: list[TrueStep]
    job: JobRun = field(repr=False)

    def record(self, folder: Path) -> RecordedJob:
        """Write a file for each rank."""
        return record_job(self.job, Recording(ids=True), folder)


def serve(shape: ServingShape) -> Served:
    """Run a server until all its requests are answered."""
    steps, world = planned_steps(shape), Group("0", tuple(range(shape.ranks)), description="tp")
    ranks = {rank: _Server(shape, rank, world).program(steps) for rank in range(shape.ranks)}
    job = simulate_job(JobProgram(ranks, (world,) if shape.ranks > 1 else ()))
    for run in job.runs.values():
        _fill_waits(run, FRAMES[shape.engine]["tokenizer"])
    return Served(shape, steps, job)


class _Server:
    """What one rank's engine does: it schedules, runs the model, samples, and hands tokens on."""

    def __init__(self, shape: ServingShape, rank: int, world: Group) -> None:
        self.shape = shape
        self.world = world
        self.script = RankScript(rank, "nccl", shape.seed)
        self.stream = self.script.compute

    def program(self, steps: list[TrueStep]) -> Program:
        body = [statement for step in steps for statement in self._turn(step)]
        return Program.of(*body, graphs=tuple(map(_graph, BUCKETS)))

    def _turn(self, step: TrueStep) -> Body:
        names = FRAMES[self.shape.engine]
        scheduled = self._part("scheduler", names["scheduler"], 60_000)
        ran: Statement = Annotation(step.name, self._model(step))
        if self.shape.engine == "sglang":
            ran = Annotation("scheduler.run_batch", (ran,))
        return (
            *scheduled,
            ran,
            *self._sample(),
            *self._part("tokenizer", names["tokenizer"], 30_000),
            *self._part("python", OWN_CODE, 10_000),
            Gap(self._delayed("no_row", 15_000)),
        )

    def _part(self, cause: InjectedCause, name: str, ns: int) -> Body:
        if cause == "tokenizer" and self.shape.waits_in_thread:
            return (Frame(AWAITED, (Gap(self._delayed(cause, ns)),)),)
        scope = Annotation if name.startswith("scheduler.") else Frame
        return (scope(name, (Gap(self._delayed(cause, ns)),)),)

    def _delayed(self, cause: InjectedCause, ns: int) -> int:
        fault = self.shape.fault
        is_here = fault is not None and fault.cause == cause and fault.rank in (None, self.script.rank)
        extra = fault.ns if fault is not None and is_here else 0
        return int((ns + extra) * self.script.rng.uniform(0.8, 1.2))

    def _sample(self) -> Body:
        read = Copy(self.stream, 2_000, "DtoH", "pageable"), SyncStream(self.stream)
        waiting = Op("aten::item", (Op("aten::_local_scalar_dense", read),))
        after = Gap(self._delayed("sampling", 20_000))
        launch = Op("aten::argmax", (Launch(self.stream, 8_000, "reduce_kernel"),))
        return (Frame(FRAMES[self.shape.engine]["sampling"], (launch, waiting, after)),)

    def _model(self, step: TrueStep) -> Body:
        inputs: Body = (Op("aten::copy_", (Gap(20_000), Copy(self.stream, 5_000))),)
        layers = [self._layer(step) for _ in range(LAYERS)]
        return inputs + tuple(statement for layer in layers for statement in layer)

    def _layer(self, step: TrueStep) -> Body:
        if step.padded is not None:
            ran: Body = (GraphLaunch(BUCKETS.index(step.padded), self.stream),)
        else:
            ran = (self.script.layer("aten::linear", "forward", 150_000 + 1_000 * step.tokens),)
        if self.shape.ranks == 1:
            return ran
        reduced = self.script.meet("all_reduce", self.world, 30_000 + 50 * step.tokens)
        return ran + reduced.ask + reduced.wait


def _graph(size: int) -> Graph:
    nodes = [
        GraphNode(100_000 + 4_000 * size, name="graph_gemm"),
        GraphNode(40_000 + 1_000 * size, name="graph_attention"),
    ]
    return Graph(tuple(nodes))


def _fill_waits(run: Run, name: str) -> None:
    """Let another thread make tokens while the engine waits for them."""
    for wait in [event for event in run.events if event.name == AWAITED]:
        work = SimEvent(len(run.events), "python_function", name, PID, TOKENIZER_TID)
        work.start_ns, work.end_ns = wait.start_ns + 1_000, wait.end_ns - 1_000
        run.events.append(work)
        run.thread_names[TOKENIZER_TID] = "tokenizer"
