"""``MemoryAnalysis``: HTA's class over the profiler's raw memory timeline."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from analyses.display.charts import show
from analyses.questions.raw_memory_timeline import RawTimeline, answer, figure, read_raw_timeline, timeline_table

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure


class MemoryAnalysis:
    """HTA's class for a raw memory export; only the import changes."""

    def __init__(self, path: str | Path) -> None:
        self.path = path

    @cached_property
    def timeline(self) -> RawTimeline:
        """The running totals, read on first use."""
        return read_raw_timeline(self.path)

    def get_memory_timeline(self) -> pd.DataFrame:
        """Return the memory in use over time: time_ns, eight categories and their total, in bytes."""
        return timeline_table(self.timeline)

    def plot_memory_timeline(self, save_graph: bool = False) -> Figure:
        """Show the stacked areas in a notebook, or save them as ``images/memory_plot.png`` (requires kaleido).

        HTA returns nothing; this returns the figure.
        """
        made = figure(answer(self.timeline))
        if save_graph:
            Path("images").mkdir(exist_ok=True)
            made.write_image("images/memory_plot.png")
        else:
            show(made)
        return made
