"""Damage what others wrote and see that nothing breaks: ``python -m tests.saved_file_fuzz --cases 5000 --seed 1``.

A damaged folder is answered or refused in one clear line. Printed are the counts per kind of damage; failing folders
are kept.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.saved_file_fuzz.damage_cases import Family, Outcomes, fuzz_family, write_files
from tests.saved_file_fuzz.input_kinds import FAMILIES


def main() -> int:
    """Fuzz as long as asked, print the tables, keep the failing folders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000, help="of each family")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--family", choices=sorted(FAMILIES), action="append", help="only this one")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "hta_graph_loaded_fuzz")
    options = parser.parse_args()
    failed = 0
    for name in options.family or FAMILIES:
        found = fuzz_family(FAMILIES[name], options.seed, range(options.first, options.first + options.cases))
        _report(FAMILIES[name], found, options.keep)
        failed += len(found.failures)
    return int(bool(failed))


def _report(family: Family, found: Outcomes, keep: Path) -> None:
    sys.stdout.write("\n".join(found.table(family.name)) + "\n")
    for case, report in found.failures:
        folder = keep / f"{family.name}_{case.harm}_{case.number}"
        write_files(case.files, folder)
        folder.with_suffix(".txt").write_text(f"{case.origin}\n{report}")
    for case, report in found.failures[:30]:
        sys.stdout.write(f"case {case.number} ({case.harm} of {case.origin}): {report.strip().splitlines()[-1]}\n")
    if found.failures:
        sys.stdout.write(f"{len(found.failures)} failing folders are in {keep}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
