"""Every command that writes, found in the parsers: what it reads, what it can write, and a call of it that works.

A new command is found by itself. Where it needs to be told something, a line in ``TOLD`` says what; a new kind of input
needs a line in ``GIVEN``.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import which

import hta_graph as hg
from analyses.cli.main import main
from analyses.cli.path_args import (
    AnswerFile,
    InputFile,
    InputFolder,
    InputTraces,
    OutputFile,
    OutputFileOrFolder,
    OutputFolder,
    PathArgument,
)
from tests.support.astra_log import Ran, log_text
from tests.support.captured_programs import captured, program
from tests.support.cli_parsers import parsers_by_command
from tests.support.host_builder import host_of
from tests.support.two_rank_job import small_job

GIVEN = {
    "inputs": ["job"],
    "baseline": ["job"],
    "new": ["job"],
    "flight": ["dumps/rank0.json", "dumps/rank1.json"],
    "control": ["job/rank0.json"],
    "test": ["job/rank1.json"],
    "host_trace": ["host/rank0.json"],
    "device_trace": ["job/rank0.json"],
    "folder": ["work"],
    "workload": ["work"],
    "log": ["log"],
    "peaks": ["peaks.json"],
    "capture": ["capture.json"],
    "root": ["job"],
}
"""What each argument that names an input is given, by its name."""

TOLD = {
    "completion": ["bash"],
    "kernel-sequences": ["--operator", "aten::", "--min-pattern-len", "1", "--rank", "0"],
    "render": ["--path"],
    "strip": ["--rank", "0"],
    "scale": ["--gpu", "0.5"],
    "sync-deps": ["--rank", "0"],
    "convert": ["--rank", "0", "--missing-ranks", "as-compute", "--unknown-collectives", "as-compute"],
}
"""What else a command has to be told."""

GO_TOGETHER = {("report", "--overlay"): ("--output",)}
"""Outputs without which another one is refused."""

ALONE = {("gate", "--update")}
"""Outputs that are written instead of the others."""

SUFFIX = {"--plot": ".html", "--dot": ".dot", "--csv": ".csv", "--nodes": ".csv", "--parquet": "", "report": ".html"}
SUFFIX |= {"--markdown": ".md", "timeline": ".html", "render": ".dot"}
DEMO = ("demo_overlay.json", "demo_path.svg" if which("dot") else "demo_path.dot", "demo_timeline.html")


@dataclass(frozen=True)
class Output:
    """Something that a command writes: its option, whether it is a folder, what is given, and where that leads."""

    flag: str
    is_folder: bool
    given: str
    path: str


@dataclass(frozen=True)
class WritingCommand:
    """A command with the inputs that it can read, what else it is told, and all that it can write."""

    words: tuple[str, ...]
    inputs: tuple[tuple[str, tuple[str, ...]], ...]
    told: tuple[str, ...]
    outputs: tuple[Output, ...]
    needed: tuple[Output, ...]

    @property
    def name(self) -> str:
        """Its name, and where it writes into a folder that is there."""
        return " ".join(self.words)

    def arguments(self, outputs: Sequence[Output], *, optional: bool = True, folder: Path | str = ".") -> list[str]:
        """Return a command line that reads below a folder; without ``optional`` only what has to be named is read."""
        read = [
            part
            for flag, values in self.inputs
            if optional or flag not in ("--flight", "--workload", "--capture")
            for part in ([flag] if flag else []) + [f"{folder}/{value}" for value in values]
        ]
        written = [part for output in outputs if output.flag for part in (output.flag, output.given)]
        return [*self.words, *read, *self.told, *written]

    def beside(self, output: Output) -> list[Output]:
        """Return an output and those without which it cannot be written."""
        wanted = GO_TOGETHER.get((self.words[-1], output.flag), ())
        others = [other for other in self.outputs if other.flag in wanted or other in self.needed]
        return [output, *(other for other in others if other.flag != output.flag)]

    def files_read(self) -> list[str]:
        """Return what its inputs are called."""
        return [value for _, values in self.inputs for value in values]


@cache
def writing_commands() -> tuple[WritingCommand, ...]:
    """Return every command that can write something."""
    found = [made for words, parser in parsers_by_command().items() for made in _writing(words, parser._actions)]
    return (*found, WritingCommand(("demo",), (), (), tuple(Output("", False, name, name) for name in DEMO), ()))


def _writing(words: tuple[str, ...], actions: Sequence[argparse.Action]) -> Iterator[WritingCommand]:
    inputs = tuple(
        (action.option_strings[0] if action.option_strings else "", tuple(GIVEN[action.dest]))
        for action in actions
        if action.type in (InputTraces, InputFolder, InputFile)
    )
    # Positional arguments come last: an option that takes several values would swallow them.
    inputs = tuple(sorted(inputs, key=lambda item: not item[0], reverse=True))
    writing = [action for action in actions if _is_written(action)]
    outputs = tuple(_output(words[-1], action) for action in writing)
    needed = tuple(output for output, action in zip(outputs, writing, strict=True) if action.required)
    told = tuple(TOLD.get(words[-1], ()))
    alone = [output for output in outputs if (words[-1], output.flag) in ALONE]
    for together in (tuple(output for output in outputs if output not in alone), *((output,) for output in alone)):
        if together:
            yield WritingCommand(words, inputs, told, together, needed)


def _is_written(action: argparse.Action) -> bool:
    # An answer's file stands for the option of its format, which is here already.
    is_output = isinstance(action.type, type) and issubclass(action.type, (OutputFile, OutputFolder))
    return is_output and action.type is not AnswerFile


def names_a_file(action: argparse.Action) -> bool:
    """Say whether an argument is declared as a file or folder."""
    return isinstance(action.type, type) and issubclass(action.type, PathArgument)


def _output(command: str, action: argparse.Action) -> Output:
    flag = action.option_strings[-1]
    if action.type is OutputFileOrFolder and command != "strip":  # which makes folders itself
        name = "rank_0.json.gz" if command == "graph" else "rank0_with_counters.json"
        return Output(flag, is_folder=False, given="place", path=f"place/{name}")
    is_folder = action.type is OutputFolder
    suffix = "" if is_folder else SUFFIX.get(flag) or (SUFFIX.get(command, ".json") if flag == "--output" else ".json")
    name = f"out{flag.replace('--', '_')}{suffix}"
    return Output(flag, is_folder, name, name)


def write_inputs(folder: Path) -> Path:
    """Write what all commands read: a job of two ranks, dumps, host traces, a workload and its log, a capture."""
    for name in ("job", "dumps", "host", "log", "place"):
        (folder / name).mkdir(parents=True)
    for rank, path in enumerate(small_job(folder / "job")):
        host_of(hg.build_graph(hg.read_trace(path))).write(folder / "host" / path.name)
        entry = {"process_group": ["0", "default_pg"], "collective_seq_id": 7, "profiling_name": "nccl:all_reduce"}
        entry |= {"input_sizes": [[8]], "time_created_ns": rank, "is_p2p": False}
        (folder / "dumps" / path.name).write_text(json.dumps({"version": "2.10", "entries": [entry]}))
    assert main(["chakra", "convert", str(folder / "job"), "-o", str(folder / "work")]) == 0
    assert main(["chakra", "simulate", str(folder / "work"), "--nodes", str(folder / "nodes.csv")]) == 0
    (folder / "log" / "log.log").write_text(log_text(_nodes_run(folder / "nodes.csv")))
    (folder / "nodes.csv").unlink()
    captured([("capture_32_FULL", program("dense", layers=1))]).write(folder / "capture.json")
    (folder / "peaks.json").write_text('{"memory_gb_per_s": 1555}')
    return folder


def _nodes_run(table: Path) -> list[list[Ran]]:
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        [
            Ran(int(row["id"]), int(row["start_ns"]), int(row["end_ns"]), row["name"], row["type"])
            for row in rows
            if row["npu"] == str(npu)
        ]
        for npu in range(2)
    ]
