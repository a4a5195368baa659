"""Annotations that count or measure in their names: ``execute_context_3(512)_generation_40(40)``, each there once."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.base.arrays import distinct, freeze
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.event_flags import is_step
from hta_graph.graph.memo import memoized
from hta_graph.model import EventKind, Ids

NUMBER = re.compile(r"\d+")
MANY_NAMES, VERY_MANY_NAMES = 20, 100
"""How many names are folded if they have several numbers or count what runs; and in any case: one number may be that
of a layer."""
COUNTED = re.compile(
    r"(?:step|iter(?:ation)?|batch|request|req|epoch|token|sample)s?(?:_?(?:id|idx|index|num|number))?[\W_]{0,3}#",
    re.IGNORECASE,
)
"""Words whose number counts runs of one program, not its parts: ``training_step_17``, ``iteration 3``."""
FEW_INSTANCES = 2
"""Names that recur as often are compared with each other, and stay."""


@dataclass(frozen=True)
class Labels:
    """What each event is called in tables, a code into ``texts``; how many names each of the ``folded`` stands for."""

    code: Ids
    texts: tuple[str, ...]
    folded: dict[str, int]


def row_labels(graph: DependencyGraph) -> tuple[Ids, Sequence[str]]:
    """Return of each event what tables of one rank call it, a code into texts; of a job the names as they are."""
    if graph.is_job:
        return graph.event_table.name, graph.names
    labels = annotation_labels(graph)
    return labels.code, labels.texts


@memoized
def annotation_labels(graph: DependencyGraph) -> Labels:
    """Return the events' names, with ``#`` for the numbers of annotations that would each be a row of its own.

    Serving engines write the sizes of each batch into its annotation, so that hardly a name recurs.
    """
    events = graph.event_table
    rows = (events.kind == EventKind.ANNOTATION) | (events.kind == EventKind.GPU_ANNOTATION)
    count = np.bincount(events.name[rows & (events.kind == EventKind.ANNOTATION)], minlength=len(graph.names))
    alike: defaultdict[str, list[int]] = defaultdict(list)
    for code in distinct(events.name[rows]).tolist():
        if NUMBER.search(graph.names[code]) and not is_step(graph.names[code]):
            alike[NUMBER.sub("#", graph.names[code])].append(code)
    texts, spelled = list(graph.names), np.arange(max(len(graph.names), 1), dtype=np.int32)
    folded: Counter[str] = Counter()
    for text, codes in alike.items():
        counts = text.count("#") > 1 or COUNTED.search(text) is not None
        enough = MANY_NAMES if counts else VERY_MANY_NAMES
        if len(codes) >= enough and count[codes].sum() < FEW_INSTANCES * len(codes):
            spelled[codes] = len(texts)
            texts.append(text)
            folded[text] = len(codes)
    return Labels(freeze(spelled[events.name]), tuple(texts), dict(folded))
