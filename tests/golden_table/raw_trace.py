"""A run as its files say, read anew: no code of the project takes part."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.golden_table.hta_faults import Fault, Faults

__all__ = ["DEVICE", "NO_FAULTS", "Run", "read_run", "sync_records"]

DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset")
COPY_OF_ANNOTATION = "gpu_user_annotation"
SYNC = "cuda_sync"
OPERATOR = "cpu_op"
STEP = re.compile(r"ProfilerStep\s*#\s*(\d+)")
SYNC_NAMES = ("Event Sync", "Context Sync")
NO_FAULTS: Faults = frozenset()
MICROSECOND = 1_000
OF_ROWS: Faults = frozenset(
    {Fault.ROUNDED, Fault.FLOATS, Fault.OPERATORS, Fault.SYNC_RECORDS, Fault.LATE_CUT, Fault.COPIES_APART}
)
"""The faults that decide which rows there are, and when."""
REMEMBERED = 4


@dataclass(frozen=True)
class Run:
    """The rows of all ranks that have a duration and a category."""

    name: str
    ranks: Mapping[int, pd.DataFrame]
    files: Mapping[int, str]
    elements: Mapping[int, int]
    asked: tuple[int, ...] | None = None
    known: dict[Any, pd.DataFrame] = field(default_factory=dict, repr=False)

    @cached_property
    def is_fractional(self) -> bool:
        """Whether times have nanoseconds."""
        return any(bool(frame["is_fractional"].any()) for frame in self.ranks.values())

    @cached_property
    def steps(self) -> int:
        """How many different steps the ranks name."""
        return len({name for frame in self.ranks.values() for name in frame.loc[frame["step"] >= 0, "name"]})

    def has(self, category: str, *, stream: bool = False) -> bool:
        """Say whether there are rows of a category, or such with a stream number."""
        kept = (frame[frame["cat"] == category] for frame in self.ranks.values())
        return any(bool((rows["stream"] != -1).any()) if stream else len(rows) > 0 for rows in kept)

    def only(self, ranks: Sequence[int]) -> Run:
        """Return the run of which only some ranks are asked about."""
        return replace(self, asked=tuple(ranks))

    def seen(self, faults: Faults = NO_FAULTS, *, cut: bool = True) -> dict[int, pd.DataFrame]:
        """Return the rows of each rank that are looked at, in HTA's order, as somebody with these faults sees them.

        Columns start, end, dur (ns), ``gpu`` (is GPU work), ``call`` (index of the launching call, -1), and those of
        the file. Times count from the run's first row.
        """
        key = (faults & OF_ROWS, cut)
        for rank in self.ranks if self.asked is None else self.asked:
            if (*key, rank) not in self.known:
                self._remember(key, *key)
        return {rank: self.known[*key, rank].copy() for rank in (self.ranks if self.asked is None else self.asked)}

    def _remember(self, key: tuple[Any, ...], faults: Faults, cut: bool) -> None:
        """Prepare all ranks; of earlier ones the latest stay."""
        while len(self.known) > REMEMBERED * len(self.ranks):
            del self.known[next(iter(self.known))]
        first = min(float(frame["ts"].min()) for frame in self.ranks.values())
        timed = {rank: _timed(frame, first, faults) for rank, frame in self.ranks.items()}
        origin = min(frame["start"].min() for frame in timed.values())
        for rank, frame in timed.items():
            self.known[*key, rank] = self._of_rank(frame, origin, faults, cut=cut)

    def _of_rank(self, frame: pd.DataFrame, origin: float, faults: Faults, *, cut: bool) -> pd.DataFrame:
        frame = frame.assign(start=frame["start"] - origin, end=frame["end"] - origin)
        device = frame["cat"].isin(DEVICE)
        operator = (frame["cat"] == OPERATOR) & (frame["stream"] != -1) & (Fault.OPERATORS in faults)
        sync = (frame["cat"] == SYNC) & (frame["stream"] != -1) & (Fault.SYNC_RECORDS in faults)
        frame = frame.assign(device=device, gpu=device | operator | sync)
        frame["call"] = _calls(frame)
        frame["annotated"] = _start_of_original(frame)
        return _in_window(frame, faults) if cut and self.steps >= 2 else frame


def _timed(frame: pd.DataFrame, first: float, faults: Faults) -> pd.DataFrame:
    start, end = frame["exact_start"], frame["exact_end"]
    if Fault.ROUNDED in faults and frame["is_fractional"].any():
        start = np.ceil(frame["ts"]).astype(np.int64) * MICROSECOND
        end = np.floor(frame["ts"] + frame["length"]).astype(np.int64) * MICROSECOND
    elif Fault.FLOATS in faults:
        start = (frame["ts"] - first) * 1e3
        end = start + frame["length"] * 1e3
    return frame.assign(start=start, end=end, dur=end - start)


def _calls(frame: pd.DataFrame) -> Any:
    """Return the call with the correlation of each piece of GPU work; -1 where it is not in the file."""
    calls = frame[
        ~frame["device"] & frame["cat"].str.match(r".*(_runtime|_driver)$|Runtime") & (frame["correlation"] > 0)
    ]
    known = calls.drop_duplicates("correlation").set_index("correlation")["index"]
    return frame["correlation"].map(known).where(frame["device"], -1).fillna(-1).astype(np.int64)


def _in_window(frame: pd.DataFrame, faults: Faults) -> pd.DataFrame:
    """Keep what starts before the last step, and GPU work whose call is kept; GPU work comes first, as in HTA."""
    steps = frame[frame["step"] >= 0]
    if Fault.LATE_CUT not in faults:
        steps = steps[steps["cat"] != COPY_OF_ANNOTATION]
    if not len(steps):
        return frame
    until = steps["start"].max()
    time = frame["start" if Fault.COPIES_APART in faults else "annotated"]
    bound = ((frame["stream"] >= 0) & (frame["correlation"] >= 0)) | frame["name"].isin(SYNC_NAMES)
    kept_cpu = frame[~bound & (time < until)]
    called = kept_cpu.loc[kept_cpu["correlation"] != -1, "correlation"]
    kept_gpu = frame[bound & frame["correlation"].isin(called)]
    return pd.concat([kept_gpu, kept_cpu])


def _start_of_original(frame: pd.DataFrame) -> pd.Series:
    """Return when each row starts; of an annotation on the GPU, when the annotation that it copies starts."""
    own = frame[(frame["cat"] == "user_annotation") & (frame["external_id"] > 0)]
    first = own.drop_duplicates(["name", "external_id"]).set_index(["name", "external_id"])["start"]
    copies = frame["cat"] == COPY_OF_ANNOTATION
    keys = pd.MultiIndex.from_frame(frame.loc[copies, ["name", "external_id"]])
    times = frame["start"].copy()
    original = first.reindex(keys)
    times.loc[copies] = np.where(original.notna(), original, times[copies])
    return times


def sync_records(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the records of synchronisation with the calls that they belong to."""
    records = frame[(frame["cat"] == "cuda_sync") & (frame["stream"] > 0)]
    calls = frame[frame["cat"].str.endswith(("_runtime", "_driver"))].drop_duplicates("correlation")
    known = calls.set_index("correlation")["index"]
    return records.assign(call=records["correlation"].map(known).fillna(-1).astype(np.int64))


