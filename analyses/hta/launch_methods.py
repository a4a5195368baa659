"""What was launched: the methods of ``TraceAnalysis`` about queues, copies, launches, operators' kernels, counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analyses.hta.hta_trace import Trace
from analyses.scope import Scope
from hta_graph.places.remote_path import Location

if TYPE_CHECKING:
    import pandas as pd

    from analyses.hta.hta_counters import TimeSeriesTypes

__all__ = ["Launches"]


class Launches:
    """HTA's methods about launches and what they launch."""

    t: Trace

    def get_queue_length_time_series(self, ranks: Sequence[int] | None = None) -> dict[int, pd.DataFrame]:
        """Return how many launches of each stream had not started, at each change."""
        from analyses.hta.hta_queues import hta_queue_length_time_series

        return hta_queue_length_time_series(self.t.scopes_of(ranks), self.t.origin_ns)

    get_queue_length_series = get_queue_length_time_series

    def get_queue_length_summary(self, ranks: Sequence[int] | None = None) -> pd.DataFrame | None:
        """Return statistics of the queue length per rank and stream."""
        from analyses.hta.hta_queues import hta_queue_length_summary

        return hta_queue_length_summary(self.t.scopes_of(ranks))

    @staticmethod
    def get_queue_length_summary_from_time_series(
        queue_length_dict: Mapping[int, pd.DataFrame],
    ) -> pd.DataFrame | None:
        """Return statistics of queue lengths from their time series."""
        from analyses.hta.hta_queues import hta_queue_length_summary_from_time_series

        return hta_queue_length_summary_from_time_series(queue_length_dict)

    def get_time_spent_blocked_on_full_queue(
        self, queue_length_dict: Mapping[int, pd.DataFrame], max_queue_length: int = 1024
    ) -> pd.DataFrame:
        """Return how long each stream's queue was full (µs)."""
        from analyses.hta.hta_queues import hta_time_spent_blocked_on_full_queue

        return hta_time_spent_blocked_on_full_queue(self.t.scopes, queue_length_dict, max_queue_length)

    def get_memory_bw_time_series(self, ranks: Sequence[int] | None = None) -> dict[int, pd.DataFrame]:
        """Return the bandwidth of each kind of copy at each change (GB/s)."""
        from analyses.hta.hta_bandwidth import hta_memory_bw_time_series

        return hta_memory_bw_time_series(self.t.scopes_of(ranks), self.t.origin_ns)

    get_memory_bw_series = get_memory_bw_time_series

    def get_memory_bw_summary(self, ranks: Sequence[int] | None = None) -> pd.DataFrame | None:
        """Return statistics of the bandwidth per rank and kind of copy."""
        from analyses.hta.hta_bandwidth import hta_memory_bw_summary

        return hta_memory_bw_summary(self.t.scopes_of(ranks))

    def generate_trace_with_counters(
        self,
        time_series: TimeSeriesTypes | None = None,
        ranks: Sequence[int] | None = None,
        output_suffix: str = "_with_counters",
        output_dir: str | Path | None = None,
    ) -> list[Location]:
        """Write traces with counter tracks of queue length and bandwidth, beside the input unless told where."""
        from analyses.hta.hta_counters import hta_generate_trace_with_counters

        return hta_generate_trace_with_counters(
            self.t.scopes_of(ranks), time_series, output_suffix, output_dir, inputs=self.t.graphs.files
        )

    def get_cuda_kernel_launch_stats(
        self,
        ranks: Sequence[int] | None = None,
        runtime_cutoff: int = 50,
        launch_delay_cutoff: int = 100,
        include_memory_events: bool = True,
        visualize: bool = True,
    ) -> dict[int, pd.DataFrame]:
        """Return how long each launch took on the CPU, its work on the GPU, and the delay between them (µs)."""
        from analyses.hta.hta_launches import hta_cuda_kernel_launch_stats

        return hta_cuda_kernel_launch_stats(
            self.t.scopes_of(ranks),
            runtime_cutoff,
            launch_delay_cutoff,
            include_memory_events=include_memory_events,
            visualize=visualize,
        )

    get_cuda_launch_kernel_info = get_cuda_kernel_launch_stats

    def get_aten_op_kernels_and_delay(
        self, ranks: Sequence[int] | None = None, sort_by: Sequence[str] | None = None
    ) -> dict[int, pd.DataFrame]:
        """Return which kernels each ATen operator launches, how often, and the delays until then (µs)."""
        from analyses.hta.hta_launches import hta_aten_op_kernels_and_delay

        return hta_aten_op_kernels_and_delay(self.t.scopes_of(ranks), sort_by)

    def get_frequent_cuda_kernel_sequences(
        self,
        operator_name: str,
        output_dir: str | Path | None = None,
        min_pattern_len: int = 3,
        rank: int | None = None,
        top_k: int = 5,
        visualize: bool = False,
        compress_other_kernels: bool = True,
    ) -> pd.DataFrame:
        """Return the sequences of GPU work under an operator, most frequent first, and mark them in ``output_dir``."""
        from analyses.hta.hta_launches import hta_frequent_cuda_kernel_sequences

        (scope,) = self.t.scopes_of(None if rank is None else [rank])
        return hta_frequent_cuda_kernel_sequences(
            scope,
            operator_name,
            output_dir,
            min_pattern_len,
            top_k,
            visualize=visualize,
            compress_other_kernels=compress_other_kernels,
            inputs=self.t.graphs.files,
        )

    get_frequent_cuda_kernel_patterns = get_frequent_cuda_kernel_sequences

    def get_cupti_counter_data_with_operators(self, ranks: Sequence[int] | None = None) -> list[pd.DataFrame]:
        """Return CUPTI's hardware counters with the operators that launched the kernels, of each rank that has any."""
        return [frame for scope in self.t.scopes_of(ranks) for frame in _counters_of(self.t, scope)]


def _counters_of(t: Trace, scope: Scope) -> list[pd.DataFrame]:
    """Return a rank's counters, if there are any, with the columns of its trace in front."""
    import pandas as pd

    from analyses.hta.hta_counters import hta_cupti_counter_data_with_operators

    found = hta_cupti_counter_data_with_operators([scope], t.origin_ns)
    if not found:
        return []
    rows = t.read_only[0][scope.rank].loc[found[0]["index"]].drop(columns=["s_name", "s_cat"]).reset_index(drop=True)
    more = found[0].drop(columns=[column for column in found[0] if column in rows])
    return [pd.concat([rows.assign(name=found[0]["name"], cat=found[0]["cat"]), more], axis=1)]
