"""Damage what others wrote and see that nothing breaks: ``python -m tests.saved_file_fuzz --cases 5000 --seed 1``.

A damaged folder is answered or refused in one clear line. Printed are the counts per kind of damage; failing folders
are kept.
"""

from __future__ import annotations

import sys

from tests.saved_file_fuzz.damage_cases import damaged_folders
from tests.saved_file_fuzz.input_kinds import FAMILIES
from tests.support.fuzzing import fuzz_parser, run_fuzz

if __name__ == "__main__":
    parser = fuzz_parser(__doc__, 1_000)
    parser.add_argument("--family", choices=sorted(FAMILIES), action="append", help="only this one")
    options = parser.parse_args()
    sys.exit(
        max(run_fuzz(damaged_folders(FAMILIES[name], options.seed), options) for name in options.family or FAMILIES)
    )
