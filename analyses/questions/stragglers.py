"""stragglers: which ranks the others wait for, and what these did meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.advice import job_verdict
from analyses.declare.analysis import Analysis
from analyses.declare.answer import Answer, Note
from analyses.declare.columns import Table, integer, ns, share, text
from analyses.declare.scope import Scope
from analyses.declare.tables import joined
from analyses.display.charts import GRID, empty_figure, new_figure
from analyses.display.labels import SHORT, SHORT_IN_JOBS
from analyses.display.phrases import MANY_RANKS, RANKS_LISTED
from analyses.display.sentence_format import brief_duration, brief_share, outside_operators, quoted
from analyses.source.matched_collectives import (
    MatchedWindow,
    host_names,
    joined_job,
    judged_job,
    matched_collectives,
    matching_notes,
)
from hta_graph.base.arrays import distinct, split_intervals, summed_by
from hta_graph.base.colours import BOUND_COLOUR
from hta_graph.base.errors import Remedy
from hta_graph.base.text.sanitize import one_line
from hta_graph.base.text.shorten import short_name
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, Ints
from hta_graph.multi_rank.job_verdict import JobVerdict, wait_causes
from hta_graph.multi_rank.wait_causes import WaitCauses

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["TABLES", "answer", "figure", "stragglers"]

TITLE = "Waiting that each rank causes, by what it does meanwhile"

NOTABLE = 0.1
"""The least share of a rank's waiting that is reported."""

LEAST_PROPAGATED = 0.01
"""A screen shows what was passed on apart from this share of all waiting on."""

CAUSE_COLUMNS = ("call_path", "name", "bound_by")
"""The columns that say what a rank did."""

BETWEEN = " / "
"""The separator of the names of a call path."""

CAUSED = ns("caused_ns", "Waiting of others that it causes")
PROPAGATED = ns("propagated_ns", "Waiting for ranks that had waited for it")
CAUSES = Table(
    *("rank", "scope", text("name", "What it did more of; null without a recorded cause.", null=True)),
    *("call_path", "bound_by", CAUSED, ns("direct_ns", "Waiting for this rank itself"), PROPAGATED),
    integer("collectives", "Collectives in which they waited."),
)


@CAUSES.returned
def causes(matched: Sequence[MatchedWindow], job: DependencyGraph | None = None) -> pd.DataFrame:
    """Attribute waiting to what the late ranks did more of than those that waited, since their last collective.

    A wait is divided in proportion to what the late rank did more of, by call path, name and class, and to its own
    waits in that time, which are attributed to their causes in turn. All waiting is attributed, to the nanosecond; the
    largest causes come first. A row of a rank without a name, last, is what has no recorded cause: the ranks had no
    earlier collective in the trace, nothing shows what the rank did more of, or the wait is below the error of clocks.
    """
    job = joined_job(matched) if job is None else job
    if job is None or not any(len(item.found) for item in matched):
        return joined([], CAUSES)
    found = wait_causes(job)
    return joined([_causes_in_window(item, job, found) for item in matched if len(item.found)], CAUSES)


def _causes_in_window(item: MatchedWindow, job: DependencyGraph, found: WaitCauses) -> pd.DataFrame:
    """List the causes of one window's waits."""
    charges = found.attribute(_members_in_window(item, job))
    frame = pd.DataFrame({**found.columns_of(charges), "scope": item.label})
    return frame.astype({"rank": "Int64"})


def _members_in_window(item: MatchedWindow, job: DependencyGraph) -> Bools:
    """Mark the members of the job that take part in a window's collectives."""
    first_row = {part.rank: part.first_row for part in job.rank_graphs}
    first = np.array([first_row[rank] for rank in item.found.rank.tolist()], np.int64)
    every: Ints = np.arange(len(item.found.number))
    return np.isin(job.members.row, first + item.rows(every))


