"""Where time goes: intervals, windows, the walk back through a graph, and the accounting of what it passes."""
