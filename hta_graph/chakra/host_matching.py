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

from hta_graph.attribution.sequence_alignment import align
from hta_graph.base.arrays import freeze
from hta_graph.base.errors import Remedy, TraceError
from hta_graph.chakra.host_trace import HostTrace
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import EventKind, Ids, Ints, kind_mask
from hta_graph.trace.columnize import integers
from hta_graph.trace.event_args import EventArgs, read_event_args
from hta_graph.trace.json_reader import number_or_text

RowPairs = tuple[Ints, Ints]
"""Places in the one side's rows and in the other's."""


@dataclass(frozen=True)
class OperatorRows:
    """Operators and annotations of one trace in the order in which they began: rows, the host's name codes, threads."""

    row: Ints
    code: Ids
    thread: Ints


def host_operators(host: HostTrace) -> OperatorRows:
    """Return those of a host trace."""
    rows = np.flatnonzero(host.is_operator)
    return OperatorRows(rows, host.name[rows], host.thread[rows])


def device_operators(graph: DependencyGraph, host: HostTrace) -> OperatorRows:
    """Return those of a device trace; a name that the host trace does not have is -1."""
    events = graph.event_table
    code = {name: at for at, name in enumerate(host.names)}
    of_name = np.array([code.get(name, -1) for name in graph.names] or [-1], np.int32)
    rows = np.flatnonzero(kind_mask(events.kind, (EventKind.CPU_OP, EventKind.ANNOTATION)))
    # Of two that start at one instant the ids tell the first.
    rows = rows[np.lexsort((events.external_id[rows], events.start[rows]))]
    return OperatorRows(rows, of_name[events.name[rows]], events.lane[rows].astype(np.int64))


MIN_NAME_AGREEMENT = 0.95
"""Share of common ids that must belong to operators of the same name for ids to be trusted."""

MAX_RARE_COUNT = 16
"""Names that occur at most this often on both sides are used to find the offset between ids."""

MAX_OFFSETS = 16
"""Number of most frequent id differences that are tried."""


def join_ids(left: Ints, right: Ints) -> RowPairs:
    """Join positive ids; of rows with one id the first."""
    i, j = np.flatnonzero(left > 0), np.flatnonzero(right > 0)
    left_ids, first_left = np.unique(left[i], return_index=True)
    right_ids, first_right = np.unique(right[j], return_index=True)
    _, at_left, at_right = np.intersect1d(left_ids, right_ids, assume_unique=True, return_indices=True)
    return i[first_left[at_left]], j[first_right[at_right]]


def same_name_pairs(hosted: OperatorRows, recorded: OperatorRows, pairs: RowPairs) -> RowPairs:
    """Keep the pairs of one name."""
    i, j = pairs
    same = hosted.code[i] == recorded.code[j]
    return i[same], j[same]


def names_agree(hosted: OperatorRows, recorded: OperatorRows, pairs: RowPairs) -> bool:
    """Say whether ids that both traces have stand for operators of one name."""
    equal = len(same_name_pairs(hosted, recorded, pairs)[0])
    return equal > 0 and equal >= MIN_NAME_AGREEMENT * len(pairs[0])


def best_offset(hosted: OperatorRows, recorded: OperatorRows, rf_id: Ints, external: Ints) -> int:
    """Return the difference between older ids and those of the host trace with which most names agree."""

    def agreeing(offset: int) -> int:
        return len(same_name_pairs(hosted, recorded, join_ids(rf_id, external - offset))[0])

    known = external > 0
    return max([0, *_common_offsets(rf_id, hosted.code, external[known], recorded.code[known])], key=agreeing)


