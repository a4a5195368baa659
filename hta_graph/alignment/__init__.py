"""Sequences of GPU activities: two recordings aligned, and which groups of activities are the same."""
