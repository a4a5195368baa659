"""Baseline files: what is compared with one is what is compared with its traces; damaged ones are one clear error."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from analyses.compare.gate.baseline_file import baseline_bytes, read_baseline
from analyses.compare.gate.run_profile import RunProfile, portable_name, profile_of
from tests.support.command_line import run_command
from tests.support.fixed_length_steps import recorded
from tests.support.samples import FOUR_RANKS, ONE_RANK
from tests.support.trace_builder import TraceBuilder

DAMAGE = {
    "another version": lambda text: text.replace(b"baseline/1", b"baseline/2", 1),
    "truncated": lambda text: text[: len(text) // 2],
    "another type": lambda text: text.replace(b'"length_ns":[', b'"length_ns":["x",', 1),
    "a list that is too long": lambda text: text.replace(b'"length_ns":[', b'"length_ns":[5,', 1),
    "an unknown key": lambda text: text.replace(b'"noise":', b'"more":1,"noise":', 1),
    "no runs": lambda text: (
        b'{"schema":"hta-graph/baseline/1","noise":{"steps_share":0.0,"runs_share":null},"texts":[],"runs":[]}'
    ),
    "a text that is missing": lambda text: text.replace(b'"label":', b'"label":99999', 1),
    "a negative text": lambda text: text.replace(b'"label":0', b'"label":-1', 1),
    "a number that 64 bits do not hold": lambda text: text.replace(b'"number":[', b'"number":[9223372036854775808,', 1),
    "a number of nothing that is": lambda text: text.replace(
        b'"unexplained_ns":', b'"unexplained_ns":9007199254740993', 1
    ),
    "kernels that are no numbers": lambda text: text.replace(b'"order":"', b'"order":"!!', 1),
}


def profile(path: Path) -> RunProfile:
    return profile_of(hg.build_graph(hg.read_trace(path)), None, "gpu")


@pytest.mark.parametrize("source", [ONE_RANK, FOUR_RANKS], ids=["rank", "job"])
def test_a_baseline_is_what_its_traces_are(source: Path, tmp_path: Path) -> None:
    if source.is_dir():
        job = hg.read_job(sorted(source.glob("*.json.gz")))
        made = profile_of(job, job.graph(0), "gpu")
    else:
        made = profile(source)
    text = baseline_bytes([made, made])
    (tmp_path / "b.json").write_bytes(text)
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(text))
    for name in ("b.json", "b.json.gz"):
        first, second = read_baseline(tmp_path / name)
        assert baseline_bytes([first, second]) == text
        assert first.side.lengths_ns.tolist() == made.side.lengths_ns.tolist()
    assert len(text) < 200_000


@pytest.mark.sampled(3)
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_baseline_is_one_error_of_status_3(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, damage: str
) -> None:
    text = baseline_bytes([profile(ONE_RANK)])
    hurt = DAMAGE[damage](text)
    assert hurt != text
    (tmp_path / "b.json").write_bytes(hurt)
    status, out, err = run_command(capsys, "gate", tmp_path / "b.json", ONE_RANK)
    assert (status, out, err.count("\n")) == (3, "", 1)
    words = (
        "a baseline of version 2; this hta-graph reads hta-graph/baseline/1"
        if damage == "another version"
        else "damaged baseline"
    )
    assert words in err


def integers_in(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the places of all integers of a document, of each list the first."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else list(enumerate(value))[:1]
        for key, inner in items:
            yield from integers_in(inner, (*place, key))
    elif isinstance(value, int) and not isinstance(value, bool):
        yield place


@pytest.mark.sampled(29)
@pytest.mark.parametrize("number", [1 << 53, -(1 << 53), 1 << 63, 10**30])
@pytest.mark.parametrize("place", range(40))
def test_no_number_is_a_defect(capsys: pytest.CaptureFixture[str], tmp_path: Path, place: int, number: int) -> None:
    document = json.loads(baseline_bytes([profile(ONE_RANK)]))
    places = list(integers_in(document))
    chosen: Any = document
    *folders, last = places[place % len(places)]
    for key in folders:
        chosen = chosen[key]
    chosen[last] = number
    (tmp_path / "b.json").write_text(json.dumps(document))
    status, _, err = run_command(capsys, "gate", tmp_path / "b.json", ONE_RANK)
    assert (status in (0, 1, 3), "this is a defect" in err) == (True, False)
    assert status == 3 or number <= 1 << 53


def test_names_of_persons_and_hosts_are_left_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trace = TraceBuilder()
    for step in range(4):
        at = 1_000 * step
        trace.annotation(f"ProfilerStep#{step}", at, at + 900)
        trace.frame(f"/home/jane/work/train.py({step}): forward", at + 10, at + 800)
        trace.op("aten::mm", at + 20, at + 60)
    document = trace.document()
    document["host_name"] = "janes-machine"
    Path("t.json").write_text(json.dumps(document))
    assert run_command(capsys, "gate", "--update", "b.json", "t.json")[0] == 0
    text = Path("b.json").read_text()
    assert "jane" not in text
    assert "train.py: forward" in text
    assert run_command(capsys, "gate", "--update", "h.json", "t.json", "--with-hosts")[0] == 0
    assert '"janes-machine"' in Path("h.json").read_text()


def test_very_long_names_stay_distinct() -> None:
    names = {portable_name("kernel<" + "float, " * 100 + str(at)) for at in range(10)}
    assert len(names) == 10
    assert max(map(len, names)) <= 160


def test_the_same_traces_give_the_same_bytes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recorded(tmp_path / "a.json", [900, 100, 101, 102])
    for name in ("one.json.gz", "two.json.gz"):
        assert run_command(capsys, "gate", "--update", name, "a.json")[0] == 0
    assert Path("one.json.gz").read_bytes() == Path("two.json.gz").read_bytes()
