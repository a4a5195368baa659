"""Why ranks wait: what the late one did more of than the waiter, and its own waits, which are passed on."""
