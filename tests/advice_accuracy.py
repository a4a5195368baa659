"""Is advice true? Simulated programs, run again as advised: what is saved beside what was promised.

``python -m tests.advice_accuracy`` prints, for each rule that a program can be changed by, how often it fired, how
often the change then saved less than 1% (a wrong firing) or more than its bounds allow, and how often what replay
promised is within 3% of the window of what was saved: of the whole run, and of the iteration of its median step. Where
it is not, the finding may at least have doubted its promise (low confidence, or only a bound); doubts of promises that
were kept are false alarms. Then it prints how often the guard against polling hosts fired on programs that poll, with
the rule ``host_poll`` left out, and on all others.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import hta_graph as hg
from analyses.advice.facts import NOTABLE_SHARE, PathFacts
from analyses.advice.gpu_rules import BUCKETS
from analyses.advice.rules import verdict_of
from analyses.judgement.verdict import replayed_advice
from hta_graph.dependencies.synchronization import host_poll
from tests.simulator import Dialect, Program, random_program, simulate, write
from tests.simulator.program import (
    Annotation,
    Backward,
    Call,
    Copy,
    CustomStatement,
    Frame,
    Gap,
    GraphLaunch,
    Launch,
    Op,
    Poll,
    Record,
    Set,
    Statement,
    Stream,
    SyncDevice,
    SyncEvent,
    SyncStream,
    ThreadProgram,
    Wait,
)
from tests.simulator.pytorch_idioms import ALL_REDUCE, COLLECTIVES, COMPUTE, DISPATCH, LOADER, step
from tests.simulator.streams import Work
from tests.unexplained_reason_accuracy import graph_of

OwnProgram = Callable[..., Program]
"""Makes a program of a seed, with ``followed`` the one that follows the advice."""

Change = Callable[[Statement, tuple[str, ...]], Statement | None]
"""What becomes of a statement under scopes of these names; ``None`` removes it."""

MISLED = 0.1
"""A path is misled where so much of it is the host's silence instead of the GPU's work."""

WORTH = 0.01
"""A change that saves less than this share was not worth the advice."""

CLOSE = 0.03
"""A promise is kept where it is no farther than this share of its window from what is saved."""


def read_nothing(statement: Statement, around: tuple[str, ...]) -> Statement | None:
    """Leave out the copies and waits with which values are read; what the calls cost the host stays."""
    if isinstance(statement, Copy | SyncStream) and "aten::_local_scalar_dense" in around:
        return Gap(statement.call_ns)
    return statement


def load_nothing(statement: Statement, around: tuple[str, ...]) -> Statement | None:
    """Leave out the time of data loading."""
    return None if isinstance(statement, Gap) and LOADER in around else statement


def wait_for_nothing(statement: Statement, _around: tuple[str, ...]) -> Statement | None:
    """Let calls that wait for the GPU, and copies that block, return at once; the copies stay."""
    if isinstance(statement, SyncStream | SyncDevice | SyncEvent):
        return Gap(statement.call_ns)
    if isinstance(statement, Copy) and statement.holds_the_caller:
        return replace(statement, host="pinned", blocking=False)
    return statement


def communicate_at_once(statement: Statement, _around: tuple[str, ...]) -> Statement | None:
    """Let collectives take next to no time."""
    is_collective = isinstance(statement, Launch) and statement.name in (ALL_REDUCE, DISPATCH)
    return replace(statement, ns=1_000) if is_collective else statement  # type: ignore[type-var]


def launch_at_once(statement: Statement, around: tuple[str, ...]) -> Statement | None:
    """Let the host only load, wait, and replay graphs: these hold launches, copies, sets, events and memory."""
    if LOADER in (*around, getattr(statement, "name", "")):
        return statement
    if isinstance(statement, Gap | Call):
        return None
    if isinstance(statement, Op | Frame | Annotation):
        return replace(statement, scope_ns=0)
    if isinstance(statement, Copy) and statement.holds_the_caller:
        return statement
    return replace(statement, call_ns=NO_TIME_NS) if isinstance(statement, SUBMITTING) else statement


NO_TIME_NS = 100
SUBMITTING = (Launch, GraphLaunch, Copy, Set, Record, Wait)


BESIDE = ("watchdog", "pin_memory")
"""Threads that launch nothing."""

CHANGES: dict[str, Change] = {
    "values_read": read_nothing,
    "waits_of_all_kinds": wait_for_nothing,
    "data_loading_exposed": load_nothing,
    "exposed_communication": communicate_at_once,
    "launch_bound": launch_at_once,
}
"""How a program is changed that follows a rule's advice as far as that can go."""


