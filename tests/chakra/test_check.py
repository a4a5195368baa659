"""The linter: a sound workload made unsound in one way, and the rule that notices it."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analyses.cli.main import main
from hta_graph.base.errors import TraceError
from hta_graph.chakra.check import RULES, check
from hta_graph.chakra.et_files import length_prefixed, read_et, read_folder
from hta_graph.chakra.schema import COLLECTIVES, NODE_TYPES, Node
from hta_graph.chakra.simulate import NotSimulatedError, simulate
from tests.support.rank_builder import RankBuilder, converted

pytestmark = pytest.mark.sampled(2)

SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Two ranks: operators, kernels, two all-reduces and a message."""
    traces = RankBuilder(0, 2), RankBuilder(1, 2)
    for trace, kind, key in zip(traces, ("send", "recv"), ("Dst Rank", "Src Rank"), strict=True):
        trace.op("aten::mm", 0, 10)
        trace.launch("gemm", (2, 4), (5, 50), 1)
        trace.collective(20, (60, 90), 2)
        trace.collective(30, (95, 120), 3, nelems=7)
        trace.collective(40, (125, 150), 4, kind=kind, name=SEND_RECV, **{key: 1 - trace.rank})
    converted(tmp_path, *traces)
    return tmp_path / "work"


def changed(work: Path, rank: int, change: Callable[[list[Any]], None]) -> None:
    """Read a file, change its nodes, write it again."""
    path = work / f"trace.{rank}.et"
    file = read_et(path)
    nodes = list(file.nodes())
    change(nodes)
    path.write_bytes(b"".join(length_prefixed([file.messages[0], *(node.SerializeToString() for node in nodes)])))


def one(nodes: list[Any], kind: str, at: int = 0) -> Any:
    """Return the at-th node of a type."""
    return [node for node in nodes if node.type == NODE_TYPES[kind]][at]


def attribute(node: Any, name: str) -> Any:
    (found,) = [item for item in node.attr if item.name == name]
    return found


def without(node: Any, name: str) -> None:
    node.attr.remove(attribute(node, name))


def set_type(kind: str) -> Callable[[list[Any]], None]:
    def change(nodes: list[Any]) -> None:
        nodes[0].type = NODE_TYPES[kind]

    return change


def set_attribute(kind: str, name: str, **value: Any) -> Callable[[list[Any]], None]:
    """Give the first node of a type an attribute of another type or value."""

    def change(nodes: list[Any]) -> None:
        node = one(nodes, kind)
        without(node, name)
        node.attr.add(name=name, **value)

    return change


def tiny_all_gather(nodes: list[Any]) -> None:
    for name, value in (("comm_type", COLLECTIVES["ALL_GATHER"]), ("comm_size", 3)):
        set_attribute("COMM_COLL_NODE", name, int64_val=value)(nodes)


def drop_attribute(kind: str, name: str) -> Callable[[list[Any]], None]:
    return lambda nodes: without(one(nodes, kind), name)


def add_involved_dim(nodes: list[Any]) -> None:
    one(nodes, "COMM_COLL_NODE").attr.add(name="involved_dim", string_val="1")


def add_attribute(kind: str, name: str, **value: Any) -> Callable[[list[Any]], None]:
    def change(nodes: list[Any]) -> None:
        one(nodes, kind).attr.add(name=name, **value)

    return change


def wait_for_itself(nodes: list[Any]) -> None:
    nodes[1].data_deps.append(nodes[1].id)


def wait_in_a_circle(nodes: list[Any]) -> None:
    nodes[0].ctrl_deps.append(nodes[1].id)
    nodes[1].data_deps.append(nodes[0].id)


def set_duration(node: Any, micros: int) -> None:
    node.duration_micros = micros


