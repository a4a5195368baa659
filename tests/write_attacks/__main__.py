"""``python -m tests.write_attacks``: run every command against every attack and print what became of the cases."""

from __future__ import annotations

import argparse
import os
import sys

from tests.same_outputs import preload
from tests.write_attacks.attacks import ATTACKS
from tests.write_attacks.run_attacks import attacked, shown


def main() -> int:
    """Run the attacks; the exit status is 1 if one of them got through."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attack", nargs="+", default=list(ATTACKS), choices=ATTACKS, metavar="NAME")
    parser.add_argument("--command", nargs="+", metavar="NAME", help="only these commands")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4), metavar="N")
    options = parser.parse_args()
    preload()
    found, failures = attacked(options.attack, options.command, options.jobs)
    sys.stdout.write(shown(found))
    for line in failures:
        sys.stdout.write(f"{line}\n")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
