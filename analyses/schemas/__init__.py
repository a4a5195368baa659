"""The JSON Schema (draft 2020-12) of every document that commands write, one file each."""

from analyses.schemas.schema_files import schema, schema_names, schema_text

__all__ = ["schema", "schema_names", "schema_text"]
