"""Named scenarios: common changes, each with its assumptions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hta_graph.base.arrays import freeze, take_or
from hta_graph.base.errors import QueryError, UsageError
from hta_graph.base.text.shorten import shorten_middle, suggest_known
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.graph.points import is_end
from hta_graph.model import Bools, BoundBy, EdgeKind, EdgeRole, Floats, Ids, Ints, edge_kinds
from hta_graph.paths.host_pauses import time_in_pauses
from hta_graph.paths.start_up import time_in_start_up
from hta_graph.paths.time_accounting import TimePart
from hta_graph.what_if.changes import Change, reroute, scale, weigh
from hta_graph.what_if.modified_window import ModifiedWindow
from hta_graph.what_if.replay_graph import ReplayGraph
from hta_graph.what_if.selectors import Selector, is_rank_number, issuing_rows, rows_within, selected_parts

COMPARES_RANKS = ("like_median", "rank_like_others")
"""Scenarios that compare all ranks with each other."""

RESHAPES = ("no_waiting", "no_host_syncs")
"""Scenarios that leave out edges."""


@dataclass(frozen=True)
class Scenario:
    """What a named scenario changes, in a sentence, its assumptions, and its argument, if it has one."""

    says: str
    assumes: str
    change: Callable[[ModifiedWindow, str], None]
    argument: str | None = None
    default: str | None = None


@dataclass(frozen=True)
class NamedScenario:
    """A scenario with its argument, as a change."""

    name: str
    argument: str

    def __call__(self, draft: ModifiedWindow) -> None:
        """Change a draft."""
        SCENARIOS[self.name].change(draft, self.argument)

    def __str__(self) -> str:
        return f"{self.name}={self.argument}" if self.argument else self.name


def scenario(name: str, argument: str | int | float | None = None) -> Change:
    """Return a named scenario as a change; :data:`hta_graph.what_if.scenarios.SCENARIOS` lists them.

    Raises:
        UsageError: there is no such scenario, or its argument is missing or not valid.
    """
    if name not in SCENARIOS:
        raise UsageError(f"there is no scenario {name!r}; {suggest_known(name, SCENARIOS)}")
    known = SCENARIOS[name]
    given = known.default if argument is None else str(argument)
    if known.argument is None and argument is not None:
        raise UsageError(f"the scenario {name} takes no argument; omit {argument!r}")
    if known.argument is not None and not given:
        raise UsageError(f"the scenario {name} needs {known.argument}: {name}=…")
    if name == "communication":
        scale("class:gpu_communication_bound", _factor_of(given or "", name))
    if name == "rank_like_others" and not is_rank_number(given or ""):
        raise UsageError(
            f"{shorten_middle(given or '', 60)!r} is not a rank; give a number, such as rank_like_others=3"
        )
    return NamedScenario(name, given or "")


def _factor_of(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{shorten_middle(text, 60)!r} is not a factor; give a number, such as {name}=0.5") from None


def _free_classes(*kinds: BoundBy) -> Callable[[ModifiedWindow, str], None]:
    def change(draft: ModifiedWindow, _: str) -> None:
        meant = np.isin(draft.base.parts.bound, kinds) & draft.base.may_change
        _refuse_empty(draft, meant, ", ".join(kind.label for kind in kinds))
        draft.factor[meant] = 0.0

    return change


def _refuse_empty(draft: ModifiedWindow, meant: Bools, what: str) -> None:
    if not meant.any():
        raise QueryError(f"{draft.base.graph.path}: {draft.base.window.label} contains no {what}")


def _no_waiting(draft: ModifiedWindow, _: str) -> None:
    _require_job(draft, "no_waiting")
    edges = draft.base.edges
    kind = take_or(draft.base.graph.edge_table.kind, edges.row)
    # Where ranks meet stays a point of the graph, that waits for all; only nobody waits for it.
    leads_to_end = is_end(edges.target)
    gone = np.isin(kind, (EdgeKind.COLLECTIVE, EdgeKind.POINT_TO_POINT)) & leads_to_end
    _refuse_empty(draft, gone, "communication that ranks do together")
    draft.dropped |= gone


def _require_job(draft: ModifiedWindow, name: str) -> DependencyGraph:
    graph = draft.base.graph
    if not graph.is_job:
        raise QueryError(f"{graph.path}: the scenario {name} compares ranks; give the traces of all ranks")
    return graph


def _like_median(draft: ModifiedWindow, _: str) -> None:
    from hta_graph.what_if.rank_normalization import edge_correspondence, median_weights  # late: few compare ranks

    graph = draft.base.graph
    every = np.ones(len(graph.edge_table), np.bool_)
    rows = np.flatnonzero(edge_correspondence(graph).place >= 0)
    weigh(rows, median_weights(graph, every)[rows])(draft)


def _rank_like_others(draft: ModifiedWindow, rank: str) -> None:
    from hta_graph.what_if.rank_normalization import RankNormalization, comparison_keys, comparison_times

    graph = _require_job(draft, "rank_like_others")
    if len(graph.rank_graphs) < 2:  # a rank that is replayed alone for its job
        raise QueryError(f"{graph.path}: the scenario rank_like_others compares ranks; give the traces of all ranks")
    place = graph.index_of_rank(int(rank))
    asked = comparison_keys(draft.base, place)
    taken = [comparison_times(graph, part.index, asked) for part in graph.rank_graphs if part.index != place]
    RankNormalization.of(int(rank), asked, taken)(draft)


def _communication(draft: ModifiedWindow, factor: str) -> None:
    scale("class:gpu_communication_bound", _factor_of(factor, "communication"))(draft)


def _launches_free(draft: ModifiedWindow, _: str) -> None:
    base = draft.base
    launching = np.zeros(len(base.graph.event_table), np.bool_)
    launching[base.graph.edges_of(EdgeKind.LAUNCH).source] = True
    calls = take_or(launching, base.parts.owner, otherwise=False) & (base.parts.bound == BoundBy.CPU_BOUND)
    meant = (calls | (base.parts.bound == BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD)) & base.may_change
    _refuse_empty(draft, meant, "launches")
    draft.factor[meant] = 0.0


HOST_WORK = (BoundBy.CPU_BOUND, BoundBy.CPU_GAP)
"""Time of the host that is neither loading nor waiting."""


@memoized
def pause_shares(base: ReplayGraph) -> Floats:
    """Return of each part the share that is work of the host in a pause between launching calls."""
    return _shares_of_host(base, time_in_pauses)


@memoized
def start_up_shares(base: ReplayGraph) -> Floats:
    """Return of each part the share that is work of the host which it does once."""
    return _shares_of_host(base, time_in_start_up)


def _shares_of_host(base: ReplayGraph, time_in: Callable[[DependencyGraph, Ids, Ints, Ints], Ints]) -> Floats:
    shares = np.zeros(len(base.parts))
    rows = np.flatnonzero(np.isin(base.parts.bound, HOST_WORK))
    own = base.parts.take(rows)
    inside = time_in(base.graph, own.lane, own.start, own.start + own.length)
    shares[rows] = inside / np.maximum(own.length, 1)
    return freeze(shares)


LAUNCHING_CLASSES = (*HOST_WORK, BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD)
"""Time that goes where the host only replays graphs."""


def _cuda_graphs(draft: ModifiedWindow, _: str) -> None:
    # Without launches there is nothing that a graph could replay: no time of the host may vanish then.
    if not len(draft.base.graph.edges_of(EdgeKind.LAUNCH)):
        _refuse_empty(draft, np.zeros(0, np.bool_), "launches")
    # Whatever the host does in a pause, or once, it does it beside a graph, too.
    kept = np.maximum(pause_shares(draft.base), start_up_shares(draft.base))
    meant = np.isin(draft.base.parts.bound, LAUNCHING_CLASSES) & (kept < 1.0) & draft.base.may_change
    _refuse_empty(draft, meant, ", ".join(kind.label for kind in LAUNCHING_CLASSES))
    draft.factor[meant] *= kept[meant]


def _no_host_syncs(draft: ModifiedWindow, _: str) -> None:
    returns = edge_kinds(lambda meaning: meaning.role == EdgeRole.RETURN)
    reroute(drop=[kind.label for kind in returns])(draft)


def _fused_operators(draft: ModifiedWindow, operator: str) -> None:
    """Keep of each instance of an operator the first launch; its kernels run one after the other without gaps."""
    base, graph = draft.base, draft.base.graph
    what = Selector("operator", operator).read_in(base)
    selected_parts(base, what)
    inside = rows_within(graph, what)
    on_cpu = issuing_rows(graph, base.parts.owner)
    launches = graph.edges_of(EdgeKind.LAUNCH)
    own = launches.take(inside[launches.source])
    outermost = graph.outermost_operator[own.source]
    order = np.lexsort((own.source_ns, outermost))
    later = np.ones(len(order), np.bool_)
    later[np.unique(outermost[order], return_index=True)[1]] = False
    spared = np.zeros(len(graph.event_table), np.bool_)
    spared[own.source[order[later]]] = spared[own.target[order[later]]] = True
    meant = take_or(spared, base.parts.owner, otherwise=False) & take_or(inside, on_cpu, otherwise=False)
    meant &= (base.parts.part != TimePart.ACTIVITY) & (base.parts.bound != BoundBy.UNEXPLAINED) & base.may_change
    _refuse_empty(draft, meant, f"operators {operator!r} that launch several kernels")
    draft.factor[meant] = 0.0


SCENARIOS: dict[str, Scenario] = {
    "no_waiting": Scenario(
        "no waiting between ranks", "each rank starts its own communication on arrival",
        _no_waiting
    ),
    "like_median": Scenario(
        "every operation takes its median time over ranks and steps",
        "every operator could take the median time of its counterparts in comparable steps",
        _like_median,
    ),
    "rank_like_others": Scenario(
        "one rank as fast as the others",
        "its work could take the median time of the others, and work that no other rank does takes no time",
        _rank_like_others, "a rank",
    ),
    "communication_free": Scenario(
        "communication takes no time",
        "ranks still wait for each other, only transfers take no time; with a single rank, its waits are removed, "
        "too",
        _free_classes(BoundBy.GPU_COMMUNICATION_BOUND),
    ),
    "communication": Scenario(
        "communication takes a multiple of its time",
        "all transfers change by one factor; for some of them, use --scale collective:…",
        _communication, "a factor",
    ),
    "launches_free": Scenario(
        "launches take no time", "launch calls and launch latency are removed; operators and Python stay",
        _launches_free,
    ),
    "cuda_graphs": Scenario(
        "the host only replays CUDA graphs",
        "operators, Python and launches take no time; kernels, host waits, data loading, pauses over 1 ms and start-up "
        "stay",
        _cuda_graphs,
    ),
    "no_host_syncs": Scenario(
        "the host never waits for the GPU", "the host does not need the values that it reads; calls return at once",
        _no_host_syncs,
    ),
    "data_loading_free": Scenario(
        "data loading takes no time", "loading slows nothing else down",
        _free_classes(BoundBy.DATA_LOADING),
    ),
    "fused": Scenario(
        "one operator as a single kernel",
        "all gaps, and all launches except the first, are removed; kernel time stays",
        _fused_operators, "an operator",
    ),
}  # fmt: skip
"""The scenarios by name."""
