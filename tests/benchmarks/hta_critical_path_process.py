"""HTA's critical path, as its own interpreter runs it: ``python hta_critical_path_process.py ANNOTATION TRACE…``.

All ranks are loaded, the path is the first one's. The empty annotation is HTA's way to say "the full trace": every CPU
row of at least 1 µs and the GPU rows that they launched.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Load traces and find the critical path of an annotation's first instance."""
    from hta.trace_analysis import TraceAnalysis

    annotation, *names = sys.argv[1:]
    paths = [Path(name).absolute() for name in names]
    files = {rank: str(path) for rank, path in enumerate(paths)}
    analysis = TraceAnalysis(trace_files=files, trace_dir=str(paths[0].parent))
    _, success = analysis.critical_path_analysis(rank=0, annotation=annotation, instance_id=0 if annotation else None)
    sys.exit(not success)


if __name__ == "__main__":
    main()
