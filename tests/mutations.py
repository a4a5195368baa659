"""Break the package on purpose, one place at a time, and see which test notices: ``python -m tests.mutations``.

Each mutation replaces one text in a copy of the package; a text that is not there exactly once is an error, not a
survivor. This module is also a pytest plugin: mutated code needs no shrunk examples, only the first failure.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import Phase, settings

from hta_graph.dependencies.rules import DEFAULT_RULES
from tests.support.shared_traces import SHARED

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[1]
TESTS = (
    "tests/whole/test_known_tool_errors.py", "tests/whole/test_brute_force.py", "tests/whole/test_invariants.py",
    "tests/dependencies/test_host_poll.py", "tests/dependencies/test_stream_queues.py",
    "tests/paths/test_segments.py",
)  # fmt: skip
REPLAY_PROOF = ("tests/what_if/test_simulated_what_if.py",)
CAUSES = ("tests/multi_rank/test_wait_causes.py", "tests/multi_rank/test_simulated_wait_causes.py")
FRAMES = ("tests/build/test_from_dataframes.py",)
FILE_TIMES = ("tests/whole/test_file_times.py",)
SOUNDNESS = ("tests/graph/test_validate.py",)
TIME_LIMIT_S = 400
NO_TESTS = 5
"""How pytest exits when none is selected."""
COPIED = ("hta_graph", "analyses", "tests")
RULES = tuple(rule.__name__ for rule in DEFAULT_RULES)


def pytest_configure(config: pytest.Config) -> None:
    """Let hypothesis stop at the first failing example (this module is given to pytest as a plugin)."""
    del config
    settings.register_profile("first_failure", phases=(Phase.explicit, Phase.generate), derandomize=True)
    settings.load_profile("first_failure")


@dataclass(frozen=True)
class Mutation:
    """A mistake: in a file of the repository a text becomes another; these tests are to notice."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = TESTS

    def apply(self, root: Path) -> None:
        """Change the file.

        Raises:
            LookupError: the text is not there exactly once.
        """
        path = root / self.file
        text = path.read_text()
        if text.count(self.old) != 1:
            raise LookupError(f"{self.name}: {self.file} holds {self.old!r} {text.count(self.old)} times, not once")
        path.write_text(text.replace(self.old, self.new))


def removed_rules() -> Iterator[Mutation]:
    """Leave out one rule after the other."""
    for rule in DEFAULT_RULES:
        listed = f"{rule.__module__.rpartition('.')[2]}.{rule.__name__}"
        yield Mutation(f"without {rule.__name__}", "hta_graph/dependencies/rules.py", f"\n    {listed},\n", "\n")


def swapped_edges() -> Iterator[Mutation]:
    """Let the edges of one kind lead from target to source."""
    old = "        size = len(source)\n"
    for rule in RULES:
        swap = f"        if kind == EdgeKind.{rule.upper()}:\n            source, target = target, source\n"
        yield Mutation(f"swap {rule}", "hta_graph/graph/edges.py", old, old + swap)


def of_advice(name: str, file: str, old: str, new: str) -> Mutation:
    """Make a mistake in a rule of advice."""
    return Mutation(name, file, old, new, ("tests/analyses/advice/test_rules.py",))


def of_jobs(name: str, file: str, old: str, new: str, test: str) -> Mutation:
    """Make a mistake in what is written of a job."""
    return Mutation(name, file, old, new, (test,))


def of_oracle(name: str, file: str, old: str, new: str) -> Mutation:
    """Make a mistake in the rules of the straggler analysis."""
    return Mutation(name, file, old, new, ("tests/whole/test_straggler_oracle.py",))


def of_sharing(name: str, file: str, old: str, new: str, test: str) -> Mutation:
    """Make a mistake in what others may see of a trace."""
    return Mutation(name, file, old, new, (test,))


SHARING = (
    of_sharing(
        "arguments that nobody knows stay",
        "hta_graph/export/anonymize/allowlist.py",
        "kept = None if rule is None or value is None else rule(value)",
        "kept = value if rule is None else rule(value)",
        "tests/export/anonymize/test_leaks.py",
    ),
    of_sharing(
        "versions are any text",
        "hta_graph/export/anonymize/allowlist.py",
        "return value if VERSION_NUMBER.fullmatch(value) else None",
        "return value",
        "tests/export/anonymize/test_leaks.py",
    ),
    of_sharing(
        "pseudonyms lose what autograd is told by",
        "hta_graph/export/anonymize/pseudonyms.py",
        'yield f"{plain}{middle}{ending}"\n            yield f"aten',
        'yield f"{plain}{middle}"\n            yield f"aten',
        "tests/export/anonymize/test_pseudonyms.py",
    ),
    of_sharing(
        "processes and threads keep their numbers and names",
        "hta_graph/export/anonymize/anonymize_trace.py",
        "found |= {key: change(value)",
        "found |= {key: value",
        "tests/export/anonymize/test_leaks.py",
    ),
    Mutation(
        "a wait for another device may have ended later",
        "hta_graph/dependencies/wait_resolution.py",
        "    ends[ends > start[:, None]] = NO_WORK\n",
        "",
        ("tests/dependencies/test_cross_device_waits.py",),
    ),
)
"""What lets through what it must not, or changes the graph."""


def of_simulators(name: str, file: str, old: str, new: str, test: str) -> Mutation:
    """Make a mistake in what is read from ASTRA-sim, or written for it."""
    return Mutation(name, file, old, new, (test,))


SIMULATORS = (
    of_simulators(
        "delays are time of the GPU",
        "hta_graph/chakra/log_statistics.py",
        "on_gpu = self._computes & ~is_delay & ~on_cpu",
        "on_gpu = self._computes & ~on_cpu",
        "tests/chakra/test_log_statistics.py",
    ),
    of_simulators(
        "work of the CPU is time of the GPU",
        "hta_graph/chakra/log_statistics.py",
        "on_gpu = self._computes & ~is_delay & ~on_cpu",
        "on_gpu = self._computes & ~is_delay",
        "tests/chakra/test_log_statistics.py",
    ),
    of_simulators(
        "a log without its beginning is whole",
        "hta_graph/chakra/log_statistics.py",
        "is_lost = any(run.lost_entries for run in runs)",
        "is_lost = False",
        "tests/chakra/test_log_statistics.py",
    ),
    of_simulators(
        "two runs in a log are one",
        "hta_graph/chakra/log_statistics.py",
        "    if again.any():\n",
        "    if False:\n",
        "tests/chakra/test_log_statistics.py",
    ),
    of_simulators(
        "names in a log end at a comma",
        "hta_graph/chakra/log_statistics.py",
        "node->name=(.*?), ",
        "node->name=([^,]*), ",
        "tests/chakra/test_log_statistics.py",
    ),
    of_simulators(
        "delays scale with the GPU",
        "hta_graph/chakra/scale.py",
        'is_idle = is_delay(node) and "idle_nanos" not in known',
        "is_idle = False",
        "tests/chakra/test_scale.py",
    ),
    of_simulators(
        "the host of the profile gpu never scales",
        "hta_graph/chakra/scale.py",
        ' and "idle_nanos" not in known',
        "",
        "tests/chakra/test_scale.py",
    ),
    of_simulators(
        "idle host time scales",
        "hta_graph/chakra/scale.py",
        "scaled = idle + round((exact - idle) * factor)",
        "scaled = round(exact * factor)",
        "tests/chakra/test_scale.py",
    ),
    of_simulators(
        "a kernel called delay is idle time",
        "hta_graph/chakra/astra_sim_executor.py",
        'node.name == DELAY and not any(attribute.name == "event_index" for attribute in node.attr)',
        "node.name == DELAY",
        "tests/chakra/test_astra_sim_executor.py",
    ),
    of_simulators(
        "ranks wait in broadcasts",
        "hta_graph/chakra/astra_sim_executor.py",
        "meets = [at for at in of_type[COLLECTIVE] if not self._is_broadcast(at)]",
        "meets = of_type[COLLECTIVE]",
        "tests/chakra/test_matched_communications.py",
    ),
    of_simulators(
        "a scaled workload was measured",
        "hta_graph/chakra/scale.py",
        '    if "measured_nanos" in known:\n',
        "    if False:\n",
        "tests/chakra/test_scale.py",
    ),
    of_simulators(
        "scaling twice is scaling once",
        "hta_graph/chakra/scale.py",
        'for name in ("scaled_nanos", "duration_nanos"):',
        'for name in ("duration_nanos",):',
        "tests/chakra/test_scale.py",
    ),
)
"""Mistakes in what a simulator's user reads and changes."""

ORACLE = (
    of_oracle(
        "messages of nothing count",
        "tests/support/straggler_rules.py",
        "if not _is_outside(operation, way, work.values())]",
        "]",
    ),
    of_oracle(
        "a missing first receive shifts nothing",
        "tests/support/straggler_rules.py",
        "shift = int(way ==",
        "shift = 0 * int(way ==",
    ),
    of_oracle(
        "messages out of the job have another side",
        "tests/support/straggler_rules.py",
        "own is not None and 0 <= own",
        "own is not None or 0 <= own",
    ),
    of_oracle(
        "receives do not wait for the work before",
        "tests/support/straggler_rules.py",
        "            if before:\n",
        "            if False:\n",
    ),
    of_oracle(
        "first backward messages wait for the work before",
        "tests/support/straggler_rules.py",
        "work[first - 2]",
        "work[first - 1]",
    ),
    of_oracle(
        "the first gather of a chunk counts",
        "tests/support/straggler_rules.py",
        "for one in stage.in_sequence(GATHER)}",
        "for one in reversed(stage.in_sequence(GATHER))}",
    ),
    of_oracle(
        "the last scatter of a chunk counts",
        "tests/support/straggler_rules.py",
        "for one in reversed(stage.in_sequence(SCATTER))}",
        "for one in stage.in_sequence(SCATTER)}",
    ),
    of_oracle(
        "layernorm does not wait for scatters",
        "tests/support/straggler_rules.py",
        "    if is_shared and is_overlapped and scatters:",
        "    if False:",
    ),
    of_oracle(
        "a job without partners shares parameters",
        "tests/support/straggler_rules.py",
        "dp * dsp > 1, any",
        "dp * dsp > 0, any",
    ),
    of_oracle("shards are no partners", "tests/support/straggler_rules.py", "dp * dsp > 1, any", "dp > 1, any"),
    of_oracle(
        "clipping is not synchronised",
        "tests/support/straggler_rules.py",
        "(CLIP, stages, True)",
        "(CLIP, stages, False)",
    ),
    of_oracle(
        "embeddings of inner stages count",
        "tests/support/straggler_rules.py",
        "is_outer = stage.number in (0, stage.pp - 1)",
        "is_outer = stage.number == 0",
    ),
    of_oracle(
        "faults of clocks are transfers",
        "tests/support/pipeline_job.py",
        "NOT_BEFORE_NS = -10e6",
        "NOT_BEFORE_NS = -10e9",
    ),
    of_oracle(
        "ideal communication is a mean",
        "tests/support/pipeline_job.py",
        "np.mean if kind in COMPUTE else np.median",
        "np.mean",
    ),
    of_oracle(
        "ideal work is a median",
        "tests/support/pipeline_job.py",
        "np.mean if kind in COMPUTE else np.median",
        "np.median",
    ),
    of_oracle(
        "groups do not meet",
        "tests/support/pipeline_step_replay.py",
        "        if members.size > 1 if group.on_all else len(group.members) > 1:",
        "        if False:",
    ),
)
"""Mistakes in the oracle itself, so that made jobs are known to exercise each of its rules."""

