"""The reference numbers beside the shared traces, and the graphs that they belong to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import hta_graph as hg
from analyses.declare.scope import Scope, whole
from analyses.hta.frame import hta_scopes
from hta_graph import DependencyGraph
from tests.support.shared_traces import SHARED

WHOLE_MICROSECONDS = ("ddp_v100", "dlrm_8xv100", "execution_trace_sample", "sync_alexnet_a100", "cupti_counters")
"""Traces without nanoseconds: HTA's rounding does not touch them."""
NANOSECONDS = (
    "ns_resolution_v100", "nccl_args_a100", "owlv2_pystack_h100", "nanogpt_ab_current", "nanogpt_ab_hook",
    "nanogpt_ddp_8xh100",
)  # fmt: skip
TRACES = WHOLE_MICROSECONDS + NANOSECONDS


@lru_cache(maxsize=2)
def graphs(name: str) -> Mapping[int, DependencyGraph]:
    """Build the graphs of all ranks of a shared trace."""
    return {trace.rank or 0: hg.build_graph(trace) for trace in hg.read_traces(SHARED / "traces" / name)}


def exact(name: str, rank: int) -> dict[str, Any]:
    """Return the exact recomputation of a rank."""
    document = json.loads((SHARED / "golden" / name / "independent.json").read_text())
    found: dict[str, Any] = document["ranks"][str(rank)]
    return found


def kept_as_documented(name: str, rank: int) -> bool:
    """Say whether HTA's window is the one that it documents, so that its numbers can be right."""
    scopes = exact(name, rank)["scopes"]
    documented = scopes.get("documented_window", scopes["hta_window"])
    return bool(documented["rows"] == scopes["hta_window"]["rows"])


def exact_scopes(name: str, topic: str) -> Iterator[tuple[Scope, dict[str, Any]]]:
    """Pair each rank's whole trace, and HTA's window where HTA keeps to it, with the exact numbers of a topic."""
    found = graphs(name)
    for scope, (rank, graph) in zip(hta_scopes(found), found.items(), strict=True):
        yield whole(rank, graph), exact(name, rank)[topic]["all"]
        if kept_as_documented(name, rank):
            yield scope, exact(name, rank)[topic]["hta_window"]


def answered(name: str, method: str) -> dict[str, Any]:
    """Return what HTA answered; by rank where it answers by rank."""
    path = SHARED / "golden" / name / f"{method}.json"
    result: dict[str, Any] = json.loads(path.read_text())["result"]
    return result
