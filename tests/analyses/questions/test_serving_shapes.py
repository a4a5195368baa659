"""Serving of other shapes than continuous batching at full load: what the first sentence says is what was done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Literal

import pytest

import hta_graph as hg
from analyses.declare.answer import Answer
from analyses.declare.scope import whole
from analyses.questions.serving import answer
from tests.support.command_line import run_command
from tests.support.trace_builder import TraceBuilder

SCHEDULE = "vllm/v1/core/sched/scheduler.py(212): schedule"


class ServingHost:
    """What threads do one after the other; ``now`` is the host's time, which may be set."""

    def __init__(self) -> None:
        self.trace = TraceBuilder()
        self.now = 0.0
        self._free: dict[int, float] = {}
        self._correlation = 0

    @contextmanager
    def scope(self, name: str, tid: int = 1) -> Iterator[None]:
        """Annotate what is done inside; a Python frame where the name is one."""
        since = self.now
        yield
        (self.trace.frame if "py(" in name else self.trace.annotation)(name, since, self.now, tid=tid)

    def part(self, name: str, us: float, tid: int = 1) -> None:
        """Spend time in a scope."""
        with self.scope(name, tid):
            self.now += us

    def run(
        self, us: float, *, tid: int = 1, device: int = 0, kernels: int = 1,
        form: Literal["kernel", "graph"] = "kernel", has_call: bool = True,
    ) -> None:  # fmt: skip
        """Launch work."""
        self._correlation += 1
        called, self.now = self.now, self.now + 10
        if has_call:
            call = "cudaGraphLaunch" if form == "graph" else "cudaLaunchKernel"
            self.trace.call(call, called, self.now, self._correlation, tid=tid)
        start = max(self._free.get(device, 0.0), called + 5)
        for number in range(kernels):
            end = start + us / kernels
            self.trace.kernel(f"gemm{number}", start, end, self._correlation, device=device)
            start = end
        self._free[device] = start

    def wait(self, tid: int = 1, device: int = 0) -> None:
        """Wait for the GPU."""
        end = max(self._free[device], self.now) + 5
        self.trace.call("cudaStreamSynchronize", self.now, end, tid=tid)
        self.now = end

    def decode(self, us: float = 3_000, batch: int = 8, tid: int = 1, device: int = 0) -> None:
        """Schedule, and run a decode step of vLLM's to its end."""
        self.part(SCHEDULE, 50, tid)
        with self.scope(f"execute_context_0(0)_generation_{batch}({batch})", tid):
            self.now += 20
            self.run(us, tid=tid, device=device, kernels=4, form="graph")
            self.wait(tid, device)
        self.now += 1


def answered(trace: TraceBuilder, folder: Path) -> Answer:
    return answer([whole(0, hg.build_graph(hg.read_trace(trace.write(folder / "serving.json"))))])


def test_a_server_without_requests_is_not_called_slow(tmp_path: Path) -> None:
    host = ServingHost()
    for _ in range(10):
        with host.scope("vllm/v1/engine/core.py(700): _process_input_queue"):
            host.part("queue.py(154): get", 25_000)
        host.decode()
    found = answered(host.trace, tmp_path)
    assert found.tables["engine_phases"]["bound_by"].tolist() == ["too_few_requests"]
    (said,) = found.conclusion
    assert "largest cause of idle time: no requests to compute (" in said
    assert "only more requests use that time" in said
    assert "removing it" not in said


@pytest.mark.parametrize("turns", [0, 1, 200])
def test_a_loop_that_turns_without_a_step_has_no_requests(tmp_path: Path, turns: int) -> None:
    host = ServingHost()
    for _ in range(8):
        for turn in range(turns + 1):
            host.part("scheduler.recv_requests", 40)
            host.part("scheduler.get_next_batch_to_run", 60 if turn < turns else 900)
        with host.scope("scheduler.run_batch"), host.scope("step[DECODE bs=1]"):
            host.run(2_000)
            host.wait()
    gaps = answered(host.trace, tmp_path).tables["step_gaps"].set_index("cause")["idle_ns"]
    # Before the first step nothing is counted.
    assert gaps.get("no_requests", 0) == 7 * turns * 100_000
    assert gaps["scheduler"] == 7 * 900_000
    assert gaps["requests"] == 7 * 40_000


def test_idle_time_before_draft_steps_is_named_with_verify_steps(tmp_path: Path) -> None:
    host = ServingHost()
    for _ in range(6):
        host.part("scheduler.get_next_batch_to_run", 2_000)
        for name, us in (("DRAFT", 1_000), ("DRAFT", 1_000), ("VERIFY", 8_000)):
            with host.scope("scheduler.run_batch"), host.scope(f"step[{name} bs=4]"):
                host.run(us, form="graph")
        host.wait()
    (said,) = answered(host.trace, tmp_path).conclusion
    assert said.startswith("6 verify steps of batch 4: ")
    assert (
        "; over all steps the GPU is idle 14% of the time, mostly in draft steps: the scheduler (>99% of that, " in said
    )
    assert "12 draft steps take " in said


