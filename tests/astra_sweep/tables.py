"""The tables of a sweep, in Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from tests.astra_sweep.simulated_set import CASES, MeasuredSet, RecordedTimes, relative
from tests.support.astra_sim import BACK_ENDS

__all__ = ["report"]


def report(sets: Sequence[MeasuredSet]) -> Iterator[str]:
    """Yield the lines of all tables."""
    ran = [found for found in sets if not found.refusal]
    yield from ["## Durations, and span simulated against measured", ""]
    yield from _markdown(_span_cells(found) for found in ran)
    yield from ["", "## Sweeps: when the last rank ends (ms)", ""]
    yield from _markdown(row for found in ran for row in _sweep_cells(found))
    yield from ["", "## Nodes issued and called back, per rank", ""]
    yield from _markdown(row for found in ran for row in _node_cells(found))
    yield from ["", "## `chakra statistics` beside `overlap` (ms): replay-only and network ×1, congestion-unaware", ""]
    yield from _markdown(row for found in ran for row in _statistics_cells(found))
    if refused := [found for found in sets if found.refusal]:
        yield from ["", "## Refused", ""]
        yield from (f"- {found.name}, {found.profile}: {found.refusal}" for found in refused)
    if words := [line for found in ran for line in _words(found)]:
        yield from ["", "## What the simulator or its log said", "", *words]


def _markdown(rows: Iterable[dict[str, str]]) -> Iterator[str]:
    listed = list(rows)
    if not listed:
        return
    yield f"| {' | '.join(listed[0])} |"
    yield f"|{'---|' * len(listed[0])}"
    yield from (f"| {' | '.join(row.values())} |" for row in listed)


def _named(found: MeasuredSet) -> dict[str, str]:
    return {"set": found.name, "profile": found.profile}


def _span_cells(found: MeasuredSet) -> dict[str, str]:
    apart = [relative(rank.simulated_ns, rank.measured_ns) for rank in found.simulated]
    worst = max(apart, key=abs, default=math.nan)
    return {
        **_named(found),
        "ranks": f"{len(found.simulated)}",
        "asked for": found.asked or "nothing",
        "nodes": f"{sum(rank.nodes for rank in found.simulated):,}",
        "largest difference of a GPU node (µs)": _us(max(own.largest_difference_ns for own in found.written.values())),
        "side by side, GPU + CPU (ms)": " + ".join(
            _ms(max(own.side_by_side_ns[slot] for own in found.written.values())) for slot in (0, 1)
        ),
        "measured (ms)": _ms(_measured_end(found)),
        "`simulate` (ms)": _ms(max(rank.simulated_ns for rank in found.simulated)),
        "worst rank": _percent(worst),
        **{f"ASTRA-sim replay-only, {back_end}": _replayed(found, back_end) for back_end in BACK_ENDS},
    }


def _measured_end(found: MeasuredSet) -> int | None:
    return max((rank.measured_ns for rank in found.simulated if rank.measured_ns is not None), default=None)


def _replayed(found: MeasuredSet, back_end: str) -> str:
    run = found.runs.get((back_end, "replay"))
    end = run.end_ns if run else None
    return f"{_ms(end)} ({_percent(relative(end, _measured_end(found)))})"


def _sweep_cells(found: MeasuredSet) -> Iterator[dict[str, str]]:
    for back_end in BACK_ENDS:
        runs = {case.label: found.runs.get((back_end, case.label)) for case in CASES}
        ends = {label: _ms(run.end_ns) if run else "" for label, run in runs.items()}
        yield {**_named(found), "back end": back_end, "measured": _ms(_measured_end(found)), **ends}


def _node_cells(found: MeasuredSet) -> Iterator[dict[str, str]]:
    """Count on each rank; ranks that count alike (copies do) stand together."""
    alike: dict[tuple[str, ...], list[int]] = {}
    for npu in found.nodes:
        alike.setdefault(_counted_nodes(found, npu), []).append(npu)
    for (nodes, issued, called_back, complete), npus in alike.items():
        yield {
            **_named(found),
            "ranks": ", ".join(f"{npu} (a copy)" if found.is_alone and npu else f"{npu}" for npu in npus),
            "nodes": nodes,
            "issued": issued,
            "called back": called_back,
            "runs in which each node was": f"{complete} of {len(found.runs)}",
        }


def _counted_nodes(found: MeasuredSet, npu: int) -> tuple[str, ...]:
    told = [rank for run in found.runs.values() for rank in run.ranks if rank.npu == npu]
    return (
        f"{found.nodes[npu]:,}",
        _range(rank.issued for rank in told),
        _range(rank.called_back for rank in told),
        f"{sum(rank.is_complete for rank in told)}",
    )


def _statistics_cells(found: MeasuredSet) -> Iterator[dict[str, str]]:
    runs = [found.runs.get(("unaware", label)) for label in ("replay", "net ×1")]
    for npu, recorded in found.recorded.items():
        told = [run.ranks[npu] if run and npu < len(run.ranks) else None for run in runs]
        cells = {"rank": f"{npu}"}
        for name, key, every, kept in _compared_times(recorded, found.written[npu].recorded):
            replay, network = (getattr(rank, key) if rank else None for rank in told)
            cells[f"{name}: `overlap`"] = _ms(every)
            cells[f"{name} in the file"] = _ms(kept)
            cells[f"{name}: replay"] = f"{_ms(replay)} ({_percent(relative(replay, kept))})"
            cells[f"{name}: network"] = _ms(network)
        yield _named(found) | cells


def _compared_times(every: RecordedTimes, kept: RecordedTimes) -> Iterator[tuple[str, str, int, int]]:
    """Yield the name of a time, its name in the statistics, and it of the trace and of what became nodes."""
    yield "GPU", "gpu_ns", every.gpu_ns, kept.gpu_ns
    yield "communication", "communication_ns", every.communication_ns, kept.communication_ns
    yield "overlap", "overlap_ns", every.overlap_ns, kept.overlap_ns
    yield "exposed", "exposed_communication_ns", every.exposed_ns, kept.exposed_ns


def _words(found: MeasuredSet) -> Iterator[str]:
    said: dict[str, list[str]] = {}
    for (back_end, label), run in found.runs.items():
        for line in [*run.notes, *([run.words.splitlines()[-1]] if run.words else [])]:
            said.setdefault(line, []).append(f"{label} {back_end}")
    for line, where in said.items():
        runs = ", ".join(where) if len(where) < len(found.runs) else "all runs"
        yield f"- {found.name}, {found.profile} ({runs}): {line}"


def _ms(value: int | None) -> str:
    return "–" if value is None else f"{value / 1e6:,.3f}"


def _us(value: int) -> str:
    return f"{value / 1000:,.3f}"


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{share:+.2%}"


def _range(values: Iterable[int]) -> str:
    seen = sorted(set(values))
    return "–" if not seen else f"{seen[0]:,}" if len(seen) == 1 else f"{seen[0]:,} to {seen[-1]:,}"
