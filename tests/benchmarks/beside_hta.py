"""The commands against HTA's critical path: ``python -m tests.benchmarks.beside_hta --hta-python PYTHON [INPUT…]``.

PYTHON belongs to an environment with ``traceinsight`` and ``pandas<3``; ``--make-hta-venv DIR`` makes one. HTA loads
the input and runs its ``critical_path_analysis`` of the step that our default window is, on the first rank; of the
whole trace where there are no steps. A benchmark reports, it does not gate.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks import hta_critical_path_process
from tests.benchmarks.cold_process import run_cold
from tests.benchmarks.paired_commands import Other, add_options, inputs_of, own_command, rank_files, run


def hta_command(hta_python: str, trace: Path) -> list[str]:
    """Return the command that loads an input with HTA and finds the critical path of one step."""
    first = rank_files(trace)[0]
    with tempfile.TemporaryDirectory() as folder:
        run_cold(own_command("critical-path", first, Path(folder)))
        # Its beginning says it; all of it would be part of the peak memory of every process that is started.
        with (Path(folder) / "a.json").open("rb") as answer:
            found = re.search(rb'"window":\{[^}]*"label":"([^"]*)"', answer.read(1 << 16))
        label = found[1].decode() if found else ""
    annotation = label if label.startswith("ProfilerStep#") else ""
    return [hta_python, str(Path(hta_critical_path_process.__file__)), annotation, *map(str, rank_files(trace))]


def make_hta_venv(folder: Path) -> str:
    """Make an environment for HTA and return its interpreter."""
    python = str(folder / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "traceinsight", "pandas<3"], check=True)
    return python


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure the commands against HTA's critical path.")
    add_options(parser, ["critical-path"])
    hta = parser.add_mutually_exclusive_group(required=True)
    hta.add_argument("--hta-python", metavar="PYTHON", help="an interpreter that has traceinsight and pandas<3")
    hta.add_argument("--make-hta-venv", type=Path, metavar="DIR", help="make an environment for HTA there and use it")
    options = parser.parse_args()
    python = options.hta_python or make_hta_venv(options.make_hta_venv)
    other = Other("HTA", lambda trace: hta_command(python, trace), is_divided_by_ours=True)
    run(options, inputs_of(options, parser), other, "beside_hta")


if __name__ == "__main__":
    main()
