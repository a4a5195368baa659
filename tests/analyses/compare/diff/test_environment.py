"""What differs around two runs: found where it differs, silent where a side does not tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from analyses.compare.diff.environment import environment, environment_lines
from analyses.declare.scope import Scope, whole
from tests.support.shared_traces import SHARED, graph_of_file
from tests.support.trace_builder import TraceBuilder

pytestmark = pytest.mark.sampled(2)

HEADER: dict[str, Any] = {
    "deviceProperties": [{"id": 0, "name": "A100"}, {"id": 1, "name": "V100"}],
    "distributedInfo": {"rank": 0, "world_size": 2, "backend": "nccl", "nccl_version": "2.27.5"},
    "cuda_runtime_version": 12060,
    "record_shapes": 1,
}


def recorded(
    folder: Path, *, kind: str = "float", dims: tuple[int, ...] = (4, 4), device: int = 0, **header: Any
) -> Scope:
    """Record one product of two matrices, and a small index operator."""
    trace = TraceBuilder(**{**HEADER, **header})
    inputs = {"Input type": [kind, kind, "Scalar"], "Input Dims": [list(dims), list(dims), []]}
    trace.op("aten::mm", 0, 10, **inputs)
    trace.launch("gemm", (1, 2), (3, 90), 1, device=device)
    trace.op("aten::index", 20, 30, **{"Input type": ["long int"], "Input Dims": [[7]]})
    trace.launch("index", (21, 22), (95, 100), 2, device=device)
    folder.mkdir(parents=True, exist_ok=True)
    return whole(0, trace.graph(folder))


def differences(tmp_path: Path, test: dict[str, Any], control: dict[str, Any] | None = None) -> list[tuple[str, ...]]:
    sides = recorded(tmp_path / "control", **(control or {})), recorded(tmp_path / "test", **test)
    return list(environment(*sides).itertuples(index=False, name=None))


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("test", "row"),
    [
        ({"device": 1}, ("GPU", "A100", "V100")),
        ({"deviceProperties": [{"name": "A100"}]}, ("GPUs per host", "2", "1")),
        ({"distributedInfo": {"rank": 0, "world_size": 8}}, ("world size", "2", "8")),
        ({"distributedInfo": {"rank": 1, "world_size": 2}}, ("rank", "0", "1")),
        ({"distributedInfo": {"rank": 0, "backend": "gloo"}}, ("communication", "nccl", "gloo")),
        ({"cuda_runtime_version": 13000}, ("CUDA", "12.6", "13.0")),
        ({"with_stack": 1}, ("profiler option with_stack", "off", "on")),
        ({"record_shapes": None}, ("profiler option record_shapes", "on", "off")),
        ({"schemaVersion": 2}, ("trace schema", "1", "2")),
        ({"kind": "c10::BFloat16"}, ("dtype of most work", "float32", "bfloat16")),
        ({"dims": (8, 4)}, ("input shapes (aten::mm)", "[[4, 4], [4, 4], []]", "[[8, 4], [8, 4], []]")),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_what_differs_is_one_row(tmp_path: Path, test: dict[str, Any], row: tuple[str, ...]) -> None:
    assert differences(tmp_path, test) == [row]


def test_equal_surroundings_say_nothing(tmp_path: Path) -> None:
    assert differences(tmp_path, {}) == []
    assert environment_lines(environment(*[recorded(tmp_path / "one")] * 2)) == []


def test_what_a_side_does_not_tell_is_not_held_against_the_other(tmp_path: Path) -> None:
    silent = {"distributedInfo": None, "deviceProperties": None, "cuda_runtime_version": None}
    assert differences(tmp_path, silent) == []


def test_a_trace_without_header_has_no_options_to_compare(tmp_path: Path) -> None:
    silent = dict.fromkeys((*HEADER, "schemaVersion"))
    assert differences(tmp_path, silent) == []


def test_a_host_alone_beside_a_gpu_differs(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10)
    found = environment(recorded(tmp_path / "gpu"), whole(0, trace.graph(tmp_path)))
    assert found.iloc[0].tolist() == ["GPU", "A100", "no GPU work"]


def test_a_small_operators_shapes_do_not_count(tmp_path: Path) -> None:
    sides = []
    for name, size in (("control", 7), ("test", 9)):
        trace = TraceBuilder(**HEADER)
        trace.op("aten::mm", 0, 10, **{"Input Dims": [[4, 4]]})
        trace.launch("gemm", (1, 2), (3, 90), 1)
        trace.op("aten::index", 20, 30, **{"Input Dims": [[size]]})
        trace.launch("index", (21, 22), (95, 100), 2)
        (tmp_path / name).mkdir()
        sides.append(whole(0, trace.graph(tmp_path / name)))
    assert environment(*sides).empty


def test_a_saved_graph_without_its_file_is_compared_by_its_header(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    sides = []
    for name, version in (("control", 12060), ("test", 12080)):
        scope = recorded(tmp_path / name, cuda_runtime_version=version, dims=(version, 1))
        hg.save_graph(scope.graph, tmp_path / f"saved_{name}")
        (tmp_path / name / "trace.json").unlink()
        sides.append(whole(0, hg.load_graph(tmp_path / f"saved_{name}")))
    assert environment(*sides).to_numpy().tolist() == [["CUDA", "12.6", "12.8"]]


def test_the_line_names_the_first_differences_and_counts_the_rest(tmp_path: Path) -> None:
    test = {"distributedInfo": {"rank": 1, "world_size": 8}, "with_stack": 1, "with_flops": 1, "device": 1}
    sides = recorded(tmp_path / "control"), recorded(tmp_path / "test", **test)
    (line,) = environment_lines(environment(*sides))
    assert line.startswith("Also different: GPU A100 → V100; world size 2 → 8; rank 0 → 1; profiler option with")
    assert line.endswith("with_stack off → on; 1 more in the environment table.")


@pytest.mark.slow
@pytest.mark.shared
def test_real_recordings_on_other_machines_and_batches_differ() -> None:
    names = ("nanogpt_ddp_8xh100", "nanogpt_ab_current", "nanogpt_ab_hook", "nccl_args_a100")
    ddp, current, hook, a100 = (whole(0, graph_of_file(SHARED / f"traces/{name}/rank0.json.gz")) for name in names)
    assert environment(ddp, current)["what"].tolist() == ["input shapes (aten::mm)", "NCCL"]
    assert environment(current, hook).empty
    assert environment(a100, hook).iloc[0].tolist() == ["GPU", "NVIDIA A100-PG509-200", "NVIDIA H100 80GB HBM3"]
