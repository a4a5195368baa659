"""All ranks of a job: their graphs built in parallel processes, within a bound on memory.

``memory`` (how much there is, how much a file takes), ``columns`` (a graph as bytes), ``worker`` (the process that
reads; it imports nothing else of this room), ``pool`` (its other end), ``graphs`` (who reads what, when).
"""
