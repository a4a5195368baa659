"""Tests of :mod:`analyses.compare.gate`."""
