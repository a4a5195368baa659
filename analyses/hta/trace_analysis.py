"""``TraceAnalysis``: HTA's methods, arguments, defaults and shapes over the dependency graph.

A method declares arguments, defaults, the meaning of its answer, and intended differences from HTA; one function
computes it, which is imported on first use. Figures appear in notebooks, and in a browser where there is a display;
nothing is written next to the input unless requested.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analyses.declare.scope import Scope
from analyses.display.charts import can_show, show
from analyses.hta.trace import Trace
from analyses.questions import catalogue
from hta_graph.base.storage.location import resolve_location

if TYPE_CHECKING:
    import pandas as pd

    from analyses.hta.critical_path import HtaCriticalPath
    from analyses.hta.frame import SymbolTable
    from analyses.hta.queues_and_launches import TimeSeriesTypes
    from hta_graph.base.storage.location import Location
    from hta_graph.graph.dependency_graph import DependencyGraph
    from hta_graph.paths.critical_path import CriticalPath
    from hta_graph.paths.windows import WindowQuery

    StragglerRule = Callable[[pd.DataFrame, SymbolTable, int, bool], pd.Series]


class TraceAnalysis:
    """HTA's analyses of the ranks of a run."""

    def __init__(
        self,
        trace_files: Mapping[int, str] | Sequence[str] | None = None,
        trace_dir: str | None = None,
        include_last_profiler_step: bool = False,
        *,
        window: str = "hta",
        label: str = "",
    ) -> None:
        """Set the traces; they are read, in parallel, on first use.

        Args:
            trace_files: rank → file, or a list of files; relative names are searched in ``trace_dir`` too.
            trace_dir: a folder of rank files.
            include_last_profiler_step: keep the last step in HTA's window.
            window: ``hta`` for the window that HTA documents (without the last step and without work launched before
                recording started), ``whole`` for the whole trace.
            label: the name of this side in :class:`TraceDiff`.

        Raises:
            QueryError: neither files nor a folder is given.
            UsageError: the window is unknown.
        """
        self.t = Trace(trace_files, trace_dir, include_last_profiler_step, window=window)
        self.label = label

    @property
    def graphs(self) -> Mapping[int, DependencyGraph]:
        """Rank → dependency graph."""
        return self.t.graphs

    @property
    def symbol_table(self) -> SymbolTable:
        """The texts of the ``name`` and ``cat`` columns of :meth:`get_trace`."""
        return self.t.symbol_table

    def get_ranks(self) -> list[int]:
        """Return the ranks."""
        return self.t.get_ranks()

    def get_graph(self, rank: int) -> DependencyGraph:
        """Return a rank's dependency graph."""
        return self.t.graphs[rank]

    def get_trace(self, rank: int) -> pd.DataFrame:
        """Return a rank's rows with HTA's columns, as a copy (ts and dur in µs from the run's earliest event)."""
        return self.t.get_trace(rank).copy()

    def get_profiler_steps(self) -> list[int]:
        """Return the numbers of the analyzed profiler steps, sorted.

        Only steps on the CPU count, not their copies on the GPU.
        """
        from analyses.hta.breakdowns import hta_profiler_steps

        return hta_profiler_steps(self.t.scopes)

    def get_potential_stragglers(
        self,
        profiler_steps: Sequence[int] | None = None,
        num_candidates: int = 2,
        visualize: bool = False,
        straggler_identification_impl: StragglerRule | None = None,
    ) -> list[int]:
        """Return the ranks that cause the most waiting, worst first; or those that your own rule finds.

        HTA's answer is based on the one kernel name whose durations vary most, knows the ``ncclKernel`` prefix only,
        needs steps and equal stream numbers, and orders equal ranks by chance. Here a rank that no other rank waits for
        is not a straggler.

        Args:
            profiler_steps: only collectives launched in these steps (by the rank that came last); all by default.
            num_candidates: the most ranks to return.
            visualize: show the figure, in a notebook or a browser.
            straggler_identification_impl: your own rule, called as in HTA: with the rows of all ranks in the steps
                (columns ``rank`` and ``idx`` first), the symbol table, ``num_candidates`` and ``visualize``; it returns
                a count per rank.

        Raises:
            QueryError: the traces have none of the steps.
        """
        from analyses.hta.breakdowns import hta_potential_stragglers

        if straggler_identification_impl is not None:
            return _ranks_by_rule(self.t, profiler_steps, num_candidates, straggler_identification_impl, visualize)
        if visualize:
            stragglers = catalogue.analysis("stragglers")
            show(stragglers.figure(stragglers.answer(self.t.scopes)))
        return hta_potential_stragglers(self.t.scopes, profiler_steps, max(num_candidates, 1))

    def get_temporal_breakdown(self, visualize: bool = True) -> pd.DataFrame:
        """Return idle, compute and other time per rank (µs and percent of the window)."""
        from analyses.hta.breakdowns import hta_temporal_breakdown

        _show_figure("temporal-breakdown", self.t.scopes, visualize=visualize)
        return hta_temporal_breakdown(self.t.scopes)

    def get_comm_comp_overlap(self, visualize: bool = True) -> pd.DataFrame:
        """Return the share of communication that overlaps with computation, per rank (percent).

        Without communication the percentage is missing (NaN, as in HTA); ``hta-graph overlap`` explains why.
        """
        from analyses.hta.breakdowns import hta_overlap

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
        """Return GPU time by type of work over all ranks, and by kernel and rank (µs).

        ``duration_ratio`` is a share of time. Statistics are over runs; HTA's are over sums as soon as a type has more
        than ``num_kernels`` names.
        """
        from analyses.hta.breakdowns import hta_kernel_breakdown

        # Arguments of HTA's without effect here are accepted, because scripts pass them.
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
        """Return idle time per stream by HTA's causes (µs); ``hta-graph idle-time`` lists what each gap waited for.

        The delay is in microseconds, as HTA uses it, although HTA documents nanoseconds. Activities without a launch
        call in the file are a cause of their own, ``launch_unknown``; HTA joins them with the first event of the file.

        Args:
            ranks: the ranks to analyze; by default rank 0, else the first one.
            streams: the numbers of the streams to analyze; all by default.
            visualize: show the figure, in a notebook or a browser.
            visualize_pctg: accepted and ignored.
            show_idle_interval_stats: return statistics of the intervals too.
            consecutive_kernel_delay: the threshold of ``kernel_wait``, in µs.
        """
        from analyses.hta.breakdowns import hta_idle_time

        del visualize_pctg
        scopes = self.t.scopes_of(ranks)
        _show_figure("idle-time", scopes, visualize=visualize)
        return hta_idle_time(scopes, streams, show_idle_interval_stats, consecutive_kernel_delay)

    def get_gpu_kernels_with_user_annotations(
        self, rank: int, expand_names: bool = True, shorten_names: bool = True
    ) -> pd.DataFrame | None:
        """Return a rank's GPU rows with the user annotation over each.

        The annotation is the shortest copy on the same stream that overlaps. HTA addresses rows by their times, so it
        also marks a row of the same times on another stream, and fails where rounding made a duration negative.

        Args:
            rank: a loaded rank.
            expand_names: add ``s_name``, ``s_cat`` and ``s_user_annotation`` ("" where there is none).
            shorten_names: remove template and function arguments from these.

        Returns:
            all columns of the trace and ``user_annotation`` (a symbol, -1: none); None without copies.
        """
        from analyses.hta.breakdowns import hta_gpu_kernels_with_user_annotations

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
        """Return the durations of user annotations by rank and name (µs).

        Where a rank has more than ``num_kernels`` names, the longest are kept that together reach ``duration_ratio`` of
        the time, at most ``num_kernels``, and those that match an expression of ``allowlist_patterns``; ``others`` are
        all instances of the rest. HTA then computes statistics over sums of names, and escapes the expressions.

        Returns:
            name, sum (us), max (us), min (us), stddev (of a sample; 0 for one), mean (us), rank, by rank and name; None
            if no rank has such annotations. Nested and repeated instances add up.
        """
        from analyses.hta.breakdowns import hta_gpu_user_annotation_breakdown

        del image_renderer
        _show_figure("annotations", self.t.scopes, visualize=visualize)
        return hta_gpu_user_annotation_breakdown(
            self.t.scopes, use_gpu_annotation, duration_ratio, num_kernels, allowlist_patterns
        )

    def get_queue_length_time_series(self, ranks: Sequence[int] | None = None) -> dict[int, pd.DataFrame]:
        """Return how many launches of each stream had not started, at each change.

        Returns:
            rank → ts (µs), pid, tid, stream, queue_length; index: event.
        """
        from analyses.hta.queues_and_launches import hta_queue_length_time_series

        return hta_queue_length_time_series(self.t.scopes_of(ranks), self.t.origin_ns)

    get_queue_length_series = get_queue_length_time_series

    def get_queue_length_summary(self, ranks: Sequence[int] | None = None) -> pd.DataFrame | None:
        """Return statistics of the queue length over its changes, per rank and stream."""
        from analyses.hta.queues_and_launches import hta_queue_length_summary

        return hta_queue_length_summary(self.t.scopes_of(ranks))

    @staticmethod
    def get_queue_length_summary_from_time_series(
        queue_length_dict: Mapping[int, pd.DataFrame],
    ) -> pd.DataFrame | None:
        """Return statistics of queue lengths from their time series, without changing these as HTA does."""
        from analyses.hta.queues_and_launches import hta_queue_length_summary_from_time_series

        return hta_queue_length_summary_from_time_series(queue_length_dict)

    def get_time_spent_blocked_on_full_queue(
        self, queue_length_dict: Mapping[int, pd.DataFrame], max_queue_length: int = 1024
    ) -> pd.DataFrame:
        """Return how long each stream's queue was full (µs), and the share of the trace's length.

        HTA keeps only the last stream of each rank. Its default finds nothing on NVIDIA, where queues are full near
        1,022, and nothing on AMD, where they hold more.

        Args:
            queue_length_dict: what :meth:`get_queue_length_time_series` returns.
            max_queue_length: the number of launches in a full queue.

        Raises:
            QueryError: a rank of the series is not loaded.
        """
        from analyses.hta.queues_and_launches import hta_time_spent_blocked_on_full_queue

        return hta_time_spent_blocked_on_full_queue(self.t.scopes, queue_length_dict, max_queue_length)

    def get_memory_bw_time_series(self, ranks: Sequence[int] | None = None) -> dict[int, pd.DataFrame]:
        """Return the bandwidth of each kind of copy at each change (GB/s).

        Every start and end is a point; a copy of length 0 counts as 1 µs, one without a recorded bandwidth as 0 GB/s.
        Unlike in HTA, sums have no rounding residues, and ends come before starts at the same time.

        Returns:
            rank → ts (µs), pid, name, memory_bw_gbps.
        """
        from analyses.hta.queues_and_launches import hta_memory_bw_time_series

        return hta_memory_bw_time_series(self.t.scopes_of(ranks), self.t.origin_ns)

    get_memory_bw_series = get_memory_bw_time_series

    def get_memory_bw_summary(self, ranks: Sequence[int] | None = None) -> pd.DataFrame | None:
        """Return statistics of the bandwidth by rank and kind of copy, over the points above 0."""
        from analyses.hta.queues_and_launches import hta_memory_bw_summary

        return hta_memory_bw_summary(self.t.scopes_of(ranks))

    def generate_trace_with_counters(
        self,
        time_series: TimeSeriesTypes | None = None,
        ranks: Sequence[int] | None = None,
        output_suffix: str = "_with_counters",
        output_dir: str | Path | None = None,
    ) -> list[Location]:
        """Write traces with counter tracks of queue length and bandwidth, by default next to the input.

        Reading the folder again leaves these copies out, if they have the default suffix.
        The events and the compression of the trace are not changed; HTA rewrites them, and writes gzip into ``.json``.

        Args:
            time_series: the series to write; both by default.
            ranks: the ranks to write; by default rank 0, else the first one.
            output_suffix: the suffix before ``.json`` in the name.
            output_dir: where to write; by default next to the input, as HTA does.

        Returns:
            the files written.

        Raises:
            OutputError: a file cannot be written, is an input, or two would have the same name.
        """
        from analyses.hta.queues_and_launches import hta_generate_trace_with_counters

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
        """Return the CPU time of each launch, the GPU time of its work, and the delay between them (µs).

        HTA knows cudaLaunchKernel, cudaLaunchKernelExC, cudaMemcpyAsync and cudaMemsetAsync; here every launch counts,
        including those of AMD, of the driver and of graphs. The cutoffs affect the figure only.

        Returns:
            rank → one row per launch, in the calls' order.
        """
        from analyses.hta.queues_and_launches import hta_cuda_kernel_launch_stats

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
        """Return the kernels that each ATen operator launches, with counts and launch delays (µs).

        Unlike in HTA, an operator owns the launches of its own thread alone, launches of graphs and of AMD count, a
        call can launch no kernel or many, and the rows of ranks are never mixed.

        Args:
            ranks: the ranks to analyze; by default rank 0, else the first one.
            sort_by: columns, largest first; ``occurrence_count`` by default.

        Returns:
            rank → one row per operator and sequence.

        Raises:
            QueryError: there is no such column.
        """
        from analyses.hta.queues_and_launches import hta_aten_op_kernels_and_delay

        return hta_aten_op_kernels_and_delay(self.t.scopes_of(ranks), sort_by)

    get_op_kernels_and_delay = get_aten_op_kernels_and_delay

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
        """Return the sequences of GPU work under an operator, most frequent first, and mark them in an overlay.

        Unlike in HTA, depth is counted per branch, and GPU annotations of the name and stream numbers do not matter.

        Args:
            operator_name: a part of the names of the events whose GPU work is analyzed.
            output_dir: where to write ``overlaid_<input's name>``; no file is written by default. The events of the
                trace are not changed; the ``top_k`` patterns are in a process "Kernel sequences", their text and count
                in the argument "Patterns".
            min_pattern_len: leave out sequences of fewer GPU activities.
            rank: the rank; by default 0, else the first one.
            top_k: the number of patterns in the overlay and the figure.
            visualize: show the figure, in a notebook or a browser.
            compress_other_kernels: accepted and ignored: the overlay is barely larger than the input.

        Returns:
            pattern, count, GPU kernel duration (us), CPU op duration (us), both summed.

        Raises:
            OutputError: the overlay cannot be written.
        """
        from analyses.hta.queues_and_launches import hta_frequent_cuda_kernel_sequences

        del compress_other_kernels
        (scope,) = self.t.scopes_of(None if rank is None else [rank])
        return hta_frequent_cuda_kernel_sequences(
            scope,
            operator_name,
            output_dir,
            min_pattern_len,
            top_k,
            visualize=visualize,
            inputs=self.t.graphs.files,
        )

    get_frequent_cuda_kernel_patterns = get_frequent_cuda_kernel_sequences

    def get_cupti_counter_data_with_operators(self, ranks: Sequence[int] | None = None) -> list[pd.DataFrame]:
        """Return CUPTI's hardware counters with the operators that launched the kernels, for each rank that has any.

        HTA matches ranges with calls of cudaLaunchKernel only, and fails if a launch has no operator; here such a range
        has an empty op_stack.

        Returns:
            the columns of the trace, a column per counter, index_runtime, op_stack (outermost first), top_level_op,
            bottom_level_op; ranks whose ranges and launches differ in number are left out, as in HTA.
        """
        return [frame for scope in self.t.scopes_of(ranks) for frame in _counters_of(self.t, scope)]

    def critical_path_analysis(
        self,
        rank: int,
        annotation: str = "",
        instance_id: int | tuple[int, int] | None = None,
        data_load_events: Sequence[str] | None = None,
    ) -> tuple[HtaCriticalPath, bool]:
        """Return the critical path of an annotation's instances, and True.

        It is a :class:`hta_graph.CriticalPath` that has the edges of HTA's graph too: ``critical_path_edges_set`` and
        ``get_events_for_edge``.

        Args:
            rank: a loaded rank.
            annotation: a part of the annotation's name; the median step by default.
            instance_id: an instance from 0, or the first and the last one.
            data_load_events: regular expressions of operators and annotations that load data.

        Raises:
            QueryError: the rank, the annotation or the instance does not exist.
        """
        from analyses.hta.critical_path import HtaCriticalPath
        from hta_graph.paths.critical_path import critical_path

        window = _window_of_instances(annotation, instance_id) if annotation else None
        return HtaCriticalPath.of(critical_path(self.t.graphs[rank], window, data_load=data_load_events or ())), True

    def overlay_critical_path_analysis(
        self,
        rank: int,
        critical_path_graph: CriticalPath,
        output_dir: str,
        only_show_critical_events: bool = True,
        show_all_edges: bool = False,
    ) -> str:
        """Write the trace with the critical path as an overlay for Perfetto, and return the file's name.

        The file is called as in HTA, ``overlaid_critical_path_`` and the trace's own name, and compressed as that says;
        HTA writes gzip under any name. The original events are always kept: a path without its surroundings cannot be
        checked.
        """
        from hta_graph.base.storage.output_paths import check_output
        from hta_graph.export.perfetto.path_overlay import write_overlay

        del only_show_critical_events, show_all_edges
        name = self.t.graphs[rank].trace.path.name
        target = resolve_location(output_dir).expanduser() / f"overlaid_critical_path_{name}"
        check_output(target, self.t.graphs.files)
        write_overlay(critical_path_graph, target)
        return str(target)


