"""One side of the comparison method by method: ``python methods_alone.py hta|ours FILE RANK FOLDER``.

Loads a trace, then answers lines of JSON: the number of a call in, seconds by the clock and of the processor out. It
runs under HTA's interpreter too, and imports nothing of this project there.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("get_temporal_breakdown", {"visualize": False}),
    ("get_comm_comp_overlap", {"visualize": False}),
    ("get_gpu_kernel_breakdown", {"visualize": False}),
    ("get_idle_time_breakdown", {"ranks": ["RANK"], "visualize": False, "show_idle_interval_stats": True}),
    ("get_gpu_user_annotation_breakdown", {"use_gpu_annotation": True, "visualize": False}),
    ("get_gpu_user_annotation_breakdown", {"use_gpu_annotation": False, "visualize": False}),
    ("get_gpu_kernels_with_user_annotations", {"rank": "RANK"}),
    ("get_queue_length_time_series", {"ranks": ["RANK"]}),
    ("get_queue_length_summary", {"ranks": ["RANK"]}),
    ("get_queue_length_summary_from_time_series", {"queue_length_dict": "SERIES"}),
    ("get_time_spent_blocked_on_full_queue", {"queue_length_dict": "SERIES", "max_queue_length": 10}),
    ("get_memory_bw_time_series", {"ranks": ["RANK"]}),
    ("get_memory_bw_summary", {"ranks": ["RANK"]}),
    ("get_cuda_kernel_launch_stats", {"ranks": ["RANK"], "visualize": False}),
    ("get_aten_op_kernels_and_delay", {"ranks": ["RANK"]}),
    ("get_frequent_cuda_kernel_sequences", {"operator_name": "aten::addmm", "output_dir": "FOLDER", "rank": "RANK"}),
    ("get_profiler_steps", {}),
    ("get_potential_stragglers", {}),
    ("get_cupti_counter_data_with_operators", {"ranks": ["RANK"]}),
    ("generate_trace_with_counters", {"ranks": ["RANK"]}),
    ("critical_path_analysis", {"rank": "RANK", "annotation": "ProfilerStep", "instance_id": 0}),
)
"""What is called on both sides. HTA writes files into the trace's folder, so FILE is a copy."""


def loaded(side: str, path: str, rank: int) -> Any:
    """Load a trace of one rank."""
    logging.disable(logging.CRITICAL)
    if side == "hta":
        import plotly.graph_objects as go
        from hta.trace_analysis import TraceAnalysis

        go.Figure.show = lambda *_, **__: None  # it draws a table, asked or not
    else:
        from analyses import TraceAnalysis
    analysis = TraceAnalysis(trace_files={rank: path})
    analysis.t.get_ranks()
    return analysis


def arguments_of(call: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """Put what is known into a call's arguments."""
    filled = {}
    for key, value in call.items():
        if isinstance(value, list):
            filled[key] = [known.get(item, item) for item in value]
        else:
            filled[key] = known.get(value, value) if isinstance(value, str) else value
    return filled


def timed(analysis: Any, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call once; an error is named instead of a time."""
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        getattr(analysis, method)(**arguments)
    except Exception as error:  # noqa: BLE001 - HTA raises many kinds
        return {"error": f"{type(error).__name__}: {error}"[:80]}
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def main() -> None:
    """Answer one line after the other."""
    side, path, rank, folder = sys.argv[1:]
    said = sys.stdout
    sys.stdout = sys.stderr
    analysis = loaded(side, path, int(rank))
    known = {"RANK": int(rank), "FOLDER": folder, "SERIES": analysis.get_queue_length_time_series([int(rank)])}
    for line in sys.stdin:
        method, arguments = CALLS[int(line)]
        said.write(json.dumps(timed(analysis, method, arguments_of(arguments, known))) + "\n")
        said.flush()


if __name__ == "__main__":
    main()
