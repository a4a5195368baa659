"""Write the files of all schemas, and remove those of none: ``python -m tests.write_schemas`` from the root."""

from __future__ import annotations

from pathlib import Path

from tests.write_schemas.every_schema import every_schema, schema_text

FOLDER = Path(__file__).parents[2] / "analyses" / "schemas"


def write_schemas() -> None:
    """Write all files."""
    schemas = every_schema()
    for path in FOLDER.glob("*.json"):
        if path.stem not in schemas:
            path.unlink()
    for name, schema in schemas.items():
        (FOLDER / f"{name}.json").write_text(schema_text(schema), encoding="utf-8")


if __name__ == "__main__":
    write_schemas()
