"""Fuzzing of all commands: any options on sound and damaged inputs give an answer, or one clear line and no file.

``python -m tests.command_fuzz --cases 20000 --seed 1`` prints a table per command and what failed; ``--command NAME``
asks one alone. Which options a command has is its parser's word: an option without values here fails a test.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import random
import shlex
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import hta_graph as hg
from hta_graph.chakra.convert import convert
from hta_graph.chakra.convert_options import ConvertOptions
from hta_graph.chakra.rank_workload import RankInput
from tests.job_fuzz import damaged as damaged_job
from tests.job_fuzz import sound_ranks
from tests.support.astra_log import Ran, log_text
from tests.support.cli_parsers import options_of, parsers_by_command, positionals_of
from tests.support.fuzzed_command import CommandResult, run_fuzzed
from tests.support.host_builder import host_of
from tests.support.invariants import require
from tests.trace_fuzz import BYTES, make_case, time_limit
from tests.trace_fuzz import seeds as sound_traces

Rng = random.Random
TIME_LIMIT_S = 60
SLOW_OPTIONS = ("--plot", "--dot", "--overlay")
"""What takes long to draw is asked more rarely."""
FLIGHT_ENTRY = {
    "process_group": ["0", "default_pg"], "collective_seq_id": 1, "profiling_name": "nccl:all_reduce",
    "input_sizes": [[4, 2]], "time_created_ns": 10**18, "is_p2p": False,
}  # fmt: skip


# --- inputs -----------------------------------------------------------------------------------------------------------


@dataclass
class Place:
    """Where a case lives: ``inputs`` is read, ``outputs`` takes what is written."""

    folder: Path
    rng: Rng
    number: int
    seed: int
    damaged: bool

    @property
    def inputs(self) -> Path:
        """The folder of what is read."""
        return self.folder / "inputs"

    @property
    def outputs(self) -> Path:
        """The folder of what is written."""
        return self.folder / "outputs"

    def written(self, name: str, raw: bytes) -> Path:
        """Write an input."""
        path = self.inputs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
        return path

    def hurt(self, raw: bytes) -> bytes:
        """Damage the bytes of a file that is no trace, if this is a case of damage."""
        if not self.damaged:
            return raw
        return BYTES[self.rng.choice(sorted(BYTES))](bytearray(raw or b" "), self.rng)

    def hurt_document(self, document: Any) -> bytes:
        """Damage a JSON document that is no trace: its rows, or its bytes."""
        raw = json.dumps(document).encode()
        return self.hurt(raw) if self.rng.random() < 0.7 else raw

    def target(self, *suffixes: str) -> str:
        """Name a file to write, sometimes one that cannot be written."""
        at = self.rng.random()
        if at < 0.03:
            return str(self.outputs)
        if at < 0.06:
            return str(self.outputs / "nowhere" / "x.json")
        return str(self.outputs / f"o{self.rng.randrange(10**6)}{self.rng.choice(suffixes)}")


def _trace(place: Place) -> list[str]:
    """Write one trace."""
    raw = make_case(place.seed, place.number).raw if place.damaged else place.rng.choice(sound_traces())[1]
    return [str(place.written("t.json.gz" if raw[:2] == b"\x1f\x8b" else "t.json", raw))]


def _job(place: Place) -> list[str]:
    """Write the ranks of a job, and name their folder or the files."""
    ranks = damaged_job(place.number, place.seed) if place.damaged else sound_ranks(place.rng.randrange(15))
    paths = [place.written(f"job/rank{at}.json", raw) for at, raw in enumerate(ranks)]
    if place.rng.random() < 0.1:
        place.written("job/notes.json", b'{"schema": "1.1.0", "nodes": []}')
    return [str(place.inputs / "job")] if place.rng.random() < 0.7 else [str(path) for path in paths]


def _traces(place: Place) -> list[str]:
    at = place.rng.random()
    if at < 0.02:
        return [str(place.inputs / "absent.json")]
    return _job(place) if at < 0.5 else _trace(place)


@cache
def _workload(number: int) -> dict[str, bytes]:
    """Return the files of a sound workload, by name."""
    with tempfile.TemporaryDirectory() as folder:
        for at, raw in enumerate(sound_ranks(number)):
            Path(folder, f"rank{at}.json").write_bytes(raw)
        ranks = [RankInput(graph.rank or 0, graph) for graph in hg.read_graphs(folder, jobs=1)]
        convert(ranks, Path(folder, "work"), ConvertOptions(unknown="as-compute", missing="as-compute"))
        return {path.name: path.read_bytes() for path in sorted(Path(folder, "work").iterdir())}


def _workload_folder(place: Place) -> list[str]:
    """Write a workload, some files of it damaged or gone."""
    for name, raw in _workload(place.rng.randrange(6)).items():
        hurt = place.damaged and place.rng.random() < 0.5
        if hurt and place.rng.random() < 0.1:
            continue
        place.written(f"work/{name}", place.hurt(raw) if hurt else raw)
    (place.inputs / "work").mkdir(parents=True, exist_ok=True)
    return [str(place.inputs / "work")]


def _log(place: Place) -> list[str]:
    ranks = [[Ran(at, 10 * at, 10 * at + place.rng.randrange(30)) for at in range(5)] for _ in range(2)]
    return [str(place.written("log.log", place.hurt(log_text(ranks).encode())))]


def _one_input(place: Place) -> list[str]:
    return _traces(place)[:1]


def _shell(place: Place) -> list[str]:
    return [place.rng.choice(("bash", "zsh", "tcsh", "x", ""))]


def _schema(place: Place) -> list[str]:
    return place.rng.choice(([], ["info"], ["critical-path"], ["x"], ["../info"], [""]))


POSITIONALS: dict[str, Callable[[Place], list[str]]] = {
    "inputs": _traces, "control": _one_input, "test": _one_input, "folder": _workload_folder, "log": _log,
    "shell": _shell, "name": _schema,
}  # fmt: skip


# --- options ----------------------------------------------------------------------------------------------------------


def _host_trace(place: Place) -> list[str]:
    try:
        graph = hg.build_graph(hg.read_trace(_trace(place)[0]))
    except hg.HtaGraphError:
        return [str(place.written("host.json", place.hurt(b'{"schema": "1.1.1-chakra.0.0.4", "nodes": []}')))]
    return [str(place.written("host.json", place.hurt_document(host_of(graph).document())))]


def _flight(place: Place) -> list[str]:
    entries = [{**FLIGHT_ENTRY, "collective_seq_id": number} for number in range(3)]
    dump = {"version": "2.10", "pg_config": {}, "entries": entries}
    return [str(place.written(f"flight/rank{rank}.json", place.hurt_document(dump))) for rank in range(2)]


def _peaks(place: Place) -> list[str]:
    given = {"name": "x", "matrix_tflops": {"float": 20, "half": 300}, "memory_gb_per_s": 1555}
    written = str(place.written("peaks.json", place.hurt_document(given)))
    return [place.rng.choice((written, written, "MI300X", "A100 SXM 40 GB", "nothing", "", "1e9"))]


def _one_of(*values: str) -> Callable[[Place], list[str]]:
    return lambda place: [place.rng.choice(values)]


def _some_of(*values: str) -> Callable[[Place], list[str]]:
    return lambda place: place.rng.choices(values, k=place.rng.choice((1, 1, 2, 3)))


def _file(*suffixes: str) -> Callable[[Place], list[str]]:
    return lambda place: [place.target(*suffixes)]


def _file_or_output(*suffixes: str) -> Callable[[Place], list[str]]:
    return lambda place: ["-" if place.rng.random() < 0.5 else place.target(*suffixes)]


def _pair(place: Place) -> list[str]:
    return [str(place.rng.randrange(60)), str(place.rng.randrange(60))]


def _window(place: Place) -> list[str]:
    start = place.rng.choice((0, 1_000, 10**15, -5))
    return [f"{start}:{start + place.rng.choice((0, 1, 10_000, 10**12, 10**18))}"]


def _cache(place: Place) -> list[str]:
    """Name a folder of kept skeletons: a new one, one that holds something else, or none at all."""
    at = place.rng.random()
    if at < 0.2:
        return [place.rng.choice(("s3://bucket/cache", "", str(place.written("no_folder", b"")), "x\0y"))]
    folder = place.folder / "kept"
    if at < 0.4:
        (folder / "00").mkdir(parents=True)
        (folder / "00" / "mine.parquet").write_bytes(b"mine")
    return [str(folder)]


COUNTS = _one_of("0", "1", "2", "5", "100", "-1", "x", str(2**70), "1.5", "")
RANKS = _one_of("0", "0", "1", "2", "7", "-1", "x", str(2**70))
STEPS = _one_of("0", "1", "1", "2", "3", "-1", "99", "x", str(2**70))
RATIOS = _one_of("0", "0.5", "1", "10", "1000", "-1", "nan", "inf", "1e308", "1e-308", "x", "")
SHARES = _one_of("0", "1%", "5%", "100%", "0.5", "1", "-1", "nan", "x", "1e9%")
FACTORS = _one_of("0", "0.5", "1", "2", "1000000", "-1", "nan", "inf", "1e300", "x")
PATTERNS = _some_of("enumerate", "aten::.*", "(", "[", "", ".*", "(a+)+$", "Optimizer", "\\", "x" * 500)
NAMES = ("aten::add", "ProfilerStep#1", "ProfilerStep.*", "forward", "", "nothing", "(", "a\x1b[31mb", "é", "-x")
WHAT = (
    "kernel:.*", "kernel:gemm", "operator:aten::add", "aten::", "annotation:Prof.*", "collective:.*", "class:cpu_bound",
    "class:x", "rank:0", "rank:x", "kernel:(", "", ":", "module:.*", "thing:x", "ncclKernel", "nothing",
)  # fmt: skip
SCENARIOS = (
    "no_waiting", "like_median", "rank_like_others=0", "rank_like_others=9", "rank_like_others", "communication_free",
    "communication=0.5", "communication=x", "launches_free", "cuda_graphs", "no_host_syncs", "data_loading_free",
    "fused=aten::add", "fused", "nothing", "", "=",
)  # fmt: skip

VALUES: dict[str, Callable[[Place], list[str]]] = {
    "--annotation": _one_of(*NAMES), "--around": _one_of("0", "5", "1:3", "-1", "x", str(2**70)), "--between": _pair,
    "--by": _one_of("operator", "thread", "module", "name", "x", "", "stream"), "--cpu": FACTORS, "--gpu": FACTORS,
    "--cache": _cache, "--cluster": _one_of("tcp://127.0.0.1:1", "x", "", "tcp://"),
    "--csv": _file_or_output(".csv"), "--curve": _one_of(*WHAT), "--data-load": PATTERNS, "--depth": COUNTS,
    "--device-trace": _trace, "--dot": _file_or_output(".dot"), "--duration-ratio": RATIOS,
    "--external-ids": _file_or_output(".json"),
    "--fail-above": SHARES, "--flight": _flight, "--host-trace": _host_trace,
    "--instance": _one_of("0", "1", "0:2", "2:1", ":", "-1", "x", str(2**70)), "--jobs": _one_of("1", "1", "0", "x"),
    "--json": _file_or_output(".json"), "--launch-delay-cutoff": RATIOS, "--launch-gap-us": RATIOS,
    "--log-level": _one_of("INFO", "x", ""), "--max-queue-length": COUNTS,
    "--memory": _one_of("4G", "1M", "0", "x", "1e9", "999999999999T"), "--min-pattern-len": COUNTS, "--near": SHARES,
    "--nodes": _file_or_output(".csv"), "--num-kernels": COUNTS, "--operator": _one_of(*NAMES, "aten::"),
    "--operators": _one_of(*NAMES, "aten::"), "--overlay": _file(".json", ".json.gz"),
    "--peaks": _peaks, "--parquet": _file(""),
    "--plot": _file(".html", ".x"), "--prefix": _one_of("trace", "", "../x", "a/b", "é", ".."),
    "--rank": RANKS, "--test-rank": RANKS, "--step": STEPS, "--test-step": STEPS, "--top-k": COUNTS,
    "--remove": _some_of(*WHAT), "--scale": _some_of(*(f"{what}=0.5" for what in WHAT), "kernel:.*=-1", "x", "a=nan"),
    "--scenario": _some_of(*SCENARIOS), "--window": _window, "--runtime-cutoff": RATIOS,
    "--traces": _file(""), "--keep": _one_of("shapes", "names,frames", "annotations,shapes", "", ",", "all"),
    "--workload": _workload_folder,
    "--output": _file(".json", ".html", ".svg", ".dot", ".json.gz", ".x", ""),
}  # fmt: skip
"""What each option can be given, by its longest name; those with choices and flags need no line here."""


def values_of(action: argparse.Action) -> Callable[[Place], list[str]] | None:
    """Return what gives an option's values; none for a flag.

    Raises:
        KeyError: nobody has said what it can be given.
    """
    if action.nargs == 0:
        return None
    known = [VALUES[name] for name in action.option_strings if name in VALUES]
    if not known and action.choices:
        return _one_of(*map(str, action.choices), "x")
    if not known:
        raise KeyError(action.option_strings[-1])
    return known[0]


def question(words: tuple[str, ...], place: Place) -> list[str]:
    """Write the inputs of a case and return a command line of this command."""
    asked = list(words)
    for action in positionals_of(words):
        asked += POSITIONALS[action.dest](place)
    wanted = place.rng.choice((0.05, 0.1, 0.2))
    for action in options_of(words):
        longest = max(action.option_strings, key=len)
        share = 0.97 if action.required or action.dest == "output" else wanted
        if longest == "--jobs" and place.rng.random() < 0.8:
            asked += ["--jobs", "1"]
        elif place.rng.random() < (share / 3 if longest in SLOW_OPTIONS else share):
            give = values_of(action)
            asked += [longest, *(give(place) if give else [])]
    return asked


# --- one case ---------------------------------------------------------------------------------------------------------


def examine_question(command: tuple[str, ...], place: Place) -> tuple[str, list[str]]:
    """Ask a question; return ``answered``, ``in part``, ``refused`` or ``usage``, and the command line.

    Raises:
        BrokenRuleError: the outcome is not what it must be; whatever else goes wrong is raised as it is.
    """
    for folder in (place.inputs, place.outputs):
        folder.mkdir()
    words = question(command, place)
    before = _digest(place.inputs)
    try:
        with warnings.catch_warnings(), time_limit(TIME_LIMIT_S):
            warnings.simplefilter("error")
            with contextlib.chdir(place.outputs):
                answer = run_fuzzed(words)
        _check(words, answer, place)
        require(_digest(place.inputs) == before, "an input was changed")
        require(not list(place.folder.rglob("*.part")), "left behind among what is kept")
    except BaseException as error:
        error.add_note(shlex.join(words))
        raise
    in_part = answer.status == 1 and (bool(answer.out) or any(place.outputs.iterdir()))
    return {0: "answered", 1: "in part" if in_part else "refused", 2: "usage"}[answer.status], words


def _check(words: list[str], answer: CommandResult, place: Place) -> None:
    answer.check()
    status, out, err = answer.status, answer.out, answer.err
    lines = [line for line in err.splitlines() if line.startswith("hta-graph")]
    written = sorted(path for path in place.outputs.rglob("*") if path.is_file())
    require(status == 0 or lines or "--fail-above" in words, f"status {status} without a reason: {err!r}")
    # Ranks that were left out have lines of their own; why a command line is wrong is always the last one, and one.
    require(status != 2 or len(lines) == 1 or "job" in lines[0], f"a wrong command line in {len(lines)} lines: {err!r}")
    require(status != 2 or not (written or out), "a wrong command line and yet output")
    require(all(len(line) <= 2_000 for line in lines), f"no clear line: {max(lines, key=len, default='')[:300]!r}")
    require(status != 0 or out or written or err, "no answer and no error")
    require(not any(".part" in path.name or path.name.startswith(".") for path in written), f"left behind: {written}")
    _check_documents([words[at + 1] for at, word in enumerate(words) if word == "--json"], out)


def _check_documents(targets: list[str], out: bytes) -> None:
    for target in targets[-1:]:
        text = out if target == "-" else Path(target).read_bytes() if Path(target).is_file() else b""
        if not text or (target == "-" and text[:1] != b"{"):
            continue
        document = json.loads(text, parse_constant=_no_constant)
        require(isinstance(document, dict | list), "no document")


def _no_constant(text: str) -> Any:
    require(False, f"JSON holds {text}")


def _digest(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


# --- many cases -------------------------------------------------------------------------------------------------------


@dataclass
class Asked:
    """What became of the questions, by command; failures with the number of the case."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    failures: dict[int, str] = field(default_factory=dict)
    slowest: list[tuple[float, str]] = field(default_factory=list)

    def table(self) -> Iterator[str]:
        """Print the counts per command, and their sums."""
        columns = ("answered", "in part", "refused", "usage", "failures")
        yield f"{'command':<26}{'cases':>8}" + "".join(f"{column:>10}" for column in columns)
        for name in sorted(self.counts):
            yield self._line(name, self.counts[name], columns)
        yield self._line("all", sum(self.counts.values(), Counter()), columns)

    @staticmethod
    def _line(name: str, counts: Counter[str], columns: Sequence[str]) -> str:
        return f"{name:<26}{counts.total():>8,}" + "".join(f"{counts[column]:>10,}" for column in columns)


