"""Options of ``torch.profiler`` for a trace that shows causes of waiting."""

from __future__ import annotations

from typing import Any

from hta_graph.base.errors import HtaGraphError


def options(*, stacks: bool = False, shapes: bool = True, memory: bool = False) -> dict[str, Any]:
    """Return keyword arguments of ``torch.profiler.profile`` for a trace that shows causes of waiting.

    Args:
        stacks: record Python frames too, which slows the program down.
        shapes: record the shapes of operators' inputs.
        memory: record allocations.

    Returns:
        ``activities`` (all that this PyTorch supports), ``record_shapes``, ``with_stack``, ``profile_memory`` and,
        if this PyTorch has it, ``experimental_config`` with synchronization records on.

    Raises:
        HtaGraphError: PyTorch is not installed.
    """
    try:
        from torch import profiler
    except ImportError as error:
        raise HtaGraphError(
            f"options of torch.profiler require PyTorch, which cannot be imported ({error})",
            "install it: https://pytorch.org/get-started",
        ) from None
    return {
        "activities": profiler.supported_activities(),
        "record_shapes": shapes,
        "with_stack": stacks,
        "profile_memory": memory,
        **_with_sync_records(profiler),
    }


def _with_sync_records(profiler: Any) -> dict[str, Any]:
    """Return the option that records synchronization; PyTorch has it since 2.2, under a private name."""
    try:
        return {"experimental_config": profiler._ExperimentalConfig(enable_cuda_sync_events=True)}  # noqa: SLF001
    except (AttributeError, TypeError):
        return {}
