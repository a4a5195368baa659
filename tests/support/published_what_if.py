"""ByteDance's public jobs, and what its own code says of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tests.support.pipeline_job import StragglerJob, read_straggler_job
from tests.support.shared_traces import SHARED

ORACLE = SHARED / "oracle_whatif"


def numbers_of(answers: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, float | None]]:
    """Yield every number with its name; a map that is not there is one None."""
    for name, value in answers.items():
        if isinstance(value, Mapping):
            yield from numbers_of(value, f"{above}{name}/")
        else:
            yield f"{above}{name}", value


def public_job(name: str) -> StragglerJob:
    """Read a public job."""
    return read_straggler_job(ORACLE / f"trace-{name}.parquet", ORACLE / f"meta-{name}.yaml")


def published(name: str) -> dict[str, Any]:
    """Return what the original's own code says of a job, under our names."""
    result, last, worst = (json.loads((ORACLE / f"{part}-{name}.json").read_text()) for part in ("result", "ms", "mw"))
    steps = {step: np.mean([*result[step].values()]) for step in ("step_t_base", "step_t_nodelay", "step_t_noblk")}
    return {
        "step_measured": steps["step_t_base"],
        "step_no_delay": steps["step_t_nodelay"],
        "step_ideal": steps["step_t_noblk"],
        "launch_slowdown": result["launch_slowdown"],
        "S": result["blocking_slowdown"],
        "S_by_type": result["blocking_decompose_by_optype"],
        "S_by_stage": result["blocking_decompose_by_stage"],
        "S_by_dp": result["blocking_decompose_by_dp_rank"],
        "M_W": {"removed": worst["rem"], "added": worst["add"]},
        "M_S": {"removed": last["rem"], "added": last["add"]},
    }
