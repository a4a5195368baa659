"""Formulas: two runs compared by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from tests.golden_table.annotations import short
from tests.golden_table.hta_faults import Fault, Faults
from tests.golden_table.raw_trace import COPY_OF_ANNOTATION, Run
from tests.golden_table.steps import iterations

__all__ = ["compared", "sorted_names"]


def compared(runs: tuple[Run, Run], arguments: Mapping[str, Any], faults: Faults) -> pd.DataFrame:
    """Counts and durations by name, of both runs."""
    labels = arguments.get("labels") or _labels(arguments)
    key = "short_name" if arguments.get("use_short_name") else "name"
    sides = [
        _summed(_rows(run, arguments.get(f"{side}_iteration"), arguments.get("device_type", "ALL"), faults), key)
        for run, side in zip(runs, ("control", "test"), strict=True)
    ]
    both = pd.concat(sides, axis=1, keys=labels).fillna(0)
    if Fault.NEW_NAMES_LAST not in faults:
        both = both.sort_index()
    both.columns = both.columns.map("_".join)
    both["diff_counts"] = both[f"{labels[1]}_counts"] - both[f"{labels[0]}_counts"]
    both["diff_duration"] = both[f"{labels[1]}_total_duration"] - both[f"{labels[0]}_total_duration"]
    both["counts_change_categories"] = ["+" if more > 0 else "-" if more < 0 else "=" for more in both["diff_counts"]]
    both.index.name = key
    return both


def _labels(arguments: Mapping[str, Any]) -> list[str]:
    return ["Control", "Test"] if str(arguments.get("control", "")).startswith("(folder") else ["control", "test"]


def _rows(run: Run, asked: list[int] | None, device: str, faults: Faults) -> pd.DataFrame:
    frame = next(iter(run.seen(faults, cut=False).values()))
    wanted = asked or [int(frame.loc[frame["step"] >= 0, "step"].min())]
    step = iterations(frame, faults)
    of_call = frame["call"].map(step).fillna(-1)
    frame = frame[step.where(~frame["device"], of_call).isin(wanted)]
    if Fault.COPIES_COUNT not in faults:
        frame = frame[frame["cat"] != COPY_OF_ANNOTATION]
    if device == "ALL":
        return frame
    return frame[frame["gpu"]] if device == "GPU" else frame[~frame["gpu"]]


def _summed(rows: pd.DataFrame, key: str) -> pd.DataFrame:
    names = rows["name"].map(short) if key == "short_name" else rows["name"]
    summed = rows.groupby(names)["dur"].agg(["count", "sum"]).set_axis(["counts", "total_duration"], axis=1)
    summed["total_duration"] = summed["total_duration"] / 1e3
    return summed


def sorted_names(runs: tuple[Run, Run], arguments: Mapping[str, Any], faults: Faults) -> dict[str, list[str]]:
    """Names by what happened to their counts."""
    both = compared(runs, arguments, faults)
    was, now = both["control_counts"], both["test_counts"]
    chosen = {
        "added": was == 0,
        "deleted": now == 0,
        "increased": (now > was) & (was > 0),
        "decreased": (now < was) & (now > 0),
        "unchanged": now == was,
    }
    return {kind: sorted(both.index[rows]) for kind, rows in chosen.items()}
