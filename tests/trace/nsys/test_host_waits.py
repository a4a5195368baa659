"""Waits in the operating system, threads that did not run, and CPU samples explain the host's time."""

from __future__ import annotations

from pathlib import Path

import hta_graph as hg
from hta_graph.model import EventKind
from tests.support.made_nsys import NsysBuilder

US = 1_000


def program() -> NsysBuilder:
    """An operator that waits inside, a wait outside of any, then a launch."""
    made = NsysBuilder()
    made.op("aten::first", 0, 100 * US, op_id=1)
    made.op("aten::waits", 100 * US, 600 * US, op_id=2)
    made.op("aten::launches", 1_000 * US, 1_100 * US, op_id=3)
    made.launch("work", (1_010 * US, 1_020 * US), (1_030 * US, 1_200 * US), 5)
    return made


def owners(path: Path) -> dict[str, dict[str, int]]:
    """Return the lengths (µs) of the path's parts by class and owner."""
    graph = hg.build_graph(hg.read_trace(path))
    found: dict[str, dict[str, int]] = {}
    segments = hg.critical_path(graph).segments
    for row in segments.fillna({"name": ""}).itertuples():
        of = found.setdefault(row.bound_by, {})
        of[row.name] = of.get(row.name, 0) + (row.end_ns - row.start_ns) // US
    assert segments.end_ns.iloc[-1] - segments.start_ns.iloc[0] == 1_200 * US
    return found


def test_a_wait_is_no_work_of_the_operator_around_it(tmp_path: Path) -> None:
    made = program()
    made.os_call("pthread_cond_wait", 200 * US, 500 * US)
    made.os_call("sem_wait", 600 * US, 900 * US)
    found = owners(made.write(tmp_path / "a.sqlite"))
    assert found["cpu_bound"]["aten::waits"] == 200
    assert found["cpu_gap"] == {"pthread_cond_wait": 300, "sem_wait": 300, "": 100}


def test_calls_of_the_system_that_do_not_wait_stay_the_operators(tmp_path: Path) -> None:
    made = program()
    made.os_call("mmap", 200 * US, 500 * US)
    found = owners(made.write(tmp_path / "a.sqlite"))
    assert found["cpu_bound"]["aten::waits"] == 500


def test_a_thread_that_did_not_run_worked_on_nothing(tmp_path: Path) -> None:
    made = program()
    for start, on in ((0, True), (150 * US, False), (450 * US, True), (650 * US, False), (950 * US, True)):
        made.scheduled(start, on=on, state=2)
    found = owners(made.write(tmp_path / "a.sqlite"))
    assert found["cpu_bound"]["aten::waits"] == 200
    assert found["cpu_gap"] == {"not running (waiting)": 600, "": 100}


def test_what_threads_without_cuda_calls_and_ranges_do_is_not_read(tmp_path: Path) -> None:
    """Such threads are on no path, and there may be hundreds of them."""
    made = program()
    for tid in (None, 7_777):
        made.os_call("sem_wait", 600 * US, 900 * US, tid=tid)
        made.sample(700 * US, "json_loads", tid=tid)
        made.sample(800 * US, "json_loads", tid=tid)
        for start, on in ((0, True), (150 * US, False), (450 * US, True)):
            made.scheduled(start, on=on, state=2, tid=tid)
    trace = hg.read_trace(made.write(tmp_path / "a.sqlite"))
    of_kind = [trace.events.kind == kind for kind in (EventKind.OS_CALL, EventKind.PYTHON_FUNCTION)]
    assert [int(rows.sum()) for rows in of_kind] == [2, 2]
    assert not any("7777" in label for label in trace.lanes.labels)


def test_samples_own_the_gaps_that_nothing_else_does(tmp_path: Path) -> None:
    made = program()
    for at in range(600, 1_000, 100):
        made.sample(at * US, "json_loads", "PyEval_EvalFrame")
    path = made.write(tmp_path / "a.sqlite")
    assert owners(path)["cpu_gap"] == {"json_loads (python3)": 400}
    kinds = hg.read_trace(path).events.kind
    assert (kinds == EventKind.PYTHON_FUNCTION).sum() == 4


def test_a_sample_stands_for_no_more_than_its_time(tmp_path: Path) -> None:
    made = program()
    for at in (600, 620, 640, 980):
        made.sample(at * US, "json_loads")
    assert owners(made.write(tmp_path / "a.sqlite"))["cpu_gap"] == {"json_loads (python3)": 100, "": 300}
