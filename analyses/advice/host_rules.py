"""Rules about the host: it waits for the GPU, launches too slowly, loads data, or idles between steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from analyses.advice.facts import HOST_CLASSES, LostTime, PathFacts
from analyses.advice.host_facts import (
    HostWaits,
    blocked_launches,
    blocks_on_upload,
    captures_graph,
    classify_waits,
    gpu_busy_meanwhile,
    host_waits,
    may_be_polling,
    saved_by_running_ahead,
    saved_without_waits,
    waits_for_pinned_upload,
)
from analyses.advice.rule import (
    Confidence,
    Evidence,
    Fired,
    Fires,
    Remedy,
    Rule,
    named_scenario,
    with_factor,
    with_own_factors,
    without_waits,
)
from hta_graph.base.arrays import distinct, take_or
from hta_graph.base.errors import QueryError
from hta_graph.graph.event_names import rows_with_work
from hta_graph.model import RETURNS, Bools, BoundBy, EdgeKind, EventKind, Ids
from hta_graph.paths.window_ends import step_work_ends
from hta_graph.trace.profiler_names import CAPTURE_CALL, COMPILED_CODE, MODEL_FRAME
from hta_graph.what_if.changes import Change
from hta_graph.what_if.modified_window import ModifiedWindow
from hta_graph.what_if.reliability import path_waits_on_launched_work
from hta_graph.what_if.scenarios import pause_shares, start_up_shares

LOST = "{lost.is_cut:+at most }{lost.ns:part}"
"""A time that is lost, in templates."""

WHERE = "{site:+{are_many:+, mostly} in {site:name} ({site_calls:#call})}"
"""The place in the program with most of the time, as the end of a clause."""

LAUNCHING_SHARE = 0.2
"""The least share of a window: less is the prologue of a step, not its rhythm."""

FEWEST_LAUNCHES = 50
"""Fewer launches are no rhythm."""

LONGEST_PER_LAUNCH_NS = 250_000
"""An operator of PyTorch costs the host 5 to 100 µs, with hooks and a profiler some more; above this the host does
something else than launching."""


def launch_bound(facts: PathFacts) -> Fired | None:
    """The host launches work more slowly than the GPU does it: CUDA graphs, torch.compile, larger batches."""
    pieces, graph = facts.path.segment_table, facts.graph
    # What the host does in a pause or once, it does it beside a graph, too.
    kept = np.maximum(facts.pause_times, facts.start_up_times)
    on_host = facts.segments_in_classes(BoundBy.CPU_BOUND, BoundBy.CPU_GAP) & (kept < facts.lengths)
    launching_ns = facts.time_of(on_host) - int(kept[on_host].sum())
    # After a wait the GPU is idle for another reason, which other rules report.
    host_ns = launching_ns - int(host_waits(facts).idle.sum())
    saved = min(host_ns, facts.busiest_stream_idle_ns)
    if not facts.is_notable(host_ns, LAUNCHING_SHARE) or not facts.is_notable(saved) or may_be_polling(facts):
        return None
    # A GPU that does not start what it was given is not waiting for the host: others may have it meanwhile.
    if not graph.is_job and path_waits_on_launched_work(facts.path):
        return None
    if captures_graph(facts):  # it is done already
        return None
    own = facts.work.take(facts.work.call >= 0)
    when, events = facts.intervals_of(on_host), graph.event_table
    own = own.take(when.covered_until(events.end[own.call]) > when.covered_until(events.start[own.call]))
    calls = len(distinct(own.call))
    if calls < FEWEST_LAUNCHES:
        return None
    per_launch, typical = host_ns // calls, int(np.median(own.end - own.start))
    if per_launch > LONGEST_PER_LAUNCH_NS or typical >= per_launch:
        return None
    evidence = {
        "host_ns": host_ns, "launches": calls, "host_per_launch_ns": per_launch, "median_kernel_ns": typical,
        "gpu_idle_ns": facts.gpu_idle_ns, "largest": facts.largest_records(on_host & (pieces.event >= 0)),
    }  # fmt: skip
    said = {
        "rank": facts.main_rank(on_host), "waits": len(host_waits(facts)),
        "is_compiled": graph.trace.matching_names(COMPILED_CODE).any(),
    }  # fmt: skip
    # A relieved host is faster after waits, too, and launches that wait for nothing have no lag.
    most = launching_ns + facts.class_ns(BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD)
    confidence: Confidence = "low" if gpu_busy_meanwhile(facts) else "medium" if facts.has_stacks else "high"
    return Fired(evidence, confidence, min(most, facts.busiest_stream_idle_ns), said)


def host_pauses(facts: PathFacts) -> Fired | None:
    """The host launches nothing for long while the GPU is idle: CUDA graphs do not help."""
    # What the driver does once, or to get memory, other rules report.
    pausing = (facts.pause_times > 0) & facts.repeated
    pausing &= ~facts.owned_by(facts.graph.event_table.kind == EventKind.RUNTIME)
    times, ends = facts.pauses_of(pausing)
    time_ns = int(times.sum())
    saved = min(time_ns, facts.busiest_stream_idle_ns)
    if not facts.is_notable(saved) or may_be_polling(facts):
        return None
    evidence = {
        "pauses": len(times), "time_ns": time_ns, "longest_ns": int(times.max()),
        "largest": facts.largest_records(pausing),
    }  # fmt: skip
    silent = facts.segments_in_classes(BoundBy.CPU_GAP)
    is_silent = 2 * int(facts.pause_times[silent].sum()) > time_ns
    name = facts.name_around(pausing, facts.pause_times)
    before = None if name else _launched_at(facts, int(ends[times.argmax()]))
    said = {
        "lost": facts.lost(time_ns, facts.bounds.pauses_ns), "shortest_ns": int(times.min()),
        "are_many": len(times) > 1, "name": name, "before": before,
        "asks_for_stacks": is_silent and not facts.has_stacks, "of_step": _step_words(facts),
    }  # fmt: skip
    confidence: Confidence = "low" if gpu_busy_meanwhile(facts) else "medium"
    return Fired(evidence, confidence, saved, said)


def _step_words(facts: PathFacts) -> str:
    """Return the number of the step that is the window; nothing of other windows."""
    return "" if facts.path.window.step is None else str(facts.path.window.step)


def _launched_at(facts: PathFacts, end_ns: int) -> str | None:
    """Name the operator, or else the call, with which a pause of a rank's window ends."""
    events, graph = facts.graph.event_table, facts.graph
    calls = np.flatnonzero((events.start == end_ns) & (events.kind == EventKind.RUNTIME))
    if graph.is_job or not len(calls) or end_ns >= facts.path.window.end_ns:  # ranks may launch at the same time
        return None
    operator = int(graph.outermost_operator[calls[0]])
    return graph.name_of(operator if operator >= 0 else int(calls[0]))


