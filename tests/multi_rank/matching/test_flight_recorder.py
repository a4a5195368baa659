"""Dumps of the flight recorder: read, refused, and joined to what traces show, also where rows were lost."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.base.errors import TraceError
from hta_graph.multi_rank.matching.collectives import Collectives, match_collectives
from hta_graph.multi_rank.matching.communications import RankCommunications
from hta_graph.multi_rank.matching.flight_recorder import FlightRecord, find_flight_dumps, read_flight_dumps
from hta_graph.multi_rank.matching.flight_sequence_numbers import with_sequence_numbers
from hta_graph.multi_rank.matching.match_ranks import MATCHED_BY
from hta_graph.multi_rank.matching.read_communications import read_communications
from tests.support.deep_tests import deep
from tests.support.shared_traces import SHARED

ENTRY = {
    "process_group": ["0", "default_pg"], "collective_seq_id": 7, "profiling_name": "nccl:all_reduce",
    "input_sizes": [[4, 2]], "time_created_ns": 10**18, "is_p2p": False,
}  # fmt: skip
SETS = ("ddp_4r_base_1", "fsdp_2r_base_1", "groups_4r_base_1")


def write(path: Path, *entries: dict[str, Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    text = json.dumps({"version": "2.10", "pg_config": {}, "entries": list(entries)}).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.mark.parametrize("name", ["rank3.json", "rank3.json.gz"])
def test_a_dump_has_its_ranks_collectives(tmp_path: Path, name: str) -> None:
    message, broken = ENTRY | {"is_p2p": True}, ENTRY | {"time_created_ns": "x"}
    ((rank, record),) = read_flight_dumps([write(tmp_path / name, ENTRY, message, broken)]).items()
    assert (rank, record.group, record.kind) == (3, ["0"], ["all_reduce"])
    assert (record.sequence.tolist(), record.elements.tolist(), record.time.tolist()) == ([7], [8], [10**18])


def test_dumps_are_found_in_their_folder_or_among_the_traces(tmp_path: Path) -> None:
    trace = tmp_path / "rank0.json"
    trace.write_text('{"traceEvents": []}')
    assert find_flight_dumps([tmp_path, trace]) == []
    beside = write(tmp_path / "dump_rank0.json.gz", ENTRY)
    assert find_flight_dumps([tmp_path]) == [beside]
    own = write(tmp_path / "flight" / "rank0.json", ENTRY)
    assert find_flight_dumps([tmp_path]) == find_flight_dumps([trace]) == [own]


def test_what_is_no_dump_is_refused_with_the_call_that_writes_one(tmp_path: Path) -> None:
    path = tmp_path / "rank0.json"
    path.write_bytes(pickle.dumps({"entries": [ENTRY, Path("x")]}))
    with pytest.raises(TraceError, match=r"rank0.json: is a pickle that holds more than plain data .*_trace_json\(\)"):
        read_flight_dumps([path])
    path.write_text('{"traceEvents": []}')
    with pytest.raises(TraceError, match="is not a flight recorder dump"):
        read_flight_dumps([path])
    with pytest.raises(TraceError, match="file name contains no rank"):
        read_flight_dumps([write(tmp_path / "dump.json", ENTRY)])
    with pytest.raises(TraceError, match="second flight recorder dump of rank 0"):
        read_flight_dumps([write(tmp_path / "rank0.json"), write(tmp_path / "other_rank_0.json")])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("name", ["nccl_trace_rank_3", "comm_lib_trace_rank_3", "fr_trace_3", "nccl_trace_rank_3.json"])
def test_dumps_under_pytorchs_own_names_are_read(tmp_path: Path, name: str, protocol: int) -> None:
    """PyTorch writes pickles of plain data, whose names have no ending."""
    path = tmp_path / name
    entry = ENTRY | {"process_group": ("0", "default_pg")}
    path.write_bytes(pickle.dumps({"version": "2.10", "entries": [entry, entry | {"is_p2p": True}]}, protocol))
    assert find_flight_dumps([tmp_path]) == [path]
    ((rank, record),) = read_flight_dumps([path]).items()
    assert (rank, record.group, record.kind) == (3, ["0"], ["all_reduce"])
    assert (record.sequence.tolist(), record.elements.tolist(), record.time.tolist()) == ([7], [8], [10**18])
    write(path, ENTRY)
    assert read_flight_dumps([path])[3].sequence.tolist() == [7]


class Harmful:
    """Runs a command when Python unpickles it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("protocol", range(6))
