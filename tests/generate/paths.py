"""Schemas of paths: critical-path, its table of steps, report, what-if."""

from __future__ import annotations

from analyses.judgement.verdict import WHY_REPRESENTATIVE
from hta_graph.attribution.replayed_names import EVIDENCE
from hta_graph.graph.conversion import HOST_TIMES
from hta_graph.model import EdgeKind, Evidence
from tests.generate.graphs import EVENT
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
    JOB_VERDICT,
    JUDGED,
    JUDGEMENT,
    NEAR,
    OF_ENGINE,
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
        "start_ns": ns("Start time, absolute (for a job: in job time)"),
        "end_ns": ns("End time, where the next one starts"),
        "edge": one_of(
            [kind.label for kind in EdgeKind], "Edge that the path takes here; null if unknown.", null=True
        ),
        "evidence": one_of(
            [found.label for found in Evidence], "Whether the edge is recorded or inferred; null without an edge.",
            null=True,
        ),
        "bound_by": bound_by("Class of the time."),
        "event_index": integer("Event that the time belongs to, by its index in traceEvents; null if none.", null=True),
        "name": text("That event's name; null if none.", null=True),
        "lane": text("Its thread (thread PID:TID) or stream (stream DEVICE:CONTEXT:STREAM); null if none.", null=True),
        "carried_over": boolean("Whether it is work from before the window."),
        "rank": integer("Its rank; null if not recorded.", null=True),
        "reason": reason("Reason for being unexplained; null in all other segments.", null=True),
        "segments": integer("With --merge-runs: number of segments merged into this one."),
        "inside": text("With --merge-runs: the call around them; null if none is open.", null=True),
        "operator": text("With names of graph replays: a GPU activity's operator; null if unknown.", null=True),
        "module": text("With names of graph replays: a GPU activity's module; null if unknown.", null=True),
        "operator_evidence": one_of([*EVIDENCE], "How these were found; null where both are.", null=True),
    },
    "A segment of the path: segments are in time order, contiguous, and cover the window.",
    ["segments", "inside", "operator", "module", "operator_evidence"],
)  # fmt: skip
UNEXPLAINED = record(
    {
        "segment": integer("Index in segments, from 0."),
        "start_ns": ns("Start time, absolute"),
        "end_ns": ns("End time, absolute"),
        "reason": reason("Reason for being unexplained."),
        "while_in": text("Operator or call that the host was in; null if none.", null=True),
        "before": text("Next event on the path; null if none.", null=True),
        "replays": integer(
            "For a graph node without an event: number of replays of the graph; otherwise null.", null=True
        ),
        "replays_with_hole": integer("Number of replays without that event; otherwise null.", null=True),
    },
    "An unexplained segment, and what was open then.",
)


def critical_path() -> Schema:
    """Return the schema of a path."""
    properties = {
        "file": FILE,
        "rank": RANK,
        "judgement": JUDGEMENT,
        "verdict": VERDICT,
        "window": WINDOW,
        "job_verdict": JOB_VERDICT,
        **JOB_PARTS,
        "steps": STEPS,
        "coverage": share("Share of the window with a known cause"),
        "by_bound_ns": BY_BOUND,
        "segments_merged": integer("With --merge-runs: number of segments before merging."),
        "segments": list_of(SEGMENT, "The path, in time order."),
        "unexplained": list_of(UNEXPLAINED, "The unexplained segments again, with what was open then."),
        "diagnostics": DIAGNOSTICS_PART,
        "near": NEAR,
        "unread": UNREAD,
    }
    return document(
        "critical-path",
        "The critical path of a window: the chain of work that determines its length.",
        properties,
        ["judgement", *JOB_PARTS, "steps", "segments_merged", "near", "unread"],
        definitions={"finding": FINDING, "step": STEP, "clock": CLOCK},
        together=OF_A_JOB,
    )


def evidence() -> Schema:
    """Return the schema of the events behind a finding."""
    event = record(
        {
            "time_ns": ns("Its time in the window, and in the iteration before it"),
            "path_ns": ns("The same on the critical path"),
            "bound_by": bound_by("Class of that time."),
            **EVENT,
        },
        "An event that the change of the finding touches.",
        ["rank", *HOST_TIMES],
    )
    return document(
        "critical-path-evidence",
        "The events behind a finding: critical-path --evidence.",
        {"file": FILE, "finding": JUDGED, "events": list_of(event, "Most time on the path first."), "unread": UNREAD},
        ["unread"],
    )


