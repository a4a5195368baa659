"""What several documents hold: windows, steps, findings, diagnostics, what is nearly critical."""

from __future__ import annotations

from analyses.advice.rules import ADVICE_RULES, VERDICT_RULES
from hta_graph.graph.dependency_graph import DIAGNOSTICS
from hta_graph.model import BoundBy
from tests.generate.properties import (
    bound_by,
    by_key,
    by_rank,
    defined,
    integer,
    list_of,
    ns,
    number,
    one_of,
    record,
    share,
    text,
)

FILE = text("The trace, as it was named; of a job the folder or the first file.")
RANK = integer("The rank; null where the file does not tell it, and of a job.", null=True)
RANKS = list_of(integer("A rank."), "Of a job: its ranks.")
UNREAD = list_of(
    text("Why one file was left out."),
    "Only where files could not be read: a line for each; the answer is without them.",
)
NOTES = list_of(text("A sentence."), "What is to be said about the answer, and what is missing.")

DIAGNOSTICS_PART = record(
    {key: integer(f"Counts {says}.") for key, says in DIAGNOSTICS.items()},
    "What was dropped, repaired or left unresolved; empty where each rank has its own.",
    DIAGNOSTICS,
)
BY_BOUND = record(
    {kind.label: ns(f"Time of class {kind.label} on the path") for kind in BoundBy},
    "Time on the path by class; all ten are always there and add up to the window.",
)
EXTENT = record(
    {"start_ns": ns("Where it begins, absolute"), "end_ns": ns("Where it ends, absolute"), "label": text("Its name.")},
    "The stretch of time that the answer is about.",
)
WINDOW = record(
    {
        **EXTENT["properties"],
        "cpu_ns": ns("How long the step or annotation takes on the CPU"),
        "gpu_ns": ns("How long its GPU window is"),
        "rows_after": integer("How many rows of the trace begin after the window's end; counted for the whole trace."),
        "missing_ranks": list_of(integer("A rank."), "Of a job: the ranks that have no such window."),
    },
    EXTENT["description"],
    ["missing_ranks"],
)
STEP_LENGTHS = {
    "step": integer("The number of the profiler step."),
    "iteration_ns": ns("From the end of the previous step's work to that of its own; iterations tile the run"),
    "latency_ns": ns("From the step's start on the CPU to the end of its last work"),
    "bound_by": bound_by("The class that most of its path belongs to."),
    "outlier": text("What an unusual step contains; null of usual ones.", null=True),
}
HELD_UP_BY = integer("Of a job: the rank that holds the step up; null where none does.", null=True)
STEP = record({**STEP_LENGTHS, "held_up_by": HELD_UP_BY}, "A step beside the one that was chosen.", ["held_up_by"])
STEPS = list_of(defined("step"), "Of a default window: the steps of which it is the median.")
FINDING = record(
    {
        "rule": one_of([rule.name for rule in (*VERDICT_RULES, *ADVICE_RULES)], "The rule that speaks."),
        "text": text("What it says, a sentence."),
        "evidence": {
            "type": "object",
            "description": "Numbers (times in ns) and names that the rule rests on; the keys depend on the rule.",
            "additionalProperties": True,
        },
        "saves_at_most_ns": ns("What following it would save at most; null where nothing is to be saved", null=True),
        "saves_ns": ns("What it would save by replay; null where no replay stands for it, or none was made", null=True),
        "confidence": one_of(
            ["high", "medium", "low"], "How sure it is: recorded, inferred, or one reading of several."
        ),
    },
    "What a rule says of the path.",
)
VERDICT = list_of(defined("finding"), "The verdict first, then advice, what saves most first.")

CLOCK = record(
    {
        "rank": integer("The rank."),
        "offset_ns": ns("How far its CPU clock is ahead of the lowest rank's, at the middle of the recording"),
        "gpu_offset_ns": ns("What its GPU's rows are ahead of that"),
        "drift_ppm": number("How fast it moves away from the lowest rank's (parts per million)."),
        "error_ns": ns("How far the offset may be off"),
        "collectives": integer("How many collectives and messages the offset rests on."),
    },
    "The clocks of one rank.",
)
BY_HOST = by_key(
    ns("The time of the host that the key names"), "Where the ranks are on several hosts: the path's time on each."
)
JOB_PARTS = {
    "ranks": RANKS,
    "clocks": list_of(defined("clock"), "Of a job: the clocks of each rank."),
    "by_rank_ns": by_rank("Of a job: the path's time on each rank; they add up to the window."),
    "by_host_ns": BY_HOST,
    "held_up_ns": by_rank("Of a job: how long all others waited for each rank alone."),
    "crossings": record(
        {
            "count": integer("How often the path goes from one rank to another."),
            "corrected_ns": ns("By how much causes are stamped after their effects there, added up"),
        },
        "Of a job: where its path changes ranks.",
    ),
}
"""What the path of a job has besides."""

NEAR = record(
    {
        "threshold_ns": ns("How much longer work may take before it is critical, to count as nearly critical"),
        "by_rank": list_of(
            record(
                {
                    "rank": integer("The rank; null where the file does not tell it.", null=True),
                    "near_ns": ns("Time of the window in which it does such work"),
                    "share": share("The same, of the window"),
                },
                "One rank's nearly critical work.",
            ),
            "Each rank's nearly critical work.",
        ),
        "alternatives": list_of(
            record(
                {
                    "rank": integer("The rank; null where the file does not tell it.", null=True),
                    "bound_by": bound_by("The class of the work that the way leads over."),
                    "event_index": integer("The event that it leads over; null where it is nobody's time.", null=True),
                    "name": text("That event's name; null where it is nobody's time.", null=True),
                    "slack_ns": ns("By how much the way is shorter than the critical path"),
                    "near_ns": ns("Time of the window in which such work runs"),
                },
                "The longest other way to the window's end over one rank and class.",
            ),
            "Other ways to the window's end, of each rank and class that is not on the path the longest.",
        ),
    },
    "With --near: what would be critical if it took a little longer.",
)
