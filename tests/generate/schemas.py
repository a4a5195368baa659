"""All schemas by name, and their text."""

from __future__ import annotations

import json

from tests.generate import gates, graphs, paths, workloads
from tests.generate.answers import all_answers
from tests.generate.properties import Schema

__all__ = ["every_schema", "schema_text"]


def every_schema() -> dict[str, Schema]:
    """Return the schema of each document that a command writes."""
    return {
        "critical-path": paths.critical_path(),
        "critical-path-per-step": paths.per_step(),
        "critical-path-evidence": paths.evidence(),
        "what-if": paths.what_if(),
        "report": paths.report(),
        "info": graphs.info(),
        "graph": graphs.graph(),
        "parquet": graphs.parquet(),
        "sync-deps": graphs.sync_deps(),
        **all_answers(),
        "gate": gates.gate(),
        "baseline": gates.baseline(),
        "chakra-convert": workloads.chakra_convert(),
        "chakra-check": workloads.chakra_check(),
        "chakra-simulate": workloads.chakra_simulate(),
        "chakra-statistics": workloads.chakra_statistics(),
        "chakra-groups": workloads.chakra_groups(),
    }


def schema_text(schema: Schema) -> str:
    """Return a schema as the text of its file."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
