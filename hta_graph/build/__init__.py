"""A graph is built: from a trace by the rules, or from a user's own DataFrames."""
