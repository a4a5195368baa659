"""One file per reason to wait: a function from what the trace shows to edges of one kind."""