def lengthen(nodes: list[Any], count: int) -> None:
    """Add nodes of 2^53 ns each; two ranks may have 512 of them."""
    first = max(node.id for node in nodes) + 1
    last = {"name": "long", "type": NODE_TYPES["COMP_NODE"], "duration_micros": 2**53 // 1000}
    nodes += [Node(id=number, **last) for number in range(first, first + count)]


def same_id(nodes: list[Any]) -> None:
    nodes.append(Node.FromString(nodes[0].SerializeToString()))


COLL, SEND, RECV = "COMM_COLL_NODE", "COMM_SEND_NODE", "COMM_RECV_NODE"

CASES: list[tuple[str, int, Callable[[list[Any]], None], str]] = [
    ("duplicate-id", 0, same_id, "two nodes have this id"),
    ("node-type", 0, set_type("METADATA_NODE"), "its type is METADATA_NODE"),
    ("node-type", 0, set_type("MEM_LOAD_NODE"), "its type is MEM_LOAD_NODE"),
    ("node-type", 0, set_type("INVALID_NODE"), "its type is INVALID_NODE"),
    ("duration", 0, lambda nodes: set_duration(nodes[0], 2**64 - 1), "it lasts 18,446,744,073,709,551,615,000 ns"),
    ("duration", 0, lambda nodes: set_duration(nodes[0], 2**54 // 1000), "it lasts 18,014,398,509,481,000 ns"),
    ("duration", 1, lambda nodes: lengthen(nodes, 600), r"the nodes up to its id take 4,\d*,[\d,]* ns"),
    ("absent-dependency", 0, lambda nodes: nodes[2].data_deps.append(999), "it waits for id 999"),
    ("absent-dependency", 0, lambda nodes: nodes[2].ctrl_deps.append(999), "it waits for id 999"),
    ("self-dependency", 0, wait_for_itself, "it waits for itself"),
    ("cycle", 1, wait_in_a_circle, r"through other nodes: (\d+ \(aten::mm\)) waits for \d+ .*, which waits for \1"),
    ("communication-on-cpu", 0, set_attribute(COLL, "is_cpu_op", bool_val=True), "is_cpu_op is true"),
    ("comm-type", 0, drop_attribute(COLL, "comm_type"), "comm_type is absent"),
    ("comm-type", 0, set_attribute(COLL, "comm_type", int64_val=9), "BARRIER"),
    ("comm-type", 0, set_attribute(COLL, "comm_type", int64_val=1), "REDUCE"),
    ("comm-type", 0, set_attribute(COLL, "comm_type", string_val="0"), r"'0' \(string_val\)"),
    ("comm-size", 0, drop_attribute(COLL, "comm_size"), "comm_size is absent"),
    ("comm-size", 0, set_attribute(SEND, "comm_size", float_val=1.0), "float_val"),
    ("comm-size", 0, set_attribute(COLL, "comm_size", int64_val=2**53 + 1), "comm_size is '9007199254740993'"),
    ("comm-size", 0, set_attribute(COLL, "comm_size", uint64_val=2**64 - 1), "comm_size is '18446744073709551615'"),
    ("comm-size", 0, set_attribute(COLL, "comm_size", int64_val=-1), "comm_size is '-1'"),
    ("comm-size", 0, tiny_all_gather, "an all-gather of 3 bytes"),
    ("group", 0, set_attribute(COLL, "pg_name", string_val="2147483648"), "pg_name is '2147483648'"),
    ("group", 0, set_attribute(COLL, "pg_name", string_val="9" * 5_000), "pg_name is '9999"),
    ("group", 0, set_attribute(COLL, "pg_name", string_val="\u0661"), "pg_name is"),
    ("message", 0, set_attribute(SEND, "comm_tag", int64_val=2**31), "comm_tag is '2147483648'"),
    ("message", 0, set_attribute(SEND, "comm_tag", int32_val=-1), "comm_tag is '-1'"),
    ("message", 0, set_attribute(SEND, "comm_dst", uint64_val=2**64 - 1), "comm_dst is '18446744073709551615'"),
    ("group", 0, drop_attribute(COLL, "pg_name"), "pg_name is absent"),
    ("group", 0, set_attribute(COLL, "pg_name", string_val="0"), "pg_name is '0'"),
    ("group", 0, set_attribute(COLL, "pg_name", string_val="default_pg"), "default_pg"),
    ("group", 0, set_attribute(COLL, "pg_name", string_val="2"), "group 2 is not listed"),
    ("message", 0, drop_attribute(SEND, "comm_dst"), "comm_dst is absent"),
    ("message", 1, drop_attribute(RECV, "comm_src"), "comm_src is absent"),
    ("message", 0, drop_attribute(SEND, "comm_tag"), "comm_tag is absent"),
    ("message", 0, set_attribute(SEND, "comm_dst", int32_val=5), "comm_dst is 5"),
    ("message", 0, set_attribute(SEND, "comm_src", int32_val=1), "comm_src is 1 in the file of rank 0"),
    ("group", 0, set_attribute(SEND, "pg_name", string_val="2"), "group 2 is not listed"),
    ("attribute-type", 0, set_attribute("COMP_NODE", "is_cpu_op", int64_val=1), "is_cpu_op is a int64_val"),
    ("attribute-type", 0, set_attribute(COLL, "is_cpu_op"), "is_cpu_op is a thing without a value"),
    ("attribute-type", 0, add_attribute(COLL, "comm_priority", string_val="1"), "comm_priority is '1'"),
    ("attribute-type", 1, add_attribute(RECV, "comm_priority", string_val="1"), "comm_priority is '1'"),
    ("involved-dim", 0, add_involved_dim, "involved_dim is '1'"),
    ("collectives-differ", 1, set_attribute(COLL, "comm_size", int64_val=5), "number 0 of group 1 is .* on rank 1"),
    ("collectives-differ", 1, set_attribute(COLL, "comm_type", int64_val=2), "ALL_GATHER of 4,000 bytes on rank 1"),
    ("message-without-partner", 0, set_attribute(SEND, "comm_tag", int32_val=5), "with tag"),
    ("message-without-partner", 0, set_attribute(SEND, "comm_size", int64_val=5), r"sent as \[5\] and received as"),
    ("no-nodes", 0, lambda nodes: nodes.clear(), "there is no node"),
]


@pytest.mark.sampled(24)
@pytest.mark.parametrize(("rule", "rank", "change", "what"), CASES)
def test_a_broken_rule_is_found(work: Path, rule: str, rank: int, change: Any, what: str) -> None:
    assert check(read_folder(work)).findings == []
    changed(work, rank, change)
    findings = check(read_folder(work)).findings
    assert findings
    assert {finding.rule for finding in findings} == {rule}
    line = next(str(finding) for finding in findings if finding.file == f"trace.{rank}.et")
    assert re.fullmatch(rf"trace.{rank}.et: .*{rule}: .*{what}.*; {re.escape('; '.join(RULES[rule]))}", line)


def drop_last_collective(nodes: list[Any]) -> None:
    gone = one(nodes, COLL, 1)
    nodes.remove(gone)
    for node in nodes:
        if gone.id in node.data_deps:
            node.data_deps.remove(gone.id)


def test_another_number_of_collectives_is_found(work: Path) -> None:
    changed(work, 1, drop_last_collective)
    (finding,) = check(read_folder(work)).findings
    assert finding.rule == "collectives-differ"
    assert "1 collectives on rank 1, 2 on rank 0" in finding.what


def test_ranks_that_wait_for_each_other_are_found_by_executing_them(work: Path) -> None:
    """Two groups, issued in opposite orders: each group's order is right, and nothing moves."""
    (work / "comm_groups.json").write_text('{"1": [0, 1], "2": [0, 1]}')

    def regroup(order: tuple[str, str]) -> Callable[[list[Any]], None]:
        def change(nodes: list[Any]) -> None:
            for at, group in enumerate(order):
                node = one(nodes, COLL, at)
                attribute(node, "pg_name").string_val = group
                attribute(node, "comm_size").int64_val = int(group)

        return change

    changed(work, 0, regroup(("1", "2")))
    changed(work, 1, regroup(("2", "1")))
    result = check(read_folder(work))
    assert {finding.rule for finding in result.findings} == {"stall"}
    assert any("collective 0 of group 1 for rank 1, which is stuck at node" in str(f) for f in result.findings)
    simulation = simulate(read_folder(work))
    assert len(simulation.stalls) == 2
    assert any(rank.executed < rank.nodes for rank in simulation.ranks)


def test_a_dependency_between_collective_and_message_can_stall(work: Path) -> None:
    """Rank 0 sends only after the collective, which rank 1 starts only after it has received."""

    def change(nodes: list[Any]) -> None:
        first = one(nodes, COLL)
        receive = one(nodes, RECV)
        receive.ClearField("data_deps")
        first.data_deps.append(receive.id)

    changed(work, 1, change)
    findings = check(read_folder(work)).findings
    assert {finding.rule for finding in findings} == {"stall"}
    assert any("waits for the message with tag 0 from rank 0" in finding.what for finding in findings)


def test_every_rule_about_nodes_is_tried() -> None:
    elsewhere = {"not-writable", "ranks", "groups-file", "no-metadata", "stall"}
    assert {rule for rule, *_ in CASES} | elsewhere == set(RULES)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"0": [0, 1], "1": [0, 1]}', "'0' is not a group key"),
        ('{"1": [0, 1], "2": [0, 7]}', "rank 7 of group 2 has no file"),
        ('{"1": [0, 1], "2": [1, 1]}', "names a rank twice"),
        ('{"1": [0, 1], "2147483648": [0, 1]}', "'2147483648' is not a group key"),
        (f'{{"1": [0, 1], "{"9" * 5_000}": [0, 1]}}', f"'{'9' * 40}' is not a group key"),
    ],
)
def test_a_bad_groups_file_is_found(work: Path, text: str, what: str) -> None:
    (work / "comm_groups.json").write_text(text)
    (finding,) = check(read_folder(work)).findings
    assert (finding.rule, finding.file) == ("groups-file", "comm_groups.json")
    assert what in finding.what


