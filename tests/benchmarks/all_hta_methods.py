"""All methods on all ranks of a run, in cold processes: ``python -m tests.benchmarks.all_hta_methods [FOLDER]``."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.cold_process import run_cold
from tests.benchmarks.hta_method_process import CALLS, arguments_of
from tests.benchmarks.machine_description import machine, versions
from tests.support.shared_traces import SHARED

FOLDER = SHARED / "traces" / "nanogpt_ddp_8xh100"
TARGET_S = 15


def once(folder: Path) -> dict[str, float]:
    """Load the ranks of a folder and call everything about all of them; return seconds by method."""
    from analyses import TraceAnalysis

    times: dict[str, float] = {}
    begin = time.perf_counter()
    analysis = TraceAnalysis(trace_dir=str(folder))
    ranks = analysis.get_ranks()
    times["load"] = time.perf_counter() - begin
    with tempfile.TemporaryDirectory() as scratch:
        known: dict[str, Any] = {"FOLDER": scratch, "SERIES": analysis.get_queue_length_time_series(ranks)}
        for method, call in CALLS:
            for one in ranks if "rank" in call else ranks[:1]:
                more = {"ranks": ranks} if "ranks" in call else {}
                place = {"output_dir": scratch} if method == "generate_trace_with_counters" else {}
                begin = time.perf_counter()
                getattr(analysis, method)(**arguments_of(call, known | {"RANK": one}) | more | place)
                times[method] = times.get(method, 0.0) + time.perf_counter() - begin
    return times


def main() -> None:
    """Measure cold processes and print what they took, or be one of them."""
    parser = argparse.ArgumentParser(description="Load all ranks and call all methods.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--once", action="store_true", help="in this process; prints JSON")
    options = parser.parse_args()
    if options.once:
        print(json.dumps(once(options.folder)))  # noqa: T201
        return
    command = [sys.executable, "-m", "tests.benchmarks.all_hta_methods", str(options.folder), "--once"]
    runs = [run_cold(command) for _ in range(options.runs)]
    wall = statistics.median(run.wall_s for run in runs)
    peak = max(run.peak_bytes for run in runs) / 1e6
    lines = [
        f"{machine()}. {versions()}.",
        f"{options.folder.name}: {wall:.2f} s from start to exit (target: {TARGET_S}), peak {peak:,.0f} MB",
        *(f"  {method}: {seconds * 1e3:,.1f} ms" for method, seconds in json.loads(runs[-1].printed).items()),
    ]
    print("\n".join(lines))  # noqa: T201


if __name__ == "__main__":
    main()
