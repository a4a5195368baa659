"""What a question about a job costs, by ranks: ``python -m tests.benchmarks.job_questions --ranks 8 64 512``.

Jobs are simulated, so the answers are known. Every run is a process of its own; beside each question stands `info`,
which reads and builds the graph of every rank and does nothing more. What follows ``--`` is passed on to the questions:
``python -m tests.benchmarks.job_questions --ranks 64 -- --cluster local``. With ``--write FOLDER`` jobs are kept in it;
with ``--corrupt 0.01`` so many files are broken too, with ``--kill`` one of the processes that read is killed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks.job_answers import Verdict, checked, corrupted, is_same_answer
from tests.benchmarks.machine_description import machine, versions
from tests.benchmarks.process_usage import Watched, kill_one, run_watched
from tests.simulator.large import MESHES, LargeShape, job_times, large_job, read_truth, truth_path, write_large_job

INFO = "info"
ROUNDS = 5
SHORT_S = 12.0
"""A run that takes longer is not repeated."""
MIB = 1 << 20


@dataclass
class Asked:
    """A question with so many processes: its runs, what its answer is worth, and what only building the graphs took."""

    ranks: int
    question: str
    jobs: int
    runs: list[Watched]
    verdict: Verdict = field(default_factory=Verdict)

    @property
    def wall_s(self) -> float:
        """Return the median time by the clock."""
        return statistics.median(run.wall_s for run in self.runs)

    @property
    def cpu_s(self) -> float:
        """Return the median time of all processors."""
        return statistics.median(run.cpu_s for run in self.runs)

    @property
    def peak_mib(self) -> float:
        """Return the most memory of the asking process."""
        return max(run.peak_bytes for run in self.runs) / MIB

    @property
    def child_mib(self) -> float:
        """Return the most memory of a process that it started."""
        return max(run.largest_child_bytes for run in self.runs) / MIB

    def row(self, info: Asked | None, one: Asked | None) -> dict[str, Any]:
        """Return the figures, beside those of building alone and those of one process."""
        return {
            "ranks": self.ranks,
            "question": self.question,
            "jobs": self.jobs,
            "runs": len(self.runs),
            "wall_s": round(self.wall_s, 3),
            "cpu_s": round(self.cpu_s, 3),
            "peak_mib": round(self.peak_mib),
            "child_mib": round(self.child_mib),
            "cpu_ms_per_rank": round(self.cpu_s / self.ranks * 1_000, 2),
            "mib_per_rank": round(self.peak_mib / self.ranks, 2),
            "times_info": round(self.cpu_s / info.cpu_s, 2) if info else None,
            "speed_up": round(one.wall_s / self.wall_s, 2) if one else None,
            "verdict": str(self.verdict),
        }


COLUMNS = {
    "ranks": 7, "question": 15, "jobs": 5, "runs": 5, "wall_s": 9, "cpu_s": 9, "peak_mib": 9, "child_mib": 10,
    "cpu_ms_per_rank": 16, "mib_per_rank": 13, "times_info": 11, "speed_up": 9,
}  # fmt: skip


def line(row: dict[str, Any]) -> str:
    """Return a row of the table; without a row's values its head."""
    cells = (f"{'-' if row[name] is None else row[name]:>{width}}" for name, width in COLUMNS.items())
    return f"{''.join(cells)}  {row['verdict']}"


# -- jobs -------------------------------------------------------------------------------------------------------------


def written_job(shape: LargeShape, folder: Path) -> Path:
    """Write a job unless it is there already."""
    if truth_path(folder).exists() and LargeShape(**read_truth(folder)["shape"]) == shape:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    begin = time.perf_counter()
    job = large_job(shape)
    write_large_job(job, job_times(job), folder)
    size = sum(path.stat().st_size for path in folder.iterdir())
    _note(f"{folder.name}: {shape.ranks} ranks, {size / MIB:.1f} MiB, written in {time.perf_counter() - begin:.1f} s")
    return folder


def shape_of(options: argparse.Namespace, ranks: int) -> LargeShape:
    """Return the shape that is asked for."""
    return LargeShape(
        ranks,
        options.collectives,
        options.events,
        options.groups,
        options.seed,
        options.delay_us * 1_000,
        ranks_per_host=options.ranks_per_host,
        clock_spread_ns=options.clock_spread_us * 1_000,
        ids=options.ids,
        cuts_groups=options.cut_groups,
    )


# -- questions --------------------------------------------------------------------------------------------------------


def command(question: str, folder: Path, out: Path, jobs: int, further: Sequence[str]) -> list[str]:
    """Return how a question is asked."""
    program = str(Path(sys.executable).with_name("hta-graph"))
    return [program, question, str(folder), "--json", str(out), "--jobs", str(jobs), *further]


def ask(question: str, folder: Path, out: Path, jobs: int, further: Sequence[str], rounds: int) -> list[Watched]:
    """Ask as often as is asked for, once if that takes long.

    Raises:
        RuntimeError: there is no answer.
    """
    runs: list[Watched] = []
    while len(runs) < rounds and (not runs or runs[0].wall_s < SHORT_S):
        runs.append(run_watched(command(question, folder, out, jobs, further)))
        if runs[-1].status:
            raise RuntimeError(f"{question} of {folder.name} failed: {runs[-1].said[-2_000:]}")
    return runs


