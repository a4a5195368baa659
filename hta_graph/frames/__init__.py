"""Anybody's own DataFrames of events and edges as a graph."""
