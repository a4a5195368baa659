"""The distinct opportunities of a window, with curves of its length over the time that each of them takes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyses.display.charts import empty_figure, new_figure
from analyses.display.labels import SHORT
from analyses.display.sentence_format import brief_duration, brief_share, time_and_share
from analyses.judgement.pricing import within_rows
from analyses.report.page_labels import SAVINGS
from analyses.source.window_facts import short_labels
from hta_graph.base.arrays import summed_by
from hta_graph.base.progress import tracked
from hta_graph.base.text.shorten import short_name, shorten_middle
from hta_graph.model import BoundBy
from hta_graph.paths.windows import Window, resolved_window
from hta_graph.what_if.modified_window import recorded_path_totals
from hta_graph.what_if.opportunities import Opportunity, opportunity_frame, opportunity_rows
from hta_graph.what_if.replay import replay_graph
from hta_graph.what_if.selectors import Selector, selected_parts
from hta_graph.what_if.sensitivity import Corner, Curve, sensitivity

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

    from hta_graph.graph.dependency_graph import DependencyGraph
    from hta_graph.what_if.predict import JobOpportunities
    from hta_graph.what_if.replay_graph import ReplayGraph


MAX_CURVES = 5
"""The number of opportunities that are drawn."""

SAME_GAIN_SHARE = 0.005
"""Opportunities whose savings differ by less than this share of the window are one, under several names."""

LEAST_DRAWN_SHARE = 0.01
"""What saves less than this share of the window at 2x speed is drawn only where nothing saves more."""

LEAST_BEND_SHARE = 0.005
"""A corner that bends a curve by less than this share of the window is not drawn."""

LEAST_TURN_FACTOR = 0.05
"""What happens below this share of a thing's time is not worth a sentence."""

PREFERRED_KINDS = ("collective", "operator", "module", "frame", "kernel", "rank", "class")
"""The kind that is shown where several kinds save the same, first one first: what a person can change."""

TOO_BROAD = ("class:cpu_bound", "class:cpu_gap", "class:gpu_compute_bound")
"""Classes that no single change makes twice as fast."""

LONGEST_NAME = 40
OF_RANK = re.compile(r"rank (\d+): ")
TICK_STEPS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
"""Shares of a window between the ticks of an axis."""
TICKS = 6


@dataclass(frozen=True)
class OpportunityCurve:
    """An opportunity, others that would save as much, how the window depends on its time, and its largest class."""

    chosen: Opportunity
    alike: tuple[Opportunity, ...]
    curve: Curve
    bound: str = ""

    @property
    def name(self) -> str:
        """Its name in a figure."""
        return gain_name(self.chosen)


@dataclass(frozen=True)
class OpportunityCurves:
    """What a window could save: the table of opportunities, and the distinct ones, the largest first."""

    graph: DependencyGraph
    window: Window
    table: pd.DataFrame
    drawn: Sequence[OpportunityCurve]

    @property
    def length_ns(self) -> int:
        """The length of the window that savings are of."""
        return self.window.end_ns - self.window.start_ns

    @property
    def conclusion(self) -> str:
        """What the largest one would save that is neither too broad nor mere waiting, and the next bottleneck."""
        one = _first_actionable([gain.chosen for gain in self.drawn])
        turn = _turning_point(next(gain.curve for gain in self.drawn if gain.chosen is one))
        said = _conclusion(one, self.graph, self.window)
        if turn is None:
            return f"{said}."
        factor, _, slope, following = turn
        next_one = _next_text(following) if following else ""
        return f"{said}. {_turning_point_sentence(brief_share(factor), next_one, saves_less=bool(slope))}"


def _turning_point_sentence(share_of_time: str, following: str, *, saves_less: bool) -> str:
    """Say from where on more speed saves less."""
    effect = "further speedup saves less" if saves_less else "further speedup saves nothing"
    after = f"; {_next_bottleneck(following)}" if following else ""
    return f"Below {share_of_time} of its time, {effect}{after}."


def find_gains(graph: DependencyGraph, window: Window) -> OpportunityCurves:
    """Find what a window could save, and choose what is worth a curve."""
    query, length = resolved_window(window), window.end_ns - window.start_ns
    base = replay_graph(graph, query)
    listed, drawn = within_rows(base, opportunity_rows(base)), []
    for chosen, *others in tracked(_opportunities_to_draw(listed, length)):
        curve = sensitivity(graph, chosen.what, query, within_ns=round(LEAST_BEND_SHARE * length))
        drawn.append(OpportunityCurve(chosen, tuple(others), curve, _class_of(base, chosen)))
    return OpportunityCurves(graph, window, opportunity_frame(listed), drawn)


