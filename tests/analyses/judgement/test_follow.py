"""A finding's change reproduces its saving, and the events behind a finding are those that the change touches."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import hta_graph as hg
from analyses.advice.facts import PathFacts
from analyses.advice.rules import RULES
from analyses.cli.commands.what_if import changes_of_finding
from analyses.judgement.findings import WindowFinding, finding_records, judgement
from analyses.judgement.follow import evidence_columns, follow_advice
from hta_graph.base.errors import UsageError
from hta_graph.paths.windows import resolved_window
from hta_graph.what_if.changes import Change
from hta_graph.what_if.replay import replay
from tests.support.command_line import command_json, one_error, run_command
from tests.support.deep_tests import deep
from tests.support.samples import FOUR_RANKS, ONE_RANK
from tests.support.shared_traces import is_large_trace, shared_traces
from tests.support.trace_builder import TraceBuilder

RECORDINGS = [ONE_RANK, FOUR_RANKS, *(deep(path) if is_large_trace(path) else path for path in shared_traces())]


def facts_of(path: Path) -> PathFacts:
    graph = hg.read_job(path) if path.is_dir() else hg.build_graph(hg.read_trace(path))
    return PathFacts.of(hg.critical_path(graph))


def changes_of(facts: PathFacts, found: WindowFinding) -> list[Change]:
    """Read the change of a finding from its JSON, as the command line is read."""
    (record,) = finding_records(facts, [found])
    return [one.change for one in changes_of_finding(record)]


def is_cut(found: WindowFinding) -> bool:
    """Say whether a saving may be less than what replay of its change predicts: rows allow no more."""
    return found.is_at_most or (found.advice is not None and RULES[found.advice.rule].ends_with_its_time)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_the_change_of_a_finding_reproduces_its_saving(path: Path) -> None:
    facts = facts_of(path)
    for found in judgement(facts):
        if found.change and found.saves_ns:
            again = replay(facts.graph, changes_of(facts, found), resolved_window(facts.priced_window)).saved_ns
            assert found.saves_ns == again or (is_cut(found) and found.saves_ns < again), found.id


def test_the_events_behind_a_finding_are_on_the_path_for_as_long_as_it_says(tmp_path: Path) -> None:
    facts = facts_of(ONE_RANK)
    first = next(found for found in judgement(facts) if found.id.startswith("item:operator:"))
    columns = evidence_columns(facts, changes_of(facts, first))
    name = first.name.partition(":")[2]
    assert name in columns["name"]
    assert (columns["path_ns"] <= columns["time_ns"]).all()
    assert columns["path_ns"].sum() >= (first.saves_ns or 0)


def test_evidence_is_listed_and_an_unknown_finding_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first = command_json(capsys, "critical-path", ONE_RANK)["judgement"][0]
    document = command_json(capsys, "critical-path", ONE_RANK, "--evidence", first["id"])
    assert document["schema"] == "hta-graph/critical-path-evidence/1"
    assert document["finding"] == first
    status, out, _ = run_command(capsys, "critical-path", ONE_RANK, "--evidence", first["id"])
    assert status == 0
    assert out.startswith(f"{first['window']['label']}: {first['text']}\nreplay it: hta-graph what-if ")
    assert f"events behind it ({len(document['events']):,})" in out
    said = one_error(capsys, tmp_path, "critical-path", ONE_RANK, "--evidence", "cause:nothing")
    assert "has no finding 'cause:nothing'" in said
    refused = one_error(capsys, tmp_path, "critical-path", ONE_RANK, "--evidence", first["id"], "--per-step", status=2)
    assert "--evidence lists events only" in refused


def test_only_advice_that_replay_can_follow_is_a_scenario() -> None:
    assert str(follow_advice("host_pauses")) == "advice=host_pauses"
    for rule in ("no_python_stacks", "x", None):
        with pytest.raises(UsageError, match="that replay can follow"):
            follow_advice(rule)


def test_a_name_from_a_trace_stays_one_word_of_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    name, built = "aten::x'; touch taken; echo $(id) <a b>=1", TraceBuilder()
    built.op(name, 0, 500)
    built.launch("gemm", (501, 503), (504, 600), 1)
    path = built.write(tmp_path / "t.json")
    status, out, _ = run_command(capsys, "critical-path", path, "--evidence", f"item:operator:{name}")
    assert status == 0
    line = next(line for line in out.splitlines() if line.startswith("replay it: "))
    words = shlex.split(line.removeprefix("replay it: "))
    assert words == ["hta-graph", "what-if", str(path), "--whole", "--scale", f"operator:{name}=0.5"]
    assert run_command(capsys, *words[1:])[0] == 0
