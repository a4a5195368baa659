"""Formulas: where the GPU's time goes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tests.golden_table.golden_form import between
from tests.golden_table.hta_faults import Fault, Faults
from tests.golden_table.raw_trace import Run

__all__ = ["idle_time", "kernels", "listed", "overlap", "temporal"]

COMPUTATION, COMMUNICATION, MEMORY, OTHER = "COMPUTATION", "COMMUNICATION", "MEMORY", "OTHER"
NAMED_COMMUNICATION = re.compile(r"nccl|rccl|deep_ep|nvshmem|.*cross_device_reduce", re.IGNORECASE)
GUESSED = (
    (COMMUNICATION, re.compile(r"nccl|hip|hccl|.*ncclKernel")),
    (MEMORY, re.compile(r"(hip)?Mem(cpy|set)|dma")),
    (
        OTHER,
        re.compile(
            r".*(Memcpy|Memset|dma|Sync)|Stream Wait Event|.*cuda.*LaunchKernel|runFunction|job_exe|packet|pe_exe"
        ),
    ),
)
Intervals = np.ndarray[Any, Any]


def work(frame: pd.DataFrame, faults: Faults) -> pd.DataFrame:
    """Return the GPU work with its ``type``."""
    own = frame[frame["gpu"]]
    guessed = {name: _guess(name) for name in own["name"].unique()}
    by_name = own["name"].map(guessed)
    if Fault.NAMES_ALONE in faults:
        return own.assign(type=by_name)
    talks = own["collective"] | own["name"].str.match(NAMED_COMMUNICATION)
    known = np.where(own["cat"].str.contains("mem", case=False), MEMORY, np.where(talks, COMMUNICATION, COMPUTATION))
    return own.assign(type=np.where(own["device"], known, by_name))


def _guess(name: str) -> str:
    return next((kind for kind, pattern in GUESSED if pattern.match(name)), COMPUTATION)


def merged(frame: pd.DataFrame, *, shorter_first: bool = False) -> Intervals:
    """Join what overlaps or touches; what ends before it starts is an interval of negative length if it comes first."""
    ordered = frame.sort_values(["start", "end"], ascending=[True, shorter_first], kind="stable")
    start, end = ordered["start"].to_numpy(), ordered["end"].to_numpy()
    if not len(start):
        return np.empty((2, 0))
    opens = np.append(True, start[1:] > np.maximum.accumulate(end)[:-1])
    first = np.flatnonzero(opens)
    return np.array([np.minimum.reduceat(start, first), np.maximum.reduceat(end, first)])


def length(intervals: Intervals) -> Any:
    """Add up intervals."""
    return (intervals[1] - intervals[0]).sum()


def by_what_runs(parts: Sequence[Intervals], *, truncated: bool = False) -> dict[int, Any]:
    """Sweep over intervals: how long exactly these parts run together (bit mask → time)."""
    times = np.concatenate([part.ravel() for part in parts]) if parts else np.empty(0)
    change = [np.repeat([1 << at, -(1 << at)], part.shape[1]) for at, part in enumerate(parts)]
    order = np.argsort(times, kind="stable")
    running = np.concatenate(change)[order].cumsum() if parts else np.empty(0, np.int64)
    lasting = np.diff(times[order])
    if truncated:
        lasting = np.trunc(lasting / 1e3) * 1e3
    found: dict[int, Any] = {}
    for mask in np.unique(running[:-1]).tolist():
        if mask > 0:
            found[mask] = lasting[running[:-1] == mask].sum()
    return found


def temporal(run: Run, arguments: Mapping[str, Any], faults: Faults) -> pd.DataFrame:
    """Idle, compute, other."""
    del arguments
    found = _temporal(run, faults, shorter_first=False)
    return between(found, _temporal(run, faults, shorter_first=True)) if Fault.ANY_ORDER in faults else found


def _temporal(run: Run, faults: Faults, *, shorter_first: bool) -> pd.DataFrame:
    rows = []
    for rank, frame in run.seen(faults).items():
        own = work(frame, faults)
        if not len(own):
            continue
        busy = merged(own, shorter_first=shorter_first)
        span = busy[1][-1] - busy[0][0]
        computing = length(merged(own[own["type"] == COMPUTATION], shorter_first=shorter_first))
        idle = span - length(busy)
        times = np.array([idle, computing, span - idle - computing])
        rows.append([rank, *times / 1e3, span / 1e3, *np.round(100 * times / span, 2)])
    names = ("idle_time", "compute_time", "non_compute_time")
    return pd.DataFrame(
        rows,
        columns=["rank", *(f"{name}(us)" for name in names), "kernel_time(us)", *(f"{name}_pctg" for name in names)],
    )


def overlap(run: Run, arguments: Mapping[str, Any], faults: Faults) -> pd.DataFrame:
    """How much communication is hidden."""
    del arguments
    rows = []
    for rank, frame in run.seen(faults).items():
        own = work(frame, faults)
        parts = [merged(own[own["type"] == kind]) for kind in (COMMUNICATION, COMPUTATION)]
        talking = length(parts[0])
        share = round(100 * by_what_runs(parts).get(3, 0) / talking, 2) if talking else np.nan
        rows.append([rank, share])
    return pd.DataFrame(rows, columns=["rank", "comp_comm_overlap_pctg"])


def kernels(run: Run, arguments: Mapping[str, Any], faults: Faults) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Types of work, and kernels."""
    types = [COMPUTATION, COMMUNICATION] + [MEMORY] * bool(arguments.get("include_memory_kernels", True))
    limits = (arguments.get("duration_ratio", 0.8), arguments.get("num_kernels", 10))
    sums: dict[str, Any] = {}
    parts = []
    for rank, frame in run.seen(faults).items():
        own = work(frame, faults)
        parted = [merged(own[own["type"] == kind]) for kind in types]
        for mask, time in by_what_runs(parted, truncated=Fault.TRUNCATED in faults).items():
            label = " overlapping ".join(kind for at, kind in enumerate(types) if mask >> at & 1)
            sums[label] = sums.get(label, 0) + time
        for kind in types:
            found = listed(own[own["type"] == kind], limits, faults)
            parts.append(found.assign(kernel_type=kind, rank=rank))
    table = _type_table(sums)
    if Fault.EMPTY_STRETCHES in faults:
        table.attrs["zero"] = "sum"
    return table, pd.concat(parts).sort_values(["kernel_type", "name", "rank"], ignore_index=True)