def _common_offsets(rf_id: Ints, code: Ids, external: Ints, external_code: Ids) -> list[int]:
    """List the commonest differences between ids of equal names: all pairs of rare ones, else equal occurrences."""
    left, right = np.flatnonzero(rf_id > 0), np.flatnonzero(external_code >= 0)
    # Sorted by name, in the order of their beginning within a name: each name is one stretch of both columns.
    left, right = left[np.argsort(code[left], kind="stable")], right[np.argsort(external_code[right], kind="stable")]
    names = np.arange(int(max(code.max(initial=-1), external_code.max(initial=-1))) + 2)
    first, other = np.searchsorted(code[left], names), np.searchsorted(external_code[right], names)
    differences = []
    for begin, end, begin_right, end_right in zip(first[:-1], first[1:], other[:-1], other[1:], strict=True):
        ours, theirs = rf_id[left[begin:end]], external[right[begin_right:end_right]]
        if max(len(ours), len(theirs)) <= MAX_RARE_COUNT:
            differences.append((theirs[None, :] - ours[:, None]).ravel())
        else:
            # All pairs of a common name would be millions: the n-th from either end are likely partners, for
            # recordings begin or end together.
            both = min(len(ours), len(theirs))
            differences += [theirs[:both] - ours[:both], theirs[len(theirs) - both :] - ours[len(ours) - both :]]
    found, count = np.unique(np.concatenate(differences or [np.empty(0, np.int64)]), return_counts=True)
    commonest: list[int] = found[np.argsort(-count, kind="stable")][:MAX_OFFSETS].tolist()
    return commonest


def match_by_order(hosted: OperatorRows, recorded: OperatorRows) -> RowPairs:
    """Align the names on each logical thread with those on the Kineto thread that shares most of them."""
    parts = []
    for thread, lane in _matching_threads(hosted, recorded):
        left, right = np.flatnonzero(hosted.thread == thread), np.flatnonzero(recorded.thread == lane)
        # What only one side knows cannot match, and would push the others apart.
        right = right[np.isin(recorded.code[right], hosted.code[left])]
        left = left[np.isin(hosted.code[left], recorded.code[right])]
        i, j = align(hosted.code[left], recorded.code[right])
        parts.append((left[i], right[j]))
    none = np.empty(0, np.int64)
    return np.concatenate([none, *(i for i, _ in parts)]), np.concatenate([none, *(j for _, j in parts)])


def _matching_threads(hosted: OperatorRows, recorded: OperatorRows) -> list[tuple[int, int]]:
    """Pair threads one to one, those that share most operators first."""
    names = int(hosted.code.max(initial=-1)) + 1
    known = recorded.code >= 0
    ours, theirs = np.unique(hosted.thread), np.unique(recorded.thread[known])
    counts = [np.bincount(hosted.code[hosted.thread == thread], minlength=names) for thread in ours]
    shared = np.zeros((len(ours), len(theirs)), np.int64)
    for at, lane in enumerate(theirs):
        count = np.bincount(recorded.code[known & (recorded.thread == lane)], minlength=names)
        shared[:, at] = [int(np.minimum(own, count).sum()) for own in counts]
    # The pair that shares most is taken, then the next among the threads that are left.
    pairs = []
    while shared.max(initial=0) > 0:
        i, j = np.unravel_index(int(shared.argmax()), shared.shape)
        pairs.append((int(ours[i]), int(theirs[j])))
        shared[i, :] = shared[:, j] = 0
    return pairs


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
        return f"{matched:,} host operators ({self.share:.1%}) matched by {self.method}"


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
    record_ids = integers([*map(number_or_text, details[RECORD_FUNCTION_ID][recorded.row].tolist())])
    method, (i, j) = _best_pairs(graph, host, hosted, recorded, record_ids)
    share = len(i) / len(hosted.row)
    if share < MIN_MATCHED_SHARE:
        cause = f"only {share:.1%} of its operators are in {graph.path} (by {method})"
        raise TraceError(host.path, cause, "pass the host and device traces of the same process and run")
    event = np.full(len(host), -1, np.int32)
    node = np.full(len(graph.event_table), -1, np.int32)
    event[hosted.row[i]], node[recorded.row[j]] = recorded.row[j], hosted.row[i]
    return HostMatching(freeze(event), freeze(node), method, share)


def check_rank(host: HostTrace, rank: int) -> None:
    """Reject the host trace of another rank, judged by the process groups it lists.

    Raises:
        TraceError: it lists groups, none of them with this rank.
    """
    groups = [ranks for group in host.process_groups() if isinstance(ranks := group.get("ranks"), list) and ranks]
    if groups and not any(rank in ranks for ranks in groups):
        raise TraceError(
            host.path, f"lists only process groups of other ranks, not of {rank}", f"pass the trace of {rank}"
        )


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
            "pass the traces of one rank (any_process=True links them anyway)",
            "pass the traces of one rank (--any-process links them anyway)",
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
