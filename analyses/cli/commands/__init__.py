"""The commands of ``hta-graph``: a declaration each, in the file of its functions."""
