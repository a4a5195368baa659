"""collectives: which rank arrives last at each collective, how long the others wait, how long the transfer takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.advice import job_verdict
from analyses.advice.job_verdict import ABOUT_AS_MUCH
from analyses.declare.analysis import Analysis
from analyses.declare.answer import Answer
from analyses.declare.columns import GROUP_KIND, Table, boolean, byte_count, integer, ns, number, rate, text
from analyses.declare.scope import Scope, ranks_with_several_gpus
from analyses.declare.tables import joined
from analyses.display.charts import COLOUR, empty_figure, new_figure
from analyses.display.sentence_format import brief_duration, brief_share, counted
from analyses.source.matched_collectives import (
    JudgedJob,
    MatchedWindow,
    host_names,
    joined_job,
    judged_job,
    matched_collectives,
    matching_notes,
)
from hta_graph.base.arrays import percentiles_by, rows_by_value
from hta_graph.graph.conversion import none_where
from hta_graph.multi_rank.matching.bus_bandwidth import bus_factor
from hta_graph.multi_rank.matching.communications import EXCHANGED, MESSAGE_KINDS, RankCommunications, listed_ranks
from hta_graph.multi_rank.matching.match_ranks import MATCHED_BY
from hta_graph.paths.gpu_activity import WorkType
from hta_graph.trace.profiler_names import element_bytes

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["TABLES", "answer", "collective_members", "collectives", "figure", "waits_by_rank"]

TITLE = "Time in collectives: waiting for the last rank, and transfer"
NUMBER = integer("number", "Its number in order of time.")
WAITED = ns("waited_ns", "Waiting of all other ranks, in total")
LONGEST_WAIT = ns("longest_wait_ns", "The longest wait")
TRANSFER = ns("transfer_ns", "From the last arrival to the end; null without a partner", null=True)
WAITS = Table(integer("collectives", "Number of collectives."), WAITED, LONGEST_WAIT, TRANSFER)
WORST = Table("worst_rank", ns("worst_caused_ns", "Waiting for that rank"))
GROUPS = Table(
    *(text("group", "Its name and ranks."), "scope", GROUP_KIND, integer("ranks", "Number of ranks in it.")),
    *(WAITS, WORST),
)
GROUP_KINDS = Table(
    *(GROUP_KIND, "scope", integer("ranks", "Number of ranks in each group."), "groups"),
    *(WAITS, "worst_group", WORST),
)


@GROUPS.returned
def groups(table: pd.DataFrame, matched: Sequence[MatchedWindow]) -> pd.DataFrame:
    """Add up :func:`collectives` by process group, where there are multiple groups: what waits longest first."""
    rows = _of_several_groups(table, matched)
    frames = [_summed(own, ["group"]) for _, own in rows.groupby("scope", sort=False)]
    return joined(frames, GROUPS)


@GROUP_KINDS.returned
def group_kinds(table: pd.DataFrame, matched: Sequence[MatchedWindow]) -> pd.DataFrame:
    """Add up :func:`groups` by what they are for and how many ranks they have: what waits longest first."""
    rows = _of_several_groups(table, matched)
    frames = [_summed(own, ["kind", "ranks"]) for _, own in rows.groupby("scope", sort=False)]
    return joined(frames, GROUP_KINDS)


def _of_several_groups(table: pd.DataFrame, matched: Sequence[MatchedWindow]) -> pd.DataFrame:
    """Return the collectives with what their groups are for and the groups' sizes; none if all are of one group."""
    if table["group"].nunique(dropna=False) < 2:
        table = table.iloc[:0]
    known = {item.label: _group_of_collectives(item) for item in matched}
    said = [known[label][number] for label, number in zip(table["scope"], table["number"], strict=True)]
    rows = table.assign(
        kind=pd.Series([kind for kind, _ in said], table.index, object),
        ranks=np.maximum(np.array([size for _, size in said], np.int64), table["ranks"].to_numpy(np.int64)),
    )
    # Sends and receives are of two ranks, and need not record the size of their group.
    rows["ranks"] = rows.groupby(["scope", "group"], dropna=False)["ranks"].transform("max")
    return rows


def _group_of_collectives(item: MatchedWindow) -> list[tuple[str | None, int]]:
    """Return what each collective's group is for and its size (0: unknown), as recorded on its last rank."""
    found = item.found
    last = zip(found.rank[found.last].tolist(), found.place[found.last].tolist(), strict=True)
    return [item.ranks[rank].group_at(place) for rank, place in last]


