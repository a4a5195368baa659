"""What of a trace can be kept on request, without importing what anonymizes it."""

from __future__ import annotations

KEEP_OPTIONS: dict[str, tuple[str, ...]] = {
    "shapes": (),
    "names": ("operator", "kernel", "call", "copy", "overhead", "record", "row"),
    "frames": ("frame",),
    "annotations": ("annotation",),
}
"""What can be kept → the categories of names that stay."""
