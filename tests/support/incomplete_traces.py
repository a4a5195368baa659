"""Traces that lack something: a GPU, steps, launches, events, an end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.simulator import Dialect, random_program, simulate, to_bytes, write
from tests.support.trace_builder import PID, TraceBuilder


def simulated_bytes(dialect: Dialect, rank: int = 0, world: int = 1) -> bytes:
    document = write(simulate(random_program(rank + 3, "pytorch", 40)), dialect).document
    document["distributedInfo"] = {"rank": rank, "world_size": world}
    return to_bytes(document)


def cpu_only(folder: Path) -> list[Path]:
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 50)
    trace.op("aten::add", 0, 5)
    trace.op("aten::mm", 10, 30)
    return [trace.write(folder / "cpu.json")]


def no_steps(folder: Path) -> list[Path]:
    trace = TraceBuilder(distributedInfo={"rank": 3, "world_size": 8})
    trace.op("aten::mm", 0, 9)
    trace.launch("gemm", (1, 2), (10, 20), 1)
    return [trace.write(folder / "one_of_eight.json")]


def no_events(folder: Path) -> list[Path]:
    return [TraceBuilder().write(folder / "empty.json")]


def only_metadata(folder: Path) -> list[Path]:
    trace = TraceBuilder()
    trace.row(ph="M", name="process_name", pid=PID, tid=0, ts=0, args={"name": "python"})
    return [trace.write(folder / "metadata.json")]


def only_instants(folder: Path) -> list[Path]:
    trace = TraceBuilder()
    trace.row(ph="i", cat="cpu_instant_event", name="[memory]", pid=PID, tid=1, ts=10, args={"Bytes": 5})
    return [trace.write(folder / "instants.json")]


def work_of_no_time_without_launches(folder: Path) -> list[Path]:
    trace = TraceBuilder()
    for at in range(3):
        trace.kernel("k", 10, 10, at + 1)
        trace.copy("Memcpy HtoD (Pageable -> Device)", 10, 10, at + 10)
    return [trace.write(folder / "no_time.json")]


def nothing_but_communication(folder: Path) -> list[Path]:
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 30)
    trace.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", (1, 2), (10, 20), 1)
    return [trace.write(folder / "nccl.json")]


def cuda(folder: Path) -> list[Path]:
    return [saved_file(folder / "cuda.json", simulated_bytes(Dialect()))]


def amd(folder: Path) -> list[Path]:
    return [saved_file(folder / "amd.json", simulated_bytes(Dialect(vendor="rocm")))]


def two_vendors(folder: Path) -> list[Path]:
    for rank, vendor in enumerate(("cuda", "rocm")):
        saved_file(folder / f"rank{rank}.json", simulated_bytes(Dialect(vendor=vendor), rank, 2))  # type: ignore[arg-type]
    return [folder]


def broken_off(folder: Path) -> list[Path]:
    whole = simulated_bytes(Dialect())
    return [saved_file(folder / "broken.json", whole[: len(whole) // 3])]


def saved_file(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


POOR_TRACES: tuple[Callable[[Path], list[Path]], ...] = (
    cpu_only,
    no_steps,
    no_events,
    only_metadata,
    only_instants,
    work_of_no_time_without_launches,
    nothing_but_communication,
    cuda,
    amd,
    two_vendors,
    broken_off,
)
TELLING = (cpu_only, only_instants, cuda)
"""A trace without GPU work, one without events that take time, a usual one: the others are looked at once or deep."""