MISTAKES = (
    of_jobs(
        "ranks share processes",
        "hta_graph/export/perfetto/rewrite_rows.py",
        "        while number in self.processes:\n",
        "        while False:\n",
        "tests/export/perfetto/test_job_overlay.py",
    ),
    of_jobs(
        "arrows stay where a clock moves their events",
        "hta_graph/export/perfetto/rewrite_rows.py",
        "        found[mine] = shift[order[at.clip(min=0)]]\n",
        "        found[mine] = 0\n",
        "tests/export/perfetto/test_job_overlay.py",
    ),
    of_jobs(
        "a rank's base time is forgotten",
        "hta_graph/export/perfetto/rewrite_rows.py",
        "alone, moved) + own_base - base_ns",
        "alone, moved)",
        "tests/export/perfetto/test_job_overlay.py",
    ),
    of_jobs(
        "the wrong rank waits in a picture",
        "hta_graph/export/picture/boxes.py",
        "came_last, waited = (",
        "waited, came_last = (",
        "tests/export/picture/test_job_pictures.py",
    ),
    of_jobs(
        "a filter forgets the rank",
        "hta_graph/graph/dependency_graph.py",
        "        if rank is not None:\n",
        "        if False:\n",
        "tests/graph/test_job_graph_queries.py",
    ),
    of_advice(
        "no launches are enough",
        "analyses/advice/host_rules.py",
        "if calls < FEWEST_LAUNCHES:",
        "if calls < 10**6:",
    ),
    of_advice(
        "advice against warm-up allocations",
        "analyses/advice/runtime_rules.py",
        "chosen &= pieces.start >= steps[0].end_ns",
        "chosen &= pieces.start >= 0",
    ),
    of_advice(
        "advice about hidden communication",
        "analyses/advice/gpu_rules.py",
        "exposed_ns = on_path_ns - int(hidden.sum())",
        "exposed_ns = on_path_ns",
    ),
    of_advice(
        "Gloo without its rows",
        "analyses/advice/gpu_rules.py",
        "time_ns = facts.time_during(silent, rows)",
        "time_ns = facts.time_of(silent)",
    ),
    of_advice(
        "what waits cost without the GPU's time",
        "analyses/advice/host_facts.py",
        "longest = np.maximum.reduceat(host - gpu_before, first)",
        "longest = np.zeros(len(first), np.int64)",
    ),
    of_advice(
        "every upload is pageable",
        "analyses/advice/host_rules.py",
        "np.flatnonzero(graph.event_flags.pageable_upload)",
        "np.flatnonzero(graph.event_flags.moves_memory)",
    ),
    of_advice(
        "every kernel is tiny",
        "analyses/advice/gpu_rules.py",
        "events.end - events.start < TINY_KERNEL_NS",
        "events.end - events.start < 10 * TINY_KERNEL_NS",
    ),
    of_advice(
        "stacks are asked for although they are there",
        "analyses/advice/recording_rules.py",
        "if facts.has_stacks or not",
        "if not",
    ),
    of_advice(
        "sync records are asked for although they are there",
        "analyses/advice/recording_rules.py",
        'has_records = facts.graph.diagnostics["sync_records"] > 0',
        'has_records = facts.graph.diagnostics["sync_records"] > 1e9',
    ),
    of_advice(
        "any unknown time begun too late",
        "analyses/advice/recording_rules.py",
        "facts.path.by_reason_ns.get(Reason.BEFORE_RECORDING.label, 0)",
        'facts.path.by_bound_ns["unexplained"]',
    ),
    of_advice(
        "GPU rows are asked for although they are there",
        "analyses/advice/recording_rules.py",
        "calls = 0 if facts.has_gpu_rows else int(",
        "calls = int(",
    ),
    of_advice(
        "any call is start-up",
        "analyses/advice/recording_rules.py",
        "events.end - events.start >= START_UP_CALL_NS",
        "events.end - events.start >= START_UP_CALL_NS // 10",
    ),
    of_advice(
        "no time before a step's first work",
        "analyses/advice/host_rules.py",
        "own.min(initial=window.end_ns)",
        "own.min(initial=window.start_ns)",
    ),
    of_advice(
        "a guard that warns of nothing",
        "analyses/advice/host_facts.py",
        "or count < FEWEST_SILENCES:",
        "or count < 10**6:",
    ),
    of_advice(
        "what little is worth is said", "analyses/advice/facts.py", "NOTABLE_SHARE = 0.05", "NOTABLE_SHARE = 0.0001"
    ),
    of_advice(
        "Python that is not on the path",
        "analyses/advice/host_rules.py",
        "in_python &= kind[pieces.event] == EventKind.PYTHON_FUNCTION",
        "in_python &= kind[pieces.event] == EventKind.CPU_OP",
    ),
    of_advice(
        "every wait is an explicit synchronisation",
        "analyses/advice/host_rules.py",
        "_waiting_finding(facts, every, ~every.reads & ~every.copies)",
        "_waiting_finding(facts, every, every.reads)",
    ),
    of_advice(
        "all kinds of waits although one is enough",
        "analyses/advice/host_rules.py",
        "if any(facts.is_notable(saved_by_running_ahead(facts, kind)) for kind in kinds):",
        "if not kinds:",
    ),
    of_advice(
        "a host beside a busy GPU is blamed without doubt",
        "analyses/advice/host_rules.py",
        'Confidence = "low" if gpu_busy_meanwhile(facts) else "medium" if facts',
        'Confidence = "low" if may_poll(facts) else "medium" if facts',
    ),
    of_advice(
        "pauses of the host are taken for launching",
        "analyses/advice/facts.py",
        "self.segments_in_classes(BoundBy.CPU_BOUND, BoundBy.CPU_GAP))",
        "self.segments_in_classes(BoundBy.CPU_BOUND))",
    ),
    of_advice(
        "a bound without communication beside the path",
        "analyses/advice/gpu_rules.py",
        "else facts.priced.communication_ns",
        "else on_path_ns - 1",
    ),
    Mutation(
        "a wait for the GPU is a pause of the host",
        "hta_graph/paths/host_pauses.py",
        "is_long = host_ns > PAUSE_NS",
        "is_long = gaps.end - gaps.start > PAUSE_NS",
        ("tests/what_if/test_bounds.py",),
    ),
    Mutation(
        "computation hides no communication",
        "hta_graph/what_if/bounds.py",
        "self._exposed(work, WorkType.COMMUNICATION, WorkType.COMPUTATION)",
        "work.busy(WorkType.COMMUNICATION)",
        ("tests/what_if/test_bounds.py",),
    ),
    Mutation(
        "an iteration starts when it did, whatever changes before it",
        "hta_graph/what_if/replay_graph.py",
        "np.maximum(latest[:, 0] - latest[:, 1], 0)",
        "np.maximum(latest[:, 0] - self.window.start_ns, 0)",
        ("tests/what_if/test_earlier_iterations.py",),
    ),
    Mutation(
        "what the GPU communicates meanwhile is lost to the host",
        "hta_graph/what_if/bounds.py",
        "return min(self.not_computing_ns, self.between_launches_ns + self.lock_waits_ns)",
        "return min(self.gpu_idle_ns, self.between_launches_ns + self.lock_waits_ns)",
        ("tests/what_if/test_bounds.py",),
    ),
    Mutation(
        "CUDA graphs remove pauses of the host",
        "hta_graph/what_if/scenarios.py",
        "kept = pause_shares(draft.base)",
        "kept = 0 * pause_shares(draft.base)",
        ("tests/what_if/test_bounds.py",),
    ),
    Mutation(
        "replay may promise more than rows allow",
        "analyses/advice/savings.py",
        "finding.bound_ns is not None and saved_ns > finding.bound_ns",
        "False",
        ("tests/analyses/advice/test_claims.py",),
    ),
    Mutation(
        "the verdict may claim more than rows allow",
        "analyses/advice/gains.py",
        "return max(min(self.saved_ns, self.bound_ns), 0)",
        "return max(self.saved_ns, 0)",
        ("tests/analyses/advice/test_claims.py", "tests/analyses/advice/test_gains.py"),
    ),
    Mutation(
        "the cause that the path is in for longest bounds the window, whatever it would save",
        "analyses/advice/gains.py",
        "alike = (gain for gain in claims if gain.ns >= least)",
        "alike = iter(claims)",
        ("tests/analyses/advice/test_gains.py",),
    ),
    Mutation(
        "replay that follows another path is trusted",
        "hta_graph/what_if/reliability.py",
        "if self.another_path_share >= ANOTHER_PATH_SHARE:",
        "if False:",
        ("tests/analyses/questions/test_what_if.py",),
    ),
    Mutation(
        "savings are as sure where other threads hold the driver's lock",
        "hta_graph/what_if/reliability.py",
        "contended_share=share if share >= CONTENDED_SHARE else 0.0",
        "contended_share=0.0",
        ("tests/analyses/advice/test_savings.py",),
    ),
    Mutation(
        "gaps between kernels are as short as any trace shows",
        "hta_graph/what_if/reliability.py",
        "if len(lag) >= FEWEST_LAUNCHED_AHEAD else BACK_TO_BACK_NS",
        "if len(lag) else LATEST_NS",
        ("tests/what_if/test_reliability.py",),
    ),
    Mutation(
        "what communicates is fixed, also where that is what changes",
        "hta_graph/what_if/reliability.py",
        "found = reliability(base).where_moved(moved_ns / max(base.length_ns, 1))",
        "found = reliability(base)",
        ("tests/analyses/questions/test_what_if.py",),
    ),
    Mutation(
        "a call holds the driver's lock for as long as it waited for it as recorded",
        "hta_graph/what_if/driver_lock.py",
        "own = np.maximum(weight[calls.edge] - calls.waited, 0)",
        "own = weight[calls.edge]",
        ("tests/what_if/test_driver_lock.py",),
    ),
    Mutation(
        "a kernel that overlaps its predecessor waits for its launch alone",
        "hta_graph/what_if/replay_graph.py",
        "return np.where(overlaps, before_end, measured)",
        "return measured",
        ("tests/what_if/test_replay.py",),
    ),
    Mutation(
        "of the iterations before only the last one is replayed",
        "hta_graph/paths/windows.py",
        "latest_sink([step_sink(graph, item) for item in earlier]), earlier[0].start_ns",
        "step_sink(graph, earlier[-1]), earlier[-1].start_ns",
        ("tests/what_if/test_earlier_iterations.py",),
    ),
    Mutation(
        "silences that are as long whatever a kernel takes are taken for spinning",
        "hta_graph/dependencies/synchronization.py",
        "follows: Bools = (scatter >= SPIN_BEGINS_NS) & (rest <= FOLLOWS * scatter)",
        "follows: Bools = rest >= 0",
        ("tests/dependencies/test_host_poll.py",),
    ),
    Mutation(
        "savings of what-if are not cut to what rows allow",
        "analyses/questions/what_if.py",
        "return Saving(min(saved_ns, bound), is_cut=saved_ns > bound)",
        "return Saving(saved_ns)",
        ("tests/analyses/questions/test_what_if.py",),
    ),
    Mutation(
        "savings are of the latency",
        "hta_graph/what_if/bounds.py",
        'if window.step is None or window.form == "gpu" or not graph.is_gpu.any():',
        "if True:",
        ("tests/analyses/advice/test_savings.py", "tests/analyses/questions/test_what_if.py"),
    ),
    of_advice(
        "no operator reads values",
        "analyses/advice/host_facts.py",
        "reads |= (level >= 0) & flags.reads_values[level]",
        "reads = np.zeros_like(reads)",
    ),
    Mutation(
        "the first instead of the last predecessor",
        "hta_graph/paths/binding_edges.py",
        "-edges.kind, finished, edges.target",
        "-edges.kind, -finished, edges.target",
    ),
    Mutation(
        "of rivals the first one",
        "hta_graph/paths/binding_edges.py",
        "order[last_of_runs(edges.target[order])]",
        "order[first_of_runs(edges.target[order])]",
    ),
    Mutation(
        "a source after its target counts as later",
        "hta_graph/paths/binding_edges.py",
        "np.minimum(times[edges.source], times[edges.target])",
        "times[edges.source]",
    ),
    Mutation(
        "ties go to the last kind",
        "hta_graph/paths/binding_edges.py",
        "-edges.kind, finished, edges.target",
        "edges.kind, finished, edges.target",
    ),
    Mutation(
        "the walk goes on behind the window",
        "hta_graph/paths/binding_edges.py",
        "<= until_ns:",
        "<= until_ns - 10**6:",
    ),
    Mutation(
        "what is equal comes later",
        "hta_graph/base/arrays.py",
        "(values[middle] <= wanted)",
        "(values[middle] < wanted)",
        ("tests/graph/test_vectorized_lookups.py",),
    ),
    Mutation(
        "other threads of an engine are loops, too",
        "hta_graph/paths/engine_gaps.py",
        "(over <= MOST_STEPS_AROUND) & (over < len(starts))",
        "over >= 0",
        ("tests/analyses/questions/test_serving.py",),
    ),
    Mutation(
        "of other engine threads the first is named",
        "hta_graph/paths/engine_gaps.py",
        "(waits | (owner < 0) | ends_in & goes_on) & (covered > most)",
        "(owner >= 0) & (covered > most)",
        ("tests/analyses/questions/test_serving.py",),
    ),
    Mutation(
        "launches of a step are under way for ever",
        "hta_graph/paths/engine_gaps.py",
        "np.where(returned > gaps.start, ready, gaps.start)",
        "ready + 10**9",
        ("tests/analyses/questions/test_serving.py",),
    ),
    Mutation(
        "a record of an export is told by its number, not by the call that made it",
        "hta_graph/trace/nsys/sources.py",
        "for pattern, name in SYNC_CALL if call and pattern.match(call)",
        "for pattern, name in SYNC_CALL if not kind and pattern.match(call)",
        ("tests/trace/nsys/test_shared_export.py",),
    ),
    Mutation(
        "records of an export stand on no stream",
        "hta_graph/trace/nsys/columns.py",
        '"wait_on_stream": batch["record stream"]',
        '"wait_on_stream": np.full_like(batch["record stream"], -1)',
        ("tests/trace/nsys/test_reading.py",),
    ),
    Mutation(
        "work of an engine belongs to the step in which it is launched only while its annotation is open",
        "hta_graph/paths/engine_step_table.py",
        "launched_in(graph, item.start_ns, item.until_ns) for item in steps",
        "launched_in(graph, item.start_ns, item.start_ns) for item in steps",
        ("tests/paths/test_engine_steps.py",),
    ),
    Mutation(
        "a trace written as Kineto JSON begins at another time",
        "hta_graph/export/kineto.py",
        '"ts": _printed(start - base)',
        '"ts": _printed(start - base + 1)',
        ("tests/export/test_kineto.py",),
    ),
    Mutation(
        "a usual step is the longest",
        "hta_graph/what_if/step_predictions.py",
        "round(median(self.predicted_ns))",
        "max(self.predicted_ns)",
        ("tests/what_if/test_step_predictions.py",),
    ),
    Mutation(
        "launches in quite another order are matched by few edits",
        "hta_graph/attribution/captured_launches.py",
        "return ReplayAlignment(place, EDITS, edits) if edits <= limit else None",
        "return ReplayAlignment(place, EDITS, edits)",
        ("tests/attribution/test_captured_launches.py",),
    ),
    Mutation(
        "a call that has returned still has to send nodes of its graph",
        "hta_graph/paths/time_accounting.py",
        "returned = np.where(launched | began, take_or(self._events.end, call), of.start).clip(of.start, of.end)",
        "returned = np.where(launched | began, of.end, of.start).clip(of.start, of.end)",
        ("tests/paths/test_graph_launch_times.py",),
    ),
    Mutation(
        "pieces of a step between which nothing waits are steps",
        "hta_graph/trace/engine_steps.py",
        "if without > (len(launches) >= LEAST_AHEAD and not has_wait[1]):",
        "if without > len(launches):",
        ("tests/paths/test_graph_launch_steps.py",),
    ),
    Mutation(
        "graphs that run little of the work are steps",
        "hta_graph/trace/engine_steps.py",
        "LEAST_GRAPH_SHARE = 0.8",
        "LEAST_GRAPH_SHARE = 0.0",
        ("tests/paths/test_graph_launch_steps.py",),
    ),
    Mutation(
        "what-if selects no kernels of graph replays by operator",
        "hta_graph/what_if/selectors.py",
        "found[names.row[meant[names.code]]] = True",
        "found[names.row[meant[names.code]]] = False",
        ("tests/attribution/test_captures.py",),
    ),
    Mutation(
        "the annotations of another rank name kernels",
        "hta_graph/attribution/graph_annotations.py",
        "if rank_in_name(path) in (None, graph.rank)]",
        "if path]",
        ("tests/attribution/test_captures.py",),
    ),
    Mutation(
        "usual lags are those of work that older work held",
        "hta_graph/what_if/replay_graph.py",
        "usual[:-1] = np.minimum(usual[:-1], most)",
        "usual[:-1] = np.maximum(usual[:-1], 0)",
        ("tests/what_if/test_usual_lags.py",),
    ),
    Mutation(
        "silence between small operators is no Python",
        "hta_graph/what_if/reliability.py",
        "lengths[lengths > PAUSE_NS]",
        "lengths",
        ("tests/analyses/advice/test_first_sentence.py",),
    ),
    Mutation(
        "outliers tell no more than others",
        "hta_graph/paths/step_table.py",
        "not _is_outlier(graph, one, usual[one.number])",
        "True",
        ("tests/analyses/report/test_listed_steps.py",),
    ),
    Mutation(
        "a run's end is cut too short",
        "hta_graph/paths/binding_edges.py",
        'side="right")) - 1, 0)',
        'side="right")), 0)',
    ),
    Mutation("the walk stops early", "hta_graph/paths/binding_edges.py", "<= until_ns:", "<= until_ns + 10**3:"),
    Mutation(
        "the walk's times may rise",
        "hta_graph/paths/binding_edges.py",
        "np.minimum.accumulate(times[walked])",
        "times[walked]",
    ),
    Mutation(
        "stream order from the latest start",
        "hta_graph/dependencies/stream_queues.py",
        "self._end = trace.events.end[self.rows]",
        "self._end = trace.events.start[self.rows]",
    ),
    Mutation(
        "stream order from the neighbour",
        "hta_graph/dependencies/streams.py",
        "before = rows[queues.latest[follows - 1]]",
        "before = rows[follows - 1]",
    ),
    Mutation(
        "of equal ends the last row",
        "hta_graph/dependencies/stream_queues.py",
        "(-np.arange(len(end)), end, lane)",
        "(np.arange(len(end)), end, lane)",
    ),
    Mutation(
        "overlap ignored on a stream",
        "hta_graph/dependencies/streams.py",
        "np.where(overlaps, start_point",
        "np.where(overlaps & False, start_point",
    ),
    Mutation(
        "touching is overlapping",
        "hta_graph/dependencies/streams.py",
        "] > context.trace.events.start[target]",
        "] >= context.trace.events.start[target]",
    ),
    Mutation("streams of all devices are one", "hta_graph/trace/table.py", "(_lane_part(key[0]), ", "(0, "),
    Mutation("streams without number", "hta_graph/trace/table.py", ", _lane_part(key[2]))", ", 7)"),
    Mutation(
        "no clamping",
        "hta_graph/graph/edges.py",
        "np.maximum(times[self.target] - times[self.source], 0)",
        "times[self.target] - times[self.source]",
    ),
    Mutation(
        "nothing counts as clamped",
        "hta_graph/graph/edges.py",
        "times[self.target] < times[self.source]",
        "times[self.target] > times[self.source] + 2**60",
    ),
    Mutation(
        "no limit for clock faults", "hta_graph/build/from_trace.py", "back > CLOCK_FAULT_LIMIT_NS", "back > 2**60"
    ),
    Mutation("no clock faults at all", "hta_graph/build/from_trace.py", "back > CLOCK_FAULT_LIMIT_NS", "back > 0"),
    Mutation(
        "cycles stay",
        "hta_graph/build/from_trace.py",
        "edges.take(np.setdiff1d(np.arange(len(edges)), closing)) if len(closing)",
        "edges if len(closing)",
    ),
    Mutation(
        "event queries wait",
        "hta_graph/dependencies/synchronization.py",
        "named: Bools = ~_is_query(context, rows.call) & rows",
        "named: Bools = rows",
    ),
    Mutation(
        "GPU events are moved the wrong way",
        "hta_graph/trace/host_time.py",
        "start[rows] -= clock.ahead",
        "start[rows] += clock.ahead",
        ("tests/paths/test_clock_offset.py",),
    ),
    Mutation(
        "an offset of 0 where launches exclude it",
        "hta_graph/dependencies/clock_estimate.py",
        "keep_zero and low <= 0 <= high and _may_agree",
        "keep_zero and _may_agree",
        ("tests/dependencies/test_clock_estimate.py",),
    ),
    Mutation(
        "faults count as bounds",
        "hta_graph/dependencies/clock_estimate.py",
        "faults[ordered[:count]] = True",
        "pass",
        ("tests/dependencies/test_clock_estimate.py",),
    ),
    Mutation(
        "a jump leaves overlaps on a stream",
        "hta_graph/trace/host_time.py",
        "start[later] += delay",
        "start[later] += 0",
        ("tests/dependencies/test_clock_estimate.py",),
    ),
    Mutation(
        "a copy holds its call by exact times",
        "hta_graph/dependencies/context.py",
        "events.end[activities] - self.clock_error[0][events.lane[activities]] <= times",
        "events.end[activities] <= times",
        ("tests/dependencies/test_gpu_clock_shift.py", "tests/dependencies/test_clock_estimate.py"),
    ),
    Mutation(
        "any depth is a queue's",
        "hta_graph/dependencies/clock_bounds.py",
        "<= QUEUE_SPREAD_NS < np.delete(spread, best).min()",
        "<= QUEUE_SPREAD_NS",
        ("tests/dependencies/test_clock_estimate.py",),
    ),
    Mutation(
        "blocking copies without timing",
        "hta_graph/dependencies/context.py",
        "may_block & context.ended_by(copies, trace.events.end[calls])",
        "may_block & (trace.events.end[copies] >= 0)",
    ),
    Mutation("every copy may block", "hta_graph/dependencies/context.py", "blocks = may_block &", "blocks ="),
    Mutation(
        "zero-length rows behind the end",
        "hta_graph/graph/points.py",
        "CPU_ZERO_AT_END, CPU_END, CPU_START",
        "CPU_END, CPU_ZERO_AT_END, CPU_START",
    ),
    Mutation(
        "zero-length rows before the start",
        "hta_graph/graph/points.py",
        "CPU_START, CPU_ZERO, GPU_ZERO",
        "CPU_ZERO, CPU_START, GPU_ZERO",
    ),
    Mutation(
        "starts before ends",
        "hta_graph/graph/points.py",
        "CPU_END, CPU_START, CPU_ZERO",
        "CPU_START, CPU_END, CPU_ZERO",
    ),
    Mutation("outer ends before inner", "hta_graph/graph/points.py", "rows[~zero][::-1]", "rows[~zero]"),
    Mutation(
        "GPU starts before the CPU",
        "hta_graph/graph/points.py",
        "GPU_END, CPU_ZERO_AT_END, CPU_END, CPU_START, CPU_ZERO, GPU_ZERO, GPU_START, RENDEZVOUS = range(8)",
        "GPU_END, GPU_ZERO, GPU_START, CPU_ZERO_AT_END, CPU_END, CPU_START, CPU_ZERO, RENDEZVOUS = range(8)",
    ),
    Mutation("overlaps are not repaired", "hta_graph/graph/timeline.py", "    if broken.any():", "    if False:"),
    Mutation(
        "the first open row owns",
        "hta_graph/graph/timeline.py",
        "latest.append(open_rows[-1] if",
        "latest.append(open_rows[0] if",
    ),
    Mutation(
        "no parents",
        "hta_graph/graph/timeline.py",
        "parent[event_of(points[inner])] = owner[inner - 1]",
        "parent[event_of(points[inner])] = -1",
    ),
    Mutation(
        "no nesting violations",
        "hta_graph/graph/timeline.py",
        "events.end[child] > events.end[parent[child]]",
        "events.end[child] > 2**62",
    ),
    Mutation(
        "an empty table of edges",
        "hta_graph/build/from_trace.py",
        "EdgeTable.join([rule(context) for rule in rules])",
        "EdgeTable.join([rule(context) for rule in rules][:0])",
    ),
    Mutation(
        "an empty table of events",
        "hta_graph/trace/columnize.py",
        "order = canonical_order(columns)",
        "order = canonical_order(columns)[:0]",
    ),
    Mutation(
        "ties by place in the file",
        "hta_graph/trace/table.py",
        '("external_id", "name", "lane", "sequence", "index")',
        '("index",)',
    ),
    Mutation(
        "shorter rows first",
        "hta_graph/trace/table.py",
        "np.where(on_gpu, correlation, -length)",
        "np.where(on_gpu, correlation, length)",
    ),
    Mutation(
        "names are numbered as they come",
        "hta_graph/trace/columnize.py",
        "order = sorted(range(len(used)), key=used.__getitem__)",
        "order = list(range(len(used)))",
    ),
    Mutation(
        "lanes are numbered as they come",
        "hta_graph/trace/table.py",
        "sorted(dict.fromkeys(threads), key=_by_number) + sorted(streams, key=_by_number)",
        "list(dict.fromkeys(threads)) + list(streams)",
    ),
    Mutation(
        "events of frames stand as given",
        "hta_graph/build/from_dataframes.py",
        "order = canonical_order(columns)",
        "order = np.arange(len(events))",
        FRAMES,
    ),
    Mutation(
        "what goes without saying is added to what was given of it",
        "hta_graph/build/from_dataframes.py",
        "if not (table.kind == kind).any()",
        "if True",
        FRAMES,
    ),
    Mutation(
        "an edge of frames may be there twice",
        "hta_graph/graph/validate.py",
        "again[order] = ~first_of_runs(*(column[order] for column in columns))",
        "again[order] = False",
        FRAMES,
    ),
    Mutation(
        "tables of events give host times",
        "hta_graph/graph/conversion.py",
        "    events, times = trace.events, trace.file_times",
        "    events = times = trace.events",
        FILE_TIMES,
    ),
    Mutation(
        "arrows of an overlay end where no row of the file begins",
        "hta_graph/export/perfetto/path_overlay.py",
        "int(self.drawn_at.start[event])",
        "int(self.path.graph.event_table.start[event])",
        FILE_TIMES,
    ),
    Mutation(
        "rows of a job's overlay stay in the time of their GPU",
        "hta_graph/export/perfetto/rewrite_rows.py",
        "moved.event_table.start - alone.trace.file_times.start",
        "moved.event_table.start - events.start",
        FILE_TIMES,
    ),
    Mutation(
        "clocks lose their offset on their way to a file or process",
        "hta_graph/trace/gpu_clock.py",
        '"pieces": [vars(piece) for piece in self.pieces]}',
        '"pieces": [vars(piece) | {"offset_ns": 0} for piece in self.pieces]}',
        FILE_TIMES,
    ),
    Mutation(
        "a row without length stands behind all ends, whatever follows it",
        "hta_graph/graph/validate.py",
        "        is_before_end[source[chain[new]]] = True",
        "        break",
        SOUNDNESS,
    ),
    Mutation(
        "edges that cannot be are placed all the same",
        "hta_graph/graph/validate.py",
        "    return not strays.any() and not elsewhere.any()",
        "    return not elsewhere.any()",
        SOUNDNESS,
    ),
    Mutation(
        "inexact floats pass for whole numbers",
        "hta_graph/build/from_dataframes.py",
        "exact = np.abs(values) < 2.0**digits",
        "exact = np.isfinite(values)",
        FRAMES,
    ),
    Mutation(
        "frames may hold cycles",
        "hta_graph/build/from_dataframes.py",
        "    if len(cycle):",
        "    if len(cycle) > len(table):",
        FRAMES,
    ),
    Mutation(
        "own GPU work on a lane of any name is on a thread",
        "hta_graph/build/from_dataframes.py",
        "stream or (works and not thread)",
        "stream",
        FRAMES,
    ),
    Mutation(
        "times are floats",
        "hta_graph/trace/timestamps.py",
        "if exact is not None and _loses_nanoseconds(values, numbers):",
        "if False:",
    ),
    Mutation(
        "the base time is ignored",
        "hta_graph/trace/columnize.py",
        "counts), base or 0)",
        "counts), 0)",
    ),
    Mutation("arrays can be written", "hta_graph/base/arrays.py", "    array.flags.writeable = False\n", ""),
    Mutation(
        "one wait per activity",
        "hta_graph/graph/edges.py",
        "first_of_runs(source[chosen], target[chosen])",
        "first_of_runs(target[chosen])",
    ),
    Mutation(
        "waits capture nothing that is pending",
        "hta_graph/dependencies/stream_queues.py",
        "in piles.first_of(int(low[wait]), int(high[wait]), is_known=is_known).items():",
        "in dict[int, int]().items():",
    ),
    Mutation(
        "an item before is the one at",
        "hta_graph/dependencies/stream_queues.py",
        'self.key(lane, place), side="left") - 1, lane)',
        'self.key(lane, place), side="right") - 1, lane)',
    ),
    Mutation(
        "the last work is that of any stream",
        "hta_graph/dependencies/stream_queues.py",
        "row] == lane), self.rows",
        "row] >= 0), self.rows",
    ),
    Mutation(
        "of a call the innermost launches",
        "hta_graph/graph/launches.py",
        "np.unique(events.correlation[calls], return_index=True)",
        "np.unique(events.correlation[calls][::-1], return_index=True)\n        first = len(calls) - 1 - first",
    ),
    Mutation(
        "segments are not merged",
        "hta_graph/paths/segments.py",
        "        columns = ordered.edge_kind,",
        "        return ordered\n        columns = ordered.edge_kind,",
    ),
    Mutation(
        "segments are not clipped",
        "hta_graph/paths/time_accounting.py",
        "end=np.minimum(self.end, end))",
        "end=self.end)",
    ),
    Mutation(
        "cuts are missed",
        "hta_graph/base/arrays.py",
        'np.searchsorted(cuts, start, side="right")',
        'np.searchsorted(cuts, start, side="right") + 1',
    ),
    Mutation(
        "no head before the first cause",
        "hta_graph/paths/segments.py",
        ", walked.before_the_paths()]",
        "]",
    ),
    Mutation("no tail behind the sink", "hta_graph/paths/segments.py", "[walked.after_the_paths(), ", "["),
    Mutation(
        "the sink is the first end",
        "hta_graph/paths/window_ends.py",
        "events.end[candidates] == events.end[candidates].max()",
        "events.end[candidates] == events.end[candidates].min()",
    ),
    Mutation(
        "descendants are ancestors",
        "hta_graph/graph/dependency_graph.py",
        "start_point(np.array([self.row_of(event_index)])), backward=False)",
        "start_point(np.array([self.row_of(event_index)])), backward=True)",
    ),
    Mutation(
        "subgraphs keep edges that leave them",
        "hta_graph/graph/dependency_graph.py",
        "inside = np.flatnonzero((source >= 0) & (target >= 0))",
        "inside = np.flatnonzero((source >= 0) | (target >= 0))",
    ),
    Mutation(
        "neighbours only forward",
        "hta_graph/graph/dependency_graph.py",
        "touched = inside[source] | inside[target]",
        "touched = inside[source]",
    ),
)
EVERY_COLUMN = ("tests/analyses/declare/test_every_column.py",)


