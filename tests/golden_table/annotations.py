"""Formulas: user annotations, and the GPU work under them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from tests.golden_table.gpu_time import listed
from tests.golden_table.hta_faults import Fault, Faults
from tests.golden_table.raw_trace import COPY_OF_ANNOTATION, Run
from tests.golden_table.steps import iterations

__all__ = ["breakdown", "kernels_under"]

ARGUMENTS = {
    "bytes": ("bytes", -1),
    "memory_bw_gbps": ("memory bandwidth (GB/s)", 0.0),
    "wait_on_stream": ("wait_on_stream", -1),
    "wait_on_cuda_event_record_corr_id": ("wait_on_cuda_event_record_corr_id", -1),
    "input_dims": ("Input Dims", "-1"),
    "input_type": ("Input type", "-1"),
    "input_strides": ("Input Strides", "-1"),
    "external_id": ("External id", -1),
    "python_id": ("Python id", -1),
    "python_parent_id": ("Python parent id", -1),
    "collective_name": ("Collective name", ""),
    "in_msg_nelems": ("In msg nelems", 0),
    "out_msg_nelems": ("Out msg nelems", 0),
    "msg_dtype": ("dtype", ""),
    "group_size": ("Group size", 0),
    "process_rank": ("Rank", -1),
    "in_split_size": ("In split size", "[]"),
    "out_split_size": ("Out split size", "[]"),
}
"""HTA's columns that are arguments of rows, and what stands where one is absent."""


def breakdown(run: Run, arguments: Mapping[str, Any], faults: Faults) -> pd.DataFrame | None:
    """Durations of annotations by rank and name."""
    category = COPY_OF_ANNOTATION if arguments.get("use_gpu_annotation", True) else "user_annotation"
    limits = (arguments.get("duration_ratio", 0.8), arguments.get("num_kernels", 1000))
    patterns = arguments.get("allowlist_patterns") or ()
    parts = []
    for rank, frame in run.seen(faults).items():
        own = frame[frame["cat"] == category]
        allowed = [name for name in own["name"].unique() if any(pattern in name for pattern in patterns)]
        parts.append(listed(own, limits, faults, allowed).assign(rank=rank))
    if not any((frame["cat"] == category).any() for frame in run.ranks.values()):
        return None
    return pd.concat(parts).sort_values(["rank", "name"], ignore_index=True)


def kernels_under(run: Run, arguments: Mapping[str, Any], faults: Faults) -> pd.DataFrame | None:
    """GPU work with the shortest annotation on its stream that it overlaps."""
    del arguments
    frame = next(iter(run.seen(faults).values()))
    marks = frame[frame["cat"] == COPY_OF_ANNOTATION]
    if not len(marks):
        return None
    own = frame[frame["device"]].sort_values("index")
    step = iterations(frame, faults)
    call = own["call"].where(own["call"].isin(frame.index), -1)
    columns: dict[str, Any] = {"index": own["index"], "cat": 0, "name": 0, "pid": own["pid"], "tid": own["tid"]}
    columns |= {"ts": own["start"] / 1e3, "dur": own["dur"] / 1e3}
    early = {"end": own["end"] / 1e3} if Fault.ROUNDED in faults and run.is_fractional else {}
    columns |= early | {"stream": own["stream"], "correlation": own["correlation"]}
    for column, (key, absent) in ARGUMENTS.items():
        columns[column] = [_said(said, key, absent) for said in own["arguments"]]
    columns |= {
        "index_correlation": call,
        "iteration": call.map(step).fillna(-1).astype(np.int64),
        "end": own["end"] / 1e3,
        "user_annotation": 0,
        "s_name": own["name"].map(short),
        "s_cat": own["cat"],
        "s_user_annotation": _over(own, marks, faults),
    }
    return pd.DataFrame(columns)


def _said(arguments: Mapping[str, Any], key: str, absent: Any) -> Any:
    found = arguments.get(key, absent)
    return float(found) if isinstance(absent, float) else found


def _over(own: pd.DataFrame, marks: pd.DataFrame, faults: Faults) -> list[str]:
    """Mark rows from the longest annotation to the shortest, so that the shortest stays."""
    found = np.full(len(own), "", object)
    start, end = own["start"].to_numpy(), own["end"].to_numpy()
    place = list(zip(own["pid"].astype(str), own["tid"].astype(str), strict=True))
    streams = np.unique(np.array([f"{pid} {tid}" for pid, tid in place], object), return_inverse=True)
    number = dict(zip(streams[0].tolist(), range(len(streams[0])), strict=True))
    times: dict[tuple[Any, Any], list[int]] = {}
    for at, key in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        times.setdefault(key, []).append(at)
    for mark in marks.sort_values("dur", ascending=False, kind="stable").itertuples():
        here = streams[1] == number.get(f"{mark.pid} {mark.tid}", -1)
        chosen = np.flatnonzero(here & _overlaps(start, end, mark.start, mark.end))
        if Fault.BY_TIMES in faults:
            chosen = np.array([same for at in chosen.tolist() for same in times[start[at], end[at]]], np.int64)
        found[chosen] = short(str(mark.name))
    return found.tolist()


def _overlaps(start: Any, end: Any, first: Any, last: Any) -> Any:
    """Mark half-open intervals that share a point with another; of length 0 counts the one point."""
    return (start < last) & (first < np.maximum(end, start + (start == end)))


@cache
def short(name: str) -> str:
    """Cut template and function arguments out of a name, and keep its last word; copies keep theirs."""
    if name.startswith(("Memcpy", "Memset")) or not set("<(") & set(name):
        return name
    kept: list[str] = []
    for letter in name.replace("->", ""):
        if letter in ">)":
            opening = "<" if letter == ">" else "("
            while kept and kept.pop() != opening:
                pass
        else:
            kept.append(letter)
    return "".join(kept).rsplit(" ", maxsplit=1)[-1]
