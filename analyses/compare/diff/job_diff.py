"""diff of two jobs: whether one is slower, where on its path, on which ranks and hosts, and who delays others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from analyses.advice import job_verdict
from analyses.compare.diff.change_tables import (
    CHANGES,
    CLASSES,
    PATH_EVENTS,
    changed_rows,
    with_labels,
    with_shared_names,
)
from analyses.compare.diff.conclusion import (
    beyond_noise,
    conclusion_lines,
    is_same_recording,
    noise_lines,
    without_difference,
)
from analyses.compare.diff.environment import ENVIRONMENT, caveats, environment, environment_lines
from analyses.compare.diff.job_side import CAUSE_KEYS, GROUP_KEYS, STEPS_LISTED, JobRows, JobSide
from analyses.compare.diff.length_comparison import AllSteps, Comparison, compare_lengths, last_levels, repetition_noise
from analyses.compare.diff.lost_time import lost_time
from analyses.compare.diff.merge_tables import SIDES, SideRows, merge_medians
from analyses.compare.diff.run_diff import answer_of_comparison, comparison_keys, lost_lines, naming_lines, work_lines
from analyses.compare.diff.sides import BEFORE_AFTER, OTHER_RANK, Side, side_name, sides
from analyses.compare.diff.step_kinds import kinds_by_number, kinds_of_steps
from analyses.declare.answer import Answer, Note, records
from analyses.declare.columns import GROUP_KIND, Table, integer, ns, text
from analyses.display.labels import SHORT_IN_JOBS
from analyses.display.phrases import RANKS_LISTED
from analyses.display.sentence_format import brief_share, quoted
from hta_graph.base.errors import Remedy
from hta_graph.base.text.formatting import signed_milliseconds
from hta_graph.base.text.sanitize import one_line
from hta_graph.base.text.shorten import short_name
from hta_graph.graph.conversion import none_where
from hta_graph.model import Ints

OTHER_RANKS = "with different ranks recorded"
"""Caveats, as they are part of the verdict."""


@ENVIRONMENT.returned
def job_environment(control: JobSide, test: JobSide, around: pd.DataFrame) -> pd.DataFrame:
    """List the differences in the environment of two jobs, their ranks first, then those of one rank of each.

    Args:
        control: the job to compare with.
        test: the job that changed.
        around: the differences in the environment of the rank of each job that is compared too.
    """
    sides = ((control, test), (test, control))
    ranks = ("ranks", *(_ranks_text(own, other) for own, other in sides))
    hosts = ("hosts", *(_hosts_text(own) for own, _ in sides))
    groups = ("process groups", *(_groups_text(own) for own, _ in sides))
    first = [row for row in (ranks, groups, hosts) if row[1] != row[2] and all(row)]
    return pd.concat([pd.DataFrame(first, columns=around.columns, dtype=object), around], ignore_index=True)


def _ranks_text(own: JobSide, other: JobSide) -> str:
    """Count the ranks of a job, and list those that the other job lacks."""
    alone = sorted(own.files.keys() - other.files.keys())
    # The ranks that make a job larger than another one need no list.
    listed = _listed(alone) if _job_size(own) == _job_size(other) else ""
    return _ranks_of_size(len(own.files), own.world_size, listed)


def _ranks_of_size(count: int, size: int | None, alone: str) -> str:
    """Count the ranks of a job, and list those that the other job lacks.

    >>> _ranks_of_size(3, 4, "2"), _ranks_of_size(4, 4, "")
    ('3 of 4, including 2', '4')
    """
    said = f"{count} of {size}" if size is not None and size > count else f"{count}"
    return f"{said}, including {alone}" if alone else said


def _job_size(side: JobSide) -> int:
    return side.world_size or len(side.files)


def _listed(ranks: Sequence[int]) -> str:
    hidden = len(ranks) - RANKS_LISTED
    return ", ".join(map(str, ranks[:RANKS_LISTED])) + (f" and {hidden} more" if hidden > 0 else "")


def _hosts_text(side: JobSide) -> str:
    """Count the hosts of a job; empty if a rank does not record its own."""
    return str(len(set(side.hosts.values()))) if len(side.hosts) == len(side.files) else ""


def _groups_text(side: JobSide) -> str:
    """List the groups of a job by kind and size, largest kinds first."""
    kinds = Counter(side.rows.groups.drop_duplicates(GROUP_KEYS)[GROUP_KEYS[:2]].itertuples(index=False, name=None))
    listed = sorted(((ranks, kind, count) for (kind, ranks), count in kinds.items()), reverse=True)
    return ", ".join(f"{count} × {kind + ' of ' if kind else ''}{ranks}" for ranks, kind, count in listed)


def job_caveats(control: JobSide, test: JobSide, of_rank: Collection[str]) -> list[str]:
    """Return why a difference of jobs is more than the effect of a change: other ranks, and the caveats of one rank."""
    said = [words for words in of_rank if words != OTHER_RANK]
    sizes = [_job_size(side) for side in (control, test)]
    if sizes[0] != sizes[1]:
        return [f"with {sizes[1]} ranks instead of {sizes[0]}", *said]
    return [OTHER_RANKS, *said] if control.files.keys() != test.files.keys() else said


def missing_rank_lines(control: JobSide, test: JobSide) -> list[str]:
    """Report ranks that are not given, or lack a compared step."""
    said = []
    for name, side in (("control", control), ("test", test)):
        lacking = max((side.world_size or 0) - len(side.files), 0)
        if lacking:
            are, them = ("is", "it") if lacking == 1 else ("are", "them")
            said.append(
                f"{side_name(name)}: {lacking:,} of {side.world_size or 0:,} ranks {are} missing; waiting for "
                f"{them} has no recorded cause."
            )
        if side.missing:
            listed = _listed(side.missing)
            who = f"rank {listed} does" if len(side.missing) == 1 else f"ranks {listed} do"
            said.append(
                f"{side_name(name)}: {who} not have every compared step and "
                f"{'is' if len(side.missing) == 1 else 'are'} left out there."
            )
    return said


JobComparison = Comparison[JobSide]

CONTROL_HOST = text("control_host", "Host in the control; null if not recorded, or if there are several.", null=True)
CAUSED = Table(
    ns("control_caused_ns", "Waiting of others that it causes in the control"),
    ns("test_caused_ns", "Waiting of others that it causes in the test"),
)
RANKS = Table(
    *("rank", "host", CONTROL_HOST, ns("control_ns", "Critical path on the rank in the control")),
    *(ns("test_ns", "Critical path on the rank in the test"), "diff_ns", "noise_ns", CAUSED),
)
HOSTS = Table(text("host", "Host."), CONTROL_HOST, integer("ranks", "Number of ranks on the host."), CHANGES, CAUSED)
GROUPS = Table(
    *(GROUP_KIND, integer("ranks", "Number of ranks in each group."), "groups", CHANGES, "worst_group"),
    ns("worst_diff_ns", "Change in the waiting of worst_group"),
)
CAUSES = Table(
    *("rank", text("name", "What the rank did; null if not recorded.", null=True), "call_path", "bound_by", CHANGES),
)


@CLASSES.returned
def job_classes(found: JobComparison) -> pd.DataFrame:
    """Compare the classes of the jobs' paths, the largest difference first."""
    return _medians(found, lambda rows: rows.classes, ["bound_by"], ["ns"])