def test_a_group_without_this_rank_is_found(work: Path) -> None:
    (work / "comm_groups.json").write_text('{"1": [1]}')
    assert {f"{f.rule}: {f.what}" for f in check(read_folder(work)).findings} == {"group: rank 0 is not in group 1"}


def test_without_a_groups_file_its_groups_are_not_listed(work: Path) -> None:
    (work / "comm_groups.json").unlink()
    first, *others = check(read_folder(work)).findings
    assert str(first).startswith("comm_groups.json: groups-file: the file is missing, but nodes name groups")
    assert {finding.rule for finding in others} == {"group"}


def test_without_communication_no_groups_file_is_needed(tmp_path: Path) -> None:
    trace = RankBuilder(0, 1)
    trace.op("aten::a", 0, 10)
    converted(tmp_path, trace)
    (tmp_path / "work" / "comm_groups.json").unlink()
    assert check(read_folder(tmp_path / "work")).findings == []


def test_a_node_in_the_place_of_the_metadata_is_found(work: Path) -> None:
    """A reader would skip it, and what waits for it would wait for ever."""
    path = work / "trace.1.et"
    path.write_bytes(b"".join(length_prefixed(read_et(path).messages[1:])))
    findings = check(read_folder(work)).findings
    assert (findings[0].file, findings[0].rule) == ("trace.1.et", "no-metadata")


