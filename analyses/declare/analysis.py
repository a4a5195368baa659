"""The declaration of an analysis, which its file makes as ``ANALYSIS``; all else about it is made from that.

The command and its help, the JSON Schema, the public name and the manual's tables follow: ``python -m
tests.generate`` writes what is a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from analyses.declare.answer import Answer
from analyses.declare.columns import Table
from analyses.declare.description import Description
from analyses.declare.missing_work import missing_work_of
from analyses.declare.scope import Scope

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Analysis(Description):
    """A question that can be asked of scopes: how the command line offers it, who answers, who draws.

    Args:
        question: what it answers, as the manual's table of commands asks it.
        usage: what stands behind ``INPUT`` in that table, if not its required flags.
        tables: every table of an answer by its name, the main one first.
        answer: answers about scopes; the arguments behind them are the flags, with the same defaults.
        figure: draws an answer.
        judges: whether its JSON document holds the judgement on its window.
    """

    question: str
    usage: str = ""
    tables: Mapping[str, Table]
    answer: Callable[..., Answer]
    figure: Callable[[Answer], Figure]
    judges: bool = False

    def answer_about(self, scopes: Sequence[Scope], **flags: Any) -> Answer:
        """Answer about scopes; what their recordings do not hold is said first."""
        found: Answer = self.answer(scopes, **flags)
        said = missing_work_of((scope.rank, scope.graph, scope.start_ns, scope.end_ns) for scope in scopes)
        return replace(found, opening=[*said, *found.opening]) if said else found
