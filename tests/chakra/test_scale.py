"""A scaled workload: which nodes take longer, what stays, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from hta_graph.base.errors import OutputError
from hta_graph.chakra.astra_sim_executor import DELAY
from hta_graph.chakra.check import check
from hta_graph.chakra.et_files import attributes, length_prefixed, read_folder
from hta_graph.chakra.scale import ScaleError, scale_factor, scale_workload
from hta_graph.chakra.schema import NODE_TYPES
from hta_graph.chakra.simulate import simulate
from tests.support.command_line import run_command
from tests.support.rank_builder import RankBuilder, converted

HALF, ONE, TWO = Fraction(1, 2), Fraction(1), Fraction(2)


def work_in(tmp_path: Path, profile: str = "full") -> Path:
    """Two ranks: operators, kernels with fractions of a microsecond, an all-reduce and times that nothing explains."""
    traces = RankBuilder(0, 2), RankBuilder(1, 2)
    for trace in traces:
        trace.op("aten::mm", 0, 10)
        trace.launch("gemm", (2, 4), (5, 50.123), 1)
        trace.collective(20, (60, 90), 2)
        trace.launch("gemm", (300, 302), (305, 305.4), 3)
        trace.op("aten::add", 299, 304.5)
        trace.launch("gemm", (400, 402), (500, 505), 4)
    converted(tmp_path, *traces, profile=profile)
    return tmp_path / "work"


def nodes_of_rank(folder: Path, rank: int = 0) -> Iterator[tuple[Any, dict[str, Any]]]:
    for node in read_folder(folder).files[rank].nodes():
        yield node, {name: value for name, _, value in attributes(node)}


def scaled(tmp_path: Path, gpu: Fraction = ONE, cpu: Fraction = ONE, profile: str = "full") -> tuple[Path, Path]:
    work = work_in(tmp_path, profile)
    scale_workload(read_folder(work), tmp_path / "scaled", gpu, cpu)
    return work, tmp_path / "scaled"


def changes(before: Path, after: Path) -> dict[str, set[Any]]:
    """Return by what factor durations changed, per sort of node."""
    found: dict[str, set[Any]] = {}
    for (node, known), (other, told) in zip(nodes_of_rank(before), nodes_of_rank(after), strict=True):
        side = "cpu" if known["is_cpu_op"] else "gpu"
        sort = "delay" if node.name == DELAY else "work" if node.type == NODE_TYPES["COMP_NODE"] else "communication"
        recorded = known["duration_nanos"]
        exact = recorded if abs(recorded - 1000 * node.duration_micros) < 1000 else 1000 * node.duration_micros
        if exact:
            idle = known.get("idle_nanos", 0)
            if exact > idle:
                factor = Fraction(told.get("scaled_nanos", exact) - idle, exact - idle)
                found.setdefault(f"{side} {sort}", set()).add(factor)
            if "scaled_nanos" in told:
                assert abs(other.duration_micros * 1000 - told["scaled_nanos"]) < 1000
            else:
                assert other.duration_micros == node.duration_micros
    return found


@pytest.mark.parametrize("profile", ["full", "gpu"])
def test_kernels_scale_and_nothing_else(tmp_path: Path, profile: str) -> None:
    found = changes(*scaled(tmp_path, gpu=TWO, profile=profile))
    assert found.pop("gpu work") == {TWO}
    assert "gpu communication" in found
    assert all(factors == {ONE} for factors in found.values())


def test_operators_scale_and_their_delays_stay(tmp_path: Path) -> None:
    found = changes(*scaled(tmp_path, cpu=TWO))
    assert found.pop("cpu work") == {TWO}
    assert found["cpu delay"] == {ONE}
    assert all(factors == {ONE} for factors in found.values())


def test_what_is_no_idle_time_is_work_where_operators_are_left_out(tmp_path: Path) -> None:
    found = changes(*scaled(tmp_path, cpu=TWO, profile="gpu"))
    assert found.pop("cpu delay") == {TWO}
    assert "gpu work" in found
    assert all(factors == {ONE} for factors in found.values())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("cpu", [Fraction(0), HALF, TWO])
def test_both_profiles_give_the_cpu_the_same_work(tmp_path: Path, cpu: Fraction) -> None:
    ends = []
    for profile in ("full", "gpu"):
        (tmp_path / profile).mkdir()
        _, after = scaled(tmp_path / profile, cpu=cpu, profile=profile)
        ends.append(simulate(read_folder(after)).ranks[0].simulated_ns)
    assert abs(ends[0] - ends[1]) <= 10_000


@pytest.mark.sampled(3)
@pytest.mark.parametrize("factor", [Fraction(1, 4), Fraction(11, 20), Fraction(10_000_001, 10_000_000)])
def test_sums_along_streams_and_threads_stay_right(tmp_path: Path, factor: Fraction) -> None:
    trace = RankBuilder(0, 1)
    trace.op("aten::mm", 0, 2)
    for at in range(300):
        trace.launch("gemm", (3 + at, 3.5 + at), (10 + 3 * at, 11 + 3 * at), at + 1)
        trace.op("aten::add", 400 + 3 * at, 401 + 3 * at)
    converted(tmp_path, trace)
    scale_workload(read_folder(tmp_path / "work"), tmp_path / "scaled", factor, factor)
    for on_cpu in (False, True):
        own = [(node, known) for node, known in nodes_of_rank(tmp_path / "scaled") if known["is_cpu_op"] == on_cpu]
        work = [(node.duration_micros, known["scaled_nanos"]) for node, known in own if "scaled_nanos" in known]
        written, exact = map(sum, zip(*work, strict=True))
        assert len(work) >= 300
        assert abs(1000 * written - exact) <= 500


def test_everything_else_stays_as_it_was(tmp_path: Path) -> None:
    before, after = scaled(tmp_path, gpu=HALF)
    for (node, known), (other, told) in zip(nodes_of_rank(before), nodes_of_rank(after), strict=True):
        told.pop("scaled_nanos", None)
        assert known == told
        assert (node.id, node.name, node.type, list(node.data_deps)) == (
            other.id, other.name, other.type, list(other.data_deps),
        )  # fmt: skip
    assert (before / "comm_groups.json").read_bytes() == (after / "comm_groups.json").read_bytes()
    assert (before / "group_names.json").read_bytes() == (after / "group_names.json").read_bytes()


def test_fractions_of_a_microsecond_are_kept(tmp_path: Path) -> None:
    _, after = scaled(tmp_path, gpu=Fraction(1, 3))
    kernels = [known for node, known in nodes_of_rank(after) if node.name == "gemm"]
    assert [known["scaled_nanos"] for known in kernels] == [15_041, 133, 1_667]
    assert [known["duration_nanos"] for known in kernels] == [45_123, 400, 5_000]


def test_scaling_twice_is_scaling_by_the_product(tmp_path: Path) -> None:
    work, once = scaled(tmp_path, gpu=TWO, cpu=TWO)
    scale_workload(read_folder(once), tmp_path / "twice", HALF, TWO)
    assert changes(work, tmp_path / "twice")["gpu work"] == {ONE}
    assert changes(work, tmp_path / "twice")["cpu work"] == {Fraction(4)}
    known = read_folder(tmp_path / "twice").files[0].metadata
    assert (known["gpu_factor"], known["cpu_factor"]) == (1.0, 4.0)


def test_the_scaled_one_does_not_claim_to_be_measured(tmp_path: Path) -> None:
    before, after = scaled(tmp_path, gpu=HALF)
    recorded, known = (read_folder(folder).files[0].metadata for folder in (before, after))
    assert known["unscaled_nanos"] == recorded["measured_nanos"]
    assert (known["gpu_factor"], known["cpu_factor"]) == (0.5, 1.0)
    assert [rank.measured_ns for rank in simulate(read_folder(after)).ranks] == [None, None]
    assert check(read_folder(after)).findings == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("factor", ["0.5", "2", "1e-3", "0"])
def test_the_command_scales_a_workload(tmp_path: Path, capsys: pytest.CaptureFixture[str], factor: str) -> None:
    work = work_in(tmp_path)
    arguments = "chakra", "scale", work, "--gpu", factor, "--output", tmp_path / "out"
    status, out, err = run_command(capsys, *arguments)
    assert (status, out) == (0, "")
    assert "scaled nodes: 6 of the GPU, 0 of the CPU" in err
    assert run_command(capsys, *arguments)[0] == 1
    assert run_command(capsys, *arguments, "--force")[0] == 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("factor", ["-1", "nan", "inf", "-inf", "", "fast", "1/2", "1e999"])
def test_what_is_no_factor_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], factor: str
) -> None:
    arguments = "chakra", "scale", work_in(tmp_path), f"--gpu={factor}", "--output", tmp_path / "out"
    status, _, err = run_command(capsys, *arguments)
    assert status == 2
    assert f"--gpu: expected a number from 0 to 1,000,000, got {factor!r}; see" in err
    assert err.count("\n") == 1
    with pytest.raises(ScaleError, match="use a number of at least 0"):
        scale_factor(factor)
    assert not (tmp_path / "out").exists()


def test_a_workload_that_takes_longer_than_anybody_counts_is_not_written(tmp_path: Path) -> None:
    folder = read_folder(work_in(tmp_path))
    with pytest.raises(
        ScaleError,
        match=r"trace\.\d\.et: node \d+ would take more than 104 days, .*; use a smaller factor",
    ):
        scale_workload(folder, tmp_path / "out", scale_factor("1e300"), ONE)
    assert not (tmp_path / "out").exists()


def test_the_workload_itself_is_never_overwritten(tmp_path: Path) -> None:
    folder = read_folder(work_in(tmp_path))
    with pytest.raises(OutputError, match="never overwritten"):
        scale_workload(folder, tmp_path / "work", TWO, ONE, force=True)


def test_a_file_without_nanoseconds_scales_in_microseconds(tmp_path: Path) -> None:
    work = work_in(tmp_path)
    path = work / "trace.0.et"
    file = read_folder(work).files[0]
    stripped = [file.messages[0]]
    for node in file.nodes():
        kept = [item for item in node.attr if not item.name.endswith("nanos")]
        del node.attr[:]
        node.attr.extend(kept)
        stripped.append(node.SerializeToString())
    path.write_bytes(b"".join(length_prefixed(stripped)))
    scale_workload(read_folder(work), tmp_path / "scaled", TWO, ONE)
    kernels = [node.duration_micros for node, _ in nodes_of_rank(tmp_path / "scaled") if node.name == "gemm"]
    before = [node.duration_micros for node, _ in nodes_of_rank(work) if node.name == "gemm"]
    assert kernels == [2 * micros for micros in before]


def test_a_factor_that_changes_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run_command(capsys, "chakra", "scale", work_in(tmp_path), "--output", tmp_path / "out")
    assert status == 1
    assert "nothing would change" in err
    assert not (tmp_path / "out").exists()