@lru_cache(maxsize=2)
def read_run(folder: Path) -> Run:
    """Read the device traces of a folder."""
    files = [path for path in sorted(folder.glob("*.json*")) if not path.name.startswith("host_et")]
    ranks, names, elements = {}, {}, {}
    for path in files:
        document = json.loads(gzip.decompress(path.read_bytes()), parse_float=str)
        rank = int((document.get("distributedInfo") or {}).get("rank", 0))
        ranks[rank], names[rank] = _rows(document["traceEvents"]), path.name
        elements[rank] = len(document["traceEvents"])
    return Run(folder.name, dict(sorted(ranks.items())), names, elements)


def _rows(events: list[dict[str, Any]]) -> pd.DataFrame:
    rows = [
        _row(index, row) for index, row in enumerate(events) if "dur" in row and "cat" in row and row["cat"] != "Trace"
    ]
    frame = pd.DataFrame(rows)
    return frame.set_index(frame["index"].to_numpy())


def _row(index: int, row: dict[str, Any]) -> dict[str, Any]:
    arguments = row.get("args") if isinstance(row.get("args"), dict) else {}
    start, length = _nanoseconds(row["ts"]), _nanoseconds(row["dur"])
    step = STEP.match(row["name"])
    return {
        "index": index,
        "name": row["name"],
        "cat": row["cat"],
        "pid": row["pid"],
        "tid": row["tid"],
        "exact_start": start,
        "exact_end": start + length,
        "ts": float(row["ts"]),
        "length": float(row["dur"]),
        "is_fractional": isinstance(row["ts"], str),
        "stream": _integer(arguments.get("stream")),
        "correlation": _integer(arguments.get("correlation")),
        "external_id": _integer(arguments.get("External id", arguments.get("external id"))),
        "bandwidth": _number(arguments.get("memory bandwidth (GB/s)")),
        "collective": "Collective name" in arguments,
        "arguments": arguments if row["cat"] in DEVICE else None,
        "step": int(step[1]) if step else -1,
    }


def _nanoseconds(value: int | str) -> int:
    """Convert a time in µs as it is printed."""
    if isinstance(value, int):
        return value * MICROSECOND
    whole, _, fraction = value.partition(".")
    return int(whole) * MICROSECOND + int(fraction[:3].ljust(3, "0") or 0)


def _integer(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        return -1


def _number(value: Any) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError):
        return 0.0
    return found if math.isfinite(found) else 0.0