ON_PAGES = (
    "tests/paths/test_level_of_detail.py",
    "tests/analyses/report/test_timeline.py",
    "tests/analyses/report/test_report.py",
)
ON_LANES = ("tests/export/picture/test_lanes_picture.py",)
PAGES = (
    Mutation(
        "merged bars forget how full they are",
        "hta_graph/paths/level_of_detail.py",
        "busy=summed_by(cell, bars.busy, len(first)),",
        "busy=np.maximum.reduceat(bars.end, first) - bars.start[first],",
        ON_PAGES,
    ),
    Mutation(
        "bars of several series are merged",
        "hta_graph/paths/level_of_detail.py",
        "return run_numbers(series, stretch)",
        "return run_numbers(stretch)",
        ON_PAGES,
    ),
    Mutation(
        "long bars are merged, too",
        "hta_graph/paths/level_of_detail.py",
        "short = bars.end - bars.start < resolution",
        "short = bars.end > bars.start",
        ON_PAGES,
    ),
    Mutation(
        "work that overlaps is drawn on one track",
        "hta_graph/paths/level_of_detail.py",
        "depth[beside] = _overlap_depth(graph, rows[beside], deepest)",
        "pass",
        ON_PAGES,
    ),
    Mutation(
        "the path's arrows look like all others",
        "hta_graph/export/picture/lanes_picture.py",
        "2.0 if bold else 1.1",
        "1.1",
        ON_LANES,
    ),
    Mutation(
        "what is merged in a picture of lanes is not said",
        "hta_graph/export/picture/lane_layout.py",
        "if self.resolution_ns and self.rows > len(self.bars):",
        "if False:",
        ON_LANES,
    ),
    Mutation(
        "a strip shows any class of a cell",
        "hta_graph/export/picture/lane_layout.py",
        "time.argmax(axis=0)",
        "time.argmin(axis=0)",
        ON_LANES,
    ),
    Mutation(
        "ranks that wait point at who came last",
        "hta_graph/export/picture/lane_layout.py",
        "source=last.source, target=out.target,",
        "source=out.target, target=last.source,",
        ON_LANES,
    ),
    Mutation(
        "one gain under several names is drawn several times",
        "analyses/report/gain_curves.py",
        "if max(abs(half), abs(free)) <= alike_ns:",
        "if max(abs(half), abs(free)) < 0:",
        ("tests/analyses/report/test_gain_curves.py",),
    ),
    Mutation(
        "a sentence tells of a corner that hardly bends the curve",
        "analyses/report/gain_curves.py",
        "corner[2] <= steepest / 2 and",
        "corner[2] <= steepest and",
        ("tests/analyses/report/test_gain_curves.py",),
    ),
    Mutation(
        "curves are drawn from free to today",
        "analyses/report/opportunities.py",
        "(1 - share) * (RIGHT - LEFT)",
        "share * (RIGHT - LEFT)",
        ("tests/analyses/report/test_opportunities.py",),
    ),
    Mutation(
        "an item of the path leads to its shortest segment",
        "analyses/report/sections.py",
        'order = np.argsort(-pieces.length, kind="stable")[::-1]',
        'order = np.argsort(-pieces.length, kind="stable")',
        ON_PAGES,
    ),
    Mutation(
        "links lead out of the page",
        "analyses/report/timeline.py",
        "if start_ns > end_ns or start_ns < first or end_ns > last:",
        "if start_ns > end_ns:",
        ON_PAGES,
    ),
    Mutation(
        "templates do not escape",
        "analyses/display/page.py",
        "autoescape=True,",
        "autoescape=False,",
        ON_PAGES,
    ),
)


def in_columns(name: str, file: str, old: str, new: str) -> Mutation:
    """Make a mistake in a column of an answer."""
    return Mutation(name, file, old, new, EVERY_COLUMN)


