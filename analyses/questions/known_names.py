"""The vocabulary by which kernels and runtime calls are known, as ``info --names`` prints it."""

from __future__ import annotations

from analyses.display.text_layout import Line, table
from analyses.messages import info as messages
from hta_graph.trace import profiler_names as known


def name_lines() -> list[Line]:
    """List what decides by name: communication kernels, waiting calls, copies that are recorded as kernels."""
    communication = [[pattern, meaning] for pattern, meaning in known.COMMUNICATION_NAMES]
    calls = [[pattern, meaning] for meaning, patterns in known.WAITING_CALLS.items() for pattern in patterns]
    copies = [
        [one.pattern, messages.NAME_MEANINGS[kind]]
        for one, kind in ((known.COPY_KERNEL, "copy"), (known.SET_KERNEL, "set"), (known.MARKER_KERNEL, "mark"))
    ]
    lines: list[Line] = [messages.names_as_of(known.NAMES_AS_OF)]
    for caption, rows in zip(messages.NAME_CAPTIONS, (communication, calls, copies), strict=True):
        lines += ["", caption, *table(rows, messages.NAME_COLUMNS, left=[0, 1], words=[1])]
    return lines
