"""A cache of graphs in the user's cache folder: the second question about a file does not read it again."""
