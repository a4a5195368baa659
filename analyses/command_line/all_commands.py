"""All commands, in the order of the help.

Each analysis of :mod:`analyses.catalogue` is one; another command is a function beside
:mod:`analyses.command_line.commands` and a line here.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from analyses.catalogue import CATALOGUE
from analyses.command_line import commands
from analyses.command_line.ask import ask
from analyses.command_line.chakra.chakra_options import (
    add_check,
    add_convert,
    add_link,
    add_scale,
    add_simulate,
    add_statistics,
)
from analyses.command_line.completion_command import add_shell, completion
from analyses.command_line.counters_command import add_counters, counters
from analyses.command_line.demo_command import add_traces, demo
from analyses.command_line.diff_command import add_pair, diff
from analyses.command_line.kernel_sequences_command import add_overlay, kernel_sequences_command
from analyses.command_line.memory_command import memory_timeline
from analyses.command_line.options import (
    add_flags,
    add_flight,
    add_graph_outputs,
    add_inputs,
    add_jobs,
    add_json,
    add_near,
    add_path_outputs,
    add_picture,
    add_skeletons,
    add_stretch,
    add_sync_outputs,
    add_tables,
    add_timeline,
    add_window,
    add_written,
)
from analyses.command_line.report_command import add_report, report
from analyses.command_line.schema_command import add_name, schema
from analyses.command_line.strip_command import add_strip, strip
from analyses.command_line.what_if_command import add_changes, what_if
from analyses.flags import IndexEntry

__all__ = ["COMMANDS", "Command", "CommandGroup"]

AddOption = Callable[[argparse.ArgumentParser], None]


@dataclass(frozen=True)
class Command:
    """A question on the command line: its name, what it answers, its arguments, and who answers."""

    name: str
    summary: str
    options: tuple[AddOption, ...]
    run: Callable[[argparse.Namespace], None]


@dataclass(frozen=True)
class CommandGroup:
    """Commands under a common first word."""

    name: str
    summary: str
    commands: tuple[Command, ...]


def command_of(entry: IndexEntry) -> Command:
    """Make the command of an analysis: what all share, then its own flags."""
    # The order is that of the help: what is read, how, what is written, then the analysis' own flags.
    between_ranks = () if entry.from_summaries == "no" else (add_flight, add_skeletons)
    shared = (add_inputs, add_jobs, *between_ranks, add_json, add_stretch, add_tables)
    return Command(entry.name, entry.help, (*shared, partial(add_flags, flags=entry.flags)), partial(ask, entry))


def _commands_of_analyses() -> dict[str, Command]:
    """Make the commands of all analyses, by name; two of them take or write something else, too."""
    made = {entry.name: command_of(entry) for entry in CATALOGUE}
    (of_memory,) = (entry for entry in CATALOGUE if entry.name == "memory-timeline")
    made["memory-timeline"] = replace(made["memory-timeline"], run=partial(memory_timeline, of_memory))
    sequences = made["kernel-sequences"]
    made["kernel-sequences"] = replace(
        sequences, options=(*sequences.options, add_overlay), run=kernel_sequences_command
    )
    return made


def _run_chakra(name: str, options: argparse.Namespace) -> None:
    """Run one of Chakra's commands; what runs it is imported now, so that other commands start without it."""
    from analyses.command_line.chakra import chakra_commands as asked

    run = {
        "link": asked.link,
        "convert": asked.convert,
        "check": asked.check,
        "simulate": asked.simulate,
        "scale": asked.scale,
        "statistics": asked.statistics,
    }[name]
    run(options)


CHAKRA = (
    Command(
        "link",
        "Link a host execution trace and a device trace of one rank, as chakra_trace_link does.",
        (add_link,),
        partial(_run_chakra, "link"),
    ),
    Command(
        "convert",
        "Write .et files of all ranks for ASTRA-sim, from device traces (and host traces) or linked ones.",
        (add_inputs, add_jobs, add_convert, add_json),
        partial(_run_chakra, "convert"),
    ),
    Command(
        "check",
        "Find what ASTRA-sim would abort on, stall at in silence, or simulate wrongly.",
        (add_check, add_json),
        partial(_run_chakra, "check"),
    ),
    Command(
        "simulate",
        "Execute .et files by ASTRA-sim's rules, beside what was measured.",
        (add_simulate, add_json),
        partial(_run_chakra, "simulate"),
    ),
    Command(
        "scale",
        "Write a workload again for a faster or slower GPU or CPU.",
        (add_scale,),
        partial(_run_chakra, "scale"),
    ),
    Command(
        "statistics",
        "How long each rank computed and communicated in a run of ASTRA-sim, by its log.",
        (add_statistics, add_json),
        partial(_run_chakra, "statistics"),
    ),
)
"""What makes a simulator's workload of traces."""

