"""Schemas of what the chakra commands write."""

from __future__ import annotations

from hta_graph.chakra.check import RULES
from tests.generate.properties import OF_NUMBERS, Schema, by_key, document, integer, list_of, ns, one_of, record, text
from tests.generate.shared_parts import NOTES

NPU = integer("Its number in the simulation, from 0.")
OWN_RANK = integer("Its own number; null where the workload does not tell.", null=True)
NODES = integer("How many nodes its file has.")
SIMULATED = ns("When its last node ended, by ASTRA-sim's rules")


def chakra_convert() -> Schema:
    """Return the schema of what became of traces."""
    rank = {
        "npu": NPU,
        "rank": integer("Its own number."),
        "nodes": NODES,
        "measured_ns": ns(
            "From the first recording's beginning to the end of its own; null of a copied rank", null=True
        ),
        "simulated_ns": SIMULATED,
        "cpu_delay_ns": ns("How long the CPU's slot idles for no recorded reason"),
        "gpu_delay_ns": ns("How long the compute slot idles for no recorded reason"),
    }
    properties = {"ranks": list_of(record(rank, "A rank's file."), "The files that were written."), "notes": NOTES}
    return document("chakra-convert", "What chakra convert made of the traces.", properties)


def chakra_check() -> Schema:
    """Return the schema of the linter's findings."""
    finding = {
        "file": text("The file."),
        "node": integer("The node's id; null where the file as a whole is meant.", null=True),
        "rule": one_of(RULES, "The rule."),
        "what": text("What is there."),
        "happens": text("What ASTRA-sim does then."),
        "remedy": text("What to do."),
    }
    found = list_of(record(finding, "One thing that ASTRA-sim would stumble over."), "Empty where it would run.")
    return document("chakra-check", "What ASTRA-sim would not run: chakra check.", {"findings": found, "notes": NOTES})


def chakra_simulate() -> Schema:
    """Return the schema of an executed workload."""
    rank = {
        "npu": NPU,
        "rank": OWN_RANK,
        "nodes": NODES,
        "executed": integer("How many of them ended."),
        "simulated_ns": SIMULATED,
        "measured_ns": ns("How long the recording took; null where the workload does not tell", null=True),
    }
    properties = {
        "ranks": list_of(record(rank, "A rank of the run."), "The ranks."),
        "stalls": list_of(text("A sentence."), "Which nodes wait for each other for ever; empty where all end."),
    }
    return document("chakra-simulate", "A workload executed by ASTRA-sim's rules: chakra simulate.", properties)


def chakra_statistics() -> Schema:
    """Return the schema of what a log of ASTRA-sim says."""
    times = {
        "gpu_ns": "How long kernels, copies or sets ran",
        "memory_ns": "How long copies and sets ran",
        "communication_ns": "How long any communication ran, waiting for other ranks included",
        "overlap_ns": "How long both communication and a kernel ran",
        "exposed_communication_ns": "How long communication ran and no kernel did",
        "idle_ns": "How long neither communication nor the GPU's work ran",
        "cpu_ns": "How long any operator of the CPU ran",
        "delay_ns": "How long any delay ran",
    }
    rank = {
        "npu": NPU,
        "rank": OWN_RANK,
        "end_ns": ns("When it ended; null where the log does not tell", null=True),
        "nodes": integer("How many nodes its file has; null without --workload.", null=True),
        "issued": integer("How many nodes began."),
        "called_back": integer("How many nodes ended."),
        "unanswered": integer("How many began and did not end."),
        **{name: ns(f"{says}; null: not known", null=True) for name, says in times.items()},
    }
    properties = {"ranks": list_of(record(rank, "A rank of the run."), "The ranks."), "notes": NOTES}
    return document("chakra-statistics", "What a log of ASTRA-sim says of each rank: chakra statistics.", properties)


def chakra_groups() -> Schema:
    """Return the schema of the names of communicator groups."""
    group = {
        "name": text("Its name in the traces."),
        "ranks": list_of(integer("A rank."), "Its ranks, by their own numbers."),
    }
    properties = {
        "groups": by_key(
            record(group, "A communicator group."), "The groups by the number that stands in the .et files.", OF_NUMBERS
        ),
        "rank_of_npu": by_key(
            integer("A rank's own number."), "The ranks by their numbers in the simulation.", OF_NUMBERS
        ),
    }
    return document(
        "chakra-groups", "Names of communicator groups, beside the .et files of chakra convert.", properties
    )
