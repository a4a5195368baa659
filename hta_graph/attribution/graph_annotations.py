"""Modules and annotations that are recorded of the kernels of CUDA graphs: no call of a replay shows them.

PyTorch's ``torch.cuda._annotate_cuda_graph_trace`` merges what the program said at capture into the arguments of a
trace's rows: ``module_fqn`` (``layers.0.attention``), and a ``name``, which its first version called ``annotation`` and
``str``. Before that it stands in a file of its own, ``kernel_annotations_rank0_….json``, by the number of the node:

    {"12884901889": [{"name": "attention", "module_fqn": "layers.0.attention"}], …}

Source: torch/cuda/_graph_annotations.py and _annotate_cuda_graph_trace.py, torchtitan's module_profiler.py, 2026.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from hta_graph.attribution.replayed_names import RecordedNames, RecordedSource
from hta_graph.base.arrays import freeze
from hta_graph.base.errors import TraceError, log_warning
from hta_graph.base.storage.location import Location
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import Ids
from hta_graph.trace.decompress import read_bytes
from hta_graph.trace.event_args import read_event_args
from hta_graph.trace.header import has_node_names
from hta_graph.trace.rank_files import rank_in_name

NODE_NUMBER = rb'"graph node id"\s*:\s*"?[1-9]'
HAS_NODES = re.compile(NODE_NUMBER)
NODE_NAME = rb'"(?:name|annotation|str)"\s*:'
ANNOTATED = re.compile(
    b"|".join([rb'"module_fqn"\s*:', NODE_NUMBER + b"[^{}]*" + NODE_NAME, NODE_NAME + b"[^{}]*" + NODE_NUMBER])
)
"""What stands in the text of a trace whose kernels are annotated: another one is not decoded again."""
NODE = "graph node id"
NAMES = ("name", "annotation", "str")
KEYS = {"module": ("module_fqn", *NAMES), "annotation": (*NAMES, "module_fqn")}
BESIDE = "kernel_annotations*.json"
"""How files of annotations are called next to a trace, or in the folder above it; what they hold decides."""


@dataclass(frozen=True)
class AnnotationFiles:
    """Files of annotations that are named for a rank; attached to its graph."""

    paths: tuple[Location, ...] = ()


def with_annotations(graph: DependencyGraph, named: Sequence[Location] = ()) -> DependencyGraph:
    """Return a graph that knows what is recorded of its kernels, which is read when a question needs it.

    That is in its own file, in those ``named``, or in those next to it. A trace without a graph launch has none.
    """
    if not graph.event_flags.graph_launch_call.any():
        return graph
    return graph.with_attached(AnnotationFiles(tuple(named)), RecordedSource(recorded_names))


@memoized
def recorded_names(graph: DependencyGraph) -> dict[str, RecordedNames]:
    """Return the modules, and the annotations, that are recorded of GPU activities.

    Raises:
        TraceError: a file, which is read once more where it may hold them, is gone, has changed or is broken.
    """
    calls = graph.launching_call
    rows = np.flatnonzero(graph.is_gpu & (calls >= 0) & graph.event_flags.graph_launch_call[calls])
    # A job's graph, and one that was made from a table, has no file of its own.
    if not len(rows) or not graph.path.is_file():
        return {}
    files = _annotation_files(graph)
    data = read_bytes(graph.path).data
    if not ANNOTATED.search(data) and not (files and HAS_NODES.search(data)):
        return {}
    said = read_event_args(graph.trace, (*KEYS["module"], NODE), rows, has_header=False).arguments
    nodes = [_node(value) for value in said[NODE].tolist()]
    of_node = {node: said for path in files for node, said in read_annotations(path).items()} if any(nodes) else {}
    found = {}
    for kind, keys in KEYS.items():
        by_key = zip(*(said[key].tolist() for key in keys), strict=True)
        texts = [
            _first_text(values) or _first_text(of_node.get(node, {}).get(key) for key in keys)
            for values, node in zip(by_key, nodes, strict=True)
        ]
        texts = _of_same_node(texts, nodes)
        known = sorted({text for text in texts if text})
        number = {text: code for code, text in enumerate(known)}
        code = np.full(len(graph.event_table), -1, np.int32)
        code[rows] = [number.get(text, -1) for text in texts]
        found[kind] = RecordedNames(freeze(code), tuple(known))
    return found


def recorded_owners(graph: DependencyGraph, kind: str) -> RecordedNames:
    """Return the modules, or the annotations, that are recorded of GPU activities; of other kinds there are none.

    Raises:
        TraceError: as :func:`recorded_names`.
    """
    return recorded_names(graph).get(kind) or RecordedNames(_nothing(graph), ())


def _annotation_files(graph: DependencyGraph) -> Sequence[Location]:
    """Return the files of annotations that are named for a graph, else those next to its trace that can be read."""
    attached = graph.attached(AnnotationFiles)
    if attached and attached.paths:
        return attached.paths
    found = []
    for path in _files_beside(graph):
        try:
            read_annotations(path)
            found.append(path)
        except TraceError as error:
            log_warning(f"{error}; continuing without it")
    return found


def _files_beside(graph: DependencyGraph) -> Sequence[Location]:
    """Return the files of annotations next to a trace, else in the folder above it, of its rank or of none."""
    own = Path(str(graph.path))
    for folder in (own.parent, own.parent.parent):
        listed = [path for path in sorted(folder.glob(BESIDE)) if path.is_file() and has_node_names(path)]
        if found := [path for path in listed if rank_in_name(path) in (None, graph.rank)]:
            return found
    return []


def read_annotations(path: Location) -> dict[int, dict[str, Any]]:
    """Read a file of annotations: what it says of each node.

    Raises:
        TraceError: it cannot be read, or is none.
    """
    try:
        document = msgspec.json.decode(read_bytes(path).data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(path, f"is no file of annotations of graph nodes: {error}") from None
    if not isinstance(document, dict):
        raise TraceError(path, "is no file of annotations of graph nodes: it holds no object")
    return {node: _merged(said) for key, said in document.items() if (node := _node(key))}


def _merged(said: object) -> dict[str, Any]:
    """Merge what is said of a node, the latest last; a text alone is its name.

    >>> _merged([{"name": "a", "stream": 60}, {"name": "b"}]), _merged("c")
    ({'name': 'b', 'stream': 60}, {'name': 'c'})
    """
    found: dict[str, Any] = {}
    for one in said if isinstance(said, list) else [said]:
        found |= one if isinstance(one, dict) else {"name": one}
    return found


def _node(value: object) -> int:
    """Read the number of a node; 0 is none.

    >>> _node(12884901889), _node("12884901889"), _node(None), _node("x"), _node(True)
    (12884901889, 12884901889, 0, 0, 0)
    """
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= len(str(2**64)):
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**64 else 0


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


def _first_text(values: Iterable[object]) -> str:
    return next(filter(None, map(_text, values)), "")


def _text(value: object) -> str:
    """Read a recorded name, which some writers put into an object.

    >>> _text("layers.0"), _text({"str": "layers.1"}), _text(None), _text(7)
    ('layers.0', 'layers.1', '', '')
    """
    if isinstance(value, dict):
        value = value.get("str")
    return value if isinstance(value, str) else ""
