"""What the rules ask of streams: the order of enqueueing, the profiler's records, pending waits."""
