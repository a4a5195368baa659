"""Formulas: queues, copies, launches, and the kernels of operators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from tests.golden_table.golden_form import Range
from tests.golden_table.hta_faults import Fault, Faults
from tests.golden_table.raw_trace import DEVICE, Run

__all__ = [
    "blocked",
    "launch_stats",
    "operators",
    "queue_series",
    "queue_summary",
    "rate_series",
    "rate_summary",
]

QUEUED = {
    *("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "cudaMemcpyAsync"),
    *("cudaMemsetAsync", "hipLaunchKernel", "hipExtModuleLaunchKernel", "hipMemsetAsync", "hipMemcpyAsync"),
    "hipMemcpyWithStream",
}
"""The calls that HTA knows to enqueue work."""
TIMED, TIMED_COPIES = {"cudaLaunchKernel", "cudaLaunchKernelExC"}, {"cudaMemcpyAsync", "cudaMemsetAsync"}
"""The calls of its launch statistics."""
OWNED = re.compile(r"cuda.*LaunchKernel|cuLaunchKernel|runFunction")
"""The calls that its operators launch kernels by."""
RESIDUE = 1e-9
COPY = re.compile(r"Mem(cpy \w{4}|set)")


def launched(frame: pd.DataFrame, faults: Faults, known: set[str]) -> pd.DataFrame:
    """Pair GPU work with its calls, in the order of the calls: columns of the work, ``call_…`` of the call."""
    work = frame[frame["device"] & (frame["call"] >= 0)]
    work = work[work["call"].isin(frame.index)]
    calls = frame.loc[work["call"], ["name", "start", "end", "dur", "tid", "pid"]].add_prefix("call_")
    pairs = pd.concat([work.reset_index(drop=True), calls.reset_index(drop=True)], axis=1)
    if Fault.FEW_CALLS in faults:
        pairs = pairs[pairs["call_name"].isin(known) & (pairs["index"] > 0)]
    return pairs.sort_values("call", kind="stable", ignore_index=True)


# -- queues -----------------------------------------------------------------------------------------------------------


def changes(frame: pd.DataFrame, faults: Faults) -> pd.DataFrame:
    """List the changes of all queues by stream and time, launches first at equal times, and the bounds of each length.

    The bounds hold whatever order equal times have.
    """
    pairs = launched(frame, faults, QUEUED)
    enqueued = pairs["call_start"]
    if Fault.FEW_CALLS not in faults:
        enqueued = np.minimum(enqueued, pairs["start"])
    columns = ["pid", "tid", "stream"]
    up = pairs[columns].assign(index=pairs["call"], start=enqueued, change=1)
    down = pairs[columns].assign(index=pairs["index"], start=pairs["start"], change=-1)
    both = pd.concat([up, down]).sort_values(
        ["stream", "start", "change", "index"], ascending=[True, True, False, True]
    )
    both["length"] = both.groupby("stream")["change"].cumsum()
    ties = both.groupby(["stream", "start"])
    before = ties["length"].transform("first") - ties["change"].transform("first")
    both["low"] = before + both["change"].clip(upper=0).groupby([both["stream"], both["start"]]).transform("sum")
    both["high"] = before + both["change"].clip(lower=0).groupby([both["stream"], both["start"]]).transform("sum")
    alone = ties["length"].transform("size") == 1
    both.loc[alone, "low"] = both.loc[alone, "high"] = both.loc[alone, "length"]
    return both.reset_index(drop=True)


def queue_series(run: Run, arguments: Mapping[str, Any], faults: Faults) -> dict[int, pd.DataFrame]:
    """The queue of each stream after each change."""
    del arguments
    found = {rank: _series(changes(frame, faults), faults) for rank, frame in run.seen(faults).items()}
    return {rank: frame for rank, frame in found.items() if len(frame)}


def _series(both: pd.DataFrame, faults: Faults) -> pd.DataFrame:
    frame = both[["index", "start", "pid", "tid", "stream"]].rename(columns={"start": "ts"})
    frame["ts"] = frame["ts"] / 1e3
    frame["queue_length"] = both["length"]
    if Fault.ANY_ORDER in faults:
        bounds = zip(both["low"].tolist(), both["high"].tolist(), strict=True)
        frame["queue_length"] = [low if low == high else Range(low, high) for low, high in bounds]
    frame = frame.set_index("index")
    frame.attrs["unordered"] = True
    return frame


def queue_summary(run: Run, arguments: Mapping[str, Any], faults: Faults) -> pd.DataFrame | None:
    """Statistics over the changes."""
    del arguments
    rows = {}
    for rank, frame in run.seen(faults).items():
        for stream, part in changes(frame, faults).groupby("stream"):
            rows[(rank, int(stream))] = _described(part, faults)
    return _statistics(rows, ("rank", "stream"), "queue_length")


def _described(part: pd.DataFrame, faults: Faults) -> list[Any]:
    """Describe lengths; where their order at equal times is left to chance, by bounds.

    A deviation is a seminorm: it differs by no more than the deviation of the differences.
    """
    if Fault.ANY_ORDER not in faults or (part["low"] == part["high"]).all():
        return part["length"].describe().tolist()
    low, high, middle = (part[name].describe().tolist() for name in ("low", "high", "length"))
    slack = float(np.sqrt(((part["high"] - part["low"]) ** 2).sum() / max(len(part) - 1, 1)))
    found: list[Any] = [Range(one, other) for one, other in zip(low, high, strict=True)]
    found[2] = Range(middle[2] - slack, middle[2] + slack)
    return found


def _statistics(rows: Mapping[tuple[Any, ...], list[Any]], names: tuple[str, str], column: str) -> pd.DataFrame | None:
    if not rows:
        return None
    statistics = ("count", "mean", "std", "min", "25%", "50%", "75%", "max")
    index = pd.MultiIndex.from_tuples(list(rows), names=names)
    columns = pd.MultiIndex.from_product([[column], statistics])
    return pd.DataFrame(list(rows.values()), index=index, columns=columns, dtype=object)


def blocked(run: Run, arguments: Mapping[str, Any], faults: Faults) -> pd.DataFrame:
    """How long queues were full."""
    full = arguments.get("max_queue_length", 1024)
    rows = []
    for rank, frame in run.seen(faults).items():
        span = (frame["start"].max() - frame["start"].min()) / 1e3
        own = [_full(rank, int(stream), part, full, span) for stream, part in changes(frame, faults).groupby("stream")]
        found = [row for row in own if row is not None]
        rows += found[-1:] if Fault.LAST_STREAM in faults else found
    columns = ["rank", "stream", "duration_at_max_queue_length", "relative_duration_at_max_queue_length"]
    return pd.DataFrame(rows, columns=columns)


def _full(rank: int, stream: int, part: pd.DataFrame, full: int, span: float) -> list[Any] | None:
    if not (part["length"] >= full).any():
        return None
    lasting = part["start"].shift(-1) - part["start"]
    time = lasting[part["length"] >= full].sum() / 1e3
    return [rank, stream, time, time / span]


# -- copies -----------------------------------------------------------------------------------------------------------


def rates(frame: pd.DataFrame, faults: Faults) -> pd.DataFrame:
    """List how the rate of each kind of copy changes; at equal times ends come first."""
    own = frame[frame["device"] & frame["cat"].str.contains("mem", case=False)]
    kind = own["name"].map(lambda name: match[0] if (match := COPY.match(name)) else "Memcpy Unknown")
    end = own["end"].where(own["end"] != own["start"], own["start"] + 1_000)
    starts = pd.DataFrame({"name": kind, "time": own["start"], "pid": own["pid"], "rate": own["bandwidth"], "last": 1})
    ends = starts.assign(time=end, rate=-starts["rate"], last=0)
    both = pd.concat([starts, ends]).sort_values(["name", "time", "last"], kind="stable", ignore_index=True)
    both["running"] = both.groupby("name")["rate"].cumsum().where(lambda rate: rate.abs() > RESIDUE, 0.0)
    return both


def rate_series(run: Run, arguments: Mapping[str, Any], faults: Faults) -> dict[int, pd.DataFrame]:
    """The rate of each kind of copy after each change."""
    del arguments
    found = {}
    for rank, frame in run.seen(faults).items():
        both = rates(frame, faults)
        if len(both):
            shown = pd.DataFrame({"ts": both["time"] / 1e3, "pid": both["pid"], "name": both["name"]})
            shown["memory_bw_gbps"] = _running(both, faults)
            shown.attrs["unordered"] = True
            found[rank] = shown
    return found


def _above(part: pd.DataFrame, above: pd.Series, faults: Faults) -> list[Any]:
    """Describe the points above 0; where residues and their order are left to chance, by bounds."""
    low, high = _bounds(part)
    sure = int((low > RESIDUE).sum())
    if Fault.RESIDUES not in faults or not sure or ((low > RESIDUE) == (high > -RESIDUE)).all():
        return above.describe().tolist()
    maybe = int((high > -RESIDUE).sum())
    most, total = float(high.max()), float(high.clip(lower=0).sum())
    mean = Range(float(low.clip(lower=0).sum()) / maybe, total / sure)
    inner = [Range(0.0, most)] * 5
    return [Range(sure, maybe), mean, *inner, Range(float(low.max()), most)]


def _bounds(both: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return the bounds of the running rates, whatever the order of equal times is."""
    ties = both.groupby(["name", "time"])
    before = ties["running"].transform("first") - ties["rate"].transform("first")
    low = before + both["rate"].clip(upper=0).groupby([both["name"], both["time"]]).transform("sum")
    high = before + both["rate"].clip(lower=0).groupby([both["name"], both["time"]]).transform("sum")
    alone = ties["rate"].transform("size") == 1
    return low.where(~alone, both["running"]), high.where(~alone, both["running"])


