"""Print what ASTRA-sim makes of recorded sets: ``python -m tests.astra_sweep [SET…] [--output FILE]``.

SET is a folder of rank files, or holds such folders, or is the file of a rank alone; by default the shared traces. Each
set is converted in both profiles and run by both back ends with recorded communication, with a network of 50 GB/s a
link (×0.25 to ×4), and on GPUs with durations ×0.5 and ×2. A workload of one rank is run twice, side by side, as the
walk-through does: ASTRA-sim needs two.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import hta_graph as hg
from hta_graph.base.errors import HtaGraphError
from tests.astra_sweep.recorded_sets import sets_in
from tests.astra_sweep.simulated_set import MeasuredSet, measured
from tests.astra_sweep.tables import report
from tests.support.astra_sim import why_absent
from tests.support.shared_traces import SHARED

DEFAULT = tuple(SHARED / name for name in ("traces", "traces_more"))
PROFILES = ("full", "gpu")


def measure_all(roots: Sequence[Path], profiles: Sequence[str]) -> Iterator[MeasuredSet]:
    """Measure set by set; what cannot be read is refused like what cannot be converted."""
    for name, files in sets_in(roots):
        began = time.perf_counter()
        try:
            ranks = {graph.trace.rank or 0: graph for graph in hg.read_graphs(files, jobs=1)}
        except HtaGraphError as error:
            yield MeasuredSet(name, "both", refusal=str(error))
            continue
        for profile in profiles:
            with tempfile.TemporaryDirectory() as scratch:
                yield measured(name, ranks, profile, Path(scratch))
        sys.stderr.write(f"{name}: {time.perf_counter() - began:.0f} s\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", type=Path, default=DEFAULT)
    parser.add_argument("--profile", choices=PROFILES, action="append", help="only this one")
    parser.add_argument("--output", type=Path, help="write the tables to a file")
    options = parser.parse_args(argv)
    if reason := why_absent():
        parser.error(reason)
    found: list[MeasuredSet] = []
    for one in measure_all(options.sets, options.profile or PROFILES):
        found.append(one)
        # It takes long: what is known so far can be read meanwhile.
        if options.output:
            options.output.write_text("\n".join(report(found)) + "\n", encoding="utf-8")
    if not options.output:
        sys.stdout.write("\n".join(report(found)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
