"""All commands, in the order of the help.

To add an analysis: its file and a line here that names it; another command: a function in
:mod:`analyses.command_line.commands` too.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from analyses.command_line import chakra_commands, commands
from analyses.command_line.ask import Flag, add_flags, add_tables, add_written, ask, number, one_of
from analyses.command_line.chakra_options import add_check, add_convert, add_link, add_simulate
from analyses.command_line.counters_command import add_counters, counters
from analyses.command_line.diff_command import add_pair, diff
from analyses.command_line.kernel_sequences_command import add_sequences, kernel_sequences
from analyses.command_line.memory_command import memory_timeline
from analyses.command_line.options import (
    add_graph_outputs,
    add_inputs,
    add_jobs,
    add_json,
    add_path_outputs,
    add_picture,
    add_stretch,
    add_sync_outputs,
    add_timeline,
    add_window,
)
from analyses.command_line.report_command import add_report, report

__all__ = ["CATALOGUE", "Command", "CommandGroup"]


@dataclass(frozen=True)
class Command:
    """A question on the command line: its name, what it answers, its arguments, and who answers."""

    name: str
    summary: str
    options: tuple[Callable[[argparse.ArgumentParser], None], ...]
    run: Callable[[argparse.Namespace], None]


@dataclass(frozen=True)
class CommandGroup:
    """Commands under a common first word."""

    name: str
    summary: str
    commands: tuple[Command, ...]


def analysis(name: str, summary: str, module: str, *flags: Flag) -> Command:
    """Make the command of an analysis: a module with ``answer(scopes, **flags)`` and ``figure(answer)``."""
    options = (add_inputs, add_jobs, add_json, add_stretch, add_tables, add_flags(flags))
    return Command(name, summary, options, partial(ask, name, module, flags))


OWNERS = ("operator", "frame", "module", "annotation")
MEMORY_BY = Flag("--by", one_of(*OWNERS), "operator", f"on whose behalf: {', '.join(OWNERS)}")
MEMORY_TIMELINE = replace(
    analysis(
        "memory-timeline",
        "How much memory tensors take, its peak and what was alive then; of traces or the profiler's raw export.",
        "analyses.memory.memory_timeline",
        MEMORY_BY,
    ),
    run=partial(memory_timeline, flags=(MEMORY_BY,)),
)

ANALYSES = (
    analysis(
        "temporal-breakdown",
        "How much of the time the GPU computes, talks, moves memory, or is idle.",
        "analyses.gpu_time.temporal_breakdown",
    ),
    analysis(
        "kernel-breakdown",
        "GPU time per type of work, alone and overlapping, and the kernels that take it.",
        "analyses.gpu_time.kernel_breakdown",
        Flag("--duration-ratio", float, 0.8, "name the kernels that make up this share of a type's time"),
        Flag("--num-kernels", int, 10, "name at most this many kernels of a type"),
        Flag("--by-quantile", bool, None, "choose the names by HTA's rule instead of by share of time"),
        Flag("--no-memory-kernels", bool, None, "leave copies and sets out"),
    ),
    analysis(
        "overlap",
        "How much communication and copying is hidden behind other work, and which collectives stay exposed.",
        "analyses.gpu_time.overlap",
    ),
    analysis(
        "idle-time",
        "Why the GPU has nothing to run: by cause, by the wait or operator behind it, per gap and per stream.",
        "analyses.idle.idle_time",
        Flag(
            "--launch-gap-us", number(float, 0), 30.0, "a gap shorter than this after a launch in time is usual, in µs"
        ),
        Flag("--data-load", str, (), "regular expressions of data-loading rows", many=True),
    ),
    analysis(
        "queue-length",
        "How many launches wait on each stream, and how long a full queue held the CPU.",
        "analyses.launches.queue_length",
        Flag("--max-queue-length", number(int, 1), 1024, "a queue of so many launches is full"),
    ),
    analysis(
        "memory-bandwidth",
        "What copies and sets moved, and at which rate.",
        "analyses.memory.memory_bandwidth",
    ),
    analysis(
        "launch-stats",
        "How long launches take on the CPU, and what their work waited for before it started.",
        "analyses.launches.launch_stats",
        Flag("--runtime-cutoff", number(float, 0), 50, "a call that takes longer, in µs, is an outlier"),
        Flag("--launch-delay-cutoff", number(float, 0), 100, "a longer launch delay, in µs, is an outlier"),
        Flag("--no-memory-events", bool, None, "leave copies and sets out"),
    ),
    analysis(
        "annotations",
        "How long the program's named parts take on the CPU, and what GPU work they ask for.",
        "analyses.owners.annotation_times",
    ),
    analysis(
        "attribution",
        "Whose work the GPU does: operators, Python frames, modules, annotations.",
        "analyses.owners.attribution",
        Flag(
            "--by",
            one_of(*OWNERS, "module-class", "activity"),
            "operator",
            f"{', '.join(OWNERS)}, module-class, or activity (a list)",
        ),
    ),
    analysis(
        "collectives",
        "Who came last to each collective of several ranks, how long the others waited, how long it transferred.",
        "analyses.ranks.collectives",
    ),
    analysis(
        "stragglers",
        "Which ranks the others wait for.",
        "analyses.ranks.stragglers",
    ),
    MEMORY_TIMELINE,
    analysis(
        "operator-kernels",
        "Which kernels each operator launches, and how long it takes until they are launched and start.",
        "analyses.launches.operator_kernels",
        Flag("--operators", str, "aten::", "operators whose names start so; '' takes all"),
    ),
    analysis(
        "hardware-counters",
        "What CUPTI's hardware counters counted, by the operator that launched the kernel.",
        "analyses.owners.hardware_counters",
    ),
)
"""Questions about ranks and steps. To add one: its file, a line here, its test."""

CHAKRA = (
    Command(
        "link",
        "Link a host execution trace and a device trace of one rank, as chakra_trace_link does.",
        (add_link,),
        chakra_commands.link,
    ),
    Command(
        "convert",
        "Write .et files of all ranks for ASTRA-sim, from device traces (and host traces) or linked ones.",
        (add_inputs, add_jobs, add_convert, add_json),
        chakra_commands.convert,
    ),
    Command(
        "check",
        "Find what ASTRA-sim would abort on, stall at in silence, or simulate wrongly.",
        (add_check, add_json),
        chakra_commands.check,
    ),
    Command(
        "simulate",
        "Execute .et files by ASTRA-sim's rules, beside what was measured.",
        (add_simulate, add_json),
        chakra_commands.simulate,
    ),
)
"""What makes a simulator's workload of traces."""

