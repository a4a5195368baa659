"""The dependency graph: events, points and edges as columns, and the facade that speaks of them."""