def test_a_single_pause_is_that_of_its_step(tmp_path: Path) -> None:
    host = ServingHost()
    for number in range(12):
        if number == 7:
            host.part("Garbage Collection", 60_000)
        host.decode()
    (said,) = answered(host.trace, tmp_path).conclusion
    assert (
        "(99% of it, Garbage Collection); most of it is in step 7 alone, where removing it saves at most 60.0 ms"
        in said
    )


def test_work_without_a_launch_is_counted_and_belongs_to_no_step(tmp_path: Path) -> None:
    host = ServingHost()
    for number in range(10):
        with host.scope("step[DECODE bs=6]"):
            for _ in range(4):
                host.run(1_000, has_call=not 2 <= number < 5)
            host.wait()
    found = answered(host.trace, tmp_path)
    assert "rank 0: 12 GPU activities (12.0 ms) have no recorded launch and count for no step" in map(str, found.notes)
    steps = found.tables["engine_steps"]
    assert steps["activities"].tolist() == [4, 4, 0, 0, 0, 4, 4, 4, 4, 4]
    # The GPU works meanwhile, for whomever.
    assert (steps["idle_before_ns"] + steps["idle_inside_ns"]).max() < 50_000


@pytest.mark.parametrize("tids", [(1, 2), (1, 1)])
def test_two_engines_in_one_process_are_said(tmp_path: Path, tids: tuple[int, int]) -> None:
    host = ServingHost()
    for device, tid in enumerate(tids):
        host.now = 5.0 if tid == 2 else host.now
        for _ in range(6):
            host.decode(3_000 + 2_000 * device, 4 + device, tid, device)
    notes = [str(note) for note in answered(host.trace, tmp_path).notes]
    is_said = any("2 threads name steps at the same time" in note for note in notes)
    assert is_said == (tids[0] != tids[1])


@pytest.mark.parametrize("waits", [True, False])
def test_a_thread_that_is_waited_for_is_the_cause_also_without_frames(tmp_path: Path, waits: bool) -> None:
    """Another thread makes text while the results are processed, which take as long only where they wait for it."""
    host = ServingHost()
    for number in range(8):
        with host.scope("step[DECODE bs=4]"):
            host.run(2_000)
            host.wait()
        begins, took = host.now, 1_000.0 + 100 * (number % 3)
        host.trace.annotation("detokenize", begins + 20, begins + 20 + took, tid=9)
        host.part("scheduler.process_batch_result", took + (60 if waits else 900))
    causes = answered(host.trace, tmp_path).tables["step_gaps"]["cause"]
    assert causes.iloc[0] == ("tokenizer" if waits else "output")


def random_text_thread(seed: int, folder: Path, *, waits: bool) -> bool:
    """Return whether the text thread is named as the largest cause, without Python frames.

    The engine waits for it, or takes as long for its results, by chance.
    """
    rng, host, free = Random(f"text {seed}"), ServingHost(), 0.0
    for _ in range(rng.randint(3, 24)):
        with host.scope("step[DECODE bs=4]"):
            host.run(2_000)
            host.wait()
        begins, took = max(host.now + rng.uniform(5, 60), free), rng.lognormvariate(6.5, 0.6)
        free = begins + took
        host.trace.annotation("detokenize", begins, free, tid=9)
        until_waited = free - host.now + rng.uniform(5, 120)
        host.part("scheduler.process_batch_result", until_waited if waits else rng.lognormvariate(6.5, 0.6))
    gaps = answered(host.trace, folder).tables["step_gaps"].groupby("cause")["idle_ns"].sum()
    return gaps.get("tokenizer", 0) > gaps.get("output", 0)


@pytest.mark.slow
def test_a_wait_without_frames_is_found_and_hardly_ever_invented(tmp_path: Path) -> None:
    found = [[random_text_thread(seed, tmp_path, waits=waits) for seed in range(60)] for waits in (True, False)]
    assert sum(found[0]) >= 42
    assert sum(found[1]) <= 1


@pytest.mark.slow
def test_runs_whose_time_is_in_other_phases_are_compared_by_a_common_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def served(name: str, prefill_us: float, decode_us: float) -> Path:
        host = ServingHost()
        for _ in range(8):
            host.part(SCHEDULE, 30)
            with host.scope("execute_context_1(900)_generation_0(0)"):
                host.run(prefill_us)
                host.wait()
            host.decode(decode_us)
        return host.trace.write(tmp_path / name)

    prefill, decode = served("prefill.json", 9_000, 4_000), served("decode.json", 9_000, 12_000)
    said = run_command(capsys, "diff", prefill, decode)[1].splitlines()[0]
    # Of both runs most time is in decode steps.
    assert "median 4.080 ms → 12.080 ms over 8 and 8 steps" in said


def test_runs_without_a_common_phase_are_compared_as_a_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for mode in ("DECODE", "VERIFY"):
        host = ServingHost()
        for _ in range(5):
            with host.scope(f"step[{mode} bs=4]"):
                host.run(5_000)
                host.wait()
        files.append(host.trace.write(tmp_path / f"{mode}.json"))
    status, printed, _ = run_command(capsys, "diff", *files)
    assert status == 0
    assert printed.startswith("No difference in length beyond noise: 25.050 ms → 25.050 ms ")