def _running(both: pd.DataFrame, faults: Faults) -> Any:
    if Fault.ANY_ORDER not in faults:
        return both["running"]
    return [one if one == other else Range(one, other) for one, other in zip(*_bounds(both), strict=True)]


def rate_summary(run: Run, arguments: Mapping[str, Any], faults: Faults) -> pd.DataFrame | None:
    """Statistics over the rates above 0."""
    del arguments
    rows = {}
    for rank, frame in run.seen(faults).items():
        for name, part in rates(frame, faults).groupby("name"):
            above = part["running"][part["running"] > 0]
            if len(above):
                rows[(rank, name)] = _above(part, above, faults)
    return _statistics(rows, ("rank", "name"), "memory_bw_gbps")


# -- launches and operators -------------------------------------------------------------------------------------------


def launch_stats(run: Run, arguments: Mapping[str, Any], faults: Faults) -> dict[int, pd.DataFrame]:
    """Call, work and the delay between them."""
    copies = arguments.get("include_memory_events", True)
    found = {}
    for rank, frame in run.seen(faults).items():
        pairs = launched(frame, faults, TIMED | (TIMED_COPIES if copies else set()))
        if not copies:
            pairs = pairs[pairs["cat"].isin([cat for cat in DEVICE if "em" not in cat])]
        delay = (pairs["start"] - pairs["call_end"]).clip(lower=0)
        columns = {"cpu_duration": pairs["call_dur"], "gpu_duration": pairs["dur"], "launch_delay": delay}
        found[rank] = pd.DataFrame(
            {"correlation": pairs["correlation"], **{key: ns / 1e3 for key, ns in columns.items()}}
        )
    return found


