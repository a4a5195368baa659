"""Questions to a graph; they know graphs, not profilers' files."""
