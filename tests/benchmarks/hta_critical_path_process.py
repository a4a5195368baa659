"""HTA's critical path of one whole trace, as its own interpreter runs it: ``python hta_alone.py TRACE``.

HTA limits its analysis to instances of an annotation; the empty name is its way to say "the full trace": every CPU row
of at least 1 µs and the GPU rows that they launched. It needs no ``ProfilerStep`` then. Prints seconds as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

RANK = 0


class Stopwatch:
    """Collects [seconds by the clock, seconds of the processor] per stage."""

    def __init__(self) -> None:
        self.stages: dict[str, list[float]] = {}
        self._since = self._now()

    def lap(self, stage: str) -> None:
        """Note how long a stage took that ends now."""
        now = self._now()
        self.stages[stage] = [now[0] - self._since[0], now[1] - self._since[1]]
        self._since = now

    @staticmethod
    def _now() -> tuple[float, float]:
        return time.perf_counter(), time.process_time()


def main() -> None:
    """Load a trace and find its critical path."""
    path = Path(sys.argv[1]).absolute()
    watch = Stopwatch()
    from hta.trace_analysis import TraceAnalysis

    watch.lap("import")
    analysis = TraceAnalysis(trace_files={RANK: str(path)}, trace_dir=str(path.parent))
    watch.lap("load")
    graph, success = analysis.critical_path_analysis(rank=RANK, annotation="", instance_id=None)
    watch.lap("critical_path_analysis")
    sizes = {"success": success, "hta_nodes": graph.number_of_nodes(), "hta_edges": graph.number_of_edges()}
    versions = {name: version(name) for name in ("traceinsight", "pandas", "numpy")}
    found = {**watch.stages, **sizes, "python": sys.version.split()[0], "versions": versions}
    print("\n" + json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main()
