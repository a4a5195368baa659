"""Formulas: profiler steps, and the ranks that others wait for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tests.golden_table.gpu_time import COMMUNICATION, work
from tests.golden_table.hta_faults import Fault, Faults
from tests.golden_table.raw_trace import COPY_OF_ANNOTATION, NO_FAULTS, Run

__all__ = ["iterations", "profiler_steps", "stragglers"]

SLACK_NS = 1_000_000
SHORT = 0.01
OLD_NAME = re.compile(r"ncclKernel")


def iterations(frame: pd.DataFrame, faults: Faults) -> pd.Series:
    """Return the step of each CPU row; with the fault, the last in the file that holds its start, of the GPU too."""
    steps = frame[frame["step"] >= 0]
    if Fault.WRONG_STEP not in faults:
        steps = steps[steps["cat"] != COPY_OF_ANNOTATION]
    found = np.full(len(frame), -1, np.int64)
    start = frame["start" if Fault.COPIES_APART in faults else "annotated"].to_numpy()
    for one in steps.sort_values("index").itertuples():
        found[(start >= one.start) & (start < one.start + one.dur)] = one.step
    return pd.Series(found, index=frame.index)


def profiler_steps(run: Run, arguments: Mapping[str, Any], faults: Faults) -> list[int]:
    """The steps of all ranks that are looked at."""
    del arguments
    found: set[int] = set()
    for frame in run.seen(faults).values():
        steps = frame[frame["step"] >= 0]
        if Fault.LATE_CUT not in faults:
            steps = steps[steps["cat"] != COPY_OF_ANNOTATION]
        found |= set(steps["step"].tolist())
    return sorted(found)


def stragglers(run: Run, arguments: Mapping[str, Any], faults: Faults) -> list[int]:
    """The ranks that others wait for."""
    most = arguments.get("num_candidates", 2)
    if Fault.LATE_STARTS in faults:
        return _latest(run, most, faults)
    caused = dict.fromkeys(run.ranks, 0)
    for ranks, start, _ in matched(run):
        last = ranks[int(np.argmax(start))]
        caused[last] += int((max(start) - np.array(start)).sum())
    worst = sorted((rank for rank in caused if caused[rank] > 0), key=lambda rank: -caused[rank])
    return worst[:most]


def matched(run: Run) -> list[tuple[list[int], list[int], list[int]]]:
    """Match the k-th communication kernel of a name, from the end of each recording, where all ranks overlap.

    Only those count of which the last kernel is in HTA's documented window.
    """
    whole = {rank: work(frame, NO_FAULTS) for rank, frame in run.seen(cut=False).items()}
    kept = {rank: set(frame["index"]) for rank, frame in run.seen().items()}
    if len(whole) < 2:
        return []
    talks = {rank: frame[frame["type"] == COMMUNICATION].sort_values("start") for rank, frame in whole.items()}
    names = set.intersection(*(set(frame["name"]) for frame in talks.values()))
    found = []
    for name in sorted(names):
        own = {rank: frame[frame["name"] == name] for rank, frame in talks.items()}
        for back in range(1, min(map(len, own.values())) + 1):
            rows = [frame.iloc[-back] for frame in own.values()]
            start, end = [int(row["start"]) for row in rows], [int(row["end"]) for row in rows]
            last = int(np.argmax(start))
            if max(start) <= min(end) + SLACK_NS and rows[last]["index"] in kept[list(own)[last]]:
                found.append((list(own), start, end))
    return found


def _latest(run: Run, most: int, faults: Faults) -> list[int]:
    """Follow HTA's rule on the kernels with the older prefix."""
    parts = []
    for rank, frame in run.seen(faults).items():
        step = iterations(frame, faults)
        own = frame.assign(rank=rank, iteration=frame["call"].map(step).where(frame["device"], step).fillna(-1))
        parts.append(own[own["iteration"] >= 0])
    every = pd.concat(parts)
    first, steps = every["start"].min(), every["iteration"].nunique()
    usual = (every["end"].max() - first) / steps
    long = every[every["device"] & (every["stream"] > 0) & (every["iteration"] > 0) & (every["dur"] >= SHORT * usual)]
    long = long[long["name"].str.match(OLD_NAME)]
    last = long.groupby(["rank", "stream", "iteration", "name"], as_index=False).last()
    spread = last.groupby(["stream", "iteration", "name"])["dur"].std().groupby(["stream", "name"]).mean()
    stream, name = spread.idxmax()
    chosen = last[(last["stream"] == stream) & (last["name"] == name)]
    return _flagged(chosen, most)


def _flagged(chosen: pd.DataFrame, most: int) -> list[int]:
    flags: dict[int, int] = dict.fromkeys(chosen["rank"].tolist(), 0)
    for _, part in chosen.groupby("iteration"):
        threshold = part["start"].nlargest(most).iloc[-1]
        for rank in part.loc[part["start"] >= threshold, "rank"]:
            flags[rank] += 1
    order: Sequence[int] = sorted(flags, key=lambda rank: (-flags[rank], rank))
    return list(order)[:most]
