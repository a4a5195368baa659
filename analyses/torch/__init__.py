"""For ``torch.profiler``: a handler that writes a file per rank and prints what bounds the step, and good options.

    import torch
    from analyses.torch import options, trace_handler

    with torch.profiler.profile(schedule=…, on_trace_ready=trace_handler("traces", report=True), **options()) as prof:
        …

PyTorch is not needed to import this, and a handler accepts any object with ``export_chrome_trace``.
"""

from __future__ import annotations

from analyses.torch.handler import TraceHandler, trace_handler
from analyses.torch.profiler_options import options

__all__ = ["TraceHandler", "options", "trace_handler"]