def _causes_on_screen(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the causes without columns that say nothing, and with rows of one name distinguished."""
    if not len(frame):
        return frame
    shown = frame.assign(bound_by=frame["bound_by"].map(lambda key: SHORT_IN_JOBS.get(key, key)))
    shown.insert(list(shown).index("caused_ns") + 1, "caused_share", frame["caused_ns"] / frame["caused_ns"].sum())
    if frame["propagated_ns"].sum() < LEAST_PROPAGATED * frame["caused_ns"].sum():
        shown = shown.drop(columns=["direct_ns", "propagated_ns"])
    keys = ["rank", "scope", "name", "bound_by"]
    named = shown[shown["name"].notna()]
    for _, rows in named[named.duplicated(keys, keep=False)].groupby(keys, sort=False):
        for at, place in zip(rows.index, _distinct_ends(rows["call_path"].tolist()), strict=True):
            name = short_name(str(shown.loc[at, "name"]))
            shown.loc[at, "name"] = f"{name} in {quoted(place)}" if place else name
    return shown


def _distinct_ends(call_paths: Sequence[str]) -> list[str]:
    """Return of each call path the last name that not all have; without any its last one.

    >>> _distinct_ends(["a / b / x", "a / c / x", ""])
    ['x', 'x', '']
    >>> _distinct_ends(["a / b / x", "a / c / x"])
    ['b', 'c']
    """
    parts = [one.split(BETWEEN) for one in call_paths]
    common = set.intersection(*map(set, parts))
    return [next((name for name in reversed(own) if name not in common), own[-1]) for own in parts]


def _headline(
    frame: pd.DataFrame, found: JobVerdict, window: str, hosts: Mapping[int, str]
) -> tuple[list[str], list[str | Note]]:
    """Say which rank delays the others and by what, as the verdict of the job has it; notes say more."""
    waited = int(frame["caused_ns"].sum())
    if not waited:
        return [job_verdict.nobody(found, "")], []
    doubt = [text for text in (job_verdict.doubt(found),) if text]
    if found.firmness != "none":
        own = frame[frame["rank"].isin(found.ranks)]
        caused = int(own["caused_ns"].sum())
        said = job_verdict.job_sentences(found, window, hosts, {})
        notes = [*doubt, *_propagated_notes(own, caused), *_unknown_notes(frame, waited)]
        if found.rank is None:
            return said, list(notes)
        estimate = Remedy(
            f"hg.replay(job, hg.scenario('rank_like_others', '{found.rank}'))",
            f"hta-graph what-if DIR --scenario rank_like_others={found.rank}",
        )
        return said, [*notes, Note("Estimated saving at the others' speed", estimate, between=": ")]
    by_rank = frame[frame["name"].notna()].groupby("rank")["caused_ns"].sum()
    named = frame[frame["name"].notna()]
    largest = _largest_cause(named, waited) if len(named) else []
    host = _main_host(by_rank, hosts, int(by_rank.sum()))
    caused_ns = dict(zip(by_rank.index.astype(int).tolist(), by_rank.tolist(), strict=True))
    return job_verdict.job_sentences(found, window, hosts, caused_ns, host), [
        *largest,
        *doubt,
        *_unknown_notes(frame, waited),
    ]


def _main_host(by_rank: pd.Series[int], hosts: Mapping[int, str], waited: int) -> str:
    """Name the host whose ranks cause more than those of all other hosts together, if there is one."""
    by_host = by_rank.groupby([hosts.get(int(rank), "") for rank in by_rank.index]).sum().drop("", errors="ignore")
    if not len(by_host) or 2 * int(by_host.max()) <= waited:
        return ""
    return f"; {brief_share(int(by_host.max()) / waited)} is caused on host {one_line(str(by_host.idxmax()))}"


def _largest_cause(named: pd.DataFrame, waited: int) -> list[str]:
    """Name what causes more than anything else, on any rank."""
    (rank, *what), most = _largest_sum(named, ["rank", *CAUSE_COLUMNS])
    share = brief_share(most / waited)
    return [f"Largest single cause: {_cause_text(what)} on rank {int(rank)}, {share} of the waiting."]


def _propagated_notes(own: pd.DataFrame, caused: int) -> list[str]:
    passed = int(own["propagated_ns"].sum())
    if not caused or passed < NOTABLE * caused:
        return []
    share = brief_share(passed / caused)
    return [f"{share} of the waiting that it causes reaches the others through ranks that wait, too."]


def _unknown_notes(rows: pd.DataFrame, caused: int) -> list[str]:
    lost = int(rows.loc[rows["name"].isna(), "caused_ns"].sum())
    return [f"{brief_duration(lost)} of the waiting has no recorded cause."] if lost >= NOTABLE * caused else []


def _largest_sum(rows: pd.DataFrame, keys: Sequence[str]) -> tuple[list[str], int]:
    """Return the values of some columns that cause most together, and how much (ns)."""
    sums = rows.groupby(list(keys), sort=False)["caused_ns"].sum().sort_values(ascending=False, kind="stable")
    largest = next(sums.reset_index().itertuples(index=False))
    return list(map(str, largest[:-1])), int(largest[-1])


def _cause_text(what: Sequence[str]) -> str:
    """Say what was done, and in what."""
    call_path, name, bound = what
    around = call_path.rpartition(BETWEEN)[2]
    if SHORT_IN_JOBS[bound] == SHORT["cpu_gap"]:
        return outside_operators(short_name(name))
    return f"{quoted(short_name(name))}{f' in {quoted(around)}' if around else ''} ({SHORT_IN_JOBS[bound]})"


CAUSED_SHARE = share("wait_caused_share", "wait_caused_ns as a share of the waiting of all ranks", null=True)
HOSTS = Table(
    *("host", "scope", integer("ranks", "Number of ranks."), "worst_rank", "times_last"),
    *("wait_caused_ns", CAUSED_SHARE, CAUSED, ns("wait_ns", "Waiting of its own ranks")),
)
BY_HOST = ["scope", "host"]


@HOSTS.returned
def hosts(caused: pd.DataFrame, attributed: pd.DataFrame, matched: Sequence[MatchedWindow]) -> pd.DataFrame:
    """Add up :func:`stragglers` and :func:`causes` by host, where every rank's trace names its host and these differ.

    ``wait_caused_ns`` is waiting for ranks of the host where they arrive last, ``caused_ns`` what is attributed to
    what they did. The worst host comes first.
    """
    names = host_names(matched)
    if not names:
        return joined([], HOSTS)
    frame = (
        _with_hosts(caused, names)
        .groupby(BY_HOST, sort=False)
        .agg(
            ranks=("rank", "count"),
            # Ranks stand in order of what they cause.
            worst_rank=("rank", "first"),
            times_last=("times_last", "sum"),
            wait_caused_ns=("wait_caused_ns", "sum"),
            wait_caused_share=("wait_caused_share", "sum"),
        )
    )
    for name, rows in (("caused_ns", attributed), ("wait_ns", _waits_of_members(matched))):
        sums = _with_hosts(rows, names).groupby(BY_HOST)[name].sum()
        frame[name] = sums.reindex(frame.index, fill_value=0)
    windows = [own for _, own in frame.reset_index().groupby("scope", sort=False)]
    return joined([own.sort_values("wait_caused_ns", ascending=False, kind="stable") for own in windows], HOSTS)


def _with_hosts(rows: pd.DataFrame, names: Mapping[int, str]) -> pd.DataFrame:
    """Name the host in each row of a rank; what is of no rank is left out."""
    known = rows[rows["rank"].notna()]
    return known.assign(host=known["rank"].map(names))


def _waits_of_members(matched: Sequence[MatchedWindow]) -> pd.DataFrame:
    """List how long each member waited."""
    return pd.concat(
        pd.DataFrame({"rank": item.found.rank, "scope": item.label, "wait_ns": item.found.wait}) for item in matched
    )


ROWS, TIMES = 512, 200
"""A heat map has no more rows and columns than this."""
TICKS = 8
SCALE = ("rgba(128,128,128,0.08)", "#5a4fcf")
"""From no waiting to nothing else, in a color that is no class's."""


def waiting_over_time(matched: Sequence[MatchedWindow]) -> pd.DataFrame:
    """Return the share of time that ranks wait: a row per rank, or per band of very many ranks.

    Columns are the beginnings of equal parts of the time (ms). Waits of asynchronous collectives overlap, and may
    exceed the whole time.
    """
    found = [item.found for item in matched if len(item.found)]
    if not found:
        return pd.DataFrame()
    rank, start, wait = (np.concatenate([getattr(one, name) for one in found]) for name in ("rank", "arrival", "wait"))
    first, last = int(start.min()), max(int(one.end.max()) for one in found)
    count = min(TIMES, max(last - first, 1))
    edges = first + (last - first) * np.arange(count + 1) // count
    ranks = distinct(rank)
    together = -(-len(ranks) // ROWS)
    member, begin, end = split_intervals(start, start + wait, edges[1:-1])
    row = np.searchsorted(ranks, rank)[member] // together
    column = np.searchsorted(edges[1:-1], begin, side="right")
    labels = [_band(*ranks[at : at + together][[0, -1]].tolist()) for at in range(0, len(ranks), together)]
    sums = summed_by(row * count + column, end - begin, len(labels) * count).reshape(-1, count)
    sizes = np.minimum(together, len(ranks) - together * np.arange(len(labels)))
    share = sums / (sizes[:, None] * np.maximum(np.diff(edges), 1))
    return pd.DataFrame(share.round(4), labels, (edges[:-1] - first) / 1e6)


def _band(first: int, last: int) -> str:
    """Name ranks that share a row.

    >>> _band(3, 3), _band(4, 6)
    ('rank 3', 'ranks 4 to 6')
    """
    return f"rank {first}" if first == last else f"ranks {first} to {last}"


def figure_of_many_ranks(waiting: pd.DataFrame, attributed: pd.DataFrame, ranks: int) -> Figure:
    """Draw when ranks wait, and below what the worst of them did while others waited for them."""
    together = -(-ranks // len(waiting))
    made = new_figure(
        title=f"When each of {ranks:,} ranks waits for others{f' ({together} ranks per row)' if together > 1 else ''}"
    )
    made.set_subplots(rows=2, cols=1, row_heights=[0.68, 0.32], vertical_spacing=0.14)
    made.update_xaxes(gridcolor=GRID, zeroline=False, automargin=True)
    made.update_yaxes(gridcolor=GRID, zeroline=False, automargin=True)
    made.add_heatmap(
        z=waiting.to_numpy(),
        x=list(waiting.columns),
        y=list(waiting.index),
        zmin=0,
        zmax=min(max(float(waiting.to_numpy().max()), 1e-4), 1.0),
        colorscale=list(SCALE),
        colorbar={
            "title": "share of time",
            "tickformat": ".0%",
            "len": 0.68,
            "y": 1,
            "yanchor": "top",
            "thickness": 12,
        },
        hovertemplate="%{y}<br>from %{x:,.3f} ms: waits %{z:.1%}<extra></extra>",
        row=1,
        col=1,
    )
    named = list(waiting.index[:: -(-len(waiting) // TICKS)])
    made.update_yaxes(autorange="reversed", tickmode="array", tickvals=named, showgrid=False, row=1, col=1)
    made.update_xaxes(title="ms", showgrid=False, row=1, col=1)
    _add_worst_ranks(made, attributed)
    return made


def _add_worst_ranks(made: Figure, attributed: pd.DataFrame) -> None:
    """Draw below how much waiting the worst ranks caused, by class."""
    worst = (
        attributed.groupby("rank")["caused_ns"].sum().sort_values(ascending=False, kind="stable").index[:RANKS_LISTED]
    )
    add_class_bars(made, attributed[attributed["rank"].isin(worst)], row=2, col=1)
    made.update_layout(barmode="stack", bargap=0.3, legend={"y": -0.12})
    made.update_xaxes(categoryorder="array", categoryarray=[f"rank {rank}" for rank in worst], row=2, col=1)
    made.update_yaxes(title="ms that others waited", row=2, col=1)


def add_class_bars(made: Figure, attributed: pd.DataFrame, **place: Any) -> None:
    """Draw a bar per rank of the waiting that it caused, by the class of what it did meanwhile."""
    for bound, colour in BOUND_COLOUR.items():
        own = attributed[attributed["bound_by"] == bound].sort_values(["rank", "caused_ns"], ascending=[True, False])
        sums = own.groupby("rank")["caused_ns"].sum()
        if len(own):
            made.add_bar(
                name=SHORT_IN_JOBS[bound],
                x=[f"rank {rank}" for rank in sums.index],
                y=sums / 1e6,
                marker_color=colour,
                customdata=own.groupby("rank")["name"].first().reindex(sums.index).fillna("no recorded cause"),
                hovertemplate="%{x}: %{y:,.3f} ms, mostly %{customdata}",
                **place,
            )


STRAGGLERS = Table(
    *("rank", "scope", integer("collectives", "Collectives that it took part in."), "times_last"),
    share("last_share", "times_last as a share of all matched collectives in the window", null=True),
    *("wait_caused_ns", CAUSED_SHARE, CAUSED, PROPAGATED),
)


@STRAGGLERS.returned
def stragglers(matched: Sequence[MatchedWindow], attributed: pd.DataFrame | None = None) -> pd.DataFrame:
    """Sort ranks by the waiting that they cause, also where it reaches others through ranks that wait themselves.

    HTA compares the starts of one kernel by its name and stream number; here every collective counts, by how long the
    others waited in it. ``attributed`` are the causes, if they are known. ``wait_caused_ns`` is waiting for the rank
    where it arrives last, ``caused_ns`` what is attributed to what it did, passed on or not.
    """
    attributed = causes(matched) if attributed is None else attributed
    return joined([_waiting_caused(item, attributed) for item in matched if len(item.found)], STRAGGLERS)


def _waiting_caused(item: MatchedWindow, attributed: pd.DataFrame) -> pd.DataFrame:
    """Add up what each rank caused in one window, the worst first."""
    found = item.found
    # Ranks with a collective in the window have a row, even without the window itself, such as a step that they lack.
    ranks = np.union1d(np.array(sorted(item.scopes), np.int64), found.rank)
    last = np.searchsorted(ranks, found.rank[found.last])  # ranks need not be numbered from 0
    waited = np.flatnonzero(found.wait > 0)
    caused = summed_by(np.searchsorted(ranks, found.awaited[waited]), found.wait[waited], len(ranks))
    taken = np.bincount(np.searchsorted(ranks, found.rank), minlength=len(ranks))
    times = np.bincount(last, minlength=len(ranks))
    known = attributed[(attributed["scope"] == item.label) & attributed["name"].notna() & attributed["rank"].notna()]
    sums = known.groupby("rank")[["caused_ns", "propagated_ns"]].sum().reindex(ranks, fill_value=0)
    frame = pd.DataFrame({
        "rank": ranks,
        "scope": item.label,
        "collectives": taken,
        "times_last": times,
        "last_share": times / len(found),
        "wait_caused_ns": caused,
        "wait_caused_share": caused / max(int(caused.sum()), 1),
        "caused_ns": sums["caused_ns"].to_numpy(np.int64),
        "propagated_ns": sums["propagated_ns"].to_numpy(np.int64),
    })  # fmt: skip
    order = ["caused_ns", "wait_caused_ns", "times_last", "rank"]
    return frame.sort_values(order, ascending=[False, False, False, True])


def answer(scopes: Sequence[Scope]) -> Answer:
    """Return the tables ``stragglers`` and ``hosts`` (the waiting that each caused) and ``causes`` (by which work).

    Args:
        scopes: one for each rank, or the steps of each.
    """
    matched = matched_collectives(scopes)
    job = joined_job(matched)
    attributed = causes(matched, job)
    caused = stragglers(matched, attributed)
    judged = None if job is None else judged_job(matched, job)
    tables = {"stragglers": caused, "hosts": hosts(caused, attributed, matched), "causes": attributed}
    summed = dict.fromkeys(("stragglers", "hosts"), "the other ranks and all collectives")
    said, notes = list[str](), list[str | Note]()
    if judged is not None and len(caused):
        said, notes = _headline(attributed, judged.verdict, judged.window, host_names(matched))
        said = job_verdict.with_recording(said, judged.verdict, judged.late, judged.missing)
    return Answer(
        tables,
        [*notes, *matching_notes(scopes, matched)],
        opening=said,
        conclusion=said,
        keys={"job_verdict": job_verdict.record(None if judged is None else judged.verdict)},
        summed=summed | {"causes": "the ranks that waited"},
        worst_by={"stragglers": "caused_ns"},
        on_screen={"stragglers": _worst_first(caused), "causes": _causes_on_screen(attributed)},
        drawn={"waiting": waiting_over_time(matched)} if caused["rank"].nunique() > MANY_RANKS else {},
    )


def _worst_first(caused: pd.DataFrame) -> pd.DataFrame:
    """Put the rows of several steps in order of the waiting that they cause, so that none hides behind the first ones.

    Of many ranks each step has its worst ranks on a screen.
    """
    if caused["scope"].nunique() < 2 or caused["rank"].nunique() > MANY_RANKS:
        return caused
    return caused.sort_values("caused_ns", ascending=False, kind="stable", ignore_index=True)


def figure(found: Answer) -> Figure:
    """Draw the waiting that each rank caused, by the class of its work meanwhile; of many, also when they wait."""
    frame = found.tables["causes"]
    if not len(frame):
        return empty_figure(TITLE, "No rank waits for another.")
    if "waiting" in found.drawn:
        return figure_of_many_ranks(found.drawn["waiting"], frame, found.tables["stragglers"]["rank"].nunique())
    made = new_figure(title=TITLE, y="ms, of all other ranks together")
    add_class_bars(made, frame)
    made.update_layout(barmode="stack", bargap=0.3)
    made.update_xaxes(
        categoryorder="array", categoryarray=[f"rank {rank}" for rank in sorted(frame["rank"].dropna().unique())]
    )
    return made


TABLES = {"stragglers": STRAGGLERS, "hosts": HOSTS, "causes": CAUSES}

ANALYSIS = Analysis(
    name="stragglers",
    help="Find the ranks that delay the others, and why.",
    more="The rank that arrives last at a collective makes the others wait; what it does meanwhile is the cause.",
    question="which ranks delay the others, and [why](which_rank.md)?",
    examples=("stragglers job", "stragglers job --per-step", "stragglers job --json -"),
    page="which_rank.md",
    from_summaries=True,
    tables=TABLES,
    answer=answer,
    figure=figure,
    judges=True,
)
