"""A rank whose machine is slow, and ranks that only have more to do."""

from __future__ import annotations

from pathlib import Path

import pytest

import hta_graph as hg
from analyses.advice.facts import PathFacts
from analyses.advice.rule import PathFinding
from analyses.advice.rules import advice_of
from tests.support.gloo_builder import MAIN, GlooRank
from tests.support.rank_builder import RankBuilder

NAMES = [f"aten::op_{at}" for at in range(6)]


def advice(paths: list[Path]) -> dict[str, PathFinding]:
    return {finding.rule: finding for finding in advice_of(PathFacts(hg.critical_path(hg.read_job(paths), hg.whole())))}


def hosts(folder: Path, *lengths: list[float]) -> list[Path]:
    """Write ranks that run each of some operators five times, for so many µs each, and then meet."""
    last, paths = max(5 * sum(own) for own in lengths), []
    for rank, own in enumerate(lengths):
        trace, at = GlooRank(rank, list(range(len(lengths)))), 0.0
        trace.called("all_reduce", -20 + rank, -15)
        trace.worked("all_reduce", -14, -5)
        for _ in range(5):
            for name, length in zip(NAMES, own, strict=True):
                trace.op(name, at, at + length, tid=MAIN)
                at += length
        trace.called("all_reduce", at + 1, at + 3)
        trace.worked("all_reduce", at + 4, last + 10 + rank)
        trace.op("aten::last", last + 15, last + 16, tid=MAIN)
        paths.append(trace.write(folder / f"rank{rank}.json"))
    return paths


def gpus(folder: Path, *lengths: list[float]) -> list[Path]:
    """Write ranks whose kernels of six names run five times, for so many µs each, before an all-reduce."""
    last, paths = max(5 * sum(own) for own in lengths) + 10, []
    for rank, own in enumerate(lengths):
        trace, at, corr = RankBuilder(rank, len(lengths)), 10.0, 1
        trace.collective(-30, (-20 + rank, -5), 98)
        for turn in range(5):
            for name, length in zip(NAMES, own, strict=True):
                call = 0.2 * (turn * len(own) + NAMES.index(name))
                trace.launch(name.replace("aten::", "kernel_"), (call, call + 0.1), (at, at + length), corr, stream=24)
                at, corr = at + length, corr + 1
        trace.collective(8, (at, last + 10), 99)
        paths.append(trace.write(folder / f"rank{rank}.json"))
    return paths


EQUAL, SLOW, MORE = [10.0] * 6, [13.0] * 6, [40.0, *[10.0] * 5]


@pytest.mark.parametrize(("write", "rule", "who"), [(hosts, "slow_host", "host"), (gpus, "slow_gpu", "GPU")])
def test_a_machine_on_which_all_takes_longer_is_slow(tmp_path: Path, write: object, rule: str, who: str) -> None:
    assert callable(write)
    found = advice(write(tmp_path, EQUAL, SLOW, EQUAL))[rule]
    assert found.action.startswith(f"Check the {who} of rank 1: throttling")
    assert found.text.startswith("The same ")
    assert found.evidence == {"rank": 1, "ratio": 1.3, "names": 6, "longer": 6}
    assert found.saves_at_most_ns == 90_000
    assert found.confidence == "medium"


@pytest.mark.sampled(6)
@pytest.mark.parametrize("write", [hosts, gpus])
@pytest.mark.parametrize(
    "lengths",
    [
        (EQUAL, MORE, EQUAL),
        (SLOW, SLOW, EQUAL),
        (EQUAL, EQUAL, EQUAL),
        (EQUAL, [10.5] * 6, EQUAL),
        (EQUAL, [14.0] * 6, SLOW),
    ],
)
def test_more_work_or_a_slow_pair_is_no_slow_machine(
    tmp_path: Path, write: object, lengths: tuple[list[float], ...]
) -> None:
    assert callable(write)
    assert not {"slow_host", "slow_gpu"} & set(advice(write(tmp_path, *lengths)))


def test_a_slow_gpu_beside_the_path_is_not_told(tmp_path: Path) -> None:
    found = advice(hosts(tmp_path, EQUAL, SLOW))
    assert "slow_gpu" not in found
