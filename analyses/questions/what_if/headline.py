"""The first sentence of what-if: what a change saves, or which change would save most."""

from __future__ import annotations

import re
from statistics import median

from analyses.advice.facts import PathFacts
from analyses.advice.recording_rules import mostly_start_up_ns
from analyses.advice.rules import RULES
from analyses.display.phrases import untrusted
from analyses.display.sentence_format import as_sentence, brief_duration
from analyses.display.text_layout import duration_text, percent
from analyses.judgement.findings import firsts, is_mostly_start_up
from analyses.judgement.pricing import priced_advice
from analyses.questions.what_if.answer import WhatIf
from analyses.source.window_facts import WindowFacts
from analyses.source.window_report import measured_subject
from hta_graph.base.text.shorten import short_name, shorten_middle
from hta_graph.what_if.predict import JobPrediction
from hta_graph.what_if.replay import Replayed

LONGEST_NAME = 60
IS_A_BOUND = "like_median"
"""A scenario that no change achieves: it bounds what noise costs (docs/evidence.md)."""
OF_RANK = re.compile(r"rank (\d+): (.*)", re.DOTALL)


def what_if_headline(found: WhatIf) -> list[str]:
    """Say what changes gain, or which would gain most."""
    replayed = found.replayed
    if found.judged is not None:
        return _judged(found, found.judged)
    name = _window_name(found)
    if not replayed.saved_ns:
        less = bool(replayed.remarks)
        said = _no_gain(name, replayed.measured_ns, is_unchanged=replayed.is_unchanged, means_less=less)
        return [said, *_of_steps_lines(found), *_latency_lines(found)]
    saving, has_gpu_rows = found.within_rows(None, replayed.saved_ns), bool(found.graph.is_gpu.any())
    return [
        _predicted(
            name, *_lengths(replayed.measured_ns - saving.ns, replayed.measured_ns), *_next_or_largest(found),
            at_least=saving.is_cut,
        ),
        *([_beyond_rows(replayed.predicted_ns, has_gpu_rows=has_gpu_rows)] if saving.is_cut else []),
        *_of_steps_lines(found),
        *_start_lines(replayed),
        *_latency_lines(found),
    ]  # fmt: skip


def _predicted(
    window: str, after: str, before: str, change_text: str, next_one: str | None, largest: str | None, *,
    at_least: bool = False,
) -> str:  # fmt: skip
    """Say how long the window would be, or at least would be, and what limits it then."""
    least = "at least " if at_least else ""
    behind = f"; next bottleneck: {next_one}" if next_one else f"; largest item: {largest}" if largest else ""
    return f"{window}: {least}{after} instead of {before} ({change_text}){behind}"


def _beyond_rows(predicted_ns: int, *, has_gpu_rows: bool = True) -> str:
    """Say what replay predicts where rows allow less, and why the bound does not follow it."""
    predicted = f"Replay predicts {brief_duration(predicted_ns)}, but "
    if not has_gpu_rows:
        return f"{predicted}no row shows what the host does in part of that time; the bound assumes that it stays."
    return f"{predicted}then GPU work overlaps that does not overlap in the trace; the bound assumes that it cannot."


def _no_gain(window: str, length_ns: int, *, is_unchanged: bool, means_less: bool) -> str:
    """Say that the changes save nothing; ``means_less``: they affect less than they may seem to, as a note says."""
    why = "the changes affect nothing on its path" if is_unchanged else "other work is the bottleneck"
    return f"{window}: {brief_duration(length_ns)} as before{'' if means_less else f'; {why}'}"


def _of_steps_lines(found: WhatIf) -> list[str]:
    """Say how long a usual step would be, where all were replayed."""
    predicted = found.of_steps
    if predicted is None:
        return []
    usual = _distinct_durations(predicted.usual_ns, round(median(predicted.measured_ns)))
    after, before = usual
    low, high = _distinct_durations(*predicted.interval_ns)
    again = "about the same" if low == high else f"{low} to {high}"
    return [
        (
            f"Median of {len(predicted.steps)} steps: {after} instead of {before}; in another run {again} (90% "
            "probability)."
        )
    ]


def _start_lines(replayed: Replayed | JobPrediction) -> list[str]:
    """Say why an iteration becomes longer that ends no later."""
    if not isinstance(replayed, Replayed) or replayed.saved_ns >= 0:
        return []
    ends_earlier_ns = replayed.starts_earlier_ns + replayed.saved_ns
    return [_starts_earlier(replayed.starts_earlier_ns, ends_earlier_ns)] if ends_earlier_ns >= 0 else []


def _starts_earlier(starts_ns: int, ends_ns: int) -> str:
    """Explain why an iteration becomes longer although nothing takes longer."""
    ends = f"{brief_duration(ends_ns)} earlier" if ends_ns else "when it did"
    return (
        f"The iterations before end {brief_duration(starts_ns)} earlier, and this one ends {ends}: it starts earlier, "
        "and then waits for work that they used to hide."
    )


