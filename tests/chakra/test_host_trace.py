"""Host execution traces: every known version, in any order, and one clear line about what is none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hta_graph.base.errors import HtaGraphError, NotATraceError, TraceError
from hta_graph.chakra.host_trace import LAYOUTS, HostTrace, read_host_trace
from tests.support.host_builder import PROCESS, THREAD, HostBuilder
from tests.support.shared_traces import SHARED

TENSOR = ([26, 27, 0, 512, 4, "cuda:0"], [512], "Tensor(float)")


def sample(schema: str = "1.1.0-chakra.0.0.4") -> HostBuilder:
    host = HostBuilder(schema, pid=77)
    outer = host.op("aten::linear", rf=11, inputs=(TENSOR,), seq_id=5)
    host.op("aten::addmm", parent=outer, rf=12)
    host.op("AddmmBackward0", tid=2, rf=13, fw_tid=1, seq_id=5, fw_parent=3)
    return host


def read(host: HostBuilder, tmp_path: Path) -> HostTrace:
    return read_host_trace(host.write(tmp_path / "host.json"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("schema", LAYOUTS)
def test_every_known_version_gives_the_same_columns(schema: str, tmp_path: Path) -> None:
    host = read(sample(schema), tmp_path)
    assert (host.schema, host.pid, len(host)) == (schema, 77, 6)
    assert [host.name_of(row) for row in range(6)] == [
        PROCESS, THREAD, "aten::linear", "aten::addmm", THREAD, "AddmmBackward0",
    ]  # fmt: skip
    assert host.id.tolist() == [1, 2, 3, 4, 5, 6]
    assert host.parent.tolist() == [1, 1, 2, 3, 1, 5]
    assert host.rf_id.tolist() == [0, 0, 11, 12, 0, 13]
    assert host.thread.tolist() == [0, 1, 1, 1, 2, 2]
    assert host.forward_thread.tolist() == [0, 0, 0, 0, 0, 1]
    assert host.sequence.tolist() == [-1, -1, 5, -1, -1, 5]
    assert host.attributes(5)["fw_parent"] == 3
    assert host.is_operator.tolist() == [False, False, True, True, False, True]
    assert host.is_thread.tolist() == [False, True, False, False, True, False]
    values = host.inputs(2)
    assert (values.values, values.shapes, values.types) == ([TENSOR[0]], [[512]], ["Tensor(float)"])
    assert host.outputs(2).values == []
    assert host.attributes(2)["rf_id"] == 11
    assert [host.names[code] for code in host.name] == [host.name_of(row) for row in range(6)]


def test_gzip_is_told_by_the_first_bytes(tmp_path: Path) -> None:
    plain, packed = sample().write(tmp_path / "a.json"), sample().write(tmp_path / "b.json.gz")
    packed = packed.rename(tmp_path / "c.json")
    assert read_host_trace(packed).id.tolist() == read_host_trace(plain).id.tolist()


def test_rows_of_ids(tmp_path: Path) -> None:
    host = read(sample(), tmp_path)
    assert host.row_of(np.array([6, 1, 99, 0])).tolist() == [5, 0, -1, -1]


def test_missing_attributes_say_nothing(tmp_path: Path) -> None:
    document = sample().document()
    for node in document["nodes"]:
        node["attrs"] = [attribute for attribute in node["attrs"] if attribute["name"] == "rf_id"]
    path = tmp_path / "host.json"
    path.write_text(json.dumps(document))
    host = read_host_trace(path)
    assert host.rf_id.tolist() == [0, 0, 11, 12, 0, 13]
    assert set(host.sequence.tolist()) == {-1}
    assert set(host.thread.tolist()) == {0}


def test_strides_of_the_newest_version(tmp_path: Path) -> None:
    document = sample("1.1.1-chakra.0.0.4").document()
    node = next(node for node in document["nodes"] if node["name"] == "aten::linear")
    node["inputs"]["strides"] = [[1]]
    path = tmp_path / "host.json"
    path.write_text(json.dumps(document))
    assert read_host_trace(path).inputs(2).strides == [[1]]


def test_process_groups(tmp_path: Path) -> None:
    groups = [{"pg_name": "0", "ranks": []}, {"pg_name": "3", "ranks": [1, 5]}]
    host = sample()
    host.op("## process_group:init ##", inputs=((json.dumps(groups), [], "String"),))
    assert read(host, tmp_path).process_groups() == groups
    assert read(sample(), tmp_path).process_groups() == []


@pytest.mark.parametrize("text", ["not json", "{}", "3"])
def test_process_groups_of_no_known_form_are_none(text: str, tmp_path: Path) -> None:
    host = sample()
    host.op("## process_group:init ##", inputs=((text, [], "String"),))
    assert read(host, tmp_path).process_groups() == []


def test_bare_infinities_and_control_characters_of_early_writers(tmp_path: Path) -> None:
    host = sample("1.0.1")
    host.op("aten::masked_fill say -inf, nan", inputs=((123.5, [], "Double"), (0, [], "Tab")))
    text = host.write(tmp_path / "a.json").read_text().replace("123.5", "-inf").replace('"Tab"', '"a\tb"')
    path = tmp_path / "b.json"
    path.write_text(text)
    found = read_host_trace(path)
    row = [found.name_of(row) for row in range(len(found))].index("aten::masked_fill say -inf, nan")
    assert found.inputs(row).values[0] == "-inf"
    assert found.inputs(row).types == ["Double", "a\tb"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("value", [None, {}, [1], "x", 2**70, 1.5, True])
def test_attributes_of_another_type_say_nothing(value: Any, tmp_path: Path) -> None:
    document = sample().document()
    attributes = next(node["attrs"] for node in document["nodes"] if node["name"] == "aten::addmm")
    next(item for item in attributes if item["name"] == "rf_id")["value"] = value
    path = tmp_path / "host.json"
    path.write_text(json.dumps(document))
    assert read_host_trace(path).rf_id[3] <= 0


def test_bytes_that_are_not_text_are_replaced(tmp_path: Path) -> None:
    host = sample()
    host.op("aten::to", inputs=(("a device", [], "Device"),))
    path = tmp_path / "host.json"
    path.write_bytes(host.write(path).read_bytes().replace(b"a device", b"cud\xff\xfe"))
    assert read_host_trace(path).inputs(6).values == ["cud\ufffd\ufffd"]


def test_inputs_of_no_known_form_are_an_error_only_when_asked_for(tmp_path: Path) -> None:
    document = sample().document()
    document["nodes"][0]["inputs"] = {"values": 3}
    path = tmp_path / "host.json"
    path.write_text(json.dumps(document))
    host = read_host_trace(path)
    with pytest.raises(TraceError, match="node 6 has inputs or outputs of an unknown form"):
        host.inputs(5)


def _without(document: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != key}


def _broken_documents() -> dict[str, tuple[Any, str]]:
    good = sample().document()
    twin = {**good, "nodes": [*good["nodes"], good["nodes"][0]]}
    linked = {**good, "nodes": [{**good["nodes"][0], "cat": "kernel"}, *good["nodes"][1:]]}
    text_id = {**good, "nodes": [{**good["nodes"][0], "id": "six"}]}
    return {
        "unknown version": ({**good, "schema": "1.1.1-chakra.1.0.0"}, "1.0.0', which is unknown; supported: 1.0.1,"),
        "no version": (_without(good, "schema"), "has no schema; supported: 1.0.1, 1.0.2-chakra.0.0.4"),
        "number as version": ({**good, "schema": 2}, "schema '2', which is unknown"),
        "flat nodes in a later version": (
            {**sample("1.0.1").document(), "schema": "1.1.0-chakra.0.0.4"}, "missing required field `ctrl_deps`",
        ),
        "no nodes": (_without(good, "nodes"), "is JSON without nodes, not a host execution trace"),
        "nodes of another type": ({**good, "nodes": 3}, "is not a host execution trace: Expected `array`, got `int`"),
        "text as id": (text_id, r"got `str` - at `nodes\[0\].id`"),
        "two nodes with one id": (twin, "has two nodes with id 6"),
        "device trace": ({"schemaVersion": 1, "traceEvents": []}, r"is a device \(Kineto\) trace"),
        "list": ([{"ph": "X"}], "is a JSON list"),
        "linked already": (linked, "is already a linked trace"),
        "number": (7, "is not a host execution trace: Expected `object`, got `int`"),
    }  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", _broken_documents())
def test_one_line_about_what_is_no_host_trace(case: str, tmp_path: Path) -> None:
    document, message = _broken_documents()[case]
    path = tmp_path / "host.json"
    path.write_text(json.dumps(document))
    with pytest.raises(TraceError, match=message) as raised:
        read_host_trace(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)


def test_kinds_of_files_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "kineto.json"
    path.write_text('{"traceEvents": []}')
    with pytest.raises(NotATraceError):
        read_host_trace(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_files_that_break_off(share: float, tmp_path: Path) -> None:
    text = json.dumps(sample().document()).encode()
    path = tmp_path / "host.json"
    path.write_bytes(text[: int(len(text) * share)])
    with pytest.raises(TraceError, match=r"the JSON is truncated at byte [\d,]+; record the trace again"):
        read_host_trace(path)
    packed = gzip.compress(text)
    path.write_bytes(packed[: int(len(packed) * share)])
    with pytest.raises(TraceError, match=r"the gzip data is truncated at byte [\d,]+; record the trace again"):
        read_host_trace(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\x00\x01", "is not JSON"),
        (b'{"nodes": [}', "is not JSON"),
        (b'{"schema": "1.0.1", "nodes": ' + b"[" * 100_000, "deeply|breaks off"),
    ],
)
def test_files_that_are_not_json(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "host.json"
    path.write_bytes(content)
    with pytest.raises(HtaGraphError, match=message):
        read_host_trace(path)


def test_absent_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        read_host_trace(tmp_path / "absent.json")
    with pytest.raises(TraceError, match="is a folder"):
        read_host_trace(tmp_path)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "schema", "operators", "threads"),
    [
        ("megatron_tp2_v100/host_et_rank0", "1.1.0-chakra.0.0.4", 1_881, 2),
        ("dlrm_8xv100/host_et_rank3", "1.0.1", 1_672, 2),
        ("execution_trace_sample/host_et_rank0", "1.0.1", 36, 1),
    ],
)
def test_real_host_traces(name: str, schema: str, operators: int, threads: int) -> None:
    host = read_host_trace(SHARED / "traces" / f"{name}.json.gz")
    assert (host.schema, int(host.is_operator.sum()), int(host.is_thread.sum())) == (schema, operators, threads)
    assert (np.diff(host.id) > 0).all()
    assert (host.row_of(host.parent) >= 0).all()
    assert all(len(host.inputs(row).values) == len(host.inputs(row).types) for row in range(len(host)))