def _window_of_instances(annotation: str, instance_id: int | tuple[int, int] | None) -> WindowQuery:
    """Return the window of one or several instances of an annotation whose name contains a text."""
    from hta_graph.paths.windows import annotation as instances

    # One number is one instance; a pair the first and the last.
    first, last = instance_id if isinstance(instance_id, tuple) else (instance_id or 0, instance_id)
    return instances(f".*{re.escape(annotation)}.*", regex=True, first=first, last=last)


def _ranks_by_rule(
    t: Trace, steps: Sequence[int] | None, num_candidates: int, rule: StragglerRule, visualize: bool
) -> list[int]:
    """Return the ranks that a rule counts most often in the given steps."""
    import pandas as pd

    # A user's rule can write into its frame: it gets a copy, made by the concatenation.
    frame = pd.concat(t.read_only[0], names=["rank", "idx"]).reset_index()
    chosen = frame["iteration"].isin(steps) if steps is not None else frame["iteration"] >= 0
    counts = rule(frame[chosen], t.symbol_table, num_candidates, visualize)
    return [int(rank) for rank in counts.sort_values(ascending=False, kind="stable").index[:num_candidates]]


def _show_figure(name: str, scopes: Sequence[Scope], *, visualize: bool) -> None:
    """Show an analysis' figure where figures can be shown; elsewhere it is not computed."""
    if visualize and can_show():
        analysis = catalogue.analysis(name)
        show(analysis.figure(analysis.answer(scopes)))


def _counters_of(t: Trace, scope: Scope) -> list[pd.DataFrame]:
    """Return a rank's counters, if there are any, after the columns of its trace."""
    import pandas as pd

    from analyses.hta.queues_and_launches import hta_cupti_counter_data_with_operators

    found = hta_cupti_counter_data_with_operators([scope], t.origin_ns)
    if not found:
        return []
    rows = t.read_only[0][scope.rank].loc[found[0]["index"]].drop(columns=["s_name", "s_cat"]).reset_index(drop=True)
    more = found[0].drop(columns=[column for column in found[0] if column in rows])
    return [pd.concat([rows.assign(name=found[0]["name"], cat=found[0]["cat"]), more], axis=1)]
