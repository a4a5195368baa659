"""Schemas of answers that consist of tables: each analysis, and what changed between two runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from analyses.compare.diff import job_diff, run_diff
from analyses.compare.diff.differences import Basis
from analyses.compare.diff.sides import Measure
from analyses.declare.analysis import Analysis
from analyses.declare.columns import MORE, Table
from analyses.questions import raw_memory_timeline
from tests.generate.index import every_analysis
from tests.generate.properties import (
    Schema,
    boolean,
    bound_by,
    document,
    integer,
    list_of,
    ns,
    of_column,
    one_of,
    record,
    share,
    text,
)
from tests.generate.shared_parts import (
    EXCESS,
    EXTENT,
    FILE,
    HELD_UP_BY,
    JOB_VERDICT,
    JUDGEMENT,
    LOST_TIME,
    NOTES,
    OF_ENGINE,
    STEP_LENGTHS,
    UNREAD,
    hangs,
)

SCOPES = list_of(
    record({"file": FILE, "rank": integer("The rank."), "window": EXTENT}, "A window of one rank."),
    "Analyzed windows: each rank, or each step of each rank.",
)
CONCLUSION = text("Conclusion in one or two sentences; empty if nothing is certain.")
NOT_ALWAYS = {
    "temporal-breakdown": ["breakdown_by_gpu"],
    "attribution": ["gpu_time_by_operator", "gpu_time_by_frame", "gpu_time_by_module", "gpu_time_by_annotation",
                    "gpu_time_by_module_class", "gpu_time_by_activity"],
    "memory-timeline": ["memory", "alive_at_the_peak", "events", *raw_memory_timeline.TABLES],
    "diff": ["environment", "steps", *job_diff.TABLES],
}  # fmt: skip
"""Tables that depend on the command line: how many GPUs a process drives, which owner, kind of file, runs or jobs."""


KEYS: Mapping[str, Mapping[str, Schema]] = {
    name: {"job_verdict": JOB_VERDICT} for name in ("collectives", "stragglers")
}
"""Further keys of some answers."""


def all_answers() -> dict[str, Schema]:
    """Return the schema of every analysis and of diff."""
    return {**{one.name: _answer(one) for one in every_analysis().values()}, "diff": diff()}


def _answer(analysis: Analysis) -> Schema:
    tables = {**analysis.tables, **(raw_memory_timeline.TABLES if analysis.name == "memory-timeline" else {})}
    properties = {
        "scopes": SCOPES,
        "conclusion": CONCLUSION,
        **({"judgement": JUDGEMENT} if analysis.judges else {}),
        **KEYS.get(analysis.name, {}),
        "tables": _tables(analysis.name, tables),
        "notes": NOTES,
        "unread": UNREAD,
    }
    return document(analysis.name, analysis.help, properties, [*["judgement"] * analysis.judges, "unread"])


def _tables(name: str, tables: Mapping[str, Table]) -> Schema:
    listed_tables = {of: list_of(_row(table), f"The table {of.replace('_', ' ')}.") for of, table in tables.items()}
    return record(listed_tables, "Tables, each a list of rows.", NOT_ALWAYS.get(name, ()))


def _row(table: Table) -> Schema:
    columns = {column.name: of_column(column) for column in table.columns}
    others = {"additionalProperties": columns.pop(MORE)} if MORE in columns else {}
    return {**record(columns, "A row."), **others}


def diff() -> Schema:
    """Return the schema of a comparison of two runs or jobs."""
    of_run = {**STEP_LENGTHS, **OF_ENGINE, "compared": boolean("Whether it was compared.")}
    of_job = {
        **{name: of_run[name] for name in ("step", "iteration_ns", "latency_ns")},
        "bound_by": bound_by("Class with the most time on its path; null if the path is not given.", null=True),
        "held_up_by": HELD_UP_BY,
        "compared": of_run["compared"],
    }
    lengths = _lengths()
    job = {
        **lengths,
        "ranks": _both(list_of(integer("A rank."), "The ranks."), "Ranks of each side."),
        "missing_ranks": _both(list_of(integer("A rank."), "Ranks."), "Ranks without one of the compared windows."),
        "stretches_told": _both(integer("How many."), "Number of windows that the tables cover."),
        "steps": _both(_steps(of_job), "Steps of each job."),
    }
    properties = {
        "scopes": SCOPES,
        "judgement": LOST_TIME,
        "environment": list_of(_row(run_diff.TABLES["environment"]), "Differences in the environment of the runs."),
        **lengths,
        "steps": _both(_steps(of_run), "Steps of each run; empty for named windows."),
        "control_job_verdict": JOB_VERDICT,
        "job_verdict": JOB_VERDICT,
        "job": record(job, "For two jobs: the same for all ranks; the keys next to it cover one rank of each."),
        "tables": _tables("diff", {**run_diff.TABLES, **job_diff.TABLES}),
        "notes": NOTES,
        "unread": UNREAD,
    }
    return document("diff", "Differences between two runs or jobs.", properties, ["job", "unread"])


def _lengths() -> dict[str, Schema]:
    return {
        "conclusion": CONCLUSION,
        "caveats": list_of(text("A sentence."), "Reasons against the comparison."),
        "measure": one_of(get_args(Measure), "Compared length."),
        "control_ns": ns("Compared length of the control; of several kinds of steps the median of their mixture"),
        "test_ns": ns("Compared length of the test"),
        "difference_share": share("Difference as a share of the control; null without a conclusion", null=True),
        "noise_share": share("Largest share that noise explains; null if unknown", null=True),
        "beyond_noise": boolean("Whether the difference exceeds the noise."),
        "difference_ns": ns("Test minus control"),
        "noise_ns": ns("Largest difference that noise explains: what could not have been detected"),
        "more_steps": integer(
            "Steps of each run that would show more_steps_share; null for windows that are no steps, or if noise is "
            "least.",
            null=True,
        ),
        "more_steps_share": share("Difference that noise hides, and that more steps would show", null=True),
        "compared_by": one_of(get_args(Basis), "What the difference is one of."),
        "cannot_tell": text("Why noise hides whether the test is slower; null if it is known.", null=True),
        "hangs": hangs("control", "test", {"excess_ns": ns(f"{EXCESS} of the test takes longer than a usual step")}),
        "means": record(
            {
                "control_ns": ns("Mean of the control"),
                "test_ns": ns("Mean of the test"),
                "noise_ns": ns("Largest difference of the means that noise explains; null if unknown", null=True),
            },
            "Mean lengths, for which steps that hang count.",
        ),
        "kinds": list_of(record(_kind(), "A kind."), "Kinds of steps that both sides have, the most frequent first."),
        "steps_of_one_side": _both(integer("Number of steps."), "Steps of kinds that the other side does not have."),
        "pairs": list_of(record(_pair(), "A pair."), "The same steps of both sides."),
        "since_step": _both(
            integer("First step of the run's last level; null if it has one level.", null=True),
            "Where the lengths compared begin: a run whose steps become longer or shorter on the way has levels.",
        ),
        "earlier_levels": list_of(record(_level(), "A level."), "Steps before the run's last level, compared too."),
    }


def _kind() -> dict[str, Schema]:
    return {
        "kind": text("What its steps have and others lack; empty if there is one kind."),
        "control_steps": integer("Number of steps in the control."),
        "test_steps": integer("Number of steps in the test."),
        "control_ns": ns("Median of the control"),
        "test_ns": ns("Median of the test"),
        "diff_ns": ns("Test minus control"),
        "noise_ns": ns("Largest difference that noise explains; null if a side has one such step", null=True),
        "judged": boolean("Whether the kind is part of the comparison; rare longer steps are not."),
    }


def _level() -> dict[str, Schema]:
    return {
        "side": one_of(["control", "test"], "Run that has it."),
        "first_step": integer("First step."),
        "last_step": integer("Last step."),
        "steps": integer("Number of steps."),
        "control_ns": ns("Median of the control"),
        "test_ns": ns("Median of the test"),
        "diff_ns": ns("Test minus control"),
        "noise_ns": ns("Largest difference that noise explains"),
    }


def _pair() -> dict[str, Schema]:
    return {
        "control_step": integer("Step of the control."),
        "test_step": integer("Step of the test."),
        "diff_ns": ns("Test minus control"),
    }


def _both(of: Schema, says: str) -> Schema:
    return record({"control": of, "test": of}, says)


def _steps(of: Mapping[str, Schema]) -> Schema:
    return list_of(record(of, "A step.", OF_ENGINE.keys() & of.keys()), "Its steps.")
