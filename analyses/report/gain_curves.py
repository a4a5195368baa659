"""The opportunities of a window that differ, in words, with curves of its length over the time that things take."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyses.display.charts import empty_figure, new_figure
from analyses.display.labels import SHORT, class_meanings
from analyses.display.sentence_format import brief_class, brief_duration, brief_share, window_name
from hta_graph.paths.windows import Window, resolved_window
from hta_graph.text.shorten import short_name, shorten_middle
from hta_graph.what_if.opportunities import Opportunity, opportunity_frame, opportunity_rows
from hta_graph.what_if.replay import replay_graph
from hta_graph.what_if.sensitivity import Corner, Curve, sensitivity

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

    from hta_graph.graph.dependency_graph import DependencyGraph
    from hta_graph.what_if.predict import JobOpportunities


MAX_CURVES = 5
"""So many opportunities are drawn."""

SAME_GAIN_SHARE = 0.005
"""Opportunities whose gains differ by less than this share of the window are one, under several names."""

LEAST_DRAWN_SHARE = 0.01
"""What saves less than this share of the window at half its time is drawn only where nothing saves more."""

LEAST_BEND_SHARE = 0.005
"""A corner that bends a curve by less than this share of the window is not drawn."""

LEAST_TURN_FACTOR = 0.05
"""What happens below this share of a thing's time is nothing that a sentence tells."""

PREFERRED_KINDS = ("collective", "operator", "module", "kernel", "rank", "class")
"""Of one gain under several names the first of these kinds is shown: what a person can change."""

TOO_BROAD = ("class:cpu_bound", "class:cpu_gap", "class:gpu_compute_bound")
"""What no one change could halve."""

LONGEST_NAME = 40
OF_RANK = re.compile(r"rank (\d+): ")
TICK_STEPS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
"""Shares of a window between the ticks of an axis."""
TICKS = 6


@dataclass(frozen=True)
class Gain:
    """An opportunity, others that would gain as much, and how the window depends on its time."""

    chosen: Opportunity
    alike: tuple[Opportunity, ...]
    curve: Curve

    @property
    def name(self) -> str:
        """What it is called in a figure."""
        return _gain_name(self.chosen)


@dataclass(frozen=True)
class Gains:
    """What a window would gain: the table of opportunities, and those of them that differ, the largest first."""

    graph: DependencyGraph
    window: Window
    table: pd.DataFrame
    drawn: Sequence[Gain]

    @property
    def conclusion(self) -> str:
        """What the largest one would gain that is neither too broad nor mere waiting, and what decides then."""
        one = _first_actionable([gain.chosen for gain in self.drawn])
        said = _half_text(one, self.graph, self.window)
        turn = _turning_point(next(gain.curve for gain in self.drawn if gain.chosen is one))
        if turn is None:
            return f"{said} {_free_text(one, self.window)}."
        factor, _, slope, following = turn
        less = "it saves less" if slope else "nothing more is saved"
        decides = f"then {_next_text(following)} decides" if following else "then something else decides"
        return f"{said} Below {brief_share(factor)} of its time {less}: {decides}."


def find_gains(graph: DependencyGraph, window: Window) -> Gains:
    """Find what a window would gain, and choose what is worth a curve."""
    listed, length = opportunity_rows(replay_graph(graph, resolved_window(window))), window.end_ns - window.start_ns
    drawn = []
    for chosen, *others in _opportunities_to_draw(listed, length):
        curve = sensitivity(graph, chosen.what, resolved_window(window), within_ns=round(LEAST_BEND_SHARE * length))
        drawn.append(Gain(chosen, tuple(others), curve))
    return Gains(graph, window, opportunity_frame(listed), drawn)


def conclusion_without_curves(outlook: JobOpportunities) -> str:
    """Say the same of a job whose ranks were asked one by one, which tell no curves; nothing if nothing would gain."""
    graph, window = outlook.recorded.graph, outlook.recorded.window
    chosen = [one for one, *_ in _opportunities_to_draw(outlook.opportunities, window.end_ns - window.start_ns)]
    if not chosen:
        return ""
    one = _first_actionable(chosen)
    decides = f": then {_next_text(one.next)} decides" if one.next else ""
    return f"{_half_text(one, graph, window)} {_free_text(one, window)}{decides}."


def _opportunities_to_draw(listed: Sequence[Opportunity], length_ns: int) -> list[list[Opportunity]]:
    """Choose the opportunities that differ and are worth a curve, each with those alike behind it."""
    groups = _group_equal_gains(listed, SAME_GAIN_SHARE * length_ns)
    worth = [group for group in groups if group[0].saved_half_ns >= LEAST_DRAWN_SHARE * length_ns]
    chosen = (worth or [group for group in groups[:1] if group[0].saved_half_ns])[:MAX_CURVES]
    return [sorted(group, key=lambda one: PREFERRED_KINDS.index(one.kind)) for group in chosen]


def _first_actionable(chosen: Sequence[Opportunity]) -> Opportunity:
    """Return the first one that is neither too broad nor mere waiting."""
    told = [one for one in chosen if not one.may_be_waiting] or chosen
    return next((one for one in told if one.what not in TOO_BROAD), told[0])


