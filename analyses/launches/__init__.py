"""Launches: how long they take, how many wait, what they start."""
