"""diff of two jobs: whether one is slower, where on its path, on which ranks and hosts, and who makes others wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from analyses import column_types
from analyses.answer import Answer, Note, records
from analyses.diff.caveats import caveats
from analyses.diff.comparison import repetition_noise
from analyses.diff.job_conclusion import job_conclusion
from analyses.diff.job_diff import (
    JobComparison,
    common_ranks,
    job_causes,
    job_classes,
    job_groups,
    job_hosts,
    job_names,
    job_ranks,
)
from analyses.diff.job_environment import job_caveats, job_environment, missing_rank_lines
from analyses.diff.job_side import STEPS_LISTED, JobSide
from analyses.diff.run_diff import TIMES, answer_of_comparison, comparison_keys
from analyses.diff.sides import Side
from analyses.diff.two_runs_comparison import Comparison, compare_lengths
from analyses.diff.two_runs_environment import environment, environment_lines
from analyses.tables import Table
from hta_graph.errors import Remedy

__all__ = ["TABLES", "answer_of_jobs", "between_jobs", "common_rank"]

ROWS_SHOWN = 10


def common_rank(control: JobSide, test: JobSide) -> int:
    """Return the rank that is compared beside two jobs: the lowest that both have, if it can be one that lacks nothing.

    Where they have none in common, the lowest of the control.
    """
    ranks = sorted(control.files.keys() & test.files.keys()) or [min(control.files)]
    lacking = {*control.missing, *test.missing}
    return next((rank for rank in ranks if rank not in lacking), ranks[0])


def between_jobs(control: JobSide, test: JobSide, ranks: Comparison[Side]) -> JobComparison:
    """Compare two jobs by all of their steps, or by a window of each.

    Args:
        control: the job to compare with.
        test: the job that changed.
        ranks: one rank of each, compared: what repeats on it tells the noise where steps are too few.
    """
    return compare_lengths(control, test, lambda: repetition_noise(ranks.control, ranks.test, communication=False))


def answer_of_jobs(found: JobComparison, ranks: Comparison[Side]) -> Answer:
    """Return what changed between two jobs, and, as series, the tables about one rank of each.

    Args:
        found: the jobs.
        ranks: one rank of each: those tables and keys of the answer that one rank's comparison has are about it.

    Returns:
        The tables ``job_classes``, ``job_names``, ``job_ranks``, ``job_hosts``, ``job_groups``, ``job_causes``, and
        what differs in the environment. The notes begin with that and with the conclusion.
    """
    tables = {name: table.explained_by(found) for name, table in TABLES.items()}
    beside = answer_of_comparison(ranks)
    sides = (found.control, found.test)
    of_ranks = environment(ranks.control.scope, ranks.test.scope)
    around = job_environment(*sides, of_ranks)
    besides = job_caveats(*sides, caveats(ranks.control.scope, ranks.test.scope, of_ranks))
    conclusion = job_conclusion(found, tables, besides, f" on rank {ranks.control.graph.rank}")
    job = {"conclusion": " ".join(conclusion), "caveats": besides, **_job_keys(found)}
    more = {"environment": around} if len(around) else {}
    return replace(
        beside,
        tables=tables | more,
        series={name: frame for name, frame in beside.tables.items() if name != "environment"},
        opening=[*environment_lines(around), *missing_rank_lines(*sides), *conclusion],
        conclusion=conclusion,
        closing_notes=[*_closing_lines(found), _rank_note(ranks)],
        keys={**beside.keys, "conclusion": " ".join(beside.conclusion), "environment": records(around), "job": job},
        worst_by={"job_ranks": "diff_ns"},
        most_rows=ROWS_SHOWN,
    )


def _job_keys(found: JobComparison) -> dict[str, Any]:
    """Return what JSON says of the jobs: lengths, ranks, steps."""
    return {
        **comparison_keys(found),
        "ranks": {name: sorted(side.files) for name, side in found.sides.items()},
        "missing_ranks": {name: list(side.missing) for name, side in found.sides.items()},
        "stretches_told": {name: side.rows.count for name, side in found.sides.items()},
        "steps": {name: list(side.steps) for name, side in found.sides.items()},
    }


def _closing_lines(found: JobComparison) -> list[str]:
    """Say which ranks were compared, over which steps, and what the tables add up."""
    counts = [f"{len(side.files):,} ranks of the {name}" for name, side in found.sides.items()]
    said = [f"Compared: the jobs of {' and '.join(counts)}, {len(common_ranks(found)):,} of them by their numbers."]
    if any(len(side.lengths_ns) > 1 for side in found.sides.values()):
        said.append("Tables are medians over the steps; waiting is added up over the ranks that waited.")
    for name, side in found.sides.items():
        count = len(side.lengths_ns)
        if count > STEPS_LISTED:
            told = f"{side.rows.count} of the {count:,} steps of the {name}, evenly spread from short to long"
            said.append(f"The tables are those of {told}; the lengths are those of all.")
    return said


def _rank_note(ranks: Comparison[Side]) -> Note:
    sides = (f"rank {side.graph.rank} of the {name}" for name, side in ranks.sides.items())
    said = f"Kernels, operators and call paths are those of {' and '.join(sides)}, beside the jobs"
    return Note(said, Remedy("they are in series", "--json writes them, --rank N asks about another rank alone"))


WAITS = [*TIMES, "noise_ns"]
CAUSED = ["control_caused_ns", "test_caused_ns"]
MEANINGS = {
    "control_host": column_types.text("The host of the control; null: not recorded, or several.", null=True),
    "control_caused_ns": column_types.ns("The waiting of others that it causes in the control"),
    "test_caused_ns": column_types.ns("The waiting of others that it causes in the test"),
    "ranks": column_types.whole("How many ranks each of the groups has."),
    "kind": column_types.GROUP_KIND,
    "worst_diff_ns": column_types.ns("By how much that group's waiting changed"),
}
TABLES = {
    "job_classes": Table(job_classes, ["bound_by", *WAITS], MEANINGS),
    "job_names": Table(job_names, ["name", "bound_by", "control_calls", "test_calls", *WAITS], MEANINGS),
    "job_ranks": Table(
        job_ranks,
        ["rank", "host", "control_host", *WAITS, *CAUSED],
        {
            **MEANINGS,
            "control_ns": column_types.ns("The control's path on the rank"),
            "test_ns": column_types.ns("The test's path on the rank"),
        },
    ),
    "job_hosts": Table(
        job_hosts,
        ["host", "control_host", "ranks", *WAITS, *CAUSED],
        {**MEANINGS, "ranks": column_types.whole("How many ranks are on it."), "host": column_types.text("The host.")},
    ),
    "job_groups": Table(job_groups, ["kind", "ranks", "groups", *WAITS, "worst_group", "worst_diff_ns"], MEANINGS),
    "job_causes": Table(
        job_causes,
        ["rank", "name", "call_path", "bound_by", *WAITS],
        {**MEANINGS, "name": column_types.text("What it did; null: nothing shows it.", null=True)},
    ),
}