def _without_pauses(facts: PathFacts, _: Evidence) -> Change:
    in_driver = facts.graph.event_table.kind == EventKind.RUNTIME

    def change(draft: ModifiedWindow) -> None:
        meant = draft.base.may_change & ~take_or(in_driver, draft.base.parts.owner, otherwise=False)
        pauses = np.maximum(pause_shares(draft.base) - start_up_shares(draft.base), 0.0)
        draft.factor[meant] *= 1.0 - pauses[meant]

    return change


LAUNCHING = (
    Rule(
        "host_pauses", "host", host_pauses,
        action="Shorten the host's {pauses:#pause}{name:+, mostly in {name:name}}",
        why="For " + LOST + " the host works without a launch: {pauses:#pause} of "
        "{are_many:+{shortest_ns:time} to }{longest_ns:time}{before:+{are_many:+, the longest} before {before:name}}. "
        "CUDA graphs and faster launches do not remove pauses. hta-graph idle-time{of_step:+ --step {of_step}} lists "
        "them{asks_for_stacks:+; record with_stack=True to see what Python does there}.",
        change="shorter pauses of the host",
        bound=lambda facts, _: facts.priced.shorter_pauses_ns,
        remedy=_without_pauses,
        ends_with_its_time=True,
    ),
    Rule(
        "launch_bound", "host", launch_bound,
        action='Use CUDA graphs{is_compiled:+ (torch.compile(mode="reduce-overhead"))}{is_compiled:- or torch.compile}'
        " to cut launch overhead{rank:rank}",
        why="The GPU is launch-bound: the host takes {host_per_launch_ns:time} per launch ({launches:,} launches), and "
        "the launched work takes {median_kernel_ns:time} (median). Larger batches, or fewer and larger operators, also "
        "help.{waits:+ Remove the host's {waits:#wait} for the GPU before capturing a CUDA graph.}",
        change="CUDA graphs or torch.compile",
        bound=lambda facts, _: facts.priced.faster_launches_ns,
        remedy=named_scenario("cuda_graphs"),
    ),
)  # fmt: skip
"""Rules of advice about launches, in the order in which they are asked."""


