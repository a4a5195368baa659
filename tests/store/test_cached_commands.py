"""The second question is answered from the cache with the same bytes, whatever has happened to it."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyses.mcp.held_traces import HeldTraces
from hta_graph.base.errors import TraceError
from hta_graph.build.from_trace import build_graph
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.multi_rank.matching.communications import RankCommunications
from hta_graph.multi_rank.matching.read_communications import read_communications
from hta_graph.store import trace_cache
from hta_graph.store.cache_folder import CacheFolder
from hta_graph.store.entry_file import MAGIC, Entry, entry_pieces, read_entry
from hta_graph.store.trace_cache import GraphCache
from tests.support.cache_entries import Damage, emptied, entries, flipped, swapped, truncated
from tests.support.command_line import PROGRAM, one_error, run_command
from tests.support.deep_tests import cases, deep
from tests.support.large_jobs import generated_job
from tests.support.mcp_session import answer, sample_folder
from tests.support.samples import FOUR_RANKS, ONE_RANK, SAMPLES

Said = tuple[int, str, str]
OTHER = SAMPLES / "slower_trace.json.gz"
WINDOWS = (
    (), ("--whole",), ("--step", "1"), ("--step", "2"), ("--cpu-window",), ("--gpu-window",), ("--data-load", "aten::"),
    ("--step", "1", "--data-load", "forward"),
)  # fmt: skip
PATH_AS_JSON = ("critical-path", "--json", "-")


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep graphs of any size, in a folder of the test."""
    folder = tmp_path / "kept"
    monkeypatch.setattr(trace_cache, "FEW_EVENTS", 0)
    monkeypatch.setenv("HTA_GRAPH_CACHE", str(folder))
    return folder


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Copy a sample."""
    return Path(shutil.copyfile(ONE_RANK, tmp_path / "trace.json.gz"))


def without_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be read: what answers then is what was kept."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a trace was read")

    monkeypatch.setattr("hta_graph.multi_rank.read_ranks.read_recordings", refuse)
    monkeypatch.setattr("hta_graph.multi_rank.read_engine.read_rank", refuse)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "words",
    [
        ("critical-path",), PATH_AS_JSON, ("info", "--json", "-"),
        *map(deep, (
            ("info",), ("critical-path", "--step", "1"), ("critical-path", "--whole", "--json", "-"),
            ("critical-path", "--per-step"), ("attribution",), ("roofline",), ("what-if",), ("stragglers",),
            ("sync-deps",), ("graph", "--json", "-"), ("render", "--lanes", "-o", "-"), ("idle-time", "--per-step"),
            ("critical-path", "--rank", "0", "--near", "5%"), ("report", "-o", "-"), ("timeline", "-o", "-"),
        )),
    ],
)  # fmt: skip
def test_the_second_answer_has_the_same_bytes_and_reads_nothing(
    capsys: pytest.CaptureFixture[str], trace: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    command, *others = words
    expected = run_command(capsys, command, trace, *others, "--no-cache")
    assert expected[0] == 0
    assert run_command(capsys, command, trace, *others) == expected
    without_reading(monkeypatch)
    assert run_command(capsys, command, trace, *others) == expected
    assert run_command(capsys, command, trace, *others) == expected


@pytest.mark.slow
@pytest.mark.parametrize("command", ["critical-path", "stragglers", "collectives", "info", "what-if", "diff"])
def test_ranks_of_a_job_are_kept(
    capsys: pytest.CaptureFixture[str], kept: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    inputs = [FOUR_RANKS, *([FOUR_RANKS] if command == "diff" else [])]
    expected = run_command(capsys, command, *inputs, "--no-cache")
    for jobs in ("1", "2"):
        assert run_command(capsys, command, *inputs, *([] if command == "diff" else ["--jobs", jobs])) == expected
    assert len(entries(kept, "graph")) == 4
    without_reading(monkeypatch)
    assert run_command(capsys, command, *inputs) == expected


@pytest.mark.parametrize(
    ("tool", "name"), [("critical_path", "sample_trace.json.gz"), deep("stragglers", "four_ranks")]
)
def test_the_server_for_agents_answers_from_the_same_graphs(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch, tool: str, name: str
) -> None:
    root = sample_folder(tmp_path)
    with monkeypatch.context() as patch:
        patch.setenv("HTA_GRAPH_CACHE", "off")
        expected = answer(root, tool, {"trace": name})
        assert not entries(kept, "graph")
    assert answer(root, tool, {"trace": name}) == expected
    without_reading(monkeypatch)
    assert answer(root, tool, {"trace": name}) == expected


@pytest.mark.usefixtures("kept")
def test_a_server_for_agents_asks_for_what_a_changed_file_holds_now(trace: Path) -> None:
    held = HeldTraces(1 << 30)
    before = held.get(trace, None).ranks[0]
    shutil.copyfile(OTHER, trace)
    after = held.get(trace, None).ranks[0]
    assert len(before.event_table) == len(build_graph(ONE_RANK).event_table)
    assert len(after.event_table) == len(build_graph(OTHER).event_table) != len(before.event_table)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("inputs", "words"),
    [(FOUR_RANKS, ("critical-path",)), (ONE_RANK, ("report", "--json", "-")), deep(FOUR_RANKS, ("what-if",))],
)
def test_of_graphs_that_are_kept_only_communications_are_read_and_then_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, inputs: Path, words: tuple[str, ...]
) -> None:
    expected = run_command(capsys, *words, inputs, "--no-cache")
    assert run_command(capsys, "info", inputs)[0] == 0
    without_reading(monkeypatch)
    assert run_command(capsys, *words, inputs) == expected
    with monkeypatch.context() as patch:
        patch.setattr("hta_graph.multi_rank.matching.read_communications.read_communications", lambda _: 1 / 0)
        assert run_command(capsys, *words, inputs) == expected


def test_communications_that_cannot_be_read_are_left_to_who_reads_all_of_the_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run_command(capsys, "critical-path", FOUR_RANKS, "--no-cache")
    assert run_command(capsys, "info", FOUR_RANKS)[0] == 0
    read, name = read_communications, "hta_graph.multi_rank.matching.read_communications.read_communications"
    calls = list[Path]()

    def fails_first(graph: DependencyGraph) -> RankCommunications:
        calls.append(graph.path)
        if len(calls) <= len(list(FOUR_RANKS.iterdir())):
            raise TraceError(graph.path, "has changed since it was read")
        return read(graph)

    monkeypatch.setattr(name, fails_first)
    assert run_command(capsys, "critical-path", FOUR_RANKS) == expected
    assert len(calls) == 2 * len(set(calls))


def test_a_graph_is_of_content_and_its_name_and_rank_are_the_files_own(
    capsys: pytest.CaptureFixture[str], trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run_command(capsys, *PATH_AS_JSON[:1], trace, *PATH_AS_JSON[1:])
    without_reading(monkeypatch)
    moved = trace.rename(trace.with_name("other.json.gz"))
    status, out, err = run_command(capsys, *PATH_AS_JSON[:1], moved, *PATH_AS_JSON[1:])
    assert (status, out.replace(str(moved), str(trace)), err) == first


def test_the_rank_of_a_file_without_one_follows_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = gzip.decompress(ONE_RANK.read_bytes()).replace(b'"distributedInfo"', b'"other"')
    names = ("rank3.json", "trace.json", "rank7.json")
    for name in names:
        (tmp_path / name).write_bytes(text)
    expected = [run_command(capsys, "info", tmp_path / name, "--no-cache") for name in names]
    refused = run_command(capsys, "info", tmp_path / names[0], "--rank", "5", "--no-cache")
    run_command(capsys, "info", tmp_path / names[0])
    without_reading(monkeypatch)
    assert [run_command(capsys, "info", tmp_path / name) for name in names] == expected
    assert run_command(capsys, "info", tmp_path / names[0], "--rank", "5") == refused
    assert refused[0] == 1


def test_options_of_reading_are_not_mixed_up(capsys: pytest.CaptureFixture[str], trace: Path) -> None:
    whole = trace.read_bytes()
    trace.write_bytes(whole[: len(whole) // 2])
    broken = run_command(capsys, "info", trace, "--no-cache")
    salvaged = run_command(capsys, "info", trace, "--salvage", "--no-cache")
    assert (broken[0], salvaged[0]) == (1, 0)
    for _ in range(2):
        assert run_command(capsys, "info", trace, "--salvage") == salvaged
        assert run_command(capsys, "info", trace) == broken
    trace.write_bytes(whole)
    own = ("--per-step", "--step-pattern", "forward")
    plain, patterned = (run_command(capsys, "critical-path", trace, *words, "--no-cache") for words in ((), own))
    for _ in range(2):
        assert run_command(capsys, "critical-path", trace) == plain
        assert run_command(capsys, "critical-path", trace, *own) == patterned


def test_a_file_with_other_content_is_read(capsys: pytest.CaptureFixture[str], trace: Path, kept: Path) -> None:
    """A file may keep its name, its size and its time."""
    text = gzip.decompress(ONE_RANK.read_bytes())
    trace = trace.with_suffix("")
    changed = text.replace(b"aten::", b"mine::")
    for content in (text, changed, text):
        trace.write_bytes(content)
        os.utime(trace, (1, 1))
        assert run_command(capsys, "info", trace) == run_command(capsys, "info", trace, "--no-cache")
    assert len(entries(kept, "graph")) == 2


@pytest.mark.parametrize("is_in_place", [True, False])
def test_a_file_that_changes_while_it_is_read_is_not_kept(
    capsys: pytest.CaptureFixture[str], trace: Path, kept: Path, monkeypatch: pytest.MonkeyPatch, is_in_place: bool
) -> None:
    """What was hashed is not what was read: nothing may be kept under the hash."""
    from hta_graph.multi_rank import read_ranks

    before = run_command(capsys, "info", trace, "--no-cache")
    read, content = read_ranks.read_recordings, trace.read_bytes()

    def replaced_meanwhile(path: Path, *others: Any, **options: Any) -> Any:
        status = path.stat()
        if not is_in_place:
            path.unlink()
        path.write_bytes(OTHER.read_bytes())
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        return read(path, *others, **options)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(read_ranks, "read_recordings", replaced_meanwhile)
        assert run_command(capsys, "info", trace)[1] != before[1]
    assert entries(kept) == []
    trace.write_bytes(content)
    assert run_command(capsys, "info", trace) == before


@pytest.mark.parametrize("is_settled", [True, False])
def test_what_is_hashed_after_it_was_read_is_kept_only_if_a_change_would_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_settled: bool
) -> None:
    """Of many ranks without an entry not all are hashed first."""
    path = Path(shutil.copyfile(ONE_RANK, tmp_path / "trace.json.gz"))
    graph = build_graph(path)
    monkeypatch.setattr(trace_cache, "SETTLED_NS", -(10**12) if is_settled else 10**15)
    unseen, watched, changed = (GraphCache(CacheFolder(tmp_path / str(at), pytest.fail)) for at in range(3))
    watched.watch(path)
    changed.watch(path)
    unseen.keep_graph(graph, {}, salvage=False)
    watched.keep_graph(graph, {}, salvage=False)
    path.write_bytes(OTHER.read_bytes())
    changed.keep_graph(graph, {}, salvage=False)
    kept = [len(entries(tmp_path / str(at))) for at in range(3)]
    assert kept == [0, 1, 0]


def test_another_version_has_entries_of_its_own(
    capsys: pytest.CaptureFixture[str], trace: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run_command(capsys, "critical-path", trace)
    before = entries(kept)
    monkeypatch.setattr(trace_cache, "product_version", lambda: ["another"])
    assert run_command(capsys, "critical-path", trace) == expected
    assert len(entries(kept)) == 2 * len(before)


@pytest.mark.parametrize("asked", [((), ("--step", "1")), deep(WINDOWS)])
def test_what_replay_said_of_another_question_is_not_said(
    capsys: pytest.CaptureFixture[str], trace: Path, asked: tuple[tuple[str, ...], ...]
) -> None:
    """Windows, their forms and what loads data make other verdicts."""
    expected = [run_command(capsys, "critical-path", trace, *words, "--no-cache") for words in asked]
    for _ in range(2):
        assert [run_command(capsys, "critical-path", trace, *words) for words in asked] == expected


# -- entries that are not what was written ----------------------------------------------------------------------------


def with_other_record(found: list[Path], rng: random.Random) -> None:
    """Let an entry hold something else under its own name, with checksums that fit."""
    path = rng.choice(found)
    entry = read_entry(path.stem, path.read_bytes())
    record = rng.choice(({}, {"graph": {}}, {"graph": entry.record.get("graph"), "kind": "graph"}, {"answer": None}))
    columns = rng.choice(((), entry.columns, entry.columns[1:], entry.columns[::-1]))
    path.write_bytes(b"".join(map(bytes, entry_pieces(path.stem, Entry(record, columns)))))


def with_other_numbers(found: list[Path], rng: random.Random) -> None:
    """Let a column hold numbers that name nothing, with a checksum that fits."""
    path = rng.choice(found)
    entry = read_entry(path.stem, path.read_bytes())
    if not (filled := [at for at, column in enumerate(entry.columns) if len(column)]):
        return
    columns, at = list(entry.columns), rng.choice(filled)
    columns[at] = np.frombuffer(rng.choice((b"\xff", b"\x7f")) * columns[at].nbytes, columns[at].dtype)
    path.write_bytes(b"".join(map(bytes, entry_pieces(path.stem, Entry(entry.record, tuple(columns))))))


OF_TIMELINE = ("order", "position", "points", "owner", "parent", "first")
"""The last columns of a graph's entry."""
START, END, KIND, TARGET = "start", "end", "kind", "target"
ORDER, POSITION, POINTS, PARENT, FIRST = "order", "position", "points", "parent", "first"


