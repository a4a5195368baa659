"""The table of models in the manual: ``python -m tests.operator_model_table`` writes it anew from ``MODELS``."""

from __future__ import annotations

from hta_graph.roofline.cost_models.table import MODELS
from hta_graph.roofline.demand import CostModel
from tests.support.generated_section import GeneratedSection


def table() -> str:
    """Return the table."""
    rows = [
        "| operators | FLOPs | least bytes |",
        "|---|---|---|",
        *map(row_of, MODELS),
    ]
    return "\n" + "\n".join(rows) + "\n\n"


def row_of(model: CostModel) -> str:
    """Return a model's row."""
    names = ", ".join(f"`{name.removeprefix('aten::')}`" for name in model.operators)
    return f"| {names} | {escaped(model.flops)} | {escaped(model.bytes)} |"


def escaped(text: str) -> str:
    """Return a text as a cell holds it."""
    return text.replace("|", "\\|").replace("*", "\\*")


PART = GeneratedSection("evidence/operator_models.md", "models", table)


if __name__ == "__main__":
    PART.write()
