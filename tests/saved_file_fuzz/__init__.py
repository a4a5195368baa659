"""Damaged folders and dumps that somebody else wrote: saved graphs, ``.et`` files, flight recorders, host traces."""
