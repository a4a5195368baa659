"""The table of models in the manual: ``python -m tests.operator_model_table`` writes it anew from ``MODELS``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hta_graph.roofline.cost_models.table import MODELS
from hta_graph.roofline.demand import CostModel
from tests.support.generated_section import GeneratedSection

EXCEPTION = re.compile("because|unknown|not recorded|not counted|at most|at least|can be|never|part|since|kernel|twice")
"""What the bytes of operators say that are not all of their inputs and results."""


def table() -> str:
    """Return the tables: FLOPs of all models, and bytes of those that are not all inputs and results."""
    flops = grouped("FLOPs", ((model.flops, model) for model in MODELS))
    least = grouped("least bytes", ((model.bytes, model) for model in MODELS if EXCEPTION.search(model.bytes)))
    return f"\n{flops}\n\nAll others read each input and write each result once.\n\n{least}\n\n"


def grouped(head: str, models: Iterable[tuple[str, CostModel]]) -> str:
    """Return a table with a row for all operators that count alike."""
    alike: dict[str, list[str]] = {}
    for text, model in models:
        alike.setdefault(text, []).extend(f"`{name.removeprefix('aten::')}`" for name in model.operators)
    rows = (f"| {', '.join(names)} | {escaped(text)} |" for text, names in alike.items())
    return "\n".join([f"| operators | {head} |", "|---|---|", *rows])


def escaped(text: str) -> str:
    """Return a text as a cell holds it."""
    return text.replace("|", "\\|").replace("*", "\\*")


PART = GeneratedSection("reference/operator_models.md", "models", table)


if __name__ == "__main__":
    PART.write()
