"""Simulated programs of one rank and inference servers: what the time goes to, and programs at which nothing is wrong.

A training script is drawn, and one thing is added to each of its steps that makes the median iteration at least 1.6
times as long, by a second simulation without it. The truth is what was added. A script is healthy if none of the
changes that would follow advice saves 1% of its median iteration, by simulations with them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from tests.advice_accuracy import CHANGES, changed
from tests.simulator import Dialect, Program, pytorch_idioms, simulate, to_bytes, write
from tests.simulator.program import Annotation, Body, Call, Copy, Frame, Gap, Launch, Op, Statement, SyncStream, Wait
from tests.simulator.pytorch_idioms import ALL_REDUCE, COMPUTE, LOADER
from tests.simulator.run import Run
from tests.simulator.serving import CAUSES, ENGINES, ServingFault, ServingShape, serve
from tests.simulator.window_lengths import step_span, steps_of
from tests.tool_comparison.question import HEALTHY, UNKNOWN, Posed, Question, Truth

STEPS = 6
TRIES = 60
LONGER = 1.6
"""What is added makes an iteration this many times as long: nothing else at twice the speed saves as much."""
WORTH = 0.01


@dataclass(frozen=True)
class Added:
    """What is added to each step, where (before the layers, between them, or after them), and what it is called."""

    make: Callable[[int, int], Body]
    """(number of the step, ns) → statements."""
    names: frozenset[str]
    classes: frozenset[str]
    place: str = "between"

    def always(self, ns: int) -> Callable[[int], tuple[str, Body]]:
        """Return what each step gets, and where."""
        return lambda number: (self.place, self.make(number, ns))


def _slow_kernel(_: int, ns: int) -> Body:
    return (Op("aten::sort", (Launch(COMPUTE, ns, "void sort_postprocess_kernel"),)),)


def _slow_loader(_: int, ns: int) -> Body:
    return pytorch_idioms.load_data(ns)


def _slow_copy(_: int, ns: int) -> Body:
    return (Op("aten::to", (Op("aten::copy_", (Copy(COMPUTE, ns, host="pageable"),)),)),)


def _collective(number: int, ns: int) -> Body:
    event = 1_000 + 2 * number
    return pytorch_idioms.all_reduce(event, ns), Wait(COMPUTE, event + 1)


def _slow_operator(_: int, ns: int) -> Body:
    read = Copy(COMPUTE, 2_000, "DtoH", "pageable"), SyncStream(COMPUTE)
    return (Op("aten::item", (Op("aten::_local_scalar_dense", read),)), Op("my_extension::tokenize", (Gap(ns),)))


def _python(_: int, ns: int) -> Body:
    return (*pytorch_idioms.item(2_000), Frame("metrics.py(12): log_histograms", (Gap(ns),)))


def _garbage(_: int, ns: int) -> Body:
    return (*pytorch_idioms.item(2_000), Frame("Python GC", (Gap(ns),), scope_ns=0))


def _allocations(_: int, ns: int) -> Body:
    part = Op("aten::empty", (Call("cudaMalloc", ns // 4, locked=True),))
    return (*pytorch_idioms.item(2_000), *(part,) * 4)


def _compiles(_: int, ns: int) -> Body:
    part = Op("aten::empty", (Gap(ns // 4),)), Gap(3 * ns // 4)
    return (*pytorch_idioms.item(2_000), Annotation("compile_fx_inner (dynamo_timed)", part, scope_ns=0))


def _loads_code(_: int, ns: int) -> Body:
    return (*pytorch_idioms.item(2_000), Op("aten::mm", (Call("cuLibraryLoadData", ns),)))


def _saves(_: int, ns: int) -> Body:
    return (*pytorch_idioms.item(2_000), Annotation("save_checkpoint", (Gap(ns),)))


ADDED: Mapping[str, Added] = {
    "slow kernel": Added(
        _slow_kernel, frozenset({"void sort_postprocess_kernel", "aten::sort"}), frozenset({"gpu_compute_bound"})
    ),
    "slow data loader": Added(
        _slow_loader, frozenset({LOADER, "data_loading_exposed"}), frozenset({"data_loading"}), "before"
    ),
    "copy from pageable memory": Added(
        _slow_copy,
        frozenset({"Memcpy HtoD (Pageable -> Device)", "pageable_copies"}),
        frozenset({"gpu_memory_bound"}),
        "before",
    ),
    "collective that nothing hides": Added(
        _collective,
        frozenset({ALL_REDUCE, "nccl:all_reduce", "exposed_communication", "serial_communication"}),
        frozenset({"gpu_communication_bound"}),
        "after",
    ),
    "slow operator on the host": Added(_slow_operator, frozenset({"my_extension::tokenize"}), frozenset({"cpu_bound"})),
    "Python between operators": Added(_python, frozenset({"metrics.py(12): log_histograms"}), frozenset({"cpu_gap"})),
    "garbage collection": Added(_garbage, frozenset({"Python GC", "garbage_collection"}), frozenset({"cpu_gap"})),
    "allocations from the driver": Added(
        _allocations, frozenset({"cudaMalloc", "driver_allocations"}), frozenset({"cpu_bound"})
    ),
    "compilation": Added(
        _compiles, frozenset({"compile_fx_inner (dynamo_timed)", "compilation"}), frozenset({"cpu_gap", "cpu_bound"})
    ),
    "loading of code": Added(_loads_code, frozenset({"cuLibraryLoadData", "code_loading"}), frozenset({"cpu_bound"})),
    "saving of checkpoints": Added(_saves, frozenset({"save_checkpoint"}), frozenset({"cpu_gap"}), "after"),
}
"""What slows a step down, and what it may be called: its row, the operator around it, or the advice about it."""


def training_script(rng: random.Random, added: Callable[[int], tuple[str, Body]] | None = None) -> Program:
    """Draw a script whose GPU is busy: data are loaded ahead, layers run, gradients are reduced meanwhile."""
    layers, kernel_ns = rng.randint(3, 6), rng.choice((150_000, 400_000))
    body: list[Statement] = []
    own = random.Random(rng.random())
    for number in range(STEPS):
        place, more = added(number) if added else ("", ())
        parts: dict[str, Body] = {"before": (), "between": (), "after": ()} | {place: more}
        forward = [
            part
            for layer in range(layers)
            for part in pytorch_idioms.forward(layer, int(kernel_ns * own.uniform(0.8, 1.2)))
        ]
        backward = [
            pytorch_idioms.backward(layer, int(2 * kernel_ns * own.uniform(0.9, 1.1))) for layer in range(layers)
        ]
        reduced = pytorch_idioms.all_reduce(10 * number, kernel_ns // 2)
        update = pytorch_idioms.optimizer(2, kernel_ns)
        loaded = pytorch_idioms.load_data(own.randint(5_000, 20_000))
        copied = pytorch_idioms.prefetch(10 * number + 4, 20_000)
        step = (
            *loaded, *copied, *parts["before"], *forward, *parts["between"], *backward[:1], reduced, *backward[1:],
            *parts["after"], *update,
        )  # fmt: skip
        body.append(pytorch_idioms.step(number, step))
    return Program.of(*body, *pytorch_idioms.finish())


def iterations_ns(run: Run) -> list[int]:
    """Return the time from the end of each step's work to that of the next one's."""
    return [later - earlier for earlier, later in pairwise(step_span(run, number)[1] for number in steps_of(run))]


def written(run: Run, path: Path, dialect: Dialect | None = None) -> Path:
    """Write a run as most traces are: without records of synchronization."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(to_bytes(write(run, dialect or Dialect(sync_rows="none")).document))
    return path