@PATH_EVENTS.returned
def job_names(found: JobComparison, shared: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Compare the events on the jobs' paths, on any rank, those of one shared name together."""
    keys = ["name", "bound_by"]
    return changed_rows(
        _medians(found, lambda rows: with_shared_names(rows.names, shared or {}, keys), keys, ["calls", "ns"])
    )


@RANKS.returned
def job_ranks(found: JobComparison) -> pd.DataFrame:
    """Compare the ranks that both jobs have, by their numbers."""
    kept = common_ranks(found)
    frame = _caused_last(_medians(found, lambda rows: _of_ranks(rows.ranks, kept), ["rank"], ["ns", "caused_ns"]))
    for name, side in (("control_host", found.control), ("host", found.test)):
        frame.insert(1, name, _texts([side.hosts.get(rank) for rank in frame["rank"].tolist()]))
    return frame


@HOSTS.returned
def job_hosts(found: JobComparison) -> pd.DataFrame:
    """Add up the ranks by the hosts of the test, where its traces name several: the same ranks on both sides."""
    hosts = {rank: found.test.hosts[rank] for rank in common_ranks(found) if rank in found.test.hosts}
    ranks: dict[str, list[int]] = {}
    for rank, host in hosts.items():
        ranks.setdefault(host, []).append(rank)
    kept = hosts if len(ranks) > 1 else {}
    frame = _caused_last(_medians(found, lambda rows: _by_host(rows, kept), ["host"], ["ns", "caused_ns"]))
    before = [{found.control.hosts.get(rank) for rank in ranks[host]} for host in frame["host"]]
    frame.insert(1, "control_host", _texts([names.pop() if len(names) == 1 else None for names in before]))
    frame.insert(2, "ranks", np.array([len(ranks[host]) for host in frame["host"]], np.int64))
    return frame


def _by_host(rows: JobRows, hosts: Mapping[int, str]) -> pd.DataFrame:
    own = _of_ranks(rows.ranks, hosts)
    own = own.assign(host=own["rank"].map(hosts).astype(object))
    return own.groupby(["window", "host"])[["ns", "caused_ns"]].sum().reset_index()


@GROUPS.returned
def job_groups(found: JobComparison) -> pd.DataFrame:
    """Compare how long ranks waited for each other in process groups, by kind and size."""
    keys, least_ns = GROUP_KEYS[:2], _least_wait_ns(found)
    frame = _medians(found, _by_kind, keys, ["ns"], least_ns)
    each = _medians(found, lambda rows: rows.groups, GROUP_KEYS, ["ns"])
    each = each.loc[each["diff_ns"].abs().sort_values(ascending=False, kind="stable").index]
    worst = each.groupby(keys).agg(
        groups=("group", "size"), worst_group=("group", "first"), worst_diff_ns=("diff_ns", "first")
    )
    frame = frame.merge(worst.reset_index(), on=keys, how="left")
    frame.insert(2, "groups", frame.pop("groups"))
    return frame.assign(kind=_none_for_nothing(frame, "kind", frame["kind"]))


def _by_kind(rows: JobRows) -> pd.DataFrame:
    return rows.groups.groupby(["window", *GROUP_KEYS[:2]])["ns"].sum().reset_index()


@CAUSES.returned
def job_causes(found: JobComparison, shared: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Compare what made other ranks wait, on the ranks that both jobs have; what shares a name together."""
    kept = common_ranks(found)
    rows = _medians(
        found,
        lambda rows: with_shared_names(_of_ranks(rows.causes, kept), shared or {}, CAUSE_KEYS),
        CAUSE_KEYS,
        ["ns"],
        _least_wait_ns(found),
    )
    frame = changed_rows(rows)
    return frame.assign(**{key: _none_for_nothing(frame, key, frame["name"]) for key in ("call_path", "name")})


def common_ranks(found: JobComparison) -> list[int]:
    """Return the ranks that both jobs have."""
    return sorted(found.control.files.keys() & found.test.files.keys())


def _least_wait_ns(found: JobComparison) -> float:
    """Return the waiting of all ranks but one, where each waits for as long as iterations differ by chance.

    Of thousands of causes some leave their own bands by chance; a rank that delays a job makes all others wait.
    """
    return found.noise_share * found.lengths[0] * max(len(common_ranks(found)) - 1, 1)


def _medians(
    found: JobComparison,
    rows_of: Callable[[JobRows], pd.DataFrame],
    keys: list[str],
    values: list[str],
    least_ns: float = 0.0,
) -> pd.DataFrame:
    """Make one table of the rows of all steps."""
    sides = [
        SideRows(side.rows.count, rows_of(side.rows), _kinds_of_rows(side, kind) if found.kinds.are_several else None)
        for side, kind in zip((found.control, found.test), found.kinds.by_side, strict=True)
    ]
    return merge_medians(sides, keys, values, found.row_noise_share, least_ns)


def _kinds_of_rows(side: JobSide, kind: Ints) -> Ints:
    """Return the kinds of the steps that have rows, which may be some of very many."""
    found: Ints = kind[np.searchsorted(side.numbers, np.array(side.path_numbers, np.int64))]
    return found


def _of_ranks(rows: pd.DataFrame, ranks: Collection[int]) -> pd.DataFrame:
    return rows[rows["rank"].isin(list(ranks))]


def _caused_last(frame: pd.DataFrame) -> pd.DataFrame:
    """Move the caused waiting after the times of the path."""
    caused = [f"{side}_caused_ns" for side in SIDES]
    return frame[[*(name for name in frame if name not in caused), *caused]]


def _texts(values: list[str | None]) -> pd.Series[Any]:
    return pd.Series(values, dtype=object)


def _none_for_nothing(frame: pd.DataFrame, column: str, text: pd.Series[Any]) -> Any:
    """Return a column with None where a text is empty."""
    return none_where(frame[column].to_numpy(object, copy=True), (text == "").to_numpy(np.bool_))


BETWEEN = " / "
"""The separator of names in a call path."""
DOMINANT_SHARE = 0.5


def job_conclusion(
    found: JobComparison, tables: Mapping[str, pd.DataFrame], caveats: Sequence[str], repeated_on: int | None
) -> list[str]:
    """State whether the test is slower, how sure that is, where the difference is, and which rank delays others now.

    Args:
        found: the lengths of both jobs.
        tables: those of the jobs, by name.
        caveats: what else than the program differs.
        repeated_on: the rank whose repetitions give the noise of too few steps.
    """
    shared = found.shared_names
    together = job_names(found, shared) if shared else tables["job_names"]
    said = conclusion_lines(
        found,
        tables["job_classes"],
        tables["job_names"],
        caveats,
        together=together,
        labels=SHORT_IN_JOBS,
        repeated_on=repeated_on,
    )
    if not found.beyond_noise:
        return said
    change_ns = found.difference_ns
    causes = job_causes(found, shared) if shared else tables["job_causes"]
    return [*said, *_where_lines(change_ns, tables), *_cause_lines(change_ns, causes, together, tables["job_ranks"])]


def _where_lines(change_ns: int, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Name the rank that most of the difference is on, else the host."""
    for name, key in (("job_ranks", "rank"), ("job_hosts", "host")):
        rows = beyond_noise(tables[name])
        for row in rows[rows["diff_ns"] / change_ns >= DOMINANT_SHARE].head(1).to_dict("records"):
            where = _place(None if key == "host" else row["rank"], row["host"])
            return [
                (
                    f"The critical path is {'longer' if change_ns > 0 else 'shorter'} on {where}: "
                    f"{signed_milliseconds(row['diff_ns'])} ms."
                )
            ]
    return []


def _cause_lines(change_ns: int, causes: pd.DataFrame, names: pd.DataFrame, ranks: pd.DataFrame) -> list[str]:
    """Name the rank that others wait for now, or no longer."""
    causes = beyond_noise(causes)
    causes = causes[causes["name"].notna() & (causes["diff_ns"] / change_ns > 0)]
    # In a pipeline waiting moves from rank to rank by chance: what also made the path longer comes first.
    on_path = beyond_noise(names)
    on_path = on_path[on_path["diff_ns"] / change_ns > 0]
    causes = causes.loc[(~causes["name"].isin(on_path["name"])).sort_values(kind="stable").index]
    for row in causes.head(1).to_dict("records"):
        larger = "test" if row["diff_ns"] > 0 else "control"
        own: Any = ranks.set_index("rank").loc[row["rank"]]
        shares = [
            share_of(int(own[column]), int(ranks[column].sum())) for column in (f"{side}_caused_ns" for side in SIDES)
        ]
        of_it = share_of(int(row[f"{larger}_ns"]), int(own[f"{larger}_caused_ns"]))
        where = _place(row["rank"], own["host"])
        around = row["call_path"].rpartition(BETWEEN)[2]
        inside = f" in {quoted(around)}" if around else ""
        cause = f"{quoted(short_name(row['name']))}{inside} ({SHORT_IN_JOBS[row['bound_by']]})"
        return [_waits_changed(where, (shares[0], shares[1]), cause, of_it, longer=row["diff_ns"] > 0)]
    return []


def _place(rank: int | None, host: str | None) -> str:
    """Name a rank with its host, or a host.

    >>> _place(1, "node-a"), _place(1, None), _place(None, "node-a")
    ('rank 1 (host node-a)', 'rank 1', 'host node-a')
    """
    if rank is None:
        return f"host {one_line(host or '')}"
    return f"rank {rank} (host {one_line(host)})" if host else f"rank {rank}"


def _waits_changed(where: str, shares: tuple[float, float], cause: str, of_it: float, *, longer: bool) -> str:
    """Name the rank that delays the others now, or no longer does, and why; waits may overlap, so they are shares.

    >>> _waits_changed("rank 1", (0.06, 0.99), "aten::mm", 0.9, longer=True)
    'Rank 1 now delays the others: it causes 6% → 99% of the waiting with a known cause; 90% of that in aten::mm.'
    """
    was, now = map(brief_share, shares)
    who = f"{where[0].upper()}{where[1:]}"
    delays = "now delays the others" if longer else "delays the others less"
    shown = f"it causes {was} → {now} of the waiting with a known cause"
    return f"{who} {delays}: {shown}; {brief_share(of_it)} of {'that' if longer else 'what it caused'} in {cause}."


def share_of(part_ns: int, whole_ns: int) -> float:
    """Return a part of a whole, both of which are medians."""
    return min(part_ns / whole_ns, 1.0) if whole_ns else 0.0


ROWS_SHOWN = 10
ONLY_WITH_ALL = ("job_names", "job_groups", "job_causes")
"""The tables that a terminal omits where nothing differs."""


def common_rank(control: JobSide, test: JobSide) -> int:
    """Return the rank that is compared in addition to two jobs: the lowest common one, if possible without gaps.

    Without a common rank, the lowest of the control.
    """
    ranks = sorted(control.files.keys() & test.files.keys()) or [min(control.files)]
    lacking = {*control.missing, *test.missing}
    return next((rank for rank in ranks if rank not in lacking), ranks[0])


def between_jobs(control: JobSide, test: JobSide, ranks: Comparison[Side]) -> JobComparison:
    """Compare two jobs by all of their steps, or by a window of each.

    Args:
        control: the job to compare with.
        test: the job that changed.
        ranks: one rank of each, compared: its repetitions give the noise where steps are too few.
    """
    every = ranks.all_steps or AllSteps((ranks.control.numbers, ranks.test.numbers), ranks.kinds)
    kinds = kinds_by_number(every.kinds, every.numbers, (control.numbers, test.numbers))
    control, test, kinds, course = last_levels(control, test, kinds)
    near = [side.neighbors for side in (ranks.control, ranks.test)]
    of_neighbors = kinds_by_number(
        kinds_of_steps(near[0].scopes, near[1].scopes),
        (near[0].number, near[1].number),
        (control.neighbors.number, test.neighbors.number),
    )
    found = compare_lengths(
        control,
        test,
        lambda: repetition_noise(ranks.control, ranks.test, communication=False),
        kinds,
        of_neighbors,
    )
    refused = found.refused
    if control.phases and test.phases and not control.phases & test.phases:
        refused = _other_phases(sorted(control.phases), sorted(test.phases))
    return replace(found, course=course, refused=refused)


def _other_phases(before: Sequence[str], after: Sequence[str]) -> str:
    """Refuse steps in which inference engines do different things.

    >>> _other_phases(["prefill"], ["decode"])
    'most time before is in prefill steps, after in decode steps'
    """
    return f"most time before is in {' and '.join(before)} steps, after in {' and '.join(after)} steps"


def answer_of_jobs(found: JobComparison, ranks: Comparison[Side]) -> Answer:
    """Return what changed between two jobs, and, as series, the tables of one rank of each.

    Args:
        found: the jobs.
        ranks: one rank of each, which the tables and keys of a comparison of single ranks describe.

    Returns:
        The tables ``job_classes``, ``job_names``, ``job_ranks``, ``job_hosts``, ``job_groups``, ``job_causes``, and
        ``environment``. The notes begin with the conclusion and the differences in the environment.
    """
    made_by = (job_classes, job_names, job_ranks, job_hosts, job_groups, job_causes)
    tables = {name: make(found) for name, make in zip(TABLES, made_by, strict=True)}
    of_one_rank = answer_of_comparison(ranks)
    sides = (found.control, found.test)
    of_ranks = environment(ranks.control.scope, ranks.test.scope)
    around = job_environment(*sides, of_ranks)
    limits = job_caveats(*sides, caveats(ranks.control.scope, ranks.test.scope, of_ranks))
    conclusion = job_conclusion(found, tables, limits, ranks.control.graph.rank)
    if not is_same_recording(found):
        conclusion += work_lines(ranks, of_one_rank.tables["kernels_in_order"])
    is_same = is_same_recording(found)
    before, after = ([], []) if is_same else _verdict_lines(found)
    # Noise of few steps hides what the verdict on the test finds in them.
    first = after if _is_hidden(found) else []
    if is_same:
        # Nothing but zeros would be in them.
        tables = {name: frame.iloc[:0] for name, frame in tables.items()}
    job = {"conclusion": " ".join(conclusion), "caveats": limits, **_job_keys(found)}
    more = {"environment": around} if len(around) else {}
    return replace(
        of_one_rank,
        tables=tables | more,
        series={name: frame for name, frame in of_one_rank.tables.items() if name != "environment"},
        opening=[
            *first,
            *conclusion[:1],
            *(after if not first else []),
            *([] if is_same else [*environment_lines(around), *missing_rank_lines(*sides)]),
            *conclusion[1:],
            *before,
        ],
        conclusion=conclusion,
        closing_notes=[]
        if is_same
        else [*_closing_lines(found), _rank_note(ranks), *lost_lines(ranks), *naming_lines(ranks), *noise_lines(found)],
        keys={
            **of_one_rank.keys,
            "judgement": [] if found.refused else lost_time(tables["job_names"], found.control.median_ns),
            "conclusion": " ".join(of_one_rank.conclusion),
            "environment": records(around),
            "job": job,
            "control_job_verdict": job_verdict.record(found.control.verdict),
            "job_verdict": job_verdict.record(found.test.verdict),
        },
        on_screen=with_labels(tables, SHORT_IN_JOBS),
        worst_by={"job_ranks": "diff_ns"},
        only_with_all=ONLY_WITH_ALL if without_difference(found) else (),
        most_rows=ROWS_SHOWN,
    )


def _verdict_lines(found: JobComparison) -> tuple[list[str], list[str]]:
    """Say which rank delays each job, where one does, before and after."""
    sides = [(name, job_verdict.sentence(side.verdict, side.label, {})) for name, side in found.sides.items()]
    before, after = ([job_verdict.on_side(BEFORE_AFTER[name], said)] if said else [] for name, said in sides)
    return before, after


def _is_hidden(found: JobComparison) -> bool:
    """Return whether a rank delays the test by no more than noise explains of the difference."""
    verdict = found.test.verdict
    return without_difference(found) and verdict.firmness != "none" and verdict.median_caused_ns <= found.noise_ns


def _job_keys(found: JobComparison) -> dict[str, Any]:
    """Return the keys of the jobs in JSON: lengths, ranks, steps."""
    return {
        **comparison_keys(found),
        "ranks": {name: sorted(side.files) for name, side in found.sides.items()},
        "missing_ranks": {name: list(side.missing) for name, side in found.sides.items()},
        "stretches_told": {name: side.rows.count for name, side in found.sides.items()},
        "steps": {name: list(side.steps) for name, side in found.sides.items()},
    }


def _closing_lines(found: JobComparison) -> list[str]:
    """Return notes on the compared ranks and steps, and on what the tables show."""
    counts = {name: len(side.files) for name, side in found.sides.items()}
    said = [_compared_jobs(counts, len(common_ranks(found)))]
    if any(len(side.lengths_ns) > 1 for side in found.sides.values()):
        said.append("Tables show medians over the steps; waiting is summed over the ranks that wait.")
    for name, side in found.sides.items():
        count = len(side.lengths_ns)
        if count > STEPS_LISTED:
            some = f"tables cover {side.rows.count} of {count:,} steps, evenly spread from short to long"
            said.append(f"{side_name(name)}: {some}; lengths cover all steps.")
    return said


def _compared_jobs(counts: Mapping[str, int], common: int) -> str:
    """Count the ranks of both jobs."""
    each = " and ".join(f"{count:,} ranks {BEFORE_AFTER[side]}" for side, count in counts.items())
    return f"Compared: {each}; {common:,} of them are in both jobs, by number."


def _rank_note(ranks: Comparison[Side]) -> Note:
    return Note(*_of_one_rank({name: side.graph.rank or 0 for name, side in ranks.sides.items()}))


def _of_one_rank(ranks: Mapping[str, int]) -> tuple[str, Remedy]:
    """Explain which tables compare a single rank of each job, and how to get them."""
    text = f"Kernels, operators and call paths are compared on {sides(ranks)}"
    return text, Remedy("they are in series", "use --json to write them, or --rank N for another rank")


TABLES = {
    "job_classes": CLASSES,
    "job_names": PATH_EVENTS,
    "job_ranks": RANKS,
    "job_hosts": HOSTS,
    "job_groups": GROUPS,
    "job_causes": CAUSES,
}
