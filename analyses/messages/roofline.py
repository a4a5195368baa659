"""Sentences of roofline."""

from __future__ import annotations

from collections.abc import Sequence

from analyses.display.headline import Outlier
from analyses.display.labels import SHORT
from analyses.display.sentence_format import brief_share, counted, quoted, time_and_share
from hta_graph.base.errors import Remedy

TITLE = "Roofline: operator throughput and the device's limits"
NOTHING_TO_DRAW = "no operator with known FLOPs and memory traffic"
INTENSITY_AXIS, THROUGHPUT_AXIS = "FLOP per byte (least traffic)", "TFLOP/s"
OTHER_OPERATORS = "other operators"
PARTS = {
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


def part(name: str, cause: str | None) -> str:
    """Name a part of a window, of idle time with its cause."""
    if name == "matrix_at_peak":
        return NO_LOSS
    return f"{PARTS[name]} ({SHORT.get(cause, cause)})" if cause else PARTS[name]


LIMIT = {"compute": "compute limit", "memory": "memory bandwidth limit"}
GIVE_PEAKS = Remedy("pass peaks=FILE or a device name", "use --peaks with a file or a device name")


def _with_cause(part: str, cause: str | None) -> str:
    """Name a part of a window, of idle time also its largest cause."""
    return f"{PARTS[part]} (mostly {SHORT.get(cause, cause)})" if cause else PARTS[part]


def mostly_idle(found: Outlier, cause: str | None) -> str:
    """State first that the GPU is mostly idle, so that its operators matter little."""
    why = f" (mostly {SHORT.get(cause, cause)})" if cause else ""
    return f"GPU idle {brief_share(found['window_share'])} of the window{found.where}{found.typical}{why}"


def use_of_peak(found: Outlier, loss: str, *, at_least: bool) -> str:
    """State the MFU and the largest loss."""
    reached = f"{'at least ' if at_least else ''}{brief_share(found['mfu_share'])} over the window"
    return f"MFU {reached}{found.where}{found.typical} (peak of {found['device']}){loss}"


def largest_loss(part: str, share: float, cause: str | None) -> str:
    """Name the largest loss, as the end of a sentence."""
    return f"; largest loss: {_with_cause(part, cause)}, {brief_share(share)} of the window"


def largest_part(part: str, share: float, cause: str | None, where: str) -> str:
    """Name what most of a window is, where no use of a peak is known."""
    return f"largest part of the window{where}: {_with_cause(part, cause)}, {brief_share(share)}"


def largest_opportunity(found: Outlier, attainable: float, window_ns: int) -> str:
    """Name the operator whose limit would save most, and how much."""
    what = f"{quoted(found['operator'])} ({quoted(str(found['inputs']))})"
    reach = f"reaches {brief_share(found['peak_share'])} of its {LIMIT[found['bound']]}"
    saved = time_and_share(int(found["saves_ns"]), window_ns)
    return f"largest saving{found.where}: {what} {reach}; at {brief_share(attainable)} it would save {saved}"


def faster_than_limit(rows: int) -> str:
    """Explain operators above their limit."""
    exceed = counted(rows, "row exceeds its limit", "rows exceed their limit")
    return f"{exceed}: inputs were cached or repeated, or the peaks do not match the device"


def shapes_unread(rank: int, why: str) -> str:
    """Report shapes that could not be read once more."""
    return f"rank {rank}: shapes cannot be read from the trace file: {why}"


def no_shapes(rank: int) -> str:
    """Report a trace without shapes."""
    return f"rank {rank}: no shapes recorded, so FLOPs and bytes are unknown; record with record_shapes=True"


def unknown_peaks(rank: int, gpu: str) -> str:
    """Report a device without known peaks."""
    known = gpu not in ("", "unnamed")
    whose = f"the peaks of {quoted(gpu)} are unknown" if known else "the trace does not identify the GPU"
    return f"rank {rank}: {whose}, so rates are shown without limits"


def unknown_demand(rank: int, share: float, largest: Sequence[tuple[str, float]]) -> str:
    """Name the operators without a model."""
    names = ", ".join(f"{quoted(name)} ({brief_share(part)})" for name, part in largest)
    return f"rank {rank}: FLOPs and bytes are unknown for {brief_share(share)} of GPU time: {names}"


def roof_name(dtype: str, unit: str) -> str:
    """Name the limit of a type."""
    return f"{dtype}, {unit} units"


def share_of_limit(share: float | None, gpu_ns: int) -> str:
    """Describe a point of the figure."""
    reach = "" if share is None else f"{share:.0%} of the limit, "
    return f"{reach}{gpu_ns / 1e6:,.3f} ms"