def test_metadata_without_attributes_is_metadata(work: Path) -> None:
    path = work / "trace.1.et"
    path.write_bytes(b"".join(length_prefixed([b"", *read_et(path).messages[1:]])))
    assert check(read_folder(work)).findings == []


def test_the_command_never_overwrites_the_workload(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (work / "trace.0.et").read_bytes()
    assert main(["chakra", "check", str(work), "--json", str(work / "trace.0.et")]) == 1
    assert "is an input, and inputs are never overwritten" in capsys.readouterr().err
    assert (work / "trace.0.et").read_bytes() == before


def test_a_path_with_the_word_empty_is_found(work: Path) -> None:
    moved = work.rename(work.with_name("not_empty"))
    assert [finding.rule for finding in check(read_folder(moved)).findings] == ["groups-file"]


def test_ranks_must_count_up_from_zero(work: Path) -> None:
    (work / "trace.1.et").rename(work / "trace.3.et")
    findings = check(read_folder(work)).findings
    assert findings[0].rule == "ranks"
    assert "files exist for 0, 3" in str(findings[0])


def test_a_file_must_be_writable(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, _: Path(path).name != "trace.1.et")
    (finding,) = check(read_folder(work)).findings
    assert str(finding).startswith("trace.1.et: not-writable: no write permission")


def as_pipe(name: str) -> Callable[[Path], None]:
    """Put a pipe into which nobody writes in a file's place."""

    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return spoil


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda raw: b"", "is empty"),
        (lambda raw: raw[:-3], "is truncated in the message at byte"),
        (lambda raw: raw + b"\x80", "is truncated in a length"),
        (lambda raw: b"\xff" * 20, "no message length at byte 0"),
        (gzip.compress, "is compressed"),
        (lambda raw: b"\x03\xff\xff\xff", "does not match the schema"),
    ],
)
def test_files_that_are_no_traces_are_refused(work: Path, spoil: Callable[[bytes], bytes], message: str) -> None:
    path = work / "trace.0.et"
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(TraceError, match=message):
        _ = read_et(path).metadata


