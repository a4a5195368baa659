"""The table of edge kinds is whole: each kind has a row, a rule and a line for readers, and no row leaves a hole."""

from __future__ import annotations

import re
from dataclasses import replace
from enum import IntEnum
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from analyses.cli.main import main
from hta_graph import model
from hta_graph.base.errors import DefectError
from hta_graph.build.from_trace import DEFAULT_RULES, DependencyRule
from hta_graph.dependencies.context import RuleContext
from hta_graph.export.picture.style import UNKNOWN_COLOUR, link_colour
from hta_graph.export.sync_dependencies import GPU_TO_CPU, GPU_TO_GPU
from hta_graph.graph.timeline import Timeline
from hta_graph.model import CUSTOM_KINDS, EDGE_MEANING, EdgeKind, EdgeRole, EdgeRule
from hta_graph.paths import critical_path as module
from hta_graph.paths.segments import SegmentTable
from tests.edge_accuracy import read
from tests.simulator import Dialect, Program, Stream, random_program, simulate, write
from tests.simulator.program import Launch
from tests.simulator.programs import Family
from tests.simulator.run import Run
from tests.support.manual_pages import page_with
from tests.support.rule_programs import rule_programs
from tests.support.trace_builder import TraceBuilder

ROOT = Path(__file__).parents[2]
FAMILIES: tuple[tuple[int, Family], ...] = ((1, "pytorch"), (3, "experts"), (8, "pytorch"))
WORK = (EdgeRole.THREAD, EdgeRole.ACTIVITY, EdgeRole.RELEASE, EdgeRole.TRANSFER, EdgeRole.AWAKENING)
"""Roles of edges whose time is somebody's work, so that there is no lag to name."""

every_kind = pytest.mark.parametrize("kind", EdgeKind, ids=lambda kind: kind.label)
every_rule = pytest.mark.parametrize("rule", DEFAULT_RULES, ids=lambda rule: rule.__name__)


def programs() -> list[Program]:
    """Return programs that have edges of every kind together."""
    return [
        *(random_program(seed, family, 2_000) for seed, family in FAMILIES),
        Program.of(*[Launch(Stream(), 30_000)] * 1_500),  # fills the queue of its stream
        *rule_programs().values(),
    ]


@cache
def simulated_runs() -> list[Run]:
    return [simulate(program) for program in programs()]


@cache
def simulated_graphs() -> list[hg.DependencyGraph]:
    runs = simulated_runs()
    return [read(write(run, Dialect(sync_rows=rows))) for run in runs for rows in ("none", "resolved")]  # type: ignore[arg-type]


@cache
def simulated_contexts() -> list[RuleContext]:
    traces = [graph.trace for graph in simulated_graphs()]
    return [RuleContext(trace, Timeline(trace)) for trace in traces]


# -- every kind has its row -------------------------------------------------------------------------------------------


@every_kind
def test_a_row_says_what_the_kind_means(kind: EdgeKind) -> None:
    meaning = EDGE_MEANING[kind]
    assert re.fullmatch(r"[a-z].*[a-z]", meaning.says), "a sentence without a full stop, as messages continue it"
    assert re.fullmatch(r"#[0-9a-f]{6}", meaning.colour)
    assert link_colour(kind) == meaning.colour
    assert (kind in GPU_TO_CPU, kind in GPU_TO_GPU) == (meaning.exported == "cpu", meaning.exported == "gpu")


@pytest.mark.sampled(2)
@every_kind
def test_time_on_an_edge_is_either_work_or_a_lag_with_a_class(kind: EdgeKind) -> None:
    """A kind without the class that its role asks for would be a hole in paths; without a cause, in idle time."""
    meaning = EDGE_MEANING[kind]
    assert (meaning.lag is None) == (meaning.role in WORK)
    assert (meaning.gap is None) == (meaning.role in (EdgeRole.THREAD, EdgeRole.ACTIVITY, EdgeRole.TRANSFER))


def test_every_role_has_a_kind_and_synchronisation_leads_to_what_waits() -> None:
    assert {meaning.role for meaning in EDGE_MEANING.values()} == set(EdgeRole)
    roles = {exported: {m.role for m in EDGE_MEANING.values() if m.exported == exported} for exported in ("cpu", "gpu")}
    assert roles == {"cpu": {EdgeRole.RETURN}, "gpu": {EdgeRole.STREAM}}
    assert all(meaning.exported in (None, "cpu", "gpu") for meaning in EDGE_MEANING.values())


def test_kinds_can_be_told_apart_in_a_picture() -> None:
    colours = [EDGE_MEANING[kind].colour for kind in EdgeKind if EDGE_MEANING[kind].gap is not None]
    assert len(set(colours)) == len(colours)
    assert UNKNOWN_COLOUR not in colours
    assert link_colour(None) == UNKNOWN_COLOUR


