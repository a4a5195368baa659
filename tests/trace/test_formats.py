"""Files of other formats: read where one trace is inside, else named in one true line with what to do."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import re
import zipfile
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

import hta_graph as hg
from hta_graph.base.errors import TraceError
from hta_graph.trace.event_args import read_event_args
from hta_graph.trace.formats import FORMATS, WRITERS
from hta_graph.trace.header import text_size
from hta_graph.trace.memory_limit import limit_memory
from tests.support.command_line import COMMANDS, command_json, one_error, run_command, two_steps
from tests.support.compare_traces import same_columns
from tests.support.made_files import NSIGHT_JSON, PACKED, REFUSED, WRITTEN_BY_OTHERS, json_lines, tar, zipped


def plain(folder: Path) -> Path:
    """Write the trace that is packed."""
    return two_steps().write(folder / "plain.json")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("how", PACKED)
def test_one_trace_inside_is_read(capsys: pytest.CaptureFixture[str], tmp_path: Path, how: str) -> None:
    one = plain(tmp_path)
    path = tmp_path / "packed.bin"
    path.write_bytes(PACKED[how](one.read_bytes()))
    trace = hg.read_trace(path)
    assert same_columns(trace, hg.read_trace(one))
    assert read_event_args(trace, ["External id"])["External id"].shape == (len(trace.events),)
    found = command_json(capsys, "critical-path", path)
    assert (found["rank"], Path(found["file"]).name) == (3, path.name)
    assert text_size(path) > 0


@pytest.mark.parametrize("how", ["zip of a Mac", "tar.gz beside a note"])
def test_archives_of_a_folder_are_its_ranks(tmp_path: Path, how: str) -> None:
    for rank in range(2):
        builder = two_steps()
        builder.header["distributedInfo"] = {"rank": rank, "world_size": 2}
        text = builder.write(tmp_path / "plain.json").read_bytes()
        (tmp_path / f"{rank}{'.zip' if 'zip' in how else '.tar.gz'}").write_bytes(PACKED[how](text))
    (tmp_path / "plain.json").unlink()
    assert [trace.rank for trace in hg.read_traces(tmp_path)] == [0, 1]


def of_rank(rank: int | None) -> bytes:
    """Return the text of a rank's trace; without a number its header names none."""
    builder = two_steps()
    builder.header["distributedInfo"] = {} if rank is None else {"rank": rank}
    return json.dumps({"traceEvents": builder.rows, **builder.header}).encode()


