"""The command: what it reads, what it writes, what it refuses."""

from __future__ import annotations

import csv
import gzip
import io
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from analyses.cli.main import main
from hta_graph.base.errors import OutputError, UsageError
from hta_graph.chakra.et_files import check_target, length_prefixed, read_folder, write_folder
from hta_graph.chakra.linked_trace_reader import read_linked
from tests.support.host_builder import HostBuilder
from tests.support.rank_builder import ALL_REDUCE, RankBuilder, named, nodes

pytestmark = pytest.mark.sampled(2)


def two_ranks(folder: Path) -> Path:
    """Write the traces of two ranks into a folder."""
    folder.mkdir(exist_ok=True)
    for rank in (0, 1):
        trace = RankBuilder(rank, 2)
        trace.op("aten::mm", 0, 10, **{"Record function id": 11})
        trace.launch("gemm", (2, 4), (5, 50), 1)
        trace.op("aten::relu", 10, 20, **{"Record function id": 12})
        trace.launch("relu", (12, 14), (50, 60), 2, stream=9)
        trace.collective(20, (22, 90), 3)
        trace.write(folder / f"rank{rank}.json")
    return folder


def host_trace(path: Path) -> Path:
    """Write the host trace: relu reads what mm wrote."""
    host = HostBuilder()
    tensor = ([5, 6, 0, 100, 4, "cuda:0"], [10, 10], "Tensor(float)")
    first = host.op("aten::mm", rf=11)
    host.op("aten::relu", rf=12, inputs=(tensor,), op_schema="aten::relu(Tensor self) -> Tensor")
    (node,) = [node for node in host.nodes if node["id"] == first]
    node["outputs"] = {"values": [tensor[0]], "shapes": [tensor[1]], "types": [tensor[2]]}
    path.write_text(json.dumps(host.document()))
    return path


def run(*arguments: str | Path) -> int:
    return main(["chakra", *map(str, arguments)])


def test_a_folder_of_ranks_becomes_a_workload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("convert", two_ranks(tmp_path / "traces"), "-o", tmp_path / "work") == 0
    files = {path.name for path in (tmp_path / "work").iterdir()}
    assert files == {"trace.0.et", "trace.1.et", "comm_groups.json", "group_names.json"}
    out = capsys.readouterr().out
    assert out.startswith("wrote 2 ranks, ")
    assert f" nodes to {tmp_path / 'work'}; simulated times are within 0.0" in out
    assert "+0.00%" in out or "-0.00%" in out
    assert {path.name for path in tmp_path.iterdir()} == {"traces", "work"}


def test_the_files_have_the_prefix_that_is_asked_for(tmp_path: Path) -> None:
    assert run("convert", two_ranks(tmp_path / "traces"), "-o", tmp_path / "work", "--prefix", "dlrm") == 0
    assert sorted(path.name for path in (tmp_path / "work").glob("*.et")) == ["dlrm.0.et", "dlrm.1.et"]


def test_the_first_message_says_what_the_file_is(tmp_path: Path) -> None:
    run("convert", two_ranks(tmp_path / "traces"), "-o", tmp_path / "work", "--profile", "gpu")
    metadata = read_folder(tmp_path / "work").files[1].metadata
    own = {"trace": "rank1.json", "rank": 1, "origin_nanos": 0, "measured_nanos": 90_000}
    assert metadata == own | {"schema": "hta-graph/chakra-et/1", "profile": "gpu", "world_size": 2}


def test_an_output_that_exists_is_kept_unless_forced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces, work = two_ranks(tmp_path / "traces"), tmp_path / "work"
    assert run("convert", traces, "-o", work, "--profile", "gpu") == 0
    before = (work / "trace.0.et").read_bytes()
    assert run("convert", traces, "-o", work) == 1
    assert "work: already exists; use --force to replace it" in capsys.readouterr().err
    assert (work / "trace.0.et").read_bytes() == before
    assert run("convert", traces, "-o", work, "--force", "--prefix", "other") == 0
    assert sorted(path.name for path in work.glob("*.et")) == ["other.0.et", "other.1.et"]


