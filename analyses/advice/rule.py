"""A rule of the verdict or of advice is one record: its name, when it fires, what it says, what it saves at most.

Where ``fires`` sees something, it returns numbers and names. The templates make sentences of them
(:mod:`analyses.display.sentence_format`), and compute nothing. Several rules share changes that stand for their
remedies, and how to record what a trace lacks, in the words of the profiler that recorded it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from analyses.advice.facts import HOST_CLASSES, PathFacts
from analyses.display.sentence_format import as_sentence, filled
from hta_graph.base.arrays import take_or
from hta_graph.model import RETURNS, Bools, Floats, Ids
from hta_graph.paths.intervals import union
from hta_graph.what_if.changes import Change
from hta_graph.what_if.modified_window import ModifiedWindow
from hta_graph.what_if.replay_graph import ReplayGraph
from hta_graph.what_if.scenarios import scenario, start_up_shares

Confidence = Literal["high", "medium", "low"]
"""High: the trace records it. Medium: it rests on inference, or on time that a recording itself lengthens or that may
include waiting for others. Low: another reading of the same trace is as likely."""

Kind = Literal["verdict", "rank", "host", "wait", "communication", "gpu", "recording"]
"""What a rule is about. Of ``host`` and ``wait`` (of the host for the GPU) the remedy is less time of the host;
``communication`` may include waiting for other ranks; ``recording``: how to record, in the words of the profiler."""

Evidence = Mapping[str, Any]
Bound = Callable[[PathFacts, Evidence], int]
Remedy = Callable[[PathFacts, Evidence], Change]

NOTHING_MORE: Evidence = MappingProxyType({})


class Fired(NamedTuple):
    """What a rule sees: its evidence as JSON has it (times in ns), and what its sentences say besides."""

    evidence: Evidence
    confidence: Confidence = "high"
    saves_at_most_ns: int | None = None
    said: Evidence = NOTHING_MORE


Fires = Callable[[PathFacts], Fired | None]


@dataclass(frozen=True)
class PathFinding:
    """What a rule finds: sentences for people, and its evidence as JSON has it (times in ns).

    Of a verdict ``text`` is the sentence and ``detail`` is what follows it; of advice ``action`` is what to do, in one
    imperative line without a period, ``change`` names that as a thing, and ``text`` is why. ``saves_at_most_ns`` is
    ``None`` where nothing is to be saved: of the verdict, and of how to record. ``saves_ns`` is what replay predicts;
    ``None`` where no change of the graph stands for the remedy, or without replay; ``takes_longer`` may name an item
    that takes a rank longer than the others, and its class. ``bound_ns`` is what the rows of the priced window allow;
    ``is_cut``: replay promises more, and ``saves_ns`` is that bound. ``doubt`` says why replay is not sure, or unknown.
    """

    text: str
    evidence: Evidence
    confidence: Confidence = "high"
    saves_at_most_ns: int | None = None
    rule: str = ""
    saves_ns: int | None = None
    takes_longer: tuple[str | None, str] | None = None
    action: str = ""
    change: str = ""
    detail: str = ""
    bound_ns: int | None = None
    is_cut: bool = False
    doubt: str | None = None

    @property
    def saving(self) -> tuple[int, bool]:
        """What following it saves (ns; 0: nothing), and whether that is "at most"."""
        if self.saves_ns is None:
            return self.saves_at_most_ns or 0, True
        return self.saves_ns, self.is_cut

    @property
    def sure(self) -> str:
        """How sure what it saves is."""
        is_unknown = self.saves_ns is None and bool(self.saves_at_most_ns)
        return "savings unknown" if is_unknown else f"{self.confidence} confidence"

    @property
    def sentences(self) -> str:
        """All that the finding says: a single sentence as it is, several as sentences."""
        parts = [part for part in (self.action, self.text, self.detail) if part]
        return " ".join(map(as_sentence, parts)) if len(parts) > 1 else self.text

    def as_record(self) -> dict[str, Any]:
        """Return the finding as JSON lists it."""
        return {
            "rule": self.rule,
            "text": self.sentences,
            "evidence": dict(self.evidence),
            "saves_at_most_ns": self.saves_at_most_ns,
            "saves_ns": self.saves_ns,
            "bound_ns": self.bound_ns,
            "confidence": self.confidence,
        }


@dataclass(frozen=True)
class Rule:
    """A rule, and all that is known of it.

    ``fires`` looks at a path, and returns None where it is not sure. ``action``, ``why`` and ``detail`` are templates
    of the finding's texts; the verdict has no ``action``. ``change`` names what is changed then, where a saving is
    named by it. ``bound`` is what the rows of the priced window allow it to
    save at most; ``remedy`` is the change that stands for following it, if one does. With ``ends_with_its_time`` the
    remedy saves no more than ``evidence["time_ns"]``: what else replay finds is not what is named.
    """

    name: str
    kind: Kind
    fires: Fires
    why: str
    action: str = ""
    detail: str = ""
    change: str = ""
    bound: Bound | None = None
    remedy: Remedy | None = None
    ends_with_its_time: bool = field(default=False, kw_only=True)

    def __call__(self, facts: PathFacts) -> PathFinding | None:
        """Look at a path; ``None`` without a finding that is sure."""
        fired = self.fires(facts)
        return None if fired is None else self.finding(facts, fired)

    def finding(self, facts: PathFacts, fired: Fired) -> PathFinding:
        """Put what was seen into words."""
        values = {**fired.said, **fired.evidence}
        texts = (self.why, self.action, self.detail, self.change)
        why, action, detail, change = (filled(text, values, facts.length_ns) for text in texts)
        if self.kind == "recording" and "recorder" in facts.graph.trace.settings:
            why, action = in_words_of_nsight(why), in_words_of_nsight(action)
        return PathFinding(
            why,
            fired.evidence,
            fired.confidence,
            fired.saves_at_most_ns,
            self.name,
            action=action,
            detail=detail,
            change=change,
        )


def with_factor(chosen: Callable[[ReplayGraph], Bools], factor: float = 0.0) -> Change:
    """Let some parts of time take another time."""

    def change(draft: ModifiedWindow) -> None:
        draft.factor[chosen(draft.base) & draft.base.may_change] *= factor

    return change


def with_own_factors(factor: Floats) -> Change:
    """Multiply what each event owns by a factor of its own."""

    def change(draft: ModifiedWindow) -> None:
        may_change = draft.base.may_change
        draft.factor[may_change] *= take_or(factor, draft.base.parts.owner[may_change], otherwise=1.0)

    return change


def without_waits(facts: PathFacts, chosen: Callable[[Ids], Bools]) -> Change:
    """Let some calls return without waiting for GPU work."""

    def change(draft: ModifiedWindow) -> None:
        rows = draft.base.edges.row
        at = np.flatnonzero(np.isin(take_or(facts.graph.edge_table.kind, rows), RETURNS))
        calls = facts.graph.edges_at(rows[at]).target
        draft.dropped[at[chosen(calls)]] = True

    return change


def named_scenario(name: str) -> Remedy:
    """Return a change that has a name of its own."""
    return lambda _, __: scenario(name)


def shorter_during(facts: PathFacts, rows: Bools, share: float, *, keeps_start_up: bool = False) -> Change:
    """Let the host's work be shorter by a share of its time in which any of some events is open."""
    events = facts.graph.event_table

    def change(draft: ModifiedWindow) -> None:
        parts, open_ = draft.base.parts, union(events.start[rows], events.end[rows])
        beside = open_.covered_until(parts.start + parts.length) - open_.covered_until(parts.start)
        on_host = draft.base.may_change & np.isin(parts.bound, HOST_CLASSES)
        if keeps_start_up:
            on_host &= 2 * start_up_shares(draft.base) <= 1
        draft.factor[on_host] *= 1 - share * (beside / np.maximum(parts.length, 1))[on_host]

    return change


