"""Inputs of the kinds that people pass are answered right, or refused in one true line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import one_error, run_command
from tests.support.inputs_by_kind import INPUTS

Found = dict[str, Any]


def _sums(table: str, key: str, value: str) -> Callable[[Found], Any]:
    """Sum a column (ns) of a table by another, in µs; what takes nothing is left out."""

    def of(found: Found) -> dict[str, int]:
        sums: Counter[str] = Counter()
        for row in found["tables"][table]:
            sums[row[key]] += row[value]
        return {name: ns // 1000 for name, ns in sums.items() if ns}

    return of


def _host(found: Found) -> dict[str, int]:
    chosen = ("gpu_compute_bound", "cpu_bound")
    return {name: found["by_bound_ns"][name] // 1000 for name in chosen if found["by_bound_ns"][name]}


def _folded(found: Found) -> dict[str, tuple[int, int]]:
    rows = found["tables"]["annotations"]
    return {row["annotation"]: (row["count"], row["gpu_ns"] // 1000) for row in rows}


def _steps(found: Found) -> dict[int, int]:
    rows = found["tables"]["temporal_breakdown"]
    return {int(row["scope"].removeprefix("ProfilerStep#")): row["compute_ns"] // 1000 for row in rows}


QUESTIONS: dict[str, tuple[tuple[str, ...], Callable[[Found], Any]]] = {
    "types": (("kernel-breakdown",), _sums("kernel_types", "kernel_type", "time_ns")),
    "salvaged": (("kernel-breakdown", "--salvage"), _sums("kernel_types", "kernel_type", "time_ns")),
    "kernels": (("kernel-breakdown", "--duration-ratio", "1"), _sums("kernels", "kernel", "sum_ns")),
    "bandwidth": (
        ("memory-bandwidth",),
        lambda found: {row["kind"]: row["mean_gbps"] for row in found["tables"]["memory_bandwidth"]},
    ),
    "operators": (("attribution",), _sums("gpu_time_by_operator", "name", "gpu_self_ns")),
    "modules": (("attribution", "--by", "module"), _sums("gpu_time_by_module", "name", "gpu_self_ns")),
    "annotations": (("attribution", "--by", "annotation"), _sums("gpu_time_by_annotation", "name", "gpu_self_ns")),
    "folded": (("annotations",), _folded),
    "late": (("stragglers",), _sums("stragglers", "rank", "wait_caused_ns")),
    "bus": (
        ("collectives",),
        lambda found: sorted({row["bus_gbps"] for row in found["tables"]["collectives"]}),
    ),
    "host": (("critical-path", "--step", "2"), _host),
    "steps": (("temporal-breakdown", "--per-step"), _steps),
}  # fmt: skip


@pytest.mark.sampled(15)
@pytest.mark.parametrize("what", INPUTS)
def test_each_kind_is_answered_or_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, what: str) -> None:
    case = INPUTS[what]
    made = case.make()
    path = tmp_path if isinstance(made, dict) else tmp_path / case.name
    for name, data in made.items() if isinstance(made, dict) else [(case.name, made)]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    if not case.ask:
        line = one_error(capsys, tmp_path, "critical-path", path)
        assert case.right in line
        assert "record the trace again" not in line
        return
    arguments, answer = QUESTIONS[case.ask]
    status, out, err = run_command(capsys, *arguments, path, "--json", "-")
    assert status == 0, err
    found = json.loads(out)
    assert answer(found) == case.right
    assert case.said in err + "\n".join(found.get("notes", []))
