"""Command lines as one writes them who has read the help: options that go together, about what the inputs hold."""

from __future__ import annotations

import argparse
import re

import hta_graph as hg
from analyses.declare.description import ATTRIBUTED_TO, OWNER_KINDS
from analyses.schemas.schema_files import schema_names
from tests.support.cli_parsers import options_of, parsers_by_command, positionals_of
from tests.support.fuzzed_inputs import (
    INPUTS,
    Giver,
    Place,
    capture,
    device_trace,
    flight,
    host_trace,
    peaks,
    workload_folder,
)

SHARE = 0.15
"""How often an option is given."""
USUAL = {
    "--output": 0.3, "--json": 0.3, "--unknown-collectives": 0.8, "--missing-ranks": 0.8, "--summaries": 0.3,
    "--gpu": 0.7, "--cpu": 0.7, "--dot": 0.05, "--plot": 0.05,
    "--overlay": 0.1, "--window": 0.3, "--instance": 0.6, "--regex": 0.5,
}  # fmt: skip
"""How often other ones are."""
NEVER = ("--cluster", "--names", "--plan", "--scenarios", "--version")
"""What starts processes, answers without reading anything, or takes one input of two."""
NEEDS = {
    "--regex": "--annotation",
    "--instance": "--annotation",
    "--keep": "--update",
    "--merge-runs": "--json",
    "--test-step": "--step",
    "--with-hosts": "--update",
}
"""What has no meaning without another option."""
WINDOWS = ("--step", "--annotation", "--window", "--whole")
NOT_BESIDE = {
    "--gpu-window": ("--annotation", "--window", "--whole"),
    "--cpu-window": ("--window", "--whole"),
    "--per-step": (*WINDOWS, "--cpu-window", "--gpu-window"),
    "--merge-runs": ("--per-step",),
    "--json": ("--update",),
    "--markdown": ("--update",),
    "--near": ("--per-step", "--summaries"),
    "--evidence": ("--per-step", "--summaries", "--overlay", "--dot", "--merge-runs", "--near"),
    "--curve": ("--summaries",),
    "--cache": ("--no-cache",),
    "--dot": ("--per-step",),
    "--overlay": ("--per-step", "--summaries"),
}
"""Options that are refused beside others."""
INSTEAD_OF_TEXT = ("--json", "--csv", "--plot", "--external-ids", "--parquet", "--kineto", "--markdown", "--update")
"""Options beside which an answer has no file of its own."""


def sound_words(words: tuple[str, ...], place: Place) -> list[str]:
    """Write the inputs of a case, and return a command line that is right."""
    asked = list(words)
    for action in positionals_of(words):
        asked += INPUTS[action.dest](place) if action.dest in INPUTS else _other_word(action, place)
    for action in _chosen(words, place):
        values = [] if action.nargs == 0 else _values(action)(place)
        asked += [_name(action), *values]
    # Lanes are drawn in one format only.
    return [re.sub(r"\.dot$", ".svg", word) for word in asked] if "--lanes" in asked else asked


def _other_word(action: argparse.Action, place: Place) -> list[str]:
    known = {"shell": ["bash", "zsh", "fish"], "name": ["", *schema_names()]}[action.dest]
    word = place.rng.choice(known)
    return [word] if word else []


def _name(action: argparse.Action) -> str:
    return max(action.option_strings, key=len)


def _chosen(words: tuple[str, ...], place: Place) -> list[argparse.Action]:
    """Return options that go together."""
    actions = {_name(action): action for action in options_of(words) if _name(action) not in NEVER}
    chosen = {name: action for name, action in actions.items() if _is_wanted(name, action, words, place)}
    for group in parsers_by_command()[words]._mutually_exclusive_groups:
        names = [_name(action) for action in group._group_actions]
        given = [name for name in names if name in chosen] or (names if group.required else [])
        kept = place.rng.choice(given) if given else ""
        chosen = {name: action for name, action in chosen.items() if name not in names}
        chosen |= {kept: actions[kept]} if kept else {}
    for name, others in NOT_BESIDE.items():
        if any(other in chosen for other in others):
            chosen.pop(name, None)
    if "--output" in chosen and chosen["--output"].dest == "answer":
        chosen = {name: action for name, action in chosen.items() if name not in INSTEAD_OF_TEXT}
    for name, other in NEEDS.items():
        if other not in chosen and other in actions:
            chosen.pop(name, None)
    if (
        place.is_job
        and chosen.keys() & {"--overlay", "--near", "--evidence", "--curve", "--external-ids"}
        and "--rank" in actions
    ):
        chosen["--rank"] = actions["--rank"]
    if place.is_job and words[-1] in ("diff", "gate", "stragglers"):
        chosen.pop("--rank", None)
    place.asked = frozenset(chosen)
    # In the order of the parser: an option with many values takes what follows it.
    return [action for name, action in actions.items() if name in chosen]


def _is_wanted(name: str, action: argparse.Action, words: tuple[str, ...], place: Place) -> bool:
    always = action.required or name == "--jobs" or (name == "--output" and words == ("report",))
    return bool(always or place.rng.random() < USUAL.get(name, SHARE))


def _values(action: argparse.Action) -> Giver:
    if action.choices:
        return one_of(*map(str, action.choices))
    if action.dest == "keep" and action.metavar == "N":
        return one_of("1", "3")
    return VALUES[_name(action)]


# --- values -----------------------------------------------------------------------------------------------------------


def one_of(*values: str) -> Giver:
    """Give one of some values."""
    return lambda place: [place.rng.choice(values)]


def _file(*suffixes: str) -> Giver:
    return lambda place: [place.target(*suffixes)]


def _found(pattern: bytes, otherwise: str) -> Giver:
    return lambda place: [place.found(pattern, otherwise)]


