"""From profiler files of all ranks to a folder that ASTRA-sim runs, with its settings and its command line.

``python examples/export_for_a_simulator.py [FOLDER] [-o WORKLOAD]``; export_for_a_simulator.md explains each step.
"""

from __future__ import annotations

import argparse
import json
import shlex
from importlib.resources import files
from pathlib import Path

from analyses.command_line.cli import main as hta_graph

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
    "trace-enabled": 1,  # notes when every node is done: the only proof that all ran
}
MEMORY = {"memory-type": "NO_MEMORY_EXPANSION"}


def network(npus: int) -> dict[str, list[object]]:
    """Return a ring of 50 GB/s and 500 ns: put your own network here."""
    return {"topology": ["Ring"], "npus_count": [npus], "bandwidth": [50.0], "latency": [500.0]}


def run(*arguments: str) -> None:
    """Run a command of hta-graph."""
    print(f"\n$ hta-graph {shlex.join(arguments)}", flush=True)
    if status := hta_graph(arguments):
        raise SystemExit(status)


def astra_sim(workload: Path, settings: Path) -> list[str]:
    """Write ASTRA-sim's settings and return its command line."""
    npus = len(list(workload.glob("*.et")))
    documents = {"system": SYSTEM, "network": network(npus), "remote-memory": MEMORY}
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="?", default=str(SAMPLE), help="a folder of rank files (a simulated sample)")
    parser.add_argument("-o", "--output", default="workload", help="the folder to write (%(default)s)")
    options = parser.parse_args()

    run("chakra", "convert", options.traces, "--output", options.output)
    run("chakra", "check", options.output)
    run("chakra", "simulate", options.output)
    command = astra_sim(Path(options.output), Path("astra_sim"))
    print("\nNow ASTRA-sim runs it:\n" + " \\\n    ".join(map(shlex.quote, command)))


if __name__ == "__main__":
    main()