@pytest.mark.parametrize("name", ["old", "new", ".old", "trace.0.et"])
@pytest.mark.parametrize("prefix", ["trace", "old"])
@pytest.mark.slow
def test_a_workload_of_any_name_can_be_replaced_again_and_again(tmp_path: Path, name: str, prefix: str) -> None:
    traces, work = two_ranks(tmp_path / "traces"), tmp_path / "OUT" / name
    work.parent.mkdir()
    for _ in range(3):
        assert run("convert", traces, "-o", work, "--force", "--prefix", prefix) == 0
        assert sorted(path.name for path in work.glob("*.et")) == [f"{prefix}.0.et", f"{prefix}.1.et"]
        assert [path.name for path in work.parent.iterdir()] == [name]


def test_where_a_link_leads_is_replaced(tmp_path: Path) -> None:
    traces, work, link = two_ranks(tmp_path / "traces"), tmp_path / "work", tmp_path / "link"
    work.mkdir()
    link.symlink_to(work)
    for _ in range(2):
        assert run("convert", traces, "-o", link, "--force") == 0
        assert link.is_symlink()
        assert {path.name for path in work.iterdir()} >= {"trace.0.et", "trace.1.et"}


def test_a_folder_with_other_files_is_never_replaced(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    check_target(work, force=False)
    (work / "thesis.tex").write_text("x")
    with pytest.raises(OutputError, match=r"holds other files, such as thesis.tex"):
        check_target(work, force=True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nearly_empty", 'ignores groups in a path that contains "empty"'),
        ("missing/work", "its parent folder does not exist"),
        ("file", "is a file; name a folder"),
    ],
)
def test_outputs_that_cannot_be_are_refused_first(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match=message):
        check_target(tmp_path / name, force=True)


def test_only_the_path_that_is_named_may_not_hold_the_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ASTRA-sim looks at the path that it is given, not at where that lies."""
    traces, inside = two_ranks(tmp_path / "traces"), tmp_path / "empty"
    inside.mkdir()
    monkeypatch.chdir(inside)
    assert run("convert", traces, "-o", "work") == 0
    assert run("check", "work") == 0
    assert run("check", inside / "work") == 1


@pytest.mark.parametrize("name", [".", "..", "a/.."])
def test_a_folder_without_a_name_of_its_own_is_no_target(name: str) -> None:
    with pytest.raises(OutputError, match="name a folder inside it"):
        check_target(Path(name), force=False)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("prefix", ["", "../../stray", "a/b", "a\nb", "a\0b", ".", "..", ".hidden"])
def test_a_prefix_leads_nowhere_else(tmp_path: Path, prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    traces = two_ranks(tmp_path / "traces")
    (tmp_path / "here").mkdir()
    assert run("convert", traces, "-o", tmp_path / "here" / "work", "--prefix", prefix) == 1
    assert "cannot start a file name" in capsys.readouterr().err
    assert {path.name for path in tmp_path.rglob("*")} == {"traces", "here", "rank0.json", "rank1.json"}


def test_an_interruption_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between taking the old folder away and putting the new one in its place, where that takes two steps."""
    work, rename = tmp_path / "work", Path.rename
    monkeypatch.setattr("hta_graph.base.storage.atomic_write._exchange", lambda *_: False)
    work.mkdir()
    (work / "trace.0.et").write_bytes(b"old")

    def interrupted(path: Path, target: Path) -> Path:
        if target == work and path.name == "work" and not work.exists():
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_folder(work, {"trace.0.et": length_prefixed([b""])}, {}, lambda _: None, force=True)
    assert [(path.name, path.read_bytes()) for path in work.iterdir()] == [("trace.0.et", b"old")]
    assert [path.name for path in tmp_path.iterdir()] == ["work"]


def test_a_failed_conversion_keeps_what_was_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces, work = two_ranks(tmp_path / "traces"), tmp_path / "work"
    run("convert", traces, "-o", work)
    before = {path.name: path.read_bytes() for path in work.iterdir()}
    assert run("convert", traces / "rank0.json", "-o", work, "--force") == 1
    assert "missing ranks: 1" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in work.iterdir()} == before
    assert {path.name for path in tmp_path.iterdir()} == {"traces", "work"}


