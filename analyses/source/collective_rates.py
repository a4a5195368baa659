"""Bandwidth of one rank's collectives, as nccl-tests define it, and of its links.

The bandwidth of a collective is its bytes divided by the time of its kernel, which on most ranks includes waiting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analyses.declare.columns import Table, byte_count, integer, ns, rate, share
from analyses.declare.scope import Scope
from analyses.declare.tables import table_of
from hta_graph.base.arrays import find_sorted, summed_by
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Ids
from hta_graph.multi_rank.matching.bus_bandwidth import bus_factor
from hta_graph.multi_rank.matching.communications import EXCHANGED, SPLITS, RankCommunications, listed_ranks
from hta_graph.multi_rank.matching.read_communications import first_parts, read_communication_kernels
from hta_graph.paths.gpu_activity import Activities, WorkType
from hta_graph.roofline.devices import Device, find_device
from hta_graph.trace.event_args import read_event_args
from hta_graph.trace.profiler_names import element_bytes

SAME_CALL = Table(
    *("collective", "group", integer("ranks", "Number of ranks in the group; null if not recorded.", null=True)),
    *(byte_count("bytes", "Bytes of one call, as nccl-tests define them; null if not recorded", null=True), "dtype"),
)
REALS = Table(
    rate(
        "algorithm_gbps", "Algorithm bandwidth: bytes divided by time over all calls; null if not recorded", null=True
    ),
    *("bus_gbps", rate("best_bus_gbps", "Bus bandwidth of the fastest call; null if unknown", null=True)),
    rate("link_gbps", "Bandwidth of all links of the GPU in one direction; null if unknown", null=True),
    share("link_share", "best_bus_gbps as a share of link_gbps; null if unknown", null=True),
)
COLLECTIVE_RATES = Table(
    *("rank", "scope", SAME_CALL, integer("count", "Number of calls.")),
    *(ns("gpu_ns", "Total time of the kernels"), REALS),
)
INTEGERS = ("ranks", "bytes", "count", "gpu_ns")


@COLLECTIVE_RATES.returned
def collective_rates(scopes: Sequence[Scope], peaks: Device | None = None) -> pd.DataFrame:
    """Return the bandwidth of the collectives and messages of each rank, grouped by what is alike, longest first.

    A kernel's time includes waiting for other ranks; the fastest call of a size waits least. Of an all-to-all with
    unequal parts the bus carries what the rank exchanges with others, unknown where the parts are not recorded.
    Several collectives in one kernel count as recorded.

    Args:
        scopes: one for each rank, or the steps of each.
        peaks: the device that the ranks ran on; the one that each trace names if not given.

    Raises:
        TraceError: the file, which is read once more for the recorded arguments, is gone or has changed.
    """
    # Several scopes may be steps of one trace, whose file is read once.
    said = {graph: _recorded_calls(graph) for graph in dict.fromkeys(scope.graph for scope in scopes)}
    frame = table_of(scopes, lambda scope: _rates_of_scope(scope, said[scope.graph], peaks), COLLECTIVE_RATES)
    return frame.astype(dict.fromkeys(INTEGERS, "Int64") | dict.fromkeys(REALS, "Float64"))


def _rates_of_scope(scope: Scope, said: pd.DataFrame, peaks: Device | None) -> pd.DataFrame:
    """Return the rows of one scope."""
    work = scope.work.take(scope.work.type == WorkType.COMMUNICATION)
    at = find_sorted(work.row, said["row"].to_numpy())
    # Copies that do the work of one call count once.
    first, part, call = np.unique(said["first"].to_numpy(np.int64)[at], return_index=True, return_inverse=True)
    links = np.array(_link_rates(scope.graph, work, peaks), np.float64)[part]
    length = summed_by(call, work.end - work.start, len(first))
    kernels = said.iloc[first].reset_index(drop=True).assign(ns=length, link_gbps=links)
    keys = [*SAME_CALL, "factor", "link_gbps"]
    groups = kernels.groupby(keys, dropna=False, sort=False)["ns"].agg(["size", "sum", "min"]).reset_index()
    groups = groups.rename(columns={"size": "count", "sum": "gpu_ns"})
    return _with_rates(groups).sort_values("gpu_ns", ascending=False, kind="stable", ignore_index=True)


def _with_rates(groups: pd.DataFrame) -> pd.DataFrame:
    """Add bandwidths: bytes per nanosecond are GB/s; what took no time has none."""
    size, factor, link = (groups[name].astype("Float64") for name in ("bytes", "factor", "link_gbps"))
    longest, shortest = (groups[name].where(groups[name] > 0).astype("Float64") for name in ("gpu_ns", "min"))
    rate, best = size * groups["count"] / longest, size / shortest * factor
    return groups.assign(algorithm_gbps=rate, bus_gbps=rate * factor, best_bus_gbps=best, link_share=best / link)


def _link_rates(graph: DependencyGraph, work: Activities, peaks: Device | None) -> list[float | None]:
    """Return the link bandwidth of the device that each kernel ran on (GB/s)."""
    names = graph.trace.gpu_names
    numbers = graph.lanes.device[work.lane].tolist()
    known = {
        number: peaks or (find_device(names[number]) if 0 <= number < len(names) else None) for number in set(numbers)
    }
    return [device.link_gb_per_s if (device := known[number]) else None for number in numbers]


def _recorded_calls(graph: DependencyGraph) -> pd.DataFrame:
    """Return the recorded call of each communication kernel (``row``), and its factor from algorithm to bus bandwidth.

    ``first`` is the place of the first row that does the same call's work: copies do it in parts.

    All of them are objects: a missing number would make floats of others.
    """
    members = read_communication_kernels(graph)
    uneven = _uneven_all_to_alls(graph, members)
    rows = [_recorded_on_kernel(members, at) | {"uneven": at in uneven} for at in range(len(members))]
    frame = pd.DataFrame(
        [one | {"factor": _bus_factor(one)} for one in rows], columns=[*SAME_CALL, "factor"], dtype=object
    )
    return frame.assign(row=members.row.astype(np.int64), first=first_parts(graph, members.row, members.call))


def _recorded_on_kernel(members: RankCommunications, at: int) -> dict[str, Any]:
    said = {key: values[at] for key, values in members.arguments.items()}
    size = said["Group size"]
    ranks = size if isinstance(size, int) else len(listed_ranks(said["Process Group Ranks"]))
    return {
        "collective": _text(said["Collective name"]),
        "group": members.group[at],
        "ranks": ranks if ranks > 0 else None,
        "bytes": _message_bytes(said),
        "dtype": _text(said["dtype"]),
        "exchanged": said[EXCHANGED],
        "sizes": [count for key in ("In msg nelems", "Out msg nelems") if (count := _count(said[key])) is not None],
    }


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _message_bytes(said: Mapping[str, Any]) -> int | None:
    """Return the bytes of a call as nccl-tests count them; None where what they count is not recorded."""
    name = _letters_of(said["Collective name"])
    width = element_bytes(said["dtype"])
    sent, received = (_count(said[key]) for key in ("In msg nelems", "Out msg nelems"))
    # One side of these is a part alone.
    lacks = ("gather" in name and received is None) or ("scatter" in name and sent is None)
    counts = [count for count in (sent, received) if count is not None]
    return max(counts) * width if counts and width and not lacks and bus_factor(name, 1) is not None else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _bus_factor(one: Mapping[str, Any]) -> float | None:
    """Return the factor from algorithm to bus bandwidth, the traffic on the links of a rank."""
    name, ranks = one["collective"], one["ranks"]
    if one["uneven"] and one["exchanged"] is not None and max(one["sizes"], default=0):
        return float(one["exchanged"] / max(one["sizes"]))
    return bus_factor(name, ranks) if ranks is not None and not one["uneven"] else None


def _letters_of(name: Any) -> str:
    return str(name or "").lower().replace("_", "")


def _uneven_all_to_alls(graph: DependencyGraph, members: RankCommunications) -> set[int]:
    """Return the places of the all-to-alls whose parts are or can be unequal: the kernel does not record it."""
    may_be = [at for at, name in enumerate(members.arguments["Collective name"]) if "alltoallv" in _letters_of(name)]
    if not may_be:
        return set()
    rows: Ids = members.row[may_be]
    order = np.argsort(rows)
    recorded = read_event_args(graph.trace, SPLITS, rows[order], has_header=False)
    splits = zip(*(recorded[key].tolist() for key in SPLITS), strict=True)
    return {may_be[place] for place, both in zip(order.tolist(), splits, strict=True) if not all(map(_is_even, both))}


def _is_even(splits: Any) -> bool:
    """Return whether all parts are known to be equal; an empty list means equal parts.

    >>> _is_even("[4, 4]"), _is_even("[]"), _is_even("[4, 5]"), _is_even("[4, 4, ...]"), _is_even(None)
    (True, True, False, False, False)
    """
    if splits in ("[]", []):
        return True
    return len(set(listed_ranks(splits))) == 1
