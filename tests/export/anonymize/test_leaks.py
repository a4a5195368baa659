"""Nothing that somebody could have put into a trace comes out of it: secrets planted anywhere are looked for."""

from __future__ import annotations

import copy
import gzip
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

import hta_graph as hg
from hta_graph.base.errors import TraceError
from hta_graph.export.anonymize.anonymize_trace import TraceAnonymizer
from tests.support.compare_graphs import differences
from tests.support.deep_tests import for_all
from tests.support.two_rank_job import one_rank

SECRET = "Xyzzy"  # noqa: S105 - it is what is looked for
SENTENCE = f"/home/{SECRET}/{SECRET.lower()}.py host-{SECRET.upper()} {SECRET}::{SECRET}"


def rich_document() -> dict[str, Any]:
    """Build a trace that has a bit of everything that profilers write."""
    trace = one_rank(0)
    trace.frame("train.py(12): fit", 0, 90)
    trace.frame("torch/nn/modules/module.py(15): _call_impl", 1, 80)
    trace.frame("nn.Module: Linear_0", 2, 70)
    trace.op("record_param_comms", 30, 46, **{"Collective name": "allreduce", "Process Group Name": "dp",
             "Process Group Description": "data parallel", "Process Group Ranks": "[0, 1]", "dtype": "Float",
             "Concrete Inputs": ["", "1"], "Input Dims": [[3, 4]], "Input type": ["float"]})  # fmt: skip
    trace.op(
        "c10d::broadcast_", 50, 52, **{"Concrete Inputs": ["", "", "0"], "Input Dims": [[[3, 4]]], "Input type": ["x"]}
    )
    trace.op("triton_poi_fused_add_0", 53, 54, kernel_file="/data/a.py", kernel_hash="abc", kernel_kwargs="XBLOCK=1")
    trace.kernel("acme_all_reduce", 141, 142, 99, **{"Collective name": "acme", "grid": [1, 2, 3], "kernel": "k"})
    trace.sync_row("Stream Sync", 142, 143, 98, stream=7)
    for ph, cat in (("s", "fwdbwd"), ("f", "fwdbwd"), ("s", "ac2g"), ("f", "ac2g"), ("s", "acme")):
        trace.row(ph=ph, cat=cat, name=cat, id="7", pid=100, tid=1, ts=9, bp="e")
    said = {"process_name": {"name": "python"}, "process_labels": {"labels": "CPU"},
            "thread_name": {"name": "thread 7 (python)"}, "process_sort_index": {"sort_index": 3}}  # fmt: skip
    for name, args in said.items():
        trace.row(ph="M", name=name, pid=100, tid=1, ts=0, args=args)
    trace.row(ph="X", cat="Trace", name="PyTorch Profiler (0)", pid="Spans", tid="PyTorch Profiler", ts=0, dur=200)
    trace.row(
        ph="X", cat="acme_cat", name="acme", pid=100, tid=1, ts=3, dur=1, args={"nested": {"a": ["b", {"c": "d"}]}}
    )
    trace.row(ph="C", name="counter", pid=100, tid=1, ts=3, args={"value": 3})
    trace.row(ph="B", cat="user_annotation", name="open", pid=100, tid=1, ts=3)
    trace.row(ph="E", pid=100, tid=1, ts=4)
    document = trace.document()
    document |= {
        "traceName": "/data/t.json", "trace_id": "A", "host_name": "node", "displayTimeUnit": "ms", "username": "me",
        "record_shapes": 1, "cuda_runtime_version": 12, "INFO": ["INFO: a"], "metadata": {"a": {"b": "c"}},
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "uuid": "GPU-1", "numSms": 132}],
        "otherData": {"key": "value"}, "baseTimeNanoseconds": 1_700_000_000_000_000_000,
    }  # fmt: skip
    document["distributedInfo"] = {
        "backend": "nccl", "rank": 0, "world_size": 2, "nccl_version": "2.2.1", "host": "node",
        "pg_config": [{"pg_name": "dp", "pg_desc": "desc", "backend_config": "cuda:nccl", "ranks": [0, 1], "uid": "u"}],
    }  # fmt: skip
    return document


Spot = tuple[Any, ...]


