"""Which rank is this file: the header, the name, the order; what is skipped and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from hta_graph.base.errors import HtaGraphError, TraceError
from tests.support.command_line import COMMANDS, command_json, one_error, run_command
from tests.support.trace_builder import TraceBuilder

HOST_TRACE = json.dumps({"schema": "1.0.1", "pid": 3, "nodes": [{"id": 1, "name": "x"}]})


def operator_trace(path: Path, name: str = "op", distributed: Any = None) -> Path:
    """Write a trace of one operator."""
    builder = TraceBuilder(**({} if distributed is None else {"distributedInfo": distributed}))
    builder.op(name, 0, 10)
    return builder.write(path)


def ranks_by_info(capsys: pytest.CaptureFixture[str], *inputs: Path) -> dict[int, str]:
    """Return rank → file name as ``info`` sees it."""
    return {rank["rank"]: Path(rank["file"]).name for rank in command_json(capsys, "info", *inputs)["ranks"]}


def ranks_and_words(*inputs: Path) -> tuple[list[int | None], list[str]]:
    """Read through the library; return the ranks in order and what was said."""
    lines: list[str] = []
    return [item.rank for item in hg.read_traces(inputs, say=lines.append)], lines


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("distributed", "name", "rank"),
    [
        ({"rank": 5, "world_size": 8, "backend": "nccl"}, "t.json", 5),
        ({"rank": 5}, "t.json", 5),
        ({"rank": "5"}, "t.json", 5),
        ({"rank": 0}, "rank7.json", 0),
        ({"rank": ""}, "rank7.json", 7),
        ({"rank": -1}, "rank7.json", 7),
        ({"rank": None}, "rank7.json", 7),
        ({"rank": True}, "rank7.json", 7),
        ({"rank": 2**40}, "rank7.json", 7),
        ({}, "rank7.json", 7),
        ({"backend": "nccl"}, "rank7.json", 7),
        ([], "rank7.json", 7),
        ("x", "rank7.json", 7),
        (None, "rank7.json", 7),
        (None, "rank-7.json.gz", 7),
        (None, "rank_7.json", 7),
        (None, "node-3-rank-07-x.json.gz", 7),
        (None, "RANK7.json", 7),
        (None, "worker7_step_12.1700000000000.pt.trace.json", 7),
        (None, "host_12345.1700000000000000000.pt.trace.json", 0),
        (None, "t.json", 0),
        (None, "rank99999999999.json", 0),
    ],
)
def test_the_header_comes_before_the_name_before_the_order(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, distributed: Any, name: str, rank: int
) -> None:
    path = operator_trace(tmp_path / name, distributed=distributed)
    assert ranks_by_info(capsys, path) == {rank: name}
    assert command_json(capsys, "critical-path", path)["rank"] == rank


def test_a_name_that_only_contains_rank_is_no_rank(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert ranks_by_info(capsys, operator_trace(tmp_path / "frank12.json")) == {0: "frank12.json"}


def test_a_folder_is_read_lowest_rank_first(tmp_path: Path) -> None:
    for number in (10, 2, 0):
        operator_trace(tmp_path / f"rank{number}.json")
    assert ranks_and_words(tmp_path) == ([0, 2, 10], [])


def test_several_files_are_ranks(tmp_path: Path) -> None:
    first, second = operator_trace(tmp_path / "a-rank1.json.gz"), operator_trace(tmp_path / "b-rank0.json")
    assert ranks_and_words(first, second) == ([0, 1], [])


def test_files_without_a_rank_are_numbered_by_order_and_this_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    operator_trace(tmp_path / "b.json")
    operator_trace(tmp_path / "a.json")
    operator_trace(tmp_path / "c.json", distributed={"rank": 1})
    status, out, err = run_command(capsys, "info", tmp_path, "--json", "-")
    assert status == 0
    assert {rank["rank"]: Path(rank["file"]).name for rank in json.loads(out)["ranks"]} == {
        0: "a.json", 1: "c.json", 2: "b.json",
    }  # fmt: skip
    assert err.startswith("2 files name no rank in their header or file name; ranks assigned by order: ")
    assert err.endswith(f": {tmp_path / 'a.json'} as rank 0, b.json as rank 2\n")


def test_given_files_keep_the_order_in_which_they_were_given(tmp_path: Path) -> None:
    second, first = operator_trace(tmp_path / "a.json", "second"), operator_trace(tmp_path / "b.json", "first")
    found = list(hg.read_traces([first, second]))
    assert [(item.rank, item.names[0]) for item in found] == [(0, "first"), (1, "second")]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("how", ["header", "file name", "both"])
def test_two_traces_that_claim_one_rank_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, how: str, command: str
) -> None:
    operator_trace(tmp_path / "rank1.json", distributed={"rank": 1} if how == "header" else None)
    other = "x.json" if how != "file name" else "rank_1.json"
    operator_trace(tmp_path / other, distributed=None if how == "file name" else {"rank": 1})
    line = one_error(capsys, tmp_path, command, tmp_path)
    assert "claims rank 1" in line
    assert "rank1.json" in line
    assert other in line


def test_one_file_given_twice_is_one_trace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = operator_trace(tmp_path / "rank1.json")
    assert ranks_by_info(capsys, path, path) == {1: "rank1.json"}
    assert ranks_by_info(capsys, path, tmp_path) == {1: "rank1.json"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("content", [HOST_TRACE, "[1, 2]", "7", '{"a": 1}'])
def test_files_without_trace_rows_are_skipped_with_a_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str
) -> None:
    operator_trace(tmp_path / "rank0.json")
    (tmp_path / "other.json").write_text(content)
    status, out, err = run_command(capsys, "info", tmp_path, "--json", "-")
    assert (status, err) == (0, f"skipped 1 file that is not a trace: {tmp_path / 'other.json'}\n")
    assert [rank["rank"] for rank in json.loads(out)["ranks"]] == [0]


def test_many_files_without_trace_rows_are_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    operator_trace(tmp_path / "rank0.json")
    for number in range(5):
        (tmp_path / f"host{number}.json").write_text(HOST_TRACE)
    _, _, err = run_command(capsys, "info", tmp_path, "--json", "-")
    first = f"{tmp_path / 'host0.json'}, host1.json, host2.json, …"
    assert err == f"skipped 5 files that are not traces: {first}\n"


def test_host_traces_do_not_take_a_rank(tmp_path: Path) -> None:
    operator_trace(tmp_path / "rank0.json")
    (tmp_path / "rank0_et.json").write_text(HOST_TRACE)
    found, lines = ranks_and_words(tmp_path)
    assert found == [0]
    assert lines == [f"skipped 1 file that is not a trace: {tmp_path / 'rank0_et.json'}"]


def test_other_files_of_a_folder_are_ignored(tmp_path: Path) -> None:
    operator_trace(tmp_path / "rank0.json")
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "folder.json").mkdir()
    assert ranks_and_words(tmp_path) == ([0], [])


def test_a_folder_of_host_traces_holds_no_trace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(HOST_TRACE)
    status, out, err = run_command(capsys, "info", tmp_path)
    assert (status, out, "Traceback" in err) == (1, "", False)
    assert err.splitlines()[-1] == f"hta-graph: {tmp_path}: no trace among these files"


def broken_trace(path: Path) -> Path:
    """Cut a trace's end off."""
    path.write_bytes(path.read_bytes()[:-10])
    return path


