"""What the second of two runs lost, as findings: the same list of diff and of gate."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from analyses.compare.diff.comparable_names import OTHERS, portable_name
from analyses.display.sentence_format import brief_duration, quoted
from hta_graph.base.text.shorten import short_name

LISTED = 5
LEAST_LOST = 0.01
"""What a usual step lost less of is none."""
OF_STEPS = {"label": "the usual step of each run"}
IN_NOISE = "it is within the noise between steps"


def lost_time(rows: pd.DataFrame, control_ns: int) -> list[dict[str, Any]]:
    """Return what takes longer on the critical path of the second run, beyond its noise first, then the largest.

    Args:
        rows: the path by name: name, bound_by, control_ns, test_ns, diff_ns, noise_ns.
        control_ns: the usual step of the first run.
    """
    named = rows.assign(name=rows["name"].map(portable_name))
    sums = named.groupby(["name", "bound_by"], sort=False)[["control_ns", "test_ns", "diff_ns", "noise_ns"]].sum()
    found = sums.reset_index()
    found = found[(found["diff_ns"] > 0) & (found["diff_ns"] >= LEAST_LOST * control_ns) & (found["name"] != OTHERS)]
    order = np.lexsort((found["name"], -found["diff_ns"], found["diff_ns"] <= found["noise_ns"]))
    return [_record(row) for row in found.iloc[order[:LISTED]].to_dict("records")]


def _record(row: Mapping[Hashable, Any]) -> dict[str, Any]:
    lost, noise = int(row["diff_ns"]), int(row["noise_ns"])
    is_sure = lost > noise
    sure = "high confidence" if is_sure else f"low confidence: {IN_NOISE}"
    return {
        "id": f"lost:{row['bound_by']}:{row['name']}",
        "kind": "cause",
        "name": row["name"],
        "change": [],
        "saves_ns": lost,
        "saves_at_most_ns": int(row["test_ns"]),
        "expected_ns": max(lost - noise, 0),
        "confidence": "high" if is_sure else "low",
        "reason": None if is_sure else IN_NOISE,
        "window": OF_STEPS,
        "text": f"lost: {quoted(short_name(row['name']))}, {brief_duration(lost)} longer, {sure}",
    }
