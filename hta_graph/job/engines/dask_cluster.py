"""Dask, to come."""
