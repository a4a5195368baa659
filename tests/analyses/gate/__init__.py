"""Tests of :mod:`analyses.gate`."""
