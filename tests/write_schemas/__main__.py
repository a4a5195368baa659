"""Write what is made of the declared analyses: their index and all schemas; ``python -m tests.write_schemas``."""

from __future__ import annotations

from pathlib import Path

from tests.write_schemas.every_schema import every_schema, schema_text
from tests.write_schemas.index import index_text

ANALYSES = Path(__file__).parents[2] / "analyses"
FOLDER = ANALYSES / "schemas"


def write_schemas() -> None:
    """Write all files."""
    schemas = every_schema()
    for path in FOLDER.glob("*.json"):
        if path.stem not in schemas:
            path.unlink()
    for name, schema in schemas.items():
        (FOLDER / f"{name}.json").write_text(schema_text(schema), encoding="utf-8")


def write_index() -> None:
    """Write what the command line offers of each analysis."""
    (ANALYSES / "index.py").write_text(index_text(), encoding="utf-8")


if __name__ == "__main__":
    write_index()
    write_schemas()