def operators(run: Run, arguments: Mapping[str, Any], faults: Faults) -> dict[int, pd.DataFrame]:
    """Which kernels operators launch, and the delays until then."""
    del arguments
    return {rank: _operators(frame, faults) for rank, frame in run.seen(faults).items()}


def _operators(frame: pd.DataFrame, faults: Faults) -> pd.DataFrame:
    pairs = launched(frame, faults, {name for name in frame["name"].unique() if OWNED.match(name)})
    pairs = pairs[pairs["cat"].isin(("kernel", "Kernel"))]
    owner = _innermost(frame[frame["name"].str.startswith("aten::") & ~frame["device"]], pairs, faults)
    pairs, owner = pairs[owner >= 0], owner[owner >= 0]
    own = frame.loc[owner, ["tid", "name", "start"]].add_prefix("op_").reset_index(drop=True)
    pairs = pd.concat([pairs.reset_index(drop=True), own], axis=1)
    pairs["launch_delay"] = pairs["call_start"] - pairs["op_start"]
    pairs["runtime_delay"] = pairs["start"] - pairs["call_start"]
    key = ["op_tid", "op_name", "op_start"]
    each = pairs.groupby(key).agg(
        kernel_sequence=("name", " -> ".join),
        launch_delay=("launch_delay", "first"),
        runtime_delay=("runtime_delay", "first"),
    )
    found = each.groupby(["op_name", "kernel_sequence"]).agg(
        occurrence_count=("runtime_delay", "count"),
        avg_aten_op_launch_delay=("launch_delay", "mean"),
        avg_runtime_delay=("runtime_delay", "mean"),
    )
    delays = ["avg_aten_op_launch_delay", "avg_runtime_delay"]
    found[delays] = (found[delays] / 1e3).round(3)
    found = found.reset_index().rename(columns={"op_name": "aten_op_name"})
    found = found.sort_values("occurrence_count", ascending=False, kind="stable")
    if Fault.ANY_ORDER in faults:
        found.attrs["unordered"] = True
    return found


def _innermost(own: pd.DataFrame, pairs: pd.DataFrame, faults: Faults) -> Any:
    """Return for each call the operator around it that started last; -1 where there is none."""
    found = np.full(len(pairs), -1, np.int64)
    ordered = own.sort_values("start", kind="stable")
    start, end, index = (ordered[name].to_numpy() for name in ("start", "end", "index"))
    thread = ordered["tid"].astype(str).to_numpy()
    calls = zip(pairs["call_start"].tolist(), pairs["call_end"].tolist(), pairs["call_tid"].astype(str), strict=True)
    for at, (first, last, tid) in enumerate(calls):
        upto = int(np.searchsorted(start, first, side="right"))
        around = end[:upto] >= last
        if Fault.OTHER_THREADS not in faults:
            around &= thread[:upto] == tid
        if around.any():
            latest = around & (start[:upto] == start[:upto][around][-1])
            found[at] = index[:upto][latest][0 if Fault.EQUAL_STARTS in faults else -1]
    return found
