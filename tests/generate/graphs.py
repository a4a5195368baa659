"""Schemas of traces and graphs: info, graph, sync-deps, the header of a saved graph."""

from __future__ import annotations

from analyses.questions.info import RECORDED_BY
from hta_graph.graph.conversion import HOST_TIMES
from hta_graph.model import BUILD_DIAGNOSTICS, EdgeKind, EventKind, Evidence, edge_kinds
from hta_graph.trace.table import READING_DIAGNOSTICS
from tests.generate.properties import Schema, boolean, by_key, document, integer, list_of, ns, one_of, record, text
from tests.generate.shared_parts import DIAGNOSTICS_PART, EXTENT, FILE, GPU_CLOCK, OF_ENGINE, RANK, RANKS, UNREAD

KINDS = [kind.label for kind in EventKind if kind != EventKind.RENDEZVOUS]
"""A rendezvous is not an event of a trace."""
OF_ONE_RANK = [kind.label for kind in edge_kinds(lambda meaning: not meaning.of_job)]
RANK_OF_JOB = integer("For a job: the rank.")
POINTS = ("start", "end")
RECORDED_OR_INFERRED = "Whether the edge is recorded or inferred."


def info() -> Schema:
    """Return the schema of what is in traces."""
    step = {
        "step": integer("Number of the profiler step."),
        "start_ns": ns("Start time on the CPU, absolute"),
        "end_ns": ns("End time on the CPU, absolute"),
        **OF_ENGINE,
    }
    lane = {
        "lane": text("thread PID:TID or stream DEVICE:CONTEXT:STREAM."),
        "events": integer("Number of its events."),
    }
    counts = record(
        {found.label: integer(f"How many are {found.label}.") for found in Evidence}, "Edges of one kind by evidence."
    )
    rank = {
        "file": FILE,
        "rank": RANK,
        "world_size": integer("Number of ranks of the job; null if not recorded.", null=True),
        "recorder": text("The program that recorded, where it is not PyTorch's profiler; otherwise null.", null=True),
        "events": integer("Number of events."),
        "kinds": record({kind: integer(f"Events of kind {kind}.") for kind in KINDS}, "Events by kind, all kinds."),
        "lanes": list_of(record(lane, "A lane."), "CPU threads and GPU streams."),
        "steps": list_of(record(step, "A step.", OF_ENGINE), "Profiler steps, or those of an inference engine."),
        "gpus": list_of(text("A name."), "The GPUs of the host, as far as the file names them."),
        "start_ns": ns("Start time of the first event, absolute; null without events", null=True),
        "end_ns": ns("End time of the last event, absolute; null without events", null=True),
        "edges": record(
            dict.fromkeys(OF_ONE_RANK, counts), "Edges by kind, without empty kinds.", OF_ONE_RANK
        ),
        "recorded_by": record(
            {recorder: integer(f"Edges of {recorder.replace('_', ' ')}.") for recorder in RECORDED_BY},
            "Edges that recorders of waits gave, by recorder.",
        ),
        "diagnostics": DIAGNOSTICS_PART,
    }  # fmt: skip
    rank["recording"] = record(
        {
            "is_whole": boolean("Whether all launched work has a row."),
            "launch_calls": integer("Calls that leave a row of the GPU in a whole recording."),
            "launch_calls_without_row": integer("Those whose row is not in the file."),
            "not_recorded_ns": ns("Time in which work may run that has no row, and nothing else runs"),
            "missing": list_of(text("A sentence."), "What is missing."),
        },
        "What the recording lacks.",
    )
    properties = {"ranks": list_of(record(rank, "A rank."), "Contents of each rank's trace."), "unread": UNREAD}
    return document("info", "Contents of traces, and of their graphs.", properties, ["unread"])


EVENT = {
    "rank": RANK_OF_JOB,
    "event_index": integer("Index in traceEvents of its file, from 0."),
    "kind": one_of(KINDS, "What it is."),
    "name": text("Its name."),
    "lane": text("Its thread (thread PID:TID) or stream (stream DEVICE:CONTEXT:STREAM)."),
    "start_ns": ns("Start time in its file, absolute (for a job: in job time)"),
    "end_ns": ns("End time in its file, absolute (for a job: in job time)"),
    "host_start_ns": ns("Start time in host time; present if GPU events were moved to the host's clock"),
    "host_end_ns": ns("End time in host time; present if GPU events were moved to the host's clock"),
}


