"""The first sentence of what-if: what a change saves, or which change would save most."""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import median

from analyses.advice.facts import PathFacts
from analyses.advice.recording_rules import mostly_start_up_ns, start_up_recorded
from analyses.advice.rules import RULES
from analyses.display.phrases import untrusted
from analyses.display.sentence_format import brief_duration
from analyses.display.text_layout import duration_text, percent
from analyses.questions.what_if.answer import WhatIf
from analyses.source.window_facts import WindowFacts, short_labels
from analyses.source.window_report import measured_subject
from hta_graph.base.text.shorten import short_name, shorten_middle
from hta_graph.model import BoundBy
from hta_graph.paths.critical_path import critical_path
from hta_graph.paths.windows import resolved_window
from hta_graph.what_if.opportunities import Opportunity, without_duplicates
from hta_graph.what_if.predict import JobPrediction
from hta_graph.what_if.replay import Replayed

MAY_BE_WAITING = " (may include waiting for other ranks)"
LONGEST_NAME = 60
LEAST_NAMED_SHARE = 0.05
IS_A_BOUND = "like_median"
"""A scenario that no change achieves: it bounds what noise costs (docs/evidence.md)."""
OF_RANK = re.compile(r"rank (\d+): (.*)", re.DOTALL)


def what_if_headline(found: WhatIf) -> list[str]:
    """Say what changes gain, or which would gain most."""
    replayed = found.replayed
    if not found.asked:
        return _largest_savings(found)
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


SMALL_SHARE = 0.05
"""A saving below this share of a window leads no answer whose replay cannot be trusted."""


@dataclass(frozen=True)
class Leading:
    """What saves most of a group: how much (ns), the group, the sentence, and whether that may be mere waiting."""

    ns: int
    group: str
    said: str
    may_be_waiting: bool


def _largest_savings(found: WhatIf) -> list[str]:
    """Name what saves most of all, an item at twice its speed or a scenario, then what saves most of the other kind.

    Communication of a single rank may be waiting for others: that is said, and what saves most without it comes next.
    """
    trusted = found.reliability
    if trusted.missing is not None:
        return [_unknown_savings(_subject(found), trusted.missing, trusted.share)]
    ranked = sorted((*_best_opportunity(found), *_best_scenario(found)), key=lambda one: -one.ns)
    if not ranked:
        return [
            (
                f"{_window_name(found)}: speeding up any part of its path would not shorten it "
                f"({brief_duration(found.replayed.measured_ns)})"
            )
        ]
    first, *rest = ranked
    if trusted.reason is not None and first.ns < SMALL_SHARE * found.replayed.measured_ns:
        # What replay leaves fixed may hide a larger saving than the small one that is left.
        unknown = _unknown_savings(_subject(found), trusted.reason, trusted.share)
        return [unknown, *(_also(one.group, one.said) for one in ranked)]
    sure = (*_best_opportunity(found, sure=True), *_best_scenario(found, sure=True)) if first.may_be_waiting else ()
    without = sorted((one for one in sure if one.ns), key=lambda one: -one.ns)[:1]
    known = {one.said for one in without}
    facts = _facts_of_rank(found)
    once = start_up_recorded(facts) if facts else None
    polls = RULES["host_may_poll"](facts) if facts else None
    if once and (start_up_ns := mostly_start_up_ns(once.evidence, found.replayed.measured_ns)):
        window, length_ns = _subject(found), found.replayed.measured_ns
        said = _saving_and_share(start_up_ns, length_ns, at_most=False)
        return [
            f"{window}: one-time start-up takes {said}; record later to see what else can be saved",
            *(_also(one.group, one.said) for one in ranked),
        ]
    return [
        f"{_leading_name(found, first)}: largest saving: {first.said}",
        *(_also("except communication", _also_trusted(found, first, one)) for one in without),
        *(
            _also(one.group, _also_trusted(found, first, one))
            for one in rest
            if not (one.may_be_waiting or one.said in known)
        ),
        *([polls.text] if polls else []),
    ]


def _also(group: str, said: str) -> str:
    """Say what saves most of the others."""
    return f"Largest saving {group}: {said}."


def _unknown_savings(window: str, reason: str, share: float) -> str:
    """Say that the rows of a window do not show what changes would save: the headline."""
    return f"{window}: savings are unknown, because {untrusted(reason, share)}"


def _facts_of_rank(found: WhatIf) -> PathFacts | None:
    """Return facts about the critical path of a rank's window; None of jobs."""
    if not isinstance(found.replayed, Replayed) or found.graph.is_job:
        return None
    return PathFacts.of(critical_path(found.graph, resolved_window(found.replayed.window)))


