"""Labels and colors of classes and causes as pages print them."""

from __future__ import annotations

from collections.abc import Mapping

from analyses.display.labels import SHORT, class_meanings, short_labels
from hta_graph.base.colours import BOUND_COLOUR, CAUSE_CLASS
from hta_graph.graph.dependency_graph import DependencyGraph


def page_labels(graph: DependencyGraph, *, meanings: bool = False) -> Mapping[str, str]:
    """Return the label, or the meaning, of each class."""
    return class_meanings(graph) if meanings else short_labels(graph)


def colour_of(key: str) -> str:
    """Return the color of a class or of a cause of idle time, by its key; empty for anything else.

    >>> colour_of("cpu_bound") == colour_of("host_operator"), colour_of("aten::mm")
    (True, '')
    """
    return BOUND_COLOUR.get(CAUSE_CLASS.get(key, key), "")


def label_of(key: str, labels: Mapping[str, str] = SHORT) -> str:
    """Return the label of a key, or the key itself.

    >>> label_of("cpu_bound"), label_of("aten::mm")
    ('CPU work', 'aten::mm')
    """
    return labels.get(key, SHORT.get(key, key))
