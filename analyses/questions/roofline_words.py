"""What a roofline comes to in sentences: how much of the peak is used, what it is lost to, what has most to gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from analyses.advice.format import brief_duration, brief_share, counted, quoted
from analyses.answer import Note
from analyses.display.labels import SHORT
from analyses.headline import largest_item, outlier, rows_at_outlier
from analyses.questions.lost_time import PARTS
from analyses.questions.scope_limits import ScopeLimits
from analyses.scope import Scope, several_gpus
from hta_graph.errors import Remedy
from hta_graph.roofline.attainable import ATTAINABLE_SHARE, gpu_name

__all__ = ["_headline", "roofline_notes"]

LEAST_SHARE_NAMED = 0.1
"""So large a share of the GPU's time is said to be unknown."""
LEAST_SHARE_UNKNOWN = 0.5
"""Where more is unknown nothing is said of the peak."""
OPERATORS_NAMED = 3
"""So many operators without a model are named."""
OVER = 1.02
"""What is faster than its limit by more than the clock's ticks."""


def _headline(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Say how much of the peak is used where it is least, where the rest goes, and what has most to gain."""
    return [
        *_use_of_peak(tables["limits"], tables["losses"]),
        *_largest_opportunity(tables["roofline"], tables["limits"]),
    ]


def _use_of_peak(limits: pd.DataFrame, losses: pd.DataFrame) -> list[str]:
    """Say what share of the peak the matrix work of a scope uses, and what takes most of the rest."""
    found = outlier(limits.assign(lost=1 - limits["mfu_share"]), "lost", lambda lost: brief_share(1 - lost))
    if found is None or not found["mfu_share"] or found["unknown_share"] > LEAST_SHARE_UNKNOWN:
        return []
    # More than the peak is no use of it: the shapes or the peaks are others'.
    if limits["mfu_share"].max() > 1:
        return []
    lost = rows_at_outlier(losses, found)
    lost = lost[lost["part"] != "matrix_at_peak"]
    largest = lost.iloc[int(lost["time_ns"].argmax())]
    why = f" ({SHORT.get(largest['cause'], largest['cause'])})" if largest["part"] == "idle" else ""
    goes = f"{PARTS[largest['part']]}{why}, {brief_share(largest['window_share'])} of the window"
    least = "at least " if found["unknown_share"] > LEAST_SHARE_NAMED else ""
    use = f"matrix work uses {least}{brief_share(found['mfu_share'])} of the peak of {found['device']}"
    return [f"{use}{found.where}{found.typical}; most of the rest is {goes}"]


def _largest_opportunity(frame: pd.DataFrame, limits: pd.DataFrame) -> list[str]:
    """Name the operator that would save most."""
    found = largest_item(frame.assign(saves_ns=frame["saves_ns"].fillna(0)), ["operator", "inputs"], "saves_ns")
    if found is None:
        return []
    window = int(rows_at_outlier(limits, found)["window_ns"].iloc[0])
    what = f"{quoted(found['operator'])} ({quoted(str(found['inputs']))})"
    reach = f"reaches {brief_share(found['peak_share'])} of the limit that {LIMIT[found['bound']]} sets"
    saved = f"{brief_duration(int(found['saves_ns']))} ({brief_share(found['saves_ns'] / max(window, 1))})"
    return [
        f"{what} has most to gain{found.where}: it {reach}; at {brief_share(ATTAINABLE_SHARE)} it would save {saved}"
    ]


LIMIT = {"compute": "arithmetic", "memory": "memory"}


def roofline_notes(scopes: Sequence[Scope], looked: Sequence[ScopeLimits]) -> list[str | Note]:
    """Say what is missing, for which reason, and how to record or give it."""
    told: list[str | Note] = [scope.missing() for scope in scopes if scope.missing()]
    told += several_gpus(scopes)
    first = {limits.scope.rank: limits for limits in reversed(looked)}
    for rank in sorted(first):
        told += _notes_on_rank(first[rank])
    faster = sum(int((limits.limit_share > OVER).sum()) for limits in looked)
    if faster:
        rows = counted(faster, "row is", "rows are")
        told.append(
            f"{rows} faster than the limit: what they read was in a cache or repeats itself, or other peaks apply"
        )
    return told


def _notes_on_rank(limits: ScopeLimits) -> list[str | Note]:
    """Say of a rank what its file lacks."""
    rank, found = f"rank {limits.scope.rank}", limits.found
    told: list[str | Note] = []
    if found.unread:
        told.append(f"{rank}: shapes are in the trace's own file, which cannot be read: {found.unread}")
    elif not found.have_shapes:
        told.append(f"{rank}: no shapes were recorded, so nobody knows the work; record with record_shapes=True")
    else:
        told += _without_model(limits)
    if limits.device is None:
        name = gpu_name(limits.graph, limits.scope.gpus)
        whose = f"the peaks of {quoted(name)} are not known" if name else "the trace does not name one GPU"
        remedy = Remedy(
            "give them with peaks=FILE, or a device's name", "give them with --peaks FILE, or a device's name"
        )
        told.append(Note(f"{rank}: {whose}, so that rates stand alone", remedy))
    return told


def _without_model(limits: ScopeLimits) -> list[str]:
    """Name the operators of which most time is unknown."""
    times: dict[str, int] = {}
    for ns, group in zip(limits.gpu_ns.tolist(), limits.groups.groups, strict=True):
        if group.is_unknown:
            times[group.name] = times.get(group.name, 0) + ns
    whole = max(limits.all_gpu_ns, 1)
    if sum(times.values()) < LEAST_SHARE_NAMED * whole:
        return []
    largest = sorted(times, key=lambda name: (-times[name], name))[:OPERATORS_NAMED]
    names = ", ".join(f"{quoted(name)} ({brief_share(times[name] / whole)})" for name in largest)
    share = brief_share(sum(times.values()) / whole)
    return [f"rank {limits.scope.rank}: of {share} of the GPU's time it is not known what it demands: {names}"]
