"""Several ranks of one job: read in parallel within a bound on memory, their collectives matched.

``reading`` (who reads what, when), ``memory`` (how much there is, how much a file takes), ``pool`` (files read by
processes of this machine), ``cluster_reading`` (by Dask's workers), ``engines`` (what runs tasks), ``rank_task`` (one
file's task), ``build_rank_graph`` (one file's graph, with its communications where wanted), ``graph_bytes`` (a graph as
bytes), and the matcher of collectives.
"""
