"""What the help of each command says beside its options: its group, examples, exit statuses, where to read more.

Examples run where ``hta-graph demo --traces DIR`` has left its traces, one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analyses.catalogue import CATALOGUE

__all__ = ["EXIT_STATUSES", "FIRST_COMMANDS", "GROUPS", "HELP", "CommandHelp", "first_example", "further_help"]

GROUPS = (
    "start",
    "one rank, or each of several",
    "several ranks",
    "compare",
    "pages and pictures",
    "simulators",
    "files",
)
"""What people want, in the order of the help."""
START, ONE, SEVERAL, COMPARE, PAGES, SIMULATORS, FILES = GROUPS

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
    """A command's group, what else it tells, its examples, and the page of the manual in ``docs/``."""

    group: str
    tells: str
    examples: tuple[str, ...]
    page: str


HELP: Mapping[str, CommandHelp] = {
    "demo": CommandHelp(
        START,
        "The sample is simulated. With --traces it only writes the bundled traces.",
        ("demo", "demo --traces DIR"),
        "commands.md",
    ),
    "critical-path": CommandHelp(
        START,
        "The path tiles the window to the nanosecond: each piece has a class and a cause, or is called unexplained. "
        "Of several ranks it is the job's.",
        (
            "critical-path trace.json.gz",
            "critical-path trace.json.gz --per-step",
            "critical-path job --overlay overlay.json",
        ),
        "windows.md",
    ),
    "info": CommandHelp(
        START,
        "Ask it first of a trace that you do not know: what was recorded decides what can be answered.",
        ("info trace.json.gz", "info job"),
        "commands.md",
    ),
    "completion": CommandHelp(
        START,
        "Write the script into a file that your shell reads, or evaluate it: the commands, options, choices and files "
        "of hta-graph are completed then.",
        ("completion bash > hta-graph.bash", "completion zsh > _hta-graph"),
        "commands.md",
    ),
    "what-if": CommandHelp(
        ONE,
        "Changes are replayed on the graph: what no longer waits starts earlier. Without a change it lists what would "
        "gain most.",
        (
            "what-if trace.json.gz",
            "what-if trace.json.gz --scale kernel:gemm=0.5",
            "what-if job --scenario cuda_graphs",
        ),
        "what_if.md",
    ),
    **{
        entry.name: CommandHelp(
            ONE if entry.from_summaries == "no" else SEVERAL, entry.more, entry.examples, entry.page
        )
        for entry in CATALOGUE
    },
    "diff": CommandHelp(
        COMPARE,
        "All steps of both are compared, and a difference within the noise is called one. With --fail-above the exit "
        "status is 1 where the test is slower than that.",
        ("diff trace.json.gz slower.json.gz", "diff trace.json.gz slower.json.gz --step 2 --fail-above 80%"),
        "comparing.md",
    ),
    "report": CommandHelp(
        PAGES,
        "The page needs no network: it can be sent to somebody.",
        ("report trace.json.gz -o report.html", "report job -o job.html"),
        "pages.md",
    ),
    "timeline": CommandHelp(
        PAGES,
        "The lanes of CPU threads and streams, with what waited for what along the path.",
        ("timeline trace.json.gz -o timeline.html",),
        "pages.md",
    ),
    "render": CommandHelp(
        PAGES,
        "SVG and PNG need graphviz' dot; a .dot file is its source. EVENT_INDEX is the position in traceEvents.",
        (
            "render trace.json.gz --path -o path.dot",
            "render trace.json.gz --around 100 --depth 2 -o around.dot",
        ),
        "notebooks.md",
    ),
    "counters": CommandHelp(
        PAGES,
        "Open what it writes at ui.perfetto.dev.",
        ("counters trace.json.gz -o counters.json",),
        "overlay.md",
    ),
    "chakra link": CommandHelp(
        SIMULATORS,
        "The host trace is that of torch.profiler.ExecutionTraceObserver, of the same run.",
        ("chakra link --host-trace host.json --device-trace device.json --output linked.json",),
        "simulators.md",
    ),
    "chakra convert": CommandHelp(
        SIMULATORS,
        "What it writes is checked before it is there.",
        ("chakra convert job --output workload", "chakra convert job --profile gpu --output gpu_only"),
        "simulators.md",
    ),
    "chakra check": CommandHelp(
        SIMULATORS,
        "It exits with 1 where ASTRA-sim would not run the workload.",
        ("chakra convert job --output workload", "chakra check workload"),
        "simulators.md",
    ),
    "chakra simulate": CommandHelp(
        SIMULATORS,
        "Each rank's simulated end stands beside its measured span.",
        ("chakra convert job --output workload", "chakra simulate workload"),
        "simulators.md",
    ),
    "chakra scale": CommandHelp(
        SIMULATORS,
        "Durations of computation change; communication and what depends on what stay.",
        ("chakra convert job --output workload", "chakra scale workload --gpu 0.5 --output faster"),
        "simulators.md",
    ),
    "chakra statistics": CommandHelp(
        SIMULATORS,
        "ASTRA-sim writes the log where its system file says trace-enabled.",
        ("chakra statistics log --workload workload",),
        "simulators.md",
    ),
    "sync-deps": CommandHelp(
        SIMULATORS,
        "Both directions: calls on the CPU that wait for GPU work, and streams that wait for each other.",
        ("sync-deps trace.json.gz", "sync-deps trace.json.gz --external-ids waits.json"),
        "simulators.md",
    ),
    "graph": CommandHelp(
        FILES,
        "Events and edges, for programs of your own.",
        ("graph trace.json.gz", "graph trace.json.gz --json graph.json"),
        "asking_in_python.md",
    ),
    "strip": CommandHelp(
        FILES,
        "Names of your own become pseudonyms; paths, hosts, shapes and the date go. Who gets it can ask all but names.",
        (
            "strip trace.json.gz -o shared.json.gz",
            "strip job -o shared_job --list",
            "strip trace.json.gz -o with_shapes.json.gz --keep shapes",
        ),
        "sharing.md",
    ),
    "schema": CommandHelp(
        FILES,
        "Without a name it lists them; with one it prints the file, for a validator of yours.",
        ("schema", "schema critical-path"),
        "machine_output.md",
    ),
}
"""Command → its help, in the order in which a group lists its commands."""


def first_example(name: str) -> str:
    """Return a command line to copy; an empty text of what has none."""
    found = HELP.get(name)
    return f"hta-graph {found.examples[0]}" if found and found.examples else ""


def further_help(name: str) -> str:
    """Return what stands behind a command's options."""
    found = HELP.get(name)
    examples = [f"  hta-graph {line}" for line in found.examples] if found else []
    return "\n".join(
        [
            *(["examples (on the traces of hta-graph demo --traces DIR):", *examples, ""] if examples else []),
            *exit_status_lines(),
            *(["", f"more: docs/{found.page}"] if found else []),
        ]
    )


def exit_status_lines() -> list[str]:
    """Return what the exit statuses mean, a line each."""
    return ["exit status:", *(f"  {status:<4} {meaning}" for status, meaning in EXIT_STATUSES.items())]