def test_nothing_in_a_pickle_is_run(tmp_path: Path, protocol: int) -> None:
    path, mark = tmp_path / "nccl_trace_rank_0", tmp_path / "mark"
    path.write_bytes(b"\x80\x02" + pickle.dumps({"entries": [ENTRY, Harmful(mark)]}, protocol))
    with pytest.raises(TraceError, match=r"is a pickle that (holds more than plain data|is damaged)"):
        read_flight_dumps([path])
    assert not mark.exists()


@pytest.mark.parametrize("stride", [1])
def test_damaged_pickles_are_one_line(tmp_path: Path, stride: int) -> None:
    whole = pickle.dumps({"version": "2.10", "entries": [ENTRY, ENTRY | {"collective_seq_id": 8}]}, 2)
    path = tmp_path / "nccl_trace_rank_0"
    for at in range(1, len(whole), stride):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]):
            path.write_bytes(damaged)
            with suppress(TraceError):
                read_flight_dumps([path])


@pytest.mark.slow
def test_pickles_that_grow_when_they_are_walked_are_read_once(tmp_path: Path) -> None:
    """A few bytes can nest very deeply, or name one long object a million times."""
    path = tmp_path / "nccl_trace_rank_0"
    doubled: list[Any] = []
    for _ in range(60):
        doubled = [doubled, doubled]
    deep_list = b"]" * 50_000 + b"a" * 49_999
    name, sizes = "nccl:" + "x" * 100_000, [[1 << 39] * 64] * 20_000
    entry = ENTRY | {"profiling_name": name, "input_sizes": sizes}
    entries = [ENTRY | {"process_group": [doubled]}, ENTRY | {"profiling_name": doubled}, *[entry] * 20_000]
    path.write_bytes(pickle.dumps({"entries": entries}, 2))
    ((_, record),) = read_flight_dumps([path]).items()
    assert len(record.kind) == 20_000
    assert len({id(kind) for kind in record.kind}) == 1
    assert set(record.elements.tolist()) == {-1}
    whole = pickle.dumps({"entries": [ENTRY | {"process_group": [None], "input_sizes": [[3]]}]}, 2)
    assert b"Na" in whole
    path.write_bytes(whole.replace(b"Na", deep_list + b"a"))
    assert read_flight_dumps([path])[0].sequence.tolist() == []
    path.write_bytes(pickle.dumps({"entries": [ENTRY | {3: 4}]}, 2))
    with pytest.raises(TraceError, match="keys are not text"):
        read_flight_dumps([path])


def test_a_dump_that_nests_too_deeply_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "rank0.json", ENTRY)
    path.write_bytes(path.read_bytes().replace(b'"0"', b"[" * 20_000 + b"]" * 20_000))
    with pytest.raises(TraceError, match="is not a flight recorder dump"):
        read_flight_dumps([path])


def test_pipes_beside_traces_are_no_dumps(tmp_path: Path) -> None:
    """Looking into one would never end."""
    (tmp_path / "flight").mkdir()
    for path in (tmp_path / "x.json", tmp_path / "flight" / "rank0.json"):
        os.mkfifo(path)
    assert find_flight_dumps([tmp_path]) == []


def job_of(folder: Path) -> tuple[dict[int, hg.DependencyGraph], dict[int, RankCommunications]]:
    graphs = {graph.trace.rank or 0: graph for graph in hg.read_graphs(sorted(folder.glob("rank*.json.gz")))}
    return graphs, {rank: read_communications(graph) for rank, graph in graphs.items()}


