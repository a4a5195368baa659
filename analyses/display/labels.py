"""The labels of all keys in answers: what classes, causes, reasons and edge kinds mean, for a person."""

from __future__ import annotations

from collections.abc import Mapping

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import EDGE_MEANING

MEANING: Mapping[str, str] = {
    "cpu_bound": "the CPU works: operators and calls",
    "data_loading": "the CPU loads data",
    "gpu_compute_bound": "the GPU computes",
    "gpu_communication_bound": "the GPU communicates; may include waiting for other ranks",
    "gpu_memory_bound": "the GPU copies or sets memory",
    "gpu_kernel_kernel_overhead": "the GPU is idle between dependent activities",
    "gpu_kernel_launch_overhead": "the GPU waits for a launch",
    "cpu_gap": "no operator is open: Python, the framework, another thread",
    "sync_overhead": "the GPU is done, the waiting call has not returned",
    "unexplained": "no cause is known",
}
"""What each class of a path means, in a few words."""

SHORT: Mapping[str, str] = {
    "cpu_bound": "CPU works",
    "data_loading": "CPU loads data",
    "gpu_compute_bound": "GPU computes",
    "gpu_communication_bound": "GPU communicates",
    "gpu_memory_bound": "GPU copies or sets",
    "gpu_kernel_kernel_overhead": "GPU between kernels",
    "gpu_kernel_launch_overhead": "GPU awaits launch",
    "cpu_gap": "CPU, no operator",
    "sync_overhead": "call not returned",
    "unexplained": "unexplained",
    "host_operator": "CPU in operator",
    "host_call": "CPU in driver call",
    "host_blocked": "CPU waits for GPU",
    "host_no_operator": "CPU in no operator",
    "other_thread": "by another thread",
    "queue_full": "launch queue full",
    "launch": "launch under way",
    "stream_order": "next on the stream",
    "graph_order": "next in the graph",
    "event_wait": "waits for stream",
    "launch_unknown": "launch unrecorded",
    "unknown": "no cause known",
    "no_more_work": "no work follows",
    "other_rank": "by another rank",
    "host_wait": "launched too late",
    "kernel_wait": "stream's usual gap",
    "other": "launched in time",
}
"""Classes of a path and causes of an idle GPU where only two or three words fit: cells of a table, legends."""

OF_JOBS = {
    "gpu_communication_bound": ("the ranks communicate; time of waiting is what the late rank did", "communicates")
}
"""What means something else where the path goes through all ranks: no waiting for others is in it."""


MEANING_IN_JOBS: Mapping[str, str] = {**MEANING, **{key: long for key, (long, _) in OF_JOBS.items()}}
"""What each class means on the path of a job."""


def class_meanings(graph: DependencyGraph) -> Mapping[str, str]:
    """Return what each class means on a path of a graph, that of a rank or of a job."""
    return MEANING if len(graph.rank_graphs) < 2 else MEANING_IN_JOBS


def short_labels(graph: DependencyGraph) -> Mapping[str, str]:
    """Return the same in two or three words."""
    return SHORT if len(graph.rank_graphs) < 2 else {**SHORT, **{key: short for key, (_, short) in OF_JOBS.items()}}


CAUSE: Mapping[str, str] = {
    "host_operator": "the CPU works in an operator",
    "host_call": "the CPU is in a runtime call: an allocation, an event, another launch",
    "host_blocked": "the CPU waits in a synchronising call or in a copy that blocks",
    "host_no_operator": "no operator is open: Python, the framework",
    "data_loading": "the CPU loads data",
    "other_thread": "another thread hands the work over or holds the driver's lock",
    "queue_full": "the launch waits for room in the stream's queue",
    "launch": "the launch is under way",
    "stream_order": "launched in time: the stream goes from one activity to the next",
    "graph_order": "launched in time: the graph goes from one node to the next",
    "event_wait": "the stream waits for an event of another stream",
    "launch_unknown": "the launching call is not in the file",
    "unknown": "no cause is known",
    "no_more_work": "no GPU work follows in the trace",
    "other_rank": "waits for communication that itself waits for another rank",
    "host_wait": "the CPU launched the next work too late",
    "kernel_wait": "launched in time: no more than the stream's usual gap",
    "other": "launched in time: something else held the next work",
}
"""What each cause of an idle GPU or stream means."""

REASON: Mapping[str, str] = {
    "before_recording": "held by work that was enqueued before the recording",
    "missing_graph_node": "a node of the graph that was not recorded, in every replay",
    "wait_without_record": "a wait of which the trace has no record",
    "other_rank": "it waited for another rank",
    "clock_fault": "its times contradict each other",
    "unknown": "nothing in the trace tells why",
}
"""What each reason for being unexplained means."""

EDGE: Mapping[str, str] = {kind.label: meaning.says for kind, meaning in EDGE_MEANING.items()}
"""What each edge kind says."""
