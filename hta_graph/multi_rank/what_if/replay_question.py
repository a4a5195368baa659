"""What a rank is asked about its job's replay; it travels between processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from hta_graph.arrays import column_types
from hta_graph.errors import QueryError
from hta_graph.multi_rank.rank_of_job import ExternalEdges
from hta_graph.paths.critical_path import WHOLE_GRAPHS_REMEDY
from hta_graph.paths.windows import Window
from hta_graph.what_if.changes import Change, Removal, Scaling
from hta_graph.what_if.like_others import ComparisonKeys, RankNormalization
from hta_graph.what_if.scenarios import COMPARES_RANKS, NamedScenario
from hta_graph.what_if.selectors import Selector

__all__ = ["RequestedPath", "ReplayRequest", "change_from_record", "change_to_record"]

ChangeRecord = dict[str, Any]


def change_to_record(change: Change, rank: int) -> ChangeRecord:
    """Return a change as JSON for a rank; empty if it is another one's.

    Raises:
        QueryError: it compares ranks, or is a function of one's own: it needs all rows of all ranks.
    """
    if isinstance(change, Scaling):
        return {"scale": asdict(change.what), "factor": change.factor}
    if isinstance(change, Removal):
        return {"remove": asdict(change.what)}
    if isinstance(change, RankNormalization):
        return _normalization_to_record(change) if change.rank == rank else {}
    if isinstance(change, NamedScenario) and change.name not in COMPARES_RANKS:
        return {"scenario": change.name, "argument": change.argument}
    raise QueryError(f"{change} takes all rows of all ranks", WHOLE_GRAPHS_REMEDY)


def _normalization_to_record(change: RankNormalization) -> ChangeRecord:
    columns = {name: getattr(change, name).tolist() for name in ("is_shared", "median", "usual")}
    return {
        "like_others": change.rank,
        "place": change.asked.place.tolist(),
        "kind": change.asked.kind.tolist(),
        **columns,
    }


def keys_from_record(record: Mapping[str, Any]) -> ComparisonKeys:
    """Read what others are asked."""
    return ComparisonKeys(np.array(record["place"], np.int64), np.array(record["kind"], np.int64))


def change_from_record(record: ChangeRecord) -> Change:
    """Undo :func:`change_to_record` for a change that is the rank's."""
    if "like_others" in record:
        median, usual = np.array(record["median"], np.int64), np.array(record["usual"], np.int64)
        is_shared = np.array(record["is_shared"], np.bool_)
        return RankNormalization(record["like_others"], keys_from_record(record), is_shared, median, usual)
    if "scale" in record:
        return Scaling(Selector(**record["scale"]), record["factor"])
    if "remove" in record:
        return Removal(Selector(**record["remove"]))
    return NamedScenario(record["scenario"], record["argument"])


@dataclass(frozen=True)
class RequestedPath:
    """A path of which the rank tells what it passes there.

    ``draft`` is the place of its changes (-1: as recorded) and ``ways`` where it goes (:data:`Way`), latest first, with
    the times (ns) of what comes from elsewhere in ``given`` (None: as recorded). ``without`` are places of drafts: what
    the path consists of is also told without what each changes, and how long that is. ``named``: what may change on it
    is told by kind and name.
    """

    draft: int
    ways: list[list[int]]
    given: list[int] | None = None
    without: tuple[int, ...] = ()
    named: bool = False


@dataclass(frozen=True)
class ReplayRequest:
    """What a rank is asked: its longest ways under drafts, and what paths pass on it.

    ``window`` holds the fields of the job's :class:`Window` and ``asked``, the question that the rank's own
    answers; ``is_last``: it ends on this rank as recorded. ``numbers`` are the collectives of its members, ``times``
    (ns) and ``names`` those of what comes from elsewhere and ``edges`` where that leads. ``awaited_rows`` are rows that
    others wait for, for their end if ``at_end``. ``drafts`` are lists of changes; each of ``groups`` are places of
    drafts of one shape. ``wants_comparison_keys``: the rank is to be like the others, and tells what these are asked, who get
    that as ``beside``.
    """

    window: dict[str, Any]
    is_last: bool
    annotations: tuple[dict[str, Any], ...]
    until: int
    clock: dict[str, Any]
    content: str
    numbers: list[int]
    times: list[int]
    names: list[str]
    edges: ExternalEdges
    awaited_rows: list[int]
    at_end: list[bool]
    drafts: list[list[ChangeRecord]]
    groups: list[list[int]]
    paths: list[RequestedPath]
    wants_comparison_keys: bool = False
    beside: ComparisonKeys | None = None

    def as_record(self) -> dict[str, Any]:
        """Return it as JSON."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("edges", "paths", "beside")}
        edges = {name: getattr(self.edges, name).tolist() for name in column_types(ExternalEdges)}
        beside = self.beside and {"place": self.beside.place.tolist(), "kind": self.beside.kind.tolist()}
        return {**own, "edges": edges, "paths": [asdict(path) for path in self.paths], "beside": beside}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> ReplayRequest:
        """Undo :meth:`as_record`."""
        edges = ExternalEdges.of(**record["edges"])
        paths = [RequestedPath(**{**path, "without": tuple(path["without"])}) for path in record["paths"]]
        beside = record["beside"] and keys_from_record(record["beside"])
        annotations = tuple(record["annotations"])
        return cls(**{**record, "edges": edges, "paths": paths, "beside": beside, "annotations": annotations})

    @staticmethod
    def window_record(window: Window, asked: str) -> dict[str, Any]:
        """Return a job's window as JSON."""
        names = ("start_ns", "end_ns", "label", "cpu_ns", "gpu_ns", "cpu_start_ns", "is_named", "step", "form")
        return {"asked": asked, **{name: getattr(window, name) for name in names}}
