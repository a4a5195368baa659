"""How far the clocks of ranks are apart: evidence, bounds, one line for each, and how well that is known."""
