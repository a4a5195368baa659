"""``TraceDiff``: a comparison of two runs by name, with HTA's arguments and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pandas as pd

from analyses.compare.diff.change_tables import name_diff
from analyses.declare.scope import Scope, in_window, whole
from analyses.display.charts import new_figure, show
from analyses.hta.frame import name_without_arguments
from analyses.hta.trace import Trace, TraceFiles
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.paths.windows import step

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from analyses.hta.trace_analysis import TraceAnalysis

    Compared: TypeAlias = "LabeledTrace | TraceAnalysis | Trace | str"

Selection = int | Sequence[int] | None


BARS = 30
"""The most names in a figure, largest change first."""


class DeviceType(Enum):
    """Which rows to compare: all, those of the CPU, or GPU activities."""

    ALL = "ALL"
    CPU = "CPU"
    GPU = "GPU"


class LabeledTrace:
    """One side of a comparison: its label and its ranks, read on first use."""

    def __init__(
        self,
        label: str | None = None,
        t: Trace | None = None,
        trace_dir: str | None = None,
        *,
        trace_files: TraceFiles = None,
    ) -> None:
        """Set the label of the side, and its trace or where to find it.

        Raises:
            QueryError: neither a trace nor files nor a folder is given.
        """
        self.label = label or ""
        self.t = t or Trace(trace_files, trace_dir, window="whole")

    @property
    def graphs(self) -> Mapping[int, DependencyGraph]:
        """Rank → dependency graph."""
        return self.t.graphs

    def ranks(self) -> list[int]:
        """Return the ranks."""
        return self.t.get_ranks()

    def iterations(self) -> list[int]:
        """Return the numbers of the profiler steps of all ranks."""
        return sorted({item.number for graph in self.graphs.values() for item in graph.steps()})


@dataclass(frozen=True)
class ComparedSide:
    """One side of a comparison and the label of its columns."""

    label: str
    graphs: Mapping[int, DependencyGraph]

    def scopes(self, ranks: Selection, iterations: Selection) -> list[Scope]:
        """Return the selected steps; by default the first step of the first rank."""
        chosen = [next(iter(self.graphs))] if ranks is None else np.atleast_1d(ranks).tolist()
        return [scope for rank in chosen for scope in _step_scopes(rank, self.graphs[rank], iterations)]


def _step_scopes(rank: int, graph: DependencyGraph, iterations: Selection) -> list[Scope]:
    """Return the steps of one rank; the whole trace if it has none."""
    steps = sorted(item.number for item in graph.steps())
    if not steps:
        return [whole(rank, graph)]
    wanted = steps[:1] if iterations is None else np.atleast_1d(iterations).tolist()
    return [in_window(rank, graph, step(number)) for number in wanted]


class TraceDiff:
    """Compare two runs by name. See also ``hta-graph diff``, which compares critical paths, call paths and order."""

    @classmethod
    def compare_traces(
        cls,
        control: Compared,
        test: Compared,
        control_rank: Selection = None,
        test_rank: Selection = None,
        control_iteration: Selection = None,
        test_iteration: Selection = None,
        device_type: DeviceType = DeviceType.ALL,
        use_short_name: bool = False,
    ) -> pd.DataFrame:
        """Compare counts and durations by name.

        Unlike HTA, rows belong to the step in which they, or the calls that launched them, start on the CPU; operators
        that carry a stream number are not GPU work; a trace without steps is compared as a whole; times are exact.

        Returns:
            indexed by name (or short_name), sorted: ``<label>_counts``, ``<label>_total_duration`` (µs) of both sides,
            diff_counts, diff_duration (µs, test − control), counts_change_categories (``+``, ``-``, ``=``).

        Raises:
            QueryError: a rank or an iteration does not exist.
        """
        sides = _labelled_sides(control, test)
        exact = name_diff(
            sides[0].scopes(control_rank, control_iteration),
            sides[1].scopes(test_rank, test_iteration),
            gpu=device_type is not DeviceType.CPU,
            cpu=device_type is not DeviceType.GPU,
        )
        key = "short_name" if use_short_name else "name"
        if use_short_name:
            exact = exact.rename(columns={"name": key}).assign(**{key: exact["name"].map(name_without_arguments)})
        return _hta_columns(exact.groupby(key).sum(numeric_only=True).sort_index(), sides[0].label, sides[1].label)

    @classmethod
    def ops_diff(
        cls,
        control: Compared,
        test: Compared,
        control_rank: Selection = None,
        test_rank: Selection = None,
        control_iteration: Selection = None,
        test_iteration: Selection = None,
        device_type: DeviceType = DeviceType.ALL,
    ) -> dict[str, list[str]]:
        """Group names by the change of their counts.

        Returns:
            names under ``added``, ``deleted`` (only on one side), ``increased``, ``decreased`` and ``unchanged``.
        """
        frame = cls.compare_traces(
            control, test, control_rank, test_rank, control_iteration, test_iteration, device_type
        )
        # The labels are the user's own words: columns are found by their endings.
        was, now = (frame[name] for name in frame.columns if name.endswith("_counts") and name != "diff_counts")
        chosen = {
            "added": was == 0,
            "deleted": now == 0,
            "increased": (was > 0) & (now > was),
            "decreased": (now > 0) & (now < was),
            "unchanged": now == was,
        }
        return {kind: frame.index[rows].tolist() for kind, rows in chosen.items()}

    @classmethod
    def visualize_counts_diff(
        cls,
        df: pd.DataFrame,
        show_image: bool = True,
        export_image_path: str | None = None,
    ) -> Figure:
        """Draw the counts of both sides and their difference by name (a result of ``compare_traces``)."""
        return _changed_bars(df, "_counts", "diff_counts", "Counts", show_image, export_image_path)

    @classmethod
    def visualize_duration_diff(
        cls,
        df: pd.DataFrame,
        show_image: bool = True,
        export_image_path: str | None = None,
    ) -> Figure:
        """Draw the durations (µs) of both sides and their difference by name (a result of ``compare_traces``)."""
        return _changed_bars(
            df, "_total_duration", "diff_duration", "Total duration, µs", show_image, export_image_path
        )


def _labelled_sides(control: Compared, test: Compared) -> tuple[ComparedSide, ComparedSide]:
    """Label both sides; equal labels get a suffix."""
    first, second = _side_of(control, "Control"), _side_of(test, "Test")
    return first, replace(second, label=f"{second.label}_test") if first.label == second.label else second


def _side_of(side: Compared, default: str) -> ComparedSide:
    """Return one side and its label."""
    if isinstance(side, str):
        side = Trace(trace_dir=side)
    return ComparedSide(getattr(side, "label", "") or default, side.graphs)


def _hta_columns(exact: pd.DataFrame, control: str, test: str) -> pd.DataFrame:
    """Name columns as HTA does, in µs."""
    frame = pd.DataFrame(index=exact.index)
    for side, label in (("control", control), ("test", test)):
        frame[f"{label}_counts"] = exact[f"{side}_count"]
        frame[f"{label}_total_duration"] = exact[f"{side}_ns"] / 1e3
    frame["diff_counts"] = exact["test_count"] - exact["control_count"]
    frame["diff_duration"] = exact["diff_ns"] / 1e3
    signs = np.array(["-", "=", "+"], object)
    frame["counts_change_categories"] = signs[np.sign(frame["diff_counts"]).astype(int) + 1]
    return frame


def _changed_bars(
    df: pd.DataFrame,
    ending: str,
    difference: str,
    unit: str,
    show_image: bool,
    export_image_path: str | None,
) -> Figure:
    """Draw grouped bars of the names that changed most; write an image only if a path is given."""
    # Thousands of names fit no figure: those that changed most come first.
    order = (-df[difference].abs()).argsort(kind="stable")[:BARS]
    chosen = df.iloc[order]
    made = new_figure(title=f"{unit} by name, largest change first", y=unit)
    for column in [name for name in df.columns if name.endswith(ending)] + [difference]:
        made.add_bar(name=column, x=chosen.index, y=chosen[column])
    made.update_layout(barmode="group")
    if export_image_path:
        made.write_image(export_image_path)
    if show_image:
        show(made)
    return made