def _gain_name(one: Opportunity) -> str:
    if one.kind == "rank":
        return f"rank {one.name}"
    return SHORT[one.name] if one.kind == "class" else shorten_middle(short_name(one.name), LONGEST_NAME)


def _half_text(one: Opportunity, graph: DependencyGraph, window: Window) -> str:
    saved = saved_text(one.saved_half_ns, window.end_ns - window.start_ns)
    return f"If {_halved_text(one, graph)}, {window_name(window)} would be {saved} shorter."


def _halved_text(one: Opportunity, graph: DependencyGraph) -> str:
    if one.kind == "class":
        return f"the time in which {brief_class(one.name, class_meanings(graph))} were halved"
    subject = f"all that rank {one.name} does by itself" if one.kind == "rank" else _gain_name(one)
    return f"{subject} took half its time"


def _free_text(one: Opportunity, window: Window) -> str:
    return f"Without it {saved_text(one.saved_free_ns, window.end_ns - window.start_ns)} would be saved"


def _group_equal_gains(found: Iterable[Opportunity], alike_ns: float) -> list[list[Opportunity]]:
    """Put together what would gain as much, at half and if free; the order stays."""
    groups: list[list[Opportunity]] = []
    for one in found:
        for group in groups:
            half, free = group[0].saved_half_ns - one.saved_half_ns, group[0].saved_free_ns - one.saved_free_ns
            if max(abs(half), abs(free)) <= alike_ns:
                group.append(one)
                break
        else:
            groups.append([one])
    return groups


def _turning_point(curve: Curve) -> Corner | None:
    """Return the corner below which a part of the thing's time saves at most half as much as at first; None: none."""
    steepest = curve.corners[0][2]
    return next(
        (corner for corner in curve.corners[1:-1] if corner[2] <= steepest / 2 and corner[0] > LEAST_TURN_FACTOR), None
    )


def _next_text(following: str) -> str:
    """Name what comes next as a sentence does: of a job with its rank behind it."""
    rank = OF_RANK.match(following)
    name = shorten_middle(short_name(following[rank.end() :] if rank else following), LONGEST_NAME)
    return f"{name} on rank {rank[1]}" if rank else name


def corner_text(curve: Curve, corner: Corner) -> str:
    """Say of a corner of a curve where it is and what comes onto the path there."""
    factor, predicted, _, following = corner
    comes = f"; then {_next_text(following)} comes onto the path" if following else ""
    saved = saved_text(curve.measured_ns - predicted, curve.measured_ns)
    return f"at {brief_share(factor)} of its time: {brief_duration(predicted)}, {saved} saved{comes}"


def saved_text(saved_ns: int, measured_ns: int) -> str:
    """Print what is saved, also as a share of the window."""
    return f"{brief_duration(saved_ns)} ({brief_share(saved_ns / max(measured_ns, 1))})"


@dataclass(frozen=True)
class SavedTick:
    """A tick of an axis: a length (ns), that in words, and which share of the window is saved there."""

    length_ns: int
    length: str
    saved: str


def saved_ticks(curves: Sequence[Curve]) -> list[SavedTick]:
    """Return ticks from the measured length down to one that no curve falls below."""
    measured = max(*(curve.measured_ns for curve in curves), 1)
    most = 1 - min(curve.corners[-1][1] for curve in curves) / measured
    step = next((step for step in TICK_STEPS if most <= step * (TICKS - 1)), TICK_STEPS[-1])
    shares = [at * step for at in range(-int(-most // step) + 1)]
    digits = max(2 - math.floor(math.log10(step * measured / 1e6)), 0)
    return [
        SavedTick(
            round(measured * (1 - share)),
            f"{measured * (1 - share) / 1e6:,.{digits}f} ms",
            f"−{100 * share:g}%" if share else "",
        )
        for share in shares
    ]


TITLE = "What would be gained"
LONGEST_LINE_NAME = 60


def gain_curves(*curves: Curve) -> Figure:
    """Draw the length of a window for every share of their time that things may take, one line each.

    Args:
        curves: what :func:`hta_graph.sensitivity` returns, of one window.
    """
    if not curves:
        return empty_figure(TITLE, "nothing on the path that could take less time")
    made = new_figure(title=TITLE, x="time that it takes, of today's")
    for curve in curves:
        made.add_scatter(
            name=shorten_middle(curve.what, LONGEST_LINE_NAME),
            x=[corner[0] for corner in curve.corners],
            y=[corner[1] / 1e6 for corner in curve.corners],
            customdata=[corner_text(curve, corner) for corner in curve.corners],
            mode="lines+markers",
            marker_size=7,
            hovertemplate="%{customdata}<extra>%{fullData.name}</extra>",
        )
    ticks = saved_ticks(curves)
    labels = [f"{tick.length}  {tick.saved}" for tick in ticks]
    made.update_xaxes(range=[1.02, -0.02], tickformat=".0%")
    made.update_yaxes(tickvals=[tick.length_ns / 1e6 for tick in ticks], ticktext=labels)
    made.update_layout(showlegend=True)
    return made