def _latency_lines(found: WhatIf) -> list[str]:
    if found.latency is None:
        return []
    after, before, change_text = _lengths(found.latency.predicted_ns, found.latency.measured_ns)
    return [f"Latency: {after} instead of {before} ({change_text})."]


def _lengths(after_ns: int, before_ns: int) -> tuple[str, str, str]:
    """Print a length after changes, the one before, and the change."""
    change = (after_ns - before_ns) / max(before_ns, 1)
    return (*_distinct_durations(after_ns, before_ns), _signed_percent(change))


def _next_or_largest(found: WhatIf) -> tuple[str | None, str | None]:
    """Name what comes onto the path instead; if nothing does, what most of it is."""
    if found.replayed.saved_ns <= 0:
        return None, None
    if found.next:
        return _short_next(found.next), None
    most = [name for name in found.replayed.path_after.by_name()["name"].tolist() if name]
    return None, _short_next(most[0]) if most else None


def _judged(found: WhatIf, facts: PathFacts) -> list[str]:
    """Return the first finding of the judgement on a window, then the first of each other kind."""
    trusted, gained, length_ns = found.reliability, firsts(found.judgement), found.replayed.measured_ns
    if trusted.missing is not None:
        return [_unknown_savings(_subject(found), trusted.missing, trusted.share)]
    once = next((one for one in priced_advice(facts) if is_mostly_start_up(facts, one)), None)
    if once is not None:
        said = _saving_and_share(mostly_start_up_ns(once.evidence, length_ns), length_ns)
        first = f"{_subject(found)}: one-time start-up takes {said}; record later to see what else can be saved"
    elif gained:
        subject = _window_name(found) if found.graph.is_job else _subject(found)
        first = f"{subject}: {gained[0].lead}"
    elif trusted.reason is not None:
        return [_unknown_savings(_subject(found), trusted.reason, trusted.share)]
    else:
        length = brief_duration(length_ns)
        return [f"{_subject(found)}: speeding up any part of its path would not shorten it ({length})"]
    polls = RULES["host_may_poll"](facts)
    rest = gained if once is not None else gained[1:]
    return [first, *(as_sentence(one.lead) for one in rest), *([polls.text] if polls else [])]


def _unknown_savings(window: str, reason: str, share: float) -> str:
    """Say that the rows of a window do not show what changes would save: the headline."""
    return f"{window}: savings are unknown, because {untrusted(reason, share)}"


def _saving_and_share(saved_ns: int, whole_ns: int) -> str:
    """Print a saving with its share of the window, and that."""
    return f"{brief_duration(saved_ns)} ({percent(saved_ns / max(whole_ns, 1))} of {brief_duration(whole_ns)})"


def _window_name(found: WhatIf) -> str:
    """Name the window, with the reason where its replay cannot be trusted."""
    trusted, said = found.reliability, _subject(found)
    return said if trusted.reason is None else f"{said} (not reliable: {untrusted(trusted.reason, trusted.share)})"


def _subject(found: WhatIf) -> str:
    """Name the window in front of a colon; of an engine's steps phase, count, batch and median."""
    return measured_subject(WindowFacts.of(found.replayed.window, found.graph))


def _distinct_durations(after_ns: int, before_ns: int) -> tuple[str, str]:
    """Print two durations in one unit, with enough digits to differ.

    >>> _distinct_durations(34_215_000, 42_676_000), _distinct_durations(972_700, 1_357_700)
    (('34.2 ms', '42.7 ms'), ('0.973 ms', '1.358 ms'))
    """
    after, before = brief_duration(after_ns), brief_duration(before_ns)
    is_plain = after != before and after.split()[1] == before.split()[1]
    return (after, before) if is_plain else (duration_text(after_ns), duration_text(before_ns))


def _signed_percent(share: float) -> str:
    """Print a change.

    >>> _signed_percent(-0.198), _signed_percent(0.5), _signed_percent(-0.00001)
    ('−19.8%', '+50.0%', '−<0.1%')
    """
    return ("−" if share < 0 else "+") + percent(abs(share))


def _short_next(name: str) -> str:
    """Shorten what comes next, and put its rank behind it.

    >>> _short_next("rank 2: nn.Module: Linear_0"), _short_next("aten::mm")
    ('Linear_0 on rank 2', 'aten::mm')
    """
    rank, own = split_rank(name)
    return _on_rank(shorten_middle(short_name(own), LONGEST_NAME), rank)


def _on_rank(name: str, rank: str) -> str:
    """Name what comes next, with its rank if it has one."""
    return f"{name} on rank {rank}" if rank else name


def split_rank(name: str | None) -> tuple[str, str]:
    """Divide what comes next into its rank and its name; what has no rank is one rank's."""
    match = OF_RANK.fullmatch(name or "")
    return (match[1], match[2]) if match else ("", name or "")
