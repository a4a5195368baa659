"""Fuzzing of workloads: a damaged trace or job becomes one that the simulator runs, or is refused in one clear line.

``python -m tests.chakra_fuzz --cases 2000`` prints what became of the cases, every kind of refusal, and what failed.
"""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

from tests.job_fuzz import damaged
from tests.support.fuzzed_command import run_fuzzed
from tests.support.fuzzing import Case, Examine, fuzz_parser, run_fuzz
from tests.support.invariants import require
from tests.support.made_files import REFUSED
from tests.trace_fuzz import file_name, make_case

OF_FILES = (
    "is not JSON", "is truncated", "is corrupt", "nests JSON values too deeply", "as traceEvents, not a list",
    "is empty", "is JSON without traceEvents", "is a list without event objects", "holds nothing to simulate",
    "holds no GPU activity", "is a Chrome trace of another program", "holds several recordings",
    "cannot be distinguished", "merged into one file", "is a damaged zip archive", "is a damaged tar archive",
    "is a tar archive without a trace", "; convert it to UTF-8", "silently never finishes the node",
    "is a damaged SQLite database",
    *(words for _, _, words in REFUSED.values()),
)  # fmt: skip
"""Why a trace can be refused by itself."""
OF_JOBS = (
    "claims rank", "trace among these files", "recorded nothing", "the ranks disagree",
    "the common order of collectives", "ASTRA-sim cannot run this",
    "communicates on the CPU with missing ranks",
)  # fmt: skip
"""Why ranks can be refused that do not fit together, or copies of one."""


def damaged_workloads(seed: int) -> Examine:
    """Return what converts the cases of a seed: two single traces, then a job; refusals are told by their words."""

    def examine_case(case: Case) -> str:
        refusal = examine_workload(case.folder, seed, case.number)
        case.kind = refusal or case.kind
        return "refused" if refusal else "converted"

    return examine_case


def examine_workload(folder: Path, seed: int, number: int) -> str:
    """Convert a case, and check and run what came of it; return why it was refused, without names and numbers.

    Raises:
        BrokenRuleError: the outcome is not what it must be; whatever else goes wrong is raised as it is.
    """
    rng = random.Random(f"{seed} {number} workload")
    missing, is_job = rng.choice(("as-compute", "as-compute", "copy")), number % 3 == 2
    traces = folder / "traces"
    traces.mkdir()
    if is_job:
        for rank, raw in enumerate(damaged(number, seed)):
            (traces / f"rank{rank}.json").write_bytes(raw)
    else:
        made = make_case(seed, number)
        (traces / file_name(made.raw)).write_bytes(made.raw)
        is_job = made.damage in ("merge_files", "foreign_rows", "everything") or made.origin.startswith("merged")
    work = folder / "work"
    options = ["--profile", rng.choice(("full", "gpu")), "--overlap", rng.choice(("keep", "share"))]
    unknown = rng.choice(("as-compute", "as-recorded"))
    options += ["--unknown-collectives", unknown, "--missing-ranks", missing]
    status, error = _ask_command(["convert", str(traces), "-o", str(work), *options])
    if status:
        known = OF_FILES + OF_JOBS if is_job or missing == "copy" else OF_FILES
        require(any(words in error for words in known), f"a refusal that nobody has judged: {error}")
        require({path.name for path in folder.iterdir()} == {"traces"}, "something is left behind")
        return _without_names(error, folder)
    for command in ("check", "simulate"):
        status, error = _ask_command([command, str(work)])
        require(status == 0, f"{command} does not take what convert wrote: {error}")
    return ""


def _ask_command(arguments: list[str]) -> tuple[int, str]:
    """Run a command; return its exit status and its line of error."""
    answer = run_fuzzed(["chakra", *arguments])
    answer.check_one_error()
    require(answer.status != 2, "a wrong command line")
    return answer.status, answer.errors[0].removeprefix("hta-graph: ") if answer.errors else ""


def _without_names(line: str, folder: Path) -> str:
    line = re.sub(r"'[^']*'|\"[^\"]*\"", "…", line.replace(str(folder), ""))
    return re.sub(r"-?\d[\d,.]*", "N", line)


if __name__ == "__main__":
    options = fuzz_parser("Workloads of damaged traces and jobs.", 600).parse_args()
    sys.exit(run_fuzz(damaged_workloads(options.seed), options))