COLUMNS = (
    in_columns(
        "shares of classes of less than the window",
        "hta_graph/paths/critical_path.py",
        'columns=["bound_by", "time_ns"])\n        frame["share"] = frame["time_ns"] / max(',
        'columns=["bound_by", "time_ns"])\n        frame["share"] = frame["time_ns"] / min(',
    ),
    in_columns(
        "shares of names and lanes of less than the window",
        "hta_graph/paths/critical_path.py",
        'frame = pd.DataFrame(columns)\n        frame["share"] = frame["time_ns"] / max(',
        'frame = pd.DataFrame(columns)\n        frame["share"] = frame["time_ns"] / min(',
    ),
    in_columns(
        "coverage is what is unexplained",
        "hta_graph/paths/critical_path.py",
        "return 1.0 - unexplained / self.length_ns",
        "return unexplained / self.length_ns",
    ),
    in_columns(
        "calls are segments",
        "hta_graph/paths/critical_path.py",
        '"calls": calls[order], "segments"',
        '"calls": segments[order], "segments"',
    ),
    in_columns(
        "a breakdown's shares of the busy time",
        "analyses/questions/temporal_breakdown.py",
        'frame[f"{part}_ns"] / frame["window_ns"]',
        'frame[f"{part}_ns"] / (frame["window_ns"] - frame["idle_ns"])',
    ),
    in_columns(
        "shares of types of the longest one",
        "analyses/questions/kernel_breakdown.py",
        '["time_ns"].transform("sum")',
        '["time_ns"].transform("max")',
    ),
    in_columns(
        "shares of kernels of the longest one",
        "analyses/questions/kernel_breakdown.py",
        '["sum_ns"].transform("sum")',
        '["sum_ns"].transform("max")',
    ),
    in_columns(
        "the deviation is not that of a sample",
        "analyses/questions/kernel_breakdown.py",
        "np.maximum(count - 1, 1)",
        "np.maximum(count, 1)",
    ),
    in_columns(
        "overlapped share of what is exposed",
        "analyses/questions/overlap.py",
        "overlapped / talk.total if talk.total",
        "overlapped / (talk.total - overlapped) if talk.total",
    ),
    in_columns(
        "idle causes of less than the window",
        "analyses/questions/idle_time.py",
        "found.of_scopes(lambda scope: max(scope.window_ns, 1))",
        "found.of_scopes(lambda scope: min(scope.window_ns, 1))",
    ),
    in_columns(
        "a stream's idle shares of its longest cause",
        "analyses/questions/idle_time.py",
        'rows.groupby(["scope", "lane"])["idle_ns"].transform("sum")',
        'rows.groupby(["scope", "lane"])["idle_ns"].transform("max")',
    ),
    in_columns(
        "a cause's share of all gaps",
        "analyses/questions/idle_time.py",
        'main["of_cause"].to_numpy() / length[chosen]',
        'main["of_cause"].to_numpy() / length.sum()',
    ),
    in_columns(
        "launch gaps' shares of the longest cause",
        "analyses/questions/idle_time.py",
        "sums.sum(axis=1)[lane]",
        "sums.max(axis=1)[lane]",
    ),
    in_columns(
        "a full queue's share of nearly all",
        "analyses/questions/queue_length.py",
        "full / span if span",
        "full / (span + 1_000) if span",
    ),
    in_columns(
        "operators' shares of the largest",
        "analyses/questions/attribution.py",
        '["gpu_self_ns"].transform("sum")',
        '["gpu_self_ns"].transform("max")',
    ),
    in_columns(
        "counters' shares of the largest",
        "analyses/questions/hardware_counters.py",
        "sums[at] / whole if adds_up",
        "sums[at] / sums.max() if adds_up",
    ),
    in_columns(
        "last in more collectives than there are",
        "analyses/questions/stragglers.py",
        "times / len(found)",
        "times / (len(found) - 1)",
    ),
    in_columns(
        "waits caused of less than all",
        "analyses/questions/stragglers.py",
        "caused / max(int(caused.sum()), 1)",
        "caused / min(int(caused.sum()), 1)",
    ),
    in_columns(
        "alive at less than the peak",
        "analyses/questions/memory_timeline.py",
        'frame["alive_bytes"] / max(peak, 1)',
        'frame["alive_bytes"] / min(peak, 1)',
    ),
    in_columns(
        "categories at less than the peak",
        "analyses/questions/raw_memory_timeline.py",
        "max(int(every[timeline.peak, -1]), 1)",
        "min(int(every[timeline.peak, -1]), 1)",
    ),
    in_columns(
        "a report's shares of less than the path",
        "analyses/report/sections.py",
        'frame["time_ns"] / max(path.length_ns, 1)',
        'frame["time_ns"] / min(path.length_ns, 1)',
    ),
    Mutation(
        "a verdict's share of less than the path",
        "analyses/display/sentence_format.py",
        "brief_share(ns / max(whole_ns, 1))",
        "brief_share(ns / min(whole_ns, 1))",
        ("tests/analyses/advice/test_savings.py",),
    ),
    in_columns(
        "a notebook's shares of less than the path",
        "hta_graph/paths/critical_path.py",
        "total = max(self.length_ns, 1)",
        "total = min(self.length_ns, 1)",
    ),
    Mutation(
        "what came last bound work on a stream",
        "hta_graph/what_if/replay_graph.py",
        "ROUNDS = 2\n",
        "ROUNDS = 0\n",
        REPLAY_PROOF,
    ),
    Mutation(
        "lags of unlike kinds are compared in nanoseconds",
        "hta_graph/what_if/replay_graph.py",
        "lags / np.maximum(usual, LEAST_USUAL_NS)",
        "1.0 * (lags - usual)",
        REPLAY_PROOF,
    ),
    Mutation(
        "a lock ties a call to another thread",
        "hta_graph/what_if/replay_graph.py",
        " & (table.kind != EdgeKind.RUNTIME_LOCK)",
        "",
        REPLAY_PROOF,
    ),
    Mutation(
        "texts are unpacked to their end",
        "hta_graph/trace/decompress.py",
        "self.limit.check(self.length + len(piece))",
        "self.limit.check(0)",
        ("tests/trace/test_memory_limit.py",),
    ),
    Mutation(
        "what is decoded at once has no limit",
        "hta_graph/trace/memory_limit.py",
        "if size > LEAST_DECODED and",
        "if size < 0 and",
        ("tests/trace/test_memory_limit.py",),
    ),
    Mutation(
        "several members are believed to be the last one",
        "hta_graph/trace/header.py",
        "return whole if sampled < 2 * whole and whole < 4 * sampled else sampled",
        "return whole",
        ("tests/trace/test_memory_limit.py",),
    ),
    Mutation(
        "files that take more than it seems are not read again",
        "hta_graph/multi_rank/read_engine.py",
        "return self.memory is not None and isinstance(self.answer, TooLargeError)",
        "return False",
        ("tests/multi_rank/test_memory_limits.py",),
    ),
    Mutation(
        "files that take more than it seems are read again beside others",
        "hta_graph/multi_rank/read_ranks.py",
        "if again is not None and not busy:",
        "if again is not None:",
        ("tests/multi_rank/test_memory_limits.py",),
    ),
    Mutation(
        "the good part of a corrupt step is lost",
        "hta_graph/trace/decompress.py",
        "yield from self._rest_of_good_data(first, self._size - before)",
        "pass",
        ("tests/trace/test_decompress.py",),
    ),
    Mutation(
        "work is inserted before what was carried over",
        "hta_graph/what_if/selectors.py",
        " & base.is_issued)",
        ")",
        REPLAY_PROOF,
    ),
    Mutation(
        "waits are charged since ranks came to a meeting, not since they went on",
        "hta_graph/multi_rank/sync_points.py",
        "return resumed and first_end + doubt >= last_arrival",
        "return first_end + doubt >= last_arrival",
        CAUSES,
    ),
    Mutation(
        "whoever waited for nobody at a meeting has met the others there",
        "hta_graph/multi_rank/sync_points.py",
        "return resumed and first_end + doubt >= last_arrival",
        "return resumed",
        CAUSES,
    ),
    Mutation(
        "waits are charged to all that the late rank did",
        "hta_graph/multi_rank/wait_causes.py",
        "[(at, part, -1) for part in self._parts_of(mine)]",
        "[(at, part, 0) for part in self._parts_of(mine)]",
        CAUSES,
    ),
    Mutation(
        "what was passed on is lost",
        "hta_graph/multi_rank/wait_causes.py",
        "weighed.member[goes_on], (own + found)[goes_on])",
        "weighed.member[goes_on], own[goes_on])",
        CAUSES,
    ),
    Mutation(
        "who waited on in a meeting was slow itself",
        "hta_graph/multi_rank/wait_causes.py",
        "waited[-1] = min(max(0, until - mine.since_ns), left_later)",
        "waited[-1] = 0 * until",
        CAUSES,
    ),
    Mutation(
        "who was late already is late by what it does now",
        "hta_graph/multi_rank/wait_causes.py",
        "= 0 if both.is_synchronized else left_later",
        "= 0",
        CAUSES,
    ),
    Mutation(
        "ways of kernels do not join at their calls",
        "hta_graph/paths/rank_local_walks.py",
        "found.append(heads.take(~on_gpu))",
        "found.append(heads.take(on_gpu))",
        ("tests/paths/test_rank_local_walks.py",),
    ),
    Mutation(
        "the upper median step",
        "hta_graph/paths/windows.py",
        "(len(values) - 1) // 2",
        "len(values) // 2",
        ("tests/paths/test_median_step.py",),
    ),
    Mutation(
        "a row without a call stands at the recording's begin",
        "hta_graph/dependencies/wait_resolution.py",
        "context.start_position(rows.call), before)",
        "context.start_position(rows.call), -1)",
        ("tests/dependencies/test_wait_order.py",),
    ),
    Mutation(
        "what begins with a row is not held back",
        "hta_graph/dependencies/wait_resolution.py",
        'rows.row], side="left") - 1',
        'rows.row], side="right") - 1',
        ("tests/dependencies/test_wait_order.py",),
    ),
    Mutation(
        "a record without a call captures nothing",
        "hta_graph/dependencies/wait_resolution.py",
        "start_position(take_or(calls, lower)) + 1",
        "start_position(take_or(calls, lower)) * 0",
        ("tests/dependencies/test_wait_order.py",),
    ),
    Mutation(
        "a record without a call captures all",
        "hta_graph/dependencies/wait_resolution.py",
        "start_position(take_or(calls, lower)) + 1",
        "start_position(take_or(calls, lower)) + 10**6",
        ("tests/dependencies/test_wait_order.py",),
    ),
    Mutation(
        "a record of a later number counts",
        "hta_graph/dependencies/wait_resolution.py",
        "& (rows.record_correlation < events.correlation[rows.row])",
        "& (rows.record_correlation > 0)",
        ("tests/dependencies/test_wait_order.py",),
    ),
    Mutation(
        "a later record counts for a row without a call",
        "hta_graph/dependencies/wait_resolution.py",
        "<= events.start[rows.row]\n",
        "<= events.end.max()\n",
        ("tests/dependencies/test_wait_order.py",),
    ),
    Mutation(
        "a record that begins with its row is later",
        "hta_graph/dependencies/wait_resolution.py",
        "<= events.start[rows.row]\n",
        "< events.start[rows.row]\n",
        ("tests/dependencies/test_wait_order.py",),
    ),
    Mutation(
        "a row without ids needs no improbable chance",
        "hta_graph/dependencies/wait_resolution.py",
        "return np.where(question.call >= 0, CLOSE_NS, _rare_ns(held, streams))",
        "return np.full(len(question.call), CLOSE_NS)",
        ("tests/dependencies/test_wait_order.py",),
    ),
    Mutation(
        "a stream is usually ready as late as the host launches",
        "hta_graph/what_if/replay_graph.py",
        "_without_late_launches(graph, rank, binds)",
        "binds",
        ("tests/what_if/test_usual_lags.py",),
    ),
    Mutation(
        "of a fork only the first stream waits",
        "hta_graph/dependencies/wait_resolution.py",
        "    return _with_forks(context, found, calls[~lane_is_known])\n",
        "    return found\n",
        ("tests/dependencies/test_wait_inference.py",),
    ),
    Mutation(
        "a stream that nothing holds back is a branch of a fork",
        "hta_graph/dependencies/wait_resolution.py",
        "held.exists & (column >= 0) & is_same",
        "held.exists",
        ("tests/dependencies/test_wait_inference.py",),
    ),
    Mutation(
        "the last step's wait for others is time without an operator",
        "hta_graph/paths/windows.py",
        "ended = end_point(members.row[job.event_table.lane[members.call] == sink.lane])",
        "ended = end_point(members.row[:0])",
        ("tests/paths/test_job_windows.py",),
    ),
    Mutation(
        "a row without ids means the only other stream",
        "hta_graph/dependencies/wait_resolution.py",
        " & (question.call >= 0)\n",
        "\n",
        ("tests/dependencies/test_wait_order.py",),
    ),
    Mutation(
        "a number on another device is no stream",
        "hta_graph/dependencies/context.py",
        "only.get(stream, -1) for stream",
        "-1 for stream",
        ("tests/dependencies/test_wait_order.py",),
    ),
    Mutation(
        "a number on several devices is any of them",
        "hta_graph/dependencies/context.py",
        " if count[int(lanes.stream[at])] == 1}",
        "}",
        ("tests/dependencies/test_wait_order.py",),
    ),
    Mutation(
        "a number on another device is a row's own stream",
        "hta_graph/dependencies/context.py",
        "own = {(int(lanes.device[at]), ",
        "own = {(0 * int(lanes.device[at]), ",
        ("tests/dependencies/test_wait_order.py",),
    ),
    Mutation(
        "replays of a lost node are not said",
        "analyses/advice/verdict_rules.py",
        "in {replays_with_hole} of ",
        "in ",
        ("tests/analyses/advice/test_rules.py",),
    ),
    Mutation(
        "a wait without a record is never believed",
        "hta_graph/graph/significance.py",
        "(lag_ns <= within_ns)",
        "(lag_ns < 0)",
        ("tests/paths/test_unexplained_reasons.py",),
    ),
    Mutation(
        "a believed wait needs no long hole",
        "hta_graph/dependencies/inferred_waits.py",
        "ONCE, AS_USUAL = 100, 20",
        "ONCE, AS_USUAL = 1, 1",
        ("tests/dependencies/test_inferred_waits.py",),
    ),
    Mutation(
        "no wait is believed for its usual lag",
        "hta_graph/dependencies/inferred_waits.py",
        "sure |= is_improbable",
        "sure &= is_improbable",
        ("tests/dependencies/test_inferred_waits.py",),
    ),
    Mutation(
        "an id that several have shows a launch",
        "hta_graph/trace/read.py",
        "first[count == 1]",
        "first[count >= 1]",
        ("tests/trace/test_launches_by_external_id.py",),
    ),
    Mutation(
        "a call launches a kernel of another name",
        "hta_graph/trace/read.py",
        "at >= 0 and name == trace.name_of(kernels[at])",
        "at >= 0",
        ("tests/trace/test_launches_by_external_id.py",),
    ),
    Mutation(
        "launches by External id count as recorded",
        "hta_graph/dependencies/streams.py",
        "Rule.SAME_EXTERNAL_ID if by_name else Rule.RECORDED",
        "Rule.RECORDED",
        ("tests/trace/test_launches_by_external_id.py",),
    ),
    Mutation(
        "a full device is never waited for",
        "hta_graph/dependencies/inferred_waits.py",
        "NO_ROOM_NS = 100_000",
        "NO_ROOM_NS = 20_000",
        ("tests/dependencies/test_inferred_waits.py",),
    ),
    Mutation(
        "each end is one of many",
        "hta_graph/dependencies/inferred_waits.py",
        "np.where(is_latest, np.minimum(in_hole, 1), in_hole)",
        "in_hole",
        ("tests/dependencies/test_inferred_waits.py",),
    ),
    Mutation(
        "any lag is usual",
        "hta_graph/dependencies/inferred_waits.py",
        "(own <= factor * common)",
        "(own <= 10**9 * common)",
        ("tests/dependencies/test_inferred_waits.py",),
    ),
    Mutation(
        "a source launched after its wait",
        "hta_graph/dependencies/inferred_waits.py",
        "np.searchsorted(numbers, held.deadline)",
        "len(numbers)",
        ("tests/dependencies/test_inferred_waits.py",),
    ),
    Mutation(
        "an event captures some nodes of a graph",
        "hta_graph/dependencies/inferred_waits.py",
        "np.where(whole, take_or(latest, at), -1)",
        "np.where(True, take_or(latest, at), -1)",
        ("tests/dependencies/test_inferred_waits.py",),
    ),
    Mutation(
        "copies wait for copies",
        "hta_graph/dependencies/inferred_waits.py",
        "return ~copies",
        "return copies | ~copies",
        ("tests/dependencies/test_inferred_waits.py",),
    ),
    Mutation(
        "of two ends one is believed",
        "hta_graph/dependencies/inferred_waits.py",
        "AS_USUAL).sum(axis=1) > 1",
        "AS_USUAL).sum(axis=1) > 2",
        ("tests/dependencies/test_inferred_waits.py",),
    ),
    Mutation(
        "old work is any without a launch",
        "hta_graph/dependencies/inferred_waits.py",
        "work[launched_before_recording(events, work)] if len(work) else work",
        "work",
        ("tests/dependencies/test_inferred_waits.py",),
    ),
    Mutation(
        "a wait call before the stream's earlier work",
        "hta_graph/dependencies/inferred_waits.py",
        "> earlier)",
        "> -2)",
        ("tests/dependencies/test_inferred_waits.py",),
    ),
    Mutation(
        "nodes of graphs are held back",
        "hta_graph/dependencies/inferred_waits.py",
        "held.take(~_is_node(context, held.work)) if len(held) else held",
        "held",
        ("tests/dependencies/test_inferred_waits.py",),
    ),
    Mutation(
        "late streams are never believed",
        "hta_graph/graph/significance.py",
        "lag_ns <= within_ns",
        "lag_ns <= 10_000",
        ("tests/dependencies/test_inferred_waits.py",),
    ),
    Mutation(
        "a believed wait stays unresolved",
        "hta_graph/dependencies/inferred_waits.py",
        'context.notes["event_waits_unresolved"] -=',
        'context.notes["event_waits_unresolved"] += 0 *',
        ("tests/dependencies/test_inferred_waits.py",),
    ),
    Mutation(
        "a hole in most replays is enough",
        "hta_graph/paths/unexplained_reasons.py",
        "(with_hole == replays)",
        "(2 * with_hole > replays)",
        ("tests/paths/test_unexplained_reasons.py",),
    ),
    Mutation(
        "a hole before the first nodes of few replays is enough",
        "hta_graph/paths/unexplained_reasons.py",
        "(2 * with_hole > replays)",
        "(with_hole > 0)",
        ("tests/paths/test_unexplained_reasons.py",),
    ),
    Mutation(
        "graphs with as many nodes are one",
        "hta_graph/paths/unexplained_reasons.py",
        "np.add.reduceat(hash_rows(events.name[work]), begins)",
        "np.bincount(launch)",
        ("tests/paths/test_unexplained_reasons.py",),
    ),
    Mutation(
        "what else was enqueued before a graph does not matter",
        "hta_graph/paths/unexplained_reasons.py",
        " & nothing_else & ",
        " & ",
        ("tests/paths/test_unexplained_reasons.py",),
    ),
    Mutation(
        "a stream's first work was held whatever ran beside it",
        "hta_graph/paths/unexplained_reasons.py",
        "== work) & queued & _device_was_idle(graph, work)",
        "== work) & queued",
        ("tests/paths/test_unexplained_reasons.py",),
    ),
    Mutation(
        "any late work of a stream was held by older work",
        "hta_graph/paths/unexplained_reasons.py",
        "(first[events.lane[work]] == work) & queued",
        "queued",
        ("tests/paths/test_unexplained_reasons.py",),
    ),
    Mutation(
        "a graph that is still launched misses its first node",
        "hta_graph/paths/unexplained_reasons.py",
        "np.maximum(free, times[end_point(call)])",
        "free",
        ("tests/paths/test_unexplained_reasons.py",),
    ),
    Mutation(
        "any call's work misses its first node",
        "hta_graph/paths/unexplained_reasons.py",
        "flags.graph_launch_call[launch] & ",
        "",
        ("tests/paths/test_unexplained_reasons.py",),
    ),
    Mutation(
        "every replay shows the hole",
        "hta_graph/paths/unexplained_reasons.py",
        "(0, (hole_ns + 1) // 2)",
        "(0, 0 * hole_ns)",
        ("tests/paths/test_unexplained_reasons.py",),
    ),
    Mutation(
        "every coincidence is a wait",
        "hta_graph/graph/significance.py",
        "return soon & rare",
        "return soon",
        ("tests/paths/test_unexplained_reasons.py",),
    ),
    Mutation(
        "ends do not tell which of two alike was lost",
        "hta_graph/multi_rank/matching/align_rank_sequences.py",
        "np.where(alike & may_meet, BASE_SCORE + closeness, 0.0)",
        "np.where(alike, 1.0, 0.0)",
        ("tests/multi_rank/matching/test_align_rank_sequences.py",),
    ),
    Mutation(
        "clocks that agree are not preferred",
        "hta_graph/multi_rank/matching/align_rank_sequences.py",
        "best = best if len(best.left) >= MIN_PAIRS and best.score > needed * agreeing.score else agreeing",
        "best = best",
        ("tests/multi_rank/matching/test_align_rank_sequences.py",),
    ),
    Mutation(
        "ids of some rows hold no lists together",
        "hta_graph/multi_rank/matching/align_rank_sequences.py",
        "np.where(numbered, SAME_NUMBER_SCORE, ",
        "np.where(numbered & False, SAME_NUMBER_SCORE, ",
        ("tests/multi_rank/matching/test_align_rank_sequences.py",),
    ),
    Mutation(
        "what fits elsewhere as well is sure",
        "hta_graph/multi_rank/matching/align_rank_sequences.py",
        "is_sure &= (theirs == partner) | (theirs < 0)",
        "is_sure &= True",
        ("tests/multi_rank/matching/test_align_rank_sequences.py",),
    ),
    Mutation(
        "a rank arrives when a worker begins",
        "hta_graph/multi_rank/matching/gloo_events.py",
        "arrival[place] = max(int(events.start[call]), int(ends[ends <= arrival[place]].max(initial=0)))",
        "arrival[place] = max(int(events.start[call]), int(arrival[place]))",
        ("tests/multi_rank/matching/test_gloo_events.py",),
    ),
    Mutation(
        "every member of a broadcast is waited for",
        "hta_graph/multi_rank/matching/gloo_events.py",
        'not in ("broadcast", "scatter", "gather", "send", "recv")',
        'not in ("scatter", "gather", "send", "recv")',
        ("tests/multi_rank/matching/test_gloo_events.py",),
    ),
    Mutation(
        "sends never go into a buffer",
        "hta_graph/multi_rank/matching/match_checks.py",
        "np.where(is_send & (end < awaited_arrival), arrival, awaited_arrival)",
        "np.where(awaited_rank < -9, arrival, awaited_arrival)",
        ("tests/multi_rank/matching/test_gloo_events.py",),
    ),
    Mutation(
        "an all-gather loads the links like an all-reduce",
        "hta_graph/multi_rank/matching/bus_bandwidth.py",
        '("allgather", lambda ranks: (ranks - 1) / ranks)',
        '("allgather", lambda ranks: 2 * (ranks - 1) / ranks)',
        ("tests/multi_rank/matching/test_bus_bandwidth.py",),
    ),
    Mutation(
        "bounds are not asked about clocks",
        "hta_graph/multi_rank/matching/pair_clocks.py",
        "has_ends & (~is_bound | _is_less(by_ends, by_bounds))",
        "has_ends & (~is_bound | _is_less(by_bounds, by_ends))",
        ("tests/multi_rank/matching/test_job_clocks.py",),
    ),
    Mutation(
        "clocks drift without a half that confirms it",
        "hta_graph/multi_rank/matching/pair_clocks.py",
        "np.where(asked & is_large & better, drift, 0.0)",
        "np.where(asked & is_large, drift, 0.0)",
        ("tests/multi_rank/matching/test_job_clocks.py",),
    ),
    Mutation(
        "a meeting that fits no clocks moves them",
        "hta_graph/multi_rank/matching/pair_clocks.py",
        "allowed = np.maximum(rows.count // DROPPED_DIVISOR, 1)",
        "allowed = np.minimum(rows.count // DROPPED_DIVISOR, 0)",
        ("tests/multi_rank/matching/test_job_clocks.py",),
    ),
    Mutation(
        "clocks are not bound through other ranks",
        "hta_graph/multi_rank/matching/job_clocks.py",
        "if (high - low) / 2 < error:",
        "if high < low:",
        ("tests/multi_rank/matching/test_job_clocks.py",),
    ),
    Mutation(
        "a match stands whatever physics says",
        "hta_graph/multi_rank/matching/match_checks.py",
        "members.awaited_arrival > members.end + _clock_errors(members, clocks) + CAUSALITY_SLACK_NS",
        "members.awaited_arrival > members.awaited_arrival",
        ("tests/multi_rank/matching/test_unmatched.py",),
    ),
    Mutation(
        "ends outweigh the order of lists of equal lengths",
        "hta_graph/multi_rank/matching/align_rank_sequences.py",
        "LOSS_PENALTY = 1.0",
        "LOSS_PENALTY = 0.0",
        ("tests/multi_rank/matching/test_align_rank_sequences.py",),
    ),
    Mutation(
        "what one group tells of clocks serves no other",
        "hta_graph/multi_rank/matching/collectives.py",
        "if not clocks.are_equal:",
        "if clocks.are_equal:",
        ("tests/multi_rank/matching/test_unmatched.py",),
    ),
    Mutation(
        "lists that overlap by chance are taken for lists of clocks that agree",
        "hta_graph/multi_rank/matching/align_rank_sequences.py",
        "best.score > needed * agreeing.score",
        "best.score > 9 * agreeing.score",
        ("tests/multi_rank/matching/test_align_rank_sequences.py",),
    ),
    Mutation(
        "of equal ones, one of which was lost, any is taken without a word",
        "hta_graph/multi_rank/matching/match_checks.py",
        "if matched.channel.by == ORDER and matches and any(matched.unmatched.values()):",
        "if matched.channel.by != ORDER:",
        ("tests/multi_rank/matching/test_unmatched.py",),
    ),
    Mutation(
        "a lost row of Gloo shifts the calls",
        "hta_graph/multi_rank/matching/gloo_events.py",
        "np.where(sooner[run], latest, own)",
        "own",
        ("tests/multi_rank/matching/test_gloo_events.py",),
    ),
    Mutation(
        "the root of a kernel's collective waits for nobody",
        "hta_graph/multi_rank/matching/read_communications.py",
        "return ALL_RANKS if root == rank else NO_RANK",
        "return NO_RANK",
        ("tests/multi_rank/matching/test_communication_kernels.py",),
    ),
    Mutation(
        "kernels that say nothing are collectives",
        "hta_graph/multi_rank/matching/match_checks.py",
        "if count > NON_COLLECTIVE_SHARE * seen[name]",
        "if count > seen[name]",
        ("tests/multi_rank/matching/test_unmatched.py",),
    ),
    Mutation(
        "pickles are read as dumps that are none",
        "hta_graph/multi_rank/matching/flight_recorder.py",
        "if text_head(path, 1) == PICKLE_MAGIC",
        "if text_head(path, 1) != PICKLE_MAGIC",
        ("tests/multi_rank/matching/test_flight_recorder.py",),
    ),
    Mutation(
        "clocks are set the wrong way",
        "hta_graph/multi_rank/matching/pair_clocks.py",
        "return times - self.ahead - drifted",
        "return times + self.ahead + drifted",
        ("tests/multi_rank/matching/test_job_clocks.py",),
    ),
    Mutation(
        "the whole trace ends with its last row",
        "hta_graph/paths/windows.py",
        "if has_points.any() and not all_rows:",
        "if False:",
        ("tests/paths/test_windows.py",),
    ),
    Mutation(
        "a median is one value too high",
        "hta_graph/base/arrays.py",
        "np.maximum(-(-count * percent // 100) - 1, 0)",
        "np.minimum(-(-count * percent // 100), count - 1)",
        ("tests/analyses/questions/test_launch_stats.py", "tests/analyses/questions/test_idle_time.py"),
    ),
    Mutation(
        "names that look the same are not told apart",
        "hta_graph/base/text/shorten.py",
        "        if seen[text] > 1:\n            numbers",
        "        if seen[text] > 9:\n            numbers",
        ("tests/analyses/display/test_kernel_names.py", "tests/analyses/display/test_text_layout.py"),
    ),
    Mutation(
        "what matters least is shown first",
        "analyses/display/text_layout.py",
        "        for at in order:\n            if least[at]",
        "        for at in reversed(order):\n            if least[at]",
        ("tests/analyses/display/test_text_layout.py",),
    ),
    Mutation(
        "marks of direction reach the terminal",
        "hta_graph/base/text/sanitize.py",
        'frozenset({"Cc", "Cf", "Cs"',
        'frozenset({"Cc", "Cs"',
        ("tests/analyses/cli/test_hostile_text.py",),
    ),
    Mutation(
        "lines leave as they are",
        "analyses/display/stderr.py",
        "list(map(sanitize, lines))",
        "list(lines)",
        ("tests/analyses/cli/test_hostile_text.py",),
    ),
    Mutation(
        "cells leave as they are",
        "analyses/display/console.py",
        "enumerate(map(sanitize, row))",
        "enumerate(row)",
        ("tests/analyses/cli/test_hostile_text.py",),
    ),
    Mutation(
        "a rate of 1e308 is one",
        "hta_graph/trace/columnize.py",
        "0 <= rate <= FASTEST_GBPS",
        "0 <= rate < math.inf",
        ("hta_graph/trace/columnize.py",),
    ),
    Mutation(
        "a terminal cuts what was asked for whole",
        "analyses/display/console.py",
        "None if wide else terminal_columns(file), file",
        "terminal_columns(file), file",
        ("tests/analyses/display/test_text_layout.py",),
    ),
    Mutation(
        "HTA's percentages of nothing",
        "analyses/hta/breakdowns.py",
        "100 * total / max(total.sum(), 1)",
        "100 * total / min(total.sum(), 1)",
        ("tests/analyses/questions/test_kernel_breakdown.py",),
    ),
    Mutation(
        "the band of noise is half as wide",
        "analyses/compare/diff/noise.py",
        "STANDARD_ERRORS = 4.0",
        "STANDARD_ERRORS = 2.0",
        ("tests/analyses/compare/diff/test_noise.py",),
    ),
    Mutation(
        "a step that hangs widens the band",
        "analyses/compare/diff/noise.py",
        "np.median(away[:, 1:], axis=1)",
        "away[:, -1]",
        ("tests/analyses/compare/diff/test_noise.py",),
    ),
    Mutation(
        "layers of several sizes are noise",
        "analyses/compare/diff/noise.py",
        "test - control * usual[unit]",
        "test - control.mean()",
        ("tests/analyses/compare/diff/test_noise.py",),
    ),
    Mutation(
        "recordings without spread differ by anything",
        "analyses/compare/diff/noise.py",
        "LEAST_OF_STEPS = 0.01",
        "LEAST_OF_STEPS = 0.0",
        ("tests/analyses/compare/diff/test_run_diff.py",),
    ),
    Mutation(
        "one window believes small differences",
        "analyses/compare/diff/length_comparison.py",
        "LEAST_OF_WINDOWS = 0.05",
        "LEAST_OF_WINDOWS = 0.01",
        ("tests/analyses/compare/diff/test_run_diff.py",),
    ),
    Mutation(
        "two steps that differ are no noise",
        "analyses/compare/diff/noise.py",
        "(self.squares + PARTS_WEIGHT",
        "(0 * self.squares + PARTS_WEIGHT",
        ("tests/analyses/compare/diff/test_run_diff.py",),
    ),
    Mutation(
        "all steps are of one kind",
        "analyses/compare/diff/step_kinds.py",
        "if min(counts) < ENOUGH_STEPS or",
        "if min(counts) < 1_000 or",
        ("tests/analyses/compare/diff/test_step_kinds.py",),
    ),
    Mutation(
        "other threads' rows make kinds of steps",
        "hta_graph/paths/step_kinds.py",
        "np.isin(events.lane, threads)",
        "(events.lane >= 0)",
        ("tests/analyses/compare/diff/test_step_kinds.py",),
    ),
    Mutation(
        "the halves of a run that drifts differ",
        "analyses/compare/diff/step_change.py",
        "return max(map(_drift, self._away()))",
        "return 0.0",
        ("tests/analyses/compare/diff/test_step_change.py",),
    ),
    Mutation(
        "two steps that are both held up are a change",
        "analyses/compare/diff/step_change.py",
        "known = self.counts.min(axis=0) >= ENOUGH_STEPS",
        "known = self.counts.min(axis=0) >= 0",
        ("tests/analyses/compare/diff/test_step_change.py",),
    ),
    Mutation(
        "what only a rare longer step does is judged",
        "analyses/compare/diff/step_change.py",
        "longest <= longest[repeated].max()",
        "longest > 0",
        ("tests/analyses/compare/diff/test_step_change.py",),
    ),
    Mutation(
        "a kernel at another place is one gone and one new",
        "analyses/compare/diff/kernels_in_order.py",
        "moved = _moved(left, right, matched, control, test)",
        "moved = (matched[0][:0], matched[1][:0])",
        ("tests/analyses/compare/diff/test_kernels_in_order.py",),
    ),
    Mutation(
        "a warm-up is compared with a usual step",
        "analyses/compare/diff/length_comparison.py",
        "if control.warms_up != test.warms_up:",
        "if control.warms_up > test.warms_up:",
        ("tests/analyses/compare/diff/test_run_diff.py",),
    ),
    Mutation(
        "any amount of work is compared",
        "analyses/compare/diff/length_comparison.py",
        "SAME_AMOUNT = 1.25",
        "SAME_AMOUNT = 125",
        ("tests/analyses/compare/diff/test_run_diff.py",),
    ),
    Mutation(
        "what nobody knows makes a step slower",
        "analyses/compare/diff/length_comparison.py",
        "MOSTLY_UNKNOWN = 0.5",
        "MOSTLY_UNKNOWN = 50",
        ("tests/analyses/compare/diff/test_run_diff.py",),
    ),
    Mutation(
        "the warm-up is one of the steps",
        "analyses/compare/diff/sides.py",
        "if one.is_candidate]",
        "]",
        ("tests/analyses/compare/diff/test_run_diff.py",),
    ),
    Mutation(
        "runs that became faster come last",
        "analyses/compare/diff/merge_tables.py",
        'np.argsort(-frame["diff_ns"].abs().to_numpy(), kind="stable")',
        'np.argsort(-frame["diff_ns"].to_numpy(), kind="stable")',
        ("tests/analyses/compare/diff/test_run_diff.py",),
    ),
    Mutation(
        "what a step lacks is left out",
        "analyses/compare/diff/merge_tables.py",
        "table = np.zeros((",
        "table = np.ones((",
        ("tests/analyses/compare/diff/test_run_diff.py", "tests/analyses/compare/diff/test_merge_tables.py"),
    ),
    Mutation(
        "a job waits in a step for what came before it",
        "analyses/compare/diff/job_side.py",
        "(when > window.start_ns)",
        "(when > 0)",
        ("tests/analyses/compare/diff/test_job_diff.py",),
    ),
    Mutation(
        "a trend is a level",
        "analyses/compare/diff/step_levels.py",
        " and _is_no_trend(level, float((rest**2).sum()))",
        "",
        ("tests/analyses/compare/diff/test_step_levels.py",),
    ),
    Mutation(
        "two steps at the start are a level whatever the other run is like",
        "analyses/compare/diff/step_levels.py",
        "    if is_level and places[0] < ENOUGH_STEPS:",
        "    if not places:",
        ("tests/analyses/compare/diff/test_step_levels.py",),
    ),
    Mutation(
        "a gate looks at the last level alone",
        "analyses/compare/diff/regression.py",
        'if level.side == "test" and',
        'if level.side == "none" and',
        ("tests/analyses/cli/commands/test_diff.py",),
    ),
    Mutation(
        "exports take groups of the CPU from each rank alone",
        "hta_graph/chakra/convert.py",
        "with_worker_groups({item.rank: read_communications(item.graph) for item in listed})",
        "{item.rank: read_communications(item.graph) for item in listed}",
        ("tests/chakra/test_gloo_jobs.py",),
    ),
    Mutation(
        "a median of the others is that of all",
        "hta_graph/multi_rank/rank_delays.py",
        "middle = [at + (place <= at) for at in",
        "middle = [at + (place < 0) for at in",
        ("tests/multi_rank/test_rank_delays.py",),
    ),
    Mutation(
        "ranks of one job alone are compared",
        "analyses/compare/diff/job_diff.py",
        "with_shared_names(_of_ranks(rows.causes, kept), shared or {}, CAUSE_KEYS)",
        "with_shared_names(rows.causes, shared or {}, CAUSE_KEYS)",
        ("tests/analyses/compare/diff/test_job_diff.py",),
    ),
    Mutation(
        "steps that are told are much alike",
        "analyses/compare/diff/job_side.py",
        'np.argsort(lengths, kind="stable")[places]',
        "np.argsort(np.abs(lengths - np.median(lengths)))[:others]",
        ("tests/analyses/compare/diff/test_job_diff.py",),
    ),
    Mutation(
        "waiting for others is noise",
        "analyses/compare/diff/length_comparison.py",
        "np.full(len(left.row), communication)",
        "np.full(len(left.row), True)",
        ("tests/analyses/compare/diff/test_job_diff.py",),
    ),
    Mutation(
        "what few steps have is laid out for none",
        "analyses/compare/diff/merge_tables.py",
        "> side.count - 2 - (side.count - 1) // 2",
        "> side.count - 1",
        ("tests/analyses/compare/diff/test_merge_tables.py",),
    ),
    Mutation(
        "a step's idle time is that of all steps",
        "analyses/questions/idle_time.py",
        '{"scope": self.scope[self.pieces.gap], **codes}',
        '{"scope": 0 * self.scope[self.pieces.gap], **codes}',
        ("tests/analyses/questions/test_idle_time.py",),
    ),
    Mutation(
        "any threads are drawn where there are too many",
        "hta_graph/paths/level_of_detail.py",
        "np.lexsort((-running[used], -on_path[used]))",
        "np.lexsort((on_path[used], running[used]))",
        ("tests/analyses/report/test_job_timeline.py",),
    ),
    Mutation(
        "a prefix hides its files",
        "hta_graph/chakra/et_files.py",
        'if not is_name or prefix.startswith("."):',
        "if not is_name:",
        ("tests/chakra/test_convert_command.py",),
    ),
    Mutation(
        "another program passes for a version of the first",
        "analyses/compare/diff/environment.py",
        "return min(sum(own[name]",
        "return max(sum(own[name]",
        ("tests/analyses/compare/diff/test_caveats.py",),
    ),
    Mutation(
        "a part that leaves its band by chance is said",
        "analyses/compare/diff/conclusion.py",
        "size > CERTAIN_PART_SHARE * by_name",
        "size > 0 * by_name",
        ("tests/analyses/compare/diff/test_run_diff.py",),
    ),
    Mutation(
        "an option that is not recorded is on",
        "analyses/compare/diff/environment.py",
        'trace.settings.get(key, "0")',
        'trace.settings.get(key, "1")',
        ("tests/analyses/compare/diff/test_environment.py",),
    ),
    Mutation(
        "what one side does not tell differs",
        "analyses/compare/diff/environment.py",
        "(bool(was and now) or (what",
        "(bool(was or now) or (what",
        ("tests/analyses/compare/diff/test_environment.py",),
    ),
    Mutation(
        "a faster test fails above",
        "analyses/compare/diff/regression.py",
        "return self.difference > max(",
        "return abs(self.difference) > max(",
        ("tests/analyses/cli/commands/test_diff.py",),
    ),
)
RUNS = tuple(
    Mutation(name, "hta_graph/paths/segments.py", old, new, ("tests/paths/test_segment_merging.py",))
    for name, old, new in (
        ("runs reach over classes", "columns = pieces.bound, pieces.lane,", "columns = pieces.lane,"),
        ("runs reach over lanes", "columns = pieces.bound, pieces.lane,", "columns = pieces.bound,"),
        ("runs reach over stacks", "pieces.reason, stack", "pieces.reason"),
        ("every call is told apart", "events.end - events.start >= least_ns", "events.end >= 0"),
        (
            "a run is merged over kernels",
            "(_is_never_merged(graph, pieces), pieces.event, inside)",
            "(False, 0, inside)",
        ),
        ("unexplained waits are one", "(pieces.bound == BoundBy.UNEXPLAINED) | take_or", "picked"),
        ("a run belongs to its smallest owner", "np.lexsort((-time, run))", "np.lexsort((time, run))"),
        ("a run has the edge of its first segment", "len(first)) > 0", "len(first)) < 0"),
        ("a thousandth and one more", "-(-window_ns // MERGE_RESOLUTION)", "window_ns // MERGE_RESOLUTION + 1"),
    )
)
OVERLAYS = (
    Mutation(
        "two classes look alike",
        "hta_graph/export/perfetto/path_overlay.py",
        '"loading data (data_loading)"',
        '"data_loading (data_loading)"',
        ("tests/export/perfetto/test_class_colours.py",),
    ),
    Mutation(
        "a class ends with its first run",
        "hta_graph/export/perfetto/path_overlay.py",
        "runs.end[following - 1]",
        "runs.end[begins]",
        ("tests/export/perfetto/test_path_overlay.py",),
    ),
    Mutation(
        "a call's own time is a lag",
        "hta_graph/export/perfetto/path_overlay.py",
        'return known["edge"] in LAG_KINDS and not calls',
        'return known["edge"] in LAG_KINDS',
        ("tests/export/perfetto/test_path_overlay.py",),
    ),
    Mutation(
        "only exact names are repeated",
        "analyses/source/window_report.py",
        'DIGITS.sub("#", graph.names[code])',
        "graph.names[code]",
        ("tests/paths/test_median_step.py",),
    ),
)
MEETINGS = "hta_graph/paths/rank_crossings.py"
OF_MEETINGS = ("tests/paths/test_rank_crossings.py",)
OF_VERDICTS = ("tests/multi_rank/test_job_verdict.py",)
JOBS = (
    Mutation(
        "of a job overlapping waits add up",
        "hta_graph/multi_rank/rank_delays.py",
        "longest = np.maximum.reduceat(amount[every], first)",
        "longest = np.add.reduceat(amount[every], first)",
        OF_VERDICTS,
    ),
    Mutation(
        "of a job stages wait for no reason",
        "hta_graph/multi_rank/rank_delays.py",
        "np.minimum(with_messages - by_collectives, excess[:, None, :])",
        "(with_messages - by_collectives)",
        OF_VERDICTS,
    ),
    Mutation(
        "of a job chance leads no step",
        "hta_graph/multi_rank/job_verdict.py",
        "return min(1.0, ranks * tail)",
        "return 0.0",
        OF_VERDICTS,
    ),
    Mutation(
        "of a job larger random loads are a cause",
        "hta_graph/multi_rank/job_verdict.py",
        "return len(others) >= ENOUGH and longest - max(",
        "return len(others) >= 0 or longest - max(",
        OF_VERDICTS,
    ),
    Mutation(
        "of a job steps that another rank leads are named",
        "hta_graph/multi_rank/job_verdict.py",
        "return not elsewhere.is_most or elsewhere.cause != mainly.cause",
        "return False",
        OF_VERDICTS,
    ),
    Mutation(
        "of a job everybody was passed",
        MEETINGS,
        "last = every.take(every.is_last & on_path & inside)",
        "last = every.take(every.is_last & inside)",
        ("tests/analyses/advice/test_job_rules.py", *OF_MEETINGS),
    ),
    Mutation(
        "of a job the first one counts, not the next",
        MEETINGS,
        "    np.minimum.at(margin, place[others.is_needed], (arrival[place] - others.arrival)[others.is_needed])\n",
        "    np.maximum.at(margin, place[others.is_needed], (arrival[place] - others.arrival)[others.is_needed])\n",
        OF_MEETINGS,
    ),
    Mutation(
        "of a job clocks are exact",
        MEETINGS,
        "margin > 2 * job.clock_table.error[last.part]",
        "margin > 0 * job.clock_table.error[last.part]",
        OF_MEETINGS,
    ),
    Mutation(
        "of a job nobody ends a step last",
        MEETINGS,
        "return last, max(min(end, window.end_ns) - max(before, window.start_ns), 0)",
        "return last, 0",
        OF_MEETINGS,
    ),
    Mutation(
        "of a job all GPUs count",
        "analyses/advice/facts.py",
        "on_path = when.covered_until(end) > when.covered_until(start)",
        "on_path = when.covered_until(end) >= when.covered_until(start)",
        ("tests/analyses/advice/test_job_rules.py",),
    ),
    Mutation(
        "of a job more work is a slow machine",
        "analyses/advice/job_rules.py",
        "or longer < MOST_NAMES_SHARE * len(own)",
        "or longer < 1",
        ("tests/analyses/advice/test_slow_rank_rules.py",),
    ),
    Mutation(
        "of a job one faster rank is enough",
        "analyses/advice/job_rules.py",
        "            return None\n        found.append",
        "            continue\n        found.append",
        ("tests/analyses/advice/test_slow_rank_rules.py",),
    ),
    Mutation(
        "of a job transfer is another rank's",
        "analyses/questions/idle_time.py",
        "until = np.minimum(pieces.end, take_or(waits.end, place, otherwise=0))",
        "until = np.where(place >= 0, pieces.end, 0)",
        ("tests/analyses/questions/test_blame_ranks.py",),
    ),
    Mutation(
        "of a job nothing exposed waits",
        "analyses/questions/overlap.py",
        "transfer = union(np.minimum(begins, work.end), work.end)",
        "transfer = union(work.start, work.end)",
        ("tests/analyses/questions/test_overlap.py",),
    ),
)
JOINING = ("tests/multi_rank/test_join_ranks.py", "tests/multi_rank/test_job_critical_path.py")
JOINED = (
    Mutation(
        "ranks meet before they come",
        "hta_graph/multi_rank/communication_edges.py",
        "EdgeTable.between(kind, row[comes], point[comes],",
        "EdgeTable.between(kind, point[comes], row[comes],",
        JOINING,
    ),
    Mutation(
        "nobody waits on the CPU",
        "hta_graph/multi_rank/join_ranks.py",
        "for rule in (host_communication_edges, collective_wait_edges)",
        "for rule in (host_communication_edges,)",
        JOINING,
    ),
    Mutation(
        "a receive does not wait for its send",
        "hta_graph/multi_rank/communication_edges.py",
        "ways = (send, receive), (receive[outlives], send[outlives])",
        "ways = ((receive[outlives], send[outlives]),)",
        JOINING,
    ),
    Mutation(
        "a message is received when its row begins",
        "hta_graph/multi_rank/communication_edges.py",
        "met.end[send] >= met.arrival[receive]",
        "met.end[send] >= met.start[receive]",
        ("tests/multi_rank/test_message_edges.py",),
    ),
    Mutation(
        "an operation more anywhere makes places unlike",
        "hta_graph/what_if/rank_normalization.py",
        "_call_path_keys(graph, call), take_or",
        "np.zeros(len(events), np.int64), take_or",
        ("tests/what_if/test_edge_correspondence.py",),
    ),
    Mutation(
        "which worker is free first decides the place",
        "hta_graph/what_if/rank_normalization.py",
        "np.where(lanes.is_communication, 999_999, alike)",
        "alike",
        ("tests/what_if/test_edge_correspondence.py",),
    ),
    Mutation(
        "clocks are believed to the nanosecond",
        "hta_graph/multi_rank/join_ranks.py",
        "return between.row[doubtful].astype(np.int64)",
        "return between.row[doubtful][:0].astype(np.int64)",
        JOINING,
    ),
    Mutation(
        "a window ends in a gap, not with what was waited for",
        "hta_graph/paths/windows.py",
        "sinks = [_at_awaited_communication(job, sink) for sink in sinks]",
        "sinks = [*sinks]",
        JOINING,
    ),
    Mutation(
        "iterations of a job overlap",
        "hta_graph/paths/windows.py",
        "if earlier < number",
        "if earlier <= number - 2",
        ("tests/paths/test_job_windows.py",),
    ),
    Mutation(
        "what runs on the CPU after a step is not its work",
        "hta_graph/paths/windows.py",
        "np.maximum.at(ends, of[inside], job.event_table.end[own.row[inside]])",
        "pass",
        ("tests/paths/test_job_windows.py",),
    ),
    Mutation(
        "ranks of different jobs are joined",
        "hta_graph/multi_rank/join_ranks.py",
        "    if len(sizes) > 1:\n",
        "    if len(sizes) > 9:\n",
        ("tests/multi_rank/test_hostile_jobs.py",),
    ),
)
"""What joins ranks."""

