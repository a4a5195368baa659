"""Fuzzing of jobs: damaged ranks give a graph that obeys the invariants, or one clear line.

``python -m tests.job_fuzz --cases 2000`` prints what became of the cases, and the seed of each that failed.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import networkx as nx

import hta_graph as hg
from hta_graph.base.errors import DefectError
from tests.support.foreign_traces import MERGERS, SOUND_JOBS, sound_ranks
from tests.support.fuzzed_command import run_fuzzed
from tests.support.fuzzing import Examine, fuzz_parser, run_fuzz
from tests.support.invariants import require
from tests.support.merged_ranks import with_own_process
from tests.trace_fuzz import BYTES, ODD_VALUES, STRUCTURAL, as_bytes, rows_of

ARGS = (
    "Seq", "Comms Id", "Process Group Name", "Process Group Ranks", "Collective name", "Group size", "Src Rank",
    "Dst Rank", "Rank", "In msg nelems", "Out msg nelems", "dtype", "Concrete Inputs", "Input Dims",
    "Global rank start", "Global rank stride",
)  # fmt: skip
LARGEST_GRAPH = 4_000


def odd_arguments(document: Any, rng: random.Random) -> None:
    """Put nonsense into what communications say of themselves, or the arguments of another one."""
    talking = [row for row in rows_of(document) if isinstance(row, dict) and isinstance(row.get("args"), dict)]
    talking = [row for row in talking if row["args"].keys() & set(ARGS)]
    for row in rng.sample(talking, min(len(talking), 3)):
        key = rng.choice(ARGS)
        row["args"][key] = rng.choice((*ODD_VALUES, rng.choice(talking)["args"].get(key)))


def damaged(number: int, seed: int) -> list[bytes]:
    """Damage some ranks of a job; equal arguments give equal bytes."""
    rng = random.Random(f"{seed} {number}")
    ranks = list(sound_ranks(rng.randrange(SOUND_JOBS)))
    for at in rng.sample(range(len(ranks)), rng.randint(1, len(ranks))):
        way = rng.random()
        if way < 0.2:
            name = rng.choice(sorted(BYTES))
            ranks[at] = BYTES[name](bytearray(ranks[at]), rng)
        else:
            document = json.loads(ranks[at])
            damage = (
                odd_arguments if way < 0.6 else STRUCTURAL[rng.choice(sorted(set(STRUCTURAL) - {"nested_garbage"}))]
            )
            for _ in range(rng.choice((1, 2, 5))):
                damage(document, rng)
            ranks[at] = as_bytes(document)
    if rng.random() < 0.1:
        ranks[-1] = ranks[0]
    return _merged(ranks, rng) if rng.random() < 0.15 else ranks


def _merged(ranks: list[bytes], rng: random.Random) -> list[bytes]:
    """Merge ranks into one file, if they are still something that a merger can read."""
    try:
        documents = [with_own_process(json.loads(raw), rank) for rank, raw in enumerate(ranks)]
        return [as_bytes(rng.choice(MERGERS)(documents))]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return ranks


def examine(folder: Path, ranks: list[bytes]) -> str:
    """Read and question a job; return ``analysed`` or ``refused``.

    Raises:
        BrokenRuleError: the result or the error is not what it must be; whatever else goes wrong is raised as it is.
    """
    for at, text in enumerate(ranks):
        (folder / f"rank{at}.json").write_bytes(text)
    try:
        job = hg.read_job(folder, report=lambda error: require("\n" not in str(error), "not one line"))
        check_job(job)
    except DefectError:
        raise
    except hg.HtaGraphError as error:
        require("\n" not in str(error) and len(str(error)) <= 500, "not one clear line")
        return "refused"
    _ask_the_command_line(folder)
    return "analysed"


def check_job(job: hg.JobGraph) -> None:
    """Check what holds for every job.

    Raises:
        BrokenRuleError: it does not.
    """
    for window in (hg.whole(), None):
        path = hg.critical_path(job, window)
        require(sum(path.by_rank_ns.values()) == path.length_ns, "ranks do not sum to the window")
        require(sum(path.by_bound_ns.values()) == path.length_ns, "classes do not sum to the window")
    waits = job.collectives
    require((waits.wait_ns >= 0).all(), "a wait below nothing")
    if len(job.event_table) <= LARGEST_GRAPH:
        require(nx.is_directed_acyclic_graph(job.to_networkx()), "a cycle")


def _ask_the_command_line(folder: Path) -> None:
    answer = run_fuzzed(["critical-path", str(folder), "--json", "-"])
    answer.check()
    require(answer.status != 2, "a wrong command line")


def damaged_jobs(seed: int) -> Examine:
    """Return what makes and examines the jobs of a seed."""
    return lambda case: examine(case.folder, damaged(case.number, seed))


if __name__ == "__main__":
    options = fuzz_parser("Damaged ranks of jobs.", 500).parse_args()
    sys.exit(run_fuzz(damaged_jobs(options.seed), options))
