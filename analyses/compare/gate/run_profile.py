"""What a comparison needs of a run, small enough to keep: lengths of steps, paths by class and name, kernels in order.

Traces and baseline files both become profiles, so that a comparison with a file gives what one with its traces gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
import pandas as pd

from analyses.compare.diff.change_tables import class_times, event_times
from analyses.compare.diff.comparable_names import OTHERS, portable_name, without_compiler_numbers
from analyses.compare.diff.environment import Inputs, facts_of_run, inputs_of, operator_times
from analyses.compare.diff.job_diff import BETWEEN
from analyses.compare.diff.job_side import CAUSE_KEYS, GROUP_KEYS, JobRows, JobSide, listed_steps, side_of_job
from analyses.compare.diff.kernels_in_order import EnqueuedWork
from analyses.compare.diff.length_comparison import outermost_operators
from analyses.compare.diff.regression import Setting
from analyses.compare.diff.sides import Lengths, Side, sides_of_steps
from analyses.compare.diff.step_kinds import StepContents
from analyses.declare.scope import Scope
from analyses.questions.memory_timeline import allocations
from hta_graph.attribution.call_paths import CallPaths
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, Ints
from hta_graph.multi_rank.job_verdict import JobVerdict
from hta_graph.paths.step_table import SIGNATURES, are_recurring, numbered_kinds
from hta_graph.paths.windows import StepLength, Window, WindowForm, step, step_lengths
from hta_graph.what_if.bounds import Bounds

METRIC_LABELS = {
    "iteration": "iteration time",
    "critical-path": "latency",
    "exposed-communication": "exposed communication",
    "gpu-busy": "GPU busy time",
    "gpu-idle": "GPU idle time",
    "memory": "peak memory",
}
"""What is compared, as sentences name it."""

LEAST_OF_ROWS = 0.001
"""Names with less than this share of a run's critical paths are added up: no regression of a percent is one of them."""
MOST_NAMES = 400
AROUND_UNITS = 2
"""How many of the operators around a kernel distinguish it from others of its name."""
NO_VERDICT = JobVerdict(scope="all_steps", reason="no_waiting")


@dataclass(frozen=True)
class UnitsInOrder:
    """Pieces of work of the usual step in the program's order: the unit of each, and its length (ns).

    ``units`` are their names, ``is_communication`` marks those of them that talk to other ranks.
    """

    units: tuple[str, ...]
    is_communication: Bools
    code: Ints
    ns: Ints


@dataclass(frozen=True)
class RunProfile:
    """One recording of a run: a rank, or a job.

    ``side`` has the lengths of the steps and the rows of their paths, ``metrics`` other figures of the steps with rows
    (ns or bytes), ``latencies_ns`` those of all steps, ``first_ns`` that of a first step that is not compared.
    ``inputs`` are the types and shapes of operators, ``operators`` their time by name in the usual step. The contents,
    inputs, operators and units are those of ``of_rank``.
    """

    side: JobSide
    facts: Mapping[str, str | None]
    inputs: Inputs
    operators: Mapping[str, int]
    contents: StepContents
    kernels: UnitsInOrder
    host: UnitsInOrder
    latencies_ns: tuple[int, ...] = ()
    metrics: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    of_rank: int = 0
    first_ns: int | None = None

    @property
    def setting(self) -> Setting:
        """What it must share with a run that it is compared with."""
        ranks = frozenset(self.side.files) - frozenset(self.side.missing)
        return Setting(self.facts, self.operators, ranks, self.side.world_size)


def profile_of(
    graph: DependencyGraph, of_rank: DependencyGraph | None = None, form: WindowForm = "usual"
) -> RunProfile:
    """Return the profile of a rank or a job.

    Args:
        graph: of the rank or the job.
        of_rank: of a job one rank in full, which shows kinds of steps, kernels and the environment.
        form: compare the steps on the CPU, or (else) their iterations.
    """
    if of_rank is not None:
        (rank,) = sides_of_steps((of_rank,), (), form)
        side = replace(side_of_job(graph, None, (), form), steps=())
        windows = [step(number, cpu_window=form == "cpu")(graph) for number in side.path_numbers if number >= 0]
    else:
        (rank,) = sides_of_steps((graph,), (), form)
        side = _side_of_rank(rank)
        windows = [rank.paths[at].window for at in listed_steps(rank.lengths_ns).tolist()]
    scope = rank.scope
    return RunProfile(
        side=replace(side, rows=portable_rows(side.rows)),
        facts={what: fact for what, fact in facts_of_run(rank.graph).items() if fact is not None},
        inputs=inputs_of(scope),
        operators=_largest_operators(operator_times(scope)),
        contents=_contents(rank, side),
        kernels=_kernels(scope),
        host=_host_units(scope),
        latencies_ns=_latencies(graph, side),
        metrics=_metrics(graph, windows, rank, side),
        of_rank=rank.graph.rank or 0,
        first_ns=_first_step(graph, side),
    )


