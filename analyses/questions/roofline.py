"""roofline: how far operators are from the GPU's limits, by shape; where the window goes that is not at the peak."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analyses import column_types
from analyses.analysis import Analysis
from analyses.answer import Answer
from analyses.collective_rates import COLLECTIVE_RATES, collective_rates
from analyses.description import Flag
from analyses.questions.lost_time import PARTS, loss_rows, utilisation
from analyses.questions.roofline_chart import figure, roofs
from analyses.questions.roofline_words import _headline, roofline_notes
from analyses.questions.scope_limits import ScopeLimits
from analyses.scope import Scope
from analyses.tables import Table, joined, labelled
from hta_graph.activities import WorkType
from hta_graph.errors import TraceError
from hta_graph.roofline.cost_models.table import MAX_WORK
from hta_graph.roofline.devices import resolve_peaks
from hta_graph.roofline.operators_demand import Unit
from hta_graph.roofline.operators_devices import Device

__all__ = ["TABLES", "answer", "figure", "known_time", "limits_of", "losses", "operator_demands", "roofline"]

ROOFLINE = ["rank", "scope", "operator", "calls", "gpu_ns", "gpu_share", "path_ns", "achieved_tflops", "achieved_gbps"]
ROOFLINE += ["peak_share", "bound", "saves_ns", "unknown", "inputs"]
LIMITS = ["rank", "scope", "device", "window_ns", "gpu_ns", "unknown_share", "matrix_flops", "mfu_share", "saves_ns"]
LOSSES = ["rank", "scope", "part", "cause", "time_ns", "window_share"]
KNOWN = ["rank", "scope", "known", "activities", "gpu_ns", "gpu_share"]
DEMANDS = ["rank", "scope", "operator", "inputs", "dtype", "unit", "flops", "bytes", "intensity", "at_least", "kernel"]


def roofline(looked: Sequence[ScopeLimits]) -> pd.DataFrame:
    """List what the GPU computes by operator and shape, beside the limits of the device.

    The time of an operator is that of the activities that it launched itself. Copies from and to outside, and kernels
    without an operator, stand under their own names; communication has a table of its own.

    Returns:
        rank, scope, operator, calls, gpu_ns (of its activities), gpu_share (of all activities' time, communication
        included), path_ns (on the critical path), achieved_tflops (10^12 FLOP/s) and achieved_gbps (10^9 bytes/s of the
        least traffic), peak_share (its least time at the limits of the device / gpu_ns), bound (``compute`` or
        ``memory``: which limit takes longer), saves_ns (by how much replay says that the scope would be shorter if the
        operator reached 80 % of its limit; missing where that was not asked, 0 where it is not on the path), unknown
        (why nothing is known of its work; missing where it is), inputs (types and shapes); most GPU time first.
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
        "achieved_tflops": flops / time / 1e3,
        "achieved_gbps": moved / time,
        "peak_share": limits.limit_share,
        "bound": limits.bounds,
        "saves_ns": pd.array(np.round(limits.saves[0]), "Int64"),
        "unknown": [group.unknown or None for group in groups],
        "inputs": [group.inputs or None for group in groups],
    })  # fmt: skip
    return frame.sort_values(["gpu_ns", "operator", "inputs"], ascending=[False, True, True])


