"""All files that are made of what analyses declare, with their text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from tests.generate.index import index_text
from tests.generate.pages import PAGES
from tests.generate.public_names import renewed_names
from tests.generate.schemas import every_schema, schema_text

__all__ = ["SCHEMAS", "made_files"]

ROOT = Path(__file__).parents[2]
ANALYSES = ROOT / "analyses"
SCHEMAS = ANALYSES / "schemas"


def made_files() -> Iterator[tuple[Path, str]]:
    """Yield every file with its text."""
    yield ANALYSES / "questions" / "help_index.py", index_text()
    yield _renewed(ANALYSES / "__init__.py", renewed_names)
    for name, schema in every_schema().items():
        yield SCHEMAS / f"{name}.json", schema_text(schema)
    for page, renew in PAGES.items():
        yield _renewed(ROOT / "docs" / page, renew)


def _renewed(path: Path, renew: Callable[[str], str]) -> tuple[Path, str]:
    return path, renew(path.read_text(encoding="utf-8"))
