"""What one asks of a dependency graph: one file per analysis, listed in :mod:`analyses.catalogue`."""