# -- waits -------------------------------------------------------------------------------------------------------------


def synchronous_launches(facts: PathFacts) -> Fired | None:
    """The host waits for each kernel that it launches: a debug setting, or a wrapper that synchronizes."""
    blocked, saved = blocked_launches(facts), facts.busiest_stream_idle_ns
    if blocked is None or not facts.is_notable(saved):
        return None
    evidence = {
        "launches": blocked.launches, "blocking_calls": len(blocked.calls), "synchronized": len(blocked.syncs),
        "gpu_idle_ns": facts.gpu_idle_ns,
    }  # fmt: skip
    said = {
        "blocked": blocked.count, "is_setting": len(blocked.calls) > 0,
        "on_amd": facts.graph.event_flags.amd_call.any(),
    }  # fmt: skip
    return Fired(evidence, "medium", saved, said)


BACK_TO_BACK_NS = 1_000
"""Between kernels of one stream that are launched ahead pass about 1 µs."""


def _without_blocking(facts: PathFacts, _: Evidence) -> Change:
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
    waits = without_waits(facts, lambda calls: np.isin(calls, blocked.syncs))
    faster = with_own_factors(factor)

    def change(draft: ModifiedWindow) -> None:
        faster(draft)
        waits(draft)
        # Where no kernel follows another at once, the trace does not tell what a stream needs between two.
        edges = draft.base.edges
        at = np.flatnonzero(take_or(facts.graph.edge_table.kind, edges.row) == EdgeKind.STREAM_ORDER)
        draft.weighed[at] = np.minimum(BACK_TO_BACK_NS - edges.weight[at], 0)

    return change


def values_read(facts: PathFacts) -> Fired | None:
    """The host reads what the GPU computed (``.item()``, ``nonzero``, ``.cpu()``) and cannot launch ahead meanwhile."""
    every = host_waits(facts)
    return _waiting_finding(facts, every, every.reads)


def explicit_synchronisation(facts: PathFacts) -> Fired | None:
    """Synchronizing calls of the program itself keep the host from launching ahead."""
    if blocked_launches(facts):
        return None
    every = host_waits(facts)
    return _waiting_finding(facts, every, ~every.reads & ~every.copies)


def waits_of_all_kinds(facts: PathFacts) -> Fired | None:
    """No kind of wait alone costs much, since the others stay, but all together do."""
    every = host_waits(facts)
    kinds = (every.reads, every.copies, ~every.reads & ~every.copies)
    if any(facts.is_notable(saved_by_running_ahead(facts, kind)) for kind in kinds):
        return None
    return _waiting_finding(facts, every, np.ones(len(every), np.bool_))


def waits_of_window(facts: PathFacts) -> Fired | None:
    """Report all calls that wait for the GPU in the window that savings are of, whether its path passes them or not."""
    edges, bounds = facts.graph.edge_table, facts.priced
    waits = facts.graph.edges_at(np.flatnonzero(np.isin(edges.kind, RETURNS)).astype(np.int32))
    waits = waits.take((waits.target_ns > bounds.start_ns) & (waits.target_ns <= bounds.end_ns))
    if not len(waits) or may_be_polling(facts):
        return None
    calls, events = distinct(waits.target), facts.graph.event_table
    times = events.end[calls] - events.start[calls]
    evidence: dict[str, Any] = {
        "waits": len(calls),
        "gpu_idle_ns": bounds.gpu_idle_ns,
        "sites": facts.sites(calls, times),
    }
    lost = LostTime(0, is_cut=False)
    said = {**_first_site(evidence["sites"]), "lost": lost, "is_on_path": False, "loads": False}
    return Fired(evidence, "medium", bounds.running_ahead_ns, said)


