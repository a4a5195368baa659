"""The section on the steps of an inference engine: phases, causes of idle time, and a picture of every step.

ms  ▒▒
    ██ ░░ ░░ ░░ ▒▒      one bar per step: GPU work, exposed communication, and idle time before and in its work
    ██ ██ ██ ██ ██
    0  1  2  3  4  step
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from analyses.declare.scope import whole
from analyses.display.screen_columns import SHARE_OF
from analyses.display.sentence_format import counted
from analyses.display.text_layout import duration_text
from analyses.questions.serving import PART_COLOUR, PARTS, answer, time_parts
from analyses.report.page_labels import capitalized, sentence, steps_left_out, without_commands
from analyses.report.page_tables import Bar, Section, SectionTable, time_bar
from analyses.report.wait_heatmap import HeatmapTick, ticks_of
from hta_graph.base.arrays import summed_by
from hta_graph.base.colours import IDLE_COLOUR
from hta_graph.paths.engine_step_table import engine_step_table

if TYPE_CHECKING:
    import pandas as pd

    from analyses.declare.answer import Answer
    from analyses.report.timeline import TimelinePage
    from hta_graph.graph.dependency_graph import DependencyGraph
    from hta_graph.model import Floats, Ints

ENGINE_STEPS_MEANING = (
    "The steps of the inference engine in the whole recording. GPU work belongs to the step that launched it. The "
    "iteration of a step is from the end of the GPU work before it to the end of its own."
)

WIDTH, LEFT, RIGHT, TOP, BOTTOM, BELOW = 1000, 64, 990, 10, 210, 46
"""Of the picture and of the bars in it, in units of the picture."""
MOST_BARS = 300
"""Of more steps, each bar is the mean of as many as fit."""
STEPS_LISTED = 500
BAR_SHARE = 0.85
TICKS = 5


@dataclass(frozen=True)
class StepsShape:
    """The bars of one part of all iterations, as the outline of an SVG path."""

    outline: str
    colour: str
    text: str


@dataclass(frozen=True)
class StepBar:
    """A step or some: where its bar begins, and its tooltip."""

    at: float
    text: str


@dataclass(frozen=True)
class StepsFigure:
    """A picture of steps: shapes, tooltips, axes; ``text`` describes it, ``note`` says what a bar is."""

    shapes: Sequence[StepsShape]
    bars: Sequence[StepBar]
    bar_width: float
    across: Sequence[HeatmapTick]
    down: Sequence[HeatmapTick]
    text: str
    note: str
    width: int = WIDTH
    height: int = BOTTOM + BELOW
    left: int = LEFT
    right: int = RIGHT
    top: int = TOP
    bottom: int = BOTTOM


@dataclass(frozen=True)
class EngineSection(Section):
    """The section with its picture."""

    figure: StepsFigure | None = None


def engine_sections(graphs: Mapping[int, DependencyGraph], rank: int, timeline: TimelinePage) -> list[Section]:
    """Return the section about the steps of an inference engine on some ranks, those of one in detail; else none.

    All steps of the recording are meant, whatever window the page is about.
    """
    if not any(engine_step_table(graph) for graph in graphs.values()):
        return []
    scopes = [whole(of, graph) for of, graph in graphs.items()]
    found = answer(scopes).on_command_line()
    own = found.tables["engine_steps"]
    own = own[own["rank"] == rank].reset_index(drop=True)
    tables = [_phases_table(found), _gaps_table(found), *_sizes_tables(found)]
    if len(own):
        tables.append(_steps_table(own, graphs[rank], timeline))
    notes = [sentence(without_commands(line)) for line in (*found.headline, *found.closing)]
    figure = steps_figure(own) if len(own) else None
    return [
        EngineSection("Engine steps", ENGINE_STEPS_MEANING, tables, notes, template="engine_part.html", figure=figure)
    ]


def _phases_table(found: Answer) -> SectionTable:
    frame = found.tables["engine_phases"]
    parts = ["gpu_work_share", "exposed_communication_share", "idle_before_share", "idle_inside_share"]
    longest = int(frame["time_ns"].max())
    times = frame[parts].fillna(0).mul(frame["time_ns"], axis=0).to_numpy()
    bars, legend = _bars_of_parts(times.round().astype(np.int64), longest)
    title = capitalized(found.title_of("engine_phases"))
    of = {"time_share": "the time of all steps"}
    return SectionTable(
        title, frame, bars, legend=legend, share_of=of, note="Other percentages are of the phase's time."
    )


def _bars_of_parts(times: Ints, longest_ns: int) -> tuple[list[Bar], dict[str, str]]:
    """Return rows of times (ns) by part as bars, and the colors of the parts that any of them has."""
    parts = [(label, PART_COLOUR[part]) for part, label in PARTS.items()]
    bars = [
        time_bar([(label, ns, colour) for (label, colour), ns in zip(parts, row, strict=True)], longest_ns)
        for row in times.tolist()
    ]
    return bars, {label: colour for (label, colour), ns in zip(parts, times.max(axis=0).tolist(), strict=True) if ns}


def _gaps_table(found: Answer) -> SectionTable:
    frame = found.tables["step_gaps"]
    longest = int(frame["idle_ns"].max()) if len(frame) else 0
    bars = [time_bar([("idle", ns, IDLE_COLOUR)], longest) for ns in frame["idle_ns"].tolist()]
    title = capitalized(found.title_of("step_gaps"))
    return SectionTable(title, frame, bars, share_of=SHARE_OF["step_gaps"])


def _sizes_tables(found: Answer) -> list[SectionTable]:
    frame = found.tables["graph_sizes"]
    title = capitalized(found.title_of("graph_sizes"))
    return [SectionTable(title, frame, share_of=SHARE_OF["graph_sizes"])] if len(frame) else []


def _steps_table(frame: pd.DataFrame, graph: DependencyGraph, timeline: TimelinePage) -> SectionTable:
    """List the steps of the rank in detail, each with its parts as a bar and its link."""
    listed = frame.head(STEPS_LISTED)
    bars, legend = _bars_of_parts(np.stack([*time_parts(listed).values()], axis=1), int(listed["iteration_ns"].max()))
    work = {row.number: (row.gpu_end_ns - row.own_ns, row.gpu_end_ns) for row in engine_step_table(graph)}
    links = [timeline.link(*work[number]) for number in listed["step"].tolist()]
    note = steps_left_out(len(frame) - len(listed)) if len(listed) < len(frame) else ""
    return SectionTable("Engine steps one by one", listed, bars, links, legend=legend, note=note)


def steps_figure(frame: pd.DataFrame) -> StepsFigure:
    """Draw the iteration of each step of a rank, divided into its parts; of many steps, means of neighbors."""
    per_bar = -(-len(frame) // MOST_BARS)
    bar = np.arange(len(frame)) // per_bar
    count = np.bincount(bar)
    parts = {name: summed_by(bar, ns, len(count)) / count for name, ns in time_parts(frame).items()}
    most = max(float(np.sum([*parts.values()], axis=0).max()), 1.0)
    pitch = (RIGHT - LEFT) / len(count)
    begins = (LEFT + pitch * (np.arange(len(count)) + (1 - BAR_SHARE) / 2)).round(2)
    scale, reached, shapes = (BOTTOM - TOP) / most, np.zeros(len(count)), []
    for name, label in PARTS.items():
        above = reached + parts[name]
        outline = "".join(
            f"M{x:g} {bottom:g}h{pitch * BAR_SHARE:.2f}V{top:g}h-{pitch * BAR_SHARE:.2f}z"
            for x, bottom, top in zip(
                begins.tolist(),
                (BOTTOM - scale * reached).round(2).tolist(),
                (BOTTOM - scale * above).round(2).tolist(),
                strict=True,
            )
            if bottom > top
        )
        shapes += [StepsShape(outline, PART_COLOUR[name], label)] if outline else []
        reached = above
    first = np.searchsorted(bar, np.arange(len(count)))
    return StepsFigure(
        shapes,
        [StepBar(at, text) for at, text in zip(begins.tolist(), _tooltips(frame, first, count, parts), strict=True)],
        round(pitch * BAR_SHARE, 2),
        _ticks_across(frame["step"].to_numpy(), first, pitch),
        [HeatmapTick(BOTTOM - scale * 1e6 * ms, f"{ms:g}") for ms in ticks_of(most / 1e6, TICKS)],
        f"Iterations of {counted(len(frame), 'step')} by part, in ms",
        f"Each bar is the mean of {per_bar:,} consecutive steps." if per_bar > 1 else "",
    )


def _tooltips(frame: pd.DataFrame, first: Ints, count: Ints, parts: Mapping[str, Floats]) -> list[str]:
    """Describe each bar: its step, or the first and last of some, and its parts."""
    steps, phases = frame["step"].tolist(), frame["phase"].tolist()
    said = []
    for at, (begin, own) in enumerate(zip(first.tolist(), count.tolist(), strict=True)):
        last = begin + own - 1
        name = f"{phases[begin]} step {steps[begin]}" if own == 1 else f"steps {steps[begin]} to {steps[last]}"
        times = {label: round(float(parts[part][at])) for part, label in PARTS.items()}
        said.append(f"{name}: {', '.join(f'{label} {duration_text(ns)}' for label, ns in times.items() if ns)}")
    return said


def _ticks_across(steps: Ints, first: Ints, pitch: float) -> list[HeatmapTick]:
    """Return the numbers of some steps below their bars."""
    every = max(-(-len(first) // 12), 1)
    return [
        HeatmapTick(round(LEFT + pitch * (at + 0.5), 1), f"{steps[first[at]]:,}") for at in range(0, len(first), every)
    ]
