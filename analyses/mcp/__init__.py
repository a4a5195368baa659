"""A server for agents: questions about traces as typed tools of the Model Context Protocol."""