OF_ANALYSES = _commands_of_analyses()
LISTED_FIRST = (
    *("temporal-breakdown", "kernel-breakdown", "overlap", "idle-time", "queue-length", "memory-bandwidth"),
    *("launch-stats", "annotations", "attribution", "collectives", "stragglers", "memory-timeline"),
    *("operator-kernels", "hardware-counters", "roofline"),
)
"""In which order errors and completion scripts list analyses; the help has that of the catalogue."""

COMMANDS: tuple[Command | CommandGroup, ...] = (
    Command(
        "demo", "The main job on a bundled sample; writes overlay, picture and timeline here.", (add_traces,), demo
    ),
    Command(
        "info",
        "What is in a trace: events, lanes, steps, edges, diagnostics.",
        (add_inputs, add_jobs, add_json),
        commands.info,
    ),
    Command(
        "critical-path",
        "The critical path of a window; by default the median step, else the whole trace.",
        (add_inputs, add_jobs, add_flight, add_skeletons, add_json, add_window, add_path_outputs, add_near),
        commands.critical_path,
    ),
    Command(
        "what-if",
        "How long a window would be after changes; without any, which changes would gain most.",
        (add_inputs, add_jobs, add_flight, add_skeletons, add_json, add_stretch, add_changes, add_near),
        what_if,
    ),
    Command(
        "graph",
        "Dump the dependency graph as JSON or Parquet; without either, count its edges.",
        (add_inputs, add_jobs, add_flight, add_json, add_graph_outputs),
        commands.graph,
    ),
    Command(
        "sync-deps",
        "What CPU calls and streams waited for, in the whole trace or a window; for simulators.",
        (add_inputs, add_jobs, add_json, add_stretch, add_sync_outputs),
        commands.sync_deps,
    ),
    Command(
        "render",
        "Draw a critical path, the lanes of a window, an event's surroundings, or the way between two events.",
        (add_inputs, add_jobs, add_flight, add_window, add_picture),
        commands.render,
    ),
    Command(
        "timeline",
        "A page of lanes with the critical path drawn through them.",
        (add_inputs, add_jobs, add_flight, add_window, add_timeline),
        commands.timeline,
    ),
    OF_ANALYSES["kernel-sequences"],
    Command(
        "counters",
        "The trace with queue lengths and copy rates as counter tracks, for ui.perfetto.dev.",
        (add_inputs, add_counters),
        counters,
    ),
    Command(
        "strip",
        "The trace without names, paths, hosts and shapes that are somebody's own, and with the same graph.",
        (add_inputs, add_strip),
        strip,
    ),
    Command(
        "diff",
        "What changed between two runs or jobs: on the critical path, by rank, by call path, in the order of kernels.",
        (add_pair, add_jobs, add_skeletons, add_json, add_window, add_written),
        diff,
    ),
    Command(
        "report",
        "One page about a run: verdict, path, kernels, idle causes, overlap, ranks, what is unexplained.",
        (add_inputs, add_jobs, add_flight, add_skeletons, add_window, add_report),
        report,
    ),
    Command("schema", "The JSON Schemas of what the other commands write.", (add_name,), schema),
    Command(
        "completion", "The script with which a shell completes commands, options and files.", (add_shell,), completion
    ),
    CommandGroup("chakra", "Workloads for the simulators of MLCommons Chakra and ASTRA-sim.", CHAKRA),
    *(OF_ANALYSES[name] for name in LISTED_FIRST),
    *(made for name, made in OF_ANALYSES.items() if name not in ("kernel-sequences", *LISTED_FIRST)),
)
