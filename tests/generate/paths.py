"""Schemas of paths: critical-path, its table of steps, report, what-if."""

from __future__ import annotations

from analyses.messages.verdict import WHY_REPRESENTATIVE
from hta_graph.model import EdgeKind, Evidence
from tests.generate.properties import (
    Schema,
    boolean,
    bound_by,
    by_rank,
    document,
    integer,
    list_of,
    ns,
    number,
    one_of,
    reason,
    record,
    share,
    text,
)
from tests.generate.shared_parts import (
    BY_BOUND,
    BY_HOST,
    CLOCK,
    DIAGNOSTICS_PART,
    EXTENT,
    FILE,
    FINDING,
    HELD_UP_BY,
    JOB_PARTS,
    NEAR,
    RANK,
    RANKS,
    STEP,
    STEP_LENGTHS,
    STEPS,
    UNREAD,
    VERDICT,
    WINDOW,
)

OF_A_JOB = {"ranks": ["clocks", "by_rank_ns", "held_up_ns", "crossings"]}

SEGMENT = record(
    {
        "start_ns": ns("Where it begins, absolute (of a job: in job time)"),
        "end_ns": ns("Where it ends; the next one begins there"),
        "edge": one_of(
            [kind.label for kind in EdgeKind], "The edge that the path takes here; null where none is known.", null=True
        ),
        "evidence": one_of(
            [found.label for found in Evidence], "Whether the trace says so or a rule deduced it; null: no edge.",
            null=True,
        ),
        "bound_by": bound_by("The class of the time."),
        "event_index": integer("The event whose time it is, by its place in traceEvents; null: nobody's.", null=True),
        "name": text("That event's name; null: nobody's.", null=True),
        "lane": text("Its thread (thread PID:TID) or stream (stream DEVICE:CONTEXT:STREAM); null: none.", null=True),
        "carried_over": boolean("Whether it is work of before the window."),
        "rank": integer("Its rank; null where the file does not tell it.", null=True),
        "reason": reason("Why it is unexplained; null in all other segments.", null=True),
        "segments": integer("With --merge-runs: how many segments were merged into this one."),
        "inside": text("With --merge-runs: the call around them; null where none is open.", null=True),
    },
    "A stretch of the path: segments are in time order, contiguous, and cover the window.",
    ["segments", "inside"],
)  # fmt: skip
UNEXPLAINED = record(
    {
        "segment": integer("Its place in segments, from 0."),
        "start_ns": ns("Where it begins, absolute"),
        "end_ns": ns("Where it ends, absolute"),
        "reason": reason("Why it is unexplained."),
        "while_in": text("The operator or call that the host stood in; null: none.", null=True),
        "before": text("What the path comes to next; null: nothing.", null=True),
        "replays": integer("Of a graph's node without a row: how many replays the graph has; else null.", null=True),
        "replays_with_hole": integer("And in how many of them the row is missing; else null.", null=True),
    },
    "An unexplained segment, and what stood open.",
)


def critical_path() -> Schema:
    """Return the schema of a path."""
    properties = {
        "file": FILE,
        "rank": RANK,
        "verdict": VERDICT,
        "window": WINDOW,
        **JOB_PARTS,
        "steps": STEPS,
        "coverage": share("How much of the window has a known cause"),
        "by_bound_ns": BY_BOUND,
        "segments_merged": integer("With --merge-runs: how many segments there were in all."),
        "segments": list_of(SEGMENT, "The path, in time order."),
        "unexplained": list_of(UNEXPLAINED, "The unexplained segments again, with what stood open."),
        "diagnostics": DIAGNOSTICS_PART,
        "near": NEAR,
        "unread": UNREAD,
    }
    return document(
        "critical-path",
        "The critical path of a window: the chain of work that decided how long it took.",
        properties,
        [*JOB_PARTS, "steps", "segments_merged", "near", "unread"],
        definitions={"finding": FINDING, "step": STEP, "clock": CLOCK},
        together=OF_A_JOB,
    )


def per_step() -> Schema:
    """Return the schema of the table of all steps."""
    coverage = share("How much of the step's path has a known cause")
    rank_of_file = record({"file": FILE, "rank": RANK, "diagnostics": DIAGNOSTICS_PART}, "One rank of several.")
    properties = {
        "file": text("The trace, as it was named; null of several ranks.", null=True),
        "rank": RANK,
        "ranks": list_of(rank_of_file, "Of several ranks: their files."),
        "diagnostics": DIAGNOSTICS_PART,
        "job_steps": list_of(
            record({**STEP_LENGTHS, "held_up_by": HELD_UP_BY, "coverage": coverage}, "An iteration of all ranks."),
            "Of several ranks: the iterations of all together.",
        ),
        "steps": list_of(
            record({**STEP_LENGTHS, "coverage": coverage, "rank": RANK}, "A step of one rank."),
            "Every step of every rank, by number, then rank; of many ranks empty.",
        ),
        "unread": UNREAD,
    }
    return document(
        "critical-path-per-step",
        "What bounds every step: critical-path --per-step.",
        properties,
        ["ranks", "job_steps", "unread"],
    )


