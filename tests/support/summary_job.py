"""A job of which the asking side holds skeletons only, made of graphs in memory; and what is said of a path."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import hta_graph as hg
from analyses.questions.critical_path import path_document
from hta_graph.base.text.json_text import to_json
from hta_graph.multi_rank.join_ranks import join_ranks
from hta_graph.multi_rank.matching.collectives import match_collectives
from hta_graph.multi_rank.matching.read_communications import read_communications
from hta_graph.multi_rank.summary.critical_paths import ExcerptRequest, make_path_excerpt
from hta_graph.multi_rank.summary.summarize import SummaryRequest, summarize_rank
from hta_graph.multi_rank.summary_job import SummarySource
from hta_graph.multi_rank.what_if.rank_replay import ReplayRequest, answer_replay_request
from hta_graph.multi_rank.wire_format import answer_pieces, graph_of_answer
from hta_graph.paths.step_table import step_rows
from hta_graph.paths.windows import WindowQuery
from tests.matching_accuracy import DAMAGES, SCENARIOS, random_shape
from tests.simulator.ranks import record_job, simulate_job
from tests.support.deep_tests import deep

__all__ = ["ALL_KINDS", "SUMMARY_KINDS", "answer_or_error", "path_json", "recorded_ranks", "summary_job"]

SUMMARY_KINDS = [
    ("fsdp", "nccl", "windows"),
    deep("ddp", "nccl", "none"),
    deep("pipeline", "gloo", "clocks"),
    deep("rooted", "gloo", "none"),
]
"""Scenarios, backends and damages of which every run looks at the first."""
ALL_KINDS = [
    (scenario, backend, damage)
    for scenario in SCENARIOS
    for backend in ("nccl", "gloo")
    for damage in DAMAGES
    if scenario != "wide"
]


def recorded_ranks(folder: Path, scenario: str, backend: str, damage: str, seed: int) -> list[hg.DependencyGraph]:
    """Record the ranks of a random job of a kind, with a kind of damage."""
    job = simulate_job(SCENARIOS[scenario](random_shape(scenario, backend, seed)))
    recording = DAMAGES[damage].recording(job, random.Random(seed))
    return list(hg.read_graphs(record_job(job, recording, folder).paths, communications=True))


def answer_or_error(question: Callable[..., Any], *given: Any) -> Any:
    """Return what a question is answered with, be it an error."""
    try:
        return question(*given)
    except hg.HtaGraphError as error:
        return f"{type(error).__name__}: {error}"


def summary_job(graphs: Iterable[hg.DependencyGraph], doings: int = 1 << 20) -> hg.JobGraph:
    """Return the job of graphs as processes elsewhere would tell it: skeletons and excerpts come as bytes."""
    whole = {graph.rank or 0: graph for graph in graphs}
    few = {rank: _sent(summarize_rank(graph, SummaryRequest(doings=doings))) for rank, graph in whole.items()}
    matched = match_collectives({rank: read_communications(graph) for rank, graph in few.items()})
    for rank, clock in matched.clocks.by_rank.items():
        if not clock.is_constant_offset:
            question = SummaryRequest(doings=doings, clock=SummaryRequest.clock_record(clock))
            few[rank] = _sent(summarize_rank(whole[rank], question))

    def ask(questions: Mapping[int, ExcerptRequest]) -> dict[int, hg.DependencyGraph]:
        again = {rank: ExcerptRequest.of_record(asked.as_record()) for rank, asked in questions.items()}
        return {rank: _sent(make_path_excerpt(whole[rank], asked)) for rank, asked in again.items()}

    def ask_replay(
        doing: str, ranks: Iterable[int], question: Callable[[int], ReplayRequest]
    ) -> dict[int, hg.DependencyGraph]:
        del doing
        again = {rank: json.loads(json.dumps(question(rank).as_record())) for rank in ranks}
        return {
            rank: _sent(answer_replay_request(whole[rank], ReplayRequest.of_record(one))) for rank, one in again.items()
        }

    def read_whole(ranks: Iterable[int]) -> dict[int, hg.DependencyGraph]:
        return {rank: whole[rank] for rank in ranks}

    source = SummarySource(
        matched=matched, read_excerpts=ask, annotations=(), read_replays=ask_replay, read_whole=read_whole
    )
    return join_ranks(few.values(), matched=matched, source=source)


def _sent(graph: hg.DependencyGraph) -> hg.DependencyGraph:
    return graph_of_answer(b"".join(answer_pieces(graph)))


def path_json(job: hg.JobGraph, window: WindowQuery | None) -> dict[str, Any]:
    """Return the whole document of a path, without the verdict's rules that compare all ranks, and without replay."""
    path = hg.critical_path(job, window)
    steps = step_rows(path.graph) if path.window.is_default else ()
    said: dict[str, Any] = json.loads(b"".join(to_json(path_document(path, steps))))
    del said["judgement"]
    return {**said, "verdict": [one for one in said["verdict"] if one["rule"] not in ("slow_gpu", "slow_host")]}