def changed(program: Program, change: Change) -> Program:
    """Change every statement of the threads of a program that launch work; scopes that are then empty stay.

    Graphs need neither time to reach the GPU node by node nor a thread for autograd.
    """

    def of_body(body: tuple[Statement, ...], around: tuple[str, ...]) -> tuple[Statement, ...]:
        kept = (change(statement, around) for statement in body)
        return tuple(with_body(statement, around) for statement in kept if statement is not None)

    def with_body(statement: Any, around: tuple[str, ...]) -> Statement:
        body = getattr(statement, "body", None)
        name = getattr(statement, "name", "")
        return statement if body is None else replace(statement, body=of_body(body, (*around, name)))  # type: ignore[no-any-return]

    threads = tuple(
        thread if thread.name in BESIDE else replace(thread, body=of_body(thread.body, ()))
        for thread in program.threads
    )
    latencies = program.latencies
    if change is launch_at_once:
        latencies = replace(latencies, launch=NO_TIME_NS, handoff=NO_TIME_NS)
    return replace(program, threads=threads, latencies=latencies)


def graph_of_run(program: Program) -> hg.DependencyGraph:
    """Run a program, and record it as most traces are."""
    return graph_of(write(simulate(program), Dialect(sync_rows="none")).document)


def whole_path(program: Program) -> hg.CriticalPath:
    """Run a program, record it and return the path of all of it."""
    return hg.critical_path(graph_of_run(program), hg.whole())


