"""The vocabulary by which kernels and runtime calls are known, and the formats of files, as ``info`` lists them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from analyses.display.text_layout import Line, table
from hta_graph.trace import profiler_names as known
from hta_graph.trace.engine_steps import STEP_PATTERNS, StepPattern
from hta_graph.trace.formats import FORMATS, KINETO_TRACE, NSIGHT_REPORT

PATTERN_COLUMNS = ("engine", "name of the annotation", "phase", "batch", "tokens", "since")

NAME_CAPTIONS: Sequence[str] = (
    "communication kernels (any place in the name; recorded collectives count whatever the name)",
    "calls that wait for the GPU (start of the name)",
    "kernels that are copies, where no launch call decides (start of the name)",
)
NAME_MEANINGS: Mapping[str, str] = {"copy": "a copy", "set": "a memset", "mark": "the mark of an event, no work"}
FORMAT_CAPTIONS: Sequence[str] = ("formats that are read", "formats that are refused, and what to do")
FORMAT_COLUMNS: Sequence[Sequence[str]] = (("format", "first bytes", "read", "not read"), ("format", "what to do"))

GROUP_NAME = re.compile(r"\(\?(?:P<\w+>|:)")


def name_lines() -> list[Line]:
    """List what decides by name: communication kernels, waiting calls, copies that are recorded as kernels."""
    communication = [[pattern, meaning] for pattern, meaning in known.COMMUNICATION_NAMES]
    calls = [[pattern, meaning] for meaning, patterns in known.WAITING_CALLS.items() for pattern in patterns]
    copies = [
        [one.pattern, NAME_MEANINGS[kind]]
        for one, kind in ((known.COPY_KERNEL, "copy"), (known.SET_KERNEL, "set"), (known.MARKER_KERNEL, "mark"))
    ]
    lines: list[Line] = [
        (
            f"Names are regular expressions, last updated {known.NAMES_AS_OF}. Recorded ids, categories and arguments "
            "decide first."
        )
    ]
    for caption, rows in zip(NAME_CAPTIONS, (communication, calls, copies), strict=True):
        lines += ["", caption, *table(rows, ("pattern", "meaning"), left=[0, 1], words=[1])]
    return [*lines, "", *step_pattern_lines()]


def step_pattern_lines() -> list[Line]:
    """List the annotations that are steps of inference engines."""
    rows = [[one.engine, shown_pattern(one), one.phase, one.batch, one.tokens, one.since] for one in STEP_PATTERNS]
    columns = list(range(len(PATTERN_COLUMNS)))
    return [
        "annotations that are steps of inference engines, in the order in which they are tried",
        *table(rows, PATTERN_COLUMNS, left=columns, words=columns),
    ]


def shown_pattern(known: StepPattern) -> str:
    """Return a pattern without the names of its groups."""
    return GROUP_NAME.sub("(", known.pattern.pattern)


def format_lines() -> list[Line]:
    """List the formats of files: those that are read, with what of them is, and those that are only named."""
    every = (KINETO_TRACE, *FORMATS, NSIGHT_REPORT)
    read = [[known.name, known.first_bytes, known.reads, known.missing] for known in every if known.reads]
    named = [[known.name, known.remedy] for known in every if not known.reads]
    lines: list[Line] = []
    for rows, caption, columns in zip((read, named), FORMAT_CAPTIONS, FORMAT_COLUMNS, strict=True):
        places = list(range(len(columns)))
        lines += [caption, *table(rows, columns, left=places, words=places), ""]
    return lines[:-1]
