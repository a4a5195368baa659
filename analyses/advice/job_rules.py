"""Rules about multiple ranks: which rank delays the job and what it does meanwhile, and ranks on slow machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from analyses.advice import job_verdict
from analyses.advice.facts import HOST_CLASSES, PathFacts
from analyses.advice.rule import Evidence, Fired, Remedy, Rule, with_factor
from analyses.display.phrases import silent_ranks
from analyses.source.window_facts import verdict_of_job
from analyses.source.window_report import window_name
from hta_graph.base.arrays import distinct, percentiles_by
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, BoundBy, EventKind, Ids, Ints
from hta_graph.paths.critical_path import has_partial_rows
from hta_graph.paths.gpu_activity import WorkType, activities
from hta_graph.paths.rank_crossings import held_up_by
from hta_graph.paths.windows import Window
from hta_graph.what_if.changes import Change
from hta_graph.what_if.scenarios import scenario

if TYPE_CHECKING:
    from hta_graph.multi_rank.job_verdict import JobVerdict

FROZEN_SHARE = 0.01
"""Communication without a partner is reported from this share of all communication on."""


def held_up_by_rank(facts: PathFacts) -> Fired | None:
    """Name the rank that delays the job, as all commands do, and what it does while the others wait."""
    found, graph = verdict_of_job(facts.path), facts.graph
    if found is None or found.firmness == "none":
        return None
    evidence: dict[str, Any] = {
        "rank": found.rank, "held_up_ns": found.median_caused_ns,
        "meanwhile": [] if found.cause is None else [
            {"name": found.cause.name, "bound_by": found.cause.bound_by, "time_ns": found.median_caused_ns}
        ],
        "in_window": delays_window(found, facts.path.window),
    }  # fmt: skip
    details = [job_verdict.doubt(found), *job_verdict.saved_on_time(found), *_of_what_is_shown(facts, found)]
    said = {
        "verdict": job_verdict.sentence(found, window_name(facts.path.window), graph.hosts),
        "details": " ".join(text for text in details if text),
    }  # fmt: skip
    return Fired(evidence, "high" if found.firmness == "firm" else "medium", said=said)


def _of_what_is_shown(facts: PathFacts, found: JobVerdict) -> list[str]:
    """Say what a window that was chosen by its length has to do with the verdict, which is of all steps."""
    shown = facts.path.window.step
    if shown is not None and shown not in found.steps:
        return [job_verdict.other_step(shown, found)]
    if found.rank is None:
        return []
    return [job_verdict.path_on_rank(facts.share(facts.path.by_rank_ns[found.rank]), found.rank)]


def delays_window(found: JobVerdict, window: Window) -> bool:
    """Return whether the rank that is named delays a window: another step it may not."""
    return found.rank is not None and (window.step is None or window.step in found.steps or found.scope == "window")


def ranks_matched(facts: PathFacts) -> Fired | None:
    """Count the communication that ranks share, and what has no partner."""
    job = facts.graph
    if not job.is_job:
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
    is_empty, is_matched = not len(inside), bool(len(matched))
    said = {
        "is_empty": is_empty, "is_matched": is_matched, "are_both": collectives and messages,
        "is_alone": not is_matched and not is_empty, "lone": 0 if is_matched and share < FROZEN_SHARE else alone,
        "group_unknown": 0 if is_empty else job.diagnostics["collectives_group_unknown"],
        "silence": silent_ranks(silent, size) if silent and not is_empty else "",
    }  # fmt: skip
    return Fired(evidence, said=said)


def clocks_unsure(facts: PathFacts) -> Fired | None:
    """Warn where the clocks of ranks are too uncertain for waits of that length."""
    job = facts.graph
    if not len(job.clock_table):
        return None
    error = int(job.clock_table.error.max())
    if not facts.is_notable(2 * error):
        return None
    rank = int(job.clock_table.rank[int(job.clock_table.error.argmax())])
    return Fired({"rank": rank, "error_ns": error}, "medium")


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


def slow_gpu(facts: PathFacts) -> Fired | None:
    """The same kernels take longer on the rank that delays the job than on every other one."""
    work = activities(facts.graph)
    rows = work.row[work.type == WorkType.COMPUTATION]
    computes = facts.segments_in_classes(BoundBy.GPU_COMPUTE_BOUND)
    return _slow_rank(facts, rows, computes)


def slow_host(facts: PathFacts) -> Fired | None:
    """The same operators that do not wait take longer on the rank that delays the job than on every other one."""
    works = facts.segments_in_classes(*HOST_CLASSES)
    return _slow_rank(facts, _non_waiting_operators(facts.graph), works)


def _non_waiting_operators(graph: DependencyGraph) -> Ids:
    """Return the innermost operators that neither wait for a GPU nor for other ranks."""
    if not graph.is_job:
        return np.empty(0, np.int32)
    own = graph.event_table.kind == EventKind.CPU_OP
    around = graph.operator_around
    own[distinct(around[own & (around >= 0)])] = False
    waiting = around[graph.event_flags.blocking_call]
    own[waiting[waiting >= 0]] = False
    own[graph.members.call[graph.members.call >= 0]] = False
    return np.flatnonzero(own).astype(np.int32)


def _slow_rank(facts: PathFacts, rows: Ids, on_path: Bools) -> Fired | None:
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
    return Fired(evidence, "medium", saved, {"times": found.ratio})


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


def _rank_at_most(facts: PathFacts, evidence: Evidence) -> int:
    rank = evidence["rank"]
    return 0 if rank is None else facts.priced.of_rank(facts.graph.index_of_rank(rank))


def _slow_gpu_at_most(facts: PathFacts, evidence: Evidence) -> int:
    place, work = facts.graph.index_of_rank(evidence["rank"]), activities(facts.graph)
    own = work.row[(work.type == WorkType.COMPUTATION) & (facts.graph.rank_index_of(work.row) == place)]
    return min(facts.priced.of_work(own, 1 - 1 / evidence["ratio"]), facts.priced.of_rank(place))


def _slow_host_at_most(facts: PathFacts, evidence: Evidence) -> int:
    return min(facts.priced.host_ns, _rank_at_most(facts, evidence))


def _rank_as_fast(*classes: BoundBy) -> Remedy:
    """Let what a rank does in some classes be as fast as on the next slowest rank."""

    def remedy(facts: PathFacts, evidence: Evidence) -> Change:
        place = facts.graph.index_of_rank(evidence["rank"])
        return with_factor(
            lambda base: (base.part_rank == place) & np.isin(base.parts.bound, classes), 1 / evidence["ratio"]
        )

    return remedy


HELD_UP_BY_RANK = Rule(
    "held_up_by_rank", "verdict", held_up_by_rank,
    why="{verdict}",
    detail="{details}",
    bound=_rank_at_most,
    remedy=lambda _, evidence: scenario("rank_like_others", evidence["rank"]),
)  # fmt: skip

RANKS_MATCHED = Rule(
    "ranks_matched", "verdict", ranks_matched,
    why="{is_empty:+No communication between ranks was found in this window; each rank has its own path.}"
    "{is_matched:+Matched between ranks: }{collectives:+{collectives:#collective}}{are_both:+ and }"
    "{messages:+{messages:#send/receive pair}}{is_alone:+No communication has a partner on another rank}"
    "{lone:+; {lone:#communication} ({without_partner_share:share} of communication time) without a partner}"
    "{is_empty:-.}{group_unknown:+ The process group of {group_unknown:#collective} is not recorded; they are left "
    "out.}{silence:+ {silence}}",
)  # fmt: skip

CLOCKS_UNSURE = Rule(
    "clocks_unsure", "verdict", clocks_unsure,
    why="The clock of rank {rank} is uncertain by {error_ns:time}; waits shorter than the error of two clocks are not "
    "attributed.",
)  # fmt: skip

SLOW_RANKS = (
    Rule(
        "slow_gpu", "rank", slow_gpu,
        action="Check the GPU of rank {rank}: throttling (nvidia-smi -q -d PERFORMANCE), other programs, larger inputs",
        why="The same kernels take {times:.2f} times as long there as on any other rank ({longer} of {names} kernel "
        "names take longer).",
        bound=_slow_gpu_at_most,
        remedy=_rank_as_fast(BoundBy.GPU_COMPUTE_BOUND),
    ),
    Rule(
        "slow_host", "rank", slow_host,
        action="Check the host of rank {rank}: throttling, too few cores, other programs, larger inputs",
        why="The same operators take {times:.2f} times as long there as on any other rank ({longer} of {names} "
        "operator names take longer).",
        bound=_slow_host_at_most,
        remedy=_rank_as_fast(*HOST_CLASSES),
    ),
)  # fmt: skip
"""Rules of advice about slow ranks, in the order in which they are asked."""
