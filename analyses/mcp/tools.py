"""The tools: what each is called, and its arguments as types, of which the SDK makes schemas and checks calls.

This module imports nothing that answers: the server starts while its first engine imports that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Annotated, Any, Literal

from pydantic import Field

from analyses.mcp.answers import ROWS_SHOWN
from analyses.mcp.served_files import PICTURE_ENDINGS

_Change = Annotated[str, Field(max_length=1_000, pattern="^(scale|remove|scenario) ")]
ARGUMENTS: Mapping[str, Any] = {
    "trace": Annotated[str, Field(max_length=1_000, description="File, or folder with one file per rank; see open")],
    "before": Annotated[str, Field(max_length=1_000, description="Trace or folder to compare with")],
    "after": Annotated[str, Field(max_length=1_000, description="Trace or folder that changed")],
    "rank": Annotated[int, Field(ge=0, le=10**9, description="Only this rank (default: all)")],
    "step": Annotated[int, Field(ge=0, le=10**12, description="Step number")],
    "annotation": Annotated[str, Field(max_length=1_000, description="CPU annotation, by its exact name")],
    "whole": Annotated[bool, Field(description="Whole trace")],
    "table": Annotated[str, Field(max_length=100, description="Only this table of the answer")],
    "limit": Annotated[int, Field(ge=1, le=500, description=f"Rows of a table ({ROWS_SHOWN})")],
    "offset": Annotated[int, Field(ge=0, le=10**9, description="First row of a table (0)")],
    "order": Annotated[Literal["longest", "time"], Field(description="Order of segments (longest)")],
    "changes": Annotated[
        list[_Change],
        Field(
            max_length=20,
            description="'scale WHAT=FACTOR', 'remove WHAT' or 'scenario NAME[=ARG]'; WHAT is [kernel|operator|module|"
            "frame|annotation|collective|class|rank]:PATTERN. Without changes: the largest savings and the scenarios",
        ),
    ],
    "event_index": Annotated[int, Field(ge=0, le=10**12, description="Position in traceEvents")],
    "picture": Annotated[
        Literal["path", "lanes", "around"], Field(description="Critical path, lanes (.svg), an event (around)")
    ],
    "name": Annotated[str, Field(max_length=104, description=f"File to write: {', '.join(PICTURE_ENDINGS)}")],
    "depth": Annotated[int, Field(ge=0, le=20, description="Edges around the event (2)")],
}
"""The type of each argument."""
WINDOW, PAGE = ("step", "annotation", "whole"), ("table", "limit", "offset")


OF_A_WINDOW = ("trace", "rank", *WINDOW, *PAGE)


@dataclass(frozen=True)
class Tool:
    """A question that an agent may ask: its arguments by name, those that it needs, and whether it writes a file."""

    name: str
    arguments: tuple[str, ...]
    description: str
    required: tuple[str, ...] = ("trace",)
    writes: bool = False

    def signature(self, *first: Parameter) -> Signature:
        """Return the signature of a function that is called with these arguments, after some of its own."""
        defaults = {name: Parameter.empty if name in self.required else None for name in self.arguments}
        own = [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=ARGUMENTS[name], default=default)
            for name, default in defaults.items()
        ]
        return Signature([*first, *own])


TOOLS: tuple[Tool, ...] = (
    Tool("open", ("trace", "rank", *PAGE),
         "List trace files (without a trace), or read one: events, steps, GPUs, lanes, diagnostics.", ()),
    Tool("overview", OF_A_WINDOW,
         "Ask first: what bounds the step (default: the median one), advice with savings, all steps."),
    Tool("critical_path", ("trace", "rank", *WINDOW, "order", *PAGE),
         "Time of the critical path by class, and its segments with event ids and byte offsets."),
    Tool("what_if", ("trace", "rank", *WINDOW, "changes", *PAGE),
         "Predict the length of a step after changes; without changes the largest possible savings."),
    Tool("stragglers", ("trace", *WINDOW, *PAGE),
         "Of a folder with one file per rank: which rank delays the others, in which steps, and by what."),
    Tool("diff", ("before", "after", "rank", *WINDOW, *PAGE),
         "Whether AFTER is slower or faster than BEFORE, beyond the noise, and what changed.", ("before", "after")),
    Tool("roofline", OF_A_WINDOW, "How close operators come to the limits of the GPU, and what is lost where."),
    Tool("idle_causes", OF_A_WINDOW, "GPU idle time by cause, by what is behind it, and the longest gaps."),
    Tool("kernels", OF_A_WINDOW, "GPU time by type of work, and the kernels that take most time."),
    Tool("sync_dependencies", OF_A_WINDOW,
         "Which calls and streams waited for which GPU work, the longest waits first."),
    Tool("explain_event", ("trace", "rank", "event_index", *PAGE),
         "What an event is, what launched it, and which events it waited for and which waited for it.",
         ("trace", "event_index")),
    Tool("render_picture", ("trace", "rank", *WINDOW, "picture", "event_index", "depth", "name"),
         "Write a picture to the output folder of this server: a critical path, lanes, or an event.",
         ("trace", "picture", "name"), writes=True),
)  # fmt: skip
"""All tools, in the order in which agents see them."""
