"""All families of input that somebody else wrote."""

from __future__ import annotations

from tests.loaded_fuzz.cases import Family
from tests.loaded_fuzz.et_folders import WORKLOADS
from tests.loaded_fuzz.flight_dumps import FLIGHT
from tests.loaded_fuzz.host_traces import HOSTS, LINKS
from tests.loaded_fuzz.saved_graphs import JOBS_SAVED, PARQUET

FAMILIES: dict[str, Family] = {family.name: family for family in (PARQUET, JOBS_SAVED, WORKLOADS, FLIGHT, HOSTS, LINKS)}