@pytest.mark.slow
def test_a_broken_rank_is_an_error_and_not_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces = two_ranks(tmp_path / "traces")
    whole = (traces / "rank1.json").read_text()
    (traces / "rank1.json").write_text(whole[: len(whole) // 2])
    for jobs in ("1", "2"):
        assert run("convert", traces, "-o", tmp_path / "work", "--missing-ranks", "copy", "--jobs", jobs) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"hta-graph: {traces / 'rank1.json'}: the JSON is truncated")
    assert not (tmp_path / "work").exists()


def test_one_rank_of_several_can_be_asked_for(tmp_path: Path) -> None:
    traces = two_ranks(tmp_path / "traces")
    arguments = ("-o", tmp_path / "work", "--rank", "1", "--missing-ranks", "as-compute")
    assert run("convert", traces, *arguments) == 0
    assert list(read_folder(tmp_path / "work").files) == [0]


def test_host_traces_add_tensors_attributes_and_dependencies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    traces = two_ranks(tmp_path / "traces")
    hosts = [host_trace(tmp_path / f"host_rank{rank}.json") for rank in (0, 1)]
    assert run("convert", traces, "-o", tmp_path / "plain") == 0
    assert run("convert", traces, "-o", tmp_path / "work", "--host-trace", *hosts) == 0
    assert "rank 1, 2 host operators (100.0%) matched by record function id" in capsys.readouterr().err
    plain, folder = read_folder(tmp_path / "plain"), read_folder(tmp_path / "work")
    assert "gemm" not in named(plain, "relu").after
    assert "gemm" in named(folder, "relu").after
    assert named(folder, "relu").values["op_schema"] == "aten::relu(Tensor self) -> Tensor"
    (node,) = [node for node in folder.files[0].nodes() if node.name == "relu"]
    assert (node.inputs.values, node.inputs.shapes, node.inputs.types) == (
        "[[5, 6, 0, 100, 4, 'cuda:0']]", "[[10, 10]]", "['Tensor(float)']",
    )  # fmt: skip


def test_host_traces_without_a_rank_in_their_names_go_by_order(tmp_path: Path) -> None:
    traces = two_ranks(tmp_path / "traces")
    hosts = [host_trace(tmp_path / name) for name in ("a.json", "b.json")]
    assert run("convert", traces, "-o", tmp_path / "work", "--host-trace", *hosts) == 0
    assert run("convert", traces, "-o", tmp_path / "other", "--host-trace", hosts[0]) == UsageError.exit_status


def test_a_host_trace_of_a_rank_that_is_not_there_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    traces = two_ranks(tmp_path / "traces")
    host = host_trace(tmp_path / "host_rank1.json")
    only = (traces / "rank0.json", "-o", tmp_path / "work", "--missing-ranks", "copy")
    assert run("convert", *only, "--host-trace", host) == UsageError.exit_status
    assert "host_rank1.json: rank 1 has no device trace; device traces are of ranks 0" in capsys.readouterr().err
    assert not (tmp_path / "work").exists()
    others = host_trace(tmp_path / "host_rank0.json"), host
    whole = (traces, "-o", tmp_path / "work", "--missing-ranks", "copy", "--rank", "0")
    assert run("convert", *whole, "--host-trace", *others) == 0


def test_a_rank_without_a_host_trace_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces = two_ranks(tmp_path / "traces")
    host = host_trace(tmp_path / "host_rank1.json")
    assert run("convert", traces, "-o", tmp_path / "work", "--host-trace", host) == 0
    assert "rank 0 has no host trace" in capsys.readouterr().err
    assert run("convert", traces, "-o", tmp_path / "other") == 0
    assert "has no host trace" not in capsys.readouterr().err


def test_two_host_traces_of_one_rank_are_not_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces = two_ranks(tmp_path / "traces")
    (tmp_path / "b").mkdir()
    first = host_trace(tmp_path / "host_rank0.json")
    for other in (host_trace(tmp_path / "b" / "host_rank0.json"), host_trace(tmp_path / "host.json")):
        assert run("convert", traces, "-o", tmp_path / "work", "--host-trace", first, other) == UsageError.exit_status
        assert "no distinct rank in its name" in capsys.readouterr().err


def test_process_groups_tell_the_host_trace_of_another_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces = two_ranks(tmp_path / "traces")
    host = HostBuilder()
    host.op("aten::mm", rf=11)
    host.op("aten::relu", rf=12)
    host.op("## process_group:init ##", inputs=(('[{"pg_name": "1", "ranks": [1]}]', [], "String"),))
    (tmp_path / "host_rank0.json").write_text(json.dumps(host.document()))
    assert run("convert", traces, "-o", tmp_path / "work", "--host-trace", tmp_path / "host_rank0.json") == 1
    assert "lists only process groups of other ranks, not of 0" in capsys.readouterr().err


def test_a_file_is_a_device_trace_or_a_host_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces = two_ranks(tmp_path / "traces")
    assert run("convert", traces, "-o", tmp_path / "work", "--host-trace", traces) == UsageError.exit_status
    assert "all inputs are also named by --host-trace" in capsys.readouterr().err


def test_linked_and_device_traces_do_not_mix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    linked, traces = one_linked(tmp_path), tmp_path / "traces"
    arguments = (linked, traces / "rank1.json", "-o", tmp_path / "work", "--missing-ranks", "copy")
    assert run("convert", *arguments) == UsageError.exit_status
    assert "is a linked trace, others are device traces" in capsys.readouterr().err
    text = linked.read_bytes()
    linked.write_bytes(text[: len(text) // 2])
    assert run("convert", linked, "-o", tmp_path / "work") == 1
    assert f"{linked}: the JSON is truncated at byte {len(text) // 2:,}" in capsys.readouterr().err
    linked.write_bytes(gzip.compress(text)[:-20])
    assert run("convert", linked, "-o", tmp_path / "work") == 1
    assert "the gzip data is truncated" in capsys.readouterr().err


def test_linked_traces_hold_it_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces = two_ranks(tmp_path / "traces")
    for rank in (0, 1):
        host = host_trace(tmp_path / f"host_rank{rank}.json")
        linked = tmp_path / f"linked.rank{rank}.json"
        arguments = (
            "--host-trace",
            host,
            "--device-trace",
            traces / f"rank{rank}.json",
            "--rank",
            rank,
            "--output",
            linked,
        )
        assert run("link", *arguments) == 0
    inputs = [tmp_path / f"linked.rank{rank}.json" for rank in (0, 1)]
    capsys.readouterr()
    assert run("convert", *inputs, "-o", tmp_path / "work") == 0
    folder = read_folder(tmp_path / "work")
    gemm = named(folder, "gemm")
    assert gemm.after == ["aten::mm"]
    assert gemm.values["duration_nanos"] == 45_000
    assert "gemm" in named(folder, "relu").after
    assert run("convert", *inputs, "-o", tmp_path / "other", "--host-trace", tmp_path / "host_rank0.json") == 2
    assert run("convert", inputs[0], "-o", tmp_path / "other", "--rank", "7") == 1
    assert "rank 7 not found; available: 0" in capsys.readouterr().err


def test_a_host_trace_is_no_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("convert", host_trace(tmp_path / "host.json"), "-o", tmp_path / "work") == 1
    assert "holds no GPU nodes; pass a linked trace" in capsys.readouterr().err


@pytest.mark.parametrize(
    "spoil", [{"nodes": 3}, {"nodes": [{"ts": 1}]}, {"nodes": [{"ts": 1, "id": 1, "cat": "kernel"}]}]
)
def test_linked_traces_of_another_shape_are_refused(
    tmp_path: Path, spoil: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "linked.json"
    path.write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", **spoil}))
    assert run("convert", path, "-o", tmp_path / "work") == 1
    assert "is not a linked trace" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("outputs", 1.5, "node 1 has outputs of an unknown form"),
        ("outputs", {"values": 3}, "node 1 has outputs of an unknown form"),
        ("inputs", "x", "is not a linked trace"),
        ("ctrl_deps", 99, None),
    ],
)
def test_linked_nodes_of_another_shape_are_refused(
    tmp_path: Path, key: str, value: Any, message: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = one_linked(tmp_path)
    document = json.loads(path.read_text())
    (node,) = [node for node in document["nodes"] if node["name"] == "aten::mm"]
    message = message.replace("node 1", f"node {node['id']}") if message else None
    node[key] = value
    path.write_text(json.dumps(document))
    only = ("convert", path, "-o", tmp_path / "work", "--missing-ranks", "as-compute")
    assert run(*only) == (1 if message else 0)
    assert (message or "") in capsys.readouterr().err


@pytest.mark.parametrize("rank", [1 << 70, -1, True, "0"])
def test_a_broken_rank_of_a_linked_trace_is_not_taken(tmp_path: Path, rank: object) -> None:
    path = one_linked(tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"rank": rank}))
    assert read_linked(path).trace.rank == 0


def one_linked(tmp_path: Path) -> Path:
    """Link rank 0."""
    traces, host = two_ranks(tmp_path / "traces"), host_trace(tmp_path / "host_rank0.json")
    linked = tmp_path / "linked.rank0.json"
    assert run("link", "--host-trace", host, "--device-trace", traces / "rank0.json", "--output", linked) == 0
    return linked


def test_simulate_prints_ranks_and_writes_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("convert", two_ranks(tmp_path / "traces"), "-o", tmp_path / "work")
    capsys.readouterr()
    table, document = tmp_path / "nodes.csv", tmp_path / "ranks.json"
    assert run("simulate", tmp_path / "work", "--nodes", table) == 0
    assert "0.090 ms" in capsys.readouterr().out
    assert run("simulate", tmp_path / "work", "--json", document) == 0
    found = json.loads(document.read_text())
    assert found["schema"] == "hta-graph/chakra-simulate/1"
    assert [rank["measured_ns"] for rank in found["ranks"]] == [90_000, 90_000]
    assert all(rank["executed"] == rank["nodes"] for rank in found["ranks"])
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert len(rows) == sum(rank["nodes"] for rank in found["ranks"])
    gemm = next(row for row in rows if row["name"] == "gemm")
    assert (gemm["measured_start_ns"], gemm["measured_duration_ns"], gemm["end_ns"]) == ("5000", "45000", "48000")


def test_simulate_never_overwrites_the_workload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("convert", two_ranks(tmp_path / "traces"), "-o", tmp_path / "work")
    assert run("simulate", tmp_path / "work", "--nodes", tmp_path / "work" / "trace.0.et") == 1
    assert "is an input" in capsys.readouterr().err


def test_files_of_other_tools_can_be_simulated(tmp_path: Path) -> None:
    """What only this project writes into a file may be absent."""
    run("convert", two_ranks(tmp_path / "traces"), "-o", tmp_path / "work")
    for path in (tmp_path / "work").glob("*.et"):
        strip(path)
    assert run("simulate", tmp_path / "work", "--json", tmp_path / "ranks.json", "--nodes", tmp_path / "n.csv") == 0
    ranks = json.loads((tmp_path / "ranks.json").read_text())["ranks"]
    assert [(rank["measured_ns"], rank["rank"]) for rank in ranks] == [(None, None)] * 2


def strip(path: Path) -> None:
    """Take out what simulators do not read."""
    from hta_graph.chakra.et_files import length_prefixed, read_et
    from hta_graph.chakra.schema import GlobalMetadata

    kept = ("is_cpu_op", "comm_type", "comm_size", "pg_name")
    listed = list(read_et(path).nodes())
    for node in listed:
        for attribute in [attribute for attribute in node.attr if attribute.name not in kept]:
            node.attr.remove(attribute)
    path.write_bytes(
        b"".join(length_prefixed([GlobalMetadata().SerializeToString(), *(n.SerializeToString() for n in listed)]))
    )


def test_what_became_of_the_traces_can_be_written(tmp_path: Path) -> None:
    traces, document = two_ranks(tmp_path / "traces"), tmp_path / "found.json"
    assert run("convert", traces, "-o", tmp_path / "work", "--json", document) == 0
    found = json.loads(document.read_text())
    assert found["schema"] == "hta-graph/chakra-convert/1"
    assert [(rank["npu"], rank["measured_ns"]) for rank in found["ranks"]] == [(0, 90_000), (1, 90_000)]
    assert run("convert", traces, "-o", tmp_path / "other", "--json", traces / "rank0.json") == 1


def test_equal_inputs_give_equal_bytes(tmp_path: Path) -> None:
    traces = two_ranks(tmp_path / "traces")
    for name in ("one", "two"):
        run("convert", traces, "-o", tmp_path / name)
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two


def test_the_collective_waits_for_what_was_before_it_on_its_stream(tmp_path: Path) -> None:
    run("convert", two_ranks(tmp_path / "traces"), "-o", tmp_path / "work")
    folder = read_folder(tmp_path / "work")
    assert [node.type for node in nodes(folder) if node.name == ALL_REDUCE] == ["COMM_COLL_NODE"]


def test_a_group_needs_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["chakra"])
    assert stopped.value.code == 2
    assert "usage: hta-graph chakra" in capsys.readouterr().err


def test_a_plain_installation_writes_workloads() -> None:
    """What the exports for simulators need comes without an extra."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [line for line in project["dependencies"] if line.startswith("protobuf")]


def test_without_protobuf_one_line_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['google.protobuf'] = None; from analyses.cli.main import main; "
        f"sys.exit(main(['chakra', 'check', {str(tmp_path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (
        done.stderr
        == "hta-graph: .et and .pftrace files need protobuf; install it with: pip install 'protobuf>=4.25'\n"
    )
