"""How to record what a trace lacks, in the words of the profiler that recorded it."""

from __future__ import annotations

from collections.abc import Mapping

HOW_TO_RECORD: Mapping[str, str] = {
    "before_recording": "Start the profilers of all ranks before the same step",
    "missing_graph_node": "Record again, for fewer steps: the profiler dropped nodes of CUDA graphs",
    "wait_without_record": "Record with with_stack=True to see which code waits",
    "other_rank": "Record all ranks and analyze them together",
    "clock_fault": "Record again: timestamps contradict each other",
    "unknown": "Record with with_stack=True and enable_cuda_sync_events=True (torch._C._profiler._ExperimentalConfig)",
}
"""By reason for being unexplained what the next trace should hold."""

STACKS = "nsys profile --trace=cuda,nvtx,osrt --sample=process-tree"
IN_NSIGHT: Mapping[str, str] = {
    "with_stack=True and enable_cuda_sync_events=True (torch._C._profiler._ExperimentalConfig)": STACKS,
    "with_stack=True": STACKS,
    "enable_cuda_sync_events=True (torch._C._profiler._ExperimentalConfig)": "nsys profile --cuda-event-trace=true",
    "ProfilerActivity.CUDA and without hardware counters": "nsys profile --trace=cuda,nvtx",
    "pass schedule(wait=…, warmup=…) to the profiler and call prof.step()": "nsys profile "
    "--capture-range=cudaProfilerApi, and torch.cuda.profiler.start() in the program",
    "has no Python stacks": "has no samples, OS runtime calls or Python stacks",
}
"""How to record with PyTorch's profiler → with Nsight Systems, as parts of sentences."""


def in_words_of_nsight(text: str) -> str:
    """Say how to record with Nsight Systems what is said of PyTorch's profiler."""
    for torch, nsight in IN_NSIGHT.items():
        text = text.replace(torch, nsight)
    return text


def how_to_record(reason: str, *, with_nsight: bool) -> str:
    """Say what the next trace should hold, by the reason why something is unexplained."""
    return in_words_of_nsight(HOW_TO_RECORD[reason]) if with_nsight else HOW_TO_RECORD[reason]
