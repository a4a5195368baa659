"""Several ranks of one job: read in parallel within a bound on memory, matched, put into one time and joined.

Of many ranks the asking process holds summaries (``summary/``), and what takes all rows their files answer once more.
"""