def test_a_kind_without_a_row_is_an_error_at_import() -> None:
    text = Path(model.__file__).read_text(encoding="utf-8")
    last = f"    {EdgeKind(len(EdgeKind) - 1).name} = {len(EdgeKind) - 1}\n"
    assert text.count(last) == 1
    added = text.replace(last, f"{last}    FORGOTTEN = {len(EdgeKind)}\n")
    exec(compile(text, "model.py", "exec"), {"__name__": model.__name__})  # noqa: S102
    with pytest.raises(KeyError, match="FORGOTTEN"):
        exec(compile(added, "model.py", "exec"), {"__name__": model.__name__})  # noqa: S102


def test_the_manual_explains_every_kind_in_their_order() -> None:
    table = page_with("| edge | meaning |").split("| edge | meaning |")[1].split("\n\n")[0]
    cells = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    assert [label for cell in cells for label in re.findall(r"`(\w+)`", cell)] == [kind.label for kind in EdgeKind]


# -- every kind has its rule ------------------------------------------------------------------------------------------


def test_every_kind_has_a_rule_of_its_name() -> None:
    custom = CUSTOM_KINDS.values()
    labels = sorted(kind.label for kind in EdgeKind if not EDGE_MEANING[kind].of_job and kind not in custom)
    assert sorted(rule.__name__ for rule in DEFAULT_RULES) == labels


def test_no_two_members_have_one_number() -> None:
    enums = [one for one in vars(model).values() if isinstance(one, type) and issubclass(one, IntEnum)]
    assert [name for one in enums for name, member in one.__members__.items() if member.name != name] == [], (
        "the second is taken for another name of the first"
    )


def test_simulated_programs_wait_for_every_kind_that_one_rank_shows() -> None:
    kinds = {constraint.kind for run in simulated_runs() for constraint in run.constraints}
    assert kinds == {rule.__name__ for rule in DEFAULT_RULES}


@pytest.mark.sampled(9)
@every_rule
def test_a_rule_gives_edges_of_its_kind_alone(rule: DependencyRule) -> None:
    found = {kind for context in simulated_contexts() for kind in rule(context).kind.tolist()}
    assert found == {EdgeKind[rule.__name__.upper()]}


def test_inferred_edges_name_their_rule_and_recorded_ones_none() -> None:
    named = set()
    for graph in simulated_graphs():
        edges = graph.edges
        assert ((edges.rule == "recorded") == (edges.evidence == "recorded")).all()
        named |= set(edges.rule)
    assert named <= {rule.label for rule in EdgeRule}
    # The programs run on known vendors' hardware: no call of an unknown name waits in them, no host polls,
    # every kernel has a correlation, and no loop leaves a wait to a guess.
    of_jobs = {EdgeRule.ALIGNED_SEQUENCES, EdgeRule.CALL_OF_WORKER, EdgeRule.SILENCE_UNTIL_WORK_END}
    elsewhere = {EdgeRule.OF_PRODUCER, EdgeRule.RETURNED_WITH_WORK, EdgeRule.POLLED_UNTIL_WORK_END}
    elsewhere |= {EdgeRule.KERNEL_NAME_IN_ORDER, EdgeRule.SAME_IN_ALL_REPLAYS, EdgeRule.ONLY_OTHER_STREAM}
    assert len(named) >= len(set(EdgeRule) - of_jobs - elsewhere) - 2, "nearly all rules are used by these programs"


# -- every path checks itself -----------------------------------------------------------------------------------------


def path_of_three(tmp_path: Path) -> hg.CriticalPath:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10)
    trace.launch("gemm", (2, 6), (20, 50), 1)
    return hg.critical_path(trace.graph(tmp_path), hg.whole())


def broken_pieces(pieces: SegmentTable) -> dict[str, SegmentTable]:
    """Return pieces that do not tile: one is missing, two overlap, or they begin late or end early."""
    rows = np.arange(len(pieces))
    longer = pieces.end + (rows == 1)
    return {
        "a hole": pieces.take(rows != 1),
        "an overlap": replace(pieces, end=longer),
        "a late start": pieces.take(rows > 0),
        "an early end": pieces.take(rows < rows[-1]),
        "no order": pieces.take(rows[::-1]),
        "nothing": pieces.take(rows[:0]),
    }


@pytest.mark.sampled(3)
@pytest.mark.parametrize("fault", ["a hole", "an overlap", "a late start", "an early end", "no order", "nothing"])
def test_a_path_that_does_not_tile_is_refused(tmp_path: Path, fault: str) -> None:
    path = path_of_three(tmp_path)
    path.self_check()
    with pytest.raises(DefectError, match=r"segments of whole trace do not tile it at \d+; this is a defect"):
        hg.CriticalPath(path.graph, path.window, path.chain, broken_pieces(path.segment_table)[fault])


def test_a_hole_is_one_line_at_the_terminal_and_never_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = path_of_three(tmp_path)
    monkeypatch.setattr(module, "segments_of_paths", lambda *_: [broken_pieces(path.segment_table)["a hole"]])
    assert main(["critical-path", str(path.graph.path), "--whole", "--json", "-"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert "do not tile" in shown.err
