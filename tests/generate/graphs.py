"""Schemas of traces and graphs: info, graph, sync-deps, the header of a saved graph."""

from __future__ import annotations

from hta_graph.graph.dependency_graph import BUILD_DIAGNOSTICS
from hta_graph.model import EdgeKind, EventKind, Evidence, edge_kinds
from hta_graph.trace.table import READING_DIAGNOSTICS
from tests.generate.properties import Schema, boolean, by_key, document, integer, list_of, ns, one_of, record, text
from tests.generate.shared_parts import DIAGNOSTICS_PART, EXTENT, FILE, RANK, RANKS, UNREAD

KINDS = [kind.label for kind in EventKind if kind != EventKind.RENDEZVOUS]
"""A rendezvous is no event of any trace."""
OF_ONE_RANK = [kind.label for kind in edge_kinds(lambda meaning: not meaning.of_job)]
RANK_OF_JOB = integer("Of a job: the rank.")
POINTS = ("start", "end")
RECORDED_OR_INFERRED = "Whether the trace says so or a rule deduced it."


def info() -> Schema:
    """Return the schema of what is in traces."""
    step = {
        "step": integer("The number of the profiler step."),
        "start_ns": ns("Where it begins on the CPU, absolute"),
        "end_ns": ns("Where it ends on the CPU, absolute"),
    }
    lane = {
        "lane": text("thread PID:TID or stream DEVICE:CONTEXT:STREAM."),
        "events": integer("How many events are on it."),
    }
    counts = record(
        {found.label: integer(f"How many are {found.label}.") for found in Evidence}, "Edges of one kind by evidence."
    )
    rank = {
        "file": FILE,
        "rank": RANK,
        "world_size": integer("How many ranks the job has; null where the file does not tell.", null=True),
        "events": integer("How many events there are."),
        "kinds": record({kind: integer(f"How many are {kind}.") for kind in KINDS}, "Events by kind; all are there."),
        "lanes": list_of(record(lane, "A lane."), "CPU threads and GPU streams."),
        "steps": list_of(record(step, "A profiler step."), "The profiler steps."),
        "gpus": list_of(text("A name."), "The GPUs of the host, as far as the file names them."),
        "start_ns": ns("Where the first event begins, absolute; null without events", null=True),
        "end_ns": ns("Where the last event ends, absolute; null without events", null=True),
        "edges": record(
            dict.fromkeys(OF_ONE_RANK, counts), "Edges by kind; kinds without any are left out.", OF_ONE_RANK
        ),
        "diagnostics": DIAGNOSTICS_PART,
    }  # fmt: skip
    properties = {"ranks": list_of(record(rank, "A rank."), "What is in each rank's trace."), "unread": UNREAD}
    return document("info", "What is in traces, and what the graph made of it.", properties, ["unread"])


def graph() -> Schema:
    """Return the schema of a dumped graph."""
    event = {
        "rank": RANK_OF_JOB,
        "event_index": integer("Its place in traceEvents of its file, from 0."),
        "kind": one_of(KINDS, "What it is."),
        "name": text("Its name."),
        "lane": text("Its thread (thread PID:TID) or stream (stream DEVICE:CONTEXT:STREAM)."),
        "start_ns": ns("Where it begins, absolute (of a job: in job time)"),
        "end_ns": ns("Where it ends"),
    }
    edge: dict[str, Schema] = {
        "kind": one_of([kind.label for kind in EdgeKind], "Why the target could not have happened before the source."),
        "evidence": one_of([found.label for found in Evidence], RECORDED_OR_INFERRED),
        "clamped": boolean("Whether the target is stamped before its source, a clock fault; its lag is 0 then."),
    }
    for side in ("source", "target"):
        edge[f"{side}_index"] = integer(f"The event of the {side}; null where it is a rendezvous.", null=True)
        edge[f"{side}_point"] = one_of(POINTS, f"Which end of the {side} is meant; null of a rendezvous.", null=True)
    edge["lag_ns"] = ns("The target's time minus the source's")
    edge |= {
        "source_rank": integer("Of a job: the source's rank; null of a rendezvous.", null=True),
        "target_rank": integer("Of a job: the target's rank; null of a rendezvous.", null=True),
        "rendezvous": integer("Of a job: the number of the rendezvous on one side; else null.", null=True),
        "rule": text("The rule that gave the edge; present where the graph has edges of custom rules."),
    }
    meeting = {
        "number": integer("The number of the collective or message, in order of time."),
        "kind": text("Its recorded name."),
        "time_ns": ns("When the last rank came that was needed, in job time"),
    }
    properties = {
        "file": FILE,
        "rank": RANK,
        "ranks": RANKS,
        "rendezvous": list_of(record(meeting, "Where ranks meet."), "Of a job: where its ranks meet."),
        "events": list_of(record(event, "An event.", ["rank"]), "All events, by their place in the file."),
        "edges": list_of(
            record(edge, "An edge.", ["source_rank", "target_rank", "rendezvous", "rule"]), "All edges, kind by kind."
        ),
        "diagnostics": DIAGNOSTICS_PART,
        "unread": UNREAD,
    }
    return document(
        "graph",
        "The dependency graph: graph --json.",
        properties,
        ["ranks", "rendezvous", "unread"],
        together={"ranks": ["rendezvous"]},
    )


