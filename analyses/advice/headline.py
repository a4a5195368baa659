"""The sentences of the headline: what bounds a window, what is gained without it, what its rows do not show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from analyses.display.phrases import untrusted
from analyses.display.sentence_format import brief_share, on_rank

HOST_WORK = "host time"
HOST_OR_POLLED = "host time, or by GPU work that the host may poll for"
GLOO = "communication (Gloo)"


MOST = 0.5
"""From this share on something is mostly so."""


def bound_by(
    window: str, what: str, share: float, rank: int | None, lengths: Sequence[str], gain: str = "",
    *, has_gpu_rows: bool = True, others: Sequence[tuple[str, float]] = (), is_longest: bool = True,
) -> str:  # fmt: skip
    """Say what bounds a window, and what is gained without it: the headline; first that nothing of a GPU is known.

    ``others`` is what else much of the path is, with shares. Where that is more (not ``is_longest``), the order is by
    what would be saved, which is said.
    """
    is_known = what != "unexplained"
    unexplained = "mostly unexplained" if share >= MOST else "largely unexplained"
    named = f"bound by {what}" if is_longest else f"largest cause: {what}"
    bound = f"{named}{on_rank(rank)}" if is_known else f"{unexplained}{on_rank(rank)}"
    first = _first_words(window, has_gpu_rows=has_gpu_rows)
    shares = "; ".join([f"{brief_share(share)} of the critical path", *(f"{of} {brief_share(n)}" for of, n in others)])
    return f"{first} {bound} ({shares}){gain}; {', '.join(lengths)}"


def polled_for(window: str, busy: float, share: float, gain: str, lengths: Sequence[str]) -> str:
    """Name what bounds a window whose host may poll for a GPU that works for longer than the path is on the host."""
    of_gpu, of_host = f"{brief_share(busy)} of the window", f"{brief_share(share)} of the critical path"
    return (
        f"{window}: bound by GPU work ({of_gpu}) that the host may poll for, or by host time ({of_host}){gain}; "
        f"{', '.join(lengths)}"
    )


def saves_less(what: str, saved: str, *, halved: bool) -> str:
    """Say what the longest class of a path would save, where that is less than what another one saves."""
    condition = "at 2x speed" if halved else "without it"
    return f"{what[:1].upper()}{what[1:]} is longer on the path but saves less: {saved} {condition}."


PLURAL = frozenset({"GPU copies", "kernel gaps"})
"""Names of classes that are plurals."""

START_UP = "one-time start-up"


def bound_by_start_up(window: str, found: Shorter, lengths: Sequence[str], *, has_gpu_rows: bool) -> str:
    """Say what bounds a window most of which happens once: the headline."""
    first, shorter = _first_words(window, has_gpu_rows=has_gpu_rows), _shorter(found, is_little=False)
    return f"{first} bound by {START_UP}; recorded later, {shorter}; {', '.join(lengths)}"


def _first_words(window: str, *, has_gpu_rows: bool) -> str:
    return f"{window}:" if has_gpu_rows else f"{window}: {NO_GPU};"


class Shorter(NamedTuple):
    """What a window would be shorter by: how much, and what the window is; ``at_most``: rows allow no more."""

    saved: str
    whole: str
    at_most: bool
    doubt: str


def pronoun(what: str) -> str:
    """Return the pronoun of what bounds a window.

    >>> pronoun("GPU copies"), pronoun("data loading")
    ('them', 'it')
    """
    return "them" if what in PLURAL else "it"


def gain(found: Shorter, *, halved: bool, is_little: bool, without: str = "it") -> str:
    """Say what is gained without what bounds a window, or at twice its speed, as a part of the headline."""
    condition = "at 2x speed" if halved else f"without {without}"
    return (f", but {condition} " if is_little else f"; {condition}, ") + _shorter(found, is_little=is_little)


def gain_of_another(what: str, found: Shorter, *, halved: bool) -> str:
    """Say what is gained without the largest cause that is known, where most of a window is unexplained."""
    return f"; {f'with {what} at 2x speed' if halved else f'without {what}'}, " + _shorter(found, is_little=False)


def _shorter(found: Shorter, *, is_little: bool) -> str:
    amount = f"{'at most ' if found.at_most else 'only ' if is_little else ''}{found.saved}"
    return f"{found.whole} would be {amount} shorter{found.doubt}"


NO_GPU = "no GPU activity is recorded"


def only_host_time(window: str, shown_by: str) -> str:
    """Say that what was launched left no row on the GPU."""
    return f"{window}: {NO_GPU} for {shown_by}, only host time"


def work_not_recorded(window: str, launches: str, time: str) -> str:
    """Say that launched work left no rows, although other work did, and for how long the GPU may have run it."""
    return f"{window}: {launches}, so what the GPU did is not recorded for {time}"


def nothing_recorded(window: str, time: str) -> str:
    """Say that most of a window has no row."""
    return f"{window}: no operator or call is recorded for {time}"


def not_started(window: str, time: str, rank: int | None = None) -> str:
    """Name what bounds a window where the GPU does not start what it was given."""
    return f"{window}: bound by launched work{on_rank(rank)} that does not start for {time}"


def savings_unknown(what: str, lengths: Sequence[str]) -> str:
    """Say first what a window does not show: the headline.

    >>> savings_unknown(only_host_time("step 2", "3 launch calls"), ["latency 1.07 ms"])
    'step 2: no GPU activity is recorded for 3 launch calls, only host time; savings are unknown; latency 1.07 ms'
    """
    return f"{what}; savings are unknown; {', '.join(lengths)}"


WHAT_IT_WAITS_FOR = (
    "The launch calls of that work have returned and the GPU is idle: it may run another process in turn, or the work "
    "may wait for other ranks; the trace does not show which."
)
"""Behind :func:`not_started`."""


def no_prediction(reason: str, share: float) -> str:
    """Say that replay does not show what would be gained."""
    return f"; savings are unknown, because {untrusted(reason, share)}"


def doubt(fixed_share: float, inferred_share: float, *, waiting: bool, polling: bool) -> str:
    """Doubt a prediction, right behind it: what it may include, or what most of it rests on."""
    parts = [
        *(["may include waiting for other ranks"] if waiting else []),
        *(["uncertain: the host may be polling"] if polling else []),
        *([f"uncertain: {brief_share(fixed_share)} of the path is fixed in replay"] if fixed_share else []),
        *([f"uncertain: {brief_share(inferred_share)} of the path is on inferred edges"] if inferred_share else []),
    ]
    return f" ({'; '.join(parts)})" if parts else ""


NO_SINGLE_CAUSE = "; without any single cause, nothing would be saved"


def known_causes_save_little(least: float, whole: str) -> str:
    """Say of a largely unexplained window that no cause that is known matters."""
    return f"; no known cause would save {brief_share(least)} of {whole}"