def _waiting_finding(facts: PathFacts, every: HostWaits, chosen: Bools) -> Fired | None:
    """Report waits without which the host could launch ahead, where that would hide enough of its work."""
    if not facts.is_notable(saved_by_running_ahead(facts, chosen)) or may_be_polling(facts):
        return None
    waits = every.take(chosen)
    idle_ns = int(waits.idle.sum())
    evidence: dict[str, Any] = {
        "waits": len(waits), "host_ns": int(waits.host.sum()), "gpu_idle_ns": idle_ns,
        "sites": facts.sites(waits.call, waits.host),
    }  # fmt: skip
    saved = saved_without_waits(facts, chosen)
    loads = saved > idle_ns and facts.is_notable(facts.class_ns(BoundBy.DATA_LOADING))
    lost = facts.lost(idle_ns, facts.gpu_idle_ns)
    said = {**_first_site(evidence["sites"]), "lost": lost, "is_on_path": True, "loads": loads}
    return Fired(evidence, _confidence(waits), saved, said)


def _first_site(sites: Sequence[Evidence]) -> Evidence:
    """Return the place where most of the time is lost."""
    first = sites[0] if sites else {"site": None, "calls": 0}
    return {"site": first["site"], "site_calls": first["calls"], "are_many": len(sites) > 1}


def _confidence(waits: HostWaits) -> Confidence:
    """Rate what rests on waits: those that a rule inferred are right nearly always, but not recorded."""
    return "medium" if waits.inferred.any() else "high"


def _without_reads(facts: PathFacts, _: Evidence) -> Change:
    return without_waits(facts, lambda calls: classify_waits(facts, calls)[0])


def _without_synchronisation(facts: PathFacts, _: Evidence) -> Change:
    def synchronises(calls: Ids) -> Bools:
        reads, copies = classify_waits(facts, calls)
        return ~reads & ~copies

    return without_waits(facts, synchronises)


def pageable_copies(facts: PathFacts) -> Fired | None:
    """Copies to the GPU from pageable memory block the host: pinned memory and ``non_blocking=True`` do not."""
    graph, pieces, every = facts.graph, facts.path.segment_table, host_waits(facts)
    copies = np.flatnonzero(graph.event_flags.pageable_upload)
    calls = graph.launching_call[copies]
    involved = facts.event_mask(np.append(copies, calls))
    # A lag of the launch is no copying.
    copying = facts.segments_in_classes(BoundBy.GPU_MEMORY_BOUND, BoundBy.CPU_BOUND, BoundBy.SYNC_OVERHEAD)
    copying &= facts.owned_by(involved)
    held = every.copies & blocks_on_upload(facts, every.call)
    waits, copying_ns = every.take(held), facts.time_of(copying)
    worth = min(copying_ns + saved_by_running_ahead(facts, held), facts.busiest_stream_idle_ns)
    if not facts.is_notable(worth) or may_be_polling(facts):
        return None
    idle_ns = int(waits.idle.sum())
    # A copy and its call are one copy; calls that are not in the file are -1.
    passed = distinct(pieces.event[copying])
    count = max(int(np.count_nonzero(np.isin(copies, passed) | np.isin(calls, passed[passed >= 0]))), len(waits))
    evidence: dict[str, Any] = {
        "copies": count, "copying_ns": copying_ns, "waits": len(waits), "host_ns": int(waits.host.sum()),
        "gpu_idle_ns": idle_ns,
        "largest": facts.largest_records(copying), "sites": facts.sites(waits.call, waits.host),
    }  # fmt: skip
    saved = min(copying_ns + saved_without_waits(facts, held), facts.busiest_stream_idle_ns)
    said = {**_first_site(evidence["sites"]), "lost": facts.lost(idle_ns, facts.gpu_idle_ns)}
    return Fired(evidence, _confidence(waits), saved, said)


def blocking_uploads(facts: PathFacts) -> Fired | None:
    """The host waits for copies from memory that is pinned, or may be: without ``non_blocking=True`` it does."""
    every = host_waits(facts)
    return _waiting_finding(facts, every, every.copies & waits_for_pinned_upload(facts, every.call))