def _summed(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Add up collectives of one window by keys, the longest waiting first."""
    rows = rows.assign(key=rows.groupby(keys, sort=False, dropna=False).ngroup())
    by_key = rows.groupby("key")
    frame = by_key[["scope", "group", "kind", "ranks"]].first()
    frame["groups"] = by_key["group"].nunique(dropna=False)
    frame["collectives"] = by_key.size()
    frame[["waited_ns", "transfer_ns"]] = by_key[["waited_ns", "transfer_ns"]].sum()
    frame["longest_wait_ns"] = by_key["longest_wait_ns"].max()
    frame["worst_group"] = _most_waited(rows, "group")["group"]
    frame[["worst_rank", "worst_caused_ns"]] = _most_waited(rows, "last_rank")
    return frame.sort_values("waited_ns", ascending=False, kind="stable")


def _most_waited(rows: pd.DataFrame, of: str) -> pd.DataFrame:
    """Return for each key what caused the longest waiting, and how long."""
    sums = rows.groupby(["key", of], sort=False, dropna=False)["waited_ns"].sum().reset_index()
    most = sums.sort_values("waited_ns", ascending=False, kind="stable").drop_duplicates("key")
    return most.set_index("key").sort_index()


COLLECTIVES = Table(
    *("scope", "collective", NUMBER, integer("ranks", "Number of ranks that took part.")),
    integer("last_rank", "The rank that arrived last."),
    *(WAITED, ns("median_wait_ns", "Median wait of the other ranks"), LONGEST_WAIT),
    ns("transfer_ns", "From the last start to the last end"),
    byte_count("bytes", "The larger of input and output; null if not recorded", null=True),
    rate("algorithm_gbps", "Bytes divided by the transfer time; null if not recorded", null=True),
    "bus_gbps",
    number(
        "imbalance",
        "All-to-all with recorded parts: what the busiest rank exchanges with others, as a multiple of the mean.",
        null=True,
    ),
    integer("missing", "Ranks of the group without recorded communication; null if unknown.", null=True),
    integer("elements", "Elements, as recorded; null if not recorded.", null=True),
    *("dtype", text("matched_by", "How its members were matched.", values=["comms id", "sequence number", "order"])),
    *("group", "kernel"),
)
RATES = ("algorithm_gbps", "bus_gbps", "imbalance")
MEMBERS = Table(
    *("rank", "scope"),
    integer("number", "The collective's number in order of time; null without a partner.", null=True),
    *("event_index", "start_ns", ns("duration_ns", "Duration of its event")),
    ns("arrival_ns", "When the rank arrived, in the time of its own file"),
    ns("wait_ns", "Waiting; null without a partner", null=True),
    *(TRANSFER, boolean("is_last", "Whether the rank arrived last.")),
    integer("awaited_rank", "The rank that it waited for, the last to come; null if it did not wait.", null=True),
)
RANKS = Table(
    *("rank", "scope", integer("kernels", "Matched collectives that it took part in."), "duration_ns"),
    *(ns("wait_ns", "Waiting in them"), ns("median_wait_ns", "Median wait")),
    *(ns("p95_wait_ns", "95th percentile of the waits"), ns("transfer_ns", "The rest of their time")),
    *("times_last", "wait_caused_ns"),
)


@COLLECTIVES.returned
def collectives(matched: Sequence[MatchedWindow]) -> pd.DataFrame:
    """List the collectives that all loaded ranks of their group took part in, most waiting first.

    Bandwidths are those of nccl-tests; of an all-to-all with recorded parts the bus carries what the busiest rank
    exchanges with others.
    """
    frame = joined([_collectives_in_window(item) for item in matched if len(item.found)], COLLECTIVES)
    frame = frame.astype(dict.fromkeys(("elements", "bytes", "missing"), "Int64") | dict.fromkeys(RATES, "Float64"))
    return frame.sort_values(["waited_ns", "number"], ascending=[False, True], ignore_index=True)


def _collectives_in_window(item: MatchedWindow) -> pd.DataFrame:
    """List the collectives of one window."""
    found = item.found
    first, last = found.first, found.last
    # The last rank does not wait: of two ranks the median would be 0.
    others = np.delete(np.arange(len(found.number)), last)
    ranks, transfer = (
        np.diff(first, append=len(found.number)),
        np.maximum.reduceat(found.end, first) - found.arrival[last],
    )
    columns = {
        "scope": item.label,
        "number": np.arange(len(found)),
        "ranks": ranks,
        "last_rank": found.rank[last],
        "waited_ns": np.add.reduceat(found.wait, first),
        "median_wait_ns": percentiles_by(found.number[others], found.wait[others], len(found), 50),
        "longest_wait_ns": np.maximum.reduceat(found.wait, first),
        "transfer_ns": transfer,
        "matched_by": [MATCHED_BY[by] for by in found.by.tolist()],
    }
    members = zip(found.rank[last].tolist(), found.place[last].tolist(), strict=True)
    recorded = [_recorded_arguments(item.ranks[rank], place) for rank, place in members]
    exchanged = _exchanged_elements(item)
    sizes = zip(recorded, ranks.tolist(), transfer.tolist(), exchanged, strict=True)
    said = [one | _size_and_rates(one, count, time, elements) for one, count, time, elements in sizes]
    return pd.DataFrame(columns | {name: pd.Series([one[name] for one in said], dtype=object) for name in said[0]})


def _exchanged_elements(item: MatchedWindow) -> list[list[int] | None]:
    """Return how many elements each member of each collective exchanges with others; None where one does not say."""
    found: list[list[int] | None] = [[] for _ in range(len(item.found))]
    members = zip(item.found.number.tolist(), item.found.rank.tolist(), item.found.place.tolist(), strict=True)
    for collective, rank, place in members:
        said = item.ranks[rank].arguments.get(EXCHANGED)  # summaries of earlier versions lack it
        own, elements = found[collective], said[place] if said else None
        if own is not None and elements is not None:
            own.append(elements)
        else:
            found[collective] = None
    return found


def _recorded_arguments(own: RankCommunications, place: int) -> dict[str, Any]:
    """Return what a rank's trace says about one of its communications."""
    said = {key: values[place] for key, values in own.arguments.items()}
    elements = [count for count in (said["In msg nelems"], said["Out msg nelems"]) if isinstance(count, int)]
    size, is_message = said["Group size"], said["Collective name"] in MESSAGE_KINDS
    return {
        "collective": "send_recv" if is_message else said["Collective name"],
        "elements": max(elements, default=None),
        "dtype": said["dtype"],
        "group": own.group[place],
        "kernel": own.name[place],
        "members": size if isinstance(size, int) else len(listed_ranks(said["Process Group Ranks"])),
    }


def _size_and_rates(
    said: Mapping[str, Any], ranks: int, transfer_ns: int, exchanged: Sequence[int] | None
) -> dict[str, Any]:
    """Return how much a collective moved, how fast (GB/s: bytes by ns), and how many of its group are not there.

    Where the parts of an all-to-all are recorded its bus carries what the busiest rank exchanges with others.
    """
    width, factor = element_bytes(said["dtype"]), bus_factor(said["collective"], ranks)
    size = said["elements"] * width if said["elements"] is not None and width and factor is not None else None
    rate = size / transfer_ns if size is not None and transfer_ns else None
    bus = None if rate is None else rate * (factor or 0.0)
    if exchanged and rate is not None:
        bus = max(exchanged) * width / transfer_ns
    return {
        "bytes": size,
        "algorithm_gbps": rate,
        "bus_gbps": bus,
        "imbalance": max(exchanged) * len(exchanged) / total if exchanged and (total := sum(exchanged)) else None,
        "missing": max(said["members"] - ranks, 0) if said["members"] and said["collective"] != "send_recv" else None,
    }


@MEMBERS.returned
def collective_members(matched: Sequence[MatchedWindow]) -> pd.DataFrame:
    """List every rank's part in collectives, sends and receives, also those without a partner.

    A rank arrives when its kernel starts, on the CPU when it calls, and waits until the last rank that it waits for
    arrives. Times are those of its file.
    """
    frame = joined([_members_in_window(item) for item in matched], MEMBERS)
    return frame.astype(dict.fromkeys(("number", "wait_ns", "transfer_ns", "awaited_rank"), "Int64"))


def _members_in_window(item: MatchedWindow) -> pd.DataFrame:
    """List the members of one window: of its collectives, then, rank by rank, those without a partner."""
    # rank 0   [== wait ==|= transfer =]
    # rank 1        [wait |= transfer =]
    # rank 2              [= transfer =]    the last one: is_last
    found, (ranks_alone, alone) = item.found, item.without_partner()
    rank, place = np.append(found.rank, ranks_alone), np.append(found.place, alone)
    event, start, length, arrival = (np.zeros(len(rank), np.int64) for _ in range(4))
    for one, mine in rows_by_value(rank).items():
        own, trace = item.ranks[one], item.graphs[one].trace
        rows, events = own.row[place[mine]], trace.events
        event[mine], start[mine] = events.index[rows], trace.file_times.start[rows]
        length[mine] = own.end[place[mine]] - own.start[place[mine]]
        arrival[mine] = trace.in_file_time(rows, own.arrival[place[mine]])
    nothing = [None] * len(alone)
    columns = {
        "rank": rank,
        "scope": item.label,
        "number": [*found.number.tolist(), *nothing],
        "event_index": event,
        "start_ns": start,
        "duration_ns": length,
        "arrival_ns": arrival,
        "wait_ns": [*found.wait.tolist(), *nothing],
        "transfer_ns": [*found.transfer.tolist(), *nothing],
        "is_last": np.isin(np.arange(len(rank)), found.last),
        "awaited_rank": [*none_where(found.awaited.astype(object), found.wait <= 0), *nothing],
    }
    return pd.DataFrame(columns)


@RANKS.returned
def waits_by_rank(members: pd.DataFrame) -> pd.DataFrame:
    """Add up the :func:`collective_members` that have partners, per rank: ``duration_ns`` is waiting and transfer."""
    kernels = members[members["number"].notna()]
    # Waiting is caused by the rank that came last of those that are needed.
    caused = kernels.groupby(["scope", "awaited_rank"])["wait_ns"].sum()
    columns = {
        "kernels": ("number", "count"),
        **{name: (name, "sum") for name in ("duration_ns", "wait_ns", "transfer_ns")},
        "times_last": ("is_last", "sum"),
    }
    of_ranks = kernels.groupby(["rank", "scope"], sort=False)
    frame, group = of_ranks.agg(**columns).reset_index(), of_ranks.ngroup().to_numpy().astype(np.int64)
    by_rank = pd.MultiIndex.from_frame(frame[["scope", "rank"]])
    frame["wait_caused_ns"] = caused.reindex(by_rank, fill_value=0).to_numpy(np.int64)
    for name, percent in (("median_wait_ns", 50), ("p95_wait_ns", 95)):
        waits = percentiles_by(group, kernels["wait_ns"].to_numpy(np.int64), len(frame), percent)
        frame[name] = pd.array(waits, "Int64")
    order = {
        label: at for at, label in enumerate(dict.fromkeys(kernels["scope"]))
    }  # steps in their own order, not that of their names
    in_order = np.lexsort((frame["rank"], frame["scope"].map(order)))
    return frame[[*RANKS]].iloc[in_order].reset_index(drop=True)


def answer(scopes: Sequence[Scope]) -> Answer:
    """Return which rank arrives last at each collective and how long the others wait.

    Args:
        scopes: one for each rank, or the steps of each.

    Returns:
        The tables ``collectives``, ``ranks`` (each rank's waits in all), ``group_kinds`` and ``groups`` (of multiple
        process groups, which wait most), and the series ``members``.
    """
    matched = matched_collectives(scopes)
    members, every = collective_members(matched), collectives(matched)
    tables = {
        "collectives": every,
        "ranks": waits_by_rank(members),
        "group_kinds": group_kinds(every, matched),
        "groups": groups(every, matched),
    }
    ranks = len({scope.rank for scope in scopes})
    summed = {"collectives": f"those of {ranks} ranks that wait"}
    summed |= dict.fromkeys(("ranks", "group_kinds", "groups"), "all collectives")
    worst_by, job = {"ranks": "wait_caused_ns"}, joined_job(matched)
    judged = None if job is None else judged_job(matched, job)
    return Answer(
        tables,
        [*matching_notes(scopes, matched), *_several_gpu_notes(scopes)],
        {"members": members},
        summed=summed,
        worst_by=worst_by,
        conclusion=_conclusion(every, tables["ranks"], matched, judged),
        keys={"job_verdict": job_verdict.record(None if judged is None else judged.verdict)},
    )


def _conclusion(
    every: pd.DataFrame, ranks: pd.DataFrame, matched: Sequence[MatchedWindow], judged: JudgedJob | None
) -> list[str]:
    """Say which rank delays the job, as all commands do, and how much of the time in collectives is waiting."""
    if judged is None or not len(ranks):
        return _waiting_for_the_last(every, ranks, None)
    first = job_verdict.job_sentences(judged.verdict, judged.window, host_names(matched), {})[:1]
    said = job_verdict.with_recording(first, judged.verdict, judged.late, judged.missing)
    return [*said, *_waiting_for_the_last(every, ranks, judged.verdict.rank)]


def _waiting_for_the_last(every: pd.DataFrame, ranks: pd.DataFrame, late: int | None) -> list[str]:
    """Say how much of the time in collectives is waiting for the last rank, and which ranks that mostly are.

    Where another rank is ``late``, who comes last waits for it: no second rank is named.
    """
    waited = int(ranks["wait_ns"].sum())
    # From the arrivals on: a row of work on the CPU may begin long after its rank came.
    duration = waited + int(ranks["transfer_ns"].sum())
    if not duration:
        return []
    of_all = f"({brief_duration(waited)} of {brief_duration(duration)}, all ranks)"
    said = f"{brief_share(waited / duration)} of the time in collectives is waiting for the last rank {of_all}"
    if not waited:
        return [said]
    by_rank = ranks.groupby("rank")[["wait_caused_ns", "times_last"]].sum()
    worst = by_rank[by_rank["wait_caused_ns"] >= ABOUT_AS_MUCH * by_rank["wait_caused_ns"].max()]
    if len(worst) > 1:
        named = job_verdict.ranks_named(worst.index.tolist()).lower()
        return [f"{said}; {named} each cause about the same, {brief_share(worst.wait_caused_ns.max() / waited)} of it"]
    if late not in (None, worst.index[0]):
        return [said]
    caused, times = (int(worst[name].iloc[0]) for name in ("wait_caused_ns", "times_last"))
    last_in = f"arriving last in {times:,} of {counted(len(every), 'collective')}"
    return [f"{said}; rank {worst.index[0]} causes {brief_share(caused / waited)} of it, {last_in}"]


def _several_gpu_notes(scopes: Sequence[Scope]) -> list[str]:
    """Name the ranks that communicate on multiple GPUs, whose kernels are not compared with each other."""
    talking = ((scope, scope.running.take(scope.running.type == WorkType.COMMUNICATION)) for scope in scopes)
    found = ranks_with_several_gpus((scope.rank, scope.gpus_of(talks)) for scope, talks in talking)
    return [
        f"Rank {rank} communicates on {gpus} from one process. Which of them arrives last is unknown, and a "
        "collective counts once per GPU."
        for rank, gpus in found
    ]


def figure(found: Answer) -> Figure:
    """Draw each rank's waiting and transfer in collectives, and the waiting that it causes."""
    frame = found.tables["ranks"]
    if not len(frame):
        return empty_figure(TITLE, "No collective is recorded on more than one rank.")
    made = new_figure(title=TITLE, y="ms")
    frame = frame.groupby("rank", as_index=False).sum(numeric_only=True)
    labels = [f"rank {rank}" for rank in frame["rank"]]
    parts = (("waiting for others", "wait_ns", "idle"), ("transfer", "transfer_ns", "communication"))
    for name, column, colour in parts:
        made.add_bar(name=name, x=labels, y=frame[column] / 1e6, marker_color=COLOUR[colour])
    made.add_scatter(
        name="waiting that it causes", x=labels, y=frame["wait_caused_ns"] / 1e6, mode="markers",
        marker={"color": COLOUR["unexplained"], "size": 11, "symbol": "diamond"},
    )  # fmt: skip
    made.update_layout(barmode="stack", bargap=0.3)
    return made


TABLES = {
    "collectives": COLLECTIVES,
    "ranks": RANKS,
    "group_kinds": GROUP_KINDS,
    "groups": GROUPS,
    "members": MEMBERS,
}

ANALYSIS = Analysis(
    name="collectives",
    help="Collectives across ranks: which rank arrives last, how long the others wait, and the transfer rate.",
    more="Clocks of ranks are checked against the collectives they share, and corrected where these contradict them.",
    question="which rank arrives last at each collective, and how long do the others wait?",
    examples=("collectives job", "collectives job --step 2 -o collectives.csv"),
    page="reading/ranks.md",
    from_summaries=True,
    tables=TABLES,
    answer=answer,
    figure=figure,
)