def operator_demands(looked: Sequence[ScopeLimits]) -> pd.DataFrame:
    """List what a call of each operator and shape demands.

    Returns:
        rank, scope, operator, inputs, dtype (computed in), unit (``matrix`` or ``vector``), flops and bytes (of one
        call, at least: each input read once, each output written once), intensity (flops / bytes), at_least (whether
        the arithmetic may be more), kernel (in which most time of a call is spent); in the order of ``roofline``.
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


def limits_of(looked: Sequence[ScopeLimits]) -> pd.DataFrame:
    """Say of each scope how much of the GPU's peak its matrix work uses.

    Returns:
        rank, scope, device (whose peaks count; missing: not known), window_ns, gpu_ns (of all activities),
        unknown_share (of gpu_ns: computation of which it is not known what it demands), matrix_flops (missing: more
        than there can be), mfu_share (what these would take at the peaks of their types / window, over the GPUs that
        are used), saves_ns (by how much replay says that the scope would be shorter if all of it reached 80 % of its
        limits).
    """
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


def losses(looked: Sequence[ScopeLimits]) -> pd.DataFrame:
    """Divide each window into matrix work at the peak and what it is lost to; the rows of a scope add up to it.

    Where several activities run at once the time belongs to matrix work before other work, to work of which the demand
    is known before other computation, then to communication, then to copies from and to outside.

    Returns:
        rank, scope, part (of ``analyses.questions.lost_time.PARTS``), cause (of idle time, as ``idle-time`` names it),
        time_ns, window_share.
    """
    return joined([labelled(_loss_rows(limits), limits.scope) for limits in looked], LOSSES)


def _loss_rows(limits: ScopeLimits) -> list[dict[str, Any]]:
    window = max(limits.scope.window_ns, 1)
    return [row | {"window_share": row["time_ns"] / window} for row in loss_rows(limits)]


def known_time(looked: Sequence[ScopeLimits]) -> pd.DataFrame:
    """Divide the time of all activities by what is known of their work; the rows of a scope add up to it.

    Returns:
        rank, scope, known (``yes``, or why not: ``no model`` for the operator, ``not recorded``: shapes or values that
        its model needs, ``no operator`` launched it, ``a copy from or to outside``, ``communication``), activities,
        gpu_ns, gpu_share; most time first.
    """
    return joined([labelled(_known_time_rows(limits), limits.scope) for limits in looked], KNOWN)


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
    """Return the rates of collectives; none where the file, which tells what they carry, is gone."""
    try:
        return collective_rates([limits.scope for limits in looked if limits.talks], given)
    except TraceError:
        return collective_rates([])


def answer(scopes: Sequence[Scope], peaks: str | None = None) -> Answer:
    """Return ``roofline``, ``limits``, ``losses``, ``known_time``, ``collective_rates``; and ``demands``, a series.

    Args:
        scopes: where to look.
        peaks: a file with the peaks of a device, or the name of a device that is known (``docs/peaks.md``); without it
            those of the GPU that the trace names.

    Raises:
        UsageError: the peaks cannot be read.
    """
    given: Device | None = resolve_peaks(peaks) if peaks is not None else None
    looked = [ScopeLimits.of(scope, given) for scope in scopes if len(scope.work)]
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
        conclusion=_headline(tables),
        drawn={"roofs": roofs(looked)},
    )


MEANINGS = {
    "operator": column_types.text("The operator; of what none launched its own name."),
    "gpu_share": column_types.share("The same, of all activities' time", null=True),
    "path_ns": column_types.ns("How long it is on the critical path"),
    "achieved_tflops": column_types.number("10^12 FLOP per second; null: not known.", null=True),
    "achieved_gbps": column_types.rate("The least traffic by time; null: not known", null=True),
    "peak_share": column_types.share(
        "Its least time at the limits of the device, of gpu_ns; null: not known", null=True
    ),
    "bound": column_types.one_of(["compute", "memory"], "Which limit takes longer; null: not known.", null=True),
    "saves_ns": column_types.ns("What replay says is saved at 80 % of the limit; null: not asked", null=True),
    "unknown": column_types.text("Why nothing is known of its work; null: it is known.", null=True),
    "inputs": column_types.text(
        "Types and shapes of what it was given; or what a kernel fuses; null: not known.", null=True
    ),
    "device": column_types.text("The device whose limits count; null: not known.", null=True),
    "unknown_share": column_types.share("Computation of which the demand is not known, of gpu_ns"),
    "matrix_flops": column_types.whole(
        "The FLOPs of matrix work in the window; null: more than there can be.", null=True
    ),
    "mfu_share": column_types.share(
        "What these would take at the peaks of their types, of the window; null: no peaks", null=True
    ),
    "part": column_types.one_of(list(PARTS), "What the time is."),
    "cause": column_types.one_of(column_types.GAP_CAUSES, "Why nothing ran; null: something did.", null=True),
    "window_share": column_types.share("Of the window"),
    "known": column_types.text("yes, or why it is not known what it demands."),
    "ranks": column_types.whole("How many ranks the group has; null: not recorded.", null=True),
    "bytes": column_types.size("Of one call, as nccl-tests count; null: not recorded", null=True),
    "count": column_types.whole("How many calls there are."),
    "algorithm_gbps": column_types.rate("Bytes by time, over all calls; null: not recorded", null=True),
    "best_bus_gbps": column_types.rate("The bus bandwidth of the fastest single one; null: not known", null=True),
    "link_gbps": column_types.rate("What all links of the GPU carry in one direction; null: not known", null=True),
    "link_share": column_types.share("The best rate, of that; null: not known", null=True),
    "unit": column_types.one_of([unit.value for unit in Unit], "Which units of the GPU do its arithmetic."),
    "flops": column_types.whole("The FLOPs of one call."),
    "intensity": column_types.number("FLOP per byte; null: no traffic is known.", null=True),
    "at_least": column_types.flag("Whether the arithmetic may be more."),
    "kernel": column_types.text("The kernel in which most time of a call is spent."),
}
TABLES = {
    "roofline": Table(roofline, ROOFLINE, MEANINGS),
    "limits": Table(
        limits_of,
        LIMITS,
        {
            **MEANINGS,
            "saves_ns": column_types.ns(
                "What replay says is saved if all reach 80 % of their limits; null: no limits", null=True
            ),
        },
    ),
    "losses": Table(losses, LOSSES, MEANINGS),
    "known_time": Table(known_time, KNOWN, MEANINGS),
    "collective_rates": Table(
        collective_rates,
        COLLECTIVE_RATES,
        {**MEANINGS, "gpu_ns": column_types.ns("The time of their kernels, added up")},
    ),
    "demands": Table(
        operator_demands,
        DEMANDS,
        {
            **MEANINGS,
            "dtype": column_types.text("The type that is computed in."),
            "operator": column_types.text("The operator."),
            "bytes": column_types.size("The least traffic of one call; null: not known", null=True),
        },
    ),
}

ANALYSIS = Analysis(
    name="roofline",
    help="How far operators are from the GPU's limits: FLOP/s, bandwidth, MFU, and what being nearer would save.",
    more="Needs the shapes of inputs: record with record_shapes=True. Without peaks of the GPU rates stand alone.",
    question="how far are operators from the GPU's limits: FLOP/s, bandwidth, MFU, and what would being nearer save?",
    examples=(
        "roofline trace.json.gz",
        "roofline job --step 2 --peaks MI300X",
        "roofline trace.json.gz --plot page.html",
    ),
    page="questions/how_near_to_the_limit.md",
    flags=(
        Flag(
            "peaks",
            "file",
            "a JSON file with the peaks of your device, or the name of one that is known",
            None,
            value="FILE",
        ),
    ),
    tables=TABLES,
    answer=answer,
    figure=figure,
)
