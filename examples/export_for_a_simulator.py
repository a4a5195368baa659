"""From profiler files of all ranks to a folder that ASTRA-sim runs, with its settings and its command line.

``python examples/export_for_a_simulator.py [FOLDER] [-o WORKLOAD]``; export_for_a_simulator.md explains each step.
Further options (such as ``--profile gpu``) are those of ``hta-graph chakra convert``.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
from importlib.resources import files
from pathlib import Path

from analyses.cli.main import main as hta_graph

SAMPLE = files("analyses") / "sample" / "four_ranks"
PROGRAM = "AstraSim_Analytical_Congestion_Unaware"
RING = ["ring"]
SYSTEM = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 4,
    "all-reduce-implementation": RING,
    "all-gather-implementation": RING,
    "reduce-scatter-implementation": RING,
    "all-to-all-implementation": RING,
    "collective-optimization": "localBWAware",
    "local-mem-bw": 1600,
    "boost-mode": 0,
    "trace-enabled": 1,  # notes when every node begins and ends: the only proof that all ran
}
MEMORY = {"memory-type": "NO_MEMORY_EXPANSION"}


def network(npus: int, bandwidth: float) -> dict[str, list[object]]:
    """Return a ring with links of some GB/s and 500 ns; two NPUs on a ring abort in the congestion-aware back end."""
    topology = "FullyConnected" if npus == 2 else "Ring"
    return {"topology": [topology], "npus_count": [npus], "bandwidth": [bandwidth], "latency": [500.0]}


def run(*arguments: str) -> None:
    """Run a command of hta-graph."""
    print(f"\n$ hta-graph {shlex.join(arguments)}", flush=True)
    if status := hta_graph(arguments):
        raise SystemExit(status)


def add_second_rank(workload: Path) -> None:
    """Copy the file of a rank that is alone: ASTRA-sim needs at least two NPUs."""
    ranks = list(workload.glob("*.et"))
    if len(ranks) == 1:
        shutil.copyfile(ranks[0], workload / "trace.1.et")
        print(f"\n{workload}: one rank, and ASTRA-sim needs two: trace.1.et is a copy; look at rank 0 alone")


def astra_sim(workload: Path, settings: Path, bandwidth: float, *, replay_only: bool) -> list[str]:
    """Write ASTRA-sim's settings and return its command line."""
    npus = len(list(workload.glob("*.et")))
    system = SYSTEM | ({"replay-only": 1} if replay_only else {})
    documents = {"system": system, "network": network(npus, bandwidth), "remote-memory": MEMORY}
    settings.mkdir(exist_ok=True)
    for name, document in documents.items():
        # JSON is YAML too, in which earlier versions read the network
        (settings / f"{name}.json").write_text(json.dumps(document, indent=1))
    return [
        PROGRAM,
        f"--workload-configuration={workload / 'trace'}",
        f"--comm-group-configuration={workload / 'comm_groups.json'}",
        *(f"--{name}-configuration={settings / name}.json" for name in documents),
        "--logging-folder=log",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="?", default=str(SAMPLE), help="a folder of rank files (a simulated sample)")
    parser.add_argument("-o", "--output", default="workload", help="the folder to write (%(default)s)")
    parser.add_argument("--settings-for", metavar="DIR", help="convert nothing: write the settings for this workload")
    parser.add_argument("--bandwidth", type=float, default=50.0, metavar="GB/s", help="of each link (%(default)s)")
    parser.add_argument("--replay-only", action="store_true", help="no network: communication lasts as it did")
    options, more = parser.parse_known_args()

    workload = Path(options.settings_for or options.output)
    if not options.settings_for:
        run("chakra", "convert", options.traces, "--output", options.output, *more)
        add_second_rank(workload)
        run("chakra", "check", options.output)
        run("chakra", "simulate", options.output)
    command = astra_sim(workload, Path("astra_sim"), options.bandwidth, replay_only=options.replay_only)
    print("\nNow ASTRA-sim runs it:\n" + " \\\n    ".join(map(shlex.quote, command)))


if __name__ == "__main__":
    main()