def column_of(entry: Entry, name: str) -> int:
    """Return which column of a graph's entry is called so: of its events, its edges or its timeline."""
    if name in OF_TIMELINE:
        return OF_TIMELINE.index(name) - len(OF_TIMELINE)

    def columns_in(table: dict[str, Any], of: str) -> Iterator[tuple[str, str]]:
        yield from ((of, name) for name in table["columns"])
        for inner, own in table["tables"].items():
            yield from columns_in(own, inner)

    graph = entry.record["graph"]
    listed = [*columns_in(graph["trace"], "trace"), *columns_in(graph["edges"], "edges")]
    return listed.index(("edges" if name == TARGET else "events", name))


DAMAGES = (truncated, flipped, swapped, emptied)


@pytest.mark.parametrize("damage", [truncated, *map(deep, (swapped, flipped, emptied))])
def test_a_damaged_entry_is_written_anew(
    capsys: pytest.CaptureFixture[str], trace: Path, kept: Path, damage: Damage
) -> None:
    other = Path(shutil.copyfile(OTHER, trace.with_name("other.json.gz")))
    expected = {path: run_command(capsys, "critical-path", path) for path in (trace, other)}
    sound = {path: path.read_bytes() for path in entries(kept)}
    rng = random.Random(damage.__name__)
    for _ in range(cases(20) if damage in DAMAGES else 1):
        damage(entries(kept), rng)
        lines = 0
        for path, (status, out, err) in expected.items():
            found = run_command(capsys, "critical-path", path)
            assert found[:2] == (status, out)
            lines += len(found[2].splitlines()) - len(err.splitlines())
        assert 0 <= lines <= 2
        assert {path: path.read_bytes() for path in entries(kept)} == sound