def _best_opportunity(found: WhatIf, *, sure: bool = False) -> list[Leading]:
    """Return what would save most at twice its speed: an item, or a class and its largest item.

    ``sure``: of what is not mostly communication that may be waiting.
    """
    measured = found.replayed.measured_ns
    every = [
        one
        for one in without_duplicates(found.opportunities_within_rows)
        if one.saved_half_ns > 0 and not (sure and one.may_be_waiting) and not _is_the_program(one, measured)
    ]
    if not every:
        return []
    most, things = every[0], [one for one in every if one.kind != "class"]
    if most.kind != "class":
        following = _short_next(most.next) if most.next else None
        said = _at_double_speed(_short_selector(most), _saving_of(found, most), following, waits=most.may_be_waiting)
        return [
            Leading(
                most.saved_half_ns,
                "among operators, kernels, modules, frames, collectives and ranks",
                said,
                most.may_be_waiting,
            )
        ]
    alone = (_short_selector(things[0]), _saving(things[0].saved_half_ns, measured)) if things else None
    what = short_labels(found.graph)[most.name]
    what = f"{what} (mostly Gloo collectives)" if most.may_be_waiting and most.name == BoundBy.CPU_GAP.label else what
    said = _class_at_double_speed(what, _saving_of(found, most), alone, waits=most.may_be_waiting)
    return [Leading(most.saved_half_ns, "among classes", said, most.may_be_waiting)]


def _at_double_speed(what: str, saved: str, next_one: str | None, *, waits: bool) -> str:
    """Say what an item saves; ``waits``: it may be waiting."""
    behind = f"; next bottleneck: {next_one}" if next_one else ""
    return f"{what} at 2x speed, {saved}{MAY_BE_WAITING * waits}{behind}"


def _class_at_double_speed(what: str, saved: str, item: tuple[str, str] | None, *, waits: bool) -> str:
    """Say what a class saves, which none of its items comes near; ``item``: the largest one, and what it saves."""
    single = f"; largest single item: {item[0]}, {item[1]}" if item else ""
    return f"{what} at 2x speed, {saved}{MAY_BE_WAITING * waits}{single}"


def _saving(saved_ns: int, whole_ns: int) -> str:
    """Print a saving with its share of the window."""
    return f"{brief_duration(saved_ns)} ({percent(saved_ns / max(whole_ns, 1))})"


PROGRAM_SHARE = 0.9
"""A frame or module that holds this share of a path is the program: that it can be faster says nothing."""


def _is_the_program(one: Opportunity, measured_ns: int) -> bool:
    return one.kind in ("frame", "module") and one.on_path_ns >= PROGRAM_SHARE * measured_ns


def _saving_of(found: WhatIf, one: Opportunity) -> str:
    """Print what an item saves at twice its speed; as "at most" where rows allow no more."""
    promised = next(other.saved_half_ns for other in found.opportunities if other.what == one.what)
    at_most = promised > one.saved_half_ns
    return _saving_and_share(one.saved_half_ns, found.replayed.measured_ns, at_most=at_most)


def _best_scenario(found: WhatIf, *, sure: bool = False) -> list[Leading]:
    """Return the scenario that saves most, if that is notable."""
    is_alone = any(one.may_be_waiting for one in found.opportunities)
    for change, saved in found.scenarios_within_rows:
        waits = is_alone and change.asked.startswith("communication")
        if change.asked == IS_A_BOUND or (sure and waits):
            continue
        if saved.ns < LEAST_NAMED_SHARE * found.replayed.measured_ns or not saved.ns:
            return []
        of = _saving_and_share(saved.ns, found.replayed.measured_ns, at_most=saved.is_cut)
        return [Leading(saved.ns, "among scenarios", f"--scenario {change.asked}, {of}{MAY_BE_WAITING * waits}", waits)]
    return []


def _saving_and_share(saved_ns: int, whole_ns: int, *, at_most: bool) -> str:
    """Print a saving with its share of the window, and that; ``at_most``: rows allow no more."""
    share = f"({percent(saved_ns / max(whole_ns, 1))} of {brief_duration(whole_ns)})"
    return f"{'at most ' * at_most}{brief_duration(saved_ns)} {share}"


def _leading_name(found: WhatIf, first: Leading) -> str:
    return _window_name(found, moves_communication=first.may_be_waiting)


def _also_trusted(found: WhatIf, first: Leading, one: Leading) -> str:
    """Return what a further saving says, with the reason where it cannot be trusted and the first one can."""
    return _trusted(found, one.said) if first.may_be_waiting and not one.may_be_waiting else one.said


def _window_name(found: WhatIf, *, moves_communication: bool = False) -> str:
    """Name the window, with the reason where its replay cannot be trusted."""
    return _trusted(found, _subject(found), moves_communication=moves_communication)


def _subject(found: WhatIf) -> str:
    """Name the window in front of a colon; of an engine's steps phase, count, batch and median."""
    return measured_subject(WindowFacts.of(found.replayed.window, found.graph))


def _trusted(found: WhatIf, said: str, *, moves_communication: bool = False) -> str:
    trusted = found.reliability.of_communication if moves_communication else found.reliability
    return said if trusted.reason is None else f"{said} (not reliable: {untrusted(trusted.reason, trusted.share)})"


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


def _short_selector(one: Opportunity) -> str:
    return f"{one.kind} {shorten_middle(short_name(one.name), LONGEST_NAME)}"


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