def _first_step(graph: DependencyGraph, side: JobSide) -> int | None:
    """Return the latency of the first step where it warms up; None where it is compared."""
    first = next(iter(step_lengths(graph)), None)
    return None if first is None or first.number in side.numbers.tolist() else first.latency_ns


def _side_of_rank(side: Side) -> JobSide:
    """Return what is kept of a rank's steps."""
    graph, listed = side.graph, listed_steps(side.lengths_ns).tolist()
    paths = [side.paths[at] for at in listed]
    rank = graph.rank or 0
    host = graph.trace.settings.get("host_name")
    return JobSide(
        files={rank: graph.path},
        hosts={rank: host} if host else {},
        world_size=graph.trace.world_size,
        rows=JobRows(len(paths), class_times(paths), event_times(paths), *_no_rows_of_ranks()),
        missing=(),
        verdict=NO_VERDICT,
        path_numbers=tuple(side.numbers[listed].tolist()),
        **{one.name: getattr(side, one.name) for one in fields(Lengths)},
    )


def _no_rows_of_ranks() -> list[pd.DataFrame]:
    keys = (["rank"], CAUSE_KEYS, GROUP_KEYS)
    frames = [pd.DataFrame({name: [] for name in ["window", *own, "ns"]}) for own in keys]
    return [frames[0].assign(caused_ns=[]), *frames[1:]]


def portable_rows(rows: JobRows) -> JobRows:
    """Return rows with portable names, those with little time added up."""
    names = rows.names.assign(name=rows.names["name"].map(portable_name))
    causes = rows.causes
    if len(causes):
        renamed = {
            key: causes[key].map(lambda name: without_compiler_numbers(portable_name(name))) for key in CAUSE_KEYS[1:3]
        }
        causes = _largest(causes.assign(**renamed), CAUSE_KEYS, ["ns"], "name")
    return replace(rows, names=_largest(names, ["name", "bound_by"], ["calls", "ns"], "name"), causes=causes)


def _largest(rows: pd.DataFrame, keys: list[str], values: list[str], name: str) -> pd.DataFrame:
    """Add up the rows of each window whose names have little of the time of all windows."""
    totals = rows.groupby(name)["ns"].sum().sort_values(ascending=False, kind="stable")
    kept = totals[totals >= LEAST_OF_ROWS * totals.sum()].index[:MOST_NAMES]
    named = rows.assign(**{name: rows[name].where(rows[name].isin(kept), OTHERS)})
    return named.groupby(["window", *keys], sort=True)[values].sum().reset_index()


def _largest_operators(times: Mapping[str, int]) -> dict[str, int]:
    """Return the operators with most time, by portable name."""
    found: Counter[str] = Counter()
    for name, ns in times.items():
        found[portable_name(name)] += ns
    least = LEAST_OF_ROWS * found.total()
    return {
        name: ns for name, ns in sorted(found.items(), key=lambda one: (-one[1], one[0]))[:MOST_NAMES] if ns >= least
    }


def _contents(rank: Side, side: JobSide) -> StepContents:
    """Return what each compared step contains, as the rank shows it; of a kind that recurs what its first one has."""
    place = {number: at for at, number in enumerate(rank.numbers.tolist())}
    if not all(number in place for number in side.numbers.tolist()):
        return StepContents((None,) * len(side.numbers))
    found = StepContents.of(rank.scopes).take([place[number] for number in side.numbers.tolist()])
    return recurring(found)


def recurring(found: StepContents) -> StepContents:
    """Return contents by their first step of each kind; without any where kinds do not recur."""
    contents = [_summed_content(content) for content in found.contents]
    for at, signature in enumerate(SIGNATURES):
        number, examples = numbered_kinds(contents, signature) if contents else (np.zeros(0, np.int64), [])
        if contents and are_recurring(examples, contents):
            return StepContents(found.phases, tuple(examples[one] for one in number.tolist()), at)
    return StepContents(found.phases)


