"""Traces with rows appended for Perfetto and other viewers: the path, counters, marks."""
