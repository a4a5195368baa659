"""kernel-sequences: the sequences of GPU work under an operator, how often each occurs and how long it takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.answer import Answer
from analyses.display.charts import long_bars, show
from analyses.display.terminal import clipped
from analyses.display.text_tables import ARROW
from analyses.scope import Scope
from hta_graph.algorithms.sequences.same_sequences import Sequences, outermost_around, same_sequences
from hta_graph.export.perfetto.slice_tracks import SliceTrack, write_slices
from hta_graph.export.picture import short_name
from hta_graph.model import EventKind, Ids, Ints, kind_mask
from hta_graph.trace.table import Trace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["answer", "figure", "hta_frequent_cuda_kernel_sequences", "kernel_sequences", "write_sequence_overlay"]

ROOTS = (EventKind.CPU_OP, EventKind.ANNOTATION, EventKind.PYTHON_FUNCTION)
MIN_PATTERN_LEN, TOP_K = 3, 5
COLUMNS = ("rank", "scope", "operator", "count", "kernels", "gpu_ns", "operator_ns", "kernel_sequence")


def kernel_sequences(scopes: Sequence[Scope], operator: str, min_pattern_len: int = MIN_PATTERN_LEN) -> pd.DataFrame:
    """Find the sequences of kernels, copies and sets that rows launch whose names contain a text.

    Such a row is an operator, a CPU annotation or a Python frame that stands in no other such row of its thread; it
    owns what is launched inside it on its thread. (HTA takes the rows of the least depth in the whole rank: one shallow
    occurrence hides all deeper ones.)

    Args:
        scopes: what to look at.
        operator: a part of the names.
        min_pattern_len: leave out rows that launch fewer.

    Returns:
        rank, scope, operator (the full name), count (rows with this sequence), kernels (of one of them), gpu_ns and
        operator_ns (summed over all), kernel_sequence (names by start, joined with arrows); what occurs most first.
    """
    parts = [_rows(scope, _sequences(scope, operator, min_pattern_len)) for scope in scopes]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS))


def _sequences(scope: Scope, operator: str, min_pattern_len: int) -> Sequences:
    trace, work = scope.graph.trace, scope.work
    wanted = np.array([operator in name for name in trace.names], np.bool_)
    roots = np.flatnonzero(wanted[trace.events.name] & kind_mask(trace.events.kind, ROOTS))
    owner = outermost_around(trace.events, roots, work.call)
    order = np.lexsort((work.row, owner))
    order = order[owner[order] >= 0]
    return same_sequences(owner[order], work.row[order], trace.events.name, max(min_pattern_len, 1))


def _rows(scope: Scope, found: Sequences) -> pd.DataFrame:
    trace = scope.graph.trace
    gpu, cpu = _times(trace, found)
    frame = pd.DataFrame(
        {
            "rank": scope.rank,
            "scope": scope.label,
            "operator": _names(trace, found.owner[found.example]),
            "count": found.counts(),
            "kernels": np.diff(found.first)[found.example],
            "gpu_ns": gpu,
            "operator_ns": cpu,
            "kernel_sequence": [ARROW.join(_names(trace, found.group(at))) for at in found.example.tolist()],
        }
    )
    return frame.sort_values(["count", "gpu_ns"], ascending=False, kind="stable", ignore_index=True)


def _times(trace: Trace, found: Sequences) -> tuple[Ints, Ints]:
    """Return the summed lengths of the GPU work and of the rows of each pattern (ns)."""
    length = trace.events.end - trace.events.start
    return found.per_pattern(found.per_group(length[found.members])), found.per_pattern(length[found.owner])


def _names(trace: Trace, rows: Ids) -> list[str]:
    return [trace.names[code] for code in trace.events.name[rows].tolist()]


def answer(scopes: Sequence[Scope], operator: str, min_pattern_len: int = MIN_PATTERN_LEN) -> Answer:
    """Answer the command."""
    frame = kernel_sequences(scopes, operator, min_pattern_len)
    answered = set(zip(frame["rank"], frame["scope"], strict=True))
    notes = [
        _missing(scope, operator, min_pattern_len) for scope in scopes if (scope.rank, scope.label) not in answered
    ]
    return Answer({"kernel_sequences": frame}, notes)


def _missing(scope: Scope, operator: str, min_pattern_len: int) -> str:
    if scope.missing():
        return scope.missing()
    if not any(operator in name for name in scope.graph.trace.names):
        return f"rank {scope.rank}: nothing in the trace is called {operator!r} or contains that"
    return (
        f"rank {scope.rank}: no operator, annotation or Python frame with {operator!r} in its name launches "
        f"{min_pattern_len} or more pieces of GPU work on its thread in {scope.label}; "
        "--min-pattern-len takes shorter sequences"
    )


def figure(found: Answer, top_k: int = 20) -> Figure:
    """Draw how often the most frequent sequences occur."""
    frame = found.main.head(top_k)
    several = len(set(found.main["rank"])) > 1
    rows = zip(frame["rank"], frame["operator"], frame["kernels"], strict=True)
    labels = [f"{f'rank {rank}: ' * several}{clipped(name, 40)}: {_counted(size)}" for rank, name, size in rows]
    texts = [clipped(text, 300) for text in frame["kernel_sequence"]]
    return long_bars(labels, frame["count"].to_numpy(), texts, title="Most frequent kernel sequences", x="occurrences")


def _counted(kernels: int) -> str:
    return f"{kernels} kernel" if kernels == 1 else f"{kernels} kernels"


def write_sequence_overlay(
    scope: Scope, target: str | Path, operator: str, min_pattern_len: int = MIN_PATTERN_LEN, top_k: int = TOP_K
) -> int:
    """Write the trace with its most frequent sequences marked in a process of their own; return how many marks.

    Raises:
        TraceError: the trace's file is gone or has changed.
        OutputError: the file cannot be written or is the trace itself.
    """
    found = _sequences(scope, operator, min_pattern_len)
    return write_slices(scope.graph.trace, "Kernel sequences", _tracks(scope.graph.trace, found, top_k), target)


def _tracks(trace: Trace, found: Sequences, top_k: int) -> list[SliceTrack]:
    """Return a track for each thread with the rows, and for each stream with their GPU work, of the top patterns."""
    ranked = _by_count(trace, found)[:top_k]
    rank = np.full(len(found.example), -1)
    rank[ranked] = np.arange(len(ranked))
    of_row = rank[found.pattern]
    of_piece = np.repeat(of_row, np.diff(found.first))
    counts = found.counts()[ranked].tolist()
    marks = [{"Patterns": {_short(trace, found, at): count}} for at, count in zip(ranked.tolist(), counts, strict=True)]
    numbers = [{"Pattern": f"#{at + 1}"} for at in range(len(ranked))]
    return [*_marked(trace, found.owner, of_row, marks), *_marked(trace, found.members, of_piece, numbers)]


def _short(trace: Trace, found: Sequences, pattern: int) -> str:
    names = _names(trace, found.group(int(found.example[pattern])))
    return "|".join(map(short_name, [_names(trace, found.owner[found.example[[pattern]]])[0], *names]))


def _marked(trace: Trace, rows: Ids, rank: Ints, arguments: Sequence[dict[str, Any]]) -> list[SliceTrack]:
    """Return a track per thread or stream with the rows that have a rank, named after that."""
    rows, rank = rows[rank >= 0], rank[rank >= 0]
    events, tracks = trace.events, []
    for lane in np.unique(events.lane[rows]).tolist():
        chosen = np.flatnonzero(events.lane[rows] == lane)
        chosen = chosen[np.argsort(rows[chosen])]
        own, places = rows[chosen], rank[chosen].tolist()
        texts = [f"#{at + 1} {short_name(name)}" for at, name in zip(places, _names(trace, own), strict=True)]
        marks = [arguments[at] for at in places]
        tracks.append(SliceTrack(trace.lanes.labels[lane], events.start[own], events.end[own], texts, marks))
    return tracks


def _by_count(trace: Trace, found: Sequences) -> Ints:
    """Return the patterns as HTA orders them: by count, largest first, then by text."""
    texts = _patterns(trace, found)
    counts = found.counts().tolist()
    return np.array(sorted(range(len(texts)), key=lambda at: (-counts[at], texts[at])), np.int64)


def _patterns(trace: Trace, found: Sequences) -> list[str]:
    """Return the patterns as HTA writes them."""
    roots = _names(trace, found.owner[found.example])
    groups = [_names(trace, found.group(at)) for at in found.example.tolist()]
    return ["|".join([root, *names]) for root, names in zip(roots, groups, strict=True)]


def hta_frequent_cuda_kernel_sequences(
    scope: Scope,
    operator_name: str,
    output_dir: str | Path | None = None,
    min_pattern_len: int = MIN_PATTERN_LEN,
    top_k: int = TOP_K,
    *,
    visualize: bool = False,
    compress_other_kernels: bool = True,
) -> pd.DataFrame:
    """Return what HTA's ``get_frequent_cuda_kernel_sequences`` does for one rank: every pattern, most frequent first.

    Depth counts per branch, GPU annotations of the name do not matter, and neither does the number of the stream.

    Args:
        scope: the rank.
        operator_name: a part of the names of the rows whose GPU work is looked at.
        output_dir: where to write ``overlaid_<input's name>``; no file is written if not given. The trace's own rows
            stay as they are; the ``top_k`` patterns stand in a process "Kernel sequences", their text and count in the
            argument "Patterns".
        min_pattern_len: leave out rows with less GPU work.
        top_k: how many patterns the overlay and the figure show.
        visualize: show the figure in a notebook.
        compress_other_kernels: taken and ignored: the overlay is as large as the input and a few rows.

    Returns:
        pattern, count, GPU kernel duration (us), CPU op duration (us), both summed.

    Raises:
        OutputError: the overlay cannot be written.
    """
    trace = scope.graph.trace
    if output_dir is not None:
        target = Path(output_dir) / f"overlaid_{trace.path.name.removesuffix('.zst')}"
        write_sequence_overlay(scope, target, operator_name, min_pattern_len, top_k)
    if visualize:
        show(figure(answer([scope], operator_name, min_pattern_len), top_k))
    found = _sequences(scope, operator_name, min_pattern_len)
    gpu, cpu = _times(trace, found)
    columns = {
        "pattern": _patterns(trace, found),
        "count": found.counts(),
        "GPU kernel duration (us)": gpu / 1e3,
        "CPU op duration (us)": cpu / 1e3,
    }
    return pd.DataFrame(columns).iloc[_by_count(trace, found)].reset_index(drop=True)
