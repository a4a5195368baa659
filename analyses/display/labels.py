"""The labels of all keys in answers: what classes, causes, reasons and edge kinds mean, for a person."""

from __future__ import annotations

from collections.abc import Mapping

from hta_graph.model import CLASS_LABELS, CLASS_LABELS_IN_JOBS, EDGE_MEANING

MEANING: Mapping[str, str] = {
    "cpu_bound": "the CPU runs operators and runtime calls",
    "data_loading": "the CPU loads data",
    "gpu_compute_bound": "the GPU computes",
    "gpu_communication_bound": "the GPU communicates; may include waiting for other ranks",
    "gpu_memory_bound": "the GPU runs copies and memsets",
    "gpu_kernel_kernel_overhead": "the GPU is idle between dependent activities",
    "gpu_kernel_launch_overhead": "the GPU waits for a launch in progress",
    "cpu_gap": "the CPU is in no operator: Python, framework, another thread",
    "sync_overhead": "the GPU is done, but the blocking call has not returned",
    "unexplained": "no recorded cause",
}
"""What each class of a path means, in a few words."""

SHORT: Mapping[str, str] = {
    **CLASS_LABELS,
    "host_operator": "CPU in operator",
    "host_call": "CPU in runtime call",
    "host_blocked": "CPU waits for GPU",
    "host_no_operator": "CPU, no operator",
    "other_thread": "other thread",
    "queue_full": "launch queue full",
    "launch": "launch in progress",
    "stream_order": "next on stream",
    "graph_order": "next in graph",
    "event_wait": "waits for stream",
    "launch_unknown": "launch not recorded",
    "unknown": "unexplained",
    "no_more_work": "no work follows",
    "other_rank": "other rank",
    "not_recorded": "not recorded",
    "host_wait": "launched late",
    "kernel_wait": "usual kernel gap",
    "other": "launched in time",
}
"""Classes of a path and causes of an idle GPU where only two or three words fit: cells of a table, legends."""

SHORT_IN_SERVING: Mapping[str, str] = {
    "gpu_compute": "GPU compute",
    "exposed_communication": "exposed comm",
    "host_between_steps": "host between steps",
    "host_in_steps": "host in steps",
    "sync": "synchronization",
    "in_step": "host in step",
    "host_code": "other host code",
    "not_started": "not started",
    "unrecorded": "unexplained",
    "other_ranks": "other ranks",
    "no_requests": "no requests",
    "too_few_requests": "too few requests",
    "cpu_compute": "CPU operators",
}
"""What bounds the steps of an inference engine, and why the GPU is idle in and between them; others are words."""

CELL_WORDS: Mapping[str, str] = {**SHORT, **SHORT_IN_SERVING}
"""What cells of tables print instead of keys."""

OF_JOBS = {
    "gpu_communication_bound": (
        "the ranks communicate; waiting counts as the late rank's work",
        CLASS_LABELS_IN_JOBS["gpu_communication_bound"],
    )
}
"""What means something else where the path goes through all ranks: no waiting for others is in it."""


MEANING_IN_JOBS: Mapping[str, str] = {**MEANING, **{key: long for key, (long, _) in OF_JOBS.items()}}
"""What each class means on the path of a job."""


MEANING_ON_CPU: Mapping[str, str] = {
    **MEANING,
    "gpu_communication_bound": "the CPU communicates; may include waiting for other ranks",
}
"""What each class means on the path of a rank without GPU work."""


SHORT_IN_JOBS: Mapping[str, str] = {**SHORT, **CLASS_LABELS_IN_JOBS}
"""The short labels where communication may be on the CPU: in jobs, and where there is no GPU work."""


CAUSE: Mapping[str, str] = {
    "host_operator": "the CPU is in an operator",
    "host_call": "the CPU is in a runtime call: an allocation, an event, another launch",
    "host_blocked": "the CPU waits in a synchronizing call or a blocking copy",
    "host_no_operator": "the CPU is in no operator: Python or the framework",
    "data_loading": "the CPU loads data",
    "other_thread": "another thread hands over the work or holds the driver lock",
    "queue_full": "the launch waits for space in the stream's queue",
    "launch": "the launch is in progress",
    "stream_order": "launched in time: the stream moves on to its next activity",
    "graph_order": "launched in time: the CUDA graph moves on to its next node",
    "event_wait": "the stream waits for an event on another stream",
    "launch_unknown": "the launch call is not in the trace",
    "unknown": "no recorded cause",
    "no_more_work": "no GPU work follows in the trace",
    "other_rank": "waits for communication that waits for another rank",
    "not_recorded": "launched work that was not recorded may have run: not known to be idle",
    "host_wait": "the CPU launched the next work too late",
    "kernel_wait": "launched in time: no longer than the stream's usual gap",
    "other": "launched in time: something else delayed the next work",
}
"""What each cause of an idle GPU or stream means."""

NOT_STARTED = "launched work that does not start"
"""What an idle GPU waits for whose work was launched long before: no launch is in progress."""

REASON: Mapping[str, str] = {
    "before_recording": "probably waited for work that was enqueued before the recording started",
    "missing_graph_node": "a CUDA graph node that no replay recorded",
    "wait_without_record": "a wait that the trace does not record",
    "other_rank": "it waited for another rank",
    "clock_fault": "its timestamps contradict each other",
    "unknown": "no recorded cause",
    "not_recorded": "launched work that was not recorded ran, or may have run",
    "stream_held": "a host function or a wait on memory may have held the stream",
}
"""What each reason for being unexplained means."""

EDGE: Mapping[str, str] = {kind.label: meaning.says for kind, meaning in EDGE_MEANING.items()}
"""What each edge kind says."""
