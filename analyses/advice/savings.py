"""What following advice would save by replay: each finding's remedy as a change of its window, where one stands for it.

It is imported where these numbers are shown only: replay takes longer than a path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from analyses.advice.claims import with_replayed_saving, within_bounds
from analyses.advice.facts import HOST_CLASSES, PathFacts, PathFinding
from analyses.advice.gpu_rules import fusible_chains, tf32_factors, unbucketed, work_limits
from analyses.advice.host_rules import (
    blocked_launches,
    blocks_on_upload,
    classify_waits,
    loading_of_window,
    waits_for_pinned_upload,
    waits_of_window,
)
from analyses.advice.runtime_rules import code_loading_calls, usual_launch_ns
from hta_graph.base.arrays import take_or
from hta_graph.base.errors import QueryError
from hta_graph.base.progress import tracked
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import RETURNS, Bools, BoundBy, EdgeKind, EventKind, Floats, Ids
from hta_graph.paths.critical_path import has_partial_rows
from hta_graph.paths.gpu_activity import WorkType, activities
from hta_graph.paths.intervals import union
from hta_graph.paths.windows import resolved_window
from hta_graph.what_if.changes import Change, overlap_activities, scale_activities
from hta_graph.what_if.modified_window import ModifiedWindow, PathTotals
from hta_graph.what_if.reliability import Reliability, reliability_after
from hta_graph.what_if.replay import Replayed, replay
from hta_graph.what_if.replay_graph import ReplayGraph
from hta_graph.what_if.scenarios import pause_shares, scenario

Remedy = Callable[[PathFacts, PathFinding], Change]


def with_savings(facts: PathFacts, findings: Iterable[PathFinding]) -> list[PathFinding]:
    """Replay the priced window with each finding's remedy; findings without one stay as they are.

    So do all where the graph holds few rows of its ranks: what a change would gain takes all of them.
    """
    if has_partial_rows(facts.graph):
        return list(findings)
    return [_with_saving(facts, finding) for finding in tracked(within_bounds(facts, findings, of_job=True))]


def with_what_windows_show(facts: PathFacts, found: list[PathFinding]) -> list[PathFinding]:
    """Add what the path of the asked window does not show, and replay of the priced one does.

    Loading may delay only the next step's launches, and waits may cost little each by its kind, but much together:
    beyond the waits that are found already, at least what the GPU is idle. Where replay cannot vouch for a saving,
    nothing shows that there is any.
    """
    if has_partial_rows(facts.graph) or isinstance(facts.graph, JobGraph) or not facts.has_gpu_rows:
        return found
    rules, seen = {one.rule for one in found}, list(found)
    if "data_loading_exposed" not in rules and (loading := loading_of_window(facts)):
        priced = with_savings(facts, within_bounds(facts, [loading]))
        seen += [one for one in priced if one.saves_ns is not None]
    if not rules & {"synchronous_launches", "waits_of_all_kinds"} and (waits := waits_of_window(facts)):
        known_ns = max((one.saves_ns or 0 for one in found if one.rule in WAITING), default=0)
        priced = with_savings(facts, within_bounds(facts, [waits]))
        gained = [min(one.saves_ns or 0, facts.priced.gpu_idle_ns) - known_ns for one in priced]
        least = WINDOW_WAITS_SHARE * facts.priced.length_ns
        seen += [one for one, ns in zip(priced, gained, strict=True) if ns >= least]
    return seen


WINDOW_WAITS_SHARE = 0.1
"""Waits that the path does not pass are advised from this share on: none of its kinds is notable alone."""

WAITING = ("values_read", "explicit_synchronisation", "waits_of_all_kinds", "blocking_uploads", "pageable_copies")
"""Rules about waits of the host for the GPU."""


def _with_saving(facts: PathFacts, finding: PathFinding) -> PathFinding:
    remedy = REMEDIES.get(finding.rule)
    if remedy is None or not finding.evidence.get("in_window", True):
        return finding
    try:
        found = replay(facts.graph, remedy(facts, finding), resolved_window(facts.priced_window))
        trusted = reliability_after(found)
        is_late_rank = trusted.reason == "fixed" and finding.rule == "held_up_by_rank"
        if trusted.reason is not None and trusted.reason not in DOUBTS and not is_late_rank:
            # Replay cannot vouch for it: only the bound is claimed. How late a rank is, is known where ranks meet. An
            # iteration may become longer, where those before it end earlier: then nothing shows that anything is saved.
            may_be_longer = trusted.missing is None and found.draft.base.previous is not None
            return replace(finding, saves_ns=0) if may_be_longer and found.saved_ns <= 0 else finding
        is_rank = facts.has_gpu_rows and not isinstance(facts.graph, JobGraph)
        idle_ns = facts.priced.gpu_idle_ns if is_rank else found.saved_ns
        saving = _with_doubt(with_replayed_saving(finding, found.saved_ns, idle_ns), trusted)
        if finding.rule != "held_up_by_rank":
            return saving
        return replace(saving, takes_longer=_takes_longer(found, facts.graph.index_of_rank(finding.evidence["rank"])))
    except QueryError:
        # A remedy that leaves something without a cause, or finds nothing to change, predicts nothing.
        return finding


DOUBTS = ("contended", "unusual")
"""Reasons for which a prediction is doubtful, and yet the best that there is."""


def _with_doubt(finding: PathFinding, trusted: Reliability) -> PathFinding:
    """Trust a saving less where it rests on what may be otherwise: waits for a lock, times of unusual length."""
    if trusted.reason not in DOUBTS:
        return finding
    return replace(finding, confidence="low", evidence={**finding.evidence, f"{trusted.reason}_share": trusted.share})


def _takes_longer(found: Replayed, place: int) -> tuple[str | None, str] | None:
    """Return whose time on the path, and of which class, a rank (its place) has most more of than the others.

    The path afterwards may lead through another rank that does other things: what it has less of says nothing. None
    where nothing alone makes half of what is saved.
    """
    base, rows = found.draft.base, found.path_before.rows
    rows = rows[base.part_rank[rows] == place]
    longer = PathTotals(base, rows, base.parts.length[rows] - found.draft.lengths_of(rows)).by_name()
    if not len(longer["name"]) or 2 * longer["time_ns"][0] < max(found.saved_ns, 1):
        return None
    return longer["name"][0], longer["bound_by"][0]


def _with_factor(chosen: Callable[[ReplayGraph], Bools], factor: float = 0.0) -> Change:
    """Let some parts of time take another time."""

    def change(draft: ModifiedWindow) -> None:
        draft.factor[chosen(draft.base) & draft.base.may_change] *= factor

    return change


def _with_own_factors(factor: Floats) -> Change:
    """Multiply what each event owns by a factor of its own."""

    def change(draft: ModifiedWindow) -> None:
        may_change = draft.base.may_change
        draft.factor[may_change] *= take_or(factor, draft.base.parts.owner[may_change], otherwise=1.0)

    return change


def _without_waits(facts: PathFacts, chosen: Callable[[Ids], Bools]) -> Change:
    """Let some calls return without waiting for GPU work."""

    def change(draft: ModifiedWindow) -> None:
        rows = draft.base.edges.row
        at = np.flatnonzero(np.isin(take_or(facts.graph.edge_table.kind, rows), RETURNS))
        calls = facts.graph.edges_at(rows[at]).target
        draft.dropped[at[chosen(calls)]] = True

    return change


def _named_scenario(name: str) -> Remedy:
    return lambda _, __: scenario(name)


def _rank_like_others(_: PathFacts, finding: PathFinding) -> Change:
    return scenario("rank_like_others", finding.evidence["rank"])


def _rank_as_fast(*classes: BoundBy) -> Remedy:
    """Let what a rank does in some classes be as fast as on the next slowest rank."""

    def remedy(facts: PathFacts, finding: PathFinding) -> Change:
        place = facts.graph.index_of_rank(finding.evidence["rank"])
        return _with_factor(
            lambda base: (base.part_rank == place) & np.isin(base.parts.bound, classes), 1 / finding.evidence["ratio"]
        )

    return remedy


def _without_allocations(facts: PathFacts, _: PathFinding) -> Change:
    after = facts.graph.steps()[0].end_ns
    allocates = facts.graph.event_flags.allocation_call
    return _with_factor(
        lambda base: take_or(allocates, base.parts.owner, otherwise=False) & (base.parts.start >= after)
    )


def _without_loading(facts: PathFacts, _: PathFinding) -> Change:
    """Let calls that load code take as long as a launch usually takes."""
    graph, calls = facts.graph, code_loading_calls(facts.graph)
    factor = np.ones(len(graph.event_table))
    length = np.maximum(graph.event_table.end[calls] - graph.event_table.start[calls], 1)
    factor[calls] = np.minimum(usual_launch_ns(graph) / length, 1.0)

    return _with_own_factors(factor)


def _without_compilation(facts: PathFacts, _: PathFinding) -> Change:
    return _shorter_during(facts, facts.graph.event_flags.compiles, 1.0)


def _without_garbage(facts: PathFacts, _: PathFinding) -> Change:
    """Let the host's work take no time while Python collects garbage: no thread runs Python then."""
    return _shorter_during(facts, facts.graph.event_flags.collects_garbage, 1.0)


