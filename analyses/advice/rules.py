"""All rules, in the order in which they are asked: the verdict first, then advice."""

from __future__ import annotations

from analyses.advice.claims import within_bounds
from analyses.advice.facts import AdviceRule, PathFacts, PathFinding
from analyses.advice.gpu_rules import (
    exposed_communication,
    far_from_limit,
    float32_products,
    gloo_communication,
    serial_communication,
    unbucketed_collectives,
    unfused_chains,
)
from analyses.advice.host_rules import (
    blocking_uploads,
    data_loading_exposed,
    driver_allocations,
    explicit_synchronisation,
    gpu_busy_meanwhile,
    host_may_poll,
    host_pauses,
    idle_between_steps,
    launch_bound,
    pageable_copies,
    python_bound,
    synchronous_launches,
    tiny_kernels,
    values_read,
    waits_of_all_kinds,
)
from analyses.advice.job_rules import clocks_unsure, held_up_by_rank, ranks_matched, slow_gpu, slow_host
from analyses.advice.recording_rules import (
    begun_too_late,
    causes_not_recorded,
    no_gpu_rows,
    no_python_stacks,
    no_sync_records,
    start_up_recorded,
)
from analyses.advice.runtime_rules import code_loading, compilation, garbage_collection
from analyses.advice.verdict_rules import bound_by, clock_fault, largest_item, unexplained
from hta_graph.trace.kept_inputs import forget_inputs

VERDICT_RULES = (
    AdviceRule("held_up_by_rank", held_up_by_rank),
    AdviceRule("bound_by", bound_by),
    AdviceRule("largest_item", largest_item),
    AdviceRule("unexplained", unexplained),
    AdviceRule("ranks_matched", ranks_matched),
    AdviceRule("clocks_unsure", clocks_unsure),
    AdviceRule("clock_fault", clock_fault),
    AdviceRule("host_may_poll", host_may_poll),
    AdviceRule("gpu_busy_meanwhile", gpu_busy_meanwhile),
)
"""What every answer opens with; docs/reading/advice.md says when each speaks."""

ADVICE_RULES = (
    AdviceRule("slow_gpu", slow_gpu),
    AdviceRule("slow_host", slow_host),
    AdviceRule("host_pauses", host_pauses),
    AdviceRule("launch_bound", launch_bound),
    AdviceRule("code_loading", code_loading),
    AdviceRule("compilation", compilation),
    AdviceRule("garbage_collection", garbage_collection),
    AdviceRule("driver_allocations", driver_allocations),
    AdviceRule("synchronous_launches", synchronous_launches),
    AdviceRule("values_read", values_read),
    AdviceRule("explicit_synchronisation", explicit_synchronisation),
    AdviceRule("waits_of_all_kinds", waits_of_all_kinds),
    AdviceRule("data_loading_exposed", data_loading_exposed),
    AdviceRule("exposed_communication", exposed_communication),
    AdviceRule("serial_communication", serial_communication),
    AdviceRule("unbucketed_collectives", unbucketed_collectives),
    AdviceRule("gloo_communication", gloo_communication),
    AdviceRule("pageable_copies", pageable_copies),
    AdviceRule("blocking_uploads", blocking_uploads),
    AdviceRule("tiny_kernels", tiny_kernels),
    AdviceRule("idle_between_steps", idle_between_steps),
    AdviceRule("far_from_limit", far_from_limit),
    AdviceRule("float32_products", float32_products),
    AdviceRule("unfused_chains", unfused_chains),
    AdviceRule("python_bound", python_bound),
    AdviceRule("no_python_stacks", no_python_stacks),
    AdviceRule("no_sync_records", no_sync_records),
    AdviceRule("begun_too_late", begun_too_late),
    AdviceRule("causes_not_recorded", causes_not_recorded),
    AdviceRule("no_gpu_rows", no_gpu_rows),
    AdviceRule("start_up_recorded", start_up_recorded),
)
"""What an expert would advise; docs/reading/advice.md has thresholds, reasons and what each saves at most."""


def verdict_of(facts: PathFacts) -> list[PathFinding]:
    """Say what a path shows: its class, its largest item, what is not known, what is doubtful."""
    return _findings_of(VERDICT_RULES, facts)


def advice_of(facts: PathFacts) -> list[PathFinding]:
    """Say what could be done, what saves most first; advice about the recording comes last.

    What rows show to save no notable share of an iteration is left out.
    """
    found = _findings_of(ADVICE_RULES, facts)
    forget_inputs()  # replay, which comes next, takes more memory
    return sorted(found, key=lambda finding: -(finding.saves_at_most_ns or 0))


def _findings_of(rules: tuple[AdviceRule, ...], facts: PathFacts) -> list[PathFinding]:
    return within_bounds(facts, (finding for rule in rules if (finding := rule(facts))))