SKELETON_TESTS = ("tests/multi_rank/summary/test_critical_paths.py", "tests/multi_rank/summary/test_boundary_events.py")


def of_skeletons(name: str, file: str, old: str, new: str) -> Mutation:
    """Make a mistake in what stands for a rank."""
    return Mutation(name, file, old, new, SKELETON_TESTS)


SKELETONS = (
    of_skeletons(
        "what binds a thread is not compared with its communication",
        "hta_graph/multi_rank/summary/boundary_events.py",
        "        kept[fresh] = True\n",
        "        break\n",
    ),
    of_skeletons(
        "the next kept point is one round away",
        "hta_graph/multi_rank/summary/boundary_events.py",
        "while (leads != (further := leads[leads])).any():",
        "for further in [leads[leads]]:",
    ),
    of_skeletons(
        "clocks that go wrong between kept points are forgotten",
        "hta_graph/multi_rank/summary/boundary_events.py",
        "since - np.minimum(lowest[bound], since)",
        "0",
    ),
    of_skeletons(
        "the end of a window on a thread is nobody's",
        "hta_graph/multi_rank/summary/path_legs.py",
        "WindowLegs.join([behind.take(behind.end > behind.start), back])",
        "WindowLegs.join([behind.take(behind.end < behind.start), back])",
    ),
    of_skeletons(
        "time between ranks is lost",
        "hta_graph/multi_rank/summary/path_legs.py",
        "        if end > start:\n",
        "        if start > end:\n",
    ),
    of_skeletons(
        "windows of a skeleton are in the rank's own time",
        "hta_graph/graph/rank_summary.py",
        '"start_ns": record["start_ns"] - ahead,',
        '"start_ns": record["start_ns"],',
    ),
    of_skeletons(
        "ways of a skeleton are in the rank's own time",
        "hta_graph/multi_rank/rank_activity.py",
        "self.walks.before_ns - ahead",
        "self.walks.before_ns",
    ),
    of_skeletons(
        "ways lead to those of other ranks",
        "hta_graph/multi_rank/rank_activity.py",
        "np.where(own < size, own + first, own - size + further)",
        "np.where(own < size, own + first, own - size + further - 1)",
    ),
    of_skeletons(
        "a clock that drifts is one that is ahead",
        "hta_graph/multi_rank/matching/job_clocks.py",
        "return not self.line.drift",
        "return True",
    ),
    of_skeletons(
        "communication on the CPU is on a lane of its rank",
        "hta_graph/multi_rank/summary/critical_paths.py",
        "lane = take_or(np.concatenate([own, further]), segments.lane)",
        "lane = take_or(own, segments.lane)",
    ),
)
"""What stands for ranks where there are many."""