def measured(folder: Path, ranks: int, options: argparse.Namespace, out: Path) -> Iterator[dict[str, Any]]:
    """Ask all questions about a job with each number of processes."""
    found: dict[tuple[str, int], Asked] = {}
    for jobs in options.jobs:
        for question in (INFO, *options.question):
            further = [] if question == INFO else options.further
            answer = out / f"{question}_{jobs}.json"
            asked = Asked(ranks, question, jobs, ask(question, folder, answer, jobs, further, options.rounds))
            asked.verdict = checked(question, answer, read_truth(folder))
            if jobs != options.jobs[0]:
                same = answer.read_bytes() == (out / f"{question}_{options.jobs[0]}.json").read_bytes()
                asked.verdict.add(same, f"same bytes as with {options.jobs[0]}")
            found[question, jobs] = asked
            info = found[INFO, jobs] if question != INFO else None
            one = found[question, 1] if jobs != 1 and (question, 1) in found else None
            yield asked.row(info, one)


def broken(folder: Path, options: argparse.Namespace, out: Path) -> Iterator[str]:
    """Ask about a job some of whose files are broken, and about the same job without these files."""
    whole, left, names = corrupted(folder, out / f"{folder.name}_broken", options.corrupt, options.seed)
    for question in options.question:
        runs, answers = [], []
        for at, own in enumerate((whole, left)):
            answers.append(out / f"{question}_broken_{at}.json")
            runs.append(run_watched(command(question, own, answers[-1], options.jobs[-1], options.further)))
        verdict = Verdict()
        statuses = [run.status for run in runs]
        # 1 says that something was left out.
        verdict.add(statuses == [1, 0], f"exit statuses {statuses}")
        verdict.add(all(name in runs[0].said for name in names), f"all {len(names)} broken files are named")
        verdict.add(not any(name.split(".")[0] + "." in runs[1].said for name in names), "and no others")
        if all(path.exists() for path in answers):
            verdict.add(is_same_answer(*answers, whole, left), "the others' answer is that without them")
        yield f"{folder.name}, {len(names)} broken, {question}: {verdict}"


def killed(folder: Path, options: argparse.Namespace, out: Path) -> Iterator[str]:
    """Kill one of the processes that read, and compare the answer with that of an undisturbed run."""
    for question in options.question:
        paths = out / f"{question}_whole.json", out / f"{question}_killed.json"
        whole = run_watched(command(question, folder, paths[0], 2, options.further))
        end = run_watched(command(question, folder, paths[1], 2, options.further), kill_one(whole.middle_s))
        same = end.status == 0 and paths[0].read_bytes() == paths[1].read_bytes()
        verdict = Verdict()
        verdict.add(end.is_hit, "a process was killed" if end.is_hit else "nothing was there to be killed")
        verdict.add(end.status == 0, f"exit status {end.status}")
        verdict.add(same, "same bytes as undisturbed")
        why = "" if same else f" ({end.said.strip()[:300]})"
        yield f"{folder.name}, one process killed, {question}: {verdict}{why}"


# -- the table --------------------------------------------------------------------------------------------------------


def report(options: argparse.Namespace, kept: Path) -> dict[str, Any]:
    """Write jobs, ask, print a row as soon as it is known, and return all."""
    rows: list[dict[str, Any]] = []
    told: list[str] = []
    _say(line({name: name for name in COLUMNS} | {"verdict": "answer"}))
    for ranks in options.ranks:
        folder = written_job(shape_of(options, ranks), kept / f"job_{options.groups}_{ranks}_{options.events}")
        with tempfile.TemporaryDirectory(prefix="answers_") as out:
            if not options.only_write:
                for row in measured(folder, ranks, options, Path(out)):
                    rows.append(row)
                    _say(line(row))
            if options.corrupt:
                told += _said_each(broken(folder, options, Path(out)))
            if options.kill:
                told += _said_each(killed(folder, options, Path(out)))
    return {"machine": machine(), "versions": versions(), "rows": rows, "checks": told}


def _said_each(lines: Iterator[str]) -> list[str]:
    found = []
    for text in lines:
        _say(text)
        found.append(text)
    return found


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _note(text: str) -> None:
    sys.stderr.write(text + "\n")


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options; what follows ``--`` is for the questions."""
    own = list(arguments)
    further = own[own.index("--") + 1 :] if "--" in own else []
    parser = argparse.ArgumentParser(description="What a question about a job costs, by how many ranks it has.")
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--collectives", type=int, default=40, help="of each rank, about")
    parser.add_argument("--events", type=int, default=2_000, help="rows of each trace, about")
    parser.add_argument("--groups", choices=MESHES, default="fsdp", help="how the job is spread over its ranks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--delay-us", type=int, default=5_000, help="by how much one rank is slow")
    parser.add_argument("--ranks-per-host", type=int, default=8)
    parser.add_argument("--clock-spread-us", type=int, default=0, help="how far hosts' clocks are ahead or behind")
    parser.add_argument("--ids", action="store_true", help="record the numbers that tell what belongs together")
    parser.add_argument("--cut-groups", action="store_true", help="cut groups in the header after thirty ranks")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="keep the jobs there (a temporary folder)")
    parser.add_argument("--only-write", action="store_true", help="ask nothing")
    parser.add_argument("--question", nargs="+", default=["collectives", "stragglers", "critical-path"])
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2], help="how many processes read")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often, unless it takes long")
    parser.add_argument("--corrupt", type=float, default=0.0, metavar="SHARE", help="break so many of the files, too")
    parser.add_argument("--kill", action="store_true", help="kill a process that reads, too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args(own[: own.index("--")] if "--" in own else own)
    options.further = further
    return options


def main() -> int:
    """Print a table; return 1 if an answer is wrong."""
    options = parsed(sys.argv[1:])
    _say(f"{machine()}; {versions()}")
    with tempfile.TemporaryDirectory(prefix="jobs_") as temporary:
        kept = options.write or Path(temporary)
        kept.mkdir(parents=True, exist_ok=True)
        found = report(options, kept)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(any("WRONG" in text for text in (*(row["verdict"] for row in found["rows"]), *found["checks"])))


if __name__ == "__main__":
    sys.exit(main())
