"""Holistic Trace Analysis' own names, arguments and shapes over the dependency graph: change one import line."""
