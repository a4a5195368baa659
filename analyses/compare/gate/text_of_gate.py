"""The answer of gate as text of 80 columns, and as the Markdown of a pull request's comment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from analyses.compare.diff.differences import manner
from analyses.compare.diff.sides import LENGTH
from analyses.compare.gate.answer_of_gate import share
from analyses.compare.gate.run_profile import METRIC_LABELS
from analyses.display.labels import SHORT_IN_JOBS
from analyses.display.text_layout import clipped, duration_text
from hta_graph.base.text.sanitize import one_line
from hta_graph.base.text.shorten import short_name

WORSE = {"memory": "more", "iteration": "slower", "critical-path": "slower"}
"""How sentences say that a metric became larger; of others ``longer``."""
TITLES = {"pass": "pass", "regression": "regression", "cannot_compare": "cannot compare"}
CAUSE = "cause: "
BASIS = {
    "medians": "median",
    "pairs": "median, compared in pairs",
    "ranks": "median, compared by ranks",
    "means": "mean",
    "hangs": "mean",
    "trend": "first and last step by their trend",
}

CAUSES_PRINTED = 5
WORK_PRINTED = 5
LONGEST_CELL = 90
WIDTH = 80


def text_lines(found: Mapping[str, Any], *, wide: bool = False) -> list[str]:
    """Return the lines of an answer, in 80 columns if not ``wide``."""
    return [part for line in _lines(found) for part in ([line] if wide else _wrapped(line))]


def _wrapped(line: str) -> list[str]:
    return wrap(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield verdict_line(found)
    if found["compared_by"] is None:
        return
    yield _lengths_line(found)
    yield from _late_rank_line(found)
    yield from _detectable_line(found)
    for at, cause in enumerate(found["causes"][:CAUSES_PRINTED] if _is_changed(found) else (), start=1):
        yield ("" if at > 1 else CAUSE) + _cause_line(at, cause, label_of(cause), short_name(cause["name"]))
    for phase in found["phases"]:
        unit = found["unit"]
        both = f"{_amount(phase['baseline_value'], unit)} → {_amount(phase['new_value'], unit)}"
        counts = f"{phase['baseline_steps']:,} and {phase['new_steps']:,} steps"
        name = one_line(phase["phase"] or "others")
        change = f"{share(phase['difference_share'], sign=True)}; noise ±{share(phase['noise_share'])}"
        yield f"{name}: {both} ({change}; {counts})"
    yield from _work_lines(found)
    if found["environment"]:
        yield _environment_line([(one["what"], one["baseline"], one["new"]) for one in found["environment"]])
    yield from found["notes"]


def _lengths_line(found: Mapping[str, Any]) -> str:
    """Print both values, and how many steps and recordings they come from."""
    unit, sides = found["unit"], (found["baseline"], found["new"])
    counts = " and ".join(f"{side['steps']:,}" for side in sides)
    return (
        f"{BASIS[found['compared_by']]} {_amount(found['baseline_value'], unit)} → {_amount(found['new_value'], unit)} "
        f"({_signed_amount(found['difference'], unit)}) over {counts} steps"
    )


def _cause_line(at: int, cause: Mapping[str, Any], label: str, name: str) -> str:
    """Print a cause: its place, name, class and rank, and by how much it changed."""
    where = "" if cause["rank"] is None else f" on rank {cause['rank']}"
    doubt = "" if cause["beyond_noise"] else ", within its noise"
    part = f"{cause['share_of_difference']:.0%} of the change"
    return f"{at}. {one_line(name)} ({label}){where}: {_signed_amount(cause['diff_ns'], 'ns')}, {part}{doubt}"


def _signed_amount(value: float, unit: str) -> str:
    """Print a difference with its sign."""
    return f"{'+' if value >= 0 else '-'}{_amount(abs(value), unit)}"


def _environment_line(facts: Sequence[tuple[str, str, str]]) -> str:
    """List what differs in the environment."""
    return "also different: " + "; ".join(f"{what} {was} → {now}" for what, was, now in facts)


def _detectable_line(found: Mapping[str, Any]) -> Iterator[str]:
    if found["detectable_share"] is not None and not found["reason"]:
        yield f"A change of {share(found['detectable_share'], sign=True)} or more would have been a regression."


def _late_rank_line(found: Mapping[str, Any]) -> list[str]:
    return [found["late_rank"]] if found["late_rank"] else []


def _is_changed(found: Mapping[str, Any]) -> bool:
    """Return whether a difference is large enough to have causes."""
    return bool(found["exceeding"]) or (found["noise"] is not None and abs(found["difference"]) > found["noise"])


def _work_lines(found: Mapping[str, Any]) -> Iterator[str]:
    for kind in ("collective", "kernel"):
        own = [one for one in found["work"] if one["kind"] == kind]
        if own:
            listed = [(one["change"], one["times"], short_name(one["name"])) for one in own[:WORK_PRINTED]]
            yield _work_line(kind, listed, len(own) - len(listed))


def _work_line(kind: str, listed: Sequence[tuple[str, int, str]], hidden: int) -> str:
    """List the kernels or collectives that are new, gone or at another place.

    >>> _work_line("kernel", [("new", 2, "gemm")], 1)
    'kernels: 2 new (gemm); 1 more with --json'
    """
    said = [f"{times:,} {change} ({one_line(name)})" for change, times, name in listed]
    return f"{kind}s: {'; '.join([*said, *([f'{hidden:,} more with --json'] if hidden else [])])}"


def label_of(cause: Mapping[str, Any]) -> str:
    """Return what a screen calls the class of a cause."""
    return SHORT_IN_JOBS.get(cause["bound_by"], cause["bound_by"])


def markdown(found: Mapping[str, Any]) -> str:
    """Return an answer as the Markdown of a comment; nothing that a trace names has an effect there."""
    return "\n".join([*_markdown_lines(found), ""])


def _markdown_lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"### Performance gate: {TITLES[found['verdict']]}"
    yield ""
    if found["reason"]:
        yield f"{_as_text(one_line(found['reason']['text']))}."
    if found["compared_by"] is None:
        return
    if not found["reason"]:
        yield f"{_as_text(verdict_line(found))}"
    yield ""
    yield from _table(("", "baseline", "new", "change", "noise", "limit"), [_length_cells(found)])
    yield ""
    if found["causes"] and _is_changed(found):
        yield f"**{CAUSE.strip(': ').capitalize()}**"
        yield ""
        rows = [
            (
                in_code(cause["name"]),
                label_of(cause),
                "" if cause["rank"] is None else str(cause["rank"]),
                _amount(cause["baseline_ns"], "ns"),
                _amount(cause["new_ns"], "ns"),
                _signed_amount(cause["diff_ns"], "ns"),
            )
            for cause in found["causes"][:CAUSES_PRINTED]
        ]
        yield from _table(("on the critical path", "class", "rank", "baseline", "new", "change"), rows)
        yield ""
    if found["phases"]:
        yield from _table(
            ("phase", "baseline", "new", "change", "noise"),
            [_phase_cells(one, found["unit"], in_code(one["phase"] or "all")) for one in found["phases"]],
        )
        yield ""
    if found["work"]:
        changed = [
            (one["change"], one["kind"], in_code(one["name"]), f"{one['times']:,}")
            for one in found["work"][:WORK_PRINTED]
        ]
        yield from _table(("change", "kind", "name", "times"), changed)
        yield ""
    if found["environment"]:
        yield from _table(
            ("environment", "baseline", "new"), [tuple(map(in_code, one.values())) for one in found["environment"]]
        )
        yield ""
    yield _as_text(" ".join([*_late_rank_line(found), *_detectable_line(found), *found["notes"]]))


def verdict_line(found: Mapping[str, Any]) -> str:
    """State the verdict with its numbers."""
    if found["reason"]:
        return f"{TITLES[found['verdict']]}: {found['reason']['text']}"
    what, size = _compared(found), found["difference_share"]
    worse = WORSE.get(found["metric"], "longer") if size > 0 else "less" if found["metric"] == "memory" else "shorter"
    if found["verdict"] == "regression":
        above = f"above the limit of {share(found['limit_share'])} and the noise of {share(found['noise_share'])}"
        return f"regression: {what} {share(size)} {worse}{_which(found)}, {above}"
    is_clear = found["noise"] is not None and abs(found["difference"]) > found["noise"]
    within = "below the limit" if is_clear and size > 0 else "beyond the noise" if is_clear else "within the noise"
    noise = f"limit {share(found['limit_share'])}, noise ±{share(found['noise_share'])}"
    return f"pass: {what} {share(size, sign=True)}{_which(found)}, {within} ({noise})"


def _which(found: Mapping[str, Any]) -> str:
    """Name the steps or the phase that are slower, where not all are, and what makes them slower on average."""
    phase = f" in phase {one_line(found['phase'])}" if found["phase"] else ""
    first, hangs = found["first_step"], found["hangs"]
    events = (hangs["baseline_events"], hangs["new_events"]) if hangs else (0, 0)
    return f"{phase}{manner(found['compared_by'], None if first is None else (first, found['last_step']), events)}"


def _as_text(text: str) -> str:
    r"""Return a sentence in which Markdown, HTML and mentions have no effect.

    >>> _as_text("a <b> *c* @d")
    'a &lt;b&gt; \\*c\\* @\u200bd'
    """
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "@\u200b")
    return re.sub(r"([\\`*_\[\]|#!~])", r"\\\1", escaped)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table of Markdown."""
    listed = [headings, ["---"] * len(headings), *rows]
    return ["| " + " | ".join(row) + " |" for row in listed]


