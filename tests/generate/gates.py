"""Schemas of gate: its answer, and the baseline files that it writes and reads."""

from __future__ import annotations

from typing import get_args

from analyses.cli.commands.gate import METRICS
from analyses.compare.diff.differences import Basis
from tests.generate.properties import (
    Schema,
    boolean,
    bound_by,
    by_key,
    document,
    integer,
    list_of,
    ns,
    number,
    one_of,
    record,
    share,
    text,
)
from tests.generate.shared_parts import EXCESS, JOB_VERDICT, LOST_TIME, hangs

VALUE = "in the unit of the metric"
DIFFERENCE = {
    "compared_by": one_of(get_args(Basis), "What the difference is one of.", null=True),
    "phase": text("Phase or kind of steps, if the difference is that of one.", null=True),
    "first_step": integer("First step, if not all steps are compared.", null=True),
    "last_step": integer("Last step, if the steps end before the run does.", null=True),
    "baseline_value": integer(f"Value of the baseline, {VALUE}.", null=True),
    "new_value": integer(f"Value of the new run, {VALUE}.", null=True),
    "difference": integer(f"new_value - baseline_value, {VALUE}.", null=True),
    "difference_share": number("The difference as a share of the baseline (a fraction of one).", null=True),
    "noise": integer(f"Largest difference that noise explains, {VALUE}; null if not known.", null=True),
    "noise_share": number("The noise as a share of the baseline (a fraction of one).", null=True),
    "lower_bound": integer(f"difference - noise, {VALUE}: above zero, the new run is slower.", null=True),
}
SIDE = {
    "inputs": list_of(text("As named in the command."), "The inputs of the side."),
    "recordings": integer("Number of recordings.", null=True),
    "steps": integer("Number of compared steps.", null=True),
    "ranks": {"type": ["array", "null"], "description": "Ranks.", "items": integer("A rank.")},
}
CHANGE = {
    "baseline_ns": ns("Time on the critical path of a step in the baseline"),
    "new_ns": ns("Time on the critical path of a step in the new run"),
    "diff_ns": ns("new_ns - baseline_ns"),
    "noise_ns": ns("Largest difference that noise explains"),
}
CODES = ["unreadable", "partial", "gpu", "world_size", "ranks", "model", "pytorch", "steps", "metric", "noise"]


def gate() -> Schema:
    """Return the schema of gate's answer."""
    properties = {
        "verdict": one_of(["pass", "regression", "cannot_compare"], "Exit status 0, 1 or 3."),
        "reason": {
            **record(
                {"code": one_of(CODES, "What keeps the runs from being compared."), "text": text("The sentence.")},
                "Why the runs cannot be compared; null if they can.",
            ),
            "type": ["object", "null"],
        },
        "metric": one_of(list(METRICS), "What is compared."),
        "measure": text("Which length of a step or a trace the iteration time is.", null=True),
        "unit": one_of(["ns", "bytes"], "Unit of the values."),
        "limit_share": share("The limit, as a share of the baseline"),
        "baseline": record(SIDE, "The baseline."),
        "new": record(SIDE, "The new run."),
        "job_verdict": JOB_VERDICT,
        "late_rank": text(
            "Which rank delays the new run; null if none is named, of one rank, and if new is a baseline file.",
            null=True,
        ),
        **DIFFERENCE,
        "detectable_share": number(
            "Smallest change that would have been a regression, as a share of the baseline (a fraction of one).",
            null=True,
        ),
        "judgement": LOST_TIME,
        "exceeding": list_of(record(DIFFERENCE, "A difference."), "The differences that exceed noise and limit."),
        "hangs": hangs("baseline", "new", {"excess": integer(f"{EXCESS} of the new run takes longer, {VALUE}.")}),
        "phases": list_of(
            record(
                {
                    "baseline_steps": integer("Number of steps in the baseline."),
                    "new_steps": integer("Number of steps in the new run."),
                    **DIFFERENCE,
                },
                "A phase or kind of steps.",
            ),
            "The phases or kinds of steps, if there are several.",
        ),
        "causes": list_of(
            record(
                {
                    "name": text("Name on the critical path."),
                    "bound_by": bound_by("Class."),
                    "rank": integer("Rank that the change is mostly on; null if no rank alone is.", null=True),
                    **CHANGE,
                    "share_of_difference": number("diff_ns as a share of the difference (a fraction of one)."),
                    "beyond_noise": boolean("Whether the change exceeds its noise."),
                },
                "What changed on the critical path.",
            ),
            "What explains the difference, most certain and largest first.",
        ),
        "classes": list_of(
            record({"bound_by": bound_by("Class."), **CHANGE}, "A class of the critical path."),
            "Changed classes, largest first.",
        ),
        "work": list_of(
            record(
                {
                    "change": one_of(["new", "gone", "moved"], "Kind of change."),
                    "kind": one_of(["kernel", "collective"], "Kind of work."),
                    "name": text("Name."),
                    "times": integer("How often in the usual step."),
                },
                "Changed work.",
            ),
            "Kernels and collectives of the usual step that are new, gone or at another place.",
        ),
        "environment": list_of(
            record(
                {
                    "what": text("What is compared."),
                    "baseline": text("Value in the baseline."),
                    "new": text("Value in the new run."),
                },
                "A recorded difference.",
            ),
            "Differences in the environment.",
        ),
        "notes": list_of(text("A sentence."), "What else limits the comparison."),
    }
    return document("gate", "Whether a run is slower than a baseline, and what causes it.", properties)


