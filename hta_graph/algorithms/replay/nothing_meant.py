"""What to say where a change names nothing in a window: what may have been meant, or where names are listed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hta_graph.algorithms.replay.replayable import Replayable
from hta_graph.columns import distinct
from hta_graph.errors import QueryError, Remedy
from hta_graph.model import Bools
from hta_graph.names import closest_names, elided

if TYPE_CHECKING:
    from hta_graph.algorithms.replay.selection import What

__all__ = ["nothing_meant"]

LONGEST_SAID = 80
"""Characters of a name in an error; kernels' names have hundreds."""

WITHOUT_NAMES = ("class", "rank")
"""Kinds of things that are no events with names."""

WHAT_THERE_IS = Remedy("hg.opportunities lists what there is", "what-if without a change lists what there is")


def nothing_meant(
    base: Replayable, what: What, selectors: Mapping[str, Callable[[Replayable, What], Bools]]
) -> QueryError:
    """Return the error: the same pattern may name another kind of thing, or a close name, or something elsewhere."""
    said = f"{base.graph.path}: nothing in {base.window.label} is {str(what)!r}"
    if what.kind in WITHOUT_NAMES:
        return QueryError(said, WHAT_THERE_IS)
    others = [replace(what, kind=kind) for kind in selectors if kind not in ("", what.kind, *WITHOUT_NAMES)]
    found = [str(other) for other in others if (selectors[other.kind](base, other) & base.may_change).any()]
    if found:
        return QueryError(said, f"{' and '.join(found)} is there")
    names = base.graph.event_table.name
    if what.names_in(base.graph, names)[names].any():
        return QueryError(f"{said}; the name occurs elsewhere in the trace, or on what takes no time of its own here")
    close = _mistyped_kind(what, selectors) or closest_names(what.pattern, _names_present(base))
    if close:
        return QueryError(said, f"did you mean {' or '.join(repr(elided(name, LONGEST_SAID)) for name in close)}?")
    return QueryError(said, WHAT_THERE_IS)


def _mistyped_kind(what: What, kinds: Collection[str]) -> list[str]:
    """Return what is meant if the word in front of a colon is nearly that of a kind."""
    kind, colon, pattern = what.pattern.partition(":")
    is_name = what.kind or not colon or pattern.startswith(":")
    return [] if is_name else [f"{close}:{pattern}" for close in closest_names(kind, filter(None, kinds), 1)]


def _names_present(base: Replayable) -> list[str]:
    """Return the names of what takes time in the window."""
    owner = base.parts.owner
    return [base.graph.names[code] for code in distinct(base.graph.event_table.name[owner[owner >= 0]]).tolist()]
