"""What ``what-if`` says: predictions, the largest savings, what they assume."""

from __future__ import annotations

from collections.abc import Sequence

from analyses.display.phrases import untrusted
from analyses.display.sentence_format import as_sentence, brief_duration, counted
from analyses.display.text_layout import clipped, percent
from analyses.messages.window import OTHER_STEP

SCENARIOS = "scenarios"
SCENARIO_COLUMNS: Sequence[str] = ("--scenario", "what changes", "assumption")
PATH_BY_CLASS, PATH_BY_RANK, PATH_BY_HOST = (f"critical path by {what}" for what in ("class", "rank", "host"))
TOTAL = "total"
LARGEST_AFTER = "largest items on the critical path after the changes"
OVERLAP = "% of the window; savings overlap, do not add them"
SAVINGS = f"estimated savings by operator, kernel, module, frame, collective and rank ({OVERLAP})"
CLASS_SAVINGS = f"estimated savings by class ({OVERLAP})"
SAVING_COLUMNS: Sequence[str] = (
    *("on path ms", "2x saves ms", "2x saves %", "removed saves %", "kind", "name"),
    *("next rank", "next bottleneck"),
)
ALL_CAN_CHANGE = "all of the path can change"
NOTHING_CAN_CHANGE = "Nothing on the path can change."
SCENARIO_SAVINGS = f"estimated savings by scenario ({OVERLAP})"
ONLY_A_BOUND = "like_median is no action: it bounds what variation between equal steps costs."
SCENARIO_SAVING_COLUMNS: Sequence[str] = ("saves ms", "saves %", "--scenario", "assumption")
HOW_TO_ASK = (
    "Use --scale KIND:NAME=FACTOR to predict one of them, or --scenario NAME for a scenario (--scenarios lists all)."
)
CURVE_COLUMNS: Sequence[str] = ("factor", "length", "saved", "next rank", "next bottleneck")


# -- changes -----------------------------------------------------------------------------------------------------------


def scaled(what: str, factor: float) -> str:
    """Say that something takes another time."""
    return f"{what} takes {f'{factor:g} times as long' if factor else 'no time'}"


def removed(what: str) -> str:
    """Say that something is gone."""
    return f"{what} is removed, with its launches"


def change(says: str, assumes: str | None) -> str:
    """Say what was changed, and what that assumes."""
    return f"Change: {says}." + (f" Assumption: {assumes}." if assumes else "")


# -- headlines ---------------------------------------------------------------------------------------------------------


def predicted(
    window: str, after: str, before: str, change_text: str, next_one: str | None, largest: str | None, *,
    at_least: bool = False,
) -> str:  # fmt: skip
    """Say how long the window would be, or at least would be, and what limits it then."""
    least = "at least " if at_least else ""
    behind = f"; next bottleneck: {next_one}" if next_one else f"; largest item: {largest}" if largest else ""
    return f"{window}: {least}{after} instead of {before} ({change_text}){behind}"


def beyond_rows(predicted_ns: int, *, has_gpu_rows: bool = True) -> str:
    """Say what replay predicts where rows allow less, and why the bound does not follow it."""
    predicted = f"Replay predicts {brief_duration(predicted_ns)}, but "
    if not has_gpu_rows:
        return f"{predicted}no row shows what the host does in part of that time; the bound assumes that it stays."
    return f"{predicted}then GPU work overlaps that does not overlap in the trace; the bound assumes that it cannot."


def starts_earlier(starts_ns: int, ends_ns: int) -> str:
    """Explain why an iteration becomes longer although nothing takes longer."""
    ends = f"{brief_duration(ends_ns)} earlier" if ends_ns else "when it did"
    return (
        f"The iterations before end {brief_duration(starts_ns)} earlier, and this one ends {ends}: it starts earlier, "
        "and then waits for work that they used to hide."
    )


NEGATIVE_SAVINGS = (
    "A negative saving makes the iterations before shorter by more: this one starts earlier, and then waits for work "
    "that they used to hide."
)


def latency(after: str, before: str, change_text: str) -> str:
    """Say how long the latency of a step would be, next to its iteration."""
    return f"Latency: {after} instead of {before} ({change_text})."


def of_steps(count: int, usual: tuple[str, str], interval: tuple[str, str]) -> str:
    """Say how long a usual step would be instead of how long, and how long one of another run."""
    after, before = usual
    low, high = interval
    again = "about the same" if low == high else f"{low} to {high}"
    return f"Median of {count} steps: {after} instead of {before}; in another run {again} (90% probability)."


def typical_step(label: str, steps: int) -> str:
    """Say why a step was chosen."""
    return f"{label} is predicted closest to the median of {counted(steps, 'step')}; {OTHER_STEP}."