def baseline() -> Schema:
    """Return the schema of baseline files."""
    code = integer("A place in texts.")
    numbers = list_of(integer("A number."), "Numbers, one for each step.")
    times = list_of(integer("A time (ns)."), "Times, one for each step.")
    row = record(
        {
            "keys": list_of(integer("A place in texts, or a rank."), "What the row is of."),
            "ns": numbers,
            "more": numbers,
        },
        "A row: a number for each step with a path.",
        ["more"],
    )
    rows = list_of(row, "Rows.")
    units = record(
        {
            "name": list_of(code, "The names of units."),
            "communication": list_of(boolean("Whether the unit talks to other ranks."), "One for each unit."),
            "order": text("Unit of each piece of work: differences of 32-bit numbers, zlib, base64."),
            "ns": text("Length of each piece of work, in the same form."),
        },
        "Work of the usual step in the program's order.",
    )
    run = {
        "ranks": list_of(integer("A rank."), "Ranks of the recording."),
        "missing": list_of(integer("A rank."), "Ranks that lack a step."),
        "of_rank": integer("The rank whose kernels and contents are kept."),
        "world_size": integer("Number of ranks of the job.", null=True),
        "measure": text("Which length of a step is compared."),
        "warms_up": boolean("Whether the first step is a warm-up."),
        "label": code,
        "unexplained_ns": ns("Time of the usual step without a cause"),
        "steps_recorded": integer("Number of recorded steps."),
        "steps": record(
            {
                "number": numbers,
                "length_ns": times,
                "latency_ns": times,
                "phase": list_of(integer("A place in texts.", null=True), "The phase of each step."),
                "content": list_of(
                    integer("A place in contents."), "What each step contains; empty if all do the same."
                ),
            },
            "The compared steps.",
        ),
        "signature": integer("How contents are compared: 0 by names and counts, 1 by names."),
        "contents": list_of(
            record(
                {
                    "name": list_of(code, "Names."),
                    "count": list_of(integer("How often."), "Counts."),
                    "ns": list_of(integer("Time."), "Times."),
                    "on_gpu": list_of(boolean("Whether it is GPU work."), "Where."),
                },
                "What the steps of a kind contain.",
            ),
            "Kinds of steps.",
        ),
        "path": record(
            {"step": numbers, "classes": rows, "names": rows, "ranks": rows, "causes": rows, "groups": rows},
            "Critical paths by class, name and rank; causes of waiting; process groups.",
        ),
        "annotations": list_of(code, "Annotations on the critical paths."),
        "environment": by_key(text("The recorded value."), "Environment."),
        "types": by_key(integer("Time in ns."), "Time of operators by floating-point type."),
        "shapes": list_of(
            {"type": "array", "description": "Operator, shapes, time in ns.", "items": integer("A number.")},
            "Time of operators by shape.",
        ),
        "operators_ns": ns("Time of all operators"),
        "operators": list_of(
            {"type": "array", "description": "Operator, time in ns.", "items": integer("A number.")},
            "Time of operators in the usual step.",
        ),
        "kernels": units,
        "host": units,
        "metrics": by_key(numbers, "Further figures of the steps with a path, by metric."),
        "hosts": by_key(text("A host."), "Hosts by rank, if asked for."),
        "first_ns": ns("Latency of a first step that is not compared; null if there is none", null=True),
    }
    properties = {
        "noise": record(
            {
                "steps_share": number("Standard deviation of steps of one kind, as a share (a fraction of one)."),
                "runs_share": number(
                    "Standard deviation of recordings, as a share (a fraction of one); null for a single one.",
                    null=True,
                ),
            },
            "Noise of the baseline.",
        ),
        "texts": list_of(text("A text."), "All texts, each once."),
        "runs": list_of(record(run, "A recording."), "The recordings."),
    }
    return document("baseline", "What gate --update keeps of a run, to compare others with.", properties)