# -- questions --------------------------------------------------------------------------------------------------------


def added_cause(name: str, seed: int) -> Question:
    """Ask what makes the steps of a script long."""

    def pose(folder: Path) -> Posed:
        added, rng = ADDED[name], random.Random(f"added {name} {seed}")
        for _ in range(TRIES):
            shape, ns = rng.randrange(1 << 30), rng.randint(1, 12) * 1_000_000
            usual, with_it = (simulate(training_script(random.Random(shape), own)) for own in (None, added.always(ns)))
            if median(iterations_ns(with_it)) >= LONGER * median(iterations_ns(usual)):
                inputs = (written(with_it, folder / "trace.json"),)
                return Posed(inputs, Truth(added.names, added.classes), {"recipe": f"{ns / 1e6:.0f} ms in each step"})
        raise AssertionError(f"{name} {seed} makes no step longer")

    return Question(
        f"cause/{name.replace(' ', '-')}-{seed}", "cause", "bound", "What makes the steps long?",
        f"simulated training script; each step: {name}", pose,
    )  # fmt: skip


GAPS = {"scheduler": "scheduler", "tokenizer": "tokenizer", "sampling": "sampling", "python": "host_code"}
"""What each cause that is injected into a server is called."""


def serving_cause(engine: str, cause: str, seed: int) -> Question:
    """Ask what an inference server's GPU is idle for; of time that lies in no row nothing can be known."""
    is_known = cause in GAPS

    def pose(folder: Path) -> Posed:
        rng = random.Random(f"server {engine} {cause} {seed}")
        fault = ServingFault(cause, rng.randint(300_000, 2_000_000), rng.choice((None, 0)))  # type: ignore[arg-type]
        shape = ServingShape(engine, rng.choice((1, 2)), rng.randint(2, 4), seed, fault, rng.random() < 0.5)  # type: ignore[arg-type]
        truth = Truth(frozenset({GAPS[cause]}), frozenset({"host"})) if is_known else UNKNOWN
        return Posed(tuple(serve(shape).record(folder).paths), truth)

    return Question(
        f"{'cause' if is_known else 'unknown'}/serving-{engine}-{cause}-{seed}", "cause" if is_known else "unknown",
        "serving_gap", "Why is the GPU idle between the engine's steps?",
        f"simulated {engine} server; each step: more time in {cause}", pose,
    )  # fmt: skip


def sound_program(seed: int) -> Question:
    """Ask what is wrong with a script that nothing is wrong with; in some the GPU's clock is ahead or behind."""

    def pose(folder: Path) -> Posed:
        rng = random.Random(f"sound {seed}")
        for _ in range(TRIES):
            program = training_script(rng)
            run = simulate(program)
            length = median(iterations_ns(run))
            saved = [length - median(iterations_ns(simulate(changed(program, change)))) for change in CHANGES.values()]
            if max(saved) < WORTH * length:
                error = rng.choice((0, 0, 20_000, -20_000))
                dialect = Dialect(sync_rows="none", clock_error_ns=error)
                return Posed((written(run, folder / "trace.json", dialect),), HEALTHY, {"recipe": f"clock {error} ns"})
        raise AssertionError(f"each script of seed {seed} could be faster")

    return Question(
        f"healthy/program-{seed}", "healthy", "trouble", "Is anything wrong?",
        "simulated training script that no change makes faster", pose,
    )  # fmt: skip


def questions(first: int) -> Iterator[Question]:
    """Return the questions about programs and servers, by the first seed."""
    for name in ADDED:
        for seed in (first, first + 1):
            yield added_cause(name, seed)
    for engine in ENGINES:
        for cause in CAUSES:
            yield serving_cause(engine, cause, first)
    for seed in range(first, first + 10):
        yield sound_program(seed)
