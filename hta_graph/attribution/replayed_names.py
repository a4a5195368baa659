"""Names over the kernels of graph replays, which have no call of their own: by capture, or as the file says itself.

replayed kernel ── launch during capture ── aten::mm ── aten::linear      inferred by capture
                └─ "module_fqn": "layers.0.attention"                     recorded
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hta_graph.attribution.graph_kernels import UNCHECKED, calls_with_owners, graph_kernels, row_names
from hta_graph.attribution.owners import owners
from hta_graph.base.arrays import distinct, freeze, take_or
from hta_graph.graph.conversion import none_where, texts_of_codes
from hta_graph.graph.dependency_graph import DependencyGraph, RankGraph
from hta_graph.graph.memo import memoized
from hta_graph.graph.rank_summary import RankSummary
from hta_graph.model import Codes, Ids

RECORDED, BY_CAPTURE, WITHOUT_NAMES = "recorded", "inferred by capture", "inferred by capture, unchecked"
EVIDENCE = (RECORDED, BY_CAPTURE, WITHOUT_NAMES)
"""How a name was found; unchecked: the capture names no kernels."""


@dataclass(frozen=True)
class RecordedNames:
    """What the file says of activities themselves: a code into ``texts`` per event (-1: nothing)."""

    code: Ids
    texts: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class RecordedSource:
    """Reads the modules and annotations that are recorded on activities; attached to a rank's graph."""

    names_of: Callable[[DependencyGraph], dict[str, RecordedNames]]


@dataclass(frozen=True)
class ReplayedNames:
    """The names of one kind over the kernels of graph replays.

    ``innermost`` has a code into ``texts`` per event, ``evidence`` one into :data:`EVIDENCE` (-1: none). All names
    around a kernel are the pairs of ``row`` and ``code``.
    """

    texts: tuple[str, ...]
    innermost: Ids
    evidence: Codes
    row: Ids
    code: Ids

    def __bool__(self) -> bool:
        return bool(len(self.row))

    @property
    def used_codes(self) -> Ids:
        """The codes of the names over any kernel."""
        return distinct(self.code)

    @property
    def used(self) -> list[str]:
        """The names over any kernel."""
        return [self.texts[code] for code in self.used_codes.tolist()]

    def evidence_of(self, rows: Ids) -> str | None:
        """Say how the names over rows (-1: none) were found: in the least sure way of them; None where none has one."""
        worst = int(take_or(self.evidence, rows).max(initial=-1))
        return EVIDENCE[worst] if worst >= 0 else None


def _kind_names(kind: str) -> Callable[[DependencyGraph], ReplayedNames]:
    @memoized
    def known(graph: DependencyGraph) -> ReplayedNames:
        return _joined(graph, [(part, _names_of_rank(part.graph, kind)) for part in graph.rank_graphs])

    return known


REPLAYED_NAMES = {kind: _kind_names(kind) for kind in ("operator", "module", "frame", "annotation")}
"""By kind the names over the replayed kernels of a rank's or a job's graph."""


def replayed_names(graph: DependencyGraph, kind: str) -> ReplayedNames:
    """Return the names of a kind (operator, module, frame or annotation) over the kernels of graph replays.

    A rank summary has too few rows for a replay to be aligned: there none is named.

    Raises:
        TraceError: a capture cannot be read.
    """
    return REPLAYED_NAMES[kind](graph)


def has_replayed_names(graph: DependencyGraph) -> bool:
    """Return whether kernels of replays have names.

    Raises:
        TraceError: a capture cannot be read.
    """
    return any(replayed_names(graph, kind) for kind in ("operator", "module"))


class _Texts:
    """Numbers texts in the order in which they come."""

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self.listed = [*texts]
        self._number = {text: code for code, text in reversed(list(enumerate(self.listed)))}

    def codes(self, texts: Sequence[str]) -> Ids:
        """Return the codes of texts, and behind them -1 for none."""
        for text in texts:
            if text not in self._number:
                self._number[text] = len(self.listed)
                self.listed.append(text)
        return np.array([*(self._number[text] for text in texts), -1], np.int32)


