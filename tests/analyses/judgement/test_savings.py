"""What advice would save by replay: of which findings it is told, and never more than the bound beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import analyses
import hta_graph as hg
from analyses.advice.facts import PathFacts
from analyses.advice.host_rules import loading_of_window
from analyses.advice.job_verdict import delay_next_to_saving
from analyses.advice.rule import PathFinding
from analyses.advice.rules import RULES, advice_of, verdict_of
from analyses.judgement.pricing import with_savings
from analyses.judgement.verdict import listed_advice, replayed_advice
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.what_if.reliability import reliability_after
from tests.advice_accuracy import CHANGES, changed, graph_of_run
from tests.simulator import Dialect, Program, random_program, write
from tests.simulator.program import Call, Gap, Launch, Op, SyncDevice, ThreadProgram
from tests.simulator.pytorch_idioms import COMPUTE, load_data, step
from tests.simulator.ranks import Fault, JobShape, Recording, ddp, record_job, simulate_job
from tests.support.command_line import command_json, run_command
from tests.support.deep_tests import deep
from tests.support.gloo_builder import MAIN, GlooRank, late_ranks
from tests.support.make_samples import PLAIN, run_of
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import TraceBuilder
from tests.unexplained_reason_accuracy import graph_of

FOLDER = Path(analyses.__file__).parent / "sample"


def replayed(graph: DependencyGraph, window: hg.Window | None = None) -> dict[str, PathFinding]:
    facts = PathFacts(hg.critical_path(graph, window))
    return {one.rule: one for one in with_savings(facts, [*verdict_of(facts), *advice_of(facts)])}


@pytest.mark.parametrize("name", ["sample_trace.json.gz", deep("slower_trace.json.gz"), "four_ranks"])
def test_no_remedy_saves_more_than_its_bound(name: str) -> None:
    path = FOLDER / name
    graph = hg.read_job(path) if path.is_dir() else hg.build_graph(hg.read_trace(path))
    told = 0
    for window in (hg.step(2), hg.step(3), hg.whole()):
        for rule, one in replayed(graph, window).items():
            assert (one.saves_ns is not None) == (RULES[rule].remedy is not None)
            if one.saves_ns is not None and one.saves_at_most_ns is not None:
                assert 0 <= one.saves_ns <= one.saves_at_most_ns <= (one.bound_ns or 0)
                told += 1
    assert told >= 3
    every = (replayed_advice(PathFacts(hg.critical_path(graph, hg.step(number)))) for number in (2, 3))
    assert all(one.saves_ns is None or one.saves_ns > 0 for found in every for one in found), "none is advised in vain"


@pytest.mark.shared
@pytest.mark.parametrize("name", ["ddp_v100/rank1.json.gz", "megatron_tp2_v100", "ep_moe_b200_cuda13/reference"])
def test_no_remedy_saves_more_than_its_bound_on_recordings(name: str) -> None:
    path = SHARED / "traces" / name
    found = replayed(hg.read_job(path) if path.is_dir() else hg.build_graph(hg.read_trace(path)))
    pairs = [(one.saves_ns, one.saves_at_most_ns) for one in found.values() if one.saves_at_most_ns]
    assert pairs
    assert all(saved is None or saved <= most for saved, most in pairs)


def test_waits_that_stay_are_not_removed(tmp_path: Path) -> None:
    """A value is read in mid-step: without that the host launches ahead, and hides its 80 µs behind the first kernel.

    µs       0     10           100           180
    thread   [mm ] [item ~~~~~~~~~~~] [add ...][launch]
    stream     [gemm ~~~~~~~~~~~]                [add ~~~~~]
    """
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 200)
    trace.op("aten::mm", 0, 9)
    trace.launch("gemm", (2, 8), (10, 100), 1)
    trace.op("aten::item", 10, 106)
    trace.call("cudaMemcpyAsync", 12, 14, 2)
    trace.copy("Memcpy DtoH (Device -> Pinned)", 101, 102, 2)
    trace.call("cudaStreamSynchronize", 15, 105, 3)
    trace.op("aten::add", 108, 190)
    trace.launch("add", (180, 188), (192, 300), 4)
    found = replayed(trace.graph(tmp_path), hg.step(1))["values_read"]
    assert found.saves_ns is not None
    assert found.saves_at_most_ns is not None
    assert 70_000 < found.saves_ns <= found.saves_at_most_ns


@pytest.mark.slow
def test_the_rank_that_holds_up_the_job_would_save_what_it_does_longer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    late_ranks(tmp_path, 10, 35, met=True)
    out = run_command(capsys, "critical-path", tmp_path)[1].splitlines()
    assert "63% of the path is on rank 1. At the others' speed step 1 would be 25.0 µs (42%) shorter." in out
    plain, near = (
        command_json(capsys, "critical-path", tmp_path, *more)["verdict"][0] for more in ([], ["--near", "1%"])
    )
    assert (plain["rule"], plain["saves_ns"], near["saves_ns"]) == ("held_up_by_rank", None, 25_000)
    assert command_json(capsys, "report", tmp_path)["verdict"][0] == near


def test_a_rank_that_computes_late_since_it_loaded_long_is_said_to_load_longer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The others wait while it computes, as long as they did: that would be the wrong thing to change."""
    out = run_command(capsys, "critical-path", FOLDER / "four_ranks")[1]
    loading = "mostly in enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__ (data loading)"
    assert out.splitlines()[0].endswith(f"in steps 2 and 3 (15% of a step), {loading}")
    assert "At the others' speed step 2 would be 190.0 µs (14%) shorter.\n" in out


