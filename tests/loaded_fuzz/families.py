"""All families of input that somebody else wrote."""

from __future__ import annotations

from tests.loaded_fuzz.cases import Family
from tests.loaded_fuzz.saved_graphs import JOBS_SAVED, PARQUET

FAMILIES: dict[str, Family] = {family.name: family for family in (PARQUET, JOBS_SAVED)}
