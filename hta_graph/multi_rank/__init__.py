"""Several ranks of one job: read in parallel within a bound on memory, matched, put into one time and joined.

Where whole graphs of all ranks do not fit in memory, the asking process holds summaries (``summary/``), and what takes
all rows their files answer once more.
"""
