"""How the classes of a path look in viewers of Chrome's format, which choose colours for themselves.

Perfetto's UI draws a slice in the colour that a hash of its name gives, digits left out, and knows no other way for
JSON traces (google/perfetto#208, #620, #624); chrome://tracing takes the names of its own palette from ``cname``.
"""

from __future__ import annotations

from collections.abc import Mapping

from hta_graph.model import BoundBy

__all__ = ["CLASS_CNAME", "CLASS_TITLE"]

CLASS_TITLE: Mapping[str, str] = {
    # Among the wordings that say the same these have hashes that are ten colours which one can tell apart.
    BoundBy.CPU_BOUND.label: "CPU in operators and calls (cpu_bound)",
    BoundBy.DATA_LOADING.label: "loading data (data_loading)",
    BoundBy.GPU_COMPUTE_BOUND.label: "computing in kernels (gpu_compute_bound)",
    BoundBy.GPU_COMMUNICATION_BOUND.label: "exchanging data (gpu_communication_bound)",
    BoundBy.GPU_MEMORY_BOUND.label: "copies or sets (gpu_memory_bound)",
    BoundBy.GPU_KERNEL_KERNEL_OVERHEAD.label: "between two kernels (gpu_kernel_kernel_overhead)",
    BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD.label: "waiting for launch of kernels (gpu_kernel_launch_overhead)",
    BoundBy.CPU_GAP.label: "CPU outside of operators (cpu_gap)",
    BoundBy.SYNC_OVERHEAD.label: "returning from the call (sync_overhead)",
    BoundBy.UNEXPLAINED.label: "nothing is known (unexplained)",
}
"""The name of a slice of each class: what it means, which shows first where little room is, and the class."""

CLASS_CNAME: Mapping[str, str] = {
    BoundBy.CPU_BOUND.label: "rail_response",
    BoundBy.DATA_LOADING.label: "detailed_memory_dump",
    BoundBy.GPU_COMPUTE_BOUND.label: "rail_load",
    BoundBy.GPU_COMMUNICATION_BOUND.label: "thread_state_iowait",
    BoundBy.GPU_MEMORY_BOUND.label: "bad",
    BoundBy.GPU_KERNEL_KERNEL_OVERHEAD.label: "background_memory_dump",
    BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD.label: "thread_state_runnable",
    BoundBy.CPU_GAP.label: "generic_work",
    BoundBy.SYNC_OVERHEAD.label: "thread_state_uninterruptible",
    BoundBy.UNEXPLAINED.label: "terrible",
}
"""The colour of each class in chrome://tracing, by its name there: blue, purple, green, orange, ..., red."""