CATALOGUE: tuple[Command | CommandGroup, ...] = (
    Command("demo", "The main job on a bundled sample; writes overlay, picture and timeline here.", (), commands.demo),
    Command(
        "info",
        "What is in a trace: events, lanes, steps, edges, diagnostics.",
        (add_inputs, add_jobs, add_json),
        commands.info,
    ),
    Command(
        "critical-path",
        "The critical path of a window; by default the first step that launched GPU work, else the whole trace.",
        (add_inputs, add_json, add_window, add_path_outputs),
        commands.critical_path,
    ),
    Command(
        "graph",
        "Dump the dependency graph as JSON or Parquet; without either, count its edges.",
        (add_inputs, add_json, add_graph_outputs),
        commands.graph,
    ),
    Command(
        "sync-deps",
        "What CPU calls and streams waited for, in the whole trace or a window; for simulators.",
        (add_inputs, add_json, add_stretch, add_sync_outputs),
        commands.sync_deps,
    ),
    Command(
        "render",
        "Draw a critical path, an event's surroundings, or the way between two events.",
        (add_inputs, add_window, add_picture),
        commands.render,
    ),
    Command(
        "timeline",
        "A page of lanes with the critical path drawn through them.",
        (add_inputs, add_window, add_timeline),
        commands.timeline,
    ),
    Command(
        "kernel-sequences",
        "The sequences of GPU work under an operator, how often each occurs and how long it takes.",
        (add_inputs, add_json, add_stretch, add_tables, add_sequences),
        kernel_sequences,
    ),
    Command(
        "counters",
        "The trace with queue lengths and copy rates as counter tracks, for ui.perfetto.dev.",
        (add_inputs, add_counters),
        counters,
    ),
    Command(
        "diff",
        "What changed between two runs: on the critical path, by call path, in the order of kernels, by name.",
        (add_pair, add_json, add_window, add_written),
        diff,
    ),
    Command(
        "report",
        "One page about a run: verdict, path, kernels, idle causes, overlap, ranks, what is unexplained.",
        (add_inputs, add_window, add_report),
        report,
    ),
    CommandGroup("chakra", "Workloads for the simulators of MLCommons Chakra and ASTRA-sim.", CHAKRA),
    *ANALYSES,
)
