"""A rank reduced to its boundary events, and the pieces of a critical path when they are asked for."""
