"""What the commands for Chakra's simulators can be asked for."""

from __future__ import annotations

import argparse

from analyses.command_line.named_files import InputFolder, InputTraces, OutputFile, OutputFolder
from analyses.given_numbers import RANK, factor_text
from hta_graph.export.chakra.workload.convert_options import CHOICES

__all__ = ["add_check", "add_convert", "add_link", "add_scale", "add_simulate", "add_statistics"]


def add_link(parser: argparse.ArgumentParser) -> None:
    """Add the two traces of one rank and where the linked one goes; ``chakra_trace_link``'s names work too."""
    parser.add_argument(
        "--host-trace", "--chakra-host-trace", type=InputTraces, required=True, metavar="FILE",
        help="the host execution trace (torch.profiler.ExecutionTraceObserver)",
    )  # fmt: skip
    parser.add_argument(
        "--device-trace",
        "--chakra-device-trace",
        type=InputTraces,
        required=True,
        metavar="FILE",
        help="the device (Kineto) trace",
    )
    parser.add_argument("--rank", type=RANK, metavar="R", help="the rank of both; default: what the device trace says")
    parser.add_argument(
        "-o",
        "--output",
        "--output-file",
        type=OutputFile,
        required=True,
        metavar="FILE",
        help="the linked trace (- for standard output)",
    )
    parser.add_argument("--force", action="store_true", help="replace an output that exists")
    parser.add_argument("--any-process", action="store_true", help="link traces that name different processes")
    parser.add_argument(
        "--salvage", action="store_true", help="read the whole events of a device trace that breaks off"
    )
    parser.add_argument("--log-level", metavar="LEVEL", help=argparse.SUPPRESS)  # chakra_trace_link's, without effect


def add_convert(parser: argparse.ArgumentParser) -> None:
    """Add what a workload is made of, how, and where it goes."""
    parser.add_argument(
        "--host-trace", type=InputTraces, nargs="+", default=[], metavar="FILE",
        help="host execution traces of the ranks: they add tensors and dependencies by them",
    )  # fmt: skip
    parser.add_argument("-o", "--output", type=OutputFolder, required=True, metavar="DIR", help="the folder to write")
    parser.add_argument("--prefix", default="trace", metavar="NAME", help="the files are NAME.<npu>.et (trace)")
    parser.add_argument(
        "--profile", choices=CHOICES["profile"], default="full",
        help="gpu: leave operators out; the host's time between launches and waits is one delay (full)",
    )  # fmt: skip
    parser.add_argument(
        "--overlap", choices=CHOICES["overlap"], default="keep",
        help="a simulated rank does one thing at a time; rows that ran beside others keep their durations and run "
        "after them, or share the time in which any of them ran (keep)",
    )  # fmt: skip
    parser.add_argument(
        "--unknown-collectives", choices=CHOICES["unknown"], default="error",
        help="what becomes of communication whose type, size or group is not known, or that ASTRA-sim does not run: "
        "as-recorded lets the ranks wait for each other and the recorded transfer pass (of broadcasts too), as-compute "
        "makes compute nodes; of the CPU's only as-recorded makes nodes (error)",
    )  # fmt: skip
    parser.add_argument(
        "--missing-ranks", choices=CHOICES["missing"], default="error",
        help="ranks without a trace: copy lets them do what the lowest given one does; communication with them takes "
        "as long as it did (as-recorded) or becomes compute nodes (as-compute); on the CPU it is time of the thread "
        "that waited (error)",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace a workload that exists")


def add_check(parser: argparse.ArgumentParser) -> None:
    """Add the workload to look at."""
    parser.add_argument("folder", type=InputFolder, metavar="DIR", help="a folder of .et files and comm_groups.json")


def add_simulate(parser: argparse.ArgumentParser) -> None:
    """Add the workload to execute, and what to write."""
    add_check(parser)
    parser.add_argument(
        "--nodes", type=OutputFile, metavar="FILE", help="write when each node started and ended as CSV"
    )


def add_scale(parser: argparse.ArgumentParser) -> None:
    """Add the workload to scale, by how much, and where the scaled one goes."""
    add_check(parser)
    parser.add_argument(
        "--gpu", type=factor_text, default="1", metavar="FACTOR",
        help="durations of compute nodes of the GPU become so many times as long: 0.5 is a GPU twice as fast (1)",
    )  # fmt: skip
    parser.add_argument(
        "--cpu", type=factor_text, default="1", metavar="FACTOR",
        help="the same for the CPU's work: operators and, in the profile gpu, its delays (1)",
    )  # fmt: skip
    parser.add_argument("-o", "--output", type=OutputFolder, required=True, metavar="DIR", help="the folder to write")
    parser.add_argument("--force", action="store_true", help="replace a workload that exists")


def add_statistics(parser: argparse.ArgumentParser) -> None:
    """Add the log of a run, and the workload that was run."""
    parser.add_argument(
        "log", type=InputFolder, metavar="LOG", help='ASTRA-sim\'s logging folder (its system says "trace-enabled": 1)'
    )
    parser.add_argument(
        "--workload",
        type=InputFolder,
        metavar="DIR",
        help="what was run: it says which nodes are work of the CPU, and how many there are",
    )
