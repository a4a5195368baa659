"""Several ranks of one job: read in parallel processes within a bound on memory, their collectives matched.

``reading`` (who reads what, when), ``memory`` (how much there is, how much a file takes), ``pool`` and ``worker`` (the
two ends of a process that reads), ``rank_graph`` (one file's graph, with its communications where wanted),
``graph_bytes`` (a graph as bytes), ``remedies`` (what to do when reading fails), and the matcher of collectives.
"""
