"""What several documents hold: windows, steps, findings, diagnostics, what is nearly critical."""

from __future__ import annotations

from typing import get_args

from analyses.advice.job_verdict import REASONS
from analyses.advice.rules import RULES
from analyses.judgement.findings import Confidence as FindingConfidence
from analyses.judgement.findings import Kind
from analyses.judgement.verdict import NOTHING_SUGGESTED
from hta_graph.graph.dependency_graph import DIAGNOSTICS
from hta_graph.model import BoundBy
from hta_graph.multi_rank.job_verdict import Firmness, Pattern, VerdictScope
from hta_graph.trace.table import ClockModel
from tests.generate.properties import (
    Schema,
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

CLOCK_MODELS = list(get_args(ClockModel))
FILE = text("The trace, as named in the command; for a job the folder or the first file.")
RANK = integer("The rank; null if not recorded, and for a job.", null=True)
RANKS = list_of(integer("A rank."), "For a job: its ranks.")
UNREAD = list_of(
    text("Reason why one file was left out."),
    "Only if files could not be read: one line per file; the answer does not include them.",
)
NOTES = list_of(text("A sentence."), "Notes on the answer and on missing data.")

CLOCK_PIECE = record(
    {
        "from_ns": ns("Start of the piece, by the device's clock"),
        "offset_ns": ns("How far the device's clock is ahead of the host's there", null=True),
        "low_ns": ns("Lower end of the interval in which the offset lies; null if nothing bounds it", null=True),
        "high_ns": ns("Upper end of the interval; null if nothing bounds it", null=True),
        "drift_ppm": number("Growth of the offset per time; 0 if the clock does not drift."),
        "launches": integer("Number of launches that bound the offset from above."),
        "returns": integer("Number of returns of blocking calls that bound it from below."),
    },
    "A part of the trace with one offset.",
)
GPU_CLOCK = record(
    {
        "rank": integer("For a job: the rank."),
        "device": integer("The device; -1 if not recorded."),
        "how": one_of(CLOCK_MODELS, "Kind of estimate."),
        "noise_ns": ns("Largest contradiction between the bounds; 0 if they agree"),
        "pieces": list_of(CLOCK_PIECE, "The offsets, in order of time."),
    },
    "The clock of one device relative to the host's.",
    ["rank"],
)
DIAGNOSTICS_PART = record(
    {
        **{key: integer(f"Counts {says}.") for key, says in DIAGNOSTICS.items()},
        "gpu_clock": list_of(GPU_CLOCK, "Clock offsets of the devices; times of segments and lags are host times."),
    },
    "Counts of what was dropped, repaired or left unresolved; empty if each rank has its own.",
    [*DIAGNOSTICS, "gpu_clock"],
)
BY_BOUND = record(
    {kind.label: ns(f"Time of class {kind.label} on the path") for kind in BoundBy},
    "Time on the path by class; all ten classes are present and add up to the window.",
)
EXTENT = record(
    {"start_ns": ns("Start time, absolute"), "end_ns": ns("End time, absolute"), "label": text("Its name.")},
    "The analyzed window.",
)
WINDOW = record(
    {
        **EXTENT["properties"],
        "cpu_ns": ns("CPU time of the step or annotation"),
        "gpu_ns": ns("Length of its GPU window"),
        "rows_after": integer("Number of events that start after the end of the window; counted for the whole trace."),
        "missing_ranks": list_of(integer("A rank."), "For a job: the ranks without such a window."),
    },
    EXTENT["description"],
    ["missing_ranks"],
)
STEP_LENGTHS = {
    "step": integer("Number of the profiler step."),
    "iteration_ns": ns(
        "From the end of the previous step's work to the end of this step's work; iterations tile the run"
    ),
    "latency_ns": ns("From the step's start on the CPU to the end of its last work"),
    "bound_by": bound_by("Class with the most time on its path."),
    "outlier": text("Description of an unusual step; null for usual ones.", null=True),
}
OF_ENGINE = {
    "phase": text("For a step of an inference engine: its phase, such as prefill or decode."),
    "requests": integer("For a step of an inference engine: its batch; null if its name does not say.", null=True),
    "tokens": integer("For a step of an inference engine: tokens computed; null if its name does not say.", null=True),
}
CAUSE_OF_RANK = {
    **record(
        {
            "bound_by": bound_by("Its class."),
            "name": text("What it does most of while others wait."),
            "call_path": text("Names of the operators and frames around it, outermost first."),
        },
        "What delays the others; null if unknown.",
    ),
    "type": ["object", "null"],
}
LATE_RANK = record(
    {
        "rank": integer("The rank."),
        "median_caused_ns": ns("Delay of a step if the other late ranks were on time; the median of steps"),
        "saves_ns": ns("How much shorter a step would be if this rank alone were on time; the median of steps"),
        "steps": list_of(integer("A step."), "The steps that it delays."),
        "cause": CAUSE_OF_RANK,
    },
    "A late rank.",
)
JOB_VERDICT = {
    **record(
        {
            "scope": one_of(
                get_args(VerdictScope),
                "What it is about: all steps, one step (that differs from the others, or was asked for), or a window.",
            ),
            "rank": integer("The rank that delays the others; null if no rank alone does.", null=True),
            "ranks": list_of(
                integer("A rank."),
                "The same rank; of several late ranks all; where ranks take turns, that of each of steps; without one, "
                "the rank that causes most.",
            ),
            "firmness": one_of(get_args(Firmness), "firm, hedged (see reason), or none where no rank is named."),
            "caused_ns": ns(
                "Waiting that it causes, passed on by other ranks or not, summed over ranks and collectives (of all "
                "steps, or of the step or window)"
            ),
            "median_caused_ns": ns(
                "Delay of a step: how much sooner the ranks that wait for it would go on; the median of steps"
            ),
            "share_of_waiting": share("caused_ns as a share of all waiting with a known cause"),
            "share_of_step": share("The delay of a step as a share of the step; the median of steps"),
            "cause": CAUSE_OF_RANK,
            "pattern": one_of(
                get_args(Pattern),
                "When: in every step, in all since since_step, once, or a different rank in each step (rotating); "
                "null otherwise.",
                null=True,
            ),
            "since_step": integer("First of the delayed steps if the pattern is since; null otherwise.", null=True),
            "steps": list_of(integer("A step."), "The delayed steps; empty without a rank, or without steps."),
            "reason": one_of(
                REASONS, "Reason for not being firm: " + "; ".join(f"{key}: {says}" for key, says in REASONS.items()),
                null=True,
            ),
            "late_ranks": list_of(LATE_RANK, "All late ranks, the latest first, if there are several; else empty."),
            "late_ranks_save_ns": ns("How much shorter a step would be if all were on time; the median of steps"),
        },
        "Which rank delays the job: the same in stragglers, critical-path, report and diff; null for one rank.",
    ),
    "type": ["object", "null"],
}  # fmt: skip
HELD_UP_BY = integer("For a job: the rank that delays the step; null if none does.", null=True)
STEP = record(
    {**STEP_LENGTHS, **OF_ENGINE, "held_up_by": HELD_UP_BY},
    "One of the steps that the chosen step is the median of.",
    [*OF_ENGINE, "held_up_by"],
)
STEPS = list_of(defined("step"), "For a default window: the steps that it is the median of.")
FINDING = record(
    {
        "rule": one_of(
            [*RULES, NOTHING_SUGGESTED],
            "Rule of the finding, or that no advice saves anything.",
        ),
        "text": text("Text of the finding."),
        "evidence": {
            "type": "object",
            "description": "Numbers (times in ns) and names that the rule rests on; the keys depend on the rule.",
            "additionalProperties": True,
        },
        "saves_at_most_ns": ns("Upper bound of the saving; null without a saving", null=True),
        "saves_ns": ns("Saving by replay; null where no replay stands for it, or none was made", null=True),
        "bound_ns": ns(
            "What the events of the window that savings are of allow at most; null without a saving", null=True
        ),
        "confidence": one_of(["high", "medium", "low"], "Confidence: measured, inferred, or one of several readings."),
    },
    "A finding of a rule about the path.",
)
JUDGED = record(
    {
        "id": text("Its name, the same in every command: kind and what it is about."),
        "kind": one_of([*get_args(Kind)], "A change, a rank like the others, a cause, one item, or what to record."),
        "name": text("What it is about."),
        "change": list_of(text("An argument."), "Arguments of what-if that reproduce the saving; empty without any."),
        "saves_ns": ns("Saving by replay; null if unknown", null=True),
        "saves_at_most_ns": ns("What the rows allow; null if unknown", null=True),
        "expected_ns": ns("The saving times what such claims were found to be worth; null if unknown", null=True),
        "confidence": one_of([*get_args(FindingConfidence)], "How sure the saving is."),
        "reason": text("Why it is not surer; null if nothing is to be said.", null=True),
        "window": EXTENT,
        "text": text("The finding."),
    },
    "A finding about the window.",
)
LOST = {
    **JUDGED,
    "properties": {
        **JUDGED["properties"],
        "window": record({"label": text("What is compared.")}, "What lengths are of: all compared steps of both runs."),
    },
}
LOST_TIME = list_of(LOST, "What the second run lost, beyond noise first; the same list in diff and gate.")
JUDGEMENT = list_of(JUDGED, "What the window shows, first what a reader can count on most.")
VERDICT = list_of(defined("finding"), "The verdict first, then advice, largest saving first.")

CLOCK = record(
    {
        "rank": integer("The rank."),
        "offset_ns": ns("Lead of its CPU clock over the lowest rank's, at the middle of the trace"),
        "gpu_offset_ns": ns("Lead of its GPU events over that"),
        "drift_ppm": number("Drift from the lowest rank's clock (parts per million)."),
        "error_ns": ns("Error of the offset, at most"),
        "collectives": integer("Number of collectives and messages that the offset is based on."),
    },
    "Clocks of one rank.",
)
BY_HOST = by_key(
    ns("The time of the host that the key names"), "If the ranks are on multiple hosts: the path's time on each."
)
JOB_PARTS = {
    "ranks": RANKS,
    "clocks": list_of(defined("clock"), "For a job: the clocks of each rank."),
    "by_rank_ns": by_rank("For a job: the path's time on each rank; the times add up to the window."),
    "by_host_ns": BY_HOST,
    "held_up_ns": by_rank("For a job: time in which all others waited for each rank alone."),
    "crossings": record(
        {
            "count": integer("Number of switches of the path between ranks."),
            "corrected_ns": ns("Total time by which causes there have later timestamps than their effects"),
        },
        "For a job: where its path changes ranks.",
    ),
}
"""Additional keys for the path of a job."""

NEAR = record(
    {
        "threshold_ns": ns("Slack below which work counts as near-critical"),
        "by_rank": list_of(
            record(
                {
                    "rank": integer("The rank; null if not recorded.", null=True),
                    "near_ns": ns("Time of the window with such work"),
                    "share": share("The same, of the window"),
                },
                "Near-critical work of one rank.",
            ),
            "Near-critical work of each rank.",
        ),
        "alternatives": list_of(
            record(
                {
                    "rank": integer("The rank; null if not recorded.", null=True),
                    "bound_by": bound_by("Class of the work that the alternative leads over."),
                    "event_index": integer("Event that it leads over; null if the time has no owner.", null=True),
                    "name": text("That event's name; null if the time has no owner.", null=True),
                    "slack_ns": ns("Time by which it is shorter than the critical path"),
                    "near_ns": ns("Time of the window in which such work runs"),
                },
                "The longest alternative path to the end of the window over one rank and class.",
            ),
            "Alternative paths to the end of the window: the longest of each rank and class that is not on the path.",
        ),
    },
    "With --near: near-critical work.",
)

EXCESS = "By how much the median event"


def hangs(before: str, after: str, excess: dict[str, Schema]) -> Schema:
    """Return the schema of the steps that hang in two runs, whose keys have these names."""
    keys = {
        f"{before}_events": integer(f"Events of {before}: steps that hang, those in a row being one."),
        f"{after}_events": integer(f"Events of {after}."),
        f"{after}_steps": list_of(integer("A step."), f"The steps of {after} that hang."),
    }
    return {**record({**keys, **excess}, "Steps that hang; null if unknown."), "type": ["object", "null"]}
