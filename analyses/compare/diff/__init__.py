"""Comparison of two runs: differences in their environment, whether one is slower, and where the time changed."""
