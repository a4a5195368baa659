"""How traces are converted."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ConvertOptions"]


@dataclass(frozen=True)
class ConvertOptions:
    """How to convert.

    ``profile`` is ``full`` or ``gpu``, ``prefix`` how the files' names begin. ``unknown``: kernels whose communication
    is not known are an ``error`` or become nodes ``as-compute``. ``missing``: communication with ranks whose traces
    are not given is an ``error``, becomes nodes ``as-compute``, or such ranks get a ``copy`` of the lowest given one.
    ``overlap``: rows that ran beside others of their slot ``keep`` their durations, one after the other in the
    simulator, or ``share`` the time in which any of them ran. ``force``: an earlier folder is replaced.
    """

    profile: str = "full"
    prefix: str = "trace"
    unknown: str = "error"
    missing: str = "error"
    overlap: str = "keep"
    force: bool = False
