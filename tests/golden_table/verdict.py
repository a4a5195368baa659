"""The judgement on one call: equal, wrong in HTA for reasons that were reproduced, raised by HTA, or unexplained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from hta_graph.base.errors import HtaGraphError
from tests.golden_table.counters_and_host_traces import compared_part
from tests.golden_table.formula_of_call import Case, case_of
from tests.golden_table.golden_files import Golden
from tests.golden_table.golden_form import TOLERANCE, difference, encoded
from tests.golden_table.hta_faults import Fault, Faults
from tests.golden_table.our_answers import asked_of_us
from tests.golden_table.raw_trace import NO_FAULTS, Run

__all__ = ["EQUAL", "NOT_COVERED", "RAISES", "RAISING", "UNEXPLAINED", "Verdict", "judge"]

EQUAL, RAISES, NOT_COVERED, UNEXPLAINED = "=", "!", "-", "?"
FLOAT_SLACK = 0.011
"""HTA's floats may round the second decimal the other way."""


@dataclass(frozen=True)
class Verdict:
    """``code`` is one of the four signs, or the letters of the faults that HTA's answer shows."""

    code: str
    reason: str = ""


@dataclass(frozen=True)
class Raising:
    """An exception of HTA: when it is raised, and how one sees in the rows that this is why."""

    text: str
    meaning: str
    holds: Callable[[Run], bool]


def _gpu(run: Run) -> pd.DataFrame:
    return pd.concat([frame[frame["device"]] for frame in run.seen(frozenset({Fault.ROUNDED})).values()])


def _shapes(run: Run) -> bool:
    """Say whether some launch has no GPU work, or several pieces."""
    frame = next(iter(run.seen().values()))
    calls = frame.loc[frame["name"].str.match(r"cuda.*LaunchKernel|cuLaunchKernel"), "index"]
    counts = frame.loc[frame["device"], "call"].value_counts()
    return any(counts.get(call, 0) != 1 for call in calls)


def _names(run: Run, prefix: str) -> bool:
    return any(frame["name"].str.startswith(prefix).any() for frame in run.ranks.values())


RAISING = (
    Raising("IndexError: single positional indexer", "there is no GPU work", lambda run: not len(_gpu(run))),
    Raising("ValueError: No objects to concatenate", "there is no GPU work", lambda run: not len(_gpu(run))),
    Raising(
        "ValueError: left side of interval",
        "rounding made durations negative",
        lambda run: bool((_gpu(run)["dur"] < 0).any()),
    ),
    Raising("ValueError: Unexpected case", "rounding made durations zero or negative", lambda run: run.is_fractional),
    Raising("ValueError: invalid value for argument: profiler_steps", "there are no steps", lambda run: not run.steps),
    Raising(
        "ValueError: attempt to get argmax of an empty sequence",
        "no kernel's name begins with ncclKernel",
        lambda run: not _names(run, "ncclKernel"),
    ),
    Raising("TypeError: cannot unpack non-iterable float", "there is a single rank", lambda run: len(run.ranks) == 1),
    Raising("ValueError: can only convert an array of size 1", "some launch has no or several kernels", _shapes),
    Raising("Timeout: call took more than 150 s", "it writes the overlay of the whole trace", lambda _: True),
    Raising(
        "AttributeError: 'NoneType' object has no attribute 'values'", "it needs the package et_replay", lambda _: True
    ),
)
NO_RANK_0 = Raising("ValueError: ", "rank 0 is not loaded", lambda run: 0 not in run.ranks)


def judge(golden: Golden) -> Verdict:
    """Compare a call's three answers: HTA's, ours, and the recomputation."""
    try:
        ours = asked_of_us(golden)
    except HtaGraphError as error:
        return Verdict(UNEXPLAINED, f"we raise: {error}")
    case = case_of(golden)
    if case is None:
        return _without_recomputation(golden, ours)
    exact = case.answer(NO_FAULTS)
    if exact is None and golden.method == "correlate_execution_trace":
        return Verdict(NOT_COVERED, "the host trace's ids are not those of the device trace; HTA needs equal ones")
    if text := difference(encoded(exact), ours):
        return Verdict(UNEXPLAINED, f"the recomputation and ours: {text}")
    if golden.error:
        return _raised(golden, case)
    theirs = compared_part(golden)
    if not difference(theirs, ours):
        return Verdict(EQUAL)
    return _explained(case, theirs, golden)


def _without_recomputation(golden: Golden, ours: Any) -> Verdict:
    text = golden.error or difference(compared_part(golden), ours)
    return Verdict(UNEXPLAINED, text) if text else Verdict(EQUAL)


def _raised(golden: Golden, case: Case) -> Verdict:
    known = NO_RANK_0 if golden.error == NO_RANK_0.text else _known(golden.error)
    if known is None or not known.holds(case.subject):
        return Verdict(UNEXPLAINED, golden.error)
    return Verdict(RAISES, f"`{known.text}`: {known.meaning}")


def _known(error: str) -> Raising | None:
    return next((raising for raising in RAISING if error.startswith(raising.text)), None)


def _explained(case: Case, theirs: Any, golden: Golden) -> Verdict:
    """Find the fewest faults with which the recomputation gives HTA's answer."""

    def misfit(faults: Faults) -> str:
        return difference(theirs, encoded(case.answer(faults)), FLOAT_SLACK if Fault.FLOATS in faults else TOLERANCE)

    if text := misfit(case.possible):
        return Verdict(UNEXPLAINED, f"HTA and the recomputation with all faults: {text}")
    needed = case.possible
    for fault in sorted(case.possible, key=lambda fault: fault.letter):
        if not misfit(needed - {fault}):
            needed -= {fault}
    if not needed:
        return Verdict(UNEXPLAINED, f"HTA and ours: {difference(theirs, asked_of_us(golden))}")
    return Verdict("".join(sorted(fault.letter for fault in needed)), golden.method)