def _summed_content(content: Mapping[str, tuple[int, int, bool]]) -> dict[str, tuple[int, int, bool]]:
    found: dict[str, tuple[int, int, bool]] = {}
    for name, (count, ns, on_gpu) in content.items():
        known = found.get(portable_name(name), (0, 0, False))
        found[portable_name(name)] = (known[0] + count, known[1] + ns, on_gpu)
    return found


def _kernels(scope: Scope) -> UnitsInOrder:
    """Return what the usual step enqueues; without a GPU the calls of its collectives."""
    paths = CallPaths()
    work = EnqueuedWork.with_host_collectives(scope, paths)
    graph = scope.graph
    pairs, code = np.unique(work.path.astype(np.int64) << 32 | work.name, return_inverse=True)
    names = [
        f"{portable_name(graph.names[pair & 0xFFFFFFFF])}{IN_CALL_PATH}{_innermost(paths.label(pair >> 32))}"
        for pair in pairs.tolist()
    ]
    marked = graph.event_flags.communicates[work.row] if len(scope.work) else np.ones(len(work.row), np.bool_)
    return _units(names, code.reshape(-1), work.length, marked)


IN_CALL_PATH = " in "
"""Between the name of a unit and the operators around it."""


def _innermost(label: str) -> str:
    return portable_name(BETWEEN.join(label.split(BETWEEN)[-AROUND_UNITS:]))


def _host_units(scope: Scope) -> UnitsInOrder:
    """Return the outermost operators of the usual step in order of time."""
    events, names = scope.graph.event_table, scope.graph.names
    rows = outermost_operators(scope)
    rows = rows[np.argsort(events.start[rows], kind="stable")]
    codes, place = np.unique(events.name[rows], return_inverse=True)
    lengths = events.end[rows] - events.start[rows]
    return _units(
        [portable_name(names[code]) for code in codes.tolist()],
        place.reshape(-1),
        lengths,
        np.zeros(len(rows), np.bool_),
    )


def _units(names: Sequence[str], code: Ints, ns: Ints, communicates: Bools) -> UnitsInOrder:
    """Return units with portable names, in the order of these."""
    portable = [without_compiler_numbers(name) for name in names]
    known = {name: at for at, name in enumerate(sorted(set(portable)))}
    number = np.array([known[name] for name in portable], np.int64)[code] if len(code) else np.zeros(0, np.int64)
    tells = np.zeros(len(known), np.bool_)
    tells[number] = communicates
    return UnitsInOrder(tuple(known), tells, number, ns.astype(np.int64))


def _latencies(graph: DependencyGraph, side: JobSide) -> tuple[int, ...]:
    known: dict[int, StepLength] = {one.number: one for one in step_lengths(graph)}
    return tuple(known[number].latency_ns if number in known else 0 for number in side.numbers.tolist())


METRICS: Mapping[str, Callable[[Bounds], int]] = {
    "exposed-communication": lambda bounds: bounds.communication_ns,
    "gpu-busy": lambda bounds: bounds.length_ns - bounds.gpu_idle_ns,
    "gpu-idle": lambda bounds: bounds.gpu_idle_ns,
}


def _metrics(
    graph: DependencyGraph, windows: Sequence[Window], rank: Side, side: JobSide
) -> dict[str, tuple[int, ...]]:
    """Return further figures of the steps with rows; none of what was not recorded."""
    bounds = [Bounds.of(graph, window) for window in windows]
    found: dict[str, tuple[int, ...]] = {}
    if bounds and bounds[0].has_gpu_rows:
        found = {name: tuple(figure(one) for one in bounds) for name, figure in METRICS.items()}
    scopes = dict(zip(rank.numbers.tolist(), rank.scopes, strict=True))
    if all(number in scopes for number in side.path_numbers):
        memory = _peak_memory([scopes[number] for number in side.path_numbers])
        found |= {"memory": memory} if memory else {}
    return found


def _peak_memory(scopes: Sequence[Scope]) -> tuple[int, ...]:
    """Return the highest memory of each step, on the device with most; none where not every step records it."""
    recorded: dict[int, dict[str, int]] = {}
    for item in allocations(scopes):
        recorded.setdefault(id(item.scope), {})[item.device] = item.peak[0]
    common = set.intersection(*(set(recorded.get(id(scope), ())) for scope in scopes)) if scopes else set()
    devices = {name for name in common if not name.startswith("CPU")} or common
    return tuple(max(recorded[id(scope)][name] for name in devices) for scope in scopes) if devices else ()