RANK_REPLAY_TESTS = (
    "tests/multi_rank/what_if/test_boundary_longest_paths.py",
    "tests/multi_rank/what_if/test_job_longest_paths.py",
    "tests/multi_rank/what_if/test_job_replay.py",
)


def of_ranks(name: str, file: str, old: str, new: str) -> Mutation:
    """Make a mistake in the replay of ranks one by one."""
    return Mutation(name, file, old, new, RANK_REPLAY_TESTS)


REPLAYS_OF_RANKS = (
    of_ranks(
        "every draft has a rank's first weights",
        "hta_graph/multi_rank/what_if/job_longest_paths.py",
        "own = [paths.weights[:, of[drafts]] for",
        "own = [paths.weights[:, 0 * of[drafts]] for",
    ),
    of_ranks(
        "a change that concerns nothing here is one of its own",
        "hta_graph/multi_rank/what_if/rank_replay.py",
        "if at in applicable and",
        "if at not in applicable and",
    ),
    of_ranks(
        "changes that add years are made",
        "hta_graph/multi_rank/what_if/job_replay.py",
        "check_added_time(solved.added_ns(1), self.job.path, self.window)",
        "check_added_time(0.0, self.job.path, self.window)",
    ),
    of_ranks(
        "a change is unchanged if it is on one rank",
        "hta_graph/multi_rank/what_if/job_longest_paths.py",
        "return all(draft in answer.unchanged",
        "return any(draft in answer.unchanged",
    ),
    Mutation(
        "a rank is compared with the least of the others",
        "hta_graph/what_if/rank_normalization.py",
        "totals[(len(taken) - 1) // 2]",
        "totals[0]",
        ("tests/what_if/test_rank_normalization.py",),
    ),
    Mutation(
        "what a rank does alone takes what it took",
        "hta_graph/what_if/rank_normalization.py",
        "own.weight[alone] * usual // totals[kind[alone]]",
        "own.weight[alone]",
        ("tests/what_if/test_rank_normalization.py",),
    ),
    of_ranks(
        "a message's place is that of any other",
        "hta_graph/multi_rank/what_if/job_longest_paths.py",
        "names = [job.name_of(row) for row in",
        'names = ["message" for row in',
    ),
    of_ranks(
        "a rank is asked about the others' places",
        "hta_graph/multi_rank/what_if/job_replay.py",
        "if part.index != rank_index]",
        "if part.index == rank_index]",
    ),
    of_ranks(
        "a meeting is when the first one comes",
        "hta_graph/multi_rank/what_if/job_longest_paths.py",
        "np.maximum.reduceat(reached, begins, axis=0)",
        "np.minimum.reduceat(reached, begins, axis=0)",
    ),
    of_ranks(
        "of two ways the first one counts",
        "hta_graph/multi_rank/what_if/boundary_longest_paths.py",
        "np.maximum(weight, known[0]), np.where",
        "known[0], np.where",
    ),
    of_ranks(
        "what is passed over weighs nothing",
        "hta_graph/multi_rank/what_if/boundary_longest_paths.py",
        "yield source, weight + more, among",
        "yield source, weight, among",
    ),
    of_ranks(
        "a tie is broken by what counts under another draft",
        "hta_graph/multi_rank/what_if/boundary_longest_paths.py",
        "np.where(wins, order, known[1])",
        "known[1]",
    ),
    of_ranks(
        "what is passed over stands behind all others",
        "hta_graph/multi_rank/what_if/boundary_longest_paths.py",
        "among + order * span",
        "among + own.span * span",
    ),
    of_ranks(
        "of equally late ends the last one is preferred",
        "hta_graph/multi_rank/what_if/boundary_longest_paths.py",
        "    last = len(awaited) + _deciding_ends(head[len(awaited) :], behind[len(awaited) :])\n",
        "    last = len(awaited) + _deciding_ends(head[len(awaited) :], behind[len(awaited) :])[::-1]\n",
    ),
    of_ranks(
        "every node goes",
        "hta_graph/multi_rank/what_if/boundary_longest_paths.py",
        "if not retained[node] or len(before) * len(after) > len(before) + len(after):",
        "if not retained[node]:",
    ),
    of_ranks(
        "edges from elsewhere lead there",
        "hta_graph/multi_rank/join_ranks.py",
        "EdgeTable.between(kind, own.instant + first, own.row, from_end=False, to_end=True, rule=own.rule)",
        "EdgeTable.between(kind, own.row, own.instant + first, from_end=True, to_end=False, rule=own.rule)",
    ),
    of_ranks(
        "a wait below the clocks' error is one",
        "hta_graph/multi_rank/what_if/job_longest_paths.py",
        "is_doubtful=doubtful[edges.row[at]],",
        "is_doubtful=False,",
    ),
    of_ranks(
        "of equally late ranks the earliest is preferred",
        "hta_graph/multi_rank/what_if/job_longest_paths.py",
        "np.lexsort((-position, number))",
        "np.lexsort((position, number))",
    ),
    of_ranks(
        "what is preferred comes last",
        "hta_graph/multi_rank/what_if/job_longest_paths.py",
        "np.argmin(order[late])",
        "np.argmax(order[late])",
    ),
    of_ranks(
        "what others decide is that of the first draft",
        "hta_graph/multi_rank/what_if/job_longest_paths.py",
        "self.values(draft)[self._nodes_of_incoming(rank_index)] + start_ns",
        "self.values(0)[self._nodes_of_incoming(rank_index)] + start_ns",
    ),
    of_ranks(
        "a path is that of the first draft",
        "hta_graph/multi_rank/what_if/job_longest_paths.py",
        "edges, values = self._edges, self.values(draft)",
        "edges, draft, values = self._edges, 0, self.values(0)",
    ),
    of_ranks(
        "a path is told of what was recorded",
        "hta_graph/multi_rank/what_if/rank_replay.py",
        "self._replay.path_totals(self._draft(path.draft), incoming_ns, legs)",
        "self._replay.path_totals(self._draft(-1), incoming_ns, legs)",
    ),
    of_ranks(
        "ranks do not agree how a pattern is read",
        "hta_graph/multi_rank/what_if/job_replay.py",
        "if until <= self._until and agreed is None:",
        "if until <= self._until:",
    ),
    of_ranks(
        "any rank is the last one",
        "hta_graph/multi_rank/what_if/job_longest_paths.py",
        "last = self._recorded_last if self._recorded_last in latest else latest[0]",
        "last = latest[0]",
    ),
    of_ranks(
        "a window ends on each rank as on the last one",
        "hta_graph/multi_rank/what_if/rank_replay.py",
        "    if not request.is_last:\n",
        "    if False:\n",
    ),
    of_ranks(
        "what is usual is that of all ranks",
        "hta_graph/what_if/replay_graph.py",
        "_usual_lags_of_rank(first, measured[rows], binds[rows])",
        "_usual_lags_of_rank(alike[0][1], measured[alike[0][0]], binds[alike[0][0]])",
    ),
    of_ranks(
        "what a stream goes on with is not looked at",
        "hta_graph/multi_rank/what_if/rank_replay.py",
        "return np.flatnonzero(~(keeps & counts)[sink.ends])",
        "return np.flatnonzero(~counts[sink.ends])",
    ),
)
"""What tells how ranks depend on each other, and joins it."""

