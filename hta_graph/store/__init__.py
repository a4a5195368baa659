"""Graphs as files: one record, kept in the cache, saved by name, and sent between processes."""
