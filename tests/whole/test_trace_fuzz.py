"""A fixed budget of damaged traces, and every crash that fuzzing has found, as small as it became."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.base.errors import DefectError
from tests import trace_fuzz
from tests.simulator.dialect import Exact
from tests.support.deep_tests import cases, deep
from tests.support.fuzzing import fuzz
from tests.support.invariants import BrokenRuleError, check_graph
from tests.support.trace_builder import TraceBuilder
from tests.trace_fuzz import (
    BYTES,
    DAMAGES,
    STRUCTURAL,
    as_bytes,
    damaged_traces,
    examine,
    make_case,
    origins,
    seeds,
    time_limit,
)

CASES = cases(750)
PART = 150


@pytest.mark.parametrize(("first", "part"), [(20, 6), *(deep(first, PART) for first in range(0, CASES, PART))])
def test_damaged_traces_give_a_sound_result_or_one_clear_line(first: int, part: int) -> None:
    """DESIGN §7: what is read obeys every invariant, what is refused is one line, and nothing else is raised."""
    tally = fuzz(damaged_traces(20_261_120), range(first, first + part))
    assert tally.failures == {}
    assert min(tally.total("analysed"), tally.total("refused")) > part // 10


@pytest.mark.slow
def test_every_kind_of_damage_damages() -> None:
    """Cases are equal for equal seeds, and each kind changes the bytes of a sixth of the traces that it is given.

    Most change nearly all. ``drop_arg`` changes a quarter, whichever traces there are: the row that it draws has the
    argument that it draws that often.
    """
    assert [make_case(1, number) for number in range(20)] == [make_case(1, number) for number in range(20)]
    whole = {raw for _, raw in origins()}
    for at, damage in enumerate(DAMAGES):
        made = [make_case(1, at + turn * len(DAMAGES)) for turn in range(30)]
        assert {case.damage for case in made} == {damage}
        assert sum(case.raw not in whole for case in made) >= 5
    assert len(DAMAGES) == len(BYTES) + len(STRUCTURAL)


def test_a_case_is_limited_by_what_it_takes_of_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    with time_limit(0.1):
        time.sleep(0.3)
    with pytest.raises(BrokenRuleError, match=r"takes more than 0\.1 s"), time_limit(0.1):
        any(zero for zero in iter(int, 1))  # for ever
    monkeypatch.setattr(trace_fuzz, "LONGEST_WAIT", 2)
    with pytest.raises(BrokenRuleError, match="by the clock"), time_limit(0.1):
        time.sleep(60)


def test_a_broken_result_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The fuzzer itself can fail: a path that does not tile, a traceback and an error without the file's name."""
    name, raw = seeds()[0]
    path = tmp_path / "case.json"
    path.write_bytes(raw)
    assert (name, examine(path, random.Random(1))) == ("pytorch 0", "analysed")
    graph = hg.build_graph(hg.read_trace(path))
    path_of = hg.critical_path(graph, hg.whole())
    path_of.segment_table = path_of.segment_table.take(np.array([0, 2]))
    with pytest.raises(DefectError, match="do not tile"):
        path_of.self_check()
    monkeypatch.setattr(hg, "read_trace", lambda *_args, **_options: (_ for _ in ()).throw(hg.HtaGraphError("no")))
    with pytest.raises(BrokenRuleError, match="does not name the file"):
        examine(path, random.Random(1))


# --- crashes that fuzzing found ---------------------------------------------------------------------------------------


