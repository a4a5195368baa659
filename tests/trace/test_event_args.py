"""A second look into a file: a few rows have the arguments that they have among all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hta_graph.base.errors import TraceError
from hta_graph.trace import event_args, json_reader
from hta_graph.trace.event_args import forget_inputs, inputs_of, keep_inputs, read_arg_texts, read_event_args
from hta_graph.trace.read import read_trace

ROW = {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "dur": 1}
KEYS = ("Input Dims", "rate")


@pytest.fixture(autouse=True)
def _forget_inputs() -> Iterator[None]:
    yield
    forget_inputs()


def rows(**strange: Any) -> list[dict[str, Any]]:
    """Return forty rows with arguments; the fourth one has something else besides."""
    found = [{**ROW, "ts": 10 * at, "args": {"Input Dims": [[at]], "rate": at / 10}} for at in range(40)]
    return [*found[:3], {**found[3], **strange}, *found[4:]]


STRICT = json.dumps({"traceEvents": rows(), "distributedInfo": {"rank": 3}})
TEXTS = {
    "a document": STRICT,
    "a list": json.dumps(rows()),
    "no strict JSON": STRICT.replace('"rate": 3.9', '"rate": 3.9, "other": NaN'),
    "arguments that are none": json.dumps({"traceEvents": rows(args=[1, 2])}),
    "bytes that are no text": STRICT.replace('"op"', '"\\ud800"'),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_few_rows_are_read_as_among_all(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    trace = read_trace(path)
    few = [3, 30, 3]
    every, own = (
        read_event_args(trace, KEYS, fields=["cat"]),
        read_event_args(trace, KEYS, np.array(few, np.int32), fields=["cat"]),
    )
    assert own.distributed == every.distributed
    assert own.fields["cat"].tolist() == ["cpu_op"] * 3
    for key in KEYS:
        assert own[key].tolist() == every[key][few].tolist()
    assert own["Input Dims"].tolist()[1] == [[30]]


def test_every_row_is_found_wherever_its_part_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is behind the last wanted row is not read: a row that begins a part is not behind."""
    monkeypatch.setattr(json_reader, "PART_BYTES", 300)
    path = tmp_path / "trace.json"
    path.write_text(STRICT)
    trace = read_trace(path)
    for at in range(len(trace.events)):
        assert read_arg_texts(trace, ["Input Dims"], np.array([at], np.int32)) == [(f"[[{at}]]".encode(),)]


@pytest.mark.parametrize("text", [json.dumps(rows()), STRICT, TEXTS["no strict JSON"]], ids=["list", "document", "NaN"])
def test_inputs_that_were_kept_are_those_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(json_reader, "PART_BYTES", 300)
    path = tmp_path / "trace.json"
    path.write_text(text)
    keep_inputs()
    trace = read_trace(path)
    early = np.array([3, 9, 3], np.int32)
    path.unlink()
    found = read_arg_texts(trace, KEYS, early)
    assert found == [(f"[[{at}]]".encode(), f"{at / 10}".encode()) for at in early.tolist()]
    # The last part of a document has the header; at last nothing is kept.
    for last, forget in [*[(39, False)] * text.startswith("{"), (9, True)]:
        if forget:
            forget_inputs()
        with pytest.raises(TraceError, match="no such file"):
            read_arg_texts(trace, KEYS, np.array([3, last]))


@pytest.mark.parametrize("forget", ["all", "long", "other file"])
def test_inputs_are_kept_of_one_short_file_until_they_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget: str
) -> None:
    monkeypatch.setattr(json_reader, "PART_BYTES", 300)
    monkeypatch.setattr(event_args, "MOST_KEPT", 900 if forget == "long" else 10_000)
    path, other = tmp_path / "trace.json", tmp_path / "other.json"
    path.write_text(STRICT)
    other.write_text(STRICT)
    keep_inputs()
    read_trace(path)
    if forget == "all":
        forget_inputs()
    if forget == "other file":
        read_trace(other)
    assert inputs_of(path) == []


def test_rows_of_a_file_that_has_become_shorter_are_missed(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(STRICT)
    trace = read_trace(path)
    path.write_text(json.dumps(rows()[:20]))
    with pytest.raises(TraceError, match="has changed since it was read"):
        read_event_args(trace, KEYS, np.array([30]))