CHANGES = (
    Mutation(
        "a wait that stays is removed with those that read values",
        "analyses/advice/host_rules.py",
        "classify_waits(facts, calls)[0])",
        "classify_waits(facts, calls)[1])",
        ("tests/analyses/advice/test_savings.py",),
    ),
    Mutation(
        "a rank that holds up the job would save what communication takes",
        "analyses/advice/job_rules.py",
        'scenario("rank_like_others", evidence["rank"])',
        'scenario("communication_free")',
        ("tests/analyses/advice/test_savings.py",),
    ),
    Mutation(
        "edges with own weights keep the lengths of their parts",
        "hta_graph/what_if/modified_window.py",
        "return _lengthened_parts(length, edge, np.append(by, np.zeros(len(self.base.ends), np.int64))[edge])",
        "return length",
        ("tests/what_if/test_replay.py",),
    ),
    Mutation(
        "changes may add more time than can be counted",
        "hta_graph/what_if/modified_window.py",
        "    if not added_ns <= LONGEST_NS:",
        "    if added_ns == -1:",
        ("tests/what_if/test_replay.py",),
    ),
    Mutation(
        "the first equal sign ends a name",
        "analyses/cli/commands/what_if.py",
        'text.rpartition("=")',
        'text.partition("=")',
        ("tests/analyses/questions/test_what_if.py",),
    ),
    Mutation(
        "what comes next is told of the thing that was changed",
        "analyses/questions/what_if.py",
        "replayed.draft.factor != 1.0",
        "replayed.draft.factor == 1.0",
        ("tests/analyses/questions/test_what_if.py",),
    ),
    Mutation(
        "graphs replace a host that launches nothing",
        "hta_graph/what_if/scenarios.py",
        "if not len(draft.base.graph.edges_of(EdgeKind.LAUNCH)):",
        "if False:",
        ("tests/analyses/questions/test_what_if.py",),
    ),
)
"""Mistakes in what changes would gain."""

REPLAY = tuple(
    f"tests/what_if/test_{name}.py" for name in ("longest_paths", "replay", "scenarios", "sensitivity", "slack")
)
REPLAYED = (
    Mutation(
        "waits are replayed twice",
        "hta_graph/what_if/replay_graph.py",
        "ON_LANE_KINDS[edges.kind], measured[bound_by],",
        "ON_LANE_KINDS[edges.kind], measured,",
        REPLAY,
    ),
    Mutation(
        "what did not bind keeps its measured lag",
        "hta_graph/what_if/replay_graph.py",
        "np.where(binds, measured, np.minimum(measured, least))",
        "np.where(binds, measured, measured)",
        REPLAY,
    ),
    Mutation(
        "a point without a cause keeps its time",
        "hta_graph/what_if/replay_graph.py",
        "source = self._preceding_points(target)",
        "source = np.full(len(target), self.start_point, np.int32)",
        REPLAY,
    ),
    Mutation(
        "work of an earlier step changes too",
        "hta_graph/what_if/replay_graph.py",
        "~self.graph.is_activity | (issue_times(self.graph) >= since)",
        "~self.graph.is_activity | (issue_times(self.graph) >= -1)",
        REPLAY,
    ),
    Mutation(
        "a window ends where it ended",
        "hta_graph/what_if/replay_graph.py",
        "group.max(axis=1) for group in groups",
        "group[:, -1] for group in groups",
        REPLAY,
    ),
    Mutation(
        "removed work is still launched",
        "hta_graph/what_if/changes.py",
        "owners |= _calls_without_work(draft, owners)",
        "owners = owners.copy()",
        REPLAY,
    ),
    Mutation(
        "an insertion comes after",
        "hta_graph/what_if/changes.py",
        "side, points = (edges.target, start_point(rows)) if self.before",
        "side, points = (edges.source, end_point(rows)) if self.before",
        REPLAY,
    ),
    Mutation(
        "the earliest cause decides",
        "hta_graph/what_if/longest_paths.py",
        "latest if latest >= end else end",
        "latest if latest <= end else end",
        REPLAY,
    ),
    Mutation(
        "cycles of chains are found no more",
        "hta_graph/what_if/longest_paths.py",
        "            if not ready.any():\n                raise",
        "            if not ready.any():\n                break\n                raise",
        REPLAY,
    ),
    Mutation(
        "a curve has two lines at most",
        "hta_graph/what_if/sensitivity.py",
        "            pending += [((at, between), (low, last)), ((high, first), (at, between))]",
        "            found.append(last)",
        REPLAY,
    ),
    Mutation(
        "tails have no slack",
        "hta_graph/what_if/slack.py",
        "np.append(edges.weight, tails), start)",
        "np.append(edges.weight, 0 * tails), start)",
        REPLAY,
    ),
    Mutation(
        "the other ranks' median is one's own",
        "hta_graph/what_if/scenarios.py",
        "for part in graph.rank_graphs if part.index != place]",
        "for part in graph.rank_graphs if part.index == place]",
        REPLAY,
    ),
    Mutation(
        "steps of other shapes are compared",
        "hta_graph/what_if/rank_normalization.py",
        "hash_rows(alike, among, nth)",
        "hash_rows(alike, nth)",
        REPLAY,
    ),
)

WORKLOAD = (
    "tests/chakra/test_nodes.py", "tests/chakra/test_et_files.py",
    "tests/chakra/test_communications.py", "tests/chakra/test_replay_fidelity.py",
    "tests/chakra/test_dependency_cycles.py",
)  # fmt: skip


def of_workloads(name: str, file: str, old: str, new: str) -> Mutation:
    """Make a mistake in what simulators are given."""
    return Mutation(name, file, old, new, WORKLOAD)


def of_checks(name: str, file: str, old: str, new: str) -> Mutation:
    """Make a mistake in a rule of the linter of workloads."""
    tests = ("tests/chakra/test_check.py",)
    return Mutation(name, file, old, new, tests)


