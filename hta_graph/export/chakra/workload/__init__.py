"""Graphs of all ranks → the nodes of ``.et`` files: pieces of work, communication, what waits for what."""
