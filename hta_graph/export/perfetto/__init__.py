"""Traces with events of ours for Perfetto and other viewers of Chrome's format."""
