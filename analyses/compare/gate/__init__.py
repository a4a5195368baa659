"""gate: whether a run is slower than a baseline, what causes it, and what could have been seen."""
