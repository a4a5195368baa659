"""Formulas: the sequences of GPU work under operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from tests.golden_table.hta_faults import Fault, Faults
from tests.golden_table.raw_trace import Run, sync_records

__all__ = ["sequences"]


def sequences(run: Run, arguments: Mapping[str, Any], faults: Faults) -> pd.DataFrame:
    """The sequences of GPU work under rows with a text in their names."""
    frame = next(iter(run.seen(faults).values()))
    least = max(arguments.get("min_pattern_len", 3), 1)
    root = _roots(frame, arguments["operator_name"], faults)
    work = frame[frame["device"] & frame["call"].isin(frame.index)]
    if Fault.SYNC_RECORDS in faults:
        work = pd.concat([work, sync_records(frame)])
    work = work.sort_values("start", kind="stable")
    owner = work["call"].map(root).fillna(-1).astype(np.int64)
    found: dict[str, list[Any]] = {}
    for own, part in work[owner >= 0].groupby(owner[owner >= 0], sort=False):
        if len(part) < least:
            continue
        pattern = "|".join([frame.loc[own, "name"], *part["name"]])
        sums = found.setdefault(pattern, [0, 0, 0])
        for at, more in enumerate((1, part["dur"].sum() / 1e3, frame.loc[own, "dur"] / 1e3)):
            sums[at] += more
    rows = sorted(([pattern, *sums] for pattern, sums in found.items()), key=lambda row: (-row[1], row[0]))
    return pd.DataFrame(rows, columns=["pattern", "count", "GPU kernel duration (us)", "CPU op duration (us)"])


def _roots(frame: pd.DataFrame, text: str, faults: Faults) -> dict[int, int]:
    """Return the root around each CPU row: the outermost of its thread, or one of the least depth in the rank."""
    cpu = frame[~frame["device"] & ~frame["cat"].isin(("gpu_user_annotation", "cuda_sync", "overhead"))]
    strict = Fault.LEAST_DEPTH not in faults
    marked = cpu["name"].str.contains(text, regex=False)
    if strict:
        marked &= cpu["cat"].isin(("cpu_op", "user_annotation", "python_function", "Operator"))
    around: dict[int, int] = {}
    depth: dict[int, int] = {}
    top: dict[int, int] = {}
    threads = [rows for _, rows in cpu.assign(marked=marked, size=-cpu["dur"]).groupby(["pid", "tid"])]
    for rows in threads:
        _sweep(rows.sort_values(["start", "size", "index"]), around, depth, top)
    if strict:
        return around
    _hang_backward(threads, depth, top)
    shallow = frame.index[frame["name"].str.contains(text, regex=False)]
    least = min((depth.get(row, -1) for row in shallow), default=0)
    return {row: root for row, root in around.items() if depth[root] == least}


def _sweep(rows: pd.DataFrame, around: dict[int, int], depth: dict[int, int], top: dict[int, int]) -> None:
    """Walk over one thread's rows, outer before inner, and note of each its root, depth and outermost row."""
    stack: list[tuple[int, int, int]] = []
    columns = (rows[name].tolist() for name in ("index", "start", "end", "marked"))
    for index, start, end, marked in zip(*columns, strict=True):
        while stack and stack[-1][1] <= start:
            stack.pop()
        root = stack[-1][2] if stack else -1
        root = index if root < 0 and marked else root
        depth[index] = len(stack)
        top[index] = stack[0][0] if stack else index
        stack.append((index, end, root))
        if root >= 0:
            around[index] = root


def _hang_backward(threads: list[pd.DataFrame], depth: dict[int, int], top: dict[int, int]) -> None:
    """Deepen the rows of the one backward thread by the rows of the one main thread that they lie in, as HTA does."""
    main = [rows for rows in threads if (rows["step"] >= 0).any()]
    others = [rows for rows in threads if not (rows["step"] >= 0).any()]
    backward = [rows for rows in others if rows["name"].str.contains("autograd::", regex=False).any()]
    if len(main) != 1 or len(backward) != 1:
        return
    named = main[0][main[0]["name"].str.startswith("## backward ##")]
    parents = named if len(named) else main[0][main[0]["step"] >= 0]
    rows = backward[0]
    more: dict[int, int] = {}
    for parent in parents.itertuples():
        inside = (rows["start"] >= parent.start) & (rows["end"] <= parent.end)
        more.update(dict.fromkeys(rows.loc[inside, "index"], depth[int(parent.index)] + 1))
    for index in rows["index"]:
        depth[index] += more.get(top[index], 0)
