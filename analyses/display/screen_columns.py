"""Which columns of a table a terminal shows first, and of what the percentages in it are, by the table's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analyses.display.phrases import LATENCY

_GAPS = ("rank", "stream", "cause", "idle_ns", "idle_share", "gaps", "window_share", "median_gap_ns", "p95_gap_ns")
_WAITS = ("rank", "cause", "idle_ns", "idle_share", "name", "gaps", "operator", "lane", "evidence")
_BREAKDOWN = (
    *("rank", "gpu", "window_ns", "compute_share", "exposed_communication_share", "exposed_memory_share", "idle_share"),
)
_OWNERS = ("rank", "name", "gpu_total_ns", "gpu_total_share", "gpu_self_ns", "gpu_self_share", "activities")
_CHANGED = ("control_ns", "test_ns", "diff_ns", "noise_ns")
_JOB_CHANGED = ("control_ns", "test_ns", "diff_ns", "noise_ns", "control_wait_ns", "test_wait_ns", "diff_wait_ns")

ORDER: Mapping[str, Sequence[str]] = {
    "temporal_breakdown": _BREAKDOWN,
    "breakdown_by_gpu": _BREAKDOWN,
    "kernels": ("rank", "kernel", "sum_ns", "time_share", "count", "mean_ns", "kernel_type", "max_ns", "min_ns"),
    "overlap": (
        *("rank", "communication_ns", "exposed_communication_ns", "exposed_waiting_ns", "exposed_transfer_ns"),
        *("overlapped_share", "memory_ns", "exposed_memory_ns"),
    ),
    # of overlap, then of collectives
    "collectives": (
        *("rank", "number", "collective", "exposed_ns", "exposed_share", "duration_ns", "count"),
        *("waited_ns", "last_rank", "longest_wait_ns", "transfer_ns", "bytes", "bus_gbps", "imbalance"),
        *("dtype", "group", "kernel"),
    ),
    "most_exposed": ("rank", "event_index", "collective", "exposed_ns", "duration_ns", "kernel"),
    "copies": ("rank", "kernel", "exposed_ns", "exposed_share", "duration_ns", "count"),
    "idle_time": _GAPS,
    "streams": _GAPS,
    "launch_gaps": _GAPS,
    "waits": _WAITS,
    "waits_innermost": _WAITS,
    "longest_gaps": ("rank", "offset_ns", "idle_ns", "cause", "name", "kernel", "cause_share", "event_index"),
    "queue_length": (
        *("rank", "stream", "launches", "max_length", "time_mean_length", "mean_length", "blocked_ns"),
        *("full_ns", "full_share", "blocked_calls"),
    ),
    "memory_bandwidth": ("rank", "kind", "duration_ns", "bytes", "events", "mean_gbps", "max_gbps", "busy_ns"),
    "memory": ("rank", "device", "peak_bytes", "peak_by", "first_bytes", "last_bytes", "peak_reserved_bytes"),
    "alive_at_the_peak": ("rank", "device", "name", "alive_bytes", "alive_share", "allocations"),
    "launch_stats": (
        *("rank", "call", "launches", "cpu_ns", "gpu_ns", "launch_delay_ns", "behind_stream_ns", "overhead_ns"),
        *("median_overhead_ns", "behind_event_ns", "median_launch_delay_ns", "calls"),
    ),
    "largest_overheads": ("rank", "event_index", "overhead_ns", "name", "behind_stream_ns", "call"),
    "operator_kernels": (
        *("rank", "operator", "count", "kernels", "gpu_ns", "kernel_sequence", "median_launch_delay_ns"),
        *("median_runtime_delay_ns", "mean_launch_delay_ns", "mean_runtime_delay_ns"),
    ),
    "roofline": (
        *("rank", "operator", "inputs", "gpu_ns", "saves_ns", "peak_share", "bound", "gpu_share", "calls"),
        *("achieved_tflops", "achieved_gbps", "path_ns", "unknown"),
    ),
    "losses": ("rank", "part", "cause", "time_ns", "window_share"),
    "collective_rates": (
        *("rank", "collective", "bytes", "count", "bus_gbps", "best_bus_gbps", "link_gbps", "link_share", "gpu_ns"),
        *("dtype", "group", "ranks", "algorithm_gbps"),
    ),
    "engine_phases": (
        *("rank", "phase", "steps", "time_ns", "time_share", "median_ns", "bound_by", "idle_before_share"),
        *("idle_inside_share", "exposed_communication_share", "gpu_work_share", "tokens_per_s", "tokens"),
    ),
    "step_gaps": ("rank", "phase", "cause", "idle_ns", "idle_share", "per_step_ns", "name", "place"),
    "engine_steps": (
        *("rank", "step", "phase", "requests", "tokens", "iteration_ns", "idle_before_ns", "idle_inside_ns", "runs_as"),
        *("exposed_communication_ns", "latency_ns", "waits_ns", "busy_ns", "tokens_per_s", "graph_launches"),
        *("padded_requests", "activities"),
    ),
    "graph_sizes": ("rank", "phase", "padded_requests", "steps", "requests", "padding_share", "time_ns"),
    "kernel_sequences": ("rank", "operator", "count", "kernels", "gpu_ns", "operator_ns", "kernel_sequence"),
    "annotations": ("rank", "annotation", "count", "cpu_ns", "gpu_ns", "gpu_self_ns", "gpu_busy_ns", "activities"),
    "durations": ("rank", "side", "annotation", "count", "sum_ns", "mean_ns", "min_ns", "max_ns"),
    **{f"gpu_time_by_{owner}": _OWNERS for owner in ("operator", "frame", "module", "annotation", "module_class")},
    "gpu_time_by_activity": ("rank", "event_index", "name", "gpu_ns", "operator", "annotation", "module", "frame"),
    "hardware_counters": ("rank", "counter", "operator", "value", "value_share", "ranges"),
    "stragglers": ("rank", "wait_caused_ns", "wait_caused_share", "times_last", "last_share", "collectives"),
    "hosts": ("host", "wait_caused_ns", "wait_caused_share", "wait_ns", "ranks", "worst_rank", "times_last"),
    "causes": (
        "rank",
        "name",
        "caused_ns",
        "caused_share",
        "direct_ns",
        "bound_by",
        "collectives",
        "call_path",
        "propagated_ns",
    ),
    "ranks": ("rank", "duration_ns", "wait_ns", "transfer_ns", "times_last", "wait_caused_ns", "kernels"),
    "group_kinds": ("kind", "waited_ns", "longest_wait_ns", "transfer_ns", "worst_group", "worst_rank", "groups"),
    "groups": ("group", "kind", "ranks", "waited_ns", "longest_wait_ns", "transfer_ns", "worst_rank"),
    "critical_path_by_class": ("bound_by", *_CHANGED),
    "critical_path_by_name": ("name", *_CHANGED, "bound_by"),
    "gpu_time_by_call_path": ("call_path", *_CHANGED),
    "kernels_in_order": ("change", "kernels", "times", "control_ns", "test_ns", "diff_ns", "call_path"),
    "by_name": ("name", *_CHANGED),
    "steps": ("side", "step", "iteration_ns", "latency_ns", "bound_by", "outlier"),
    "environment": ("what", "control", "test"),
    "job_classes": ("bound_by", *_JOB_CHANGED),
    "job_names": ("name", *_JOB_CHANGED, "bound_by"),
    "job_ranks": ("rank", *_JOB_CHANGED, "host"),
    "job_hosts": ("host", *_JOB_CHANGED, "ranks"),
    "job_groups": ("kind", *_JOB_CHANGED, "worst_group", "ranks"),
    "job_causes": ("rank", "name", *_JOB_CHANGED, "bound_by", "call_path"),
}
"""The columns that matter of each table, the most important first: where not all fit, a terminal shows only these."""

_OF_WINDOW = dict.fromkeys(
    ("compute_share", "exposed_communication_share", "exposed_memory_share", "idle_share"), "the window"
)
_OF_GPU_TIME = dict.fromkeys(("gpu_self_share", "gpu_total_share"), "all GPU time")
_OF_STREAM = {"idle_share": "the stream's idle time"}
_OF_IDLE = {"idle_share": "all idle time"}

_BY_SIZE = "sorted by |diff|"
CAPTION: Mapping[str, str] = {
    **{name: _BY_SIZE for name, columns in ORDER.items() if "diff_ns" in columns},
    "steps": LATENCY,
    "engine_phases": "time %: of all steps; other percentages: of the phase's time",
}
"""What a reader must know about a table: its order, what a column is."""

SHARE_OF: Mapping[str, Mapping[str, str]] = {
    "temporal_breakdown": _OF_WINDOW,
    "breakdown_by_gpu": _OF_WINDOW,
    "kernel_types": {"time_share": "the GPU's busy time"},
    "kernels": {"time_share": "all GPU time"},
    "overlap": {"overlapped_share": "communication"},
    "collectives": {"exposed_share": "the rank's exposed communication"},
    "copies": {"exposed_share": "the rank's exposed copies"},
    "step_gaps": {"idle_share": "the idle time of all steps"},
    "graph_sizes": {"padding_share": "what the graphs compute"},
    "idle_time": _OF_IDLE,
    "waits": _OF_IDLE,
    "waits_innermost": _OF_IDLE,
    "longest_gaps": {"cause_share": "the gap"},
    "streams": _OF_STREAM,
    "launch_gaps": _OF_STREAM,
    "queue_length": {"full_share": "the window"},
    "alive_at_the_peak": {"alive_share": "the peak"},
    "roofline": {"gpu_share": "all GPU time", "peak_share": "the device's limit"},
    "limits": {"unknown_share": "GPU time", "mfu_share": "the window"},
    "known_time": {"gpu_share": "all GPU time"},
    "collective_rates": {"link_share": "the link's rate"},
    **{f"gpu_time_by_{owner}": _OF_GPU_TIME for owner in ("operator", "frame", "module", "annotation", "module_class")},
    "hardware_counters": {"value_share": "all operators"},
    "stragglers": {"last_share": "all collectives", "wait_caused_share": "all waiting"},
    "causes": {"caused_share": "all waiting"},
    "hosts": {"wait_caused_share": "all waiting"},
}
"""Of what the percentages in a column are."""
