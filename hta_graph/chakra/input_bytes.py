"""How many bytes a rank gives into a collective, as far as recorded arguments and shapes tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hta_graph.trace.element_bytes import element_bytes

__all__ = ["Arguments", "input_bytes", "tensor_sizes"]

Arguments = dict[str, Any]
"""What the profiler recorded of an event, by its own keys."""

MAX_ELEMENTS = 1 << 53
"""A larger tensor is taken for a broken number."""


def input_bytes(kind: str, given: Sequence[Arguments]) -> int | None:
    """Return the bytes of the input: recorded, else by the shapes of the annotation's or the operator's inputs.

    ``given`` are the arguments of the kernel, the operator and the annotation; ``None`` where they do not tell.
    An annotation lists all that is sent. An operator may take its output too (``_allgather_base_``): one tensor counts,
    of an all-gather the smallest, else the largest.
    """
    for arguments in given[:2]:
        count, width = arguments.get("In msg nelems"), element_bytes(arguments.get("dtype"))
        if isinstance(count, int) and 0 <= count <= MAX_ELEMENTS and width:
            return count * width
    if annotated := tensor_sizes(given[2]):
        return sum(annotated)
    one = min if kind == "ALL_GATHER" else max
    return one(tensor_sizes(given[1]), default=None)


def tensor_sizes(arguments: Arguments) -> list[int]:
    """List the bytes of the tensors among inputs, without empty ones.

    >>> tensor_sizes({"Input Dims": [[6288, 768], [], [2]], "Input type": ["c10::BFloat16", "Scalar", "float"]})
    [9658368, 8]
    """
    shapes, types = arguments.get("Input Dims", arguments.get("Input dims")), arguments.get("Input type")
    if not isinstance(shapes, list) or not isinstance(types, list):
        return []
    # The shape of a scalar is empty, that of a list of tensors a list of shapes.
    listed = [
        (shape, element_bytes(kind)) for shape, kind in zip(shapes, types, strict=False) if isinstance(shape, list)
    ]
    whole = [(shape, width) for shape, width in listed if shape and all(isinstance(side, int) for side in shape)]
    return [count * width for shape, width in whole if width and 0 < (count := math.prod(shape)) <= MAX_ELEMENTS]
