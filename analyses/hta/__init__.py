"""Holistic Trace Analysis: its classes, methods, arguments and columns, answered by the dependency graph."""