RECORD_FEWER_STEPS = "Record again: fewer steps, after a warm-up step of the profiler (schedule(warmup=1, active=…))"
HOW_TO_RECORD: Mapping[str, str] = {
    "before_recording": "Start the profilers of all ranks before the same step",
    "missing_graph_node": "Record again, for fewer steps: the profiler dropped nodes of CUDA graphs",
    "wait_without_record": "Record with with_stack=True to see which code waits",
    "other_rank": "Record all ranks and analyze them together",
    "clock_fault": "Record again: timestamps contradict each other",
    "not_recorded": RECORD_FEWER_STEPS,
    "stream_held": "Annotate the host function, or the code that writes the memory: only the call is recorded",
    "unknown": "Record with with_stack=True and enable_cuda_sync_events=True (torch._C._profiler._ExperimentalConfig)",
}
"""By reason for being unexplained what the next trace should hold."""

STACKS = "nsys profile --trace=cuda,nvtx,osrt --sample=process-tree"
IN_NSIGHT: Mapping[str, str] = {
    "with_stack=True and enable_cuda_sync_events=True (torch._C._profiler._ExperimentalConfig)": STACKS,
    "with_stack=True": STACKS,
    "enable_cuda_sync_events=True (torch._C._profiler._ExperimentalConfig)": "nsys profile --cuda-event-trace=true",
    "ProfilerActivity.CUDA and without hardware counters": "nsys profile --trace=cuda,nvtx",
    "pass schedule(wait=…, warmup=…) to the profiler and call prof.step()": "nsys profile "
    "--capture-range=cudaProfilerApi, and torch.cuda.profiler.start() in the program",
    "has no Python stacks": "has no samples, OS runtime calls or Python stacks",
}
"""How to record with PyTorch's profiler → with Nsight Systems, as parts of sentences."""


def in_words_of_nsight(text: str) -> str:
    """Say how to record with Nsight Systems what is said of PyTorch's profiler."""
    for torch, nsight in IN_NSIGHT.items():
        text = text.replace(torch, nsight)
    return text


def how_to_record(reason: str, *, with_nsight: bool) -> str:
    """Say what the next trace should hold, by the reason why something is unexplained."""
    return in_words_of_nsight(HOW_TO_RECORD[reason]) if with_nsight else HOW_TO_RECORD[reason]
