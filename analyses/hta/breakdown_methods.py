"""Where the time goes: the methods of ``TraceAnalysis`` about GPU time, idle time, overlap and annotations."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from analyses import catalogue
from analyses.display.charts import in_notebook, show
from analyses.hta.hta_trace import Trace
from analyses.scope import Scope

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Breakdowns"]


class Breakdowns:
    """HTA's methods about where the time goes."""

    t: Trace

    def get_temporal_breakdown(self, visualize: bool = True) -> pd.DataFrame:
        """Return idle, compute and other time per rank (µs and percent)."""
        from analyses.hta.hta_gpu_time import hta_temporal_breakdown

        _show_figure("temporal-breakdown", self.t.scopes, visualize=visualize)
        return hta_temporal_breakdown(self.t.scopes)

    def get_comm_comp_overlap(self, visualize: bool = True) -> pd.DataFrame:
        """Return how much communication computation hides, per rank (percent)."""
        from analyses.hta.hta_gpu_time import hta_overlap

        _show_figure("overlap", self.t.scopes, visualize=visualize)
        return hta_overlap(self.t.scopes)

    def get_gpu_kernel_breakdown(
        self,
        visualize: bool = True,
        duration_ratio: float = 0.8,
        num_kernels: int = 10,
        include_memory_kernels: bool = True,
        image_renderer: str = "",
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return GPU time per type of work, and per kernel and rank (µs)."""
        from analyses.hta.hta_gpu_time import hta_kernel_breakdown

        # Arguments of HTA's that change nothing here are taken all the same: scripts pass them.
        del image_renderer
        _show_figure("kernel-breakdown", self.t.scopes, visualize=visualize)
        return hta_kernel_breakdown(self.t.scopes, duration_ratio, num_kernels, include_memory_kernels)

    def get_idle_time_breakdown(
        self,
        ranks: Sequence[int] | None = None,
        streams: Collection[int] | None = None,
        visualize: bool = True,
        visualize_pctg: bool = True,
        show_idle_interval_stats: bool = False,
        consecutive_kernel_delay: float = 30,
    ) -> tuple[pd.DataFrame, pd.DataFrame | None]:
        """Return idle time per stream by HTA's causes (µs); ``hta-graph idle-time`` names what each gap waited for."""
        from analyses.hta.hta_idle_time import hta_idle_time

        del visualize_pctg
        scopes = self.t.scopes_of(ranks)
        _show_figure("idle-time", scopes, visualize=visualize)
        return hta_idle_time(scopes, streams, show_idle_interval_stats, consecutive_kernel_delay)

    def get_gpu_kernels_with_user_annotations(
        self, rank: int, expand_names: bool = True, shorten_names: bool = True
    ) -> pd.DataFrame | None:
        """Return a rank's GPU rows with the user annotation over each."""
        from analyses.hta.hta_annotations import hta_gpu_kernels_with_user_annotations

        (scope,) = self.t.scopes_of([rank])
        return hta_gpu_kernels_with_user_annotations(
            scope, expand_names, shorten_names, frames=lambda: self.t.read_only
        )

    def get_gpu_user_annotation_breakdown(
        self,
        use_gpu_annotation: bool = True,
        visualize: bool = True,
        duration_ratio: float = 0.8,
        num_kernels: int = 1000,
        allowlist_patterns: Sequence[str] | None = None,
        image_renderer: str | None = None,
    ) -> pd.DataFrame | None:
        """Return the durations of user annotations per rank and name (µs)."""
        from analyses.hta.hta_annotations import hta_gpu_user_annotation_breakdown

        del image_renderer
        _show_figure("annotations", self.t.scopes, visualize=visualize)
        return hta_gpu_user_annotation_breakdown(
            self.t.scopes, use_gpu_annotation, duration_ratio, num_kernels, allowlist_patterns
        )


def _show_figure(name: str, scopes: Sequence[Scope], *, visualize: bool) -> None:
    """Show an analysis' figure where figures can be shown; elsewhere it is not even asked."""
    if visualize and in_notebook():
        analysis = catalogue.analysis(name)
        show(analysis.figure(analysis.answer(scopes)))