def _without_blocking_uploads(facts: PathFacts, _: Evidence) -> Change:
    """Let calls that copy from pageable memory return at once; the copies still take their time on the GPU."""
    return without_waits(facts, lambda calls: classify_waits(facts, calls)[1] & blocks_on_upload(facts, calls))


def _without_pinned_waits(facts: PathFacts, _: Evidence) -> Change:
    return without_waits(facts, lambda calls: classify_waits(facts, calls)[1] & waits_for_pinned_upload(facts, calls))


def data_loading_exposed(facts: PathFacts) -> Fired | None:
    """The path waits for data: more worker processes, prefetching, cheaper transforms."""
    loads = facts.segments_in_classes(BoundBy.DATA_LOADING)
    time_ns = facts.time_of(loads)
    saved = min(time_ns, facts.busiest_stream_idle_ns)
    if not facts.is_notable(saved):
        return None
    evidence: dict[str, Any] = {
        "loading_ns": time_ns, "gpu_busy_meanwhile_ns": int(facts.gpu_busy_during(loads).sum()),
        "largest": facts.largest_records(loads),
    }  # fmt: skip
    said = {
        "is_on_path": True, "rank": facts.main_rank(loads), "name": evidence["largest"][0]["name"],
        "in_process": facts.graph.event_flags.loads_in_process.any(),
    }  # fmt: skip
    return Fired(evidence, "high", saved, said)


def loading_of_window(facts: PathFacts) -> Fired | None:
    """Report data loading by its rows, for windows whose path does not wait for it: it may delay the next launches."""
    graph, bounds = facts.graph, facts.priced
    rows = np.flatnonzero(graph.event_flags.loads_data(facts.path.data_load))
    rows = rows[(graph.event_table.end[rows] > bounds.host_start_ns) & (graph.event_table.start[rows] < bounds.end_ns)]
    most_ns = bounds.data_loading_ns(facts.path.data_load)
    if not len(rows) or not facts.is_worth(most_ns):
        return None
    longest = int(rows[np.argmax(graph.event_table.end[rows] - graph.event_table.start[rows])])
    said = {
        "is_on_path": False, "rank": None, "name": graph.name_of(longest),
        "in_process": graph.event_flags.loads_in_process.any(),
    }  # fmt: skip
    return Fired({"loading_ns": most_ns, "largest": []}, "high", most_ns, said)


def _waiting_rule(name: str, does: str, action: str, change: str, remedy: Remedy, fires: Fires) -> Rule:
    """Return a rule about waits of the host for the GPU, which cannot launch ahead, nor load data, meanwhile."""
    why = (
        "The host " + does + " {waits:times}" + WHERE + " and cannot launch ahead{is_on_path:+: afterwards the GPU "
        "waits " + LOST + " for the host}.{loads:+ Data loading is not counted; without the wait it could overlap with "
        "GPU work.}"
    )
    return Rule(name, "wait", fires, why, action, change=change, bound=_running_ahead, remedy=remedy)


def _running_ahead(facts: PathFacts, _: Evidence) -> int:
    return facts.priced.running_ahead_ns