def no_gain(window: str, length_ns: int, *, is_unchanged: bool, means_less: bool) -> str:
    """Say that the changes save nothing; ``means_less``: they affect less than they may seem to, as a note says."""
    why = "the changes affect nothing on its path" if is_unchanged else "other work is the bottleneck"
    return f"{window}: {brief_duration(length_ns)} as before{'' if means_less else f'; {why}'}"


def nothing_to_gain(window: str, length_ns: int) -> str:
    """Say that nothing would shorten the window."""
    return f"{window}: speeding up any part of its path would not shorten it ({brief_duration(length_ns)})"


def headline(window: str, said: str) -> str:
    """Say what saves most of all in a window."""
    return f"{window}: largest saving: {said}"


def also(group: str, said: str) -> str:
    """Say what saves most of the others."""
    return f"Largest saving {group}: {said}."


def start_up(window: str, saved: str) -> str:
    """Say that most of a window happens once: the headline; a later recording does not hold it."""
    return f"{window}: one-time start-up takes {saved}; record later to see what else can be saved"


AMONG_ITEMS = "among operators, kernels, modules, frames, collectives and ranks"
AMONG_OTHERS = "except communication"
AMONG_CLASSES = "among classes"
AMONG_SCENARIOS = "among scenarios"
MAY_BE_WAITING = " (may include waiting for other ranks)"


def unknown_savings(window: str, reason: str, share: float) -> str:
    """Say that the rows of a window do not show what changes would save: the headline."""
    return f"{window}: savings are unknown, because {untrusted(reason, share)}"


def not_reliable(window: str, reason: str, share: float) -> str:
    """Name a window whose replay cannot be trusted."""
    return f"{window} (not reliable: {untrusted(reason, share)})"


def at_double_speed(what: str, saved: str, next_one: str | None, *, waits: bool) -> str:
    """Say what an item saves; ``waits``: it may be waiting."""
    behind = f"; next bottleneck: {next_one}" if next_one else ""
    return f"{what} at 2x speed, {saved}{MAY_BE_WAITING * waits}{behind}"


def class_at_double_speed(what: str, saved: str, item: tuple[str, str] | None, *, waits: bool) -> str:
    """Say what a class saves, which none of its items comes near; ``item``: the largest one, and what it saves."""
    single = f"; largest single item: {item[0]}, {item[1]}" if item else ""
    return f"{what} at 2x speed, {saved}{MAY_BE_WAITING * waits}{single}"


def mostly_gloo(what: str) -> str:
    """Name time without an operator that passes while Gloo communicates on another thread."""
    return f"{what} (mostly Gloo collectives)"


def by_scenario(name: str, saved: str, *, waits: bool) -> str:
    """Say what a scenario saves."""
    return f"--scenario {name}, {saved}{MAY_BE_WAITING * waits}"


def saving_of(saved_ns: int, whole_ns: int, *, at_most: bool) -> str:
    """Print a saving with its share of the window, and that; ``at_most``: rows allow no more."""
    share = f"({percent(saved_ns / max(whole_ns, 1))} of {brief_duration(whole_ns)})"
    return f"{'at most ' * at_most}{brief_duration(saved_ns)} {share}"


def saving(saved_ns: int, whole_ns: int) -> str:
    """Print a saving with its share of the window."""
    return f"{brief_duration(saved_ns)} ({percent(saved_ns / max(whole_ns, 1))})"


def on_rank(name: str, rank: str) -> str:
    """Name what comes next, with its rank if it has one."""
    return f"{name} on rank {rank}" if rank else name


# -- notes -------------------------------------------------------------------------------------------------------------


def rests(earlier_share: float, fixed_share: float, inferred_share: float, *, is_step: bool) -> str:
    """Say how much of the path rests on what."""
    earlier = "earlier steps' work" if is_step else "work launched before the window"
    parts = {
        f"is {earlier}, which changes do not affect": earlier_share,
        "is fixed in every scenario (unexplained, or communication without a known partner)": fixed_share,
    }
    said = [(percent(share), what) for what, share in parts.items() if share]
    fixed = (
        "; ".join(f"{share}{' of the path' if not at else ''} {what}" for at, (share, what) in enumerate(said))
        or ALL_CAN_CHANGE
    )
    inferred = f"; {percent(inferred_share)} depends on inferred edges" if inferred_share else ""
    return as_sentence(f"{fixed}{inferred}")


def new_silence(time_ns: int) -> str:
    """Warn where time without an operator is what remains."""
    return (
        f"{brief_duration(time_ns)} without an operator becomes part of the path. If the host waits there without a "
        "record, more would be saved; analyze a single step (--step N)."
    )


def more_savings(hidden: int) -> str:
    """Count the rows that are left out."""
    return f"  … and {hidden} more, some of them the same items under other names; --json FILE lists all"


def curve(what: str, size: int) -> str:
    """Title a curve."""
    return f"length by the factor of {clipped(what, size)}; linear between rows"
