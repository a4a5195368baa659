"""memory-timeline on the command line: of traces, or of the profiler's raw export."""

from __future__ import annotations

import argparse
from pathlib import Path

from analyses.command_line.ask import Flag, ask, write_answer
from hta_graph.errors import UsageError

__all__ = ["memory_timeline"]


def memory_timeline(options: argparse.Namespace, flags: tuple[Flag, ...]) -> None:
    """Answer for traces with [memory] events, or for one raw memory timeline."""
    from analyses.command_line.commands import check_outputs
    from analyses.memory import raw_memory_timeline as memory_raw

    if not any(memory_raw.is_raw_timeline(Path(path)) for path in options.inputs):
        ask("memory-timeline", "analyses.memory.memory_timeline", flags, options)
        return
    if len(options.inputs) > 1:
        raise UsageError("a raw memory timeline is given alone")
    if options.per_step or options.step is not None or options.annotation or options.window:
        raise UsageError("a raw memory timeline has no steps and annotations; leave the window out")
    check_outputs(options, options.json, options.csv, options.plot)
    found = memory_raw.answer(memory_raw.read_raw_timeline(options.inputs[0]))
    write_answer("memory-timeline", found, [], options, memory_raw)
