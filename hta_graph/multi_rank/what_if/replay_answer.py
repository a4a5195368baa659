"""What a rank answers about its job's replay; apart from what answers it, which only those load who replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hta_graph.what_if.rank_normalization import ComparisonKeys, ComparisonTimes


@dataclass(frozen=True)
class ReplayAnswer:
    """A rank's answer.

    ``given`` are the places of what comes from elsewhere in the window. Of each group the contracted ways stand one
    behind the other: ``counts`` are its numbers of weights per edge, nodes and edges, ``columns`` tell which weight
    each draft has; the other columns are those of :class:`BoundaryLongestPaths`. ``roots`` are on what the asked points
    and, last, the end rest as recorded. ``until``: as :class:`Replayable` has it. ``meant`` are the drafts and places
    of changes that concern anything here, ``readings`` tell of each how its pattern was read, ``refused`` what was said
    of those that concern nothing, in Python and on the command line. ``unchanged`` are the drafts under which
    everything here is as long as it was, ``added_ns`` tells how much time each draft adds at most. ``told`` is what
    paths pass, in their order. ``asked`` is what others are asked if the rank is to be like them, ``taken`` what it
    takes for what another one asks.
    """

    until: int
    given: np.ndarray[Any, np.dtype[np.int32]]
    counts: list[list[int]]
    columns: list[list[int]]
    source: np.ndarray[Any, np.dtype[np.int32]]
    target: np.ndarray[Any, np.dtype[np.int32]]
    weight: np.ndarray[Any, np.dtype[np.int64]]
    order: np.ndarray[Any, np.dtype[np.int32]]
    roots: np.ndarray[Any, np.dtype[np.int32]]
    has_end: bool
    meant: list[list[int]]
    readings: list[list[Any]]
    refused: list[list[Any]]
    unchanged: list[int]
    added_ns: list[list[Any]]
    told: list[dict[str, Any]]
    asked: ComparisonKeys
    taken: ComparisonTimes