def _in_buckets(facts: PathFacts, _: PathFinding) -> Change:
    """Let collectives cost as little as a few of them, on the host and, but for what their sizes cost, on the GPU."""
    found = unbucketed(facts)
    if found is None:
        raise QueryError("collectives are few, or not started by backward operators")
    on_host = _shorter_during(facts, found.operators, found.share)
    on_gpu = scale_activities(found.rows, 1 - found.less)

    def change(draft: ModifiedWindow) -> None:
        on_host(draft)
        on_gpu(draft)

    return change


def _shorter_during(facts: PathFacts, rows: Bools, share: float) -> Change:
    """Let the host's work be shorter by a share of its time in which any of some events is open."""
    events = facts.graph.event_table

    def change(draft: ModifiedWindow) -> None:
        parts, open_ = draft.base.parts, union(events.start[rows], events.end[rows])
        beside = open_.covered_until(parts.start + parts.length) - open_.covered_until(parts.start)
        on_host = draft.base.may_change & np.isin(parts.bound, HOST_CLASSES)
        draft.factor[on_host] *= 1 - share * (beside / np.maximum(parts.length, 1))[on_host]

    return change


def _without_python(facts: PathFacts, _: PathFinding) -> Change:
    if not facts.has_gpu_rows:
        raise QueryError("a program on the CPU consists of its Python, too: none of it is gone")
    is_frame = facts.graph.event_table.kind == EventKind.PYTHON_FUNCTION
    return _with_factor(
        lambda base: take_or(is_frame, base.parts.owner, otherwise=False) & (base.parts.bound == BoundBy.CPU_GAP)
    )


