"""All families of input that somebody else wrote."""

from __future__ import annotations

from tests.saved_file_fuzz.chakra_folders import WORKLOADS
from tests.saved_file_fuzz.damage_cases import Family
from tests.saved_file_fuzz.flight_recorder_dumps import FLIGHT
from tests.saved_file_fuzz.host_traces import HOSTS, LINKS
from tests.saved_file_fuzz.saved_graphs import JOBS_SAVED, SAVED_GRAPHS

FAMILIES: dict[str, Family] = {
    family.name: family for family in (SAVED_GRAPHS, JOBS_SAVED, WORKLOADS, FLIGHT, HOSTS, LINKS)
}
