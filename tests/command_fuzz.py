"""Fuzzing of all commands: any options on sound and damaged inputs give an answer, or one clear line and no file.

Every second question to a command is a right command line on sound or once damaged inputs
(``tests.support.sound_words``); the others have any options on any inputs. ``python -m tests.command_fuzz --cases 20000
--seed 1`` prints a table per command and what failed; ``--command NAME`` asks one alone. Which options a command has is
its parser's word: an option without values here fails a test.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import random
import shlex
import sys
from pathlib import Path
from typing import Any

from tests.support.cli_parsers import options_of, parsers_by_command, positionals_of
from tests.support.fuzzed_command import CommandResult, run_fuzzed
from tests.support.fuzzed_inputs import (
    INPUTS,
    Giver,
    Place,
    capture,
    device_trace,
    flight,
    host_trace,
    peaks,
    traces,
    workload_folder,
)
from tests.support.fuzzing import Case, Examine, fuzz_parser, run_fuzz
from tests.support.invariants import require
from tests.support.sound_words import one_of, sound_words
from tests.trace_fuzz import time_limit

Rng = random.Random
TIME_LIMIT_S = 60
SLOW_OPTIONS = ("--plot", "--dot", "--overlay")
"""What takes long to draw is asked more rarely."""


# --- inputs -----------------------------------------------------------------------------------------------------------


def _shell(place: Place) -> list[str]:
    return [place.rng.choice(("bash", "zsh", "tcsh", "x", ""))]


def _schema(place: Place) -> list[str]:
    return place.rng.choice(([], ["info"], ["critical-path"], ["x"], ["../info"], [""]))


POSITIONALS: dict[str, Giver] = {**INPUTS, "shell": _shell, "name": _schema}


# --- options ----------------------------------------------------------------------------------------------------------


def _peaks(place: Place) -> list[str]:
    (written,) = peaks(place)
    return [place.rng.choice((written, written, "MI300X", "A100 SXM 40 GB", "nothing", "", "1e9"))]


def _capture(place: Place) -> list[str]:
    """Name the capture of graphs, a folder of it, or what is none: another trace, a folder without any, nothing."""
    at = place.rng.random()
    if at < 0.2:
        return place.rng.choice((traces(place), [str(place.inputs)], [str(place.inputs / "absent.json")], [""]))
    written = capture(place)
    return [str(place.inputs / "captures")] if at < 0.4 else written


def _baseline(place: Place) -> list[str]:
    """Name a baseline to write: a new file, or one that is read as well."""
    return [place.target(".json", ".json.gz")] if place.rng.random() < 0.8 else traces(place)[:1]


def _some_of(*values: str) -> Giver:
    return lambda place: place.rng.choices(values, k=place.rng.choice((1, 1, 2, 3)))


def _file(*suffixes: str) -> Giver:
    return lambda place: [place.doubtful_target(*suffixes)]


def _file_or_output(*suffixes: str) -> Giver:
    return lambda place: ["-" if place.rng.random() < 0.5 else place.doubtful_target(*suffixes)]


def _pair(place: Place) -> list[str]:
    return [str(place.rng.randrange(60)), str(place.rng.randrange(60))]


def _window(place: Place) -> list[str]:
    start = place.rng.choice((0, 1_000, 10**15, -5))
    return [f"{start}:{start + place.rng.choice((0, 1, 10_000, 10**12, 10**18))}"]


def _cache(place: Place) -> list[str]:
    """Name a folder for the cache: a new one, one that holds something else, or none at all."""
    at = place.rng.random()
    if at < 0.2:
        return [place.rng.choice(("s3://bucket/cache", "", str(place.written("no_folder", b"")), "x\0y"))]
    folder = place.folder / "kept"
    if at < 0.4:
        folder.mkdir(parents=True)
        (folder / f"{'0' * 40}.hta-graph").write_bytes(b"mine")
    return [str(folder)]


COUNTS = one_of("0", "1", "2", "5", "100", "-1", "x", str(2**70), "1.5", "")
RANKS = one_of("0", "0", "1", "2", "7", "-1", "x", str(2**70))
STEPS = one_of("0", "1", "1", "2", "3", "-1", "99", "x", str(2**70))
RATIOS = one_of("0", "0.5", "1", "10", "1000", "-1", "nan", "inf", "1e308", "1e-308", "x", "")
SHARES = one_of("0", "1%", "5%", "100%", "0.5", "1", "-1", "nan", "x", "1e9%")
FACTORS = one_of("0", "0.5", "1", "2", "1000000", "-1", "nan", "inf", "1e300", "x")
PATTERNS = _some_of("enumerate", "aten::.*", "(", "[", "", ".*", "(a+)+$", "Optimizer", "\\", "x" * 500)
STEP_PATTERNS = one_of(
    "my step (?P<batch>[0-9]+)", "(?P<phase>decode|step).*", "(?P<tokens>.*)", "(?P<batch>.)*", "(?P<other>.*)", "(",
    "", ".*", "(?P<phase>", "(a+)+$", "forward", "x" * 500,
)  # fmt: skip
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

VALUES: dict[str, Giver] = {
    "--annotation": one_of(*NAMES), "--around": one_of("0", "5", "1:3", "-1", "x", str(2**70)), "--between": _pair,
    "--by": one_of("operator", "thread", "module", "name", "x", "", "stream"), "--cpu": FACTORS, "--gpu": FACTORS,
    "--cache": _cache, "--capture": _capture, "--cluster": one_of("tcp://127.0.0.1:1", "x", "", "tcp://"),
    "--csv": _file_or_output(".csv"), "--curve": one_of(*WHAT), "--data-load": PATTERNS, "--depth": COUNTS,
    "--device-trace": device_trace, "--dot": _file_or_output(".dot"), "--duration-ratio": RATIOS,
    "--markdown": _file_or_output(".md"), "--update": _baseline,
    "--external-ids": _file_or_output(".json"),
    "--fail-above": SHARES, "--flight": flight, "--host-trace": host_trace,
    "--instance": one_of("0", "1", "0:2", "2:1", ":", "-1", "x", str(2**70)), "--jobs": one_of("1", "1", "0", "x"),
    "--json": _file_or_output(".json"), "--launch-delay-cutoff": RATIOS, "--launch-gap-us": RATIOS,
    "--log-level": one_of("INFO", "x", ""), "--max-queue-length": COUNTS,
    "--memory": one_of("4G", "1M", "0", "x", "1e9", "999999999999T"), "--min-pattern-len": COUNTS, "--near": SHARES,
    "--evidence": one_of("cause:host_work", "scenario:launch_bound", "rank:0", "item:operator:aten::mm", "", "x"),
    "--nodes": _file_or_output(".csv"), "--num-kernels": COUNTS, "--operator": one_of(*NAMES, "aten::"),
    "--operators": one_of(*NAMES, "aten::"), "--overlay": _file(".json", ".json.gz"),
    "--kineto": _file_or_output(".json", ".json.gz"), "--peaks": _peaks, "--parquet": _file(""),
    "--plot": _file(".html", ".x"), "--prefix": one_of("trace", "", "../x", "a/b", "é", ".."),
    "--rank": RANKS, "--test-rank": RANKS, "--step": STEPS,
    "--step-pattern": STEP_PATTERNS, "--test-step": STEPS, "--top-k": COUNTS,
    "--remove": _some_of(*WHAT), "--scale": _some_of(*(f"{what}=0.5" for what in WHAT), "kernel:.*=-1", "x", "a=nan"),
    "--scenario": _some_of(*SCENARIOS), "--window": _window, "--runtime-cutoff": RATIOS,
    "--traces": _file(""), "--keep": one_of("shapes", "names,frames", "annotations,shapes", "", ",", "all"),
    "--workload": workload_folder,
    "--output": _file(".json", ".html", ".svg", ".dot", ".json.gz", ".x", ""),
}  # fmt: skip
"""What each option can be given, by its longest name; those with choices and flags need no line here."""


def values_of(action: argparse.Action) -> Giver | None:
    """Return what gives an option's values; none for a flag.

    Raises:
        KeyError: nobody has said what it can be given.
    """
    if action.nargs == 0:
        return None
    if action.dest == "keep" and action.metavar == "N":
        return COUNTS
    known = [VALUES[name] for name in action.option_strings if name in VALUES]
    if not known and action.choices:
        return one_of(*map(str, action.choices), "x")
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
    if "--plan" in asked:  # takes nothing else
        return [*words, *POSITIONALS["baseline"](place), "--plan"]
    return asked


# --- one case ---------------------------------------------------------------------------------------------------------


def examine_question(command: tuple[str, ...], place: Place, *, is_sound: bool) -> tuple[str, list[str]]:
    """Ask a question; return ``answered``, ``in part``, ``refused`` or ``usage``, and the command line.

    Args:
        command: its words.
        place: where the case lives.
        is_sound: ask as one does who knows the command.

    Raises:
        BrokenRuleError: the outcome is not what it must be; whatever else goes wrong is raised as it is.
    """
    for folder in (place.inputs, place.outputs):
        folder.mkdir()
    words = (sound_words if is_sound else question)(command, place)
    before = _digest(place.inputs)
    try:
        with time_limit(TIME_LIMIT_S), contextlib.chdir(place.outputs):
            answer = run_fuzzed(words)
        _check(words, answer, place)
        require(answer.status != 2 or not is_sound, f"a right command line is called wrong: {answer.err[-300:]!r}")
        require(_digest(place.inputs) == before, "an input was changed")
        require(not list(place.folder.rglob("*.part")), "left behind among what is kept")
    except BaseException as error:
        error.add_note(shlex.join(words))
        raise
    in_part = answer.status in (1, 3) and (bool(answer.out) or any(path.is_file() for path in place.outputs.rglob("*")))
    partly = "in part" if in_part else "refused"
    return {0: "answered", 1: partly, 2: "usage", 3: partly}[answer.status], words


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
    is_gate = words[0] == "gate" or "--fail-above" in words
    require(status != 1 or not is_gate or " above the limit of " in err, f"status 1 and no regression: {err!r}")
    require(status != 3 or is_gate, f"status 3 of a command that compares nothing: {err!r}")
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


COLUMNS = ("right", "right answered", "answered", "in part", "refused", "usage")
"""What the table shows; of right command lines first how many are answered."""


def fuzzed_commands() -> list[tuple[str, ...]]:
    """Return the words of all commands but the demonstration, and the server, which asks standard input."""
    return sorted(words for words in parsers_by_command() if words not in (("demo",), ("mcp",)))


def questions(seed: int, only: str | None = None) -> Examine:
    """Return what asks the questions of a seed: each command in turn, with a right command line at every second."""
    commands = [words for words in fuzzed_commands() if only in (None, " ".join(words))]

    def ask(case: Case) -> tuple[str, ...]:
        command = commands[case.number % len(commands)]
        case.kind = " ".join(command)
        rng = Rng(f"{seed} {case.number} command")
        is_sound = case.number // len(commands) % 2 == 0
        damage = rng.choices(("sound", "once", "damaged"), (6, 4, 0) if is_sound else (3, 1, 6))[0]
        place = Place(case.folder, rng, case.number, seed, command, damage)
        outcome, words = examine_question(command, place, is_sound=is_sound)
        case.origin = shlex.join(words)[:200]
        return (outcome, "right", f"right {outcome}") if is_sound else (outcome,)

    return ask


if __name__ == "__main__":
    parser = fuzz_parser("Any question to any command.", 2_000)
    parser.add_argument("--command", help="this one alone")
    options = parser.parse_args()
    sys.exit(run_fuzz(questions(options.seed, options.command), options, COLUMNS))