def _class_of(base: ReplayGraph, one: Opportunity) -> str:
    """Return the class that most of an opportunity's time on the path belongs to."""
    meant, path = selected_parts(base, Selector.of(one.what)), recorded_path_totals(base)[0]
    own = meant[path.rows]
    sums = summed_by(base.parts.bound[path.rows[own]], path.length[own], len(BoundBy))
    return BoundBy(int(sums.argmax())).label


def conclusion_without_curves(outlook: JobOpportunities) -> str:
    """Return the conclusion for a job whose ranks were replayed one by one; empty if nothing would be saved."""
    graph, window = outlook.recorded.graph, outlook.recorded.window
    chosen = distinct_opportunities(outlook)
    if not chosen:
        return ""
    one = _first_actionable(chosen)
    following = f"; {_next_bottleneck(_next_text(one.next))}" if one.next else ""
    return f"{_conclusion(one, graph, window)}{following}."


def _next_bottleneck(following: str) -> str:
    """Name what limits the window next."""
    return f"next bottleneck: {following}"


def distinct_opportunities(outlook: JobOpportunities) -> list[Opportunity]:
    """Return the distinct opportunities of a job of rank summaries."""
    window = outlook.recorded.window
    return [one for one, *_ in _opportunities_to_draw(outlook.opportunities, window.end_ns - window.start_ns)]


def worth_a_card(chosen: Sequence[Opportunity]) -> list[Opportunity]:
    """Return the opportunities that name something to change: no whole rank, no broad class, no mere waiting."""
    return [one for one in chosen if one.kind != "rank" and one.what not in TOO_BROAD and not one.may_be_waiting]


def _opportunities_to_draw(listed: Sequence[Opportunity], length_ns: int) -> list[list[Opportunity]]:
    """Choose the distinct opportunities that are worth a curve, each followed by its equals."""
    groups = _group_equal_gains(listed, SAME_GAIN_SHARE * length_ns)
    worth = [group for group in groups if group[0].saved_half_ns >= LEAST_DRAWN_SHARE * length_ns]
    chosen = (worth or [group for group in groups[:1] if group[0].saved_half_ns])[:MAX_CURVES]
    return [sorted(group, key=lambda one: PREFERRED_KINDS.index(one.kind)) for group in chosen]


def _first_actionable(chosen: Sequence[Opportunity]) -> Opportunity:
    """Return the first one that is neither too broad nor mere waiting."""
    works = [one for one in chosen if not one.may_be_waiting] or chosen
    return next((one for one in works if one.what not in TOO_BROAD), works[0])


def gain_name(one: Opportunity) -> str:
    """Name an opportunity in a few words."""
    if one.kind == "rank":
        return f"rank {one.name}"
    return SHORT[one.name] if one.kind == "class" else shorten_middle(short_name(one.name), LONGEST_NAME)


def _conclusion(one: Opportunity, graph: DependencyGraph, window: Window) -> str:
    name = short_labels(graph)[one.name] if one.kind == "class" else gain_name(one)
    name = f"the work of {name}" if one.kind == "rank" else name
    length = window.end_ns - window.start_ns
    half, free = (time_and_share(saved, length) for saved in (one.saved_half_ns, one.saved_free_ns))
    return f"Largest {one.kind} at 2x: {name} saves {half}; removing it saves {free}"


def _group_equal_gains(found: Iterable[Opportunity], alike_ns: float) -> list[list[Opportunity]]:
    """Group what would save the same, at 2x speed and removed; the order stays."""
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
    """Name the next bottleneck as a sentence does: in a job followed by its rank."""
    rank = OF_RANK.match(following)
    name = shorten_middle(short_name(following[rank.end() :] if rank else following), LONGEST_NAME)
    return f"{name} on rank {rank[1]}" if rank else name


def corner_text(curve: Curve, corner: Corner) -> str:
    """Describe a corner of a curve: its place, and what comes onto the path there."""
    factor, predicted, _, following = corner
    saved = time_and_share(curve.measured_ns - predicted, curve.measured_ns)
    return _corner(brief_share(factor), brief_duration(predicted), saved, _next_text(following) if following else "")


def _corner(share_of_time: str, length: str, saved: str, following: str) -> str:
    """Describe a corner of a curve."""
    comes = f"; {_next_bottleneck(following)}" if following else ""
    return f"at {share_of_time} of its time: {length}, saves {saved}{comes}"


@dataclass(frozen=True)
class SavedTick:
    """A tick of an axis: a length (ns), its label, and which share of the window is saved there."""

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


LONGEST_LINE_NAME = 60


def gain_curves(*curves: Curve) -> Figure:
    """Draw the length of a window as the time of each item falls, one line per item.

    Args:
        curves: what :func:`hta_graph.sensitivity` returns, of one window.
    """
    if not curves:
        return empty_figure(SAVINGS, "nothing on the path can take less time")
    made = new_figure(title=SAVINGS, x="time it takes, as a share of the recorded time")
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
