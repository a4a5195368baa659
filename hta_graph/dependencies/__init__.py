"""Dependencies: the rules that infer from a trace what waited for what.

clock_bounds, clock_estimate      how far the clock of a GPU is from the host's, before anything is compared
stream_queues     in which order work was enqueued, which waits are pending
context           what every rule is given: calls, launches, the profiler's synchronization records
wait_resolution   for which record each wait of a stream is; by timing where the file does not say
inferred_waits    waits of which the file has no record at all
graph_forks       for which nodes of other streams the nodes of a CUDA graph wait
polling           for which work hosts wait that ask for it in loops
host, streams, synchronization    the rules, one function for each kind of edge
"""