def sync_deps() -> Schema:
    """Return the schema of synchronisation dependencies."""
    window = record(
        {
            **EXTENT["properties"],
            "cpu_ns": ns("How long the step or annotation takes on the CPU"),
            "gpu_ns": ns("How long its GPU window is"),
        },
        EXTENT["description"],
    )
    properties = {
        "file": FILE,
        "rank": RANK,
        "ranks": RANKS,
        "window": window,
        "dependencies": list_of(
            _dependency(
                "cpu", "sync", "the CPU call that returned when it was done", "the next operator on that thread"
            ),
            "What CPU calls waited for.",
        ),
        "gpu_dependencies": list_of(
            _dependency("gpu", "wait", "the call that made the stream wait", "the activity that waited"),
            "What streams waited for.",
        ),
        "diagnostics": DIAGNOSTICS_PART,
        "unread": UNREAD,
    }
    return document("sync-deps", "What CPU calls and streams waited for.", properties, ["ranks", "unread"])


def _dependency(side: str, call: str, call_says: str, target_says: str) -> Schema:
    kinds = [kind.label for kind in edge_kinds(lambda meaning: meaning.exported == side)]
    found = {
        "rank": RANK_OF_JOB,
        "kind": one_of(kinds, "The kind of wait."),
        "evidence": one_of([found.label for found in Evidence], RECORDED_OR_INFERRED),
        "source_index": integer("The GPU activity that was waited for."),
        "source_name": text("Its name."),
        "source_external_id": integer("The id of the operator around its launch call; null: not known.", null=True),
        f"{call}_index": integer(f"The event index of {call_says}; null: not known.", null=True),
        f"{call}_name": text("Its name; null: not known.", null=True),
        "target_index": integer(f"The event index of {target_says}; null: none.", null=True),
        "target_name": text("Its name; null: none.", null=True),
        "target_external_id": integer(
            "The id of that operator, or of the one around its launch; null: none.", null=True
        ),
        "waited_ns": ns(
            "How long it waited for the source to end: a call from its start, a stream from when it could otherwise "
            "have run the target; null: not known",
            null=True,
        ),
        "lag_ns": ns("From the source's end to the call's return, or to the target's start"),
        "binding": boolean("Whether it ended the wait: it finished last, of equals one."),
    }
    if side == "gpu":
        del found["binding"]
    return record(found, "Who waited for what.", ["rank"])


def parquet() -> Schema:
    """Return the schema of graph.json in the folder of a saved graph."""
    number = integer("A number; -1: none.")
    lanes = {
        "labels": list_of(text("A name."), "thread PID:TID or stream DEVICE:CONTEXT:STREAM."),
        "is_stream": list_of(boolean("Whether it is one."), "Which lanes are GPU streams."),
        "device": list_of(number, "The device of each."),
        "context": list_of(number, "The context of each."),
        "stream": list_of(number, "The stream of each."),
        "is_communication": list_of(
            boolean("Whether it is one."), "Of a job: which hold what threads did with other ranks."
        ),
    }
    names = list_of(text("A name."), "The names of all events, to which columns refer by place.")
    reading, building = (
        record({key: integer(f"Counts {says}.") for key, says in of.items()}, f"What {doing} counted.")
        for doing, of in (("reading", READING_DIAGNOSTICS), ("building", BUILD_DIAGNOSTICS))
    )
    properties = {
        "path": FILE,
        "rank": RANK,
        "world_size": integer("How many ranks the job has; null where the file does not tell.", null=True),
        "gpu_names": list_of(text("A name."), "The GPUs of the host, as far as the file names them."),
        "salvaged": text(
            "What was said where a file broke off and only its whole events were read; else null.", null=True
        ),
        "settings": by_key(text("Its value."), "Settings of the recording that the file names."),
        "names": names,
        "lanes": record(lanes, "CPU threads and GPU streams, as columns of equal length."),
        "reading": reading,
        "ranks": RANKS,
        "building": building,
        "clock_fault_ns": ns("How far back in time edges can lead"),
        "custom_rules": list_of(text("A label."), "The labels of custom rules: the n-th (from 0) has code 127 - n."),
    }
    return document(
        "parquet", "graph.json with the tables of graph --parquet DIR.", properties, ["ranks", "custom_rules"]
    )