def _kineto(place: Place) -> list[str]:
    return [_folder(place, "graph") if place.is_job else place.target(".json", ".json.gz")]


def _output(place: Place) -> list[str]:
    """Name the file or folder that a command writes."""
    command = place.command[-1]
    suffixes = {
        "render": (".dot", ".svg") if place.rng.random() < 0.2 else (".dot",),
        "timeline": (".html",), "report": (".html",), "link": (".json",), "convert": ("",), "scale": ("",),
        "completion": (".txt",), "schema": (".json",),
    }  # fmt: skip
    if command in ("strip", "counters"):
        of_several = place.is_job and (command == "counters" or "--rank" not in place.asked)
        return [_folder(place, command) if of_several else place.target(".json", ".json.gz")]
    names = {_name(action) for action in options_of(place.command)}
    answers = [suffix for suffix, name in ((".csv", "--csv"), (".html", "--plot")) if name in names]
    if command == "sync-deps":
        answers = [".csv"]
    return [place.target(*suffixes.get(command, (".json", ".txt", *answers)))]


def _folder(place: Place, command: str) -> str:
    folder = place.outputs / "folder"
    if command in ("counters", "graph"):  # which write into a folder that is there
        folder.mkdir()
    return str(folder)


def _window(place: Place) -> list[str]:
    """Name a part of what was recorded."""
    try:
        events = next(iter(hg.read_traces(next(place.inputs.rglob("*.*"))))).events
    except (hg.HtaGraphError, StopIteration):
        return ["0:1000000"]
    first, last = (int(events.start.min()), int(events.end.max())) if len(events) else (0, 10**6)
    times = sorted(max(place.rng.randint(first, max(first, last)), 0) for _ in range(2))
    return [f"{times[0]}:{max(times[1], times[0] + 1)}"]


def _events(count: int) -> Giver:
    """Give positions of rows, the lower first."""

    def give(place: Place) -> list[str]:
        rows = place.texts[0].count(b'"ph"') if place.texts else 9
        rank = "0:" if place.is_job else ""
        return [f"{rank}{at}" for at in sorted(place.rng.randrange(max(rows, 1)) for _ in range(count))]

    return give


def _owners(place: Place) -> list[str]:
    return [place.rng.choice(OWNER_KINDS if place.command[-1] == "memory-timeline" else ATTRIBUTED_TO)]


def _new_folder(place: Place) -> list[str]:
    return [str(place.folder / "kept")]


STEP = rb"ProfilerStep#(\d{1,6})"
OPERATOR = rb'"name": ?"([a-z]+::[a-z_]+)"'
PARTS = ("kernel:.*", "kernel:gemm", "operator:aten::add", "annotation:Prof.*", "collective:.*", "class:cpu_bound")
SCENARIOS = (
    "no_waiting", "like_median", "rank_like_others=0", "communication_free", "communication=0.5", "launches_free",
    "cuda_graphs", "no_host_syncs", "data_loading_free",
)  # fmt: skip
VALUES: dict[str, Giver] = {
    "--annotation": lambda place: [f"ProfilerStep#{place.found(STEP, '1')}"],
    "--around": _events(1), "--between": _events(2), "--by": _owners, "--cache": _new_folder,
    "--capture": capture,
    "--cpu": one_of("0.5", "1", "2"), "--gpu": one_of("0.5", "1", "2"), "--csv": _file(".csv"),
    "--curve": one_of(*PARTS), "--data-load": one_of("enumerate", "DataLoader.*"), "--depth": one_of("0", "1", "3"),
    "--device-trace": device_trace, "--dot": _file(".dot"), "--duration-ratio": one_of("0.5", "1"),
    "--evidence": one_of("cause:host_work", "cause:gpu_compute_bound"),
    "--external-ids": _file(".json"), "--fail-above": one_of("0", "5%"), "--flight": flight,
    "--host-trace": host_trace, "--instance": one_of("0", "0:1"), "--jobs": one_of("1"),
    "--json": lambda place: ["-"] if place.rng.random() < 0.3 else [place.target(".json")],
    "--markdown": _file(".md"), "--update": _file(".json", ".json.gz"),
    "--keep": one_of("shapes", "names,frames", "annotations"), "--kineto": _kineto,
    "--launch-delay-cutoff": one_of("100"),
    "--launch-gap-us": one_of("1", "50"), "--log-level": one_of("INFO"), "--max-queue-length": one_of("1", "100"),
    "--memory": one_of("4G"), "--min-pattern-len": one_of("1", "2", "3"), "--near": one_of("1%", "20%"),
    "--nodes": _file(".csv"), "--num-kernels": one_of("1", "5"), "--operator": _found(OPERATOR, "aten::add"),
    "--operators": one_of("aten::", "aten::add"), "--output": _output, "--overlay": _file(".json", ".json.gz"),
    "--peaks": lambda place: peaks(place) if place.rng.random() < 0.5 else ["A100 SXM 40 GB"],
    "--parquet": _file(""), "--plot": _file(".html"), "--prefix": one_of("trace"),
    "--rank": lambda place: [place.rng.choice("01") if place.is_job else "0"], "--test-rank": one_of("0"),
    "--remove": one_of(*PARTS), "--runtime-cutoff": one_of("50"), "--scenario": one_of(*SCENARIOS),
    "--scale": lambda place: [f"{place.rng.choice(PARTS)}=0.5"], "--step": _found(STEP, "1"),
    "--step-pattern": one_of("my step (?P<batch>[0-9]+)", "(?P<phase>forward)"),
    "--test-step": _found(STEP, "1"), "--top-k": one_of("1", "3"), "--window": _window, "--workload": workload_folder,
}  # fmt: skip
"""What each option is given."""