def _without_pauses(facts: PathFacts, _: PathFinding) -> Change:
    in_driver = facts.graph.event_table.kind == EventKind.RUNTIME

    def change(draft: ModifiedWindow) -> None:
        meant = draft.base.may_change & ~take_or(in_driver, draft.base.parts.owner, otherwise=False)
        draft.factor[meant] *= 1.0 - pause_shares(draft.base)[meant]

    return change


def _without_reads(facts: PathFacts, _: PathFinding) -> Change:
    return _without_waits(facts, lambda calls: classify_waits(facts, calls)[0])


def _without_synchronisation(facts: PathFacts, _: PathFinding) -> Change:
    def synchronises(calls: Ids) -> Bools:
        reads, copies = classify_waits(facts, calls)
        return ~reads & ~copies

    return _without_waits(facts, synchronises)


BACK_TO_BACK_NS = 1_000
"""Between kernels of one stream that are launched ahead pass about 1 µs."""


def _without_blocking(facts: PathFacts, _: PathFinding) -> Change:
    """Let launching calls return when their kernels begin, and synchronizing calls behind them at once."""
    blocked, events = blocked_launches(facts), facts.graph.event_table
    if blocked is None:
        raise QueryError("no launch is waited for")
    launches = facts.graph.edges_of(EdgeKind.LAUNCH)
    begins = np.zeros(len(events), np.int64)
    begins[launches.source] = events.start[launches.target] - events.start[launches.source]
    length = np.maximum(events.end[blocked.calls] - events.start[blocked.calls], 1)
    factor = np.ones(len(events))
    factor[blocked.calls] = np.clip(begins[blocked.calls] / length, 0, 1)
    waits = _without_waits(facts, lambda calls: np.isin(calls, blocked.syncs))

    faster = _with_own_factors(factor)

    def change(draft: ModifiedWindow) -> None:
        faster(draft)
        waits(draft)
        # Where no kernel follows another at once, the trace does not tell what a stream needs between two.
        edges = draft.base.edges
        at = np.flatnonzero(take_or(facts.graph.edge_table.kind, edges.row) == EdgeKind.STREAM_ORDER)
        draft.weighed[at] = np.minimum(BACK_TO_BACK_NS - edges.weight[at], 0)

    return change


