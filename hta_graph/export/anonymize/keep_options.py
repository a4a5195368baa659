"""What of a trace can stay on request, without importing what strips it."""

from __future__ import annotations

__all__ = ["KEEP_OPTIONS"]

KEEP_OPTIONS: dict[str, tuple[str, ...]] = {
    "shapes": (),
    "names": ("operator", "kernel", "call", "copy", "overhead", "record", "row"),
    "frames": ("frame",),
    "annotations": ("annotation",),
}
"""What can be kept → the categories of names that stay."""