def fuzz_commands(seed: int, numbers: range, only: str | None = None) -> Asked:
    """Ask the questions of these numbers."""
    commands = sorted(words for words in parsers_by_command() if words != ("demo",) and only in (None, " ".join(words)))
    found = Asked()
    for number in numbers:
        command = commands[number % len(commands)]
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            rng = Rng(f"{seed} {number} command")
            place = Place(Path(folder), rng, number, seed, damaged=rng.random() < 0.6)
            try:
                outcome, words = examine_question(command, place)
            except (Exception, SystemExit):  # noqa: BLE001 - a fuzzer reports whatever is raised
                outcome, words = "failures", []
                found.failures[number] = traceback.format_exc()
        found.counts[" ".join(command)][outcome] += 1
        found.slowest = sorted([*found.slowest, (time.perf_counter() - began, shlex.join(words)[:200])])[-5:]
    return found


def main() -> int:
    """Fuzz as long as asked, and print what became of it."""
    parser = argparse.ArgumentParser(description="Any question to any command.")
    parser.add_argument("--cases", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--command", help="this one alone")
    options = parser.parse_args()
    found = fuzz_commands(options.seed, range(options.first, options.first + options.cases), options.command)
    sys.stdout.write("\n".join(found.table()) + "\n")
    for seconds, words in found.slowest:
        sys.stdout.write(f"{seconds:6.2f} s {words}\n")
    for number, report in found.failures.items():
        sys.stdout.write(f"case {number} of seed {options.seed}\n{report}\n")
    return int(bool(found.failures))


if __name__ == "__main__":
    sys.exit(main())