def per_step() -> Schema:
    """Return the schema of the table of all steps."""
    coverage = share("Share of the step's path with a known cause")
    rank_of_file = record({"file": FILE, "rank": RANK, "diagnostics": DIAGNOSTICS_PART}, "One of multiple ranks.")
    properties = {
        "file": text("The trace, as named in the command; null for multiple ranks.", null=True),
        "rank": RANK,
        "ranks": list_of(rank_of_file, "For multiple ranks: their files."),
        "diagnostics": DIAGNOSTICS_PART,
        "job_steps": list_of(
            record(
                {**STEP_LENGTHS, **OF_ENGINE, "held_up_by": HELD_UP_BY, "coverage": coverage},
                "An iteration of all ranks.",
                OF_ENGINE,
            ),
            "For multiple ranks: the iterations of the job.",
        ),
        "steps": list_of(
            record({**STEP_LENGTHS, **OF_ENGINE, "coverage": coverage, "rank": RANK}, "A step of one rank.", OF_ENGINE),
            "Every step of every rank, by number, then rank; empty with many ranks.",
        ),
        "unread": UNREAD,
    }
    return document(
        "critical-path-per-step",
        "The bound of every step: critical-path --per-step.",
        properties,
        ["ranks", "job_steps", "unread"],
    )


def report() -> Schema:
    """Return the schema of the verdicts of a report."""
    shown = one_of(WHY_REPRESENTATIVE, "With many ranks: why this one is among the few that are shown.")
    rank = record(
        {"file": FILE, "rank": integer("The rank."), "shown_as": shown, "window": EXTENT, "verdict": VERDICT},
        "One rank's verdict.",
        ["shown_as"],
    )
    job = record(
        {"file": FILE, "window": EXTENT, **JOB_PARTS}, "For a job: its window, ranks and clocks.", ["by_host_ns"]
    )
    return document(
        "report",
        "The verdict of a job and of each of its ranks: report --json.",
        {
            "judgement": JUDGEMENT,
            "verdict": VERDICT,
            "job_verdict": JOB_VERDICT,
            "job": job,
            "ranks": list_of(rank, "The verdict of each rank alone."),
            "unread": UNREAD,
        },
        ["job", "unread"],
        definitions={"finding": FINDING, "clock": CLOCK},
    )


CHANGE = {
    "change": one_of(["scale", "remove", "scenario"], "Kind of the change."),
    "what": text("For scale and remove: the selection, as KIND:PATTERN."),
    "factor": number("For scale: factor of its time."),
    "name": text("For scenario: its name."),
    "argument": text("For scenario: its argument; null if none.", null=True),
    "says": text("Description of the change."),
    "assumes": text("Assumption; null if there is none to state.", null=True),
    "operator_evidence": one_of([*EVIDENCE], "For kernels of graph replays: how it is known what they belong to."),
}
BY_KIND_OF_CHANGE = ["what", "factor", "name", "argument", "operator_evidence"]
NEXT = text("Next bottleneck (for a job rank N: NAME); null if none.", null=True)
OPPORTUNITY = record(
    {
        "kind": text("Kind of the item, such as class, kernel, operator, collective or rank."),
        "name": text("Its name."),
        "on_path_ns": ns("Its time on the path"),
        "saved_half_ns": ns("Saving if the item ran at twice the speed"),
        "saved_free_ns": ns("Saving if the item were removed"),
        "next": NEXT,
        "alone_ns": ns(
            "Its time on the path in communication whose partners are in no file, which can include waiting"
        ),
        "operator_evidence": CHANGE["operator_evidence"],
    },
    "An item on the path, and its estimated savings.",
    ["operator_evidence"],
)
PATH_TOTALS = record(
    {
        "by_bound_ns": BY_BOUND,
        "by_rank_ns": by_rank("For a job: the path's time on each rank."),
        "by_host_ns": BY_HOST,
        "events": list_of(
            record(
                {
                    "name": text("Owner of the time; null if none.", null=True),
                    "bound_by": bound_by("Its class."),
                    "rank": integer("The rank.", null=True),
                    "time_ns": ns("Its time on the path"),
                },
                "Items of the path.",
            ),
            "Items of the path, longest first.",
        ),
    },
    "A path, added up.",
    ["by_rank_ns", "by_host_ns"],
)
CORNER = record(
    {
        "factor": number("Factor of the item's time, from 1 to 0."),
        "predicted_ns": ns("Predicted length of the window"),
        "saved_ns": ns("Saving"),
        "on_path_ns": ns("Its time on the path below this corner, for a factor of one"),
        "next": NEXT,
    },
    "A corner of the curve; between two of them it is a straight line.",
)