def _without_blocking_uploads(facts: PathFacts, _: PathFinding) -> Change:
    """Let calls that copy from pageable memory return at once; the copies still take their time on the GPU."""
    return _without_waits(facts, lambda calls: classify_waits(facts, calls)[1] & blocks_on_upload(facts, calls))


def _without_pinned_waits(facts: PathFacts, _: PathFinding) -> Change:
    return _without_waits(facts, lambda calls: classify_waits(facts, calls)[1] & waits_for_pinned_upload(facts, calls))


def _near_limit(facts: PathFacts, finding: PathFinding) -> Change:
    """Let the calls of the finding's operator and shape reach what is possible."""
    limited = work_limits(facts)
    if limited is None:
        raise QueryError("the limits of the GPU are not known")
    told = (finding.evidence["operator"], finding.evidence["inputs"])
    meant = np.array([(group.name, group.inputs) == told for group in limited.groups.groups])[limited.groups.number]
    return scale_activities(limited.groups.work.row[meant], limited.near_limit[meant])


def _in_tf32(facts: PathFacts, _: PathFinding) -> Change:
    limited = work_limits(facts)
    if limited is None:
        raise QueryError("the limits of the GPU are not known")
    return scale_activities(limited.groups.work.row, tf32_factors(limited))


def _overlapped(facts: PathFacts, _: PathFinding) -> Change:
    every = activities(facts.graph)
    return overlap_activities(every.row[every.type == WorkType.COMMUNICATION])


def _fused(facts: PathFacts, _: PathFinding) -> Change:
    """Let chains move what one kernel moves for sure, without the time between their kernels; launches stay."""
    chains, rows = fusible_chains(facts), activities(facts.graph).row
    if chains is None:
        raise QueryError("shapes are not recorded")
    inner = facts.event_mask(rows[(chains.chain >= 0) & ~chains.is_first])
    between = _with_factor(
        lambda base: (
            take_or(inner, base.parts.owner, otherwise=False) & (base.parts.bound == BoundBy.GPU_KERNEL_KERNEL_OVERHEAD)
        )
    )
    shorter = scale_activities(rows, chains.factor)

    def change(draft: ModifiedWindow) -> None:
        shorter(draft)
        between(draft)

    return change


REMEDIES: Mapping[str, Remedy] = {
    "held_up_by_rank": _rank_like_others,
    "slow_gpu": _rank_as_fast(BoundBy.GPU_COMPUTE_BOUND),
    "slow_host": _rank_as_fast(*HOST_CLASSES),
    "host_pauses": _without_pauses,
    "launch_bound": _named_scenario("cuda_graphs"),
    "code_loading": _without_loading,
    "compilation": _without_compilation,
    "garbage_collection": _without_garbage,
    "driver_allocations": _without_allocations,
    "synchronous_launches": _without_blocking,
    "values_read": _without_reads,
    "explicit_synchronisation": _without_synchronisation,
    "waits_of_all_kinds": _named_scenario("no_host_syncs"),
    "data_loading_exposed": _named_scenario("data_loading_free"),
    "exposed_communication": _named_scenario("communication_free"),
    "blocking_uploads": _without_pinned_waits,
    "pageable_copies": _without_blocking_uploads,
    "python_bound": _without_python,
    "far_from_limit": _near_limit,
    "float32_products": _in_tf32,
    "unfused_chains": _fused,
    "unbucketed_collectives": _in_buckets,
    "serial_communication": _overlapped,
}
"""By rule the change that stands for its remedy; docs/reading/advice.md says which."""
