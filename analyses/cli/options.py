"""The options that several commands share, under the headings of the help."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from analyses.cli.path_args import (
    AnswerFile,
    InputFile,
    InputTraces,
    JsonFile,
    OutputFile,
    OutputFileOrFolder,
    ReusedFolder,
)
from analyses.declare.arg_types import RANK, STEP, expected, share_of_one, size_in_bytes, whole_number

if TYPE_CHECKING:
    from analyses.declare.description import Flag, FlagReader

READING, RANKS, WINDOW, OUTPUT = "reading", "multiple ranks", "window", "output"
"""Headings of the help, below which options of all commands are."""


SHOWN_BY_HELP_ALL = frozenset({
    "all_rows", "cache", "capture", "cluster", "cpu_window", "data_load", "flight", "gpu_window", "ignore_records",
    "instance", "jobs", "memory", "no_cache", "regex", "salvage", "step_pattern", "summaries", "wide",
})  # fmt: skip
"""Options that many commands share and few questions need: ``--help-all`` and the manual list them."""
METAVARS: Mapping[FlagReader, str] = {"count": "N", "file": "FILE", "microseconds": "US", "share": "SHARE"}
"""How the help names the value of an analysis' option, by its type."""


def heading(parser: argparse.ArgumentParser, title: str) -> argparse._ArgumentGroup:
    """Return the options of a parser below a heading."""
    groups = parser._action_groups  # noqa: SLF001 - argparse has no other list of them
    return next((group for group in groups if group.title == title), None) or parser.add_argument_group(title)


def add_alias(parser: argparse.ArgumentParser, action: argparse.Action, *names: str) -> None:
    """Let an option have earlier names, which work and which neither help nor completion lists."""
    parser._option_string_actions.update(dict.fromkeys(names, action))  # noqa: SLF001 - it reads options by them


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the traces to read, and what names their kernels."""
    add_traces(parser)
    add_cache(parser)
    add_capture(parser)


def add_traces(parser: argparse.ArgumentParser) -> None:
    """Add the traces to read."""
    parser.add_argument(
        "inputs",
        type=InputTraces,
        nargs="+",
        metavar="INPUT",
        help="trace, folder of rank files, glob, URL or @LIST",
    )
    heading(parser, READING).add_argument("--rank", type=RANK, metavar="N", help="analyze only rank N")
    add_salvage(parser)
    heading(parser, READING).add_argument(
        "--ignore-records",
        action="store_true",
        help="infer dependencies instead of reading synchronization records and graph arrows, to compare; no cache",
    )


def add_salvage(parser: argparse.ArgumentParser) -> None:
    """Add whether damaged files are read as far as possible."""
    heading(parser, READING).add_argument(
        "--salvage", action="store_true", help="recover complete events from a damaged file"
    )


def add_cache(parser: argparse.ArgumentParser) -> None:
    """Add where graphs are cached."""
    caches = heading(parser, READING).add_mutually_exclusive_group()
    caches.add_argument(
        "--cache",
        type=ReusedFolder,
        metavar="DIR",
        help="cache graphs in DIR; reuse those of unchanged files (default: the user's cache folder)",
    )
    caches.add_argument("--no-cache", action="store_true", help="read every file; cache nothing")


def add_capture(parser: argparse.ArgumentParser) -> None:
    """Add the recordings that name the kernels of CUDA graphs."""
    heading(parser, READING).add_argument(
        "--capture",
        type=InputTraces,
        nargs="+",
        default=(),
        metavar="CAPTURE_TRACE",
        help="recording of the capture of CUDA or HIP graphs; names the kernels of their replays",
    )


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add how several ranks are read."""
    reading = heading(parser, READING)
    reading.add_argument(
        "--jobs",
        type=whole_number(1, 999_999),
        metavar="N",
        help="number of processes that read ranks (default: one per CPU)",
    )
    reading.add_argument(
        "--memory",
        type=size_in_bytes,
        metavar="SIZE",
        help="memory limit for reading, such as 4G; leave out files that need more (default: most free memory)",
    )
    reading.add_argument(
        "--cluster",
        type=_cluster,
        metavar="WHERE",
        help="read ranks with Dask: local, or a scheduler such as tcp://host:8786",
    )


def add_summaries(parser: argparse.ArgumentParser) -> None:
    """Add how much of each rank of a job is held in memory."""
    ranks = heading(parser, RANKS)
    summaries = ranks.add_argument(
        "--summaries",
        choices=("always", "never"),
        help="keep a summary of each rank and re-read files on demand (default: if whole graphs exceed memory)",
    )
    add_alias(parser, summaries, "--skeletons")


def _cluster(text: str) -> str:
    """Read where a cluster is.

    >>> _cluster("local"), _cluster("tcp://node1:8786")
    ('local', 'tcp://node1:8786')
    """
    from hta_graph.multi_rank.workers.dask_cluster import LOCAL_CLUSTER, is_scheduler_address

    if text != LOCAL_CLUSTER and not is_scheduler_address(text):
        raise expected("local or an address such as tcp://host:8786", text)
    return text


