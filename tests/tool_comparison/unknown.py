"""What traces do not show: rows, ranks, records or steps are missing, or a difference drowns in noise.

The right answer is none, whatever the truth is: a tool that names something has made it up.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.simulator import simulate
from tests.simulator.program import Gap, Launch, Op, Program, SyncStream
from tests.simulator.pytorch_idioms import COMPUTE, step
from tests.simulator.ranks import Recording, record_job
from tests.simulator.serving import ENGINES, ServingShape, serve
from tests.support.noisy_runs import noisy_file
from tests.tool_comparison.jobs import drawn_job
from tests.tool_comparison.pairs import COMMON, SPREAD
from tests.tool_comparison.programs import training_script, written
from tests.tool_comparison.question import UNKNOWN, Asked, Posed, Question

GPU_ROWS = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync")
HELD_NS = 20_000_000


def _trace(folder: Path, seed: int, name: str = "trace.json") -> Path:
    return written(simulate(training_script(random.Random(f"unknown {seed}"))), folder / name)


def _rewrite(path: Path, rows: Callable[[dict[str, Any]], bool]) -> Path:
    document = json.loads(path.read_bytes())
    document["traceEvents"] = [row for row in document["traceEvents"] if rows(row)]
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def one_rank(folder: Path, seed: int) -> Posed:
    """The file of one rank of a job that waits for another rank."""
    drawn = drawn_job("ddp", ("nccl", "gloo")[seed % 2], f"one {seed}")
    other = next(rank for rank in drawn.job.runs if rank != drawn.late)
    recorded = record_job(drawn.job, Recording(), folder)
    return Posed((recorded.paths[other],), UNKNOWN)


def no_communication(folder: Path, seed: int) -> Posed:
    """All ranks of a job with a late rank, whose rows of communication were lost."""
    drawn = drawn_job("fsdp", ("nccl", "gloo")[seed % 2], f"lost {seed}")
    return Posed(tuple(record_job(drawn.job, Recording(loss=1.0), folder).paths), UNKNOWN)


def other_times(folder: Path, seed: int) -> Posed:
    """Ranks of a job with a late rank that were recorded one after the other: no collective has two of them."""
    drawn = drawn_job("ddp", ("nccl", "gloo")[seed % 2], f"times {seed}")
    length = max(one.end_ns for run in drawn.job.runs.values() for one in run.events)
    count = len(drawn.job.runs)
    windows = {rank: (at * length // count, (at + 1) * length // count) for at, rank in enumerate(drawn.job.runs)}
    return Posed(tuple(record_job(drawn.job, Recording(windows=windows), folder).paths), UNKNOWN)


def no_gpu_rows(folder: Path, seed: int) -> Posed:
    """A script with a GPU, recorded without rows of the GPU."""
    return Posed((_rewrite(_trace(folder, seed), lambda row: row.get("cat") not in GPU_ROWS),), UNKNOWN)


def no_capture(folder: Path, seed: int) -> Posed:
    """A server that replays CUDA graphs, without a recording of their capture."""
    served = serve(ServingShape(ENGINES[seed % len(ENGINES)], 1, 3, seed, answer=(20, 30)))
    return Posed(tuple(served.record(folder).paths), UNKNOWN, {"kernels": ("graph_gemm", "graph_attention")})


def whole_file(folder: Path, seed: int) -> Posed:
    """A trace without memory events and shapes."""
    return Posed((_trace(folder, seed),), UNKNOWN)


def truncated(folder: Path, seed: int) -> Posed:
    """A file that ends in the middle."""
    path = _trace(folder, seed)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * random.Random(seed).randint(20, 80) // 100])
    return Posed((path,), UNKNOWN)


def work_before(folder: Path, seed: int) -> Posed:
    """A step that waits most of its time for work which was launched before the recording, whose row is missing."""
    rng = random.Random(f"before {seed}")
    layers = [
        Op("aten::mm", (Gap(rng.randint(2_000, 9_000)), Launch(COMPUTE, rng.randint(20_000, 90_000), "gemm")))
        for _ in range(8)
    ]
    before = Op("aten::sort", (Launch(COMPUTE, HELD_NS, "unseen_kernel"),))
    run = simulate(Program.of(before, step(1, (*layers, SyncStream(COMPUTE)))))
    begins = next(one.start_ns for one in run.events if one.name.startswith("ProfilerStep"))
    gone = {one.uid for one in run.events if one.start_ns < begins or one.name == "unseen_kernel"}
    return Posed((_without(written(run, folder / "trace.json"), run, gone),), UNKNOWN)


def _without(path: Path, run: Any, gone: set[int]) -> Path:
    names = {(run.events[uid].name, run.events[uid].correlation) for uid in gone}
    return _rewrite(
        path, lambda row: (row.get("name"), row.get("args", {}).get("correlation")) not in names or row["ph"] != "X"
    )


def below_noise(folder: Path, seed: int) -> Posed:
    """Two runs of few noisy steps, one of them slower by 0.3%."""
    rng = random.Random(f"below {seed}")
    own: dict[str, Any] = {"steps": 5, "spread": SPREAD, "common": 2 * COMMON}
    before = noisy_file(folder, rng.randrange(1 << 30), **own)
    after = noisy_file(folder, rng.randrange(1 << 30), **own, pace_of=lambda _: 1.003)
    return Posed((before, after), UNKNOWN, {"limit": "0.2%"})


def one_step_each(folder: Path, seed: int) -> Posed:
    """Two runs with a warm-up and one step."""
    rng = random.Random(f"single {seed}")
    paths = [noisy_file(folder, rng.randrange(1 << 30), steps=2, spread=SPREAD, common=COMMON) for _ in range(2)]
    return Posed(tuple(paths), UNKNOWN)


def another_recording(folder: Path, seed: int) -> Posed:
    """A run with rows of its GPU and one without."""
    before, after = (_trace(folder, seed, f"{name}.json") for name in ("before", "after"))
    return Posed((before, _rewrite(after, lambda row: row.get("cat") not in GPU_ROWS)), UNKNOWN)


def absent_kernel(folder: Path, seed: int) -> Posed:
    """A change of a kernel that the trace does not have."""
    return Posed((_trace(folder, seed),), UNKNOWN, {"change": ["--scale", "kernel:flash_fwd_kernel=0.5"]})


RECIPES: Mapping[str, tuple[Callable[[Path, int], Posed], Asked, str, int]] = {
    "one rank of a job": (one_rank, "late_rank", "Which rank delays the others?", 4),
    "ranks without communication": (no_communication, "late_rank", "Which rank delays the others?", 2),
    "ranks recorded at other times": (other_times, "late_rank", "Which rank delays the others?", 2),
    "no GPU rows": (no_gpu_rows, "gpu_idle", "For which share of the time is the GPU idle?", 3),
    "no capture of CUDA graphs": (no_capture, "graph_operator", "Which operator launches the graphs' kernels?", 3),
    "no memory events": (whole_file, "peak_memory", "How much memory do tensors take at most?", 2),
    "no shapes": (whole_file, "flops", "How many FLOP/s do the products reach?", 2),
    "truncated file": (truncated, "bound", "What makes the steps long?", 3),
    "work before the recording": (work_before, "bound", "What makes the step long?", 3),
    "difference below noise": (below_noise, "slower_at_all", "Is the second run slower by more than 0.2%?", 4),
    "one step of each run": (one_step_each, "slower_at_all", "Is the second run slower by more than 1%?", 2),
    "one run without GPU rows": (another_recording, "slower_at_all", "Is the second run slower by more than 1%?", 2),
    "kernel that is not there": (absent_kernel, "new_length", "How long does the run take after the change?", 2),
}
"""What is missing, and the question nevertheless; how many of each."""


def questions(first: int) -> Iterator[Question]:
    """Return the questions that cannot be answered, by the first seed."""
    for name, (make, asked, text, count) in RECIPES.items():
        for seed in range(first, first + count):
            yield Question(
                f"unknown/{name.replace(' ', '-')}-{seed}", "unknown", asked, text, f"simulated: {name}",
                lambda folder, make=make, seed=seed: make(folder, seed),  # type: ignore[misc]
            )  # fmt: skip
