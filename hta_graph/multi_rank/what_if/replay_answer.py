"""What a rank answers about its job's replay; apart from what answers it, which only those load who replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hta_graph.what_if.rank_normalization import ComparisonKeys, ComparisonTimes


@dataclass(frozen=True)
class ReplayAnswer:
    """A rank's answer.

    ``incoming`` are the indices of what comes from other ranks in the window. Of each group the contracted paths stand
    one behind the other: ``counts`` are its numbers of weights per edge, nodes and edges, ``columns`` say which weight
    each draft has; the other columns are those of :class:`BoundaryLongestPaths`. ``roots`` are on what the awaited
    points and, last, the end rest as recorded. ``until``: as :class:`ReplayGraph` has it. ``applicable`` are the drafts
    and positions of changes that concern anything here, ``readings`` say of each how its pattern was read, ``refused``
    the errors of those that concern nothing, in Python and on the command line. ``unchanged`` are the drafts under
    which everything here is as long as it was, ``added_ns`` is how much time each draft adds at most.
    ``path_records`` is what paths pass, in their order. ``comparison_keys`` is by what other ranks are compared if the
    rank is to be like them, ``comparison_times`` its times of the keys of another one.
    """

    until: int
    incoming: np.ndarray[Any, np.dtype[np.int32]]
    counts: list[list[int]]
    columns: list[list[int]]
    source: np.ndarray[Any, np.dtype[np.int32]]
    target: np.ndarray[Any, np.dtype[np.int32]]
    weight: np.ndarray[Any, np.dtype[np.int64]]
    order: np.ndarray[Any, np.dtype[np.int32]]
    roots: np.ndarray[Any, np.dtype[np.int32]]
    has_end: bool
    applicable: list[list[int]]
    readings: list[list[Any]]
    refused: list[list[Any]]
    unchanged: list[int]
    added_ns: list[list[Any]]
    path_records: list[dict[str, Any]]
    comparison_keys: ComparisonKeys
    comparison_times: ComparisonTimes
