"""``python -m hta_graph``: the command line, where the script ``hta-graph`` is not on the path."""

from __future__ import annotations

from analyses.cli.main import run

# The only import of analyses in this package: users know it by this name.

if __name__ == "__main__":
    run()
