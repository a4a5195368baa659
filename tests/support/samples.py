"""The recordings that come with the package, wherever that is installed."""

from __future__ import annotations

from pathlib import Path

import analyses

__all__ = ["FOUR_RANKS", "ONE_RANK", "SAMPLES"]

SAMPLES = Path(analyses.__file__).parent / "sample"
FOUR_RANKS = SAMPLES / "four_ranks"
ONE_RANK = SAMPLES / "sample_trace.json.gz"
