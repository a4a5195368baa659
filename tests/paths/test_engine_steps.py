"""Steps of inference engines on simulated runs whose truth is known: phases, own work, iterations (times in µs)."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.paths.engine_step_table import engine_step_table
from hta_graph.paths.step_table import step_rows
from hta_graph.paths.windows import annotation, median_step, step, step_lengths
from tests.support.command_line import command_json, one_error, run_command
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import TraceBuilder

BUCKETS = (1, 2, 4, 8, 16)
BUDGET = 512
"""Tokens of a step: longer prompts are prefilled in chunks."""


@dataclass
class Truth:
    """What a simulated step does."""

    phase: str
    requests: int
    tokens: int
    rows: int
    end: float
    busy: float
    begins: float
    graphs: int


@dataclass
class Engine:
    """A server with continuous batching, chunked prefill, graphs for padded decode batches, one stream.

    The host launches ``ahead`` steps before the GPU has ended the one before; ``style`` is whose names it writes.
    """

    style: str = "vllm"
    ahead: int = 0
    trace: TraceBuilder = field(default_factory=TraceBuilder)
    host: float = 0
    gpu: float = 0
    corr: int = 0
    ends: list[float] = field(default_factory=list)
    truth: list[Truth] = field(default_factory=list)

    def serve(self, prompts: list[tuple[int, int]], most: int = 8) -> None:
        """Serve prompts of some length, each with some tokens to decode; at most so many at a time."""
        waiting, running = [list(one) for one in prompts], list[list[int]]()
        while waiting or running:
            decode = len(running)
            budget, chunks, begun = BUDGET - decode, 0, list[list[int]]()
            tokens = 0
            while waiting and budget > 0 and len(running) + len(begun) < most:
                taken = min(waiting[0][0], budget)
                waiting[0][0] -= taken
                budget, chunks, tokens = budget - taken, chunks + 1, tokens + taken
                if waiting[0][0]:
                    break
                begun.append(waiting.pop(0))
            self.step(chunks, tokens, decode)
            for one in running:
                one[1] -= 1
            running = [one for one in [*running, *begun] if one[1] > 0]

    def step(self, prefill: int, tokens: int, decode: int) -> None:
        """Run a step of some prefilled requests, their tokens, and some decoding requests."""
        phase = "mixed" if prefill and decode else "prefill" if prefill else "decode"
        start, names = self.host, self._names(phase, prefill, tokens, decode)
        self.host += 12
        self.host = self._enqueue("cudaMemcpyAsync", 2, [("Memcpy HtoD (Pinned -> Device)", 3)])
        first = len(self.trace.rows)
        graphs = 0
        if phase == "decode":
            padded = next(size for size in BUCKETS if size >= decode)
            self.host = self._enqueue("cudaGraphLaunch", 8, [("gemm", 4.0 + padded), ("attention", 6), ("norm", 2)])
            graphs = 1
        else:
            for layer in range(4):
                length = 5 + tokens / 8
                self.host = self._enqueue("cudaLaunchKernel", 3, [(f"gemm{layer % 2}", length)])
        self.host = self._enqueue("cudaMemcpyAsync", 2, [("Memcpy DtoH (Device -> Pinned)", 2)])
        self.ends.append(self.gpu)
        # A synchronous engine waits for its own tokens, others for those of a step before.
        if len(self.ends) > self.ahead:
            until = max(self.ends[-1 - self.ahead], self.host) + 2
            self.trace.call("cudaStreamSynchronize", self.host, until)
            self.host = until
        for inside, name in enumerate(names):
            self.trace.annotation(name, start + inside, self.host - inside)
        own = [row for row in self.trace.rows[first - 2 :] if row["cat"] in ("kernel", "gpu_memcpy")]
        self.truth.append(
            Truth(
                phase, prefill + decode, tokens + decode, len(own), self.gpu, sum(row["dur"] for row in own),
                self.truth[-1].end if self.truth else min(row["ts"] for row in own), graphs,
            )
        )  # fmt: skip
        self.host += 5

    def _enqueue(self, call: str, length: float, work: list[tuple[str, float]]) -> float:
        self.corr += 1
        self.trace.call(call, self.host, self.host + length, self.corr)
        self.gpu = max(self.gpu, self.host + length + 1)
        for name, runs in work:
            kind = self.trace.copy if name.startswith("Memcpy") else self.trace.kernel
            kind(name, self.gpu, self.gpu + runs, self.corr)
            self.gpu += runs
        return self.host + length

    def _names(self, phase: str, prefill: int, tokens: int, decode: int) -> list[str]:
        vllm = f"execute_context_{prefill}({tokens})_generation_{decode}({decode})"
        mode = {"prefill": "EXTEND", "decode": "DECODE", "mixed": "MIXED"}[phase]
        more = {
            "prefill": f" toks={tokens}",
            "decode": "",
            "mixed": f" c={prefill} g={decode} c_sq={tokens} c_sk={tokens} g_sq={decode} g_sk={decode}",
        }[phase]
        sglang = f"step[{mode} bs={prefill + decode}{more}]"
        return {"vllm": [vllm], "sglang": [sglang], "nested": [vllm, sglang]}[self.style]


def random_engine(seed: int, style: str, ahead: int) -> Engine:
    """Serve random prompts."""
    rng, engine = random.Random(seed), Engine(style, ahead)
    engine.serve([(rng.randint(20, 1200), rng.randint(1, 12)) for _ in range(rng.randint(3, 9))])
    return engine


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ahead", [0, 1])
@pytest.mark.parametrize("style", ["vllm", "sglang", "nested"])
@pytest.mark.parametrize("seed", range(4))
def test_steps_and_phases_of_simulated_engines_are_found(tmp_path: Path, style: str, ahead: int, seed: int) -> None:
    engine = random_engine(seed, style, ahead)
    graph = engine.trace.graph(tmp_path)
    table = engine_step_table(graph)
    assert [(row.phase, row.engine.requests, row.engine.tokens) for row in table] == [
        (one.phase, one.requests, one.tokens) for one in engine.truth
    ]
    assert [(len(row.rows), row.graph_launches) for row in table] == [(one.rows, one.graphs) for one in engine.truth]
    assert sum(len(row.rows) for row in table) == int(graph.is_gpu.sum())
    for row, one in zip(table, engine.truth, strict=True):
        assert row.busy_ns == pytest.approx(one.busy * 1e3, abs=10)
        assert row.iteration_ns == pytest.approx((one.end - one.begins) * 1e3, abs=10)
        assert row.busy_ns + row.idle_before_ns + row.idle_inside_ns == row.iteration_ns
    # The default is the median step of the phase that takes most time.
    time = {phase: sum(row.own_ns for row in table if row.phase == phase) for phase in {row.phase for row in table}}
    window = median_step()(graph)
    chosen = next(row for row in table if row.number == window.step)
    assert time[chosen.phase] == max(time.values())
    assert (window.form, window.end_ns - window.start_ns) == ("gpu", chosen.iteration_ns)
    assert window.label == f"{chosen.phase} step {chosen.number}"


def test_what_a_step_waits_for_of_the_step_before_is_said_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = Engine("sglang", ahead=1)
    engine.step(4, 4000, 0)
    engine.step(0, 0, 4)
    engine.step(0, 0, 4)
    graph = engine.trace.graph(tmp_path)
    row = engine_step_table(graph)[1]
    assert row.waits_ns > 0.8 * row.latency_ns
    file = str(engine.trace.write(tmp_path / "trace.json"))
    for window in (["--step", "1"], ["--annotation", "step[DECODE bs=4]"]):
        _, printed, _ = run_command(capsys, "critical-path", file, *window)
        first, *rest = printed.splitlines()
        assert first.startswith("decode step 1 of batch 4: ")
        assert "latency waits for prefill step 0 of batch 4 (4,000 tokens)" in first
        # The prefill's products are another step's.
        assert not any("gemm0" in line or "gemm1" in line for line in rest)
    own = {graph.names[code] for code in graph.event_table.name[row.rows].tolist()}
    path = hg.critical_path(graph, step(1))
    on_gpu = [one for one in path.event_totals()["name"] if one and one.startswith(("gemm", "attention"))]
    assert set(on_gpu) <= own


def test_the_first_sentence_names_phase_count_batch_and_the_other_phases(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = Engine()
    engine.serve([(100, 30), (100, 30)])
    file = str(engine.trace.write(tmp_path / "trace.json"))
    first = run_command(capsys, "critical-path", file)[1].splitlines()[0]
    assert first.startswith("30 decode steps of batch 2: bound by ")
    assert all(text in first for text in ("; median ", "GPU idle", "1 prefill step takes", "% of the time"))
    document = command_json(capsys, "critical-path", file)
    assert document["window"]["label"].startswith("decode step ")


def test_every_step_is_listed_with_phase_and_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = random_engine(1, "vllm", 1)
    graph = engine.trace.graph(tmp_path)
    assert [(row.phase, row.requests, row.tokens) for row in step_rows(graph)] == [
        (one.phase, one.requests, one.tokens) for one in engine.truth
    ]
    _, printed, _ = run_command(capsys, "critical-path", str(tmp_path / "trace.json"), "--per-step")
    assert all(heading in printed for heading in ("phase", "batch", "tokens"))
    assert len([line for line in printed.splitlines() if "decode" in line or "prefill" in line or "mixed" in line]) == (
        len(engine.truth)
    )


def test_steps_in_json_have_phase_batch_and_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = Engine()
    engine.serve([(300, 3), (200, 2)])
    path = str(engine.trace.write(tmp_path / "t.json"))
    told = [{"phase": one.phase, "requests": one.requests, "tokens": one.tokens} for one in engine.truth]
    documents = [
        command_json(capsys, "critical-path", path),
        command_json(capsys, "critical-path", path, "--per-step"),
        command_json(capsys, "what-if", path),
        command_json(capsys, "info", path)["ranks"][0],
        {"steps": command_json(capsys, "diff", path, path)["steps"]["test"]},
    ]
    for found in documents:
        assert [{key: step[key] for key in told[0]} for step in found["steps"]] == told
    _, printed, _ = run_command(capsys, "info", path)
    (line,) = [line for line in printed.splitlines() if line.startswith("phases: ")]
    assert all(f" {one.phase} step" in line for one in engine.truth)


def test_steps_of_training_in_json_have_no_phase(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 100)
    trace.launch("gemm", (10, 12), (20, 30), 1)
    found = command_json(capsys, "info", str(trace.write(tmp_path / "t.json")))
    assert list(found["ranks"][0]["steps"][0]) == ["step", "start_ns", "end_ns"]


def test_an_outlier_is_one_of_its_phase(tmp_path: Path) -> None:
    engine = Engine()
    engine.step(4, 4000, 0)
    for at in range(9):
        if at == 5:
            engine.trace.call("cudaMalloc", engine.host, engine.host + 400)
            engine.host += 400
        engine.step(0, 0, 4)
    rows = step_rows(engine.trace.graph(tmp_path))
    assert [row.step for row in rows if row.outlier] == [6]


def test_the_last_call_without_gpu_work_is_dropped_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = Engine()
    for _ in range(3):
        engine.step(0, 0, 2)
    engine.trace.annotation("execute_context_0(0)_generation_2(2)", engine.host, engine.host + 30)
    graph = engine.trace.graph(tmp_path)
    assert (len(graph.steps()), graph.trace.calls_without_work) == (3, 1)
    _, printed, _ = run_command(capsys, "critical-path", str(tmp_path / "trace.json"))
    assert "The last 1 call of the engine launched no GPU work in the recording and is not counted." in printed


def test_dummies_and_scopes_do_not_count_and_keep_their_work(tmp_path: Path) -> None:
    engine = Engine()
    engine.step(0, 0, 2)
    engine.trace.annotation("dummy_decode[bs=1/8 tok=1 d=1]", engine.host, engine.host + 20)
    engine.host = engine._enqueue("cudaLaunchKernel", 3, [("dummy", 9)]) + 20
    engine.trace.annotation("gpu_model_runner: forward", engine.host + 1, engine.host + 5)
    engine.step(0, 0, 2)
    table = engine_step_table(engine.trace.graph(tmp_path))
    assert [len(row.rows) for row in table] == [one.rows for one in engine.truth]


def profiled(engine: Engine, first: float, last: float, number: int) -> None:
    engine.trace.annotation(f"ProfilerStep#{number}", first, last)


def test_a_profiler_step_wins_unless_it_spans_several_steps(tmp_path: Path) -> None:
    one = Engine()
    for number in range(3):
        begin = one.host
        one.step(0, 0, 2)
        profiled(one, begin - 1, one.host - 4, number)
    graph = one.trace.graph(tmp_path)
    assert [(item.label, item.phase) for item in graph.steps()] == [(f"ProfilerStep#{n}", "decode") for n in range(3)]
    several = Engine()
    for number in range(3):
        begin = several.host
        several.step(0, 0, 2)
        several.step(0, 0, 2)
        profiled(several, begin - 1, several.host - 4, number)
    labels = [item.label for item in several.trace.graph(tmp_path).steps()]
    assert labels == [f"decode step {number}" for number in range(6)]


def test_frames_of_vllm_stand_for_annotations_that_are_not_recorded(tmp_path: Path) -> None:
    engine = Engine()
    engine.step(1, 300, 0)
    engine.step(0, 0, 1)
    for row in engine.trace.rows:
        if row["cat"] == "user_annotation":
            row |= {"cat": "python_function", "name": "vllm/v1/worker/gpu_worker.py(521): execute_model"}
    table = engine_step_table(engine.trace.graph(tmp_path))
    assert [(row.phase, row.graph_launches) for row in table] == [("eager", 0), ("graph", 1)]


def test_model_inference_is_a_step_only_of_xdit(tmp_path: Path) -> None:
    # Others call their own ranges so, for one PyTorch's introduction to its profiler.
    trace = TraceBuilder()
    trace.annotation("model_inference", 0, 100)
    trace.launch("gemm", (10, 12), (20, 60), 1)
    assert not trace.graph(tmp_path).steps()
    trace.frame("xfuser/model_executor/pipelines/base_pipeline.py(1): __call__", 1, 90)
    assert [item.label for item in trace.graph(tmp_path).steps()] == ["image step 0"]


def test_own_patterns_make_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = TraceBuilder()
    for number in range(4):
        trace.annotation(f"turn decode {8 + number}", 100 * number, 100 * number + 50)
        trace.launch("gemm", (100 * number + 5, 100 * number + 9), (100 * number + 20, 100 * number + 60), number + 1)
    file = str(trace.write(tmp_path / "trace.json"))
    pattern = r"turn (?P<phase>\w+) (?P<batch>\d+)"
    first = run_command(capsys, "critical-path", file, "--step-pattern", pattern)[1].splitlines()[0]
    assert first.startswith("4 decode steps of batch 8 to 11: ")
    (graph,) = hg.read_graphs(file, step_patterns=[pattern])
    assert [one.phase for one in step_lengths(graph)] == ["decode"] * 4


def test_a_group_that_is_no_number_is_said_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = TraceBuilder()
    trace.annotation("turn x", 0, 50)
    trace.launch("gemm", (5, 9), (20, 60), 1)
    file = trace.write(tmp_path / "trace.json")
    for group in ("batch", "tokens"):
        ask = ("serving", file, "--step-pattern", f"turn (?P<{group}>.*)")
        line = one_error(capsys, tmp_path, *ask, status=2)
        assert f"group {group} of 'turn (?P<{group}>.*)' is no whole number: 'x'; write (?P<{group}>[0-9]+)" in line


@pytest.mark.parametrize("name", ["step[DECODE bs={}]", "turn {}"])
def test_absurd_and_empty_numbers_of_names_are_unknown(tmp_path: Path, name: str) -> None:
    for digits in ("9" * 25, "9" * 5_000, ""):
        trace = TraceBuilder()
        trace.annotation(name.format(digits), 0, 50)
        trace.launch("gemm", (5, 9), (20, 60), 1)
        (graph,) = hg.read_graphs(trace.write(tmp_path / "t.json"), step_patterns=[r"turn (?P<batch>\d*)"])
        assert [row.engine.requests for row in engine_step_table(graph)] == ([None] if digits or "turn" in name else [])


def test_the_first_step_begins_after_work_from_before_the_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = TraceBuilder()
    trace.annotation("step[DECODE bs=4]", 0, 9_000)
    trace.launch("early", (10, 12), (8_000, 8_010), 1)
    trace.launch("gemm", (20, 22), (8_010, 8_500), 2)
    graph = trace.graph(tmp_path)
    (row,) = engine_step_table(graph)
    window = step(0)(graph)
    assert (window.start_ns % 10**9, window.end_ns - window.start_ns) == (8_000_000, 500_000)
    assert (row.own_ns, row.idle_ns, row.latency_ns) == (500_000, 0, 8_500_000)
    # Its first kernel starts 50 µs after the return of its launch at the latest.
    assert row.unrecorded_ns == 8_000_000 - 12_000 - 50_000
    said = run_command(capsys, "critical-path", str(tmp_path / "trace.json"))[1].splitlines()[0]
    assert "; it first waits 7.94 ms for GPU work from before the recording" in said
    said = run_command(capsys, "serving", str(tmp_path / "trace.json"))[1]
    assert "decode step 0: 7.94 ms of its 8.50 ms latency waits for GPU work from before the recording" in said


def test_an_annotation_in_a_step_that_names_no_step_is_a_window_of_its_own(tmp_path: Path) -> None:
    engine = Engine()
    engine.step(0, 0, 2)
    engine.trace.annotation("sample", 4, 10)
    graph = engine.trace.graph(tmp_path)
    assert annotation("sample")(graph).step is None
    assert annotation("execute_context_0(0)_generation_2(2)")(graph).step == 0
    assert annotation("execute_context_0(0)_generation_2(2)", cpu_window=True)(graph).form == "cpu"


def test_diff_compares_each_phase_with_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for name, slower in (("before", 0), ("after", 15)):
        engine = Engine()
        for number in range(20):
            is_mixed = number % 5 == 0
            engine.step(1, 300, 7) if is_mixed else engine.step(0, 0, 8)
            engine.host += 0 if is_mixed else slower
        files.append(engine.trace.write(tmp_path / f"{name}.json"))
    status, printed, _ = run_command(capsys, "diff", *files)
    assert status == 0
    assert "0.052 ms → 0.067 ms" in printed.splitlines()[0]


def test_a_job_of_two_ranks_has_the_steps_of_its_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(2):
        engine = random_engine(3, "vllm", 1)
        engine.trace.header = {"distributedInfo": {"rank": rank, "world_size": 2}}
        engine.trace.write(tmp_path / f"rank{rank}.json")
    job = hg.read_job(tmp_path)
    assert [item.phase for item in job.steps()] == [one.phase for one in engine.truth]
    assert [one.phase for one in step_lengths(job)] == [one.phase for one in engine.truth]
    _, printed, _ = run_command(capsys, "critical-path", tmp_path)
    assert " steps of batch " in printed.splitlines()[0]
    # The same of summaries, whose ranks hold few rows.
    few = hg.read_job(tmp_path, summaries=True)
    assert [item.phase for item in few.steps()] == [item.phase for item in job.steps()]
    assert median_step()(few).step == median_step()(job).step


SAMPLES = (
    # file, step: phase, requests, tokens, iteration, busy, idle (ms), graph launches, activities, of these in graphs
    ("vllm_decode_full/replay", 0, "decode", 32, 32, 10.743, 10.718, 0.025, 1, 434, 421),
    ("vllm_prefilldecode_piecewise/replay", 0, "mixed", 46, 8192, 156.466, 156.086, 0.381, 25, 423, 361),
    ("sglang/two_steps_joined", 0, "prefill", 15, 15360, 987.289, 492.807, 494.482, 0, 534, 0),
    ("sglang/two_steps_joined", 1, "decode", 32, 32, 10.468, 9.769, 0.699, 1, 558, 544),
    ("xdit_flux.1_aiter_sage/replay", 0, "image", 1, None, 226.596, 201.352, 25.244, 4, 7866, 6264),
)


@pytest.mark.sampled(3)
@pytest.mark.shared
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda one: f"{one[0]}-{one[1]}")
def test_steps_of_real_engines(
    sample: tuple[str, int, str, int, int | None, float, float, float, int, int, int],
) -> None:
    name, place, phase, requests, tokens, *lengths, graphs, activities, in_graphs = sample
    graph = hg.build_graph(SHARED / "serving" / f"{name}.json.gz")
    table = engine_step_table(graph)
    row = table[place]
    assert (row.phase, row.engine.requests, row.engine.tokens) == (phase, requests, tokens)
    idle = row.idle_before_ns + row.idle_inside_ns
    assert [ns / 1e6 for ns in (row.iteration_ns, row.busy_ns, idle)] == pytest.approx(lengths, abs=0.02)
    assert (row.graph_launches, row.activities, row.activities_in_graphs) == (graphs, activities, in_graphs)
    assert sum(len(one.rows) for one in table) == int((graph.launching_call >= 0).sum())


BOUND, CAUSE = "bound by GPU compute", "largest cause: GPU compute, "
FIRST_SENTENCES = (
    # file, how critical-path begins, what bounds the step, what is gained; how what-if begins
    (
        "vllm_decode_full/replay",
        "1 decode step of batch 32: bound by GPU compute",
        "at most 5.34 ms (50%) shorter",
        CAUSE,
    ),
    (
        "vllm_prefilldecode_piecewise/replay",
        "1 mixed step of batch 46 (8,192 tokens): bound by GPU compute",
        "at most 78.0 ms (50%) shorter",
        CAUSE,
    ),
    (
        "sglang/replay",
        "1 decode step of batch 32: bound by GPU compute",
        "463.3 ms for GPU work from before the",
        CAUSE,
    ),
    (
        "sglang/two_steps_joined",
        "1 prefill step of batch 15 (15,360 tokens): bound by GPU compute",
        "; largest change: aten::mm nearer its limit, 137.2 ms (28%)",
        "largest change: aten::mm nearer its limit, 137.2 ms (28%)",
    ),
    (
        "xdit_flux.1_aiter_sage/replay",
        "1 image step of 1 × 256×256: bound by GPU compute",
        "at 2x speed, the iteration would be 88.1 ms (39%) shorter",
        CAUSE,
    ),
)


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize(("name", "begins", "says", "leads"), FIRST_SENTENCES, ids=lambda one: one.split(":")[0])
def test_first_sentences_of_real_engines_say_what_is_gained(
    capsys: pytest.CaptureFixture[str], name: str, begins: str, says: str, leads: str
) -> None:
    path = str(SHARED / "serving" / f"{name}.json.gz")
    first = run_command(capsys, "critical-path", path)[1].splitlines()[0]
    assert first.startswith(begins)
    assert says in first
    subject = begins.removesuffix(" bound by GPU compute")
    assert run_command(capsys, "what-if", path)[1].startswith(f"{subject} {leads}")
