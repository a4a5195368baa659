"""The table of models in the manual: ``python -m tests.operator_model_table`` writes it anew from ``MODELS``."""

from __future__ import annotations

from hta_graph.roofline.cost_models.table import MODELS
from tests.support.generated_section import GeneratedSection


def table() -> str:
    """Return the table: a row for all models that count alike."""
    alike: dict[tuple[str, str], list[str]] = {}
    for model in MODELS:
        alike.setdefault((model.flops, model.bytes), []).extend(model.operators)
    rows = [row_of(operators, *counted) for counted, operators in alike.items()]
    return "\n" + "\n".join(["| operators | FLOPs | least bytes |", "|---|---|---|", *rows]) + "\n\n"


def row_of(operators: list[str], flops: str, least_bytes: str) -> str:
    """Return a row: operators, and what is counted for each."""
    names = ", ".join(f"`{name.removeprefix('aten::')}`" for name in operators)
    return f"| {names} | {escaped(flops)} | {escaped(least_bytes)} |"


def escaped(text: str) -> str:
    """Return a text as a cell holds it."""
    return text.replace("|", "\\|").replace("*", "\\*")


PART = GeneratedSection("reference/operator_models.md", "models", table)


if __name__ == "__main__":
    PART.write()