def spots(value: Any, at: Spot = ()) -> Iterator[Spot]:
    """Yield the way to every value inside a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield (*at, key)
        yield from spots(item, (*at, key))


def planted(document: dict[str, Any], at: Spot, value: Any) -> dict[str, Any]:
    """Return a copy with another value in one place."""
    found = copy.deepcopy(document)
    within: Any = found
    for key in at[:-1]:
        within = within[key]
    within[at[-1]] = value
    return found


DOCUMENT = rich_document()
SPOTS = [spot for spot in spots(DOCUMENT) if spot != ("traceEvents",)]
FORMS: list[Any] = [
    SENTENCE, SECRET, [SENTENCE], [[SENTENCE]], {SECRET: SENTENCE}, {"name": SENTENCE},
    json.dumps({SECRET: [SENTENCE]}),
    f"nccl:{SECRET}", f"gloo:{SECRET}", f"DataLoader {SECRET}.__next__", f"{SECRET}Backward", f"{SECRET}_all_reduce",
    f"hip{SECRET}", f"{SECRET}.py(3): {SECRET}", f"nn.Module: {SECRET}_3", f"stream {SECRET}", f"thread 7 ({SECRET})",
    f"Memcpy HtoD {SECRET}", f"ProfilerStep#{SECRET}", f"{SECRET} 0->1", f"[0, 1, {SECRET}]", f"[{SECRET}]",
    f"void at::native::f<{SECRET}>(int)", f"Optimizer.step#{SECRET}.step", f"1{SECRET}", f"c10::{SECRET}",
]  # fmt: skip


def text_of(document: Any) -> str:
    """Strip a trace and return what others would see."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{SECRET}.json"
        path.write_text(json.dumps(document))
        TraceAnonymizer().write(hg.read_trace(path), Path(folder) / "out.json.gz")
        return gzip.decompress((Path(folder) / "out.json.gz").read_bytes()).decode()


def test_the_rich_trace_is_one(tmp_path: Path) -> None:
    text = text_of(DOCUMENT)
    assert len(json.loads(text)["traceEvents"]) == len(DOCUMENT["traceEvents"])
    assert "allreduce" in text


@pytest.mark.sampled(16)
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_secret_in_every_text_at_once_is_found_nowhere(form: Any) -> None:
    document = DOCUMENT
    for spot in SPOTS:
        where = document
        for key in spot[:-1]:
            where = where[key] if isinstance(where, (dict, list)) else None  # type: ignore[call-overload]
        structural = spot[-1] in ("ph", "cat", "args", "pg_config", "distributedInfo", "deviceProperties")
        if isinstance(where, (dict, list)) and isinstance(where[spot[-1]], str) and not structural:  # type: ignore[call-overload]
            document = planted(document, spot, form)
    assert SECRET.lower() not in text_of(document).lower()


@for_all(st.lists(st.tuples(st.sampled_from(SPOTS), st.sampled_from(FORMS)), min_size=1, max_size=4), examples=150)
def test_a_secret_in_any_place_is_found_nowhere(secrets: list[tuple[Spot, Any]]) -> None:
    document = DOCUMENT
    for spot, form in secrets:
        try:
            document = planted(document, spot, form)
        except (KeyError, TypeError, IndexError):
            continue  # an earlier one took the place that this one lies in
    try:
        text = text_of(document)
    except TraceError:
        return  # it is no trace any more: nothing is written
    assert SECRET.lower() not in text.lower()


ODD: list[Any] = [10**30, -(10**30), -5, 0, 1.5, 3.0, 1e300, float("nan"), float("inf"), True, None, "", "12", " 12 ",
                  "1_0", "-1", "1e3", [1], {}, "9" * 300, "\ud83d", 4294967295]  # fmt: skip


@for_all(st.lists(st.tuples(st.sampled_from(SPOTS), st.sampled_from(ODD)), min_size=1, max_size=3), examples=150)
def test_whatever_stands_in_a_place_the_graph_is_the_same(values: list[tuple[Spot, Any]]) -> None:
    document = DOCUMENT
    for spot, value in values:
        try:
            document = planted(document, spot, value)
        except (KeyError, TypeError, IndexError):
            continue
    with tempfile.TemporaryDirectory() as folder:
        path, target = Path(folder) / "a.json", Path(folder) / "out.json"
        path.write_text(json.dumps(document))
        try:
            trace = hg.read_trace(path)
        except TraceError:
            return
        TraceAnonymizer().write(trace, target)
        assert list(differences(hg.build_graph(trace), hg.build_graph(hg.read_trace(target)))) == []


@for_all(st.sampled_from([spot for spot in SPOTS if "traceEvents" in spot and len(spot) > 1]), examples=100)
def test_a_secret_under_a_key_of_its_own_is_found_nowhere(spot: Spot) -> None:
    where: Any = DOCUMENT
    for key in spot:
        where = where[key]
    if isinstance(where, dict):
        assert SECRET.lower() not in text_of(planted(DOCUMENT, spot, {**where, SECRET: SENTENCE, "x": 1})).lower()
