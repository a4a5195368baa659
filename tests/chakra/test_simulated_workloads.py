"""Simulated jobs of all kinds, on GPUs and CPUs, become workloads that last as long as they did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.chakra.convert import Conversion, convert
from hta_graph.chakra.convert_options import ConvertOptions
from hta_graph.chakra.rank_workload import RankInput
from tests.matching_accuracy import SCENARIOS, random_shape
from tests.simulator.ranks import Recording, record_job, simulate_job
from tests.support.deep_tests import deep

QUICK = (("rooted", "gloo"), ("tensor", "nccl"))
EVERY = [(name, back_end) for name in SCENARIOS for back_end in ("nccl", "gloo")]
JOBS = [job if job in QUICK else deep(job) for job in EVERY]
SAID = ("Collective name", "In msg nelems", "Out msg nelems", "dtype", "Input Dims", "Input type")


def recorded_job(folder: Path, name: str, back_end: str, seed: int = 0) -> list[Path]:
    """Write the traces of a simulated job."""
    job = simulate_job(SCENARIOS[name](random_shape(name, back_end, seed)))
    record_job(job, Recording(), folder)
    return sorted(folder.glob("rank*.json"))


def converted_files(files: list[Path], target: Path) -> Conversion:
    """Convert all ranks, and keep what is unknown."""
    graphs = [hg.build_graph(hg.read_trace(path)) for path in files]
    return convert(
        [RankInput(graph.rank or 0, graph) for graph in graphs], target, ConvertOptions(unknown="as-recorded")
    )


def check_spans(conversion: Conversion, most: float = 0.01) -> None:
    for rank in conversion.ranks:
        assert abs(rank.simulated_ns - rank.measured_ns) <= most * rank.measured_ns


@pytest.mark.parametrize("job", JOBS, ids="-".join)
@pytest.mark.slow
def test_a_simulated_job_lasts_as_long(tmp_path: Path, job: tuple[str, str]) -> None:
    conversion = converted_files(recorded_job(tmp_path / "job", *job), tmp_path / "work")
    check_spans(conversion)
    assert not any("no partner" in note for note in conversion.notes)


@pytest.mark.parametrize("job", ["ddp", deep("fsdp"), deep("experts"), deep("tensor")])
@pytest.mark.slow
def test_so_does_one_whose_sizes_nobody_recorded(tmp_path: Path, job: str) -> None:
    files = recorded_job(tmp_path / "job", job, "nccl")
    for path in files:
        document = json.loads(path.read_bytes())
        for row in document["traceEvents"]:
            row["args"] = {key: value for key, value in row.get("args", {}).items() if key not in SAID}
        path.write_text(json.dumps(document))
    conversion = converted_files(files, tmp_path / "work")
    check_spans(conversion)
    assert sum("synchronize their ranks" in note for note in conversion.notes) == len(files)
    # Only what is of a group of one rank has nobody to meet.
    assert any("no partner" in note for note in conversion.notes) == (job == "tensor")
