"""A graph goes with the last who needs it: what it keeps of answers never holds it, or each would keep the other."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from analyses.advice.facts import PathFacts
from analyses.judgement.verdict import replayed_advice
from analyses.questions.catalogue import CATALOGUE
from hta_graph.graph.handoffs import autograd_bursts
from tests.support.command_line import run_command
from tests.support.samples import ONE_RANK

COMMANDS = {
    **{one.name: () for one in CATALOGUE},
    "kernel-sequences": ("--operator", "aten::"),
    "critical-path": (),
    "what-if": (),
    "report": ("-o", "page.html"),
}


@pytest.fixture(autouse=True)
def without_garbage_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def live_graphs(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[hg.DependencyGraph]]:
    """Note each graph that is made, without holding it."""
    made: list[weakref.ref[hg.DependencyGraph]] = []
    make = hg.DependencyGraph.__init__

    def noted(graph: hg.DependencyGraph, *given: Any, **named: Any) -> None:
        made.append(weakref.ref(graph))
        make(graph, *given, **named)

    monkeypatch.setattr(hg.DependencyGraph, "__init__", noted)
    return made


@pytest.mark.sampled(4)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_graph_outlives_its_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, live_graphs: Any, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    status, _, err = run_command(capsys, command, ONE_RANK, "--no-cache", *COMMANDS[command])
    assert status == 0, err
    assert live_graphs
    assert [one for made in live_graphs if (one := made())] == []


QUESTIONS: dict[str, Callable[[hg.DependencyGraph], object]] = {
    "marks": lambda graph: graph.event_flags.communicates,
    "bursts": lambda graph: autograd_bursts(graph).workers(0, 0, 1),
    "path": hg.critical_path,
    "advice": lambda graph: replayed_advice(PathFacts.of(hg.critical_path(graph))),
    "replay": lambda graph: hg.replay(graph, hg.scale("kernel:ampere_sgemm_128x64_nn", 0.5)).path_after.by_bound_ns,
    "opportunities": hg.opportunities,
    "slack": hg.slack,
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_answer_that_a_graph_keeps_holds_it(question: str) -> None:
    graph = hg.build_graph(hg.read_trace(ONE_RANK))
    QUESTIONS[question](graph)
    alive = weakref.ref(graph)
    del graph
    assert alive() is None


def test_what_is_asked_of_an_answer_needs_no_name_for_its_graph() -> None:
    """An answer holds the graph, though the graph does not hold the answer."""
    replayed = hg.replay(hg.build_graph(hg.read_trace(ONE_RANK)))
    assert sum(replayed.path_before.by_bound_ns.values()) == replayed.measured_ns
    facts = PathFacts.of(hg.critical_path(hg.build_graph(hg.read_trace(ONE_RANK))))
    assert facts.has_gpu_rows


def test_facts_about_a_path_are_found_once() -> None:
    path = hg.critical_path(hg.build_graph(hg.read_trace(ONE_RANK)))
    assert PathFacts.of(path).work is PathFacts.of(path).work
