"""Host node ↔ Kineto operator: by record function id, else by an offset between ids, else by name and order.

    matching = match_host_trace(graph, host)
    matching.event                      # one entry per host node: canonical row of its operator or annotation; -1
    matching.node                       # one entry per event: row of its host node; -1
    matching.method, matching.share     # how, and which share of the host trace's operators found one

Only equal names match. Measured on public pairs: Megatron TP2 (2024) agrees by ``Record function id`` in 1,880 of
1,880 operators; Megatron TP8 (2023) by ``External id`` = ``rf_id`` + 2 in 5,422 of 5,424; DLRM (2023) by no offset
(best: 801 of 1,673).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import freeze
from hta_graph.chakra.host_trace import HostTrace
from hta_graph.chakra.match_by_ids import best_offset, join_ids, names_agree, same_name_pairs
from hta_graph.chakra.match_by_order import match_by_order
from hta_graph.chakra.operator_rows import OperatorRows, RowPairs, device_operators, host_operators
from hta_graph.errors import Remedy, TraceError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import EventKind, Ids, Ints
from hta_graph.trace.columnize import integers
from hta_graph.trace.event_args import EventArgs, read_event_args
from hta_graph.trace.rows import number_or_text

__all__ = ["MIN_MATCHED_SHARE", "RECORD_FUNCTION_ID", "HostMatching", "check_rank", "match_host_trace"]

RECORD_FUNCTION_ID = "Record function id"
"""The argument of a Kineto row that holds the host trace's ``rf_id``; 0 where no observer ran."""

MIN_MATCHED_SHARE = 0.5
"""Two traces of which less matches are not of one run."""


@dataclass(frozen=True)
class HostMatching:
    """Which host node (row of :class:`HostTrace`) is which event (canonical row); -1 where there is none.

    ``method`` says how they were matched, ``share`` how many of the host trace's operators and annotations have one.
    """

    event: Ids
    node: Ids
    method: str
    share: float

    def __str__(self) -> str:
        matched = int(np.count_nonzero(self.event >= 0))
        return f"{matched:,} host operators ({self.share:.1%}) matched by {self.method}".replace("%", " %")


def match_host_trace(
    graph: DependencyGraph, host: HostTrace, *, details: EventArgs | None = None, any_process: bool = False
) -> HostMatching:
    """Find the operator or annotation of each host node.

    Args:
        graph: the device trace's graph.
        host: the host trace of the same process and recording.
        details: ``Record function id`` of all events, where it has been read already.
        any_process: do not ask whether both name the same process.

    Raises:
        TraceError: the traces are of different processes, or fewer than half of the operators match.
    """
    hosted, recorded = host_operators(host), device_operators(graph, host)
    if not len(hosted.row):
        raise TraceError(host.path, "holds no operators", "record it while the program runs operators")
    if not any_process:
        _check_process(graph, host)
    details = details or read_event_args(graph.trace, [RECORD_FUNCTION_ID])
    record_ids = integers(map(number_or_text, details[RECORD_FUNCTION_ID][recorded.row].tolist()))
    method, (i, j) = _best_pairs(graph, host, hosted, recorded, record_ids)
    share = len(i) / len(hosted.row)
    if share < MIN_MATCHED_SHARE:
        cause = f"only {share:.1%} of its operators are in {graph.path} (by {method})".replace("%", " %")
        raise TraceError(host.path, cause, "give the host and the device trace of one process and one recording")
    event = np.full(len(host), -1, np.int32)
    node = np.full(len(graph.event_table), -1, np.int32)
    event[hosted.row[i]], node[recorded.row[j]] = recorded.row[j], hosted.row[i]
    return HostMatching(freeze(event), freeze(node), method, share)


def check_rank(host: HostTrace, rank: int) -> None:
    """Refuse the host trace of another rank, as far as the process groups that it lists tell.

    Raises:
        TraceError: it lists groups, none of them with this rank.
    """
    groups = [ranks for group in host.process_groups() if isinstance(ranks := group.get("ranks"), list) and ranks]
    if groups and not any(rank in ranks for ranks in groups):
        raise TraceError(host.path, f"lists process groups of other ranks only, not of {rank}", f"give that of {rank}")


def _check_process(graph: DependencyGraph, host: HostTrace) -> None:
    labels = [label.removeprefix("thread ").partition(":")[0] for label in graph.lanes.labels]
    lanes = np.unique(graph.event_table.lane[graph.event_table.kind == EventKind.CPU_OP])
    pids = sorted({int(labels[lane]) for lane in lanes.tolist() if labels[lane].isdecimal()})
    if host.pid is None or not pids or host.pid in pids:
        return
    listed = ", ".join(map(str, pids[:8]))
    raise TraceError(
        host.path,
        f"is of process {host.pid}, {graph.path} of process {listed}",
        Remedy(
            "give the traces of one rank (any_process=True links them nevertheless)",
            "give the traces of one rank (--any-process links them nevertheless)",
        ),
    )


def _best_pairs(
    graph: DependencyGraph, host: HostTrace, hosted: OperatorRows, recorded: OperatorRows, record_ids: Ints
) -> tuple[str, RowPairs]:
    """Believe ids whose names agree, even where few are in both traces: order alone would pair unrelated loops."""
    rf_id, external = host.rf_id[hosted.row], graph.event_table.external_id[recorded.row]
    joined = join_ids(rf_id, record_ids)
    if names_agree(hosted, recorded, joined):
        return "record function id", same_name_pairs(hosted, recorded, joined)
    offset = best_offset(hosted, recorded, rf_id, external)
    joined = join_ids(rf_id, external - offset)
    if names_agree(hosted, recorded, joined):
        return f"External id = rf_id + {offset}", same_name_pairs(hosted, recorded, joined)
    return "name and order on each thread", match_by_order(hosted, recorded)
