"""A trace without what its owner would not give away, with the same graph."""