@pytest.mark.sampled(3)
@pytest.mark.parametrize("folder", ["runs", "not a trace", "without traceEvents"])
def test_a_broken_trace_in_a_folder_is_said_and_the_others_are_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, folder: str
) -> None:
    (tmp_path / folder).mkdir()
    for number in range(8):
        operator_trace(tmp_path / folder / f"rank{number}.json")
    path = broken_trace(tmp_path / folder / "rank1.json")
    target = tmp_path / "out.json"
    status, out, err = run_command(capsys, "info", tmp_path / folder, "--json", target)
    assert (status, out.count("\n"), err.count("\n")) == (1, 1, 1)
    assert err.startswith(f"hta-graph: {path}: the JSON is truncated at byte ")
    assert [rank["rank"] for rank in json.loads(target.read_bytes())["ranks"]] == [0, 2, 3, 4, 5, 6, 7]


def test_analyses_leave_a_broken_rank_out(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for number in range(3):
        operator_trace(tmp_path / f"rank{number}.json", distributed={"rank": number})
    broken_trace(tmp_path / "rank0.json")
    status, out, err = run_command(capsys, "temporal-breakdown", tmp_path, "--json", "-")
    assert (status, err.count("\n")) == (1, 1)
    assert [scope["rank"] for scope in json.loads(out)["scopes"]] == [1, 2]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("damage", ["cut", "empty", "no JSON"])
def test_where_a_rank_is_broken_the_job_is_that_of_the_others(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, damage: str
) -> None:
    for number in (2, 3, 4):
        operator_trace(tmp_path / f"rank{number}.json")
    path = broken_trace(tmp_path / "rank2.json")
    if damage != "cut":
        path.write_bytes(b"" if damage == "empty" else b"no JSON")
    status, out, err = run_command(capsys, "critical-path", tmp_path, "--json", "-")
    assert (status, json.loads(out)["ranks"]) == (1, [3, 4])
    (told,) = err.splitlines()
    assert told.startswith(f"hta-graph: {path}: ")


def test_where_one_rank_is_left_it_is_asked_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for number in (2, 3):
        operator_trace(tmp_path / f"rank{number}.json")
    (tmp_path / "rank2.json").write_bytes(b"")
    status, out, err = run_command(capsys, "critical-path", tmp_path, "--json", "-")
    assert (status, json.loads(out)["rank"]) == (1, 3)
    assert err.splitlines()[1:] == [f"continuing with {tmp_path / 'rank3.json'}, rank 3, alone"]


def test_a_broken_rank_does_not_matter_where_another_is_asked_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for number in (2, 3):
        operator_trace(tmp_path / f"rank{number}.json")
    (tmp_path / "rank3.json").write_bytes(b"")
    assert command_json(capsys, "critical-path", tmp_path, "--rank", "2")["rank"] == 2
    assert command_json(capsys, "info", tmp_path, "--rank", "2")["ranks"][0]["rank"] == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_a_broken_rank_that_is_asked_for_is_an_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    for number in (2, 3):
        operator_trace(tmp_path / f"rank{number}.json")
    (tmp_path / "rank3.json").write_bytes(b"")
    assert "rank3.json: is empty" in one_error(capsys, tmp_path, command, tmp_path, "--rank", 3)


def test_a_broken_file_takes_no_rank_from_a_sound_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    operator_trace(tmp_path / "rank0.json")
    (tmp_path / "rank0_et.json").write_text(HOST_TRACE[:-5])
    status, out, err = run_command(capsys, "info", tmp_path, "--json", "-")
    assert (status, [Path(rank["file"]).name for rank in json.loads(out)["ranks"]]) == (1, ["rank0.json"])
    assert "rank0_et.json: the JSON is truncated" in err


def test_a_broken_file_keeps_its_place_in_the_order(tmp_path: Path) -> None:
    for name in "abc":
        operator_trace(tmp_path / f"{name}.json")
    (tmp_path / "b.json").write_bytes(b"")
    errors: list[HtaGraphError] = []
    found = {graph.trace.rank: graph.trace.path.name for graph in hg.read_graphs(tmp_path, report=errors.append)}
    assert found == {0: "a.json", 2: "c.json"}
    assert len(errors) == 1


def test_where_all_are_broken_nothing_is_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for number in range(3):
        broken_trace(operator_trace(tmp_path / f"rank{number}.json"))
    status, out, err = run_command(capsys, "info", tmp_path, "--json", "-")
    assert (status, out, err.count("\n")) == (1, "", 4)
    assert err.splitlines()[-1] == f"hta-graph: {tmp_path}: none of these files is a readable trace"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_rank_lists_those_that_exist(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    for number in (0, 3):
        operator_trace(tmp_path / f"rank{number}.json")
    assert "rank 1 not found; available: 0, 3" in one_error(capsys, tmp_path, command, tmp_path, "--rank", 1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("arguments", "rank"), [([], None), (["--rank", 3], 3)])
@pytest.mark.parametrize("command", ["critical-path", "graph"])
def test_several_ranks_are_a_job_unless_one_is_asked_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str, arguments: list[Any], rank: int | None
) -> None:
    for number in (2, 3):
        operator_trace(tmp_path / f"rank{number}.json")
    found = command_json(capsys, command, tmp_path, *arguments)
    assert (found["rank"], Path(found["file"]).name) == (rank, f"rank{rank}.json" if rank else tmp_path.name)


def test_the_table_says_which_rank_it_is_about(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for number in (2, 3):
        operator_trace(tmp_path / f"rank{number}.json")
    assert run_command(capsys, "critical-path", tmp_path)[1].splitlines()[2] == f"{tmp_path.name}, 2 ranks"
    assert run_command(capsys, "critical-path", tmp_path, "--rank", 2)[1].splitlines()[2] == "rank2.json, rank 2"


def test_info_of_one_rank_of_several(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for number in (2, 3):
        operator_trace(tmp_path / f"rank{number}.json")
    assert [rank["rank"] for rank in command_json(capsys, "info", tmp_path, "--rank", 3)["ranks"]] == [3]
    assert ranks_by_info(capsys, tmp_path) == {2: "rank2.json", 3: "rank3.json"}


def test_bad_rows_are_said_once_per_rank(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for number in (0, 1):
        builder = TraceBuilder()
        builder.op("op", 0, 10)
        builder.op("", 0, 10)
        builder.write(tmp_path / f"rank{number}.json")
    err = run_command(capsys, "info", tmp_path)[2]
    assert [line.split(": ")[0] for line in err.splitlines()] == [str(tmp_path / f"rank{n}.json") for n in (0, 1)]


def test_the_library_reads_ranks_lazily(tmp_path: Path) -> None:
    operator_trace(tmp_path / "rank0.json")
    operator_trace(tmp_path / "rank1.json")
    reader = hg.read_traces(tmp_path)
    assert next(reader).rank == 0
    (tmp_path / "rank1.json").unlink()
    with pytest.raises(TraceError, match="no such file"):
        next(reader)


@pytest.mark.parametrize("salvage", [False, True])
def test_salvage_reaches_the_files_of_a_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, salvage: bool
) -> None:
    for number in (0, 1):
        path = operator_trace(tmp_path / f"rank{number}.json")
    path.write_bytes(path.read_bytes()[:-1])
    status, out, _ = run_command(capsys, "info", tmp_path, "--json", "-", *(["--salvage"] if salvage else []))
    assert status == (0 if salvage else 1)
    assert [rank["events"] for rank in json.loads(out)["ranks"]] == [1] * (1 + salvage)


def ranked_trace(folder: Path, rank: int, world: int) -> Path:
    """Write a rank's trace with a kernel."""
    builder = TraceBuilder(distributedInfo={"rank": rank, "world_size": world})
    builder.op("op", 0, 10)
    builder.launch("gemm", (1, 2), (3, 9), 1)
    return builder.write(folder / f"tp{rank}_rank{rank}.json")


@pytest.mark.parametrize("present", [(0, 1), (0,)], ids=["all ranks", "a rank is missing"])
def test_a_front_end_is_no_rank(tmp_path: Path, present: tuple[int, ...]) -> None:
    """An inference server's front end has no process group, and does nothing on the GPU."""
    for rank in present:
        ranked_trace(tmp_path, rank, 2)
    front = operator_trace(tmp_path / "host_500.async_llm.1700000000.pt.trace.json.gz")
    assert ranks_and_words(tmp_path) == (
        list(present), [f"skipped {front}: no rank of the job is recorded in it"],
    )  # fmt: skip


def test_a_file_with_gpu_work_may_be_the_missing_rank(tmp_path: Path) -> None:
    ranked_trace(tmp_path, 0, 2)
    builder = TraceBuilder()
    builder.launch("gemm", (1, 2), (3, 9), 1)
    builder.write(tmp_path / "x.json")
    assert ranks_and_words(tmp_path)[0] == [0, 1]


@pytest.mark.parametrize("kind", ["python_function", "user_annotation", "overhead"])
def test_a_process_without_operators_or_calls_is_no_rank_next_to_one(tmp_path: Path, kind: str) -> None:
    """Also where only a file's name says which rank it is, and no header how many there are."""
    builder = TraceBuilder()
    builder.launch("gemm", (1, 2), (3, 9), 1)
    builder.write(tmp_path / "rank0.json")
    front = TraceBuilder()
    front.row(ph="X", cat=kind, name="api_server.py(7): serve", pid=900, tid=900, ts=1, dur=8)
    path = front.write(tmp_path / "server.json")
    assert ranks_and_words(tmp_path) == ([0], [f"skipped {path}: no rank of the job is recorded in it"])
    assert len(list(hg.read_graphs(tmp_path))) == 1


def test_a_truncated_file_is_no_front_end(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Its rank may stand in what is lost."""
    ranked_trace(tmp_path, 0, 2)
    path = operator_trace(tmp_path / "x.json")
    path.write_bytes(path.read_bytes()[:-30])
    status, _, err = run_command(capsys, "info", tmp_path)
    assert (status, "truncated" in err) == (1, True)