@pytest.mark.parametrize("rank", [None, 3])
def test_an_archive_beside_its_traces_is_not_read_again(tmp_path: Path, rank: int | None) -> None:
    (tmp_path / "plain.json").write_bytes(of_rank(rank))
    (tmp_path / "all.zip").write_bytes(zipped([("a.json", of_rank(rank))]))
    (tmp_path / "all.tar.gz").write_bytes(gzip.compress(tar([("a.json", of_rank(rank))])))
    said: list[str] = []
    assert [trace.path.name for trace in hg.read_traces(tmp_path, say=said.append)] == ["plain.json"]
    names = f"{tmp_path / 'all.tar.gz'}, all.zip"
    assert said == [
        f"skipped {names}: next to traces, an archive or export is read only if it names a rank that they lack"
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("in_header", [False, True])
@pytest.mark.parametrize("ending", [".zip", ".tar", ".tgz", ".json.gz", ".json.zst"])
def test_ranks_of_one_job_in_different_formats(tmp_path: Path, in_header: bool, ending: str) -> None:
    """A rank that nobody unpacked is not left out in silence."""
    packing = {".zip": "zip", ".tar": "tar", ".tgz": "tar.gz beside a note", ".json.gz": "gzip in gzip"}
    text = of_rank(0 if in_header else None)
    packed = PACKED[packing.get(ending, "gzip in zstd")](text)
    (tmp_path / ("first" if in_header else "rank0")).with_suffix(ending).write_bytes(packed)
    (tmp_path / "rank1.json").write_bytes(of_rank(1))
    (tmp_path / "rank2.json.zip").write_bytes(zipped([("a.json", of_rank(2))]))
    said: list[str] = []
    assert [trace.rank for trace in hg.read_traces(tmp_path, say=said.append)] == [0, 1, 2]
    assert said == []


def test_archives_that_a_user_names_are_read(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_bytes(of_rank(None))
    (tmp_path / "two.zip").write_bytes(zipped([("a.json", of_rank(None))]))
    paths = [tmp_path / "one.json", tmp_path / "two.zip"]
    assert [trace.path for trace in hg.read_traces(paths, say=lambda _: None)] == paths


def test_an_archive_stands_for_a_copy_that_was_not_fetched(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_bytes(REFUSED["Git LFS pointer"][1](b""))
    (tmp_path / "rank0.zip").write_bytes(zipped([("a.json", of_rank(0))]))
    (tmp_path / "rank1.json").write_bytes(of_rank(1))
    graphs = hg.read_graphs(tmp_path, report=lambda _: None, jobs=1)
    assert [graph.path.name for graph in graphs] == ["rank0.zip", "rank1.json"]


@pytest.mark.parametrize("ending", ["xz", "bz2"])
def test_a_rank_that_cannot_be_unpacked_is_a_missing_rank(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, ending: str
) -> None:
    pack = {"xz": lzma.compress, "bz2": bz2.compress}[ending]
    (tmp_path / f"rank0.json.{ending}").write_bytes(pack(of_rank(0)))
    (tmp_path / "rank1.json").write_bytes(of_rank(1))
    (tmp_path / f"rank1.json.{ending}").write_bytes(pack(of_rank(1)))
    status, out, err = run_command(capsys, "info", tmp_path, "--json", "-")
    assert (status, [rank["rank"] for rank in json.loads(out)["ranks"]]) == (1, [1])
    assert f"rank0.json.{ending}: is a" in err
    assert "; unpack it\n" in err
    assert f"skipped {tmp_path / f'rank1.json.{ending}'}: next to traces" in err


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", REFUSED)
def test_other_formats_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path, how: str) -> None:
    name, make, said = REFUSED[how]
    text = plain(tmp_path).read_bytes()
    path = tmp_path / name
    path.write_bytes(make(text))
    command = COMMANDS[sorted(REFUSED).index(how) % len(COMMANDS)]
    line = one_error(capsys, tmp_path, command, path)
    assert line.startswith(f"hta-graph: {path}: {said}"), line
    with pytest.raises(TraceError, match=re.escape(said)):
        hg.read_trace(path, salvage=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", WRITTEN_BY_OTHERS)
@pytest.mark.parametrize("command", COMMANDS)
def test_traces_of_other_programs_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, how: str, command: str
) -> None:
    content, said = WRITTEN_BY_OTHERS[how]
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(content))
    line = one_error(capsys, tmp_path, command, path)
    assert line.startswith(f"hta-graph: {path}: is a Chrome trace of another program: {said}"), line
    remedy = "pass the .sqlite export from which it was made" if "nsys2json" in how else "record with torch.profiler"
    assert line.endswith(f"; {remedy}\n")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["Git LFS pointer", "web page", "UTF-16"])
def test_what_stands_for_a_rank_is_a_missing_rank(capsys: pytest.CaptureFixture[str], tmp_path: Path, how: str) -> None:
    """It has the name of a trace and is none: the job lacks a rank, which may not pass in silence."""
    for rank in range(3):
        two_steps().write(tmp_path / f"rank{rank}.json")
    (tmp_path / "rank1.json").write_bytes(REFUSED[how][1](b"{}"))
    for rank in (0, 2):
        builder = two_steps()
        builder.header["distributedInfo"] = {"rank": rank}
        builder.write(tmp_path / f"rank{rank}.json")
    status, out, err = run_command(capsys, "info", tmp_path, "--json", "-")
    assert (status, [rank["rank"] for rank in json.loads(out)["ranks"]]) == (1, [0, 2])
    assert REFUSED[how][2] in err


def test_a_kineto_trace_of_unknown_categories_is_read(tmp_path: Path) -> None:
    """Its header says that the profiler wrote it: the categories may be a vendor's, not yet known."""
    path = tmp_path / "t.json"
    row = {"ph": "X", "cat": "npu_new", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [row]}))
    assert len(hg.read_trace(path).events) == 1


def test_a_trace_without_events_is_no_foreign_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": []}')
    assert len(hg.read_trace(path).events) == 0


