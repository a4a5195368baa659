"""A trace without names, paths, hosts and shapes that are private, and with the same graph."""