WAITS = (
    Rule(
        "synchronous_launches", "host", synchronous_launches,
        action="{is_setting:+Unset }{is_setting:-Do not synchronize after each launch (timers, debug hooks, }"
        "{on_amd:+HIP_LAUNCH_BLOCKING and AMD_SERIALIZE_KERNEL}{on_amd:-CUDA_LAUNCH_BLOCKING}{is_setting:-)}",
        why="{blocked:,} of {launches:#launch call} {is_setting:+return only after their kernel has ended}{is_setting:-"
        "are followed by a synchronization before the next launch}, so the host cannot launch ahead: the GPU is idle "
        "for {gpu_idle_ns:part}.{is_setting:+ A setting for debugging does this.}",
        change="no wait after each launch",
        bound=lambda facts, _: facts.priced.not_computing_ns,
        remedy=_without_blocking,
    ),
    _waiting_rule(
        "values_read", "reads values from the GPU",
        "Keep values on the GPU: use masks or torch.where instead of boolean indexing and nonzero(), and call .item() "
        "and .cpu() less often",
        "no values read from the GPU", _without_reads,
        values_read,
    ),
    _waiting_rule(
        "explicit_synchronisation", "synchronizes with the GPU",
        "Remove synchronization where no host code needs the result, or let streams wait for events",
        "no explicit synchronization", _without_synchronisation, explicit_synchronisation,
    ),
    _waiting_rule(
        "waits_of_all_kinds", "waits for the GPU",
        "Read values less often, copy from pinned memory with non_blocking=True, and remove synchronization",
        "no waits of the host for the GPU",
        named_scenario("no_host_syncs"), waits_of_all_kinds,
    ),
    Rule(
        "data_loading_exposed", "host", data_loading_exposed,
        action="{in_process:+Set num_workers > 0}{in_process:-Use more workers or prefetching (num_workers, "
        "prefetch_factor)}, or make batch preparation cheaper",
        why="{is_on_path:+Data loading is on the path for {loading_ns:part}{rank:rank}}{is_on_path:-Data loading "
        "delays the host's next launches}, mostly {name:name}.{in_process:+ It runs in the main process.}",
        change="data loading in other processes",
        bound=lambda facts, _: facts.priced.data_loading_ns(facts.path.data_load),
        remedy=named_scenario("data_loading_free"),
    ),
)  # fmt: skip
"""Rules of advice about waits of the host, in the order in which they are asked."""

UPLOADS = (
    Rule(
        "pageable_copies", "wait", pageable_copies,
        action="Pin the memory and copy with non_blocking=True, or keep the data on the GPU",
        why="{copies:#copy|copies} to the GPU from pageable memory" + WHERE + ": {copying_ns:part} of copying. The "
        "host is blocked meanwhile and cannot launch ahead: afterwards the GPU waits " + LOST + " for the host.",
        change="copies from pinned memory",
        bound=_running_ahead,
        remedy=_without_blocking_uploads,
    ),
    _waiting_rule(
        "blocking_uploads", "waits for copies to the GPU",
        "Copy to the GPU with non_blocking=True from pinned memory (pin_memory=True), before the data is needed",
        "uploads that do not block", _without_pinned_waits,
        blocking_uploads,
    ),
)  # fmt: skip
"""The same about copies to the GPU."""


# -- the rest of a loop ------------------------------------------------------------------------------------------------

UNLIKE_OTHERS = 5
"""The idle time of the GPU between steps counts from this multiple of the usual one inside steps on."""


def idle_between_steps(facts: PathFacts) -> Fired | None:
    """Between the last work of the previous step and the first work of this one the GPU is idle."""
    bounds = _between_steps(facts)
    if bounds is None:
        return None
    begun, first = bounds
    idle_ns = first - begun - int(np.diff(facts.busy_or_unknown.covered_until(np.array([begun, first])))[0])
    others = facts.busy_or_unknown.gaps(first, facts.path.window.end_ns)
    usual_ns = int(np.median(others.end - others.start)) if len(others.start) else 0
    pieces = facts.path.segment_table
    inside = facts.segments_in_classes(*HOST_CLASSES) & (pieces.start < first) & (pieces.end > begun)
    loads = facts.segments_in_classes(BoundBy.DATA_LOADING) | ~facts.repeated
    if (
        not facts.is_notable(idle_ns)
        or idle_ns < UNLIKE_OTHERS * usual_ns
        or 2 * facts.time_of(inside & loads) > idle_ns
    ):
        return None
    largest = facts.largest_records(inside & ~loads)
    if not largest:
        return None
    evidence = {"idle_ns": idle_ns, "usual_idle_ns": usual_ns, "largest": largest}
    return Fired(evidence, "medium", min(idle_ns, facts.busiest_stream_idle_ns))


def _between_steps(facts: PathFacts) -> tuple[int, int] | None:
    """Return when all earlier steps' work ends and when this step's first begins (ns), cut to the window."""
    window, graph = facts.path.window, facts.graph
    place = [at for at, item in enumerate(graph.steps()) if item.number == window.step]
    if window.step is None or window.form == "cpu" or not place or not place[0]:
        return None
    item = graph.steps()[place[0]]
    calls = facts.work.call
    launched = take_or(graph.event_table.start, calls, otherwise=0)
    own = facts.work.start[(calls >= 0) & (launched >= item.start_ns) & (launched < item.end_ns)]
    # Of a job the window begins where the last rank's earlier work ends.
    of_job = graph.is_job
    before = window.start_ns if of_job else int(step_work_ends(graph)[: place[0]].max())
    begun, first = max(before, window.start_ns), int(own.min(initial=window.end_ns))
    return (begun, first) if window.end_ns > first > begun else None