def _length_cells(found: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of the compared value."""
    unit = found["unit"]
    return (
        _compared(found),
        _amount(found["baseline_value"], unit),
        _amount(found["new_value"], unit),
        f"**{share(found['difference_share'], sign=True)}**",
        f"±{share(found['noise_share'])}",
        share(found["limit_share"]),
    )


def _amount(value: float, unit: str) -> str:
    """Print a value in its unit.

    >>> _amount(1_500_000, "ns"), _amount(3 << 20, "bytes")
    ('1.500 ms', '3.0 MiB')
    """
    return duration_text(round(value)) if unit == "ns" else f"{value / (1 << 20):,.1f} MiB"


def _compared(found: Mapping[str, Any]) -> str:
    """Name what is compared: iterations, or what stands for them where there are none."""
    return LENGTH[found["measure"]] if found["metric"] == "iteration" else METRIC_LABELS[found["metric"]]


def _phase_cells(phase: Mapping[str, Any], unit: str, name: str) -> tuple[str, ...]:
    """Return the cells of a phase."""
    return (
        name,
        _amount(phase["baseline_value"], unit),
        _amount(phase["new_value"], unit),
        share(phase["difference_share"], sign=True),
        f"±{share(phase['noise_share'])}",
    )


def in_code(name: str) -> str:
    r"""Return a name as code in a table of Markdown: mentions, links, HTML and bars have no effect there.

    >>> in_code("a|`b`@c")
    "`a\\|'b'@c`"
    """
    text = clipped(one_line(name), LONGEST_CELL).replace("`", "'").replace("|", "\\|")
    return f"`{text}`" if text.strip() else ""