def of_meetings(name: str, file: str, old: str, new: str) -> Mutation:
    """Make a mistake in communication that is as recorded, or on CPUs."""
    tests = ("tests/chakra/test_matched_communications.py",)
    return Mutation(name, file, old, new, tests)


MEETINGS = (
    of_meetings(
        "a byte is gathered",
        "hta_graph/chakra/comm_attributes.py",
        "max(size, MIN_ALL_GATHER_BYTES)",
        "max(size, 0)",
    ),
    of_meetings(
        "a meeting takes the transfer's time too",
        "hta_graph/chakra/comm_attributes.py",
        'graph.name_of(item.event)}", 0',
        'graph.name_of(item.event)}", transfer',
    ),
    of_meetings(
        "a transfer waits for no meeting",
        "hta_graph/chakra/comm_attributes.py",
        "(between, last[order[between]])",
        "(between, between)",
    ),
    of_meetings(
        "meetings are in no order",
        "hta_graph/chakra/matched_communications.py",
        "return item.peer < 0 and not item.peers",
        "return item.match < 0",
    ),
    of_meetings(
        "unknown means known where one rank knows",
        "hta_graph/chakra/matched_communications.py",
        "needs = self.any_event_in(unknown) or any(",
        "needs = any(",
    ),
    of_meetings(
        "in a broadcast all wait for all",
        "hta_graph/chakra/matched_communications.py",
        "if len(roots) != 1 or",
        "if True or",
    ),
    of_meetings(
        "messages of one thread follow each other",
        "hta_graph/chakra/nodes.py",
        "return source[~beside], target[~beside]",
        "return source, target",
    ),
    of_meetings(
        "workers are threads that work",
        "hta_graph/chakra/rank_workload.py",
        "rows = np.flatnonzero(self.on_cpu & ~self._is_message)",
        "rows = np.flatnonzero(self.on_cpu)[:0]",
    ),
    of_meetings(
        "a caller never waits for its collective",
        "hta_graph/multi_rank/join_ranks.py",
        "EdgeTable.join([host_communication_edges(graph, work), collective_wait_edges(graph, work)])",
        "host_work_edges(graph, work)",
    ),
    of_meetings(
        "what two workers do at once counts twice",
        "hta_graph/chakra/comm_attributes.py",
        "work[at] = min(work[at], max(left, 0))",
        "pass",
    ),
    of_meetings(
        "a rank ends with a message",
        "hta_graph/chakra/et_nodes.py",
        "if times.closing or self._final_messages:",
        "if times.closing:",
    ),
    of_meetings(
        "a message arrives when it is sent",
        "hta_graph/chakra/astra_sim_executor.py",
        "if at in self._programs[rank].transfers:",
        "if False:",
    ),
    of_meetings(
        "collectives take their shortest time on all ranks",
        "hta_graph/chakra/astra_sim_executor.py",
        "duration[at] if known else shortest",
        "duration[at] if not known else shortest",
    ),
)

WORKLOADS = (
    of_workloads(
        "launches have no latency",
        "hta_graph/chakra/replay_times.py",
        "nodes.start - usual)",
        "nodes.start - 0 * usual)",
    ),
    of_workloads(
        "a kernel waits for its call's return",
        "hta_graph/chakra/nodes.py",
        "self.segment_before(calls, at_end=self._launches_late[calls])",
        "self.segment_before(calls, at_end=True)",
    ),
    of_workloads(
        "modules are loaded while the CPU goes on",
        "hta_graph/chakra/nodes.py",
        "LONG_CALL_NS = 20_000",
        "LONG_CALL_NS = 1 << 60",
    ),
    of_workloads(
        "delays do not wait for their slot",
        "hta_graph/chakra/replay_times.py",
        "after[at] = idle, holder",
        "after[at] = idle, -1",
    ),
    of_workloads(
        "streams go by time where clocks disagree",
        "hta_graph/chakra/nodes.py",
        "return activities[order[",
        "return activities[by_place[",
    ),
    of_workloads(
        "launches wait for what is inside their call",
        "hta_graph/chakra/nodes.py",
        "(end == begin + 1) & ",
        "",
    ),
    of_workloads(
        "launches without an edge are waited for",
        "hta_graph/chakra/nodes.py",
        "(cpu.launching_segment(launch.source), node[launch.target]),",
        "(cpu.launching_segment(graph.launching_call[activities]), node[activities]),",
    ),
    of_workloads(
        "a backward operator begins no piece",
        "hta_graph/chakra/nodes.py",
        "            self._places_of(needed.target, at_end=needed.to_end),\n",
        "",
    ),
    of_workloads(
        "threads that do no work are held",
        "hta_graph/chakra/nodes.py",
        "(source >= 0) & (target >= 0)",
        "(source >= 0) & (target >= -1)",
    ),
    of_workloads(
        "tensors are ready by time alone",
        "hta_graph/chakra/host_tensors.py",
        " & (place[source] < place[target])",
        "",
    ),
    of_workloads(
        "a circle of nodes is laid on collectives",
        "hta_graph/chakra/nodes.py",
        "if circle := find_cycle(",
        "if False and find_cycle(",
    ),
    of_checks(
        "nodes of any length pass",
        "hta_graph/chakra/check.py",
        "length > MAX_NODE_NS",
        "length > 2**80",
    ),
    of_checks(
        "ranks of any length pass",
        "hta_graph/chakra/check.py",
        "total <= longest_rank < total",
        "total <= 2**80 < total",
    ),
    of_checks(
        "sizes pass that never end",
        "hta_graph/chakra/check.py",
        "MAX_COMM_BYTES = 2**53",
        "MAX_COMM_BYTES = 2**64",
    ),
    of_checks(
        "tags pass that meet wrong partners",
        "hta_graph/chakra/check.py",
        "MAX_TAG = 2**31 - 1",
        "MAX_TAG = 2**31",
    ),
    of_checks(
        "groups pass at which readers throw",
        "hta_graph/chakra/check.py",
        "<= int(key) < 2**31",
        "<= int(key) < 2**32",
    ),
    of_workloads(
        "the end is early",
        "hta_graph/chakra/et_nodes.py",
        "if times.closing or self._final_messages:",
        "if self._final_messages:",
    ),
    of_workloads(
        "short delays are lost",
        "hta_graph/chakra/replay_times.py",
        "ended[at] = begin + took[at]",
        "ended[at] = max(begin, starts[at]) + took[at]",
    ),
    of_workloads("host nodes go on over launches", "hta_graph/chakra/nodes.py", "& ~gives[previous] &", "&"),
    of_workloads("host nodes go on over waits", "hta_graph/chakra/nodes.py", " & ~takes[following]", ""),
    of_workloads(
        "the host works where nobody waits for it",
        "hta_graph/chakra/nodes.py",
        "(contracted.slot != CPU) | _awaited",
        "(contracted.slot != 9) | _awaited",
    ),
    of_workloads(
        "communication lasts as long as its wait",
        "hta_graph/chakra/astra_sim_executor.py",
        "duration[at] = transfer\n",
        "pass\n",
    ),
    of_workloads(
        "overlap is taken away unasked",
        "hta_graph/chakra/rank_workload.py",
        'options.overlap == "share"',
        "True",
    ),
    of_workloads(
        "nodes are rounded one by one",
        "hta_graph/chakra/replay_times.py",
        "np.diff((np.cumsum(work[order]) + 500) // 1000, prepend=0)",
        "(work[order] + 500) // 1000",
    ),
)

NAMED = ("tests/analyses/cli/test_path_args.py",)
TARGETS = ("tests/base/storage/test_output_paths.py",)
WRITTEN = ("tests/base/storage/test_atomic_write.py",)
ENDINGS = ("tests/analyses/cli/test_signals.py",)
WRITING = (
    Mutation(
        "nobody looks at the files that are named",
        "analyses/cli/main.py",
        "        check_paths(options)\n",
        "",
        NAMED,
    ),
    Mutation(
        "an empty name is a name",
        "analyses/cli/path_args.py",
        "        if not text:",
        "        if text is None:",
        NAMED,
    ),
    Mutation(
        "dumps beside the traces are no inputs",
        "analyses/cli/path_args.py",
        'f"{FLIGHT_FOLDER}/*"',
        'f"{FLIGHT_FOLDER}"',
        NAMED,
    ),
    Mutation(
        "counters replace what is in their folder",
        "analyses/cli/commands/strip_and_counters.py",
        "    check_outputs(targets, input_files(options))\n",
        "",
        NAMED,
    ),
    Mutation(
        "an input is known by its name alone",
        "hta_graph/base/storage/output_paths.py",
        "    if _identity(place) in inputs:",
        "    if place in inputs:",
        TARGETS,
    ),
    Mutation(
        "a folder is replaced with a link to an input",
        "hta_graph/base/storage/output_paths.py",
        "{named.parent, Path(",
        "{Path(",
        TARGETS,
    ),
    Mutation(
        "a folder is replaced with an input far below",
        "hta_graph/base/storage/output_paths.py",
        "(folder, *folder.parents)",
        "(folder,)",
        TARGETS,
    ),
    Mutation(
        "two outputs are one under two names",
        "hta_graph/base/storage/output_paths.py",
        "        return there == _identity(yours)",
        "        return mine == yours",
        TARGETS,
    ),
    Mutation(
        "two names that a disk takes for one",
        "hta_graph/base/storage/output_paths.py",
        "mine.name == yours.name or _is_same_name(mine.name, yours.name, mine.parent)",
        "mine.name == yours.name",
        TARGETS,
    ),
    Mutation(
        "a circle of links is a file",
        "hta_graph/base/storage/output_paths.py",
        "    place = path.absolute()\n    for",
        "    place = path.absolute()\n    return place\n    for",
        TARGETS,
    ),
    Mutation(
        "what came in the meantime is deleted",
        "hta_graph/base/storage/atomic_write.py",
        "            check()\n",
        "",
        WRITTEN,
    ),
    Mutation(
        "what is unfinished stays",
        "hta_graph/base/storage/atomic_write.py",
        "        remove(part)\n        del",
        "        del",
        WRITTEN,
    ),
    Mutation(
        "what is unfinished is not noted",
        "hta_graph/base/storage/atomic_write.py",
        "    _unfinished[part] = lambda: remove(part)\n",
        "    _unfinished[part] = lambda: None\n",
        WRITTEN,
    ),
    Mutation(
        "an earlier folder's rights go with it",
        "hta_graph/base/storage/atomic_write.py",
        "new.chmod(place.stat().st_mode & 0o777)",
        "new.chmod(0o755)",
        WRITTEN,
    ),
    Mutation(
        "who was faster wins",
        "hta_graph/base/storage/atomic_write.py",
        "if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):",
        "if error.errno:",
        WRITTEN,
    ),
    Mutation(
        "apostrophes are taken off names that had them",
        "hta_graph/base/text/csv_text.py",
        "\\r\\n']|",
        "\\r\\n]|",
        ("tests/base/text/test_csv_text.py",),
    ),
    Mutation(
        "a column with a number holds no text",
        "hta_graph/base/text/csv_text.py",
        "if str in set(map(type, column))",
        "if {str} == set(map(type, column))",
        ("tests/base/text/test_csv_text.py",),
    ),
    Mutation(
        "a terminal that closes ends nothing",
        "analyses/cli/signals.py",
        '"SIGTERM", "SIGHUP")',
        '"SIGTERM")',
        ENDINGS,
    ),
    Mutation(
        "readers outlive the program",
        "analyses/cli/signals.py",
        "                os.kill(child, signal.SIGKILL)",
        "                os.kill(child, 0)",
        ENDINGS,
    ),
    Mutation(
        "an answer into a closed stream is given",
        "analyses/cli/signals.py",
        "(1, os.O_RDONLY)",
        "(1, os.O_WRONLY)",
        ENDINGS,
    ),
    Mutation(
        "nohup is of no use",
        "analyses/cli/signals.py",
        " and signal.getsignal(number) is not signal.SIG_IGN",
        "",
        ENDINGS,
    ),
)
"""Where outputs go, and how the program ends."""

MUTATIONS = (
    *removed_rules(), *swapped_edges(), *MISTAKES, *COLUMNS, *RUNS, *OVERLAYS, *PAGES, *JOBS, *JOINED, *ORACLE,
    *SIMULATORS,
    *SHARING,
    *CHANGES,
    *REPLAYED,
    *WORKLOADS,
    *MEETINGS,
    *WRITING,
    *SKELETONS,
    *REPLAYS_OF_RANKS,
)  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """Which test noticed a mutation, if any, and after how long."""

    mutation: str
    killer: str | None
    seconds: float
    told: str = ""

    def __str__(self) -> str:
        return f"{self.mutation:<48} {self.killer or 'SURVIVED':<100} {self.seconds:>5.0f} s"


def copy_of_the_tree(folder: Path, origin: Path = ROOT) -> Path:
    """Copy what the tests need, so that the copy's own package is the one that they import."""
    for name in COPIED:
        shutil.copytree(origin / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(origin / name, folder)
    return folder


def judge(mutation: Mutation | None, origin: Path, tests: Sequence[str]) -> Verdict:
    """Run the tests against a mutated copy, deep ones if no quick one notices; without a mutation they must pass."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        root = copy_of_the_tree(Path(folder), origin)
        if mutation is not None:
            mutation.apply(root)
        killer, told = first_failure(root, tests, "not slow")
        if killer is None and mutation is not None:
            killer, told = first_failure(root, tests, "slow")
    return Verdict(mutation.name if mutation else "(no mutation)", killer, time.perf_counter() - begin, told)


def first_failure(root: Path, tests: Sequence[str], marked: str) -> tuple[str | None, str]:
    """Return the first test that fails of those with a mark, and pytest's output."""
    plugins = ["-p", "no:cacheprovider", "-p", "tests.mutations"]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-m", marked, *plugins, *tests]
    environment = os.environ | {"HTA_GRAPH_SHARED": str(SHARED), "PYTHONPATH": str(root)}
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no end after {TIME_LIMIT_S} s", ""
    if done.returncode in (0, NO_TESTS):
        return None, done.stdout
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return (found[1] if found else f"pytest status {done.returncode}"), done.stdout + done.stderr


def main() -> int:
    """Judge all mutations, or those whose name holds a word; print the table."""
    parser = argparse.ArgumentParser(description="Break the package on purpose and see which test notices.")
    parser.add_argument("--only", default="", metavar="WORD", help="only the mutations whose name or file holds this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tests", nargs="+", help="let these notice instead of each mutation's own")
    options = parser.parse_args()
    chosen = [mutation for mutation in MUTATIONS if options.only in f"{mutation.name} {mutation.file}"]
    if stale := stale_texts(chosen):
        sys.stdout.write("\n".join(stale) + "\n")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        origin = copy_of_the_tree(Path(folder) / "origin")
        return report(chosen, origin, options.tests, options.jobs)


def stale_texts(chosen: Sequence[Mutation]) -> list[str]:
    """Name the mutations whose text is not in its file exactly once, with the number of times that it is."""
    counts = {mutation: (ROOT / mutation.file).read_text().count(mutation.old) for mutation in chosen}
    return [f"{mutation.name}: {count} times in {mutation.file}" for mutation, count in counts.items() if count != 1]


def report(chosen: Sequence[Mutation], origin: Path, tests: Sequence[str] | None, jobs: int) -> int:
    """Judge the mutations and print a line for each; return the exit status."""
    every = tests or sorted({path for mutation in chosen for path in mutation.tests})
    whole = judge(None, origin, every)
    if whole.killer:
        sys.stdout.write(f"{whole}\n{whole.told}\n")
        return 2
    survivors = 0
    with ThreadPoolExecutor(jobs) as pool:
        for verdict in pool.map(lambda mutation: judge(mutation, origin, tests or mutation.tests), chosen):
            survivors += verdict.killer is None
            sys.stdout.write(f"{verdict}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(chosen) - survivors} of {len(chosen)} mutations killed; whole, the tests pass\n")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