MOST_OF_PYTHON = 0.8
"""A frame with less of the Python on the path is not what a saving of all of it is about."""


def python_bound(facts: PathFacts) -> Fired | None:
    """Python that runs between operators delays the GPU: named by its frames, where they are recorded.

    While a graph is captured, nothing runs on the GPU, and replaying the graph runs no Python.
    """
    captures = not facts.has_gpu_rows and facts.graph.trace.matching_names(CAPTURE_CALL).any()
    if captures or not facts.has_stacks or may_be_polling(facts):
        return None
    pieces, kind = facts.path.segment_table, facts.graph.event_table.kind
    in_python = facts.segments_in_classes(BoundBy.CPU_GAP) & (pieces.event >= 0)
    in_python &= (kind[pieces.event] == EventKind.PYTHON_FUNCTION) & facts.repeated
    # A frame may wait for what Gloo does on another thread, which is another rule's.
    in_python &= 2 * facts.times_during(in_python, facts.graph.event_flags.gloo_collective) < facts.lengths
    time_ns = facts.time_of(in_python)
    saved = min(time_ns, facts.busiest_stream_idle_ns)
    if not facts.is_notable(saved):
        return None
    largest = facts.largest_records(in_python)
    evidence = {"python_ns": time_ns, "gpu_idle_ns": facts.gpu_idle_ns, "largest": largest}
    most = facts.open_most(in_python, facts.lengths * in_python, (EventKind.PYTHON_FUNCTION,))
    name, inside_ns = most or (largest[0]["name"], largest[0]["time_ns"])
    said = {
        "rank": facts.main_rank(in_python), "name": name, "inside_ns": inside_ns, "is_in_one": most is not None,
        "can_move": inside_ns >= MOST_OF_PYTHON * time_ns and not _is_step_itself(facts, name),
    }  # fmt: skip
    return Fired(evidence, "low" if gpu_busy_meanwhile(facts) else "medium", saved, said)


def _is_step_itself(facts: PathFacts, name: str) -> bool:
    """Return whether a frame is what the loop is there for: a model's, or one that launches work of the GPU."""
    rows = facts.graph.event_table.name == facts.graph.names.index(name)
    is_model = MODEL_FRAME.match(name) is not None
    return is_model or bool(rows[rows_with_work(facts.graph, EventKind.PYTHON_FUNCTION)].any())


def _without_python(facts: PathFacts, _: Evidence) -> Change:
    if not facts.has_gpu_rows:
        raise QueryError("a program on the CPU consists of its Python, too: none of it is gone")
    is_frame = facts.graph.event_table.kind == EventKind.PYTHON_FUNCTION
    return with_factor(
        lambda base: (
            take_or(is_frame, base.parts.owner, otherwise=False)
            & (base.parts.bound == BoundBy.CPU_GAP)
            & (2 * start_up_shares(base) <= 1)
        )
    )


IDLE_BETWEEN_STEPS = Rule(
    "idle_between_steps", "host", idle_between_steps,
    action="Move logging, evaluation and preparation after the step's launches, or to another thread",
    why="The GPU is idle for {idle_ns:part} before its first work in this step, while the host is mostly in "
    "{largest[0][name]:name}.",
    bound=lambda facts, _: facts.priced.host_ns,
)  # fmt: skip

PYTHON_BOUND = Rule(
    "python_bound", "host", python_bound,
    action="{can_move:+Move {name:name} out of the loop, or to another thread or process}{can_move:-Run less Python "
    "between operators, first in {name:name}}",
    why="The path is in Python for {python_ns:part}{rank:rank}, {is_in_one:+mostly}{is_in_one:-longest} in {name:name} "
    "({inside_ns:time}). Recording stacks slows Python down.",
    change="less Python between operators",
    bound=lambda facts, _: facts.priced.of_host_rows(facts.graph.event_table.kind == EventKind.PYTHON_FUNCTION),
    remedy=_without_python,
)  # fmt: skip
