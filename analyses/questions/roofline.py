"""roofline: operator throughput against the GPU's limits, by shape, and what the rest of the window is lost to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.declare.analysis import Analysis
from analyses.declare.answer import Answer, Note
from analyses.declare.columns import GAP_CAUSES, Table, boolean, byte_count, integer, ns, number, rate, share, text
from analyses.declare.description import Flag
from analyses.declare.scope import LEAST_SAID, MOSTLY_IDLE, Scope, naming_window, several_gpus
from analyses.declare.tables import joined, labelled
from analyses.display.charts import SERIES, empty_figure, new_figure
from analyses.display.headline import Outlier, largest_item, outlier, rows_at_outlier
from analyses.display.labels import NOT_STARTED, SHORT
from analyses.display.sentence_format import brief_share, counted, quoted, time_and_share
from analyses.source.collective_rates import COLLECTIVE_RATES, collective_rates
from analyses.source.graph_names import naming_notes
from hta_graph.base.arrays import summed_by, take_or
from hta_graph.base.errors import Remedy, TraceError
from hta_graph.base.progress import tracked
from hta_graph.base.text.shorten import short_name, shorten_middle
from hta_graph.model import Codes, Floats, GapCause, Ints
from hta_graph.paths.critical_path import CriticalPath, critical_path
from hta_graph.paths.gpu_activity import WorkType, activities, device_gaps, exposure
from hta_graph.paths.idle_gap_causes import GapExplainer
from hta_graph.paths.intervals import union
from hta_graph.roofline.attainable import ATTAINABLE_SHARE, AttainableWork
from hta_graph.roofline.cost_models.table import MAX_WORK
from hta_graph.roofline.demand import Unit
from hta_graph.roofline.devices import Device, find_device, gpu_name, resolve_peaks
from hta_graph.what_if.changes import scale_activities
from hta_graph.what_if.modified_window import ModifiedWindow
from hta_graph.what_if.opportunities import is_opportunity, savings_of
from hta_graph.what_if.replay import replay_graph

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["TABLES", "answer", "figure", "known_time", "limits_of", "losses", "operator_demands", "roofline"]

TITLE = "Roofline: operator throughput and the device's limits"
PART_LABELS = {
    "matrix_at_peak": "matrix work at the peak of its data type",
    "matrix_bound_by_memory": "memory-bound matrix work",
    "matrix_below_limit": "matrix work below its limit",
    "matrix_without_limit": "matrix work with no known limit",
    "other_at_limit": "other work at its limit",
    "other_below_limit": "other work below its limit",
    "other_without_limit": "other work with no known limit",
    "without_model": "computation with unknown demand",
    "exposed_communication": "exposed communication",
    "exposed_copies": "exposed copies to or from the host",
    "idle": "GPU idle time",
}
"""Part of a window → what it is."""
NO_LOSS = "matrix work at the peak of its type (no loss)"
LIMIT = {"compute": "compute limit", "memory": "memory bandwidth limit"}
GIVE_PEAKS = Remedy("pass peaks=FILE or a device name", "use --peaks with a file or a device name")

FEWEST_REPLAYS, MOST_REPLAYS, REPLAYED_EDGES = 4, 24, 1_500_000
"""How many groups are replayed at their limit, those that could save most: as many as keeps the replays of all their
edges below the last number."""


@dataclass(frozen=True)
class ScopeLimits(AttainableWork):
    """What the activities of a scope demand, and the limits of a device."""

    scope: Scope

    @classmethod
    def of(cls, scope: Scope, given: Device | None = None) -> ScopeLimits:
        """Take the given peaks, or else those of the GPU that the trace's header names."""
        return cls(scope.graph, scope.work, given or find_device(gpu_name(scope.graph, scope.gpus)), scope)

    @cached_property
    def all_gpu_ns(self) -> int:
        """How long all activities of the scope take, communication included."""
        return int((self.every.end - self.every.start).sum())

    @property
    def talks(self) -> bool:
        """Whether ranks communicate in the scope."""
        return len(self.groups.work) < len(self.every)

    @cached_property
    def path(self) -> CriticalPath:
        """The scope's critical path."""
        return self.scope.known_path or critical_path(self.graph, self.scope.window)

    @cached_property
    def path_ns(self) -> Ints:
        """How long each group is on the critical path."""
        return summed_by(self.groups.number, self._on_path, len(self.groups))

    @cached_property
    def _on_path(self) -> Ints:
        """How long each activity of the groups is on the path."""
        return self.on_path(self.path)

    @cached_property
    def saves(self) -> tuple[Floats, int]:
        """By how much (ns) the scope would be shorter if each group reached 80% of its limit; and if all did.

        NaN where it was not replayed: for groups without a limit, and beyond those that could save most.
        """
        work, number = self.groups.work, self.groups.number
        at_most = np.bincount(number, weights=self._on_path * (1 - self.near_limit), minlength=len(self.groups))
        has_limit = ~np.isnan(self.sum_of(self.calls.attainable_ns))
        # What is not on the path saves nothing.
        saved = np.where(has_limit & (at_most < 1), 0.0, np.nan)
        worth = [at for at in np.flatnonzero(has_limit).tolist() if is_opportunity(at_most[at], self.path.length_ns)]
        chosen = sorted(worth, key=lambda at: -at_most[at])[
            : min(max(REPLAYED_EDGES // max(len(self.graph.edge_table), 1), FEWEST_REPLAYS), MOST_REPLAYS)
        ]
        if not chosen:
            return saved, 0
        base = replay_graph(self.graph, self.scope.window)
        drafts = [ModifiedWindow(base) for _ in range(len(chosen) + 1)]
        for draft, at in zip(drafts, chosen, strict=False):
            scale_activities(work.row[number == at], self.near_limit[number == at])(draft)
        scale_activities(work.row, self.near_limit)(drafts[-1])
        *each, together = savings_of(base, tracked(drafts)).ravel().tolist()
        saved[chosen] = each
        return saved, together


class ActivityClass(IntEnum):
    """The class of an activity; while several run, the time belongs to the first one here."""

    MATRIX = 0
    OTHER = 1
    UNKNOWN = 2
    TALK = 3
    COPY = 4


def loss_rows(limits: ScopeLimits) -> list[dict[str, Any]]:
    """Divide a scope's window into its parts; the rows add up to it, to the nanosecond."""
    rows = [{"part": part, "cause": None, "time_ns": ns} for part, ns in _busy_time_parts(limits)]
    rows += [{"part": "idle", "cause": cause, "time_ns": ns} for cause, ns in _idle_causes(limits)]
    return [row for row in rows if row["time_ns"]]


def utilisation(limits: ScopeLimits) -> tuple[float, float]:
    """Return the FLOPs of a scope's matrix work, and the share of its window that they would take at the peak (MFU)."""
    scope, calls = limits.scope, limits.calls
    flops, ideal_ns = (
        float(np.nansum(limits.of_activities(np.where(calls.is_matrix, values, np.nan), scope.running)))
        for values in (calls.flops, calls.compute_ns)
    )
    if not flops and any(group.is_unknown for group in limits.groups.groups):
        return np.nan, np.nan  # the matrix work may all be in what is unknown
    known = limits.device is not None and scope.window_ns > 0
    return flops, ideal_ns / (scope.window_ns * max(len(scope.gpus), 1)) if known else np.nan


def _busy_time_parts(limits: ScopeLimits) -> Iterator[tuple[str, int]]:
    """Yield the parts in which the GPU works, by :class:`ActivityClass`."""
    # matrix          ####  ####        ####  ####
    # other work        ####  ##            ##
    # communication         ########              ####
    work, does = limits.scope.running, _classify_activities(limits)
    compute, limit = _shares_of_limits(limits)
    for kind in ActivityClass:
        own, before = does == kind, does < kind
        alone = exposure(work.take(own), union(work.start[before], work.end[before])).exposed
        yield from _parts_by_limit(kind, alone, compute[own], limit[own])


def _classify_activities(limits: ScopeLimits) -> Codes:
    """Return the class of each activity of a scope."""
    work, calls, place = limits.scope.running, limits.calls, limits.found.places(limits.scope.running)
    number = limits.found.number[place]
    known = take_or(~np.isnan(np.fmax(calls.flops, calls.bytes)), number, otherwise=False)
    does = np.where(known, ActivityClass.OTHER, ActivityClass.UNKNOWN)
    does[take_or(calls.is_matrix, number, otherwise=False)] = ActivityClass.MATRIX
    does[work.type == WorkType.COMMUNICATION] = ActivityClass.TALK
    does[limits.found.host_copy[place]] = ActivityClass.COPY
    return does.astype(np.int8)


def _shares_of_limits(limits: ScopeLimits) -> tuple[Floats, Floats]:
    """Return which share of its time each activity would take for its arithmetic at the peak, and at its limit."""
    work, calls, found = limits.scope.running, limits.calls, limits.found
    place = found.places(work)
    total = np.maximum(found.operator_ns[place], 1)
    compute, limit = (
        take_or(values, found.number[place], otherwise=np.nan) / total for values in (calls.compute_ns, calls.limit_ns)
    )
    return np.minimum(compute, 1.0), np.minimum(limit, 1.0)


def _parts_by_limit(kind: ActivityClass, alone: Ints, compute: Floats, limit: Floats) -> Iterator[tuple[str, int]]:
    """Divide the time of one kind of work by its limits."""
    if kind in SINGLE:
        yield SINGLE[kind], int(alone.sum())
        return
    word, has_limit = ("matrix", "other")[kind], ~np.isnan(limit)
    at_limit = round(float((alone * limit)[has_limit].sum()))
    at_peak = round(float(np.nansum((alone * compute)[has_limit]))) if kind == ActivityClass.MATRIX else 0
    if kind == ActivityClass.MATRIX:
        yield "matrix_at_peak", at_peak
        yield "matrix_bound_by_memory", at_limit - at_peak
    else:
        yield "other_at_limit", at_limit
    yield f"{word}_below_limit", int(alone[has_limit].sum()) - at_limit
    yield f"{word}_without_limit", int(alone[~has_limit].sum())


SINGLE = {
    ActivityClass.UNKNOWN: "without_model",
    ActivityClass.TALK: "exposed_communication",
    ActivityClass.COPY: "exposed_copies",
}


def _idle_causes(limits: ScopeLimits) -> Iterator[tuple[str, int]]:
    """Yield the causes of idle time, longest first."""
    scope = limits.scope
    gaps = device_gaps(scope.running, activities(scope.graph), scope.start_ns, scope.end_ns)
    pieces = GapExplainer(scope.graph).explain(gaps)
    sums = summed_by(pieces.cause, pieces.length, len(GapCause))
    for cause in sorted(GapCause, key=lambda one: -sums[one]):
        yield cause.label, int(sums[cause])


LEAST_SHARE_NAMED = 0.1
"""The share of GPU time with unknown demand from which on a note reports it."""
LEAST_SHARE_UNKNOWN = 0.5
"""The share of unknown demand above which the use of the peak is not stated."""
OPERATORS_NAMED = 3
"""How many operators without a model are named."""
OVER_PEAK = 1.02
"""Faster than the limit by more than the clock's ticks."""


def _headline(tables: Mapping[str, pd.DataFrame], scopes: Sequence[Scope]) -> list[str]:
    """Return the headline: idle time where the GPU is mostly idle, the use of the peak and the largest part, a saving.

    Where the use of the peak is unknown, the largest part of the window is named alone.
    """
    limits, losses = tables["limits"], tables["losses"]
    idle = _mostly_idle(losses, scopes)
    used = _use_of_peak(limits, losses, names_loss=not idle)
    said = [*idle, *used] or _largest_part(losses)
    return [*said, *_largest_opportunity(tables["roofline"], limits)]


def _mostly_idle(losses: pd.DataFrame, scopes: Sequence[Scope]) -> list[str]:
    """Say first that the GPU is mostly idle, with the largest cause: operators then matter little."""
    sums = losses[losses["part"] == "idle"].groupby(["rank", "scope"], sort=False)["window_share"].sum().reset_index()
    found = outlier(sums, "window_share")
    if found is None or found["window_share"] < MOSTLY_IDLE:
        return []
    _, _, cause = _largest_loss(losses, found)
    waits = cause == GapCause.LAUNCH.label and len(scopes) == 1 and scopes[0].work_does_not_start
    mostly = NOT_STARTED if waits else cause
    why = f" (mostly {SHORT.get(mostly, mostly)})" if mostly else ""
    return [f"GPU idle {brief_share(found['window_share'])} of the window{found.where}{found.typical}{why}"]


def _largest_loss(losses: pd.DataFrame, found: Outlier) -> tuple[str, float, str | None]:
    """Return the largest part of a window but matrix work at its peak, its share, and of idle time the largest cause.

    Idle time of all causes is one part: each of its causes may be less than what it is in all.
    """
    lost = rows_at_outlier(losses, found)
    sums = lost[lost["part"] != "matrix_at_peak"].groupby("part", sort=False)["window_share"].sum()
    part = str(sums.idxmax())
    causes = lost[lost["part"] == "idle"]
    cause = str(causes.iloc[int(causes["time_ns"].argmax())]["cause"]) if part == "idle" else None
    return part, float(sums.max()), cause


def _with_cause(part: str, cause: str | None) -> str:
    """Name a part of a window, of idle time also its largest cause."""
    return f"{PART_LABELS[part]} (mostly {SHORT.get(cause, cause)})" if cause else PART_LABELS[part]


def _use_of_peak(limits: pd.DataFrame, losses: pd.DataFrame, *, names_loss: bool) -> list[str]:
    """Return the share of the peak that the matrix work of a scope reaches, and the largest loss."""
    found = outlier(limits.assign(lost=1 - limits["mfu_share"]), "lost", lambda lost: brief_share(1 - lost))
    if found is None or not found["mfu_share"] or found["unknown_share"] > LEAST_SHARE_UNKNOWN:
        return []
    # Above the peak the shapes or the peaks are wrong.
    if limits["mfu_share"].max() > 1:
        return []
    loss = ""
    if names_loss:
        part, share, cause = _largest_loss(losses, found)
        loss = f"; largest loss: {_with_cause(part, cause)}, {brief_share(share)} of the window"
    at_least = bool(found["unknown_share"] > LEAST_SHARE_NAMED)
    reached = f"{'at least ' if at_least else ''}{brief_share(found['mfu_share'])} over the window"
    return [f"MFU {reached}{found.where}{found.typical} (peak of {found['device']}){loss}"]


def _largest_part(losses: pd.DataFrame) -> list[str]:
    """Name what most of the window is that spends most of it so, where there is no use of a peak to state."""
    sums = losses.groupby(["rank", "scope", "part"], sort=False)["window_share"].sum().reset_index()
    found = outlier(sums, "window_share")
    if found is None:
        return []
    part, share, cause = _largest_loss(losses, found)
    if share < LEAST_SAID:
        return []
    return [f"largest part of the window{found.where}: {_with_cause(part, cause)}, {brief_share(share)}"]


def _largest_opportunity(frame: pd.DataFrame, limits: pd.DataFrame) -> list[str]:
    """Return the operator that would save most at its limit; none where that is next to nothing."""
    found = largest_item(frame.assign(saves_ns=frame["saves_ns"].fillna(0)), ["operator", "inputs"], "saves_ns")
    if found is None:
        return []
    window = int(rows_at_outlier(limits, found)["window_ns"].iloc[0])
    if found["saves_ns"] < LEAST_SAID * window:
        return []
    what = f"{quoted(found['operator'])} ({quoted(str(found['inputs']))})"
    reach = f"reaches {brief_share(found['peak_share'])} of its {LIMIT[found['bound']]}"
    saved = time_and_share(int(found["saves_ns"]), window)
    condition = f"at {brief_share(ATTAINABLE_SHARE)} of its limit{found.where}"
    return [f"largest operator {condition}: {what}, saves {saved}; it {reach}"]


def roofline_notes(scopes: Sequence[Scope], looked: Sequence[ScopeLimits]) -> list[str | Note]:
    """Return notes on what is missing, why, and how to record or give it."""
    notes: list[str | Note] = [missing for scope in scopes if (missing := scope.missing_start())]
    notes += naming_notes(scopes)
    notes += several_gpus(scopes)
    first = {limits.scope.rank: limits for limits in reversed(looked)}
    for rank in sorted(first):
        notes += _notes_on_rank(first[rank])
    faster = sum(int((limits.limit_share > OVER_PEAK).sum()) for limits in looked)
    if not faster:
        return notes
    exceed = counted(faster, "row exceeds its limit", "rows exceed their limit")
    return [*notes, f"{exceed}: inputs were cached or repeated, or the peaks do not match the device"]


def _notes_on_rank(limits: ScopeLimits) -> list[str | Note]:
    """Return notes on what the file of a rank lacks."""
    rank, found = limits.scope.rank, limits.found
    notes: list[str | Note] = []
    if found.unread:
        notes.append(f"rank {rank}: shapes cannot be read from the trace file: {found.unread}")
    elif not found.have_shapes:
        notes.append(f"rank {rank}: no shapes recorded, so FLOPs and bytes are unknown; record with record_shapes=True")
    else:
        notes += _without_model(limits)
    if limits.device is None:
        gpu = gpu_name(limits.graph, limits.scope.gpus)
        known = gpu not in ("", "unnamed")
        whose = f"the peaks of {quoted(gpu)} are unknown" if known else "the trace does not identify the GPU"
        unknown = f"rank {rank}: {whose}, so rates are shown without limits"
        notes.append(Note(unknown, GIVE_PEAKS))
    return notes


def _without_model(limits: ScopeLimits) -> list[str]:
    """Return a note on the operators with the most time of unknown demand."""
    times: dict[str, int] = {}
    for gpu_ns, group in zip(limits.gpu_ns.tolist(), limits.groups.groups, strict=True):
        if group.is_unknown:
            times[group.name] = times.get(group.name, 0) + gpu_ns
    whole = max(limits.all_gpu_ns, 1)
    if sum(times.values()) < LEAST_SHARE_NAMED * whole:
        return []
    largest = sorted(times, key=lambda name: (-times[name], name))[:OPERATORS_NAMED]
    listed = ", ".join(f"{quoted(name)} ({brief_share(times[name] / whole)})" for name in largest)
    share = brief_share(sum(times.values()) / whole)
    return [f"rank {limits.scope.rank}: FLOPs and bytes are unknown for {share} of GPU time: {listed}"]


POINTS = 200
"""How many operators are drawn, those with the most GPU time."""
LEAST_SHARE = 0.0005
"""Operators with a smaller share of GPU time are not drawn: thousands of tiny ones would make the axes long."""
POINTS_NAMED = 9
"""How many names have their own color; all others share one."""
ROOFS = 4
"""How many types have a roof, those with the most GPU time."""
SMALLEST, LARGEST = 6, 44
"""How wide points are (pixels)."""


def roofs(looked: Sequence[ScopeLimits]) -> pd.DataFrame:
    """Return the corners of the roofs over the types that are computed in.

    Returns:
        device, roof (the type, or what bounds), intensity (FLOP/byte), tflops.
    """
    found = {corner: None for limits in looked if limits.device for corner in _roofs_of_scope(limits, limits.device)}
    return pd.DataFrame(list(found), columns=["device", "roof", "intensity", "tflops"])


def _roofs_of_scope(limits: ScopeLimits, device: Device) -> Iterable[tuple[str, str, float, float]]:
    """Yield the corners over what one scope computes in."""
    times: dict[float, dict[str, int]] = {}
    for gpu_ns, group in zip(limits.gpu_ns.tolist(), limits.groups.groups, strict=True):
        if group.demand is None or group.call is None:
            continue
        peak = device.peak_flops(group.demand.unit, group.demand.dtype, group.call.kernel)
        if peak and group.demand.flops:
            named = times.setdefault(peak, {})
            roof = f"{group.demand.dtype}, {group.demand.unit.value} units"
            named[roof] = named.get(roof, 0) + gpu_ns
    bandwidth = device.memory_bytes_per_s
    # Types with one peak have one roof, called after the one that takes most time.
    for peak in sorted(times, key=lambda one: -sum(times[one].values()))[:ROOFS]:
        roof = max(times[peak], key=lambda one: times[peak][one])
        ridge = peak / bandwidth if bandwidth else 0.0
        for intensity in (ridge / 1e4, ridge, 100 * ridge) if bandwidth else (0.01, 1e5):
            yield device.name, roof, intensity, min(peak, intensity * bandwidth if bandwidth else peak) / 1e12


def figure(found: Answer) -> Figure:
    """Draw operators as points under the rooflines of their types; a larger point has more GPU time."""
    frame = _points(found.main)
    if frame.empty:
        return empty_figure(TITLE, "no operator with known FLOPs and memory traffic")
    made = new_figure(title=TITLE, x="FLOP per byte (least traffic)", y="TFLOP/s")
    _draw_roofs(made, found.drawn["roofs"], frame)
    names = list(dict.fromkeys(frame["operator"]))
    shown = names[:POINTS_NAMED] if len(names) > POINTS_NAMED + 1 else names
    for at, name in enumerate(shown):
        _draw_points(
            made, shorten_middle(short_name(name), 32), SERIES[at % len(SERIES)], frame[frame["operator"] == name]
        )
    others = frame[~frame["operator"].isin(shown)]
    if len(others):
        _draw_points(made, "other operators", SERIES[7], others)
    made.update_xaxes(type="log", exponentformat="power")
    made.update_yaxes(type="log", exponentformat="power")
    return made


def _points(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that have a place in the figure, with their intensity."""
    drawn = frame[(frame["achieved_tflops"] > 0) & (frame["achieved_gbps"] > 0)]
    drawn = drawn[drawn["gpu_share"] >= min(LEAST_SHARE, float(drawn["gpu_share"].max()))].head(POINTS)
    return drawn.assign(intensity=1e3 * drawn["achieved_tflops"] / drawn["achieved_gbps"])


def _draw_roofs(made: Figure, corners: pd.DataFrame, points: pd.DataFrame) -> None:
    """Draw the roofs as far as there are points below them."""
    low, high = points["intensity"].min() / 3, points["intensity"].max() * 3
    for (device, roof), line in corners.groupby(["device", "roof"], sort=False):
        x = np.unique(np.clip(line["intensity"].to_numpy(), low, high))
        y = np.exp(np.interp(np.log(x), np.log(line["intensity"]), np.log(line["tflops"])))
        text = f"{device}: {roof}, {line['tflops'].max():,.4g} TFLOP/s<extra></extra>"
        made.add_scatter(
            x=x, y=y, mode="lines", name=f"limit: {roof}", line={"width": 1.5, "dash": "dot"}, hovertemplate=text
        )


def _draw_points(made: Figure, name: str, colour: str, own: pd.DataFrame) -> None:
    """Draw the rows of one name."""
    made.add_scatter(
        x=own["intensity"],
        y=own["achieved_tflops"],
        mode="markers",
        name=name,
        marker={"color": colour, "opacity": 0.75, "size": _sizes(own["gpu_share"])},
        customdata=_hover_texts(own),
        hovertemplate="%{customdata[0]}<br>%{customdata[1]}<br>%{y:,.3g} TFLOP/s, %{customdata[2]}<extra></extra>",
    )


def _sizes(share: pd.Series[Any]) -> Any:
    """Return how wide points are: their areas are as their times."""
    return np.clip(LARGEST * 2 * np.sqrt(share.to_numpy(np.float64)), SMALLEST, LARGEST)


def _hover_texts(own: pd.DataFrame) -> list[list[str]]:
    """Return the hover texts of points."""
    columns = zip(own["operator"], own["inputs"], own["peak_share"], own["gpu_ns"], strict=True)
    return [
        [shorten_middle(name, 80), shorten_middle(str(inputs), 100), _share_text(share, ns)]
        for name, inputs, share, ns in columns
    ]


def _share_text(share: float, gpu_ns: int) -> str:
    reach = "" if np.isnan(share) else f"{share:.0%} of the limit, "
    return f"{reach}{gpu_ns / 1e6:,.3f} ms"


INPUTS = text(
    "inputs", "Types and shapes of the inputs, or the operators that a kernel fuses; null if unknown.", null=True
)
GPU_SHARE = share("gpu_share", "gpu_ns as a share of the time of all activities", null=True)
ROOFLINE = Table(
    *("rank", "scope", text("operator", "Operator; the activity's own name if no operator launched it.")),
    *("calls", "gpu_ns", GPU_SHARE, ns("path_ns", "Time on the critical path")),
    number("achieved_tflops", "Achieved 10^12 FLOP per second; null if unknown.", null=True),
    rate("achieved_gbps", "Least memory traffic divided by time; null if unknown", null=True),
    share("peak_share", "Time at the device's limits as a share of gpu_ns; null if unknown", null=True),
    text("bound", "Limit that takes longer; null if unknown.", null=True, values=["compute", "memory"]),
    ns("saves_ns", "Saving predicted by replay at 80% of the limit; null if not replayed", null=True),
    *(text("unknown", "Why the demand is unknown; null if it is known.", null=True), INPUTS),
)
LIMITS = Table(
    *("rank", "scope", text("device", "Device whose limits apply; null if unknown.", null=True), "window_ns", "gpu_ns"),
    share("unknown_share", "Computation with unknown demand as a share of gpu_ns"),
    integer("matrix_flops", "FLOPs of matrix work in the window; null if unknown or implausible.", null=True),
    share("mfu_share", "MFU: time of the matrix work at peak as a share of the window; null without peaks", null=True),
    ns("saves_ns", "Saving predicted by replay if all work reached 80% of its limits; null without limits", null=True),
)
LOSSES = Table(
    *("rank", "scope", text("part", "Part of the window.", values=list(PART_LABELS))),
    text("cause", "Cause of idle time; null for other parts.", null=True, values=GAP_CAUSES),
    *("time_ns", share("window_share", "Share of the window")),
)
KNOWN_TIME = Table(
    *("rank", "scope", text("known", "yes, or why the demand is unknown."), "activities", "gpu_ns", GPU_SHARE),
)
DEMANDS = Table(
    *("rank", "scope", text("operator", "Operator."), INPUTS, text("dtype", "Type of the computation.")),
    text("unit", "GPU units that do the arithmetic.", values=[unit.value for unit in Unit]),
    integer("flops", "FLOPs of one call."),
    byte_count("bytes", "Least memory traffic of one call; null if unknown", null=True),
    number("intensity", "FLOP per byte; null if the memory traffic is unknown.", null=True),
    boolean("at_least", "Whether flops is a lower bound."),
    text("kernel", "Kernel with the most time of a call."),
)


@ROOFLINE.returned
def roofline(looked: Sequence[ScopeLimits]) -> pd.DataFrame:
    """List the throughput of each operator and shape, and its share of the device's limits; most GPU time first.

    The time of an operator is that of the activities that it launched itself. Copies from and to the host, and kernels
    without an operator, are listed under their own names; communication has a table of its own. What is not on the path
    saves nothing.
    """
    return joined([labelled(_operator_rows(limits), limits.scope) for limits in looked], ROOFLINE)


def _operator_rows(limits: ScopeLimits) -> pd.DataFrame:
    """Return the rows of one scope."""
    flops, moved = (limits.sum_of(values) for values in (limits.calls.flops, limits.calls.bytes))
    time, groups = np.where(limits.gpu_ns > 0, limits.gpu_ns, np.nan), limits.groups.groups
    frame = pd.DataFrame({
        "operator": [group.name for group in groups],
        "calls": limits.counted_calls,
        "gpu_ns": limits.gpu_ns,
        "gpu_share": limits.gpu_ns / max(limits.all_gpu_ns, 1),
        "path_ns": limits.path_ns,
        # What has no arithmetic, such as a copy, has no rate of it.
        "achieved_tflops": np.where(flops > 0, flops, np.nan) / time / 1e3,
        "achieved_gbps": moved / time,
        "peak_share": limits.limit_share,
        "bound": limits.bounds,
        "saves_ns": pd.array(np.round(limits.saves[0]), "Int64"),
        "unknown": [group.unknown or None for group in groups],
        "inputs": [group.inputs or None for group in groups],
    })  # fmt: skip
    return frame.sort_values(["gpu_ns", "operator", "inputs"], ascending=[False, True, True])


@DEMANDS.returned
def operator_demands(looked: Sequence[ScopeLimits]) -> pd.DataFrame:
    """List the demand of one call of each operator and shape, in the order of ``roofline``.

    The least traffic reads each input once, and writes each output once.
    """
    frame = joined([labelled(_demand_rows(limits), limits.scope) for limits in looked], DEMANDS)
    return frame.astype({"flops": "Int64", "bytes": "Int64"})


def _demand_rows(limits: ScopeLimits) -> list[dict[str, Any]]:
    """Return the demands of one scope's groups."""
    order = sorted(range(len(limits.groups)), key=lambda at: -limits.gpu_ns[at])
    known = [group for at in order if (group := limits.groups.groups[at]).demand is not None]
    return [
        {
            "operator": group.name,
            "inputs": group.inputs,
            "dtype": demand.dtype,
            "unit": demand.unit.value,
            "flops": demand.flops,
            "bytes": demand.bytes,
            "intensity": demand.flops / demand.bytes if demand.bytes else None,
            "at_least": demand.is_least,
            "kernel": group.call.kernel if group.call else "",
        }
        for group in known
        if (demand := group.demand)
    ]


@LIMITS.returned
def limits_of(looked: Sequence[ScopeLimits]) -> pd.DataFrame:
    """Return the share of the GPU's peak that the matrix work of each scope reaches, over the GPUs that are used."""
    frame = joined([labelled([_limits_row(limits)], limits.scope) for limits in looked], LIMITS)
    return frame.astype({"matrix_flops": "Int64", "saves_ns": "Int64"})


def _limits_row(limits: ScopeLimits) -> dict[str, Any]:
    flops, mfu = utilisation(limits)
    unknown = sum(int(ns) for ns, group in zip(limits.gpu_ns, limits.groups.groups, strict=True) if group.is_unknown)
    return {
        "device": limits.device.name if limits.device else None,
        "window_ns": limits.scope.window_ns,
        "gpu_ns": limits.all_gpu_ns,
        "unknown_share": unknown / max(limits.all_gpu_ns, 1),
        # Shapes of a broken file may claim more than 64 bits hold.
        "matrix_flops": round(flops) if flops < MAX_WORK else None,
        "mfu_share": mfu,
        "saves_ns": limits.saves[1] if limits.device else None,
    }


@LOSSES.returned
def losses(looked: Sequence[ScopeLimits]) -> pd.DataFrame:
    """Divide each window into matrix work at peak and its losses; the rows of a scope add up to the window.

    While several activities run, the time belongs to matrix work before other work, to work of known demand before
    other computation, then to communication, then to copies from and to the host.
    """
    return joined([labelled(_loss_rows(limits), limits.scope) for limits in looked], LOSSES)


def _loss_rows(limits: ScopeLimits) -> list[dict[str, Any]]:
    window = max(limits.scope.window_ns, 1)
    return [row | {"window_share": row["time_ns"] / window} for row in loss_rows(limits)]


@KNOWN_TIME.returned
def known_time(looked: Sequence[ScopeLimits]) -> pd.DataFrame:
    """Divide the time of all activities by whether their demand is known; the rows of a scope add up to this time.

    It is unknown where the operator has ``no model``, where the shapes or values that its model needs are ``not
    recorded``, where ``no operator`` launched it, of ``a copy from or to outside`` and of ``communication``.
    """
    return joined([labelled(_known_time_rows(limits), limits.scope) for limits in looked], KNOWN_TIME)


def _known_time_rows(limits: ScopeLimits) -> pd.DataFrame:
    work, groups = limits.scope.work, limits.groups
    kinds = np.array([group.kind for group in groups.groups] or [""], object)[groups.number]
    talks = work.type == WorkType.COMMUNICATION
    length = np.concatenate([(every.end - every.start) for every in (groups.work, work.take(talks))])
    known = np.concatenate([kinds, np.full(int(talks.sum()), "communication", object)])
    frame = pd.DataFrame({"known": known, "gpu_ns": length})
    sums = frame.groupby("known", sort=True)["gpu_ns"].agg(["size", "sum"]).reset_index()
    sums.columns = pd.Index(["known", "activities", "gpu_ns"])
    sums["gpu_share"] = sums["gpu_ns"] / max(limits.all_gpu_ns, 1)
    return sums.sort_values("gpu_ns", ascending=False, kind="stable")


def _rates_if_readable(looked: Sequence[ScopeLimits], given: Device | None) -> pd.DataFrame:
    """Return the bandwidths of collectives; none where the file with their sizes is gone."""
    try:
        return collective_rates([limits.scope for limits in looked if limits.talks], given)
    except TraceError:
        return collective_rates([])


def answer(scopes: Sequence[Scope], peaks: str | None = None) -> Answer:
    """Return ``roofline``, ``limits``, ``losses``, ``known_time``, ``collective_rates``; and ``demands``, a series.

    Args:
        scopes: where to look.
        peaks: a file with the peaks of a device, or the name of a known device (``docs/reference/roofline.md``); by
            default those of the GPU that the trace names.

    Raises:
        UsageError: the peaks cannot be read.
    """
    given: Device | None = resolve_peaks(peaks) if peaks is not None else None
    looked = [ScopeLimits.of(scope, given) for scope in scopes if len(scope.work)]
    seen = [limits.scope for limits in looked]
    tables = {
        "roofline": roofline(looked),
        "limits": limits_of(looked),
        "losses": losses(looked),
        "known_time": known_time(looked),
        "collective_rates": _rates_if_readable(looked, given),
    }
    return Answer(
        tables,
        roofline_notes(scopes, looked),
        {"demands": operator_demands(looked)},
        conclusion=naming_window(_headline(tables, seen), seen),
        on_screen=_on_screen(tables),
        drawn={"roofs": roofs(looked)},
    )


def _on_screen(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the losses with labels, largest first and what is no loss last; leave savings out that are all zero."""
    found = {name: frame for name in ("roofline", "limits") if not (frame := tables[name])["saves_ns"].fillna(0).any()}
    shown = {name: frame.drop(columns="saves_ns") for name, frame in found.items()}
    losses = tables["losses"]
    scope, is_used = losses.groupby(["rank", "scope"], sort=False).ngroup(), losses["part"] == "matrix_at_peak"
    ordered = losses.iloc[np.lexsort((-losses["time_ns"].to_numpy(np.int64), is_used, scope))]
    causes = [cause if isinstance(cause, str) else None for cause in ordered["cause"]]
    parts = [_part(*of) for of in zip(ordered["part"], causes, strict=True)]
    return {**shown, "losses": ordered.assign(part=parts).drop(columns="cause")}


def _part(name: str, cause: str | None) -> str:
    """Name a part of a window, of idle time with its cause."""
    if name == "matrix_at_peak":
        return NO_LOSS
    return f"{PART_LABELS[name]} ({SHORT.get(cause, cause)})" if cause else PART_LABELS[name]


TABLES = {
    "roofline": ROOFLINE,
    "limits": LIMITS,
    "losses": LOSSES,
    "known_time": KNOWN_TIME,
    "collective_rates": COLLECTIVE_RATES,
    "demands": DEMANDS,
}

ANALYSIS = Analysis(
    name="roofline",
    help="Operator FLOP/s and bandwidth against the GPU's limits, MFU, and estimated savings.",
    more="Requires a trace recorded with record_shapes=True. Limits are left out if the GPU's peaks are unknown.",
    question="how close are operators to the GPU's limits (FLOP/s, bandwidth, MFU), and what would be saved there?",
    examples=(
        "roofline trace.json.gz",
        "roofline job --step 2 --peaks MI300X",
        "roofline trace.json.gz -o page.html",
    ),
    page="how_to/measure_efficiency.md",
    flags=(
        Flag(
            "peaks",
            "file",
            "JSON file with the peaks of your device, or the name of a known device",
            None,
            value="FILE",
        ),
    ),
    tables=TABLES,
    answer=answer,
    figure=figure,
    judges=True,
)
