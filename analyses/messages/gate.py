"""Sentences of gate: the verdict, what keeps runs from being compared, and what changed."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from analyses.display.sentence_format import counted
from analyses.display.text_layout import duration_text
from analyses.messages.diff import LENGTH
from hta_graph.base.text.sanitize import one_line

RANKS_LISTED = 8
METRICS = {
    "iteration": "iteration time",
    "critical-path": "latency",
    "exposed-communication": "exposed communication",
    "gpu-busy": "GPU busy time",
    "gpu-idle": "GPU idle time",
    "memory": "peak memory",
}
"""What is compared, as sentences name it."""
WORSE = {"memory": "more", "iteration": "slower", "critical-path": "slower"}
"""How sentences say that a metric became larger; of others ``longer``."""


def listed(ranks: Collection[int]) -> str:
    """List ranks.

    >>> listed({2, 0}), listed(range(20))
    ('0, 2', '0, 1, 2, 3, 4, 5, 6, 7 and 12 more')
    """
    first = ", ".join(map(str, sorted(ranks)[:RANKS_LISTED]))
    return first if len(ranks) <= RANKS_LISTED else f"{first} and {len(ranks) - RANKS_LISTED} more"


def too_few_pairs(pairs: int) -> tuple[str, str]:
    """Refuse runs that have too few steps in common, with the remedy.

    >>> too_few_pairs(1)[0]
    'only 1 pair of steps can be compared, at least 2 are needed'
    """
    return (
        f"only {counted(pairs, 'pair')} of steps can be compared, at least 2 are needed",
        "compare all steps of recordings of at least three steps",
    )


def obstacle(why: str, before: str, after: str) -> tuple[str, str]:
    """Say what keeps two runs from being compared, with the remedy.

    >>> obstacle("gpu", "A100", "H100")[0]
    'another GPU: A100 before, H100 after'
    """
    words = {
        "gpu": f"another GPU: {before} before, {after} after",
        "world_size": f"another world size: {before} before, {after} after",
        "ranks": f"partial input: ranks {before} before, ranks {after} after",
        "model": f"another model: only {before} of the operators' time is common, at least {after} is needed",
        "pytorch": f"another version of PyTorch: {before} before, {after} after",
    }
    remedies = {
        "ranks": "give the same ranks of both runs",
        "model": "record a new baseline with gate --update",
    }
    return words[why], remedies.get(why, "record both runs in the same environment")


def not_recorded(metric: str) -> tuple[str, str]:
    """Refuse a metric that a recording does not show, with the remedy.

    >>> not_recorded("memory")
    ('peak memory is not recorded in every step', 'record with profile_memory=True')
    """
    remedy = "record with profile_memory=True" if metric == "memory" else "record with ProfilerActivity.CUDA"
    return f"{METRICS[metric]} is not recorded in every step", remedy


def bad_baseline(version: str, known: str, why: str) -> tuple[str, str]:
    """Refuse a baseline file of another version, or a damaged one, with the remedy.

    >>> bad_baseline("2", "hta-graph/baseline/1", "")[0]
    'a baseline of version 2; this hta-graph reads hta-graph/baseline/1'
    """
    if version not in ("", known.rpartition("/")[2]):
        return f"a baseline of version {version}; this hta-graph reads {known}", "write it anew with gate --update"
    return f"a damaged baseline ({why})", "write it anew with gate --update"


TITLE = "Performance gate"
TITLES = {"pass": "pass", "regression": "regression", "cannot_compare": "cannot compare"}
CAUSE = "cause: "
INDENT = "  "
BASIS = {
    "medians": "median",
    "pairs": "median, compared in pairs",
    "ranks": "median, compared by ranks",
    "means": "mean",
}


def amount(value: float, unit: str) -> str:
    """Print a value in its unit.

    >>> amount(1_500_000, "ns"), amount(3 << 20, "bytes")
    ('1.500 ms', '3.0 MiB')
    """
    return duration_text(round(value)) if unit == "ns" else f"{value / (1 << 20):,.1f} MiB"


def signed_amount(value: float, unit: str) -> str:
    """Print a difference with its sign."""
    return f"{'+' if value >= 0 else '-'}{amount(abs(value), unit)}"


def share(value: float | None, *, sign: bool = False) -> str:
    """Print a share; an unknown one is larger than any.

    >>> share(0.031), share(37.6, sign=True), share(None)
    ('3.1%', '+3,760.0%', 'unknown')
    """
    return "unknown" if value is None else f"{value:{'+' if sign else ''},.1%}"


def verdict_line(found: Mapping[str, Any]) -> str:
    """State the verdict with its numbers."""
    if found["reason"]:
        return f"{TITLES[found['verdict']]}: {found['reason']['text']}"
    what, size = compared(found), found["difference_share"]
    worse = WORSE.get(found["metric"], "longer") if size > 0 else "less" if found["metric"] == "memory" else "shorter"
    if found["verdict"] == "regression":
        above = f"above the limit of {share(found['limit_share'])} and the noise of {share(found['noise_share'])}"
        return f"regression: {what} {share(size)} {worse}{_which(found)}, {above}"
    is_clear = found["noise"] is not None and abs(found["difference"]) > found["noise"]
    is_small = size <= found["limit_share"]
    below = "below the limit" if is_small else "in too few steps to judge"
    within = below if is_clear and size > 0 else "beyond the noise" if is_clear else "within the noise"
    noise = f"limit {share(found['limit_share'])}, noise ±{share(found['noise_share'])}"
    return f"pass: {what} {share(size, sign=True)}{_which(found)}, {within} ({noise})"


def compared(found: Mapping[str, Any]) -> str:
    """Name what is compared: iterations, or what stands for them where there are none."""
    return LENGTH[found["measure"]] if found["metric"] == "iteration" else METRICS[found["metric"]]


def _which(found: Mapping[str, Any]) -> str:
    """Name the steps or the phase that are slower, where not all are."""
    phase = f" in phase {one_line(found['phase'])}" if found["phase"] else ""
    if found["first_step"] is None:
        return phase
    last = found["last_step"]
    return (
        f"{phase} since step {found['first_step']}"
        if last is None
        else f"{phase} in steps {found['first_step']} to {last}"
    )


def lengths_line(found: Mapping[str, Any]) -> str:
    """Print both values, and how many steps and recordings they come from."""
    unit, sides = found["unit"], (found["baseline"], found["new"])
    counts = " and ".join(f"{side['steps']:,}" for side in sides)
    return (
        f"{BASIS[found['compared_by']]} {amount(found['baseline_value'], unit)} → {amount(found['new_value'], unit)} "
        f"({signed_amount(found['difference'], unit)}) over {counts} steps"
    )


def detectable_line(found: Mapping[str, Any]) -> str:
    """State the smallest slowdown that would have been called a regression."""
    return f"A change of {share(found['detectable_share'], sign=True)} or more would have been a regression."


def cause_line(at: int, cause: Mapping[str, Any], label: str, name: str) -> str:
    """Print a cause: its place, name, class and rank, and by how much it changed."""
    where = "" if cause["rank"] is None else f" on rank {cause['rank']}"
    doubt = "" if cause["beyond_noise"] else ", within its noise"
    part = f"{cause['share_of_difference']:.0%} of the change"
    return f"{at}. {one_line(name)} ({label}){where}: {signed_amount(cause['diff_ns'], 'ns')}, {part}{doubt}"


def phase_line(phase: Mapping[str, Any], unit: str) -> str:
    """Print how a phase, or a kind of steps, changed."""
    both = f"{amount(phase['baseline_value'], unit)} → {amount(phase['new_value'], unit)}"
    counts = f"{phase['baseline_steps']:,} and {phase['new_steps']:,} steps"
    name = one_line(phase["phase"] or "others")
    change = f"{share(phase['difference_share'], sign=True)}; noise ±{share(phase['noise_share'])}"
    return f"{name}: {both} ({change}; {counts})"


def work_line(kind: str, listed: Sequence[tuple[str, int, str]], hidden: int) -> str:
    """List the kernels or collectives that are new, gone or at another place.

    >>> work_line("kernel", [("new", 2, "gemm")], 1)
    'kernels: 2 new (gemm); 1 more with --json'
    """
    said = [f"{times:,} {change} ({one_line(name)})" for change, times, name in listed]
    return f"{kind}s: {'; '.join([*said, *([f'{hidden:,} more with --json'] if hidden else [])])}"


def environment_line(facts: Sequence[tuple[str, str, str]]) -> str:
    """List what differs in the environment."""
    return "also different: " + "; ".join(f"{what} {was} → {now}" for what, was, now in facts)


def steps_without_counterpart(count: int) -> str:
    """Warn that steps of a kind that only the new run has are not judged."""
    have = "has" if count == 1 else "have"
    return f"{counted(count, 'new step')} {have} no counterpart in the baseline and cannot fail the gate."


def pooled(recordings: tuple[int, int]) -> str:
    """State that recordings were pooled."""
    both = f"{counted(recordings[0], 'recording')} of the baseline and {recordings[1]:,} new"
    return f"Compared: {both}, with the noise between them."


TOO_SHORT_A_LEVEL = (
    "The level changes shortly before the end of a run, and too few steps are left to judge it; record more."
)
"""A level of few steps does not fail the gate."""


def is_visibly_more(detectable: float, limit: float) -> bool:
    """Return whether a share is more than a limit as both are printed.

    >>> is_visibly_more(0.0104, 0.01), is_visibly_more(0.011, 0.01)
    (False, True)
    """
    return detectable > limit and share(detectable) != share(limit)


def hidden(detectable: float, limit: float) -> str:
    """Warn that noise hides a change of the limit."""
    remedy = f"record more steps, or record the run more than once, to see less than {share(detectable)}"
    return f"Noise hides a change of {share(limit)}; {remedy}."


def ranks_not_given(given: int, size: int) -> str:
    """State that not all ranks of a job are compared."""
    return f"{given:,} of {size:,} ranks were recorded and are compared."


def as_text(text: str) -> str:
    r"""Return a sentence in which Markdown, HTML and mentions have no effect.

    >>> as_text("a <b> *c* @d")
    'a &lt;b&gt; \\*c\\* @\u200bd'
    """
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "@\u200b")
    return re.sub(r"([\\`*_\[\]|#!~])", r"\\\1", escaped)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table of Markdown."""
    listed = [headings, ["---"] * len(headings), *rows]
    return ["| " + " | ".join(row) + " |" for row in listed]


