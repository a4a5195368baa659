"""What the help says beside commands and their options: what to try first, exit statuses, examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analyses.command_line.command import Command

__all__ = ["EXIT_STATUSES", "FIRST_COMMANDS", "HELP", "CommandHelp", "exit_status_lines", "further_help"]

EXIT_STATUSES = {
    0: "done; an analysis that finds nothing says what is missing",
    1: "the trace cannot answer, or one of several could not be read; a line on standard error says why",
    2: "wrong usage",
    130: "interrupted",
}
"""Exit status → what it means, of every command."""

FIRST_COMMANDS = {
    "hta-graph demo --traces DIR": "traces to try all of this on",
    "hta-graph critical-path TRACE": "what decides how long a step takes",
    "hta-graph report TRACE -o report.html": "all answers on one page",
}
"""What to try first → what it gives."""


@dataclass(frozen=True)
class CommandHelp:
    """What else an analysis tells, its examples, and the page of the manual in ``docs/``."""

    tells: str
    examples: tuple[str, ...]
    page: str


HELP: Mapping[str, CommandHelp] = {
    "temporal-breakdown": CommandHelp(
        "Every nanosecond counts once: computing, exposed communication, exposed copies, idle.",
        ("temporal-breakdown trace.json.gz", "temporal-breakdown job --per-step --csv times.csv"),
        "tables.md",
    ),
    "kernel-breakdown": CommandHelp(
        "Computation, communication and memory, and how much of them overlaps.",
        ("kernel-breakdown trace.json.gz", "kernel-breakdown job --step 2"),
        "tables.md",
    ),
    "overlap": CommandHelp(
        "Communication is exposed where nothing computes beside it.",
        ("overlap trace.json.gz", "overlap job --per-step"),
        "tables.md",
    ),
    "idle-time": CommandHelp(
        "Each gap has a cause: no work was launched yet, a launch was late, a kernel waited for another stream.",
        ("idle-time trace.json.gz", "idle-time job --step 2"),
        "tables.md",
    ),
    "queue-length": CommandHelp(
        "A full queue holds the CPU until the GPU has caught up.",
        ("queue-length trace.json.gz",),
        "tables.md",
    ),
    "memory-bandwidth": CommandHelp(
        "Copies are told apart by direction; those that do not say how many bytes they moved are counted apart.",
        ("memory-bandwidth trace.json.gz",),
        "tables.md",
    ),
    "memory-timeline": CommandHelp(
        "It needs a recording with profile_memory=True, and says so of others.",
        ("memory-timeline trace.json.gz",),
        "tables.md",
    ),
    "launch-stats": CommandHelp(
        "What passes between a launch and its work is divided: behind earlier work, behind an event, the rest.",
        ("launch-stats trace.json.gz",),
        "tables.md",
    ),
    "operator-kernels": CommandHelp(
        "A kernel belongs to the innermost operator that is open when it is launched.",
        ("operator-kernels trace.json.gz", "operator-kernels trace.json.gz --csv kernels.csv"),
        "tables.md",
    ),
    "roofline": CommandHelp(
        "Needs the shapes of inputs: record with record_shapes=True. Without peaks of the GPU rates stand alone.",
        (
            "roofline trace.json.gz",
            "roofline job --step 2 --peaks MI300X",
            "roofline trace.json.gz --plot page.html",
        ),
        "questions/how_near_to_the_limit.md",
    ),
    "kernel-sequences": CommandHelp(
        "Sequences that repeat are what a fused kernel or a CUDA graph could replace.",
        (
            "kernel-sequences trace.json.gz --operator aten::_foreach_add_",
            "kernel-sequences trace.json.gz --operator aten::_foreach_add_ --overlay sequences.json",
        ),
        "tables.md",
    ),
    "annotations": CommandHelp(
        "Annotations are what the program has named with record_function, and the profiler's own steps.",
        ("annotations trace.json.gz",),
        "tables.md",
    ),
    "attribution": CommandHelp(
        "Frames and modules need a recording with with_stack=True.",
        ("attribution trace.json.gz", "attribution trace.json.gz --by module"),
        "tables.md",
    ),
    "hardware-counters": CommandHelp(
        "It needs a recording with profiler_metrics, and says so of others.",
        ("hardware-counters trace.json.gz",),
        "tables.md",
    ),
    "stragglers": CommandHelp(
        "A rank that comes last makes the others wait; what it did meanwhile is the cause.",
        ("stragglers job", "stragglers job --per-step", "stragglers job --json -"),
        "which_rank.md",
    ),
    "collectives": CommandHelp(
        "Clocks of ranks are compared by what these did together, and corrected where that contradicts them.",
        ("collectives job", "collectives job --step 2 --csv collectives.csv"),
        "ranks.md",
    ),
}
"""Command → its help, in the order in which a group lists its commands."""


def further_help(command: Command) -> str:
    """Return what stands behind a command's options."""
    examples = [f"  hta-graph {line}" for line in command.examples]
    return "\n".join(
        [
            *("examples (on the traces of hta-graph demo --traces DIR):", *examples, ""),
            *exit_status_lines(),
            *("", f"more: docs/{command.page}"),
        ]
    )


def exit_status_lines() -> list[str]:
    """Return what the exit statuses mean, a line each."""
    return ["exit status:", *(f"  {status:<4} {meaning}" for status, meaning in EXIT_STATUSES.items())]
