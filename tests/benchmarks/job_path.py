"""The path of a job beside reading its ranks: ``python -m tests.benchmarks.job_path FOLDER…``.

The path costs at most twice what ``hta-graph info`` of the folder does, and at most half more memory than the graphs of
its ranks.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.cold_process import Run, run_cold
from tests.benchmarks.machine_description import machine

GRAPHS = "import hta_graph as hg, sys; graphs = list(hg.read_graphs(sys.argv[1], jobs=1))"
PATH = "import hta_graph as hg, sys; path = hg.critical_path(hg.read_job(sys.argv[1], jobs=1))"
NOTHING = "import hta_graph as hg, sys; hg.read_job, hg.critical_path"


def in_turn(rounds: int, **commands: list[str]) -> dict[str, list[Run]]:
    """Run commands one after the other, round by round, so that a busy moment meets all of them."""
    found: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            found[name].append(run_cold(command))
    return found


def report(folder: Path, rounds: int) -> str:
    """Measure one folder and say what it costs."""
    cli = [str(Path(sys.executable).with_name("hta-graph"))]
    with tempfile.TemporaryDirectory() as out:
        path = [*cli, "critical-path", str(folder), "--json", f"{out}/path.json"]
        runs = in_turn(rounds, info=[*cli, "info", str(folder)], path=path)
    held = in_turn(
        1,
        nothing=[sys.executable, "-c", NOTHING, str(folder)],
        graphs=[sys.executable, "-c", GRAPHS, str(folder)],
        job=[sys.executable, "-c", PATH, str(folder)],
    )
    wall = {name: statistics.median(run.wall_s for run in found) for name, found in runs.items()}
    cpu = {name: statistics.median(run.cpu_s for run in found) for name, found in runs.items()}
    peak = {name: found[0].peak_bytes / 2**20 for name, found in held.items()}
    return (
        f"{folder.name}: info {wall['info']:.2f} s ({cpu['info']:.2f} s of processors), "
        f"path {wall['path']:.2f} s ({cpu['path']:.2f}), {wall['path'] / wall['info']:.2f} times; "
        f"memory {peak['graphs']:.0f} MiB for the graphs, {peak['job']:.0f} with the job and its path, "
        f"{peak['job'] / peak['graphs']:.2f} times (an interpreter alone {peak['nothing']:.0f})"
    )


def main() -> None:
    """Print a line per folder."""
    parser = argparse.ArgumentParser(description="The path of a job beside reading its ranks.")
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    sys.stdout.write(machine() + "\n")
    for folder in options.folders:
        sys.stdout.write(report(folder, options.rounds) + "\n")


if __name__ == "__main__":
    main()