def length_cells(found: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of the compared value."""
    unit = found["unit"]
    return (
        compared(found),
        amount(found["baseline_value"], unit),
        amount(found["new_value"], unit),
        f"**{share(found['difference_share'], sign=True)}**",
        f"±{share(found['noise_share'])}",
        share(found["limit_share"]),
    )


def cause_cells(cause: Mapping[str, Any], label: str, name: str) -> tuple[str, ...]:
    """Return the cells of a cause."""
    return (
        name,
        label,
        "" if cause["rank"] is None else str(cause["rank"]),
        amount(cause["baseline_ns"], "ns"),
        amount(cause["new_ns"], "ns"),
        signed_amount(cause["diff_ns"], "ns"),
    )


def phase_cells(phase: Mapping[str, Any], unit: str, name: str) -> tuple[str, ...]:
    """Return the cells of a phase."""
    return (
        name,
        amount(phase["baseline_value"], unit),
        amount(phase["new_value"], unit),
        share(phase["difference_share"], sign=True),
        f"±{share(phase['noise_share'])}",
    )


def written(target: str, recordings: int, steps: Sequence[int]) -> str:
    """State what a baseline was made of.

    >>> written("base.json", 2, [10, 12])
    'base.json: a baseline of 2 recordings with 10 and 12 steps'
    """
    counts = " and ".join(filter(None, [", ".join(f"{one:,}" for one in steps[:-1]), f"{steps[-1]:,}"]))
    return f"{target}: a baseline of {counted(recordings, 'recording')} with {counts} step{'s' * (list(steps) != [1])}"
