"""Write what is made of what analyses declare: ``python -m tests.generate`` from the root.

The index that the command line reads, the public names, all JSON Schemas, lines of the manual, and the descriptor of
Chakra's schema.
"""

from __future__ import annotations

from tests.generate.chakra_schema import SCHEMAS as DESCRIPTORS
from tests.generate.chakra_schema import descriptor_bytes
from tests.generate.made_files import SCHEMAS, made_files


def write_all() -> None:
    """Write all files, and remove the schemas of none."""
    texts = dict(made_files())
    for path in SCHEMAS.glob("*.json"):
        if path not in texts:
            path.unlink()
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    for descriptor in DESCRIPTORS:
        descriptor.write_bytes(descriptor_bytes(descriptor))


if __name__ == "__main__":
    write_all()
