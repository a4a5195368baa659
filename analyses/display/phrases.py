"""Phrases that several answers share."""

from __future__ import annotations

from collections.abc import Mapping

from analyses.display.sentence_format import brief_share

SAVINGS_OVERLAP = "These savings overlap; do not add them."

NOT_SHOWN: Mapping[str, str] = {
    "gpu_not_recorded": "the launched GPU work is not recorded",
    "kernels_not_recorded": "the launched kernels are not recorded",
    "nothing_recorded": "no operator or call is recorded for {share} of the window",
    "not_started": "launched work does not start for {share} of the window",
}
"""What the rows of a window do not show, as a clause."""


def untrusted(reason: str, share: float) -> str:
    """Say why a prediction cannot be trusted, as a clause."""
    if reason in NOT_SHOWN:
        return NOT_SHOWN[reason].format(share=brief_share(share))
    if reason == "fixed":
        return f"{brief_share(share)} of the path is fixed in replay"
    if reason == "waiting":
        return f"{brief_share(share)} of the predicted time may be waiting for other ranks"
    if reason == "steps_differ":
        return f"the steps differ so much that another run may be {brief_share(share)} off"
    if reason == "contended":
        return f"driver calls of other threads may change it by {brief_share(share)} of the window"
    if reason == "unusual":
        return (
            f"{brief_share(share)} of the window rests on kernel gaps, launch calls, waits or an order inside CUDA "
            "graphs that the trace does not explain"
        )
    return f"replay follows another path for {brief_share(share)} of the window"