def report() -> Schema:
    """Return the schema of the verdicts of a report."""
    shown = one_of(WHY_REPRESENTATIVE, "Of many ranks: why this one is among the few that are shown.")
    rank = record(
        {"file": FILE, "rank": integer("The rank."), "shown_as": shown, "window": EXTENT, "verdict": VERDICT},
        "One rank's verdict.",
        ["shown_as"],
    )
    job = record(
        {"file": FILE, "window": EXTENT, **JOB_PARTS}, "Of a job: its window, ranks and clocks.", ["by_host_ns"]
    )
    return document(
        "report",
        "The verdict of a job and of each of its ranks: report --json.",
        {"verdict": VERDICT, "job": job, "ranks": list_of(rank, "The verdict of each rank alone."), "unread": UNREAD},
        ["job", "unread"],
        definitions={"finding": FINDING, "clock": CLOCK},
    )


CHANGE = {
    "change": one_of(["scale", "remove", "scenario"], "What kind of change it is."),
    "what": text("Of scale and remove: what is meant, as KIND:PATTERN."),
    "factor": number("Of scale: what its time is multiplied with."),
    "name": text("Of scenario: its name."),
    "argument": text("Of scenario: what it was given; null: nothing.", null=True),
    "says": text("The change in words."),
    "assumes": text("What it assumes; null where that is plain.", null=True),
}
BY_KIND_OF_CHANGE = ["what", "factor", "name", "argument"]
NEXT = text("What comes onto the path then (of a job rank N: NAME); null: nothing.", null=True)
OPPORTUNITY = record(
    {
        "kind": text("What kind of thing it is, such as class, kernel, operator, collective or rank."),
        "name": text("Its name."),
        "on_path_ns": ns("Its time on the path"),
        "saved_half_ns": ns("What the window would gain if it took half its time"),
        "saved_free_ns": ns("What the window would gain if it took none"),
        "next": NEXT,
        "alone_ns": ns("Of its time on the path, communication whose partners are in no file, which may be waiting"),
    },
    "Something on the path, and what it is worth.",
)
PATH_TOTALS = record(
    {
        "by_bound_ns": BY_BOUND,
        "by_rank_ns": by_rank("Of a job: the path's time on each rank."),
        "by_host_ns": BY_HOST,
        "events": list_of(
            record(
                {
                    "name": text("Whose the time is; null: nobody's.", null=True),
                    "bound_by": bound_by("Its class."),
                    "rank": integer("The rank.", null=True),
                    "time_ns": ns("Its time on the path"),
                },
                "What the path consists of.",
            ),
            "What the path consists of, longest first.",
        ),
    },
    "A path, added up.",
    ["by_rank_ns", "by_host_ns"],
)
CORNER = record(
    {
        "factor": number("What the time of the thing is multiplied with, from 1 down to 0."),
        "predicted_ns": ns("How long the window would be"),
        "saved_ns": ns("And how much shorter that is"),
        "on_path_ns": ns("Its time on the path below this corner, for a factor of one"),
        "next": NEXT,
    },
    "A corner of the curve; between two of them it is a straight line.",
)


def what_if() -> Schema:
    """Return the schema of predictions."""
    of_scenario = {name: CHANGE[name] for name in ("change", "name", "argument", "says", "assumes")}
    scenario = record({**of_scenario, "saved_ns": ns("What it would save")}, "A named change that applies.")
    properties = {
        "file": FILE,
        "rank": RANK,
        "ranks": RANKS,
        "window": WINDOW,
        "steps": STEPS,
        "measured_ns": ns("The window as recorded"),
        "identity_ns": ns("The window replayed without a change, which is the same"),
        "predicted_ns": ns("The window after the changes"),
        "saved_ns": ns("How much shorter that is"),
        "frozen_share": share("How much of the recorded path stays as it is whatever else changes"),
        "inferred_share": share("How much of the recorded path lies on inferred edges"),
        "changes": list_of(
            record(CHANGE, "A change that was asked for.", BY_KIND_OF_CHANGE),
            "The changes that were asked for, in order.",
        ),
        "next": NEXT,
        "opportunities": list_of(OPPORTUNITY, "Without a change: what would gain most, the largest first."),
        "scenarios": list_of(scenario, "Without a change: what the named changes that apply would save."),
        "path_before": PATH_TOTALS,
        "path_after": PATH_TOTALS,
        "curve": record(
            {"what": text("What is scaled."), "corners": list_of(CORNER, "From factor 1 to 0.")},
            "Where asked: the window's length for every factor of one thing.",
        ),
        "near": NEAR,
        "diagnostics": DIAGNOSTICS_PART,
        "unread": UNREAD,
    }
    return document(
        "what-if",
        "How long a window would be after changes; without any, which would gain most.",
        properties,
        ["ranks", "steps", "curve", "near", "unread"],
        definitions={"step": STEP},
    )
