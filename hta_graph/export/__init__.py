"""Outputs for other programs: graphs as JSON and Parquet, Perfetto overlays, pictures, anonymized traces."""