def operator_row(ts: Any, dur: Any = 1, **fields: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": ts, "dur": dur, **fields}


def sound_graph(path: Path, raw: bytes, *, salvage: bool = False) -> hg.DependencyGraph:
    path.write_bytes(raw)
    graph = hg.build_graph(hg.read_trace(path, salvage=salvage))
    check_graph(graph, [hg.whole()] if len(graph.events) else [], oracle=True)
    return graph


def test_salvage_of_epoch_times_with_a_fraction(tmp_path: Path) -> None:
    """The second look at the printed digits read the broken text: msgspec.DecodeError (seed 7, case 59)."""
    rows = [operator_row(f"{Exact.MARK}1712867402348336.{nth}25") for nth in range(3)]
    raw = as_bytes({"traceEvents": rows})
    graph = sound_graph(tmp_path / "trace.json", raw[:-40], salvage=True)
    assert graph.trace.events.start.tolist() == [1712867402348336025, 1712867402348336125]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("text", ["1e1000000", "-1e1000000", "9E999999999", "1e-999999999"])
@pytest.mark.parametrize("field", ["ts", "dur"])
def test_a_time_with_an_enormous_exponent(tmp_path: Path, field: str, text: str) -> None:
    """decimal.Overflow is no OverflowError (seed 7, case 366); beside epoch times with a fraction, bare and as text."""
    for printed in (text, json.dumps(text)):
        rows = [operator_row(f"{Exact.MARK}1712867402348336.{nth}25") for nth in range(3)]
        odd = json.dumps(operator_row(1712867402348336) | {field: "?"}).replace('"?"', printed)
        graph = sound_graph(tmp_path / "trace.json", as_bytes({"traceEvents": rows})[:-2] + f", {odd}]}}".encode())
        assert len(graph.events) == 3 + int("e-" in text and field == "dur")


def test_an_arrow_that_is_recorded_twice(tmp_path: Path) -> None:
    """It became two edges (seed 3, case 4426): a merged file has it from both recordings, with ids of their own."""
    flow = {"cat": "fwdbwd", "name": "fwdbwd", "pid": 1, "tid": 1}
    arrows = [
        flow | {"ph": ph, "ts": ts, "id": number, "bp": "e"} for number in (1, 2) for ph, ts in (("s", 10), ("f", 50))
    ]
    graph = sound_graph(tmp_path / "trace.json", as_bytes([operator_row(10, 5), operator_row(50, 5), *arrows]))
    assert graph.edge_counts()["forward_backward"] == {"recorded": 1, "inferred": 0}


def test_a_step_on_a_thread_without_operators(tmp_path: Path) -> None:
    """In replay it ended with its last kernel (seed 3, case 4462), and did not take the time that it took."""
    gpu = {"device": 0, "context": 1, "stream": 7, "correlation": 1}
    step = {"cat": "user_annotation", "name": "ProfilerStep#1", "tid": 9, "ts": 10, "dur": 90}
    launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 20, "dur": 5, "args": {"correlation": 1}}
    kernel = {"cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 30, "dur": 9, "args": gpu}
    rows = [operator_row(0) | row for row in (step, launch, kernel)]
    graph = sound_graph(tmp_path / "trace.json", as_bytes(rows))
    check_graph(graph, [hg.step(1)], oracle=True)
    assert hg.replay(graph, window=hg.step(1)).identity_ns == 90_000


@pytest.mark.sampled(3)
@pytest.mark.parametrize("device", [-(2**63), 2**70, 0])
def test_a_process_far_from_its_device(tmp_path: Path, device: int) -> None:
    """What a merger may have added did not fit 64 bits: OverflowError (seed 21, case 244)."""
    args = {"device": device, "context": 1, "stream": 7, "correlation": 1}
    kernels = [operator_row(at, cat="kernel", name="gemm", pid=2**62, tid=7, args=args) for at in (5, 9)]
    sound_graph(tmp_path / "trace.json", as_bytes([operator_row(1), *kernels]))


def test_replay_of_a_path_that_ends_with_an_edge_back_in_time(tmp_path: Path) -> None:
    """What its cause took after it counted (seed 31, case 1167): 3.04 ms of a window of 2.15 ms."""
    trace = TraceBuilder()
    trace.launch("late", (0, 5), (20, 660), 1)
    trace.call("cudaDeviceSynchronize", 10, 110, 2)
    graph = trace.graph(tmp_path)
    begins = int(graph.timeline.times.min())
    check_graph(graph, [hg.between(begins + 2_000, begins + 2_000_000)])