def rates(family: str, seeds: Iterable[int], size: int, *, of_steps: bool = False) -> Counter[tuple[str, str]]:
    """Count for each rule the firings, those after which the change saved too little, more than promised, or as much.

    Of promises that were not kept it counts those that the finding doubted (low confidence, or "at most"), and the
    others; and doubts without need.
    With ``of_steps`` that is about the iteration of the median step of programs that have steps. Programs that spin are
    counted besides: replay does not know when a host goes on that waits by silence.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for seed in seeds:
        program = random_program(seed, family, size)  # type: ignore[arg-type]
        graph = graph_of_run(program)
        if of_steps and len(graph.steps()) < FEWEST_STEPS:
            continue
        facts = PathFacts(hg.critical_path(graph, None if of_steps else hg.whole()))
        for finding in replayed_advice(facts):
            if finding.rule in CHANGES:
                after = PathFacts(same_window(facts.path, graph_of_run(changed(program, CHANGES[finding.rule]))))
                saved, whole = facts.priced.length_ns - after.priced.length_ns, facts.priced.length_ns
                counts[finding.rule, "fired"] += 1
                counts[finding.rule, "wrong"] += saved < WORTH * whole
                counts[finding.rule, "above"] += saved > (finding.saves_at_most_ns or 0)
                counts[finding.rule, "above rows"] += saved > (finding.bound_ns or 0)
                is_kept = abs(saved - (finding.saves_ns or 0)) <= CLOSE * whole
                is_doubted = finding.confidence == "low" or finding.saving[1]
                counts[finding.rule, "kept"] += is_kept
                counts[finding.rule, "kept, doubted"] += is_kept and is_doubted
                counts[finding.rule, "doubted"] += is_doubted and not is_kept
                counts[finding.rule, "neither"] += not is_kept and not is_doubted
                counts[finding.rule, "spin"] += spins(program)
                counts[finding.rule, "spin, kept"] += spins(program) and is_kept
    return counts


def serial_communication(seed: int, *, followed: bool) -> Program:
    """Layers with a collective each, for which the next layer waits; as advised only what follows the last one does."""
    rng = random.Random(f"serial {seed}")
    layers, shares_stream = rng.randint(12, 40), rng.random() < 0.5
    kernel_ns, talk_ns = rng.choice((20_000, 100_000, 500_000)), rng.choice((20_000, 100_000, 500_000))
    body: list[Statement] = []
    for layer in range(layers):
        body.append(Op("aten::mm", (Launch(COMPUTE, int(kernel_ns * rng.lognormvariate(0, 0.3)), "gemm"),)))
        talk = Launch(COMPUTE, int(talk_ns * rng.lognormvariate(0, 0.3)), ALL_REDUCE)
        if shares_stream and not followed:
            body.append(Op("c10d::allreduce_", (talk,)))
            continue
        ready, done = 2 * layer, 2 * layer + 1
        own = Record(ready, COMPUTE), Wait(COLLECTIVES, ready), replace(talk, stream=COLLECTIVES)
        body.append(Op("c10d::allreduce_", (*own, Record(done, COLLECTIVES))))
        if not followed or layer == layers - 1:
            body.append(Wait(COMPUTE, done))
    return Program.of(*body, Op("aten::add", (Launch(COMPUTE, kernel_ns, "add"),)), SyncDevice())


def code_loading(seed: int, *, followed: bool) -> Program:
    """Kernels that are launched again and again, and whose code is loaded before the first launch, or was before."""
    rng = random.Random(f"loading {seed}")
    names = [f"kernel_{number}" for number in range(rng.randint(2, 12))]
    first_ns = {name: int(rng.lognormvariate(0, 1) * 1_000_000) for name in names}
    body: list[Statement] = []
    for _ in range(rng.randint(5, 20)):
        for name in names:
            ns = first_ns.pop(name, 0)
            load = (Call("cuLibraryLoadData", ns),) if ns and not followed else ()
            body.append(Op("aten::mm", (*load, Launch(COMPUTE, rng.choice((20_000, 200_000)), name))))
    return Program((ThreadProgram((*body, SyncDevice())),), launch_queue_depth=rng.choice((32, 1_024)))


@dataclass(frozen=True, repr=False)
class BlockingLaunch(CustomStatement):
    """A launch that returns when its kernel has ended, as CUDA_LAUNCH_BLOCKING makes each."""

    ns: int

    def execute(self, driver: Any, thread: Any) -> None:
        """Launch, and hold the caller."""
        call = driver._begin(thread, "cudaLaunchKernel")
        work = driver._enqueue(thread, call, COMPUTE, Work("kernel", "gemm", self.ns, 0))
        driver._end(thread, call, 4_000, driver._returns("blocking_copy", [work]))


def synchronous_launches(seed: int, *, followed: bool) -> Program:
    """Operators whose launches block, or that are each followed by a synchronization, or none of both."""
    rng = random.Random(f"synchronous {seed}")
    typical_ns, host_ns, by_setting = rng.choice((20_000, 100_000)), rng.choice((5_000, 30_000)), rng.random() < 0.5
    body: list[Statement] = []
    for _ in range(rng.randint(30, 100)):
        ns = int(typical_ns * rng.lognormvariate(0, 0.3)) + 10_000
        launch = BlockingLaunch(ns) if by_setting and not followed else Launch(COMPUTE, ns, "gemm")
        body += [Op("aten::mm", (launch,)), Gap(int(host_ns * rng.lognormvariate(0, 0.3)))]
        if not by_setting:
            body.append(Gap(2_000) if followed else SyncDevice())
    return Program.of(*body, SyncDevice())


def driver_allocations(seed: int, *, followed: bool) -> Program:
    """Steps that take memory from the driver again and again, or only the first one does."""
    rng = random.Random(f"allocations {seed}")
    call = rng.choice(("cudaMalloc", "cuMemMap", "cudaFree"))
    kernel_ns, typical_ns = rng.choice((5_000, 60_000)), rng.choice((30_000, 300_000))
    steps: list[Statement] = []
    for number in range(rng.randint(3, 8)):
        body: list[Statement] = []
        for _ in range(10):
            if rng.random() < 0.6:
                ns = int(typical_ns * rng.lognormvariate(0, 0.5))
                allocation = Call(call, ns, locked=True) if number == 0 or not followed else Gap(0)
                body.append(Op("aten::empty", (allocation,)))
            body.append(Op("aten::mm", (Launch(COMPUTE, kernel_ns, "gemm"),)))
        steps.append(step(number, tuple(body)))
    return Program.of(*steps, SyncDevice())


def memory_sharing(seed: int, *, followed: bool) -> Program:
    """Layers between which processes exchange handles of memory, or did so before."""
    rng = random.Random(f"sharing {seed}")
    calls = rng.choice((
        ("cuMemExportToShareableHandle", "cuMemImportFromShareableHandle", "cuMemMap"),
        ("cudaIpcGetMemHandle", "cudaIpcOpenMemHandle"), ("hipIpcOpenMemHandle",),
    ))  # fmt: skip
    kernel_ns, typical_ns = rng.choice((5_000, 60_000)), rng.choice((100_000, 1_000_000))
    body: list[Statement] = []
    for _ in range(rng.randint(10, 40)):
        if rng.random() < 0.2 and not followed:
            shared = (Call(call, int(typical_ns * rng.lognormvariate(0, 0.5)), locked=True) for call in calls)
            body.append(Op("symm_mem::rendezvous", tuple(shared)))
        body.append(Op("aten::mm", (Launch(COMPUTE, kernel_ns, "gemm"),)))
    return Program.of(*body, SyncDevice())


def compilation(seed: int, *, followed: bool) -> Program:
    """Layers of which some are compiled before they run, or were before."""
    rng = random.Random(f"compilation {seed}")
    kernel_ns = rng.choice((20_000, 200_000))
    body: list[Statement] = []
    for _ in range(rng.randint(20, 60)):
        ns = int(rng.lognormvariate(0, 0.7) * 3_000_000)
        part = Op("aten::empty", (Gap(ns // 4),)), Gap(3 * ns // 4)
        if rng.random() < 0.15 and not followed:
            body.append(Annotation("compile_fx_inner (dynamo_timed)", part, scope_ns=0))
        body += [Op("aten::mm", (Launch(COMPUTE, kernel_ns, "gemm"),)), Gap(10_000)]
    return Program.of(*body, SyncDevice())


def garbage_collection(seed: int, *, followed: bool) -> Program:
    """Layers between which, and inside of whose operators, Python now and then collects garbage, or never does."""
    rng = random.Random(f"garbage {seed}")
    kernel_ns = rng.choice((20_000, 200_000))
    body: list[Statement] = []
    for _ in range(rng.randint(20, 60)):
        pause = Frame("Python GC", (Gap(int(rng.lognormvariate(0, 0.7) * 2_000_000)),), scope_ns=0)
        collects: tuple[Statement, ...] = (pause,) if rng.random() < 0.2 and not followed else ()
        launch = Launch(COMPUTE, kernel_ns, "gemm")
        if rng.random() < 0.5:
            body += [Op("aten::mm", (*collects, launch)), Gap(10_000)]
        else:
            body += [*collects, Op("aten::mm", (launch,)), Gap(10_000)]
    return Program.of(Frame("train.py(3): step", tuple(body)), SyncDevice())


def blocking_uploads(seed: int, *, followed: bool) -> Program:
    """Batches that are copied from pinned memory, with a wait or without."""
    rng = random.Random(f"uploads {seed}")
    kernel_ns, host_ns, copy_ns = (
        rng.choice((50_000, 300_000)),
        rng.choice((20_000, 200_000)),
        rng.randint(2, 80) * 1_000,
    )
    body: list[Statement] = []
    for _ in range(rng.randint(10, 40)):
        wait = Gap(2_000) if followed else SyncStream(COMPUTE)
        body.append(Op("aten::to", (Op("aten::copy_", (Copy(COMPUTE, copy_ns), wait)),)))
        body += [Op("aten::work", (Gap(host_ns),)), Op("aten::mm", (Launch(COMPUTE, kernel_ns, "gemm"),))]
    return Program.of(*body, SyncDevice())


def unbucketed_collectives(seed: int, *, followed: bool) -> Program:
    """Backward operators that each reduce their gradients, or every so many of them for all."""
    rng = random.Random(f"buckets {seed}")
    count, host_ns, kernel_ns = rng.randint(6, 40) * BUCKETS, rng.choice((20_000, 80_000)), rng.choice((5_000, 20_000))
    works = (Op("aten::mm", (Gap(rng.choice((10_000, 30_000))), Launch(COMPUTE, kernel_ns, "gemm"))),) * rng.randint(
        2, 6
    )
    reduces = Op("c10d::allreduce_", (Gap(host_ns), Launch(COLLECTIVES, 8_000, ALL_REDUCE)))
    body: list[Statement] = []
    for layer in range(count):
        is_last = (layer + 1) % (count // BUCKETS) == 0
        body.append(Op("AddmmBackward0", (*works, reduces) if is_last or not followed else works))
    return Program.of(*body, SyncDevice())


OWN_PROGRAMS: dict[str, OwnProgram] = {
    "unbucketed_collectives": unbucketed_collectives,
    "blocking_uploads": blocking_uploads,
    "compilation": compilation,
    "garbage_collection": garbage_collection,
    "memory_sharing": memory_sharing,
    "driver_allocations": driver_allocations,
    "synchronous_launches": synchronous_launches,
    "code_loading": code_loading,
    "serial_communication": serial_communication,
}
"""Programs that give a rule a reason to speak, as they are and as it advises."""


def own_rates(rule: str, seeds: Iterable[int]) -> Counter[str]:
    """Count for a rule of :data:`OWN_PROGRAMS` what :func:`rates` counts, and programs with a reason but no finding."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        before, after = (graph_of_run(OWN_PROGRAMS[rule](seed, followed=followed)) for followed in (False, True))
        facts = PathFacts(hg.critical_path(before, hg.whole()))
        saved, whole = facts.priced.length_ns - hg.critical_path(after, hg.whole()).length_ns, facts.priced.length_ns
        found = next((one for one in replayed_advice(facts) if one.rule == rule), None)
        counts["fired" if found else "silent"] += 1
        if found:
            counts["wrong"] += saved < WORTH * whole
            counts["above"] += saved > (found.saves_at_most_ns or 0)
            counts["above rows"] += saved > (found.bound_ns or 0)
            counts["kept"] += abs(saved - (found.saves_ns or 0)) <= CLOSE * whole
        else:
            counts["wrongly silent"] += saved >= 2 * NOTABLE_SHARE * whole
    return counts