def matched(
    graphs: Mapping[int, hg.DependencyGraph],
    ranks: Mapping[int, RankCommunications],
    records: Mapping[int, FlightRecord],
) -> Collectives:
    return match_collectives(with_sequence_numbers(ranks, graphs, records))


def starts_of(ranks: Mapping[int, RankCommunications], found: Collectives) -> set[frozenset[tuple[int, int]]]:
    """Return what belongs together as ranks and the recorded starts of their rows."""
    pairs: dict[int, set[tuple[int, int]]] = {}
    for number, rank, place in zip(found.number.tolist(), found.rank.tolist(), found.place.tolist(), strict=True):
        pairs.setdefault(number, set()).add((rank, int(ranks[rank].start[place])))
    return set(map(frozenset, pairs.values()))


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("name", [SETS[0], *map(deep, SETS[1:])])
def test_with_dumps_every_collective_is_matched_by_its_number(name: str) -> None:
    folder = SHARED / "gloo" / name
    graphs, ranks = job_of(folder)
    found = matched(graphs, ranks, read_flight_dumps(find_flight_dumps([folder])))
    assert {MATCHED_BY[by] for by in found.by.tolist()} == {"sequence number"}
    oracle = json.loads((folder / "oracle.json").read_text())["collectives"]
    truth = [{(member["rank"], member["event_ns"]) for member in one["ranks"]} for one in oracle]
    got = starts_of(ranks, found)
    assert len(got) == sum(len(one) > 1 for one in truth)
    for one in truth:
        if len(one) > 1:
            assert any(all(_is_near(member, pairs) for member in one) for pairs in got)


def _is_near(member: tuple[int, int], pairs: frozenset[tuple[int, int]]) -> bool:
    rank, start = member
    return any(own == rank and abs(time - start) <= 2_000 for own, time in pairs)


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_with_dumps_a_row_that_is_gone_from_a_file_changes_no_other_match(tmp_path: Path, name: str) -> None:
    folder = SHARED / "gloo" / name
    graphs, ranks = job_of(folder)
    records = read_flight_dumps(find_flight_dumps([folder]))
    whole = starts_of(ranks, matched(graphs, ranks, records))
    for lost in (3, len(ranks[1]) // 2, len(ranks[1]) - 2):
        index = int(graphs[1].event_table.index[ranks[1].row[lost]])
        text = gzip.decompress((folder / "rank1.json.gz").read_bytes())
        path = tmp_path / "rank1.json"
        path.write_bytes(_without_event(text, index))
        graph = next(iter(hg.read_graphs(path)))
        cut = {**ranks, 1: read_communications(graph)}
        assert len(cut[1]) == len(ranks[1]) - 1
        found = matched({**graphs, 1: graph}, cut, records)
        gone = (1, int(ranks[1].start[lost]))
        assert starts_of(cut, found) == {pairs for pairs in whole if gone not in pairs}


def _without_event(text: bytes, index: int) -> bytes:
    """Rename an event so that it is no work of Gloo's any more; all digits of times stay."""
    document = json.loads(text, parse_float=_Digits)
    document["traceEvents"][index]["name"] = "gone"
    return json.dumps(document).encode()


class _Digits(float):
    """A number that is written as it was read."""

    def __new__(cls, text: str) -> _Digits:
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str

    def __repr__(self) -> str:
        return self.text


def test_numbers_that_one_rank_lacks_match_nothing_so_order_does() -> None:
    rows = np.arange(3, dtype=np.int32)
    times = np.array([0, 100, 200], np.int64)
    said = RankCommunications.no_arguments(3)
    own = RankCommunications(
        rows,
        rows,
        times,
        0 * times,
        times,
        times + 10,
        np.full(3, -1),
        np.ones(3, np.bool_),
        ["a"] * 3,
        ["0 [0, 1]"] * 3,
        said,
    )
    numbered = replace(own, arguments=said | {"Seq": [4, 5, 6]})
    assert {MATCHED_BY[by] for by in match_collectives({0: own, 1: numbered}).by.tolist()} == {"order"}
    assert len(match_collectives({0: own, 1: numbered})) == 3
