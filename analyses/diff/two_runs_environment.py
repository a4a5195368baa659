"""What was different around two runs: machine, job, precision, shapes, versions, options of the recording."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analyses.diff.environment import inputs_that_differ
from analyses.scope import Scope
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.trace.table import Trace

__all__ = ["environment", "environment_lines"]

NOT_RECORDED, NO_GPU = "not recorded", "none at work"
FACTS_LISTED = 4
"""How many differences the first line names, those first that change speed most."""

VERSIONS = {
    "cuda_runtime_version": "CUDA",
    "cuda_driver_version": "CUDA of the driver",
    "cupti_version": "CUPTI",
    "hip_runtime_version": "HIP",
    "hip_driver_version": "HIP of the driver",
    "nccl_version": "NCCL",
    "schemaVersion": "schema of the trace",
}
"""Keys of the header → words; a side that does not tell is not held against the other."""
OPTIONS = ("with_stack", "record_shapes", "profile_memory", "with_flops", "with_modules")
"""The profiler writes an option when it is on; with most of them recording itself takes time."""


def environment(control: Scope, test: Scope) -> pd.DataFrame:
    """List what differs around two runs, what changes speed most first.

    Returns:
        what, control, test (as the traces tell them).
    """
    sides = [_facts_of_run(scope.graph) for scope in (control, test)]
    rows = [(what, sides[0].get(what), sides[1].get(what)) for what in sides[0] | sides[1]]
    rows[2:2] = inputs_that_differ(control, test)
    listed = [(what, was or NOT_RECORDED, now or NOT_RECORDED) for what, was, now in rows if _differ(what, was, now)]
    return pd.DataFrame(listed, columns=["what", "control", "test"], dtype=object)


def environment_lines(frame: pd.DataFrame) -> list[str]:
    """Say what differs in one sentence that names both sides; nothing if nothing does.

    >>> environment_lines(pd.DataFrame({"what": ["GPU"], "control": ["A100"], "test": ["V100"]}))
    ['The environment differs: GPU A100 … V100.']
    """
    listed = [f"{what} {was} … {now}" for what, was, now in frame.itertuples(index=False)]
    hidden = len(listed) - FACTS_LISTED
    more = [f"{hidden} more in the table of the environment"] if hidden > 0 else []
    return [f"The environment differs: {'; '.join([*listed[:FACTS_LISTED], *more])}."] if listed else []


def _differ(what: str, was: str | None, now: str | None) -> bool:
    """Tell whether a fact differs; a side that does not tell is not held against the other, unless one has no GPU."""
    return was != now and (bool(was and now) or (what == "GPU" and NO_GPU in (was, now)))


def _facts_of_run(graph: DependencyGraph) -> dict[str, str | None]:
    """Tell what a trace says about its machine, its job and its recording."""
    trace = graph.trace
    has_header = bool(trace.settings)
    options = {f"profiler option {key}": _option(trace, key) for key in OPTIONS if has_header}
    return {
        "GPU": _gpus_at_work(graph),
        "GPUs in the machine": str(len(trace.gpu_names)) if trace.gpu_names else None,
        "world size": None if trace.world_size is None else str(trace.world_size),
        "rank": None if trace.rank is None else str(trace.rank),
        "communication": trace.settings.get("backend"),
        **{words: _version(key, trace.settings.get(key)) for key, words in VERSIONS.items()},
        **options,
    }


def _option(trace: Trace, key: str) -> str:
    return "off" if trace.settings.get(key, "0") in ("0", "False", "false") else "on"


def _gpus_at_work(graph: DependencyGraph) -> str | None:
    """Name the GPUs whose streams did work, as the header calls them; none where there was no work."""
    events, lanes, names = graph.event_table, graph.lanes, graph.trace.gpu_names
    if not graph.is_gpu.any():
        return NO_GPU
    devices = np.unique(lanes.device[np.unique(events.lane[graph.is_gpu])]).tolist()
    found = {names[device] if 0 <= device < len(names) else "" for device in devices} - {"", "unnamed"}
    return ", ".join(sorted(found or set(names) - {"unnamed"})) or None


def _version(key: str, text: str | None) -> str | None:
    """Write CUDA's and HIP's numbers as one says them.

    >>> _version("cuda_runtime_version", "12060"), _version("hip_runtime_version", "60443483")
    ('12.6', '6.4')
    """
    if text is None or not text.isdigit():
        return text
    number = int(text)
    if key.startswith("cuda") and number >= 1_000:
        return f"{number // 1_000}.{number % 1_000 // 10}"
    if key.startswith("hip") and number >= 10_000_000:
        return f"{number // 10_000_000}.{number // 100_000 % 100}"
    return text
