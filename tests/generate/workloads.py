"""Schemas of what the chakra commands write."""

from __future__ import annotations

from hta_graph.chakra.check import RULES
from tests.generate.properties import OF_NUMBERS, Schema, by_key, document, integer, list_of, ns, one_of, record, text
from tests.generate.shared_parts import NOTES

NPU = integer("Rank number in the simulation, from 0.")
OWN_RANK = integer("Original rank number; null if the workload does not record it.", null=True)
NODES = integer("Number of nodes in its file.")
SIMULATED = ns("End time of its last node, by ASTRA-sim's rules")


def chakra_convert() -> Schema:
    """Return the schema of what became of traces."""
    rank = {
        "npu": NPU,
        "rank": integer("Original rank number."),
        "nodes": NODES,
        "measured_ns": ns(
            "From the start of the first recording to the end of this rank's; null for a copied rank", null=True
        ),
        "simulated_ns": SIMULATED,
        "cpu_delay_ns": ns("Time that the CPU slot idles without a recorded reason"),
        "gpu_delay_ns": ns("Time that the compute slot idles without a recorded reason"),
    }
    properties = {"ranks": list_of(record(rank, "A rank's file."), "Files written."), "notes": NOTES}
    return document("chakra-convert", "Result of chakra convert.", properties)


def chakra_check() -> Schema:
    """Return the schema of the linter's findings."""
    finding = {
        "file": text("The file."),
        "node": integer("Id of the node; null if the finding is about the whole file.", null=True),
        "rule": one_of(RULES, "The rule."),
        "what": text("What is there."),
        "happens": text("Effect in ASTRA-sim."),
        "remedy": text("What to do."),
    }
    found = list_of(record(finding, "A finding."), "Empty if it would run.")
    return document("chakra-check", "What ASTRA-sim cannot run: chakra check.", {"findings": found, "notes": NOTES})


def chakra_simulate() -> Schema:
    """Return the schema of an executed workload."""
    rank = {
        "npu": NPU,
        "rank": OWN_RANK,
        "nodes": NODES,
        "executed": integer("Number of them that ended."),
        "simulated_ns": SIMULATED,
        "measured_ns": ns("Measured length of the recording; null if the workload does not record it", null=True),
    }
    properties = {
        "ranks": list_of(record(rank, "A rank of the run."), "The ranks."),
        "stalls": list_of(text("A sentence."), "Nodes that wait for each other forever; empty if all end."),
    }
    return document("chakra-simulate", "A workload executed by ASTRA-sim's rules: chakra simulate.", properties)


def chakra_statistics() -> Schema:
    """Return the schema of what a log of ASTRA-sim says."""
    times = {
        "gpu_ns": "Time with kernels, copies or memsets running",
        "memory_ns": "Time with copies or memsets running",
        "communication_ns": "Time with communication running, including waiting for other ranks",
        "overlap_ns": "Time with both communication and a kernel running",
        "exposed_communication_ns": "Time with communication but no kernel running",
        "idle_ns": "Time with neither communication nor GPU work running",
        "cpu_ns": "Time with CPU operators running",
        "delay_ns": "Time with delays running",
    }
    rank = {
        "npu": NPU,
        "rank": OWN_RANK,
        "end_ns": ns("End time; null if the log does not show it", null=True),
        "nodes": integer("Number of nodes in its file; null without --workload.", null=True),
        "issued": integer("Number of nodes that started."),
        "called_back": integer("Number of nodes that ended."),
        "unanswered": integer("Number of nodes that started and did not end."),
        **{name: ns(f"{says}; null if unknown", null=True) for name, says in times.items()},
    }
    properties = {"ranks": list_of(record(rank, "A rank of the run."), "The ranks."), "notes": NOTES}
    return document("chakra-statistics", "An ASTRA-sim log by rank: chakra statistics.", properties)


def chakra_groups() -> Schema:
    """Return the schema of the names of communicator groups."""
    group = {
        "name": text("Its name in the traces."),
        "ranks": list_of(integer("A rank."), "Its ranks, by original rank number."),
    }
    properties = {
        "groups": by_key(
            record(group, "A communicator group."), "Groups by their number in the .et files.", OF_NUMBERS
        ),
        "rank_of_npu": by_key(
            integer("Original rank number."), "Ranks by their numbers in the simulation.", OF_NUMBERS
        ),
    }
    return document(
        "chakra-groups", "Names of communicator groups, next to the .et files of chakra convert.", properties
    )
