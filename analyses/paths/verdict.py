"""Three sentences about a run: what its time is bound by, what stands out, what is not known."""

from __future__ import annotations

from collections.abc import Mapping

from analyses.display.clocks import clock_lines
from analyses.display.terminal import clipped, duration_text, percent
from analyses.display.words import MEANING
from analyses.paths.path_report import largest_unexplained
from hta_graph.algorithms.time.critical_path import CriticalPath

__all__ = ["verdict"]


def verdict(paths: Mapping[int, CriticalPath]) -> list[str]:
    """Say what bounds the slowest rank, what is largest on its path, how much is explained, and if clocks agree."""
    rank = max(paths, key=lambda item: paths[item].length_ns)
    path = paths[rank]
    clocks = [f"{line[0].upper()}{line[1:]}." for line in clock_lines(path.graph.diagnostics)]
    return [_bound_sentence(rank, path, len(paths)), _largest_sentence(path), _known_sentence(path), *clocks]


def _bound_sentence(rank: int, path: CriticalPath, ranks: int) -> str:
    """Say what the slowest rank is bound by."""
    bound, ns = max(path.by_bound_ns.items(), key=lambda item: item[1])
    who = f"Rank {rank}, the slowest of {ranks}," if ranks > 1 else f"Rank {rank}"
    length = max(path.length_ns, 1)
    label = "the whole trace" if path.window.label == "whole trace" else clipped(path.window.label, 60)
    # Iterations tile the run, latencies overlap: which one is meant must not be guessed.
    if path.window.step is not None and path.window.form == "usual" and path.graph.is_gpu.any():
        label += f" from its start to the end of its last work (its iteration: {duration_text(path.window.gpu_ns)})"
    return (
        f"{who} takes {duration_text(path.length_ns)} for {label}, "
        f"bound by {bound} for {percent(ns / length)} of it: {MEANING[bound]}."
    )


def _largest_sentence(path: CriticalPath) -> str:
    """Say what takes most of its path."""
    totals = path.event_totals()
    named = [at for at, name in enumerate(totals["name"]) if name is not None]
    if not named:
        return "Nothing that was recorded lies on the critical path."
    at = named[0]
    calls = int(totals["calls"][at])
    return (
        f"The largest item on the critical path is {clipped(totals['name'][at], 80)} ({totals['bound_by'][at]}): "
        f"{duration_text(int(totals['time_ns'][at]))} in {calls:,} {'call' if calls == 1 else 'calls'}."
    )


def _known_sentence(path: CriticalPath) -> str:
    """Say how much of it has a cause."""
    unexplained = path.by_bound_ns["unexplained"]
    if not unexplained:
        return "Every nanosecond of it has a cause in the trace."
    share = percent(unexplained / max(path.length_ns, 1))
    return f"{duration_text(unexplained)} ({share}) have no cause that the trace shows; {largest_unexplained(path)}."
