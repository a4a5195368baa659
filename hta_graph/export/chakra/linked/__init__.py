"""Linked traces: a host and a device trace of one process as one document, written and read."""
