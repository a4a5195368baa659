"""Modules and annotations that are recorded on the kernels of CUDA graphs: no call of a replay shows them.

PyTorch's ``torch.cuda._annotate_cuda_graph_trace`` merges what the program said at capture into the arguments of a
trace's rows: ``module_fqn`` (``layers.0.attention``), and a ``name``, which its first version called ``annotation`` and
``str``. Source: torch/cuda/_graph_annotations.py and _annotate_cuda_graph_trace.py, 2026.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import freeze
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import Ids
from hta_graph.trace.decompress import read_bytes
from hta_graph.trace.event_args import read_event_args

ANNOTATED = (b'"module_fqn"', b'"graph node id"')
"""A trace without one of these has no annotated kernels, and is not decoded again."""
NODE = "graph node id"
NAMES = ("name", "annotation", "str")
KEYS = {"module": ("module_fqn", *NAMES), "annotation": (*NAMES, "module_fqn")}


@dataclass(frozen=True)
class RecordedOwners:
    """What the file says of activities themselves: a code into ``texts`` per event (-1: nothing)."""

    code: Ids
    texts: tuple[str, ...]


def recorded_owners(graph: DependencyGraph, kind: str) -> RecordedOwners:
    """Return the modules, or the annotations, that are recorded on GPU activities; of other kinds there are none.

    Raises:
        TraceError: the file, which is read once more where it may hold them, is gone or has changed.
    """
    return _recorded(graph)[kind] if kind in KEYS else RecordedOwners(_nothing(graph), ())


@memoized
def _recorded(graph: DependencyGraph) -> dict[str, RecordedOwners]:
    nothing = RecordedOwners(_nothing(graph), ())
    calls = graph.launching_call
    rows = np.flatnonzero(graph.is_gpu & (calls >= 0) & graph.event_flags.graph_launch_call[calls])
    # A job's graph, and one that was made from a table, has no file of its own.
    if not len(rows) or not graph.path.is_file() or not any(key in read_bytes(graph.path).data for key in ANNOTATED):
        return dict.fromkeys(KEYS, nothing)
    said = read_event_args(graph.trace, (*KEYS["module"], NODE), rows).arguments
    nodes = [node if isinstance(node, int) else 0 for node in said[NODE].tolist()]
    found = {}
    for kind, keys in KEYS.items():
        by_key = zip(*(said[key].tolist() for key in keys), strict=True)
        texts = _of_same_node([next(filter(None, map(_text, values)), "") for values in by_key], nodes)
        known = sorted({text for text in texts if text})
        number = {text: code for code, text in enumerate(known)}
        code = np.full(len(graph.event_table), -1, np.int32)
        code[rows] = [number.get(text, -1) for text in texts]
        found[kind] = RecordedOwners(freeze(code), tuple(known))
    return found


def _of_same_node(texts: Sequence[str], nodes: Sequence[int]) -> list[str]:
    """Give rows without a text that of their node in other replays, where there all say the same.

    A node has one id in every replay of a graph; 0 is none.

    >>> _of_same_node(["a", "", "b", "", "c", ""], [7, 7, 8, 0, 8, 8])
    ['a', 'a', 'b', '', 'c', '']
    """
    known: dict[int, set[str]] = {}
    for text, node in zip(texts, nodes, strict=True):
        if text and node:
            known.setdefault(node, set()).add(text)
    sure = {node: found.pop() for node, found in known.items() if len(found) == 1}
    return [text or sure.get(node, "") for text, node in zip(texts, nodes, strict=True)]


def _nothing(graph: DependencyGraph) -> Ids:
    return freeze(np.full(len(graph.event_table), -1, np.int32))


def _text(value: object) -> str:
    """Read a recorded name, which some writers put into an object.

    >>> _text("layers.0"), _text({"str": "layers.1"}), _text(None), _text(7)
    ('layers.0', 'layers.1', '', '')
    """
    if isinstance(value, dict):
        value = value.get("str")
    return value if isinstance(value, str) else ""
