"""Colors of timelines and charts; of medium lightness, so that they show on white and on black."""

from __future__ import annotations

BOUND_COLOUR = {
    "cpu_bound": "#4f8bd9",
    "data_loading": "#a06bd0",
    "gpu_compute_bound": "#3fa65c",
    "gpu_communication_bound": "#e8893a",
    "gpu_memory_bound": "#cfa92c",
    "gpu_kernel_kernel_overhead": "#4fb3b3",
    "gpu_kernel_launch_overhead": "#2f7f8f",
    "cpu_gap": "#8d99a6",
    "sync_overhead": "#c76b98",
    "unexplained": "#e04848",
}
"""What a class of the critical path is drawn in."""

EVENT_COLOUR = {
    "annotation": "#8d99a6",
    "cpu_op": "#4f8bd9",
    "runtime": "#8878d2",
    "kernel": "#3fa65c",
    "communication": "#e8893a",
    "waiting": "#d0709c",
    "memcpy": "#cfa92c",
    "memset": "#a88a2a",
    "other": "#9a8478",
}
"""What an event is drawn in, by its kind, and what communicates or waits for other ranks."""
PATH_COLOUR = "#e6007a"
"""What says where a path runs."""
