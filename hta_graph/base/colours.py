"""Colors of pages, timelines, pictures and charts: one per class, of medium lightness for white and black grounds."""

from __future__ import annotations

BOUND_COLOUR = {
    "cpu_bound": "#4f8bd9",
    "data_loading": "#a06bd0",
    "gpu_compute_bound": "#3fa65c",
    "gpu_communication_bound": "#e8893a",
    "gpu_memory_bound": "#cfa92c",
    "gpu_kernel_kernel_overhead": "#4fb3b3",
    "gpu_kernel_launch_overhead": "#2f7f8f",
    "cpu_gap": "#93b5e1",
    "sync_overhead": "#c76b98",
    "unexplained": "#e04848",
}
"""The color of each class of the critical path."""

CAUSE_CLASS = {
    "host_operator": "cpu_bound",
    "host_call": "cpu_bound",
    "host_wait": "cpu_bound",
    "other_thread": "cpu_bound",
    "host_no_operator": "cpu_gap",
    "host_blocked": "sync_overhead",
    "data_loading": "data_loading",
    "queue_full": "gpu_kernel_launch_overhead",
    "launch": "gpu_kernel_launch_overhead",
    "stream_order": "gpu_kernel_kernel_overhead",
    "graph_order": "gpu_kernel_kernel_overhead",
    "kernel_wait": "gpu_kernel_kernel_overhead",
    "event_wait": "gpu_kernel_kernel_overhead",
    "other": "gpu_kernel_kernel_overhead",
    "launch_unknown": "unexplained",
    "unknown": "unexplained",
}
"""The class whose color a cause of an idle GPU is drawn in; a cause without one is drawn as idle time."""

WAITING_COLOUR = "#a8683a"
"""Waiting for other ranks."""
IDLE_COLOUR = "#8d99a6"
NEUTRAL_COLOUR = "#7f9aa8"
"""What has no class, and what several classes share."""

EVENT_COLOUR = {
    "annotation": "#8d99a6",
    "cpu_op": BOUND_COLOUR["cpu_bound"],
    "runtime": "#3464a3",
    "kernel": BOUND_COLOUR["gpu_compute_bound"],
    "communication": BOUND_COLOUR["gpu_communication_bound"],
    "waiting": WAITING_COLOUR,
    "memcpy": BOUND_COLOUR["gpu_memory_bound"],
    "memset": "#a88a2a",
    "other": "#b0a8a0",
}
"""What an event is drawn in: the color of its class; runtime calls and memsets have a darker shade of it."""
PATH_COLOUR = "#e6007a"
"""Where a path runs."""