def what_if() -> Schema:
    """Return the schema of predictions."""
    of_scenario = {name: CHANGE[name] for name in ("change", "name", "argument", "says", "assumes")}
    scenario = record({**of_scenario, "saved_ns": ns("Saving")}, "A named change that applies.")
    properties = {
        "file": FILE,
        "rank": RANK,
        "judgement": JUDGEMENT,
        "ranks": RANKS,
        "window": WINDOW,
        "steps": STEPS,
        "measured_ns": ns("Length of the window as recorded"),
        "identity_ns": ns("Length of the window replayed without changes (equal)"),
        "predicted_ns": ns("Predicted length of the window after the changes"),
        "saved_ns": ns("Saving"),
        "latency": record(
            {
                "measured_ns": ns("Latency as recorded"),
                "predicted_ns": ns("Predicted latency after the changes"),
                "saved_ns": ns("Saving"),
            },
            "Of a step whose latency differs from its iteration, after changes: the same of its latency.",
        ),
        "of_steps": record(
            {
                "usual_ns": ns("Predicted length of a usual step, their median"),
                "low_ns": ns("Lower end of the interval that holds it in another run, with 90% probability"),
                "high_ns": ns("Upper end of it"),
                "steps": list_of(
                    record(
                        {
                            "step": integer("Its number."),
                            "measured_ns": ns("Length as recorded"),
                            "predicted_ns": ns("Predicted length after the changes"),
                        },
                        "A step.",
                    ),
                    "The steps that were replayed, in order of time.",
                ),
            },
            "Where one rank of a job is to be like the others: the same of all steps that can be compared.",
        ),
        "reliable": boolean(
            "Whether predictions can be trusted: not where rows are missing or half of the path is fixed in every "
            "scenario, or if replay follows another path than the recorded one, nor where they depend on driver calls "
            "of other threads or on times that the trace does not explain, nor where a fifth of a job's prediction may "
            "be waiting for other ranks or its steps differ so much that another run may be off by more than 25%."
        ),
        "reason": one_of(
            [
                *("gpu_not_recorded", "kernels_not_recorded", "nothing_recorded", "not_started"),
                *("fixed", "another_path", "contended", "unusual", "waiting", "steps_differ"),
            ],
            "Why predictions cannot be trusted: launched GPU work is not recorded, most of the window has no operator "
            "or call, launched work does not start for a cause that is not recorded, the path is fixed, replay "
            "follows another path, driver calls of other threads may delay launches after the changes, they rest on "
            "times that the trace does not explain, much of a job's prediction may be waiting for other ranks, or its "
            "steps differ too much to predict another run; "
            "null if they can.",
            null=True,
        ),
        "frozen_share": share("Share of the recorded path that is fixed in every scenario"),
        "inferred_share": share("Share of the recorded path that depends on inferred edges"),
        "changes": list_of(
            record(CHANGE, "A requested change.", BY_KIND_OF_CHANGE),
            "Requested changes, in order.",
        ),
        "next": NEXT,
        "opportunities": list_of(OPPORTUNITY, "Without a change: estimated savings, largest first."),
        "scenarios": list_of(scenario, "Without a change: savings of the scenarios that apply."),
        "path_before": PATH_TOTALS,
        "path_after": PATH_TOTALS,
        "curve": record(
            {"what": text("What is scaled."), "corners": list_of(CORNER, "From factor 1 to 0.")},
            "With --curve: the length of the window for every factor of one item.",
        ),
        "near": NEAR,
        "diagnostics": DIAGNOSTICS_PART,
        "unread": UNREAD,
    }
    return document(
        "what-if",
        "Length of a window after changes; without changes, the largest savings.",
        properties,
        ["judgement", "ranks", "steps", "latency", "of_steps", "curve", "near", "unread"],
        definitions={"step": STEP},
    )