FEWEST_STEPS = 3
"""The first step is unlike the others, and the last one may be."""


def same_window(path: hg.CriticalPath, graph: hg.DependencyGraph) -> hg.CriticalPath:
    """Return the path of the same window in another run."""
    return hg.critical_path(graph, hg.whole() if path.window.step is None else hg.step(path.window.step))


def spins(program: Program) -> bool:
    """Tell whether a thread spins anywhere."""
    bodies = [thread.body for thread in program.threads]
    while bodies:
        for statement in bodies.pop():
            if isinstance(statement, Poll):
                return True
            bodies += [statement.body] if isinstance(statement, Op | Annotation | Frame | Backward) else []
    return False


def guard_rates(family: str, seeds: Iterable[int], size: int) -> Counter[str]:
    """Count programs of which the rule ``host_poll`` is left out: those that spin, the others, and those warned.

    Of those that spin, the ones are misled whose path the rule would have changed by a tenth.
    """
    counts: Counter[str] = Counter()
    for seed in seeds:
        program = spinning_loop(seed) if family == "spinning" else random_program(seed, family, size)  # type: ignore[arg-type]
        path = whole_path(program)
        rules = [rule for rule in hg.DEFAULT_RULES if rule is not host_poll]
        poorer = hg.critical_path(hg.build_graph(path.graph.trace, rules), hg.whole())
        lost = poorer.by_bound_ns["cpu_gap"] - path.by_bound_ns["cpu_gap"]
        kind = "others" if not spins(program) else "misled" if lost >= MISLED * path.length_ns else "spin"
        counts[kind] += 1
        counts[f"{kind}, warned"] += any(finding.rule == "host_may_poll" for finding in verdict_of(PathFacts(poorer)))
    return counts