def _names_of_rank(graph: DependencyGraph, kind: str) -> ReplayedNames:
    size = len(graph.event_table)
    innermost, evidence = np.full(size, -1, np.int32), np.full(size, -1, np.int8)
    texts, row, code = _Texts(), np.empty(0, np.int32), np.empty(0, np.int32)
    if graph.attached(RankSummary) is not None:
        return ReplayedNames((), freeze(innermost), freeze(evidence), row, code)
    named = graph_kernels(graph)
    rows = np.flatnonzero(named.launch >= 0).astype(np.int32)
    # An annotation of the replayed step is around the replay's call: a capture has none of it.
    if len(rows) and kind != "annotation":
        codes, names = row_names(graph)
        texts, found = _Texts(names), owners(graph, kind)
        owner = found.innermost(calls_with_owners(graph, kind, rows, graph.launching_call[rows]))
        unchecked = np.isin(graph.launching_call[rows], [one.call for one in named.replays if one.rule == UNCHECKED])
        innermost[rows] = take_or(codes, owner)
        evidence[rows] = np.where(owner < 0, -1, np.where(unchecked, 2, 1))
        place, around = found.around(owner)
        row, code = rows[place[around >= 0]], codes[around[around >= 0]]
    source = graph.attached(RecordedSource)
    said = source.names_of(graph).get(kind) if source else None
    if said is not None:
        rows = np.flatnonzero(said.code >= 0).astype(np.int32)
        innermost[rows], evidence[rows] = texts.codes(said.texts)[said.code[rows]], 0
        row, code = np.concatenate([row, rows]), np.concatenate([code, innermost[rows]])
    return ReplayedNames(tuple(texts.listed), freeze(innermost), freeze(evidence), row, code)


def _joined(graph: DependencyGraph, parts: Sequence[tuple[RankGraph, ReplayedNames]]) -> ReplayedNames:
    """Return the names of all ranks with the rows of the job; equal texts have one code."""
    if len(parts) == 1 and parts[0][0].graph is graph:
        return parts[0][1]
    texts, size = _Texts(), len(graph.event_table)
    innermost, evidence = np.full(size, -1, np.int32), np.full(size, -1, np.int8)
    rows, codes = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    for part, own in parts:
        of, here = texts.codes(own.texts), slice(part.first_row, part.first_row + len(own.innermost))
        innermost[here], evidence[here] = of[own.innermost], own.evidence
        rows.append(part.of_job(own.row).astype(np.int32))
        codes.append(of[own.code])
    return ReplayedNames(
        tuple(texts.listed), freeze(innermost), freeze(evidence), np.concatenate(rows), np.concatenate(codes)
    )


def operator_columns(graph: DependencyGraph, events: Ids) -> dict[str, Any]:
    """Return the operator and the module over activities (rows; -1: none), and how these were found.

    Of kernels that were launched by themselves it is what is open around their calls. Other rows have None; without a
    name over any replay there are no columns.

    Raises:
        TraceError: a capture cannot be read.
    """
    if not has_replayed_names(graph):
        return {}
    columns: dict[str, Any] = {}
    evidence = np.full(len(events), -1, np.int8)
    for kind in ("operator", "module"):
        codes, texts = activity_owners_by_name(graph, kind)
        columns[kind] = texts_of_codes(texts, take_or(codes, events))
        own = take_or(replayed_names(graph, kind).evidence, events)
        found = np.where(own >= 0, own, np.where(take_or(codes, events) >= 0, 0, -1))
        evidence = np.where(evidence >= 0, evidence, found)
    return columns | {"operator_evidence": none_where(np.array(EVIDENCE, object)[evidence], evidence < 0)}


def activity_owners_by_name(graph: DependencyGraph, kind: str) -> tuple[Ids, list[str]]:
    """Return for each activity of a graph the code of the operator, or module, it belongs to (-1: none), and the texts.

    Other rows have none.
    """
    replayed = replayed_names(graph, kind)
    texts, codes = _Texts(replayed.texts), replayed.innermost.copy()
    for part in graph.rank_graphs:
        own = codes[part.first_row : part.first_row + len(part.graph.event_table)]
        rows = np.flatnonzero(part.graph.is_gpu & (own < 0)).astype(np.int32)
        owner = owners(part.graph, kind).innermost(part.graph.launching_call[rows])
        name = take_or(part.graph.event_table.name, owner)
        used, place = np.unique(name[name >= 0], return_inverse=True)
        own[rows[name >= 0]] = texts.codes([part.graph.names[code] for code in used.tolist()])[place]
    return codes, texts.listed
