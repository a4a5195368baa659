"""All commands, in the order of the help.

To add an analysis: its file and a line here that names it; another command: a function in :mod:`analyses.commands` too.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from analyses import commands
from analyses.ask import Flag, add_flags, add_tables, ask
from analyses.options import (
    add_graph_outputs,
    add_inputs,
    add_json,
    add_path_outputs,
    add_picture,
    add_timeline,
    add_window,
)

__all__ = ["CATALOGUE", "Command"]


@dataclass(frozen=True)
class Command:
    """A question on the command line: its name, what it answers, its arguments, and who answers."""

    name: str
    summary: str
    options: tuple[Callable[[argparse.ArgumentParser], None], ...]
    run: Callable[[argparse.Namespace], None]


def analysis(name: str, summary: str, module: str, *flags: Flag) -> Command:
    """Make the command of an analysis: a module with ``answer(scopes, **flags)`` and ``figure(answer)``."""
    options = (add_inputs, add_json, add_window, add_tables, add_flags(flags))
    return Command(name, summary, options, partial(ask, name, module, flags))


ANALYSES = (
    analysis(
        "temporal-breakdown",
        "How much of the time the GPU computes, talks, moves memory, or is idle.",
        "analyses.temporal_breakdown",
    ),
)
"""Questions about ranks and steps. To add one: its file, a line here, its test."""

CATALOGUE = (
    Command("demo", "The main job on a bundled sample; writes overlay, picture and timeline here.", (), commands.demo),
    Command(
        "info",
        "What is in a trace: events, lanes, steps, edges, diagnostics.",
        (add_inputs, add_json),
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
    *ANALYSES,
)
