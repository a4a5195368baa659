"""What findings claim to save, held against what the rows of the priced window allow at most.

saves_ns <= saves_at_most_ns <= bound_ns, of the window that savings are of: a step's iteration. What cannot save a
notable share of it is not advised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from analyses.advice.facts import PathFacts, PathFinding
from analyses.advice.gpu_rules import fusible_chains, tf32_factors, unbucketed, unfused_kernels_of, work_limits
from analyses.advice.host_rules import tiny_kernels_of
from analyses.advice.runtime_rules import code_loading_calls
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import EventKind
from hta_graph.paths.critical_path import has_partial_rows
from hta_graph.paths.gpu_activity import WorkType, activities

Bound = Callable[[PathFacts, PathFinding], int]


def within_bounds(facts: PathFacts, findings: Iterable[PathFinding], *, of_job: bool = False) -> list[PathFinding]:
    """Give each finding its bound, and leave out those that cannot save a notable share of what savings are of.

    Bounds take all rows, which a job of rank summaries does not hold: so that it answers as a job of whole graphs, only
    what is replayed has bounds ``of_job``.
    """
    if has_partial_rows(facts.graph) or isinstance(facts.graph, JobGraph) != of_job:
        return list(findings)
    return [found for finding in findings if (found := _within_bound(facts, finding)) is not None]


def _within_bound(facts: PathFacts, finding: PathFinding) -> PathFinding | None:
    bound = BOUNDS.get(finding.rule)
    if bound is None:
        return finding
    bound_ns = bound(facts, finding)
    if finding.saves_at_most_ns is None:
        return replace(finding, bound_ns=bound_ns)
    if not facts.is_worth(bound_ns):
        return None
    return replace(finding, bound_ns=bound_ns, saves_at_most_ns=min(finding.saves_at_most_ns, bound_ns))


def with_replayed_saving(finding: PathFinding, saved_ns: int, idle_ns: int) -> PathFinding:
    """Return a finding with what replay of the priced window predicts, as far as the rows allow it.

    What holds for the path of a latency need not hold for an iteration: the bound next to it is no less than replay.
    What the host saves beyond the time in which the GPU is idle (``idle_ns``) needs communication, or copies, to
    overlap with computation then: it is an upper limit.
    """
    # A pause ends when its time is gone; what else replay finds is not of the pauses that are named.
    saved_ns = min(saved_ns, finding.evidence["time_ns"]) if finding.rule == "host_pauses" else saved_ns
    is_cut = finding.bound_ns is not None and saved_ns > finding.bound_ns
    saved = finding.bound_ns if finding.bound_ns is not None and is_cut else saved_ns
    most = finding.saves_at_most_ns
    return replace(
        finding,
        saves_ns=saved,
        saves_at_most_ns=None if most is None else max(most, saved),
        is_cut=is_cut or (finding.rule in OF_THE_HOST and saved > idle_ns),
    )


OF_THE_HOST = (
    "host_pauses", "launch_bound", "code_loading", "compilation", "garbage_collection", "driver_allocations",
    "synchronous_launches", "values_read", "explicit_synchronisation", "waits_of_all_kinds", "data_loading_exposed",
    "blocking_uploads", "pageable_copies", "idle_between_steps", "python_bound",
)  # fmt: skip
"""Rules whose remedy is less time of the host."""


def _of_rank(facts: PathFacts, finding: PathFinding) -> int:
    rank = finding.evidence["rank"]
    return 0 if rank is None else facts.priced.of_rank(facts.graph.index_of_rank(rank))


def _of_slow_gpu(facts: PathFacts, finding: PathFinding) -> int:
    place, work = facts.graph.index_of_rank(finding.evidence["rank"]), activities(facts.graph)
    own = work.row[(work.type == WorkType.COMPUTATION) & (facts.graph.rank_index_of(work.row) == place)]
    return min(facts.priced.of_work(own, 1 - 1 / finding.evidence["ratio"]), facts.priced.of_rank(place))


def _of_slow_host(facts: PathFacts, finding: PathFinding) -> int:
    return min(facts.priced.host_ns, _of_rank(facts, finding))


def _of_python(facts: PathFacts, _: PathFinding) -> int:
    return facts.priced.of_host_rows(facts.graph.event_table.kind == EventKind.PYTHON_FUNCTION)


def _of_allocations(facts: PathFacts, _: PathFinding) -> int:
    return facts.priced.of_host_rows(facts.graph.event_flags.allocation_call)


def _of_code_loading(facts: PathFacts, _: PathFinding) -> int:
    return facts.priced.of_host_rows(facts.event_mask(code_loading_calls(facts.graph)))


def _of_tiny_kernels(facts: PathFacts, _: PathFinding) -> int:
    """Fusing removes kernels, and the gaps between them."""
    rows = np.flatnonzero(tiny_kernels_of(facts.graph))
    return min(facts.priced.of_work(rows) + facts.priced.not_computing_ns, facts.priced.length_ns)


def _of_operator(facts: PathFacts, finding: PathFinding) -> int:
    limited = work_limits(facts)
    if limited is None:
        return 0
    asked = (finding.evidence["operator"], finding.evidence["inputs"])
    meant = np.array([(group.name, group.inputs) == asked for group in limited.groups.groups])[limited.groups.number]
    return facts.priced.of_work(limited.groups.work.row[meant], 1 - limited.near_limit[meant])


def _of_float32_products(facts: PathFacts, _: PathFinding) -> int:
    limited = work_limits(facts)
    return 0 if limited is None else facts.priced.of_work(limited.groups.work.row, 1 - tf32_factors(limited))


def _of_unbucketed(facts: PathFacts, _: PathFinding) -> int:
    found = unbucketed(facts)
    if found is None:
        return 0
    on_host = facts.priced.of_host_rows(found.operators, found.share)
    return min(on_host + facts.priced.of_work(found.rows, found.less), facts.priced.length_ns)


def _of_fusible_work(facts: PathFacts, _: PathFinding) -> int:
    """Fusing shortens kernels, and removes launches and time between them, in which the GPU may compute nothing."""
    chains = fusible_chains(facts)
    if chains is None:
        return facts.priced.of_work(unfused_kernels_of(facts)[0])
    of_kernels = facts.priced.of_work(activities(facts.graph).row, 1 - chains.least_factor)
    return min(of_kernels + facts.priced.not_computing_ns, facts.priced.length_ns)


BOUNDS: Mapping[str, Bound] = {
    "held_up_by_rank": _of_rank,
    "slow_gpu": _of_slow_gpu,
    "slow_host": _of_slow_host,
    "host_pauses": lambda facts, _: facts.priced.shorter_pauses_ns,
    "launch_bound": lambda facts, _: facts.priced.faster_launches_ns,
    "code_loading": _of_code_loading,
    "compilation": lambda facts, _: facts.priced.of_host_rows(facts.graph.event_flags.compiles),
    "garbage_collection": lambda facts, _: facts.priced.of_host_rows(facts.graph.event_flags.collects_garbage),
    "driver_allocations": _of_allocations,
    "synchronous_launches": lambda facts, _: facts.priced.not_computing_ns,
    "values_read": lambda facts, _: facts.priced.running_ahead_ns,
    "explicit_synchronisation": lambda facts, _: facts.priced.running_ahead_ns,
    "waits_of_all_kinds": lambda facts, _: facts.priced.running_ahead_ns,
    "data_loading_exposed": lambda facts, _: facts.priced.data_loading_ns(facts.path.data_load),
    "exposed_communication": lambda facts, _: facts.priced.no_communication_ns,
    "serial_communication": lambda facts, _: facts.priced.overlap_ns,
    "unbucketed_collectives": _of_unbucketed,
    "gloo_communication": lambda facts, _: facts.priced.communication_ns,
    "blocking_uploads": lambda facts, _: facts.priced.running_ahead_ns,
    "pageable_copies": lambda facts, _: facts.priced.running_ahead_ns,
    "tiny_kernels": _of_tiny_kernels,
    "idle_between_steps": lambda facts, _: facts.priced.host_ns,
    "far_from_limit": _of_operator,
    "float32_products": _of_float32_products,
    "unfused_chains": _of_fusible_work,
    "python_bound": _of_python,
}
"""By rule what bounds its claim; rules without one claim no saving."""
