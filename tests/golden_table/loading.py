"""Formulas: what loading keeps, and what filters keep of that."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from tests.golden_table.hta_faults import Fault, Faults
from tests.golden_table.raw_trace import OPERATOR, SYNC, SYNC_NAMES, Run, sync_records
from tests.golden_table.steps import iterations

__all__ = ["filtered", "loaded"]

UNKNOWN_STREAM = 0xFFFFFFFF


def _with_streams(frame: pd.DataFrame, faults: Faults) -> pd.DataFrame:
    """Return rows with stream numbers where they ran on one; with the faults, where they carry one."""
    on_stream = frame["device"] | (frame["cat"] == SYNC)
    if Fault.OPERATORS in faults:
        on_stream |= frame["cat"] == OPERATOR
    if Fault.UNRESOLVED not in faults:
        on_stream &= frame["stream"] != UNKNOWN_STREAM
    return frame.assign(stream=frame["stream"].where(on_stream, -1), iteration=_steps(frame, faults))


def _steps(frame: pd.DataFrame, faults: Faults) -> pd.Series:
    step = iterations(frame, faults)
    own = step.where(~frame["device"], frame["call"].map(step).fillna(-1))
    return own.astype(int)


def loaded(run: Run, arguments: Mapping[str, Any], faults: Faults) -> dict[str, Any]:
    """Counts of what is kept, rank by rank."""
    del arguments
    return {
        str(rank): {
            "rows": len(frame),
            "gpu_rows(stream!=-1)": int((frame["stream"] != -1).sum()),
            "streams": sorted({-1, *frame["stream"].tolist()}),
            "dur_negative": int((frame["dur"] < 0).sum()),
            "iterations": sorted(set(frame["iteration"].tolist())),
        }
        for rank, frame in ((rank, _with_streams(frame, faults)) for rank, frame in run.seen(faults).items())
    }


def filtered(run: Run, arguments: Mapping[str, Any], faults: Faults) -> dict[str, dict[str, Any]]:
    """Rows and summed durations (µs) of each filter that HTA was asked for."""
    frame = _with_streams(next(iter(run.seen(faults).values())), faults)
    steps = sorted(set(frame["iteration"].tolist()) - {-1})
    return {key: _counted(_kept(key, frame, steps, faults)) for key in arguments["filters"]}


def _counted(kept: pd.DataFrame) -> dict[str, Any]:
    return {"rows": len(kept), "dur_sum": float(kept["dur"].sum()) / 1e3}


def _kept(key: str, frame: pd.DataFrame, steps: list[int], faults: Faults) -> pd.DataFrame:
    name, text = re.fullmatch(r"(\w+?)(?:_no_symbols)?(?:\((.*)\))?(?:_symbols)?", key).groups()  # type: ignore[union-attr]
    if name.endswith("OperatorFilter") and text:
        return _around(name, text, frame, faults)
    on_gpu = (frame["stream"] >= 0) & (frame["correlation"] >= 0)
    if "no_symbols" not in key:
        on_gpu |= frame["name"].isin(SYNC_NAMES)
    nth = steps[int(text)] if name == "IterationIndexFilter" and int(text) < len(steps) else None
    first = frame["iteration"] == steps[0] if steps else frame["iteration"] == frame["iteration"]
    if name == "CompositeFilter":
        return frame[on_gpu & first]
    if name == "TimeRangeFilter":
        begin, until = (int(number) * 1_000 for number in text.split(","))
        return frame[(frame["start"] >= begin) & (frame["end"] <= until)]
    rules = {
        "GPUKernelFilter": lambda: on_gpu,
        "CPUOperatorFilter": lambda: frame["stream"] < 0 if "no_symbols" in key else ~on_gpu,
        "FirstIterationFilter": lambda: first,
        "IterationFilter": lambda: frame["iteration"] == int(text),
        "IterationIndexFilter": lambda: frame["iteration"] == nth if steps else first,
        "NameFilter": lambda: frame["name"].str.match(text),
        "ZeroDurationFilter": lambda: frame["dur"] > 0,
        "MemCopyEventFilter": lambda: (frame["name"] == text) & (frame["cat"] == "gpu_memcpy"),
        "total": lambda: frame["stream"] == frame["stream"],
    }
    return frame[rules[name]()]


def _around(name: str, text: str, frame: pd.DataFrame, faults: Faults) -> pd.DataFrame:
    operator, position, gpu = re.fullmatch(r"(.*),(-?\d+)(,gpu)?", text).groups()  # type: ignore[union-attr]
    found = frame[frame["name"] == operator].sort_values("start", kind="stable")
    if not len(found):
        return frame.iloc[:0]
    one = found.iloc[int(position)]
    inside = {
        "UnderOperatorFilter": (frame["start"] >= one["start"]) & (frame["end"] <= one["end"]),
        "AfterOperatorFilter": frame["start"] >= one["end"],
        "BeforeOperatorFilter": frame["end"] <= one["start"],
    }[name]
    kept = frame[(frame["stream"] == one["stream"]) & inside]
    if not gpu:
        return kept
    kinds = ("_runtime",) if Fault.FEW_CALLS in faults else ("_runtime", "_driver")
    calls = kept.loc[kept["cat"].str.endswith(kinds), "index"]
    launched = pd.concat([frame[frame["device"]], sync_records(frame)])
    return pd.concat([kept, launched[launched["call"].isin(calls) & ~launched["index"].isin(kept["index"])]])
