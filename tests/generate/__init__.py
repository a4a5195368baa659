"""The JSON Schemas of the documents that commands write: ``python -m tests.generate`` writes their files.

The columns of tables are those that analyses declare (``TABLES``), kinds and classes those of :mod:`hta_graph.model`,
diagnostics those of the graph: what is written here next to them is what each means, and when it is null.
"""
