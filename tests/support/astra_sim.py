"""ASTRA-sim itself, where ``../shared/tools/astra_sim`` is: a workload run by it, and what its log says of that."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hta_graph.base.errors import TraceError
from hta_graph.chakra.astra_sim_executor import EtProgram, rank_programs
from hta_graph.chakra.et_files import GROUPS_FILE, read_folder
from hta_graph.chakra.log_statistics import LogStatistics, log_statistics, read_log
from tests.support.shared_traces import SHARED

TOOL = SHARED / "tools" / "astra_sim"
BACK_ENDS = ("unaware", "aware")
BANDWIDTH_GBPS, LATENCY_NS = 50.0, 500.0
TIME_LIMIT_S = 900
TRIES = 4
"""Of some workloads it frees memory twice when it is done, which ends about one run of 25 on a busy machine; see
docs/simulators.md."""


def program_path(back_end: str) -> Path:
    """Return where a back end's program is."""
    return TOOL / "bin" / f"AstraSim_Analytical_Congestion_{back_end.capitalize()}"


@cache
def why_absent() -> str:
    """Say why ASTRA-sim cannot run here; "" where it can."""
    if not program_path("unaware").exists():
        return f"ASTRA-sim is not there: {TOOL}"
    done = subprocess.run([program_path("unaware")], capture_output=True, text=True, check=False)
    if "shared libraries" in done.stderr:
        return f"ASTRA-sim needs libprotobuf.so.32 (apt-get install libprotobuf32): {done.stderr.strip()}"
    return ""


def needs_astra_sim() -> None:
    """Leave a test out where ASTRA-sim cannot run."""
    if reason := why_absent():
        pytest.skip(reason)


@dataclass(frozen=True)
class Settings:
    """How to run: the back end, the network (GB/s and ns of a link), or recorded communication times and no network."""

    back_end: str = "unaware"
    bandwidth: float = BANDWIDTH_GBPS
    latency: float = LATENCY_NS
    topology: str = ""
    replay_only: bool = False

    def network(self, npus: int) -> dict[str, list[Any]]:
        """Return ASTRA-sim's description of the network: a ring, and of two NPUs one that both back ends take."""
        topology = self.topology or ("FullyConnected" if npus == 2 else "Ring")
        return {
            "topology": [topology],
            "npus_count": [npus],
            "bandwidth": [self.bandwidth],
            "latency": [self.latency],
        }

    @property
    def system(self) -> Path:
        """The description of the system."""
        return TOOL / "conf" / ("system_replay.json" if self.replay_only else "system.json")


@dataclass(frozen=True)
class SimulatorRun:
    """How ASTRA-sim ended, and its own words where it did not end well."""

    status: int
    words: str
    log: Path

    def statistics(self, programs: Mapping[int, EtProgram] | None = None) -> LogStatistics:
        """Return what its log says."""
        return log_statistics(read_log(self.log), programs)


def run_astra_sim(folder: Path, log: Path, settings: Settings | None = None, more: Sequence[str] = ()) -> SimulatorRun:
    """Run a workload, with more options if there are any; the log goes into a folder that is made anew."""
    for _ in range(TRIES):
        run = _run_once(folder, log, settings or Settings(), more)
        if run.status >= 0 or _is_whole(log, len(list(folder.glob("*.et")))):
            break
    return run


def _is_whole(log: Path, npus: int) -> bool:
    """Tell whether all ranks ended, however the program did."""
    try:
        return len(read_log(log).finished) == npus
    except TraceError:
        return False


def _run_once(folder: Path, log: Path, settings: Settings, more: Sequence[str]) -> SimulatorRun:
    npus = len(list(folder.glob("*.et")))
    # It goes on with an earlier log.
    shutil.rmtree(log, ignore_errors=True)
    log.mkdir(parents=True)
    network = log / "network.json"
    network.write_text(json.dumps(settings.network(npus)))
    prefix = min(path.name for path in folder.glob("*.et")).rsplit(".", 2)[0]
    command = [
        program_path(settings.back_end),
        f"--workload-configuration={folder / prefix}",
        f"--comm-group-configuration={folder / GROUPS_FILE}",
        f"--system-configuration={settings.system}",
        f"--network-configuration={network}",
        f"--remote-memory-configuration={TOOL / 'conf' / 'memory.json'}",
        f"--logging-folder={log}",
        *more,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIME_LIMIT_S)
    return SimulatorRun(done.returncode, done.stderr.strip(), log)


def with_second_rank(folder: Path) -> None:
    """Copy the only file for a second rank: ASTRA-sim needs two."""
    files = list(folder.glob("*.et"))
    if len(files) == 1:
        shutil.copyfile(files[0], files[0].with_name(files[0].name.replace(".0.et", ".1.et")))


def programs_in(folder: Path) -> dict[int, EtProgram]:
    """Return what each rank of a workload runs."""
    return rank_programs(read_folder(folder))
