"""A rank's graph as one of few rows: what binds them, what the whole graph answered, and what lies between them."""
