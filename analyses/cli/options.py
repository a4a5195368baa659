"""The options that several commands share, in groups."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from analyses.arg_types import RANK, share_of_one, size_in_bytes, whole_number
from analyses.cli.path_args import CacheFolder, InputFile, InputTraces, OutputFile, OutputFileOrFolder
from analyses.description import Flag


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the traces to read."""
    parser.add_argument(
        "inputs",
        type=InputTraces,
        nargs="+",
        metavar="INPUT",
        help="a trace, a folder of rank files, a pattern, URLs of these, or @FILE, which lists some",
    )
    parser.add_argument("--rank", type=RANK, metavar="N", help="of several ranks this one")
    parser.add_argument("--salvage", action="store_true", help="read the whole events of a file that breaks off")


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add how several ranks are read."""
    parser.add_argument(
        "--jobs",
        type=whole_number(1, 999_999),
        metavar="N",
        help="how many processes read ranks at once (one a processor)",
    )
    parser.add_argument(
        "--memory",
        type=size_in_bytes,
        metavar="SIZE",
        help="how much memory reading may take, such as 4G; what needs more is left out (a share)",
    )
    parser.add_argument(
        "--cluster",
        type=_cluster,
        metavar="WHERE",
        help="read ranks with Dask: local, or a scheduler's address such as tcp://host:8786",
    )


def add_summaries(parser: argparse.ArgumentParser) -> None:
    """Add how much of each rank of a job is held at once."""
    parser.add_argument(
        "--skeletons",
        choices=("always", "never"),
        help="hold few rows of each rank, and read again where a path leads (of more than 32 ranks)",
    )
    parser.add_argument(
        "--cache",
        type=CacheFolder,
        metavar="DIR",
        help="keep skeletons there, and take those of files that are the same; safe to delete",
    )


def _cluster(text: str) -> str:
    """Read where a cluster is.

    >>> _cluster("local"), _cluster("tcp://node1:8786")
    ('local', 'tcp://node1:8786')
    """
    from hta_graph.multi_rank.workers.dask_cluster import LOCAL_CLUSTER, is_scheduler_address

    if text != LOCAL_CLUSTER and not is_scheduler_address(text):
        raise argparse.ArgumentTypeError(f"takes local or an address such as tcp://host:8786, not {text!r}")
    return text


def add_flight(parser: argparse.ArgumentParser) -> None:
    """Add what else numbers the collectives of several ranks."""
    parser.add_argument(
        "--flight",
        type=InputTraces,
        nargs="+",
        metavar="FILE",
        help="dumps of the flight recorder, one JSON file a rank (those in a folder flight beside the traces)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add machine output, and how an answer is printed without it."""
    parser.add_argument(
        "--json", type=OutputFile, metavar="FILE", help="write machine-readable output (- for standard output)"
    )
    parser.add_argument("--wide", action="store_true", help="cut nothing to fit the terminal")


def add_window_and_loading(parser: argparse.ArgumentParser) -> None:
    """Add the ways to name a stretch of time, and what counts as data loading in it."""
    add_window(parser)
    parser.add_argument("--data-load", nargs="+", metavar="PATTERN", help="regular expressions of data-loading rows")


def add_window(parser: argparse.ArgumentParser) -> None:
    """Add the ways to name a stretch of time."""
    window = parser.add_mutually_exclusive_group()
    window.add_argument("--step", type=whole_number(), metavar="N", help="the step ProfilerStep#N")
    window.add_argument("--annotation", metavar="NAME", help="a CPU annotation by its exact name")
    window.add_argument("--window", metavar="START_NS:END_NS", help="absolute times in nanoseconds")
    window.add_argument("--whole", action="store_true", help="the whole trace")
    parser.add_argument("--regex", action="store_true", help="NAME is a regular expression that matches the whole name")
    parser.add_argument("--instance", metavar="I[:J]", help="instance I of the annotation, or I to J, both included")
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--cpu-window", action="store_true", help="stop at the step's or annotation's end on the CPU")
    extent.add_argument(
        "--gpu-window", action="store_true", help="from the previous step's end on the GPU to this one's"
    )


def add_near(parser: argparse.ArgumentParser) -> None:
    """Add how close to being critical work is listed."""
    parser.add_argument(
        "--near",
        type=share_of_one,
        metavar="SHARE",
        help="also what is within this share of the window of being critical (1%% or 0.01)",
    )


def add_trace_output(parser: argparse.ArgumentParser, what: str) -> None:
    """Add where the traces that a command writes go: a file, of several ranks a folder."""
    parser.add_argument("-o", "--output", type=OutputFileOrFolder, required=True, metavar="OUT", help=what)


def add_all_rows(parser: argparse.ArgumentParser) -> None:
    """Add how many rows of each table are printed."""
    parser.add_argument("--all", action="store_true", dest="all_rows", help="print every row of every table")


def add_tables(parser: argparse.ArgumentParser) -> None:
    """Add the ways to ask per step, and to write tables and a figure."""
    parser.add_argument("--per-step", action="store_true", help="one row per profiler step instead of one per rank")
    add_table_outputs(parser)


def add_table_outputs(parser: argparse.ArgumentParser) -> None:
    """Add what an answer can be written as."""
    parser.add_argument(
        "--csv", type=OutputFile, metavar="FILE", help="write the main table as CSV (- for standard output)"
    )
    parser.add_argument("--plot", type=OutputFile, metavar="FILE", help="write a figure as a page of its own (.html)")


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
            metavar=flag.value or flag.argument.upper(),
            help=flag.help,
        )