def test_a_rank_is_not_said_to_take_longer_in_what_another_one_does_not_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Rank 1 adds for too long. Without that rank 0 is the last one, which multiplies little: no more than others is.

    µs       0         20                 100  110    125     160
    rank 0   [mul     ][div                      ][add]call
    rank 1   [mul                        ][add               ]call
    2 and 3  [mul                        ][add]call
    """
    both = {"mul": 100, "add": 10}
    works = [{"mul": 20, "div": 105, "add": 10}, both | {"add": 60}, both, both]
    for rank, work in enumerate(works):
        trace = GlooRank(rank, [0, 1, 2, 3])
        trace.called("all_reduce", -20 + rank, -15)
        trace.worked("all_reduce", -14, -5)
        trace.annotation("ProfilerStep#1", 0, 185, tid=MAIN)
        at = 0
        for name, length in work.items():
            trace.op(f"aten::{name}", at, at + length, tid=MAIN)
            at += length
        trace.called("all_reduce", at, at + 2)
        trace.worked("all_reduce", at + 3, 170)
        trace.op("aten::sqrt", 176, 181, tid=MAIN)
        trace.write(tmp_path / f"rank{rank}.json")
    out = run_command(capsys, "critical-path", tmp_path)[1]
    assert "rank 1 delays the others" in out
    assert "mostly in aten::add (CPU work)" in out
    assert "At the others' speed step 1 would be 25.0 µs" in out
    assert "the extra time" not in out


@pytest.mark.sampled(2)
@pytest.mark.parametrize("next_ms", [0, 4])
def test_a_delay_of_which_little_would_be_saved_is_said_next_to_the_saving(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, next_ms: int
) -> None:
    """Rank 1 is late by 10 ms, rank 2 by 4: without the former 6 are saved."""
    late = [Fault(rank, at, "forward", ms * 1_000_000) for rank, ms in ((1, 10), (2, next_ms)) for at in range(5)]
    shape = JobShape(4, 5, layers=2, backend="gloo", faults=late)
    record_job(simulate_job(ddp(shape)), Recording(), tmp_path)
    out = run_command(capsys, "critical-path", tmp_path)[1]
    assert f"rank 1 delays the others by {'10.0' if next_ms else '10.1'} ms" in out
    assert ("rank 1 alone 6.05 ms, rank 2 alone nothing" in out) == (next_ms > 0)
    said = "In step 2 it delays the others by 10.1 ms; without that, other work is the bottleneck."
    assert (said in out) == (next_ms > 0)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (None, "In step 3 it delays the others by 9 ms."),
        (True, "In step 3 it delays the others by 9 ms, the time that it works longer than they do; on a busy host"),
    ],
)
def test_a_delay_is_said_next_to_what_more_would_be_saved(*, more: bool | None, said: str) -> None:
    assert delay_next_to_saving("step 3", "9 ms", more=more).startswith(said)


def test_the_table_tells_both_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    out = run_command(capsys, "critical-path", FOLDER / "sample_trace.json.gz", "--step", "1")[1]
    assert "[saves 95.3 µs (8%) by replay, at most 120.0 µs (10%); medium confidence]" in out
    out = run_command(capsys, "critical-path", FOLDER / "sample_trace.json.gz")[1]
    assert "[saves at most 80.6 µs (8% of the iteration); medium confidence]" in out


def test_advice_saves_what_the_iteration_saves(capsys: pytest.CaptureFixture[str]) -> None:
    """Communication is exposed, and no iteration but the first is shorter without it: each ends with it, sooner."""
    asked = (FOLDER / "sample_trace.json.gz", "--step", "2")
    advised = {
        one["rule"]: one["saves_ns"] for one in command_json(capsys, "report", *asked)["verdict"] if one["saves_ns"]
    }
    changes = {
        "data_loading_exposed": ("--scenario", "data_loading_free"),
        "exposed_communication": ("--scenario", "communication_free"),
        "bound_by": ("--scale", "class:gpu_compute_bound=0.5"),
    }
    saved = {
        rule: command_json(capsys, "what-if", *asked, "--gpu-window", *change)["saved_ns"]
        for rule, change in changes.items()
    }
    assert saved.pop("exposed_communication") == 0
    assert advised == saved


def test_a_step_whose_latency_is_not_its_iteration_says_what_shares_are_of(capsys: pytest.CaptureFixture[str]) -> None:
    line = "  Percentages are of the latency; use --gpu-window for the iteration."
    asked = ["critical-path", FOLDER / "sample_trace.json.gz", "--step"]
    told = [
        line in run_command(capsys, *asked, *more)[1].splitlines() for more in (["2"], ["1"], ["2", "--gpu-window"])
    ]
    assert told == [True, False, False]


def test_loading_beside_the_last_steps_communication_costs_every_step_of_the_run() -> None:
    """It ends before the iteration begins, and shortens it all the same."""
    graph = hg.build_graph(hg.read_trace(FOLDER / "sample_trace.json.gz"))
    free = hg.scenario("data_loading_free")
    saved = [hg.replay(graph, free, window).saved_ns for window in (hg.step(2), hg.whole())]
    assert saved == [80_600, 241_800]
    assert hg.replay(graph, free, hg.step(2, gpu_window=True)).saved_ns == 80_600


def test_the_demos_first_advice_gains_what_it_says() -> None:
    """``hta-graph demo`` shows a simulated run; its loader's own operator takes 600 ns more than its loading."""
    graph = hg.build_graph(hg.read_trace(FOLDER / "sample_trace.json.gz"))
    path = hg.critical_path(graph)
    first, *_ = replayed_advice(PathFacts(path))
    assert first.rule == "data_loading_exposed"
    window = hg.step(path.window.step or 0, gpu_window=True)
    rerun = graph_of(write(run_of(replace(PLAIN, load_ns=1)), Dialect(sync_rows="none")).document)
    gained = hg.critical_path(graph, window).length_ns - hg.critical_path(rerun, window).length_ns
    assert gained == PLAIN.load_ns - 1
    assert first.saves_ns == 80_600


