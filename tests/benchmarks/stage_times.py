"""Print time and memory per stage: ``python -m tests.benchmarks.stage_times TRACE…``.

Each trace is measured in fresh processes; the table shows the medians. A benchmark reports, it does not gate.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Stopwatch:
    """Collects seconds per stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def time(self, stage: str, work: Callable[[], Any]) -> Any:
        """Run a stage and note how long it took."""
        begin = time.perf_counter()
        result = work()
        self.seconds[stage] = time.perf_counter() - begin
        return result


def measure(path: Path) -> dict[str, float]:
    """Measure every stage of one trace in this process."""
    watch = Stopwatch()
    watch.time("import", _import_all)
    from hta_graph.base.text.json_text import to_json
    from hta_graph.build.from_trace import DEFAULT_RULES, build_graph
    from hta_graph.dependencies.context import RuleContext
    from hta_graph.graph.timeline import Timeline
    from hta_graph.paths.critical_path import critical_path
    from hta_graph.paths.windows import whole
    from hta_graph.trace.columnize import assemble_traces, collect_columns
    from hta_graph.trace.decompress import read_bytes
    from hta_graph.trace.json_reader import RowReader

    content = watch.time("read and decompress", lambda: read_bytes(path))
    rows = RowReader(path, content)
    collected = watch.time("rows and columns", lambda: collect_columns(rows))
    trace = watch.time("assemble", lambda: assemble_traces(path, collected, rows.facts)[0])
    timeline = Timeline(trace)
    watch.time("order and nesting", lambda: (timeline.position, timeline.calls))
    context = RuleContext(trace, timeline)
    for rule in DEFAULT_RULES:
        watch.time(f"edges: {rule.__name__}", lambda rule=rule: rule(context))
    graph = watch.time("graph, all of it", lambda: build_graph(trace))
    found = watch.time("path", lambda: critical_path(graph, whole()))
    watch.time("JSON output", lambda: b"".join(to_json(_document(found))))
    sizes = {"events": float(len(trace.events)), "edges": float(len(graph.edge_table))}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**watch.seconds, "peak MB": peak, "text MB": len(content.data) / 1e6, **sizes}


def _import_all() -> None:
    import hta_graph.build.from_trace
    import hta_graph.paths.critical_path
    import hta_graph.trace.read  # noqa: F401


def _document(found: Any) -> Any:
    from analyses.questions.critical_path import path_document

    return path_document(found)


def whole_command(path: Path) -> float:
    """Time the command from start to exit."""
    begin = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "analyses.cli.main",
        "critical-path",
        str(path),
        "--whole",
        "--json",
        "/dev/null",
    ]
    subprocess.run(command, check=True)
    return time.perf_counter() - begin


def json_loads(path: Path) -> float:
    """Time a process that only parses the file."""
    begin = time.perf_counter()
    code = "import gzip, json, sys; json.loads(gzip.open(sys.argv[1]).read())"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    return time.perf_counter() - begin


def main() -> None:
    """Measure the traces named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.traces[0])))  # noqa: T201
        return
    columns = {path: _medians(path, options.runs) for path in options.traces}
    for stage in next(iter(columns.values())):
        values = "".join(f"{column[stage]:>16,.3f}" for column in columns.values())
        print(f"{stage:<28}{values}")  # noqa: T201


def _medians(path: Path, runs: int) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.stage_times", "--one", str(path)]
    results = []
    for _ in range(runs):
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        results.append({**found, "command, cold": whole_command(path), "json.loads alone, cold": json_loads(path)})
    return {stage: statistics.median(result[stage] for result in results) for stage in results[0]}


if __name__ == "__main__":
    main()