@pytest.mark.slow
@pytest.mark.parametrize("damage", [with_other_record, with_other_numbers])
def test_numbers_that_name_nothing_are_no_crash(
    capsys: pytest.CaptureFixture[str], trace: Path, kept: Path, damage: Damage
) -> None:
    """An entry with a checksum that fits gives what was written or what is true, and no traceback."""
    run_command(capsys, "critical-path", trace)
    sound, rng = {path: path.read_bytes() for path in entries(kept)}, random.Random(1)
    for _ in range(cases(60)):
        damage(entries(kept), rng)
        status, _, err = run_command(capsys, "critical-path", trace)
        assert (status in (0, 1), "Traceback" in err) == (True, False)
        for path, raw in sound.items():
            path.write_bytes(raw)


FORGED = {
    "a row around itself": (PARENT, lambda parent: np.arange(len(parent))),
    "parents shifted by one": (PARENT, lambda parent: parent + 1),
    "an event that ends before it starts": (END, lambda end: end - 10**9),
    "starts in no order": (START, lambda start: np.where(np.arange(len(start)) == 5, start[0] - 1, start)),
    "kinds of other rows": (KIND, lambda kind: np.roll(kind, 1)),
    "edges that close a cycle": (TARGET, lambda target: np.roll(target, 7)),
    "a point that comes twice": (ORDER, lambda order: np.concatenate([order[:1], order[:-1]])),
    "points of other lanes": (FIRST, lambda first: np.concatenate([first[:1], first[:-1]])),
    "points of no lane": (FIRST, lambda first: np.where(np.arange(len(first)), first, 2)),
    "lanes of other sizes": (FIRST, lambda first: np.where(first == first[1], first - 2, first)),
    "one point of a row without a place": (POSITION, lambda position: np.where(position == 5, -1, position)),
    "points in no order": (POINTS, lambda points: points[[1, 0, *range(2, len(points))]]),
    "no place for the points of an edge": (POSITION, lambda position: np.full_like(position, -1)),
}
"""What a checksum that fits does not show: a column of a graph's entry, and what is made of it."""


