"""The answer of gate as text of 80 columns, and as the Markdown of a pull request's comment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any

from analyses.display.labels import SHORT_IN_JOBS
from analyses.display.text_layout import clipped
from analyses.messages import gate as messages
from hta_graph.base.text.sanitize import one_line
from hta_graph.base.text.shorten import short_name

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
    yield messages.verdict_line(found)
    if found["reason"]:
        return
    yield messages.lengths_line(found)
    yield from _detectable_line(found)
    for at, cause in enumerate(found["causes"][:CAUSES_PRINTED] if _is_changed(found) else (), start=1):
        yield ("" if at > 1 else messages.CAUSE) + messages.cause_line(
            at, cause, label_of(cause), short_name(cause["name"])
        )
    for phase in found["phases"]:
        yield messages.phase_line(phase, found["unit"])
    yield from _work_lines(found)
    if found["environment"]:
        yield messages.environment_line([(one["what"], one["baseline"], one["new"]) for one in found["environment"]])
    yield from found["notes"]


def _detectable_line(found: Mapping[str, Any]) -> Iterator[str]:
    if found["detectable_share"] is not None:
        yield messages.detectable_line(found)


def _is_changed(found: Mapping[str, Any]) -> bool:
    """Return whether a difference is large enough to have causes."""
    return bool(found["exceeding"]) or (found["noise"] is not None and abs(found["difference"]) > found["noise"])


def _work_lines(found: Mapping[str, Any]) -> Iterator[str]:
    for kind in ("collective", "kernel"):
        own = [one for one in found["work"] if one["kind"] == kind]
        if own:
            listed = [(one["change"], one["times"], short_name(one["name"])) for one in own[:WORK_PRINTED]]
            yield messages.work_line(kind, listed, len(own) - len(listed))


def label_of(cause: Mapping[str, Any]) -> str:
    """Return what a screen calls the class of a cause."""
    return SHORT_IN_JOBS.get(cause["bound_by"], cause["bound_by"])


def markdown(found: Mapping[str, Any]) -> str:
    """Return an answer as the Markdown of a comment; nothing that a trace names has an effect there."""
    return "\n".join([*_markdown_lines(found), ""])


def _markdown_lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {messages.TITLE}: {messages.TITLES[found['verdict']]}"
    yield ""
    if found["reason"]:
        yield f"{messages.as_text(one_line(found['reason']['text']))}."
        return
    yield f"{messages.as_text(messages.verdict_line(found))}"
    yield ""
    yield from messages.table(("", "baseline", "new", "change", "noise", "limit"), [messages.length_cells(found)])
    yield ""
    if found["causes"] and _is_changed(found):
        yield f"**{messages.CAUSE.strip(': ').capitalize()}**"
        yield ""
        rows = [
            messages.cause_cells(cause, label_of(cause), in_code(cause["name"]))
            for cause in found["causes"][:CAUSES_PRINTED]
        ]
        yield from messages.table(("on the critical path", "class", "rank", "baseline", "new", "change"), rows)
        yield ""
    if found["phases"]:
        yield from messages.table(
            ("phase", "baseline", "new", "change", "noise"),
            [messages.phase_cells(one, found["unit"], in_code(one["phase"] or "all")) for one in found["phases"]],
        )
        yield ""
    if found["work"]:
        rows = [
            (one["change"], one["kind"], in_code(one["name"]), f"{one['times']:,}")
            for one in found["work"][:WORK_PRINTED]
        ]
        yield from messages.table(("change", "kind", "name", "times"), rows)
        yield ""
    if found["environment"]:
        yield from messages.table(
            ("environment", "baseline", "new"), [tuple(map(in_code, one.values())) for one in found["environment"]]
        )
        yield ""
    yield messages.as_text(" ".join([*_detectable_line(found), *found["notes"]]))


def in_code(name: str) -> str:
    r"""Return a name as code in a table of Markdown: mentions, links, HTML and bars have no effect there.

    >>> in_code("a|`b`@c")
    "`a\\|'b'@c`"
    """
    text = clipped(one_line(name), LONGEST_CELL).replace("`", "'").replace("|", "\\|")
    return f"`{text}`" if text.strip() else ""
