"""A/B pairs: what a change is, said beforehand and expressed on A, beside what was measured in B; nothing is fitted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import hta_graph as hg
from hta_graph.what_if.changes import Change

RING = "kernel:ncclDevKernel_ReduceScatter"


@dataclass(frozen=True)
class Pair:
    """Two recordings of a program, before and after a change, and that change in words and as changes of A's graph."""

    before: str
    after: str
    says: str
    changes: tuple[Change, ...]
    steps: tuple[int, ...]


PAIRS = (
    Pair(
        "nanogpt_ab_current", "nanogpt_ab_hook",
        "gradients are reduced from hooks in the backward pass, no longer in the optimizer: a reduce-scatter waits for "
        "its stream alone, neither for its launch in the optimizer nor for the other streams' last work",
        (hg.reroute(drop=["launch", "event_wait"], into=RING),), (11, 12, 13),
    ),
    Pair(
        "ep_moe_b200_cuda13/reference", "ep_moe_b200_cuda13/syncless",
        "the host no longer waits for the GPU to learn how many tokens each expert gets",
        (hg.scenario("no_host_syncs"),), (2,),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Compared:
    """A step of a pair (ns): A's and B's measured lengths, and what replay makes of A's."""

    before: str
    after: str
    step: int
    length: str
    before_ns: int
    predicted_ns: int
    after_ns: int
    frozen_share: float

    @property
    def error(self) -> float:
        """By how much of B's length the prediction is too long."""
        return self.predicted_ns / self.after_ns - 1

    @property
    def trivial_error(self) -> float:
        """The same of saying that nothing changes."""
        return self.before_ns / self.after_ns - 1


def compared(folder: Path, pairs: Sequence[Pair] = PAIRS) -> Iterator[Compared]:
    """Predict the steps of the pairs that are in a folder."""
    for pair in pairs:
        if (folder / pair.before).is_dir() and (folder / pair.after).is_dir():
            yield from _compared_pair(folder, pair)


def _compared_pair(folder: Path, pair: Pair) -> Iterator[Compared]:
    before, after = (
        hg.build_graph(hg.read_trace(folder / name / "rank0.json.gz")) for name in (pair.before, pair.after)
    )
    for step in pair.steps:
        window = hg.step(step, gpu_window=len(pair.steps) > 1)
        measured = window(after)
        replayed = hg.replay(before, pair.changes, window)
        yield Compared(
            pair.before, pair.after, step, "iteration" if len(pair.steps) > 1 else "latency", replayed.measured_ns,
            replayed.predicted_ns, measured.end_ns - measured.start_ns, replayed.frozen_share,
        )  # fmt: skip
