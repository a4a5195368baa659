"""Rules about multiple ranks: which rank delays the job and what it does meanwhile, and ranks on slow machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from analyses.advice.facts import HOST_CLASSES, Confidence, PathFacts, PathFinding
from analyses.display.sentence_format import window_name
from analyses.messages import advice, job_verdict, verdict
from analyses.messages.advice import Advice
from analyses.messages.collective_matching import silent_ranks
from analyses.source.window_report import verdict_of_job
from hta_graph.base.arrays import distinct, percentiles_by
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import Bools, BoundBy, EventKind, Ids, Ints
from hta_graph.paths.critical_path import has_partial_rows
from hta_graph.paths.gpu_activity import WorkType, activities
from hta_graph.paths.rank_crossings import held_up_by
from hta_graph.paths.windows import Window

if TYPE_CHECKING:
    from hta_graph.multi_rank.job_verdict import JobVerdict

FROZEN_SHARE = 0.01
"""Communication without a partner is reported from this share of all communication on."""


def held_up_by_rank(facts: PathFacts) -> PathFinding | None:
    """Name the rank that delays the job, as all commands do, and what it does while the others wait."""
    found, graph = verdict_of_job(facts.path), facts.graph
    if found is None or found.firmness == "none" or not isinstance(graph, JobGraph):
        return None
    evidence: dict[str, Any] = {
        "rank": found.rank, "held_up_ns": found.median_caused_ns,
        "meanwhile": [] if found.cause is None else [
            {"name": found.cause.name, "bound_by": found.cause.bound_by, "time_ns": found.median_caused_ns}
        ],
        "in_window": delays_window(found, facts.path.window),
    }  # fmt: skip
    text = job_verdict.sentence(found, window_name(facts.path.window), graph.hosts)
    details = [job_verdict.doubt(found), *_of_what_is_shown(facts, found)]
    detail = " ".join(text for text in details if text)
    confidence: Confidence = "high" if found.firmness == "firm" else "medium"
    return PathFinding(text, evidence, confidence, detail=detail)


def _of_what_is_shown(facts: PathFacts, found: JobVerdict) -> list[str]:
    """Say what a window that was chosen by its length has to do with the verdict, which is of all steps."""
    shown = facts.path.window.step
    if shown is not None and shown not in found.steps:
        return [job_verdict.other_step(shown, found)]
    if found.rank is None:
        return []
    return [verdict.path_on_rank(facts.share(facts.path.by_rank_ns[found.rank]), found.rank)]


def delays_window(found: JobVerdict, window: Window) -> bool:
    """Return whether the rank that is named delays a window: another step it may not."""
    return found.rank is not None and (window.step is None or window.step in found.steps or found.scope == "window")


def ranks_matched(facts: PathFacts) -> PathFinding | None:
    """Count the communication that ranks share, and what has no partner."""
    job = facts.graph
    if not isinstance(job, JobGraph):
        return None
    members, events, window = job.members, job.event_table, facts.path.window
    inside = members.take((events.end[members.row] > window.start_ns) & (events.start[members.row] < window.end_ns))
    matched = inside.take(inside.number >= 0)
    collectives, messages = (len(distinct(matched.number[matched.is_message == kind])) for kind in (False, True))
    lengths = events.end[inside.row] - events.start[inside.row]
    alone_ns, total_ns = int(lengths[inside.number < 0].sum()), int(lengths.sum())
    alone = len(inside) - len(matched)
    share = alone_ns / total_ns if total_ns else 0.0
    size = max(job.trace.world_size or 0, len(job.rank_graphs))
    silent = size - len(distinct(members.part))
    evidence = {
        "collectives": collectives, "messages": messages, "without_partner": alone,
        "without_partner_ns": alone_ns, "without_partner_share": share, "silent_ranks": silent,
    }  # fmt: skip
    if not len(inside):
        return PathFinding(verdict.NO_COMMUNICATION, evidence)
    is_notable = share >= FROZEN_SHARE or not len(matched)
    said = [verdict.matched(collectives, messages, alone if is_notable else 0, share)]
    if unknown := job.diagnostics["collectives_group_unknown"]:
        said.append(verdict.group_not_recorded(unknown))
    if silent:
        said.append(silent_ranks(silent, size))
    return PathFinding(" ".join(said), evidence)


def clocks_unsure(facts: PathFacts) -> PathFinding | None:
    """Warn where the clocks of ranks are too uncertain for waits of that length."""
    job = facts.graph
    if not isinstance(job, JobGraph) or not len(job.clock_table):
        return None
    error = int(job.clock_table.error.max())
    if not facts.is_notable(2 * error):
        return None
    rank = int(job.clock_table.rank[int(job.clock_table.error.argmax())])
    return PathFinding(verdict.clock_uncertain(rank, error), {"rank": rank, "error_ns": error}, "medium")


SLOWER = 1.1
"""A slow rank takes at least this much longer: clocks of sound GPUs differ by a few percent, medians of operators by
less than ten."""

MOST_NAMES_SHARE = 0.8
"""More work makes some names longer, a slow machine nearly all of them."""

FEWEST_NAMES = 5
FEWEST_CALLS = 5
"""A median of fewer is chance."""


@dataclass(frozen=True)
class Slowdown:
    """How much longer the same names take on a rank than on the next slowest one, and how many were compared."""

    ratio: float
    names: int
    longer: int


def slow_gpu(facts: PathFacts) -> PathFinding | None:
    """The same kernels take longer on the rank that delays the job than on every other one."""
    work = activities(facts.graph)
    rows = work.row[work.type == WorkType.COMPUTATION]
    computes = facts.segments_in_classes(BoundBy.GPU_COMPUTE_BOUND)
    return _slow_rank(facts, rows, computes, advice.slow_gpu)


def slow_host(facts: PathFacts) -> PathFinding | None:
    """The same operators that do not wait take longer on the rank that delays the job than on every other one."""
    works = facts.segments_in_classes(*HOST_CLASSES)
    return _slow_rank(facts, _non_waiting_operators(facts.graph), works, advice.slow_host)


def _non_waiting_operators(graph: DependencyGraph) -> Ids:
    """Return the innermost operators that neither wait for a GPU nor for other ranks."""
    if not isinstance(graph, JobGraph):
        return np.empty(0, np.int32)
    own = graph.event_table.kind == EventKind.CPU_OP
    around = graph.operator_around
    own[distinct(around[own & (around >= 0)])] = False
    waiting = around[graph.event_flags.blocking_call]
    own[waiting[waiting >= 0]] = False
    own[graph.members.call[graph.members.call >= 0]] = False
    return np.flatnonzero(own).astype(np.int32)


def _slow_rank(
    facts: PathFacts, rows: Ids, on_path: Bools, said: Callable[[int, float, int, int], Advice]
) -> PathFinding | None:
    delaying = verdict_of_job(facts.path)
    # Of a job of rank summaries only what the path passes is there: nothing to compare all ranks by.
    if delaying is None or delaying.rank is None or has_partial_rows(facts.graph):
        return None
    place = facts.graph.index_of_rank(delaying.rank)
    found = _slowdown(facts, rows, place)
    if found is None:
        return None
    own_ns = facts.time_of(on_path & (facts.path.segment_table.part == place))
    saved = min(held_up_by(facts.path)[place].total, int(own_ns * (1 - 1 / found.ratio)))
    if not facts.is_notable(saved):
        return None
    rank = facts.graph.rank_graphs[place].rank
    evidence = {"rank": rank, "ratio": round(found.ratio, 3), "names": found.names, "longer": found.longer}
    return PathFinding.of_advice(said(rank, found.ratio, found.longer, found.names), evidence, "medium", saved)


def _slowdown(facts: PathFacts, rows: Ids, place: int) -> Slowdown | None:
    """Compare a rank with every other one by the medians of equal names; None where it is not slower than each."""
    medians, counts = _medians(facts, rows)
    others = [at for at in range(medians.shape[1]) if at != place]
    found = []
    for other in others:
        both = (counts[:, place] >= FEWEST_CALLS) & (counts[:, other] >= FEWEST_CALLS)
        own, its = medians[both, place], medians[both, other]
        longer = int(np.count_nonzero(own > its))
        ratio = float((own * counts[both, place]).sum() / max((its * counts[both, place]).sum(), 1))
        if len(own) < FEWEST_NAMES or ratio < SLOWER or longer < MOST_NAMES_SHARE * len(own):
            return None
        found.append(Slowdown(ratio, len(own), longer))
    return min(found, key=lambda one: one.ratio, default=None)


def _medians(facts: PathFacts, rows: Ids) -> tuple[Ints, Ints]:
    """Return the lower median duration (ns), and the number, of each name on each rank."""
    events, parts = facts.graph.event_table, len(facts.graph.rank_graphs)
    names = distinct(events.name[rows])
    key = np.searchsorted(names, events.name[rows]) * parts + facts.graph.rank_index_of(rows)
    medians = percentiles_by(key, events.end[rows] - events.start[rows], len(names) * parts, 50)
    counts = np.bincount(key, minlength=len(names) * parts)
    return medians.reshape(-1, parts), counts.reshape(-1, parts)
