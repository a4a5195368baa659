"""The same what-if once more, slowly and one operation at a time, as its description reads: a check of the oracle.

Shares nothing with the oracle: operations are names (``type_seq_stage``), values floats in seconds, replay is a loop.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from statistics import fmean, median
from typing import Any

import pandas as pd

__all__ = ["reference_answers"]

Name = tuple[str, int, int]
Key = tuple[int, int, Name]
"""Step, data-parallel rank, operation."""
COMPUTE = {"forward-compute", "backward-compute", "optimizer", "gc"}
LAYERNORM, EMBEDDING = "layernorm-grads-all-reduce", "embedding-grads-all-reduce"
GATHER, SCATTER, SEPARATE = "params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce"
CLIP = "optimizer-clip-main-grad"


class ReferenceJob:
    """What waits for what, and how long everything took."""

    def __init__(self, frame: pd.DataFrame, dsp: int) -> None:
        self.rows = {
            (row["step"], row["dp_rank"], (row["optype"], row["seq_id"], row["stage"])): row
            for row in frame.astype({"optype": str, "start_ts": float, "duration": float}).to_dict("records")
        }
        self.start = {key: row["start_ts"] for key, row in self.rows.items()}
        self.end = {key: row["start_ts"] + row["duration"] for key, row in self.rows.items()}
        self.steps = sorted({step for step, _, _ in self.rows})
        self.dps = sorted({dp for _, dp, _ in self.rows})
        self.template = {name: row for (step, dp, name), row in self.rows.items() if (step, dp) == (self.steps[0], 0)}
        self.pp = 1 + max(name[2] for name in self.template)
        self.vpp = 1 + max(row["mc"] for row in self.template.values())
        self.use_dp = len(self.dps) * dsp > 1
        self.has_separate = any(name[0] == SEPARATE for name in self.template)
        self.deps: dict[Name, set[Name]] = defaultdict(set)
        self.groups: list[tuple[list[Name], bool]] = []
        self.valid: dict[tuple[str, int], list[Name]] = defaultdict(list)
        for stage in range(self.pp):
            self.add_chains(stage)
            self.add_messages(stage)
            self.add_tail(stage)
        self.add_groups()
        self.members = {name: group for group in self.groups for name in group[0]}

    # -- the description, rule by rule ---------------------------------------------------------------------------------

    def begins(self, name: Name) -> float:
        return float(self.template[name]["start_ts"])

    def ends(self, name: Name) -> float:
        return float(self.template[name]["start_ts"] + self.template[name]["duration"])

    def ordered(self, stage: int, *types: str) -> list[Name]:
        found = [name for name in self.template if name[2] == stage and name[0] in types]
        return sorted(found, key=lambda name: (self.begins(name), name[1], name[0]))

    def chain(self, names: list[Name]) -> None:
        for before, after in pairwise(names):
            self.deps[after].add(before)

    def add_chains(self, stage: int) -> None:
        """Rules 1 and 4."""
        work = self.ordered(stage, "forward-compute", "backward-compute")
        self.chain(work)
        for kind in ("forward-send", "forward-recv", "backward-send", "backward-recv"):
            self.chain(self.ordered(stage, kind))
        if not self.use_dp:
            return
        self.chain(self.ordered(stage, GATHER, SCATTER))
        for chunk in {self.template[name]["mc"] for name in self.ordered(stage, GATHER)}:
            gathers = [name for name in self.ordered(stage, GATHER) if self.template[name]["mc"] == chunk]
            forward = [n for n in work if n[0] == "forward-compute" and self.template[n]["mc"] == chunk]
            self.deps[min(forward, key=self.begins)].add(max(gathers, key=lambda name: name[1]))
        if self.has_separate:
            for chunk in {self.template[name]["mc"] for name in self.ordered(stage, SCATTER)}:
                scatters = [name for name in self.ordered(stage, SCATTER) if self.template[name]["mc"] == chunk]
                backward = [n for n in work if n[0] == "backward-compute" and self.template[n]["mc"] == chunk]
                self.deps[min(scatters, key=lambda name: name[1])].add(max(backward, key=self.ends))

    def add_messages(self, stage: int) -> None:
        """Rules 2 and 3."""
        work = self.ordered(stage, "forward-compute", "backward-compute")
        for direction in ("forward", "backward"):
            computes = [name for name in work if name[0] == f"{direction}-compute"]
            for way in ("send", "recv"):
                every = self.ordered(stage, f"{direction}-{way}")
                real = [name for name in every if self.is_real(name, computes)]
                self.groups += [([name], False) for name in every if name not in real]
                first = 1 if way == "recv" and len(real) == len(computes) - 1 else 0
                for place, name in enumerate(real):
                    self.add_message(name, (f"{direction}-compute", place + first, stage))
        places = [name[0] for name in work]
        if "backward-compute" in places and places.index("backward-compute") >= 2:
            before = work[places.index("backward-compute") - 2]
            for kind in ("backward-send", "backward-recv"):
                if (kind, 0, stage) in self.template:
                    self.deps[kind, 0, stage].add(before)

    def is_real(self, name: Name, computes: list[Name]) -> bool:
        """Tell what is no no-op of the first kind."""
        if name[0].endswith("recv"):
            return self.begins(name) <= max(map(self.begins, computes)) + 50e-6
        return self.ends(name) >= min(map(self.ends, computes)) - 50e-6

    def add_message(self, name: Name, compute: Name) -> None:
        """Tie a send or receive to its compute; a no-op of the second kind is alone."""
        if name[0].endswith("send"):
            self.deps[name].add(compute)
        else:
            self.deps[compute].add(name)
            if compute[1] > 0:
                self.deps[name].add((compute[0], compute[1] - 1, compute[2]))
        toward = 1 if name[0] in ("forward-send", "backward-recv") else -1
        if 0 <= self.template[compute]["gmc"] + toward <= self.vpp * self.pp - 1:
            self.valid[name[0], name[2]].append(name)
        else:
            self.groups.append(([name], False))

    def add_tail(self, stage: int) -> None:
        """Rule 5."""
        chain = [max(self.ordered(stage, "forward-compute", "backward-compute"), key=self.ends)]
        chain += [("gc", 0, stage), (LAYERNORM, 0, stage)]
        if stage in (0, self.pp - 1):
            chain.append((EMBEDDING, 0, stage))
        scatters = sorted(self.ordered(stage, SCATTER), key=lambda name: name[1])
        if self.use_dp and not self.has_separate:
            chain += scatters
        if self.use_dp and self.has_separate:
            chain.append((SEPARATE, 0, stage))
            self.deps[LAYERNORM, 0, stage].add(scatters[-1])
        self.chain([*chain, (CLIP, 0, stage), ("optimizer", 0, stage)])

    def add_groups(self) -> None:
        """Rule 6."""
        for stage in range(self.pp):
            for direction, peer in (("forward", (stage + 1) % self.pp), ("backward", (stage - 1) % self.pp)):
                sends, receives = self.valid[f"{direction}-send", stage], self.valid[f"{direction}-recv", peer]
                self.groups += [([send, receive], False) for send, receive in zip(sends, receives, strict=True)]
            if self.use_dp:
                self.groups += [([name], True) for name in self.ordered(stage, GATHER, SCATTER, SEPARATE)]
        self.groups.append(([(EMBEDDING, 0, stage) for stage in sorted({0, self.pp - 1})], False))
        self.groups.append(([(CLIP, 0, stage) for stage in range(self.pp)], True))

    # -- what everything takes -----------------------------------------------------------------------------------------

    def together(self, key: Key) -> list[Key]:
        """Return those for whom an operation waits to end."""
        step, dp, name = key
        names, on_all = self.members[name]
        return [(step, other, member) for other in (self.dps if on_all else [dp]) for member in names]

    def real_values(self) -> dict[Key, float]:
        """Return the transfer of what has a group, the duration of all else."""
        values = {}
        for key in self.rows:
            values[key] = self.rows[key]["duration"]
            if key[2] in self.members:
                transfer = self.end[key] - max(self.start[other] for other in self.together(key))
                values[key] = 0.0 if transfer <= -0.010 else transfer
        return values

    def ideal_values(self, real: dict[Key, float]) -> dict[Key, float]:
        """Return the mean of work and the median of communication, type by type."""
        ideal = {}
        for kind in {key[2][0] for key in real}:
            usual = fmean if kind in COMPUTE else median
            keys = [key for key in real if key[2][0] == kind]
            grouped = [real[key] for key in keys if key[2] in self.members]
            alone = usual([self.rows[key]["duration"] for key in keys])
            ideal |= {key: usual(grouped) if key[2] in self.members else alone for key in keys}
        return ideal

    def replay(self, values: dict[Key, float]) -> tuple[dict[Key, float], dict[Key, float]]:
        """Return starts and ends without launch delays."""
        starts: dict[Key, float] = {}
        ends: dict[Key, float] = {}
        first = {step: min(self.start[key] for key in self.rows if key[0] == step) for step in self.steps}
        pending = list(self.rows)
        while pending:
            before = len(starts) + len(ends)
            for key in pending:
                step, dp, name = key
                waits = [(step, dp, other) for other in self.deps[name]]
                if key not in starts and all(other in ends for other in waits):
                    starts[key] = max((ends[other] for other in waits), default=first[step])
                if key in starts and name not in self.members:
                    ends[key] = starts[key] + values[key]
                elif key in starts and all(other in starts for other in self.together(key)):
                    ends[key] = max(starts[other] for other in self.together(key)) + values[key]
            pending = [key for key in pending if key not in ends]
            if len(starts) + len(ends) == before:
                raise ValueError("everybody waits")
        return starts, ends

    def lengths(self, values: dict[Key, float]) -> tuple[float, float]:
        """Return the mean step: whole, and from its first start to the end of the optimizer."""
        starts, ends = self.replay(values)
        return self.whole(starts, ends), fmean(
            max(ends[key] for key in ends if key[0] == step and key[2][0] == "optimizer")
            - min(self.start[key] for key in self.start if key[0] == step)
            for step in self.steps
        )

    def whole(self, starts: dict[Key, float], ends: dict[Key, float]) -> float:
        """Return the mean step from its first start to its last end."""
        return fmean(
            max(ends[key] for key in ends if key[0] == step) - min(starts[key] for key in starts if key[0] == step)
            for step in self.steps
        )


def reference_answers(frame: pd.DataFrame, dsp: int) -> dict[str, Any]:
    """Answer as the oracle does."""
    job = ReferenceJob(frame, dsp)
    real = job.real_values()
    ideal = job.ideal_values(real)
    measured, no_delay = job.whole(job.start, job.end), job.lengths(real)[0]
    step_ideal, to_optimizer = job.lengths(ideal)
    slowdown = no_delay / to_optimizer

    def slowdowns(label: Any) -> dict[str, float] | None:
        if slowdown < 1.03:
            return None
        labels = {label(key) for key in real}
        only = {at: {key: (real if label(key) == at else ideal)[key] for key in real} for at in labels}
        return {str(at): job.lengths(values)[1] / to_optimizer for at, values in only.items()}

    def share(chosen: Any) -> dict[str, float] | None:
        lost = no_delay - step_ideal
        if abs(lost) < 1e-9 * no_delay:
            return None
        removed = job.lengths({key: (ideal if chosen(key) else real)[key] for key in real})[0]
        added = job.lengths({key: (real if chosen(key) else ideal)[key] for key in real})[0]
        return {"removed": (no_delay - removed) / lost, "added": (added - step_ideal) / lost}

    by_type = slowdowns(lambda key: key[2][0].replace("-send", "-pp-comm").replace("-recv", "-pp-comm"))
    by_stage, by_dp = slowdowns(lambda key: key[2][2]), slowdowns(lambda key: key[1])
    worst = None
    if by_stage and by_dp:
        place = {row["rank"]: (str(row["dp_rank"]), str(row["stage"])) for row in job.rows.values()}
        score = {rank: min(by_dp[dp], by_stage[stage]) for rank, (dp, stage) in place.items()}
        count = -(-3 * len(score) // 100)
        chosen = sorted(score, key=lambda rank: (-score[rank], rank))[:count]
        worst = share(lambda key: job.rows[key]["rank"] in chosen)
    return {
        "step_measured": measured,
        "step_no_delay": no_delay,
        "step_ideal": step_ideal,
        "launch_slowdown": measured / no_delay,
        "S": slowdown,
        "S_by_type": by_type,
        "S_by_stage": by_stage,
        "S_by_dp": by_dp,
        "M_W": worst,
        "M_S": share(lambda key: key[2][2] == job.pp - 1),
    }