def spinning_loop(seed: int) -> Program:
    """Make a loop that waits for a long kernel by spinning and only then launches more work on another stream."""
    rng = random.Random(f"spinning {seed}")
    stream, other = Stream(7), Stream(20)
    once = (
        Launch(stream, rng.randint(200_000, 2_000_000), "dispatch"), Poll(stream, rng.randint(0, 20_000)),
        Op("aten::bmm", (Gap(rng.randint(5_000, 100_000)), Launch(other, rng.randint(5_000, 300_000), "gemm"))),
    )  # fmt: skip
    return Program.of(*once * rng.randint(3, 20))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Is advice true? Simulated programs, run again as advised.")
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the first seed: rules were made with those below 4,000")
    parser.add_argument("--size", type=int, default=400)
    options = parser.parse_args()
    seeds, families = range(options.first, options.first + options.programs), ("pytorch", "experts")
    promises = ("kept", "kept, doubted", "doubted", "neither")
    columns = ("fired", "wrong", "above", "above rows", *promises, "spin", "spin, kept")
    for family, of_steps in ((family, of_steps) for of_steps in (False, True) for family in families):
        counts = rates(family, seeds, options.size, of_steps=of_steps)
        window = "iteration" if of_steps else "whole run"
        for rule in CHANGES:
            said = "".join(f" {key} {counts[rule, key]:3}" for key in columns)
            sys.stdout.write(f"{family:8} {window:9} {rule:22}{said}\n")
            sys.stdout.flush()
    for rule in OWN_PROGRAMS:
        sys.stdout.write(f"{rule:24} {dict(sorted(own_rates(rule, seeds).items()))}\n")
        sys.stdout.flush()
    for kind in (*families, "arbitrary", "spinning"):
        sys.stdout.write(f"{kind:10} host_may_poll {dict(sorted(guard_rates(kind, seeds, options.size).items()))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