@pytest.mark.sampled(7)
@pytest.mark.parametrize("case", FORGED)
def test_what_no_graph_has_is_one_line_and_the_answer_of_the_trace(
    capsys: pytest.CaptureFixture[str], trace: Path, kept: Path, case: str
) -> None:
    """Walks on some of these would never end."""
    status, out, err = run_command(capsys, "critical-path", trace)
    (path,) = entries(kept, "graph")
    entry = read_entry(path.stem, path.read_bytes())
    columns, (name, change) = list(entry.columns), FORGED[case]
    at = column_of(entry, name)
    columns[at] = np.asarray(change(columns[at])).astype(columns[at].dtype)
    for other in entries(kept, "answer"):
        other.unlink()
    path.write_bytes(b"".join(map(bytes, entry_pieces(path.stem, Entry(entry.record, tuple(columns))))))
    said = f"{trace}: its entry in the cache is damaged; reading the trace instead\n"
    assert run_command(capsys, "critical-path", trace) == (status, out, said + err)


# -- folders ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cause", ["No space left on device", "Permission denied"])
def test_a_folder_that_takes_nothing_costs_a_line(
    capsys: pytest.CaptureFixture[str], trace: Path, kept: Path, monkeypatch: pytest.MonkeyPatch, cause: str
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(28, cause)

    status, out, err = run_command(capsys, "critical-path", trace, "--no-cache")
    monkeypatch.setattr("hta_graph.store.cache_folder.entry_pieces", refuse)
    said = f"cache folder {kept}: cannot be written: {cause}; continuing without it\n"
    assert run_command(capsys, "critical-path", trace) == (status, out, said + err)
    assert list(kept.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX'")
def test_a_folder_that_others_write_to_costs_a_line(
    capsys: pytest.CaptureFixture[str], trace: Path, kept: Path
) -> None:
    expected = run_command(capsys, "info", trace)
    kept.chmod(0o777)
    status, out, err = run_command(capsys, "info", trace)
    assert (status, out) == expected[:2]
    assert err.count("\n") == 1
    assert str(kept) in err


def test_a_folder_may_be_a_link_and_is_private(capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for folder in (tmp_path / "link", tmp_path / "new" / "deep"):
        expected = run_command(capsys, "info", trace, "--cache", folder)
        assert len(entries(folder)) == 1
        assert folder.stat().st_mode & 0o777 == 0o700
        assert run_command(capsys, "info", trace, "--cache", folder) == expected


def test_places_that_are_no_folder_of_this_machine_are_one_line(
    capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path
) -> None:
    for place in ("s3://bucket/cache", trace, trace / "below"):
        assert str(place) in one_error(capsys, tmp_path, "info", trace, "--cache", place)
    assert one_error(capsys, tmp_path, "info", trace, "--cache", tmp_path, "--no-cache", status=2)


@pytest.mark.parametrize("where", ["named", "off", "user's"])
def test_which_folder_is_used(
    capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    if where != "named":
        monkeypatch.setenv("HTA_GRAPH_CACHE", "off")
    if where == "user's":
        monkeypatch.delenv("HTA_GRAPH_CACHE")
    run_command(capsys, "info", trace)
    found = [path.parent.relative_to(tmp_path) for path in tmp_path.rglob("*.hta-graph")]
    assert found == {"named": [Path("kept")], "off": [], "user's": [Path("home/hta-graph")]}[where]


def test_small_traces_are_not_kept(
    capsys: pytest.CaptureFixture[str], trace: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_cache, "FEW_EVENTS", 10**6)
    run_command(capsys, "critical-path", trace)
    assert entries(kept) == []


# -- hta-graph cache --------------------------------------------------------------------------------------------------


def test_the_cache_is_listed_and_cleared(capsys: pytest.CaptureFixture[str], trace: Path, kept: Path) -> None:
    empty = run_command(capsys, "cache")
    assert (empty[0], empty[1].splitlines()) == (0, [f"{kept}: 0 traces, 0.0 MB of at most 4.0 GB"])
    expected = run_command(capsys, "critical-path", trace)
    run_command(capsys, "info", OTHER)
    (kept / "mine").write_text("mine")
    (kept / f"{'0' * 40}.hta-graph").write_bytes(MAGIC + b"damaged")
    status, out, err = run_command(capsys, "cache")
    assert (status, err, out.splitlines()[0]) == (0, "", f"{kept}: 3 traces, 0.1 MB of at most 4.0 GB")
    assert f"{trace.parent.name}/{trace.name}" in out
    assert "(damaged)" in out
    count = len(entries(kept))
    assert run_command(capsys, "cache", "--clear")[1].startswith(f"{kept}: {count} entries removed, 0.1 MB")
    assert [path.name for path in kept.iterdir()] == ["mine"]
    assert run_command(capsys, "critical-path", trace) == expected
    assert "turned off" in run_command_off(capsys)


def run_command_off(capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HTA_GRAPH_CACHE", "off")
        return run_command(capsys, "cache")[1]


@pytest.mark.slow
def test_runs_at_once_share_a_folder_that_is_cleared_meanwhile(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, kept: Path, shared_trace: Path
) -> None:
    expected = run_command(capsys, "critical-path", shared_trace, "--no-cache")
    assert expected[0] == 0
    command = [*PROGRAM, "critical-path", shared_trace]
    for _ in range(2):
        running = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
            for _ in range(3)
        ]
        while any(process.poll() is None for process in running):
            subprocess.run([*PROGRAM, "cache", "--clear"], check=True, stdout=subprocess.DEVNULL)
        for process in running:
            out, err = process.communicate(timeout=60)
            assert (process.returncode, out, err) == expected
    assert all(path.suffix == ".hta-graph" for path in kept.iterdir())


@pytest.fixture
def shared_trace(tmp_path: Path) -> Path:
    """Write a trace that is large enough to be kept by a program."""
    return generated_job(tmp_path / "job", ranks=1, rows=4000) / "rank_0.json.gz"
