"""The commands against ``json.loads`` of the same files: ``python -m tests.benchmarks.beside_json [INPUT…]``.

A benchmark reports, it does not gate. ``tests.benchmarks.repeat_trace`` makes larger inputs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.benchmarks.paired_commands import QUESTIONS, Other, add_options, inputs_of, rank_files, run

JSON_LOADS = """
import gzip, json, sys
for name in sys.argv[1:]:
    with (gzip.open if name.endswith(".gz") else open)(name, "rb") as file:
        json.loads(file.read())
"""


def json_loads(trace: Path) -> list[str]:
    """Return the command that only decodes the files of an input, one after the other."""
    return [sys.executable, "-c", JSON_LOADS, *map(str, rank_files(trace))]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure the commands against json.loads of the same files.")
    add_options(parser, QUESTIONS)
    options = parser.parse_args()
    run(options, inputs_of(options, parser), Other("json.loads", json_loads, is_divided_by_ours=False), "beside_json")


if __name__ == "__main__":
    main()