def test_loading_off_the_path_is_advised_only_where_replay_vouches_for_a_saving() -> None:
    """The second run gains nothing; half of the path is communication without a partner."""
    facts = PathFacts(hg.critical_path(graph_of_run(random_program(8031, "pytorch", 400))))
    loading = loading_of_window(facts)
    assert loading is not None
    assert loading.saves_at_most_ns
    assert "data_loading_exposed" not in [one.rule for one in replayed_advice(facts)]


def loading_beside_allocations(allocation_ns: int, kernel_ns: int) -> Program:
    """Steps that load data and launch kernels, while another thread allocates; that takes the driver's lock."""
    layer = (Op("aten::mm", (Launch(COMPUTE, kernel_ns, "gemm"),)), Gap(20_000))
    steps = (step(number, (*load_data(400_000), *layer * 8)) for number in range(5))
    pins = (Gap(40_000), Call("cudaHostAlloc", allocation_ns, locked=True)) * 20
    return Program((ThreadProgram((*steps, SyncDevice())), ThreadProgram(pins, "pin_memory")))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("allocation_ns", "kernel_ns", "confidence"),
    [(30_000, 10_000, "low"), (1_000, 10_000, "high"), (10_000, 10_000, "high"), (10_000, 60_000, "medium")],
    ids=["launches wait anew", "hardly any", "hardly longer", "the GPU has work meanwhile"],
)
def test_a_saving_is_doubted_where_the_drivers_lock_changes_it(
    allocation_ns: int, kernel_ns: int, confidence: str
) -> None:
    program = loading_beside_allocations(allocation_ns, kernel_ns)
    path = hg.critical_path(graph_of_run(program))
    found = replayed(path.graph)["data_loading_exposed"]
    after = graph_of_run(changed(program, CHANGES["data_loading_exposed"]))
    window = hg.step(path.window.step or 0, gpu_window=True)
    rerun = hg.critical_path(after, window).length_ns
    # The loader's own operator takes 600 ns more than its loading.
    assert found.saves_ns == pytest.approx(PathFacts(path).priced.length_ns - rerun, abs=600)
    assert found.confidence == confidence
    assert ("contended_share" in found.evidence) == (confidence == "low")
    printed = "".join(map(str, listed_advice(path).shown))
    assert ("driver calls of other threads" in printed) == (confidence == "low")
    asked = reliability_after(hg.replay(path.graph, hg.scenario("data_loading_free"), window))
    assert asked.reason == ("contended" if confidence == "low" else None)
    assert asked.share == pytest.approx(0.14 if asked.reason else 0.0, abs=0.01)


def test_what_even_doubtful_replay_finds_useless_is_not_advised() -> None:
    """Earlier iterations end earlier, and this one waits for work that they hid: with the change it is longer."""
    program = random_program(20047, "pytorch", 400)
    path = hg.critical_path(graph_of_run(program))
    after = graph_of_run(changed(program, CHANGES["exposed_communication"]))
    lengths = [hg.critical_path(of, hg.step(2, gpu_window=True)).length_ns for of in (path.graph, after)]
    assert lengths[1] > lengths[0]
    assert "exposed_communication" not in {one.rule for one in replayed_advice(PathFacts(path))}