def add_flight(parser: argparse.ArgumentParser) -> None:
    """Add the dumps that number the collectives of a job."""
    heading(parser, RANKS).add_argument(
        "--flight",
        type=InputTraces,
        nargs="+",
        metavar="FILE",
        help="flight-recorder dumps, one JSON file per rank (default: those in flight/ next to the traces)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add machine-readable output, and how an answer is printed without it."""
    output = heading(parser, OUTPUT)
    output.add_argument("--json", type=JsonFile, metavar="FILE", help="write JSON (- for standard output)")
    output.add_argument("--wide", action="store_true", help="print tables in full width")


def add_answer(parser: argparse.ArgumentParser) -> None:
    """Add the file that gets the answer instead of the terminal, with machine-readable output."""
    _add_answer_file(parser, ".json, else text")
    add_json(parser)


def add_answer_with_table(parser: argparse.ArgumentParser) -> None:
    """Add the same where the answer has a main table."""
    _add_answer_file(parser, ".json, .csv, else text")
    _add_csv(parser)
    add_json(parser)


def _add_answer_file(parser: argparse.ArgumentParser, formats: str) -> None:
    heading(parser, OUTPUT).add_argument(
        "-o", "--output", dest="answer", type=AnswerFile, metavar="FILE", help=f"write the answer to FILE: {formats}"
    )


def _add_csv(parser: argparse.ArgumentParser) -> None:
    """Add an earlier option, which works and which no help lists: ``-o FILE.csv``."""
    parser.add_argument("--csv", type=OutputFile, metavar="FILE", help=argparse.SUPPRESS)


def add_text_output(parser: argparse.ArgumentParser) -> None:
    """Add the file that gets a text instead of standard output."""
    parser.add_argument(
        "-o",
        "--output",
        dest="answer",
        type=OutputFile,
        metavar="FILE",
        help="write to FILE (default: standard output)",
    )


def add_window_and_loading(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a window, and what counts as data loading in it."""
    add_window(parser)
    heading(parser, WINDOW).add_argument(
        "--data-load", nargs="+", metavar="PATTERN", help="regular expressions for names of data-loading events"
    )


def add_step_pattern(parser: argparse.ArgumentParser) -> None:
    """Add further names of steps."""
    heading(parser, WINDOW).add_argument(
        "--step-pattern",
        action="append",
        metavar="REGEX",
        help="annotations with this full name are steps; groups (?P<phase>), (?P<batch>) and (?P<tokens>) are read",
    )


def add_window(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a window."""
    options = heading(parser, WINDOW)
    window = options.add_mutually_exclusive_group()
    window.add_argument("--step", type=STEP, metavar="N", help="step N (ProfilerStep#N, or an inference engine's)")
    window.add_argument("--annotation", metavar="NAME", help="CPU annotation NAME (exact match)")
    window.add_argument("--window", metavar="START:END", help="absolute times in nanoseconds")
    window.add_argument("--whole", action="store_true", help="whole trace")
    options.add_argument("--regex", action="store_true", help="NAME is a regular expression for the full name")
    options.add_argument(
        "--instance", metavar="I[:J]", help="instance I of the annotation, or I to J inclusive (default: 0)"
    )
    add_step_pattern(parser)
    extent = options.add_mutually_exclusive_group()
    extent.add_argument("--cpu-window", action="store_true", help="end where the step or annotation ends on the CPU")
    extent.add_argument(
        "--gpu-window", action="store_true", help="from the previous step's end to this step's end, both on the GPU"
    )


def add_near(parser: argparse.ArgumentParser) -> None:
    """Add the slack below which work is listed as near-critical."""
    parser.add_argument(
        "--near",
        type=share_of_one,
        metavar="SHARE",
        help="also list near-critical work; its slack is below SHARE of the window, such as 1%%",
    )


def add_trace_output(parser: argparse.ArgumentParser, what: str) -> None:
    """Add where a command writes traces: to a file, or for multiple ranks to a folder."""
    heading(parser, OUTPUT).add_argument(
        "-o", "--output", type=OutputFileOrFolder, required=True, metavar="OUT", help=what
    )


def add_per_step(parser: argparse.ArgumentParser) -> None:
    """Add one row per step."""
    parser.add_argument("--per-step", action="store_true", help="print one row per step instead of one per rank")


def add_all_rows(parser: argparse.ArgumentParser) -> None:
    """Add the number of rows that are printed of each table."""
    heading(parser, OUTPUT).add_argument(
        "--all", action="store_true", dest="all_rows", help="print every row of every table"
    )


def add_table_answer(parser: argparse.ArgumentParser) -> None:
    """Add what an answer that is a table can be written as."""
    _add_answer_file(parser, ".json, .csv, .html, else text")
    add_json(parser)
    _add_csv(parser)
    parser.add_argument("--plot", type=OutputFile, metavar="FILE", help=argparse.SUPPRESS)  # -o FILE.html


def add_flags(parser: argparse.ArgumentParser, flags: Iterable[Flag]) -> None:
    """Add the own options of one analysis."""
    for flag in flags:
        if flag.reader == "switch":
            parser.add_argument(flag.option, action="store_true", help=flag.help)
            continue
        parser.add_argument(
            flag.option,
            type=InputFile if flag.reader == "file" else flag.read,
            nargs="+" if flag.many else None,
            required=flag.is_required,
            default=None if flag.is_required else flag.default,
            metavar=flag.value or METAVARS.get(flag.reader, flag.argument.upper()),
            help=flag.help,
        )