def _type_table(sums: Mapping[str, Any]) -> pd.DataFrame:
    lasting = {label: time for label, time in sums.items() if time}
    total = max(sum(lasting.values()), 1)
    rows = sorted(lasting.items(), key=lambda item: -item[1])
    return pd.DataFrame(
        [[label, time / 1e3, round(100 * time / total, 1)] for label, time in rows],
        columns=["kernel_type", "sum", "percentage"],
    )


def listed(frame: pd.DataFrame, limits: tuple[float, int], faults: Faults, allowed: Sequence[str] = ()) -> pd.DataFrame:
    """Sum up rows by name; beyond the limits, names are ``others``."""
    ratio, most = limits
    named = frame.groupby("name", sort=True)["dur"].sum().sort_values(ascending=False, kind="stable")
    renamed = dict.fromkeys(named.index, "")
    if len(named) > most:
        running = named.cumsum()
        late = running - named >= ratio * named.sum()
        drop = running > running.quantile(ratio) if Fault.QUANTILE in faults else late
        drop |= np.arange(len(named)) >= most
        renamed = {name: "others" if out and name not in allowed else "" for name, out in drop.items()}
    values = frame.assign(name=[renamed[name] or name for name in frame["name"]])[["name", "dur"]]
    if Fault.TWICE in faults and len(named) > most:
        values = named.rename("dur").reset_index()
        values["name"] = [renamed[name] or name for name in values["name"]]
    found = values.groupby("name")["dur"].agg(["sum", "max", "min", "std", "mean"]).reset_index()
    columns = ["name", "sum (us)", "max (us)", "min (us)", "stddev", "mean (us)"]
    found = found.fillna({"std": 0}).set_axis(columns, axis=1)
    found[columns[1:]] = found[columns[1:]].astype(float) / 1e3
    return found


def idle_time(run: Run, arguments: Mapping[str, Any], faults: Faults) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Gaps of streams by when the next row was launched."""
    wanted = arguments.get("show_idle_interval_stats", False)
    frames, statistics = [], []
    for rank, frame in run.seen(faults).items():
        own = frame[frame["device"]]
        for stream in own["stream"].unique():
            found = _gaps(frame, own[own["stream"] == stream], faults)
            frames.append(_of_stream(rank, int(stream), found))
            statistics.append(_statistics(rank, int(stream), found))
    frame = pd.concat(frames) if frames else pd.DataFrame(columns=IDLE)
    if not wanted:
        return frame, None
    empty = pd.DataFrame(columns=["rank", "stream", *DESCRIBED], index=pd.Index([], name="idle_category"))
    return frame, pd.concat(statistics) if statistics else empty


def _gaps(frame: pd.DataFrame, own: pd.DataFrame, faults: Faults) -> pd.DataFrame:
    """Return gap (ns, NaN before the first row) and cause of each row of a stream."""
    own = own.sort_values("start", kind="stable")
    until = own["end"].shift() if Fault.NEGATIVE_GAPS in faults else own["end"].cummax().shift()
    gap = own["start"] - until
    if Fault.NEGATIVE_GAPS not in faults:
        gap = gap.clip(lower=0)
    unknown = own["call"] < 0
    call = own["call"].where(~unknown, 0) if Fault.ABSENT_IS_FIRST in faults else own["call"]
    launched = call.map(frame["start"])
    in_time = np.where(gap < 30_000, "kernel_wait", "other")
    cause = np.where(launched > until, "host_wait", in_time)
    if Fault.ABSENT_IS_FIRST not in faults:
        cause = np.where(unknown & until.notna(), "launch_unknown", cause)
    cause = np.where(until.isna(), "other", cause)
    return pd.DataFrame({"gap": gap, "cause": cause})


IDLE = ["rank", "stream", "idle_category", "idle_time", "idle_time_ratio"]
DESCRIBED = ("count", "mean", "std", "min", "25%", "50%", "75%", "max")
ORDER = ("host_wait", "kernel_wait", "other", "launch_unknown")


def _of_stream(rank: int, stream: int, found: pd.DataFrame) -> pd.DataFrame:
    sums = found.groupby("cause")["gap"].sum().reindex([cause for cause in ORDER if cause in set(found["cause"])])
    total = sums.sum()
    columns = {
        "rank": rank,
        "stream": stream,
        "idle_category": sums.index,
        "idle_time": (sums / 1e3).round(2).to_numpy(),
        "idle_time_ratio": (sums / total).round(2).to_numpy() if total else 0.0,
    }
    return pd.DataFrame(columns)


def _statistics(rank: int, stream: int, found: pd.DataFrame) -> pd.DataFrame:
    described = (found["gap"] / 1e3).groupby(found["cause"].rename("idle_category")).describe().round(2)
    described = described.reindex([cause for cause in ORDER if cause in described.index])
    described.insert(0, "stream", stream)
    described.insert(0, "rank", rank)
    return described