def graph() -> Schema:
    """Return the schema of a dumped graph."""
    edge: dict[str, Schema] = {
        "kind": one_of([kind.label for kind in EdgeKind], "Why the target could not have happened before the source."),
        "evidence": one_of([found.label for found in Evidence], RECORDED_OR_INFERRED),
        "clamped": boolean("Whether the target's timestamp is before its source's (clock fault; its lag is then 0)."),
    }
    for side in ("source", "target"):
        edge[f"{side}_index"] = integer(f"The event of the {side}; null for a rendezvous.", null=True)
        edge[f"{side}_point"] = one_of(POINTS, f"Which end of the {side} is meant; null for a rendezvous.", null=True)
    edge["lag_ns"] = ns("Target time minus source time, in host time")
    edge |= {
        "source_rank": integer("For a job: the source's rank; null for a rendezvous.", null=True),
        "target_rank": integer("For a job: the target's rank; null for a rendezvous.", null=True),
        "rendezvous": integer("For a job: number of the rendezvous at one end; otherwise null.", null=True),
        "rule": text("Rule that gave the edge; present if the graph has edges of custom rules."),
    }
    meeting = {
        "number": integer("Number of the collective or message, in order of time."),
        "kind": text("Its recorded name."),
        "time_ns": ns("Arrival of the last required rank, in job time"),
    }
    properties = {
        "file": FILE,
        "rank": RANK,
        "ranks": RANKS,
        "rendezvous": list_of(record(meeting, "A rendezvous of ranks."), "For a job: its rendezvous."),
        "events": list_of(record(EVENT, "An event.", ["rank", *HOST_TIMES]), "All events, in file order."),
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
            "cpu_ns": ns("CPU time of the step or annotation"),
            "gpu_ns": ns("Length of its GPU window"),
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
            "Waits of CPU calls.",
        ),
        "gpu_dependencies": list_of(
            _dependency("gpu", "wait", "the call that made the stream wait", "the activity that waited"),
            "Waits of streams.",
        ),
        "diagnostics": DIAGNOSTICS_PART,
        "unread": UNREAD,
    }
    return document("sync-deps", "Waits of CPU calls and streams for GPU work.", properties, ["ranks", "unread"])


def _dependency(side: str, call: str, call_says: str, target_says: str) -> Schema:
    kinds = [kind.label for kind in edge_kinds(lambda meaning: meaning.exported == side)]
    found = {
        "rank": RANK_OF_JOB,
        "kind": one_of(kinds, "The kind of wait."),
        "evidence": one_of([found.label for found in Evidence], RECORDED_OR_INFERRED),
        "source_index": integer("GPU activity that the wait ended with."),
        "source_name": text("Its name."),
        "source_external_id": integer("Id of the operator around its launch call; null if unknown.", null=True),
        f"{call}_index": integer(f"Event index of {call_says}; null if unknown.", null=True),
        f"{call}_name": text("Its name; null if unknown.", null=True),
        "target_index": integer(f"Event index of {target_says}; null if none.", null=True),
        "target_name": text("Its name; null if none.", null=True),
        "target_external_id": integer("Id of that operator, or of the one around its launch; null if none.", null=True),
        "waited_ns": ns(
            "How long it waited for the source to end: a call from its start, a stream from when it could otherwise "
            "have run the target; null if unknown",
            null=True,
        ),
        "lag_ns": ns("From the source's end to the call's return, or to the target's start"),
        "binding": boolean("Whether it ended the wait: it finished last (one of several that did)."),
    }
    if side == "gpu":
        del found["binding"]
    return record(found, "Waits: who waited, and for what.", ["rank"])


def parquet() -> Schema:
    """Return the schema of graph.json in the folder of a saved graph."""
    number = integer("A number; -1: none.")
    lanes = {
        "labels": list_of(text("A name."), "thread PID:TID or stream DEVICE:CONTEXT:STREAM."),
        "is_stream": list_of(boolean("Whether it is one."), "Whether each lane is a GPU stream."),
        "device": list_of(number, "Device of each."),
        "context": list_of(number, "Context of each."),
        "stream": list_of(number, "Stream of each."),
        "is_communication": list_of(
            boolean("Whether it is one."), "For a job: whether each holds communication of threads with other ranks."
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
        "world_size": integer("Number of ranks of the job; null if not recorded.", null=True),
        "gpu_names": list_of(text("A name."), "The GPUs of the host, as far as the file names them."),
        "salvaged": text(
            "Note on a truncated file of which only complete events were recovered; otherwise null.", null=True
        ),
        "settings": by_key(text("Its value."), "Settings of the recording that the file names."),
        "names": names,
        "lanes": record(lanes, "CPU threads and GPU streams, as columns of equal length."),
        "reading": reading,
        "ranks": RANKS,
        "building": building,
        "clock_fault_ns": ns("Largest time that edges can lead back"),
        "custom_rules": list_of(text("A label."), "The labels of custom rules: the n-th (from 0) has code 127 - n."),
        "gpu_clock": list_of(GPU_CLOCK, "Clock offsets of the devices, where they were estimated."),
    }
    absent = ["ranks", "custom_rules", "gpu_clock"]
    return document("parquet", "graph.json with the tables of graph --parquet DIR.", properties, absent)
