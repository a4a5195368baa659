"""Made pipelined jobs that exercise every rule of the straggler analysis; their times need not be plausible.

The template's operations stand in slots, so that their order is known; all other steps and ranks are shaken.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pandas as pd

__all__ = ["PipelineShape", "generated_pipeline_job", "random_shape_of_job"]

SLOT = 0.1


@dataclass(frozen=True)
class PipelineShape:
    """What a made job looks like.

    ``late_receives`` and ``early_sends`` are recorded though they belong to no work; ``first_receive_missing``: on the
    first stage of a job with several chunks; ``faults``: some operations end long before others of their group start;
    ``lonely``: what data-parallel ranks do together is recorded though there is one alone; ``spread``: how much
    durations differ.
    """

    pp: int = 2
    dp: int = 2
    dsp: int = 1
    vpp: int = 1
    microbatches: int = 3
    steps: int = 2
    overlapped: bool = False
    late_receives: bool = False
    early_sends: bool = False
    first_receive_missing: bool = False
    faults: bool = False
    lonely: bool = False
    warm_up: bool = True
    spread: float = 0.8


def random_shape_of_job(seed: int) -> PipelineShape:
    """Return any shape."""
    rng = random.Random(f"shape {seed}")
    coin = rng.random
    return PipelineShape(
        pp=rng.randint(1, 4), dp=rng.randint(1, 3), dsp=rng.choice((1, 1, 2)), vpp=rng.choice((1, 1, 2, 3)),
        microbatches=rng.randint(1, 4), steps=rng.randint(1, 3), overlapped=coin() < 0.4, late_receives=coin() < 0.3,
        early_sends=coin() < 0.3, first_receive_missing=coin() < 0.4, faults=coin() < 0.4, warm_up=coin() < 0.6,
        spread=rng.choice((0.0, 0.5, 0.9)), lonely=coin() < 0.5,
    )  # fmt: skip


@dataclass
class _Slots:
    """Operations of one stage, one after the other."""

    shape: PipelineShape
    stage: int
    rows: list[dict[str, Any]]
    now: float = 1.0

    def add(self, kind: str, start: float, duration: float, mc: int = -1, gmc: int = -1) -> None:
        place = {"stage": self.stage, "mc": mc, "gmc": gmc, "mb_id": 0}
        self.rows.append({"optype": kind, "start_ts": start, "duration": duration, **place})

    def work(self, direction: str, chunk: int) -> None:
        """Add work with its messages: it is received before, sent after."""
        shape, whole = self.shape, chunk * self.shape.pp + self.stage
        toward = 1 if direction == "forward" else -1
        last = shape.vpp * shape.pp - 1
        # Without several chunks the outer stages record no message that has no other side.
        is_first = not any(row["optype"] == "forward-compute" for row in self.rows)
        if (0 <= whole - toward <= last or shape.vpp > 1) and not (
            direction == "forward" and is_first and self.stage == 0 and shape.first_receive_missing
        ):
            self.add(f"{direction}-recv", self.now - 0.04, 0.03)
        self.add(f"{direction}-compute", self.now, 0.05, chunk, whole)
        if 0 <= whole + toward <= last or shape.vpp > 1:
            self.add(f"{direction}-send", self.now + 0.052, 0.03)
        self.now += SLOT


def _order_of_work(shape: PipelineShape, stage: int) -> list[tuple[str, int]]:
    """Return the work of a stage: all forward and then all backward, or with one chunk one of each in turn."""
    forward = [("forward", chunk) for chunk in range(shape.vpp) for _ in range(shape.microbatches)]
    backward = [("backward", chunk) for chunk in reversed(range(shape.vpp)) for _ in range(shape.microbatches)]
    if shape.vpp > 1 or not shape.warm_up:
        return [*forward, *backward]
    ahead = min(shape.pp - stage, shape.microbatches)
    turns = [work for pair in zip(forward[ahead:], backward, strict=False) for work in reversed(pair)]
    return [*forward[:ahead], *turns, *backward[len(forward) - ahead :]]


def _rows_of_stage(shape: PipelineShape, stage: int) -> list[dict[str, Any]]:
    slots = _Slots(shape, stage, [])
    uses_dp = shape.dp * shape.dsp > 1 or shape.lonely
    if uses_dp:
        for chunk in range(shape.vpp):
            for part in range(1 + (chunk == 0)):
                slots.add("params-all-gather", 0.1 * chunk + 0.04 * part, 0.03, chunk)
    for direction, chunk in _order_of_work(shape, stage):
        slots.work(direction, chunk)
    if shape.late_receives:
        slots.add("forward-recv", slots.now + 0.3, 0.01)
        slots.add("backward-recv", slots.now + 0.3, 0.01)
    if shape.early_sends:
        slots.add("forward-send", 0.2, 0.01)
        slots.add("backward-send", 0.2, 0.01)
    _add_tail(slots, uses_dp)
    return slots.rows


def _add_tail(slots: _Slots, uses_dp: bool) -> None:
    shape, tail = slots.shape, ["gc", "layernorm-grads-all-reduce"]
    if slots.stage in (0, shape.pp - 1):
        tail.append("embedding-grads-all-reduce")
    scatters = [(chunk, part) for chunk in reversed(range(shape.vpp)) for part in range(1 + (chunk == 0))]
    if uses_dp and shape.overlapped:
        for number, (chunk, _) in enumerate(scatters):
            slots.add("grads-reduce-scatter", slots.now - 0.3 + 0.06 * number, 0.05, chunk)
        tail.append("separate-grads-all-reduce")
    elif uses_dp:
        tail += ["grads-reduce-scatter"] * len(scatters)
    chunks = iter(chunk for chunk, _ in scatters)
    for kind in [*tail, "optimizer-clip-main-grad", "optimizer"]:
        slots.now += 0.06
        slots.add(kind, slots.now, 0.05, next(chunks) if kind == "grads-reduce-scatter" else -1)


def generated_pipeline_job(shape: PipelineShape, seed: int) -> pd.DataFrame:
    """Make the table of a job's operations, in no order."""
    rng = random.Random(f"times {seed}")
    template = pd.DataFrame([row for stage in range(shape.pp) for row in _rows_of_stage(shape, stage)])
    template = template.sort_values(["stage", "optype", "start_ts"], kind="stable", ignore_index=True)
    template["seq_id"] = template.groupby(["stage", "optype"]).cumcount()
    copies = []
    for step in range(shape.steps):
        for dp in range(shape.dp):
            copy = template.assign(step=7 + 3 * step, dp_rank=dp)
            copy["rank"] = (shape.dp - 1 - dp) * shape.pp + copy["stage"]
            is_template = (step, dp) == (0, 0)
            # More would carry sends of the template past the first work, and so out of the job.
            spread = min(shape.spread, 0.1) if is_template else shape.spread
            slow = rng.uniform(1, 1 + spread)
            copy["duration"] *= [slow * rng.uniform(1 - spread / 2, 1 + spread) for _ in range(len(copy))]
            if not is_template:
                reach = 0.03 if shape.faults else 0.002
                copy["start_ts"] += [100 * step + rng.uniform(-reach, reach) for _ in range(len(copy))]
            copies.append(copy)
    return pd.concat(copies).sample(frac=1, random_state=seed, ignore_index=True)
