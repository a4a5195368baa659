"""The table of models in the manual: ``python -m tests.demand_table`` writes it anew from ``MODELS``."""

from __future__ import annotations

import re
from pathlib import Path

from hta_graph.operators.demand import Model
from hta_graph.operators.models.all_models import MODELS

PAGE = Path(__file__).parents[1] / "docs" / "demands.md"
BEGIN, END = "<!-- models: begin -->", "<!-- models: end -->"
BETWEEN = re.compile(f"(?<={BEGIN}\\n).*(?={END})", re.DOTALL)


def table() -> str:
    """Return the table."""
    rows = [
        "| operators | FLOPs | least bytes |",
        "|---|---|---|",
        *map(row_of, MODELS),
    ]
    return "\n" + "\n".join(rows) + "\n\n"


def row_of(model: Model) -> str:
    """Return a model's row."""
    names = ", ".join(f"`{name.removeprefix('aten::')}`" for name in model.operators)
    return f"| {names} | {escaped(model.flops)} | {escaped(model.bytes)} |"


def escaped(text: str) -> str:
    """Return a text as a cell holds it."""
    return text.replace("|", "\\|").replace("*", "\\*")


def renewed(page: str) -> str:
    """Return the page with the table anew."""
    return BETWEEN.sub(lambda _: table(), page)


def main() -> None:
    """Write the page."""
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
