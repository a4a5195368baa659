"""Two runs are compared: a diff for people, a gate for CI."""