# -- archives that mean harm ------------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("how", ["zip", "tar.gz beside a note", "gzip three times"])
def test_bombs_stop_at_the_memory_limit(tmp_path: Path, how: str) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(PACKED[how](b'{"traceEvents": [' + b" " * (64 << 20) + b"]}"))  # 43 MiB may be read
    assert path.stat().st_size < 1 << 20
    with limit_memory(150 << 20), pytest.raises(TraceError, match=r"of text, packed in .* MiB, too much for"):
        hg.read_trace(path)


def test_a_zip_of_too_many_files_is_not_listed(tmp_path: Path) -> None:
    path = tmp_path / "many.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for at in range(16_000):
            archive.writestr(f"{at:020}", b"")
    with pytest.raises(TraceError, match="is a zip archive of too many files"):
        hg.read_trace(path)


def test_a_zip_that_says_twice_how_many_files_it_has_is_not_listed(tmp_path: Path) -> None:
    """The second end is that of zip64, which counts where there is one."""
    path = tmp_path / "many.zip"
    listed = (b"PK\1\2" + bytes(24) + (1).to_bytes(2, "little") + bytes(16) + b"a") * 30_000
    counts = 2 * (30_000).to_bytes(8, "little") + len(listed).to_bytes(8, "little") + bytes(8)
    ends = b"PK\6\6" + (44).to_bytes(8, "little") + bytes(12) + counts
    ends += b"PK\6\7" + bytes(4) + (4 + len(listed)).to_bytes(8, "little") + (1).to_bytes(4, "little")
    ends += b"PK\5\6" + bytes(8) + (100).to_bytes(4, "little") + bytes(6)
    path.write_bytes(b"PK\3\4" + listed + ends)
    with pytest.raises(TraceError, match="is a zip archive of too many files"):
        hg.read_trace(path)


def test_a_tar_of_an_absurd_name_is_refused(tmp_path: Path) -> None:
    whole = bytearray(tar([("x" * 300 + ".json", b"{}")]))
    assert whole[156:157] == b"x"
    whole[124:136] = b"77777777777\0"
    path = tmp_path / "t.tar"
    path.write_bytes(bytes(whole))
    with pytest.raises(TraceError, match="is a tar archive with an absurd name"):
        hg.read_trace(path)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["zip of a Mac", "tar.gz beside a note", "tar with a long name"])
@pytest.mark.parametrize("stride", [37])
def test_damaged_archives_are_one_line(tmp_path: Path, how: str, stride: int) -> None:
    whole = PACKED[how](plain(tmp_path).read_bytes())
    path = tmp_path / "t"
    for at in range(0, min(len(whole), 6_000), stride):
        for damaged in (whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :], whole[:at]):
            path.write_bytes(damaged)
            for salvage in (False, True):
                with suppress(TraceError):
                    hg.read_trace(path, salvage=salvage)


def test_a_zip_in_a_stream_is_named(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    whole = PACKED["zip"](plain(tmp_path).read_bytes())
    writer = Thread(target=pipe.write_bytes, args=(whole,))
    writer.start()
    with pytest.raises(TraceError, match="is a zip archive in a stream; unpack it"):
        hg.read_trace(pipe)
    writer.join()


def test_each_format_is_declared_once() -> None:
    names = [known.name for known in FORMATS]
    assert len(set(names)) == len(names)
    assert all(known.reads or known.remedy for known in FORMATS)
    assert len({writer.name for writer in WRITERS}) == len(WRITERS)


@pytest.mark.parametrize("how", NSIGHT_JSON)
def test_nsights_json_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path, how: str) -> None:
    """It is no Chrome trace, and joining its lines to a list makes none of it."""
    path = tmp_path / "report.json"
    path.write_bytes(NSIGHT_JSON[how])
    assert one_error(capsys, tmp_path, "critical-path", path) == (
        f"hta-graph: {path}: is JSON of another program: it looks like Nsight Systems' JSON export, which is not read; "
        "export its report again: nsys export --type sqlite\n"
    )


def test_json_lines_that_are_no_events_are_not_joined(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(json_lines([{"step": 1, "loss": 2.5}, {"step": 2, "loss": 2.4}]))
    line = one_error(capsys, tmp_path, "info", path)
    assert line.endswith("is JSON lines without traceEvents (its keys: step, loss); pass a Kineto trace\n")