def as_folder(name: str) -> Callable[[Path], None]:
    """Put a folder in a file's place."""

    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).mkdir()

    return spoil


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "trace.0.et").rename(folder / "trace.et"), "is not named PREFIX.<rank>.et"),
        (lambda folder: (folder / "trace.0.et").rename(folder / "other.0.et"), "holds files of other, trace"),
        (lambda folder: (folder / "trace.01.et").write_bytes(b""), "trace.01.et: is not named PREFIX.<rank>.et"),
        (lambda folder: (folder / "comm_groups.json").write_text("[]"), "is not an object of rank lists"),
        (lambda folder: (folder / "comm_groups.json").write_text("{"), "cannot be read, it is not JSON"),
        (lambda folder: (folder / "comm_groups.json").write_bytes(b"\xff\xfe{"), "cannot be read, it is not JSON"),
        (lambda folder: (folder / "comm_groups.json").write_text("[" * 100_000), "cannot be read, it is not JSON"),
        (lambda folder: (folder / "comm_groups.json").write_text("9" * 5_000), "comm_groups.json: "),
        (lambda folder: (folder / "comm_groups.json").write_text('{"1": [0, 1.0]}'), "is not an object of rank lists"),
        (lambda folder: (folder / "comm_groups.json").write_text('{"1": [true]}'), "is not an object of rank lists"),
        (as_pipe("comm_groups.json"), "comm_groups.json: is no file"),
        (as_pipe("trace.1.et"), "trace.1.et: is no file"),
        (as_folder("comm_groups.json"), "comm_groups.json: cannot be read: Is a directory"),
        (as_folder("trace.1.et"), "trace.1.et: cannot be read: Is a directory"),
        (lambda folder: [path.unlink() for path in folder.glob("*.et")], "holds no .et file"),
    ],
)
def test_folders_that_are_no_workloads_are_refused(work: Path, spoil: Any, message: str) -> None:
    spoil(work)
    with pytest.raises(TraceError, match=message):
        read_folder(work)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such folder"):
        read_folder(tmp_path / "nowhere")


def test_the_command_prints_a_line_per_finding_and_exits_with_1(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chakra", "check", str(work)]) == 0
    assert "no problems; ranks: 2, nodes: " in capsys.readouterr().out
    changed(work, 0, wait_for_itself)
    assert main(["chakra", "check", str(work), "--json", str(work.parent / "found.json")]) == 1
    document = json.loads((work.parent / "found.json").read_text())
    assert document["schema"] == "hta-graph/chakra-check/1"
    assert [finding["rule"] for finding in document["findings"]] == ["self-dependency"]
    assert capsys.readouterr().out == f"{work}: 1 problem\n"
    assert main(["chakra", "check", str(work)]) == 1
    out, err = capsys.readouterr()
    assert out == f"{work}: 1 problem\n{check(read_folder(work)).findings[0]}\n"
    assert "ASTRA-sim cannot run this workload; 1 problem" in err


def test_what_breaks_a_rule_is_not_simulated(work: Path) -> None:
    changed(work, 0, wait_for_itself)
    with pytest.raises(NotSimulatedError, match="self-dependency"):
        simulate(read_folder(work))


def test_one_rank_is_noted(tmp_path: Path) -> None:
    trace = RankBuilder(0, 1)
    trace.op("aten::a", 0, 10)
    converted(tmp_path, trace)
    notes = check(read_folder(tmp_path / "work")).notes
    assert any("needs at least two" in note for note in notes)
    assert any("no statistics per type" in note for note in notes)


def test_times_that_no_simulator_can_count_are_refused_and_not_written(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed(work, 0, lambda nodes: set_duration(nodes[0], 2**64 - 1))
    document = work.parent / "ranks.json"
    assert main(["chakra", "simulate", str(work), "--json", str(document)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"hta-graph: {work}: cannot be executed: trace.0.et: node 1: duration: it lasts 18,446,744,")
    assert not document.exists()
    changed(work, 0, lambda nodes: set_duration(nodes[0], 2**53 // 1000))
    assert main(["chakra", "simulate", str(work), "--json", str(document)]) == 0
    assert json.loads(document.read_text())["ranks"][0]["simulated_ns"] > 2**53 - 1000


def test_names_of_several_lines_stay_on_one(work: Path) -> None:
    def change(nodes: list[Any]) -> None:
        nodes[0].name = "two\nlines"
        wait_in_a_circle(nodes)

    changed(work, 0, change)
    (finding,) = check(read_folder(work)).findings
    assert "(two lines)" in str(finding)
    assert "\n" not in str(finding)
