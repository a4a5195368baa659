"""``python -m hta_graph``: the command line, for where its script is on no path."""

from __future__ import annotations

from analyses.cli.main import run

# The one import against the arrow: the package that people know by name is this one.

if __name__ == "__main__":
    run()
