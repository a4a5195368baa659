"""The report's page: sections of sentences, figures and tables as one HTML file that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from analyses.display.page import html_page
from analyses.display.terminal import clipped
from analyses.display.text_tables import SHORT_TEXT, display

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

__all__ = ["Section", "page"]

ROWS = 10
LONGEST_CELL = 90
CONFIG = {"displaylogo": False, "responsive": True, "displayModeBar": False}

STYLE = """
:root { --line: rgba(128,128,128,.35); --soft: rgba(128,128,128,.12); --accent: #2f7fd0; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: .2rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2rem 0 .3rem; padding-top: .8rem; border-top: 1px solid var(--line); }
h3 { font-size: .95rem; margin: 1rem 0 .2rem; }
p { margin: .3rem 0; overflow-wrap: anywhere; }
.verdict { border-left: 4px solid var(--accent); background: var(--soft); padding: .6rem 1rem; font-size: 1.05rem; }
.note { color: color-mix(in srgb, CanvasText 75%, #c2570c); }
.quiet { opacity: .75; font-size: .9em; }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin-top: .6rem; }
nav a { color: var(--accent); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--line); vertical-align: bottom;
         white-space: nowrap; }
th { white-space: normal; font-weight: 600; }
th.text, td.text { text-align: left; }
td.long { white-space: normal; min-width: 12rem; max-width: 34rem; overflow-wrap: anywhere; }
code { font-size: .9em; background: var(--soft); padding: .1em .3em; }
.js-plotly-plot text:not(.hoverlayer text) { fill: CanvasText !important; }
"""


@dataclass(frozen=True)
class Section:
    """A question and its answer: what it means, what is missing, figures and tables."""

    title: str
    meaning: str
    figures: Sequence[Figure] = ()
    tables: Sequence[tuple[str, pd.DataFrame]] = ()
    notes: Sequence[str] = field(default_factory=tuple)
    html: str = ""


def page(title: str, verdict: Sequence[str], sections: Sequence[Section]) -> bytes:
    """Return the page; the drawing library stands in it once."""
    links = "".join(f'<a href="#{_anchor_of(section)}">{escape(section.title)}</a>' for section in sections)
    body = "\n".join([_section_html(section) for section in sections])
    said = "".join(f"<p>{escape(line)}</p>" for line in verdict)
    heading = f'<h1>{escape(title)}</h1>\n<div class="verdict">{said}</div>\n<nav>{links}</nav>'
    # Megabytes of script, needed only by figures.
    script = ""
    if any(section.figures for section in sections):
        from plotly.offline import get_plotlyjs

        script = get_plotlyjs()
    return html_page(title, f"{heading}\n{body}", style=STYLE, script=script)


def _anchor_of(section: Section) -> str:
    """Return where a link to a section leads."""
    return "".join(char if char.isalnum() else "-" for char in section.title.lower())


def _section_html(section: Section) -> str:
    """Return a section."""
    parts = [
        f'<section><h2 id="{_anchor_of(section)}">{escape(section.title)}</h2>',
        f"<p>{escape(section.meaning)}</p>",
    ]
    parts += [f'<p class="note">{escape(note)}</p>' for note in section.notes]
    parts += [_figure_part(made) for made in section.figures]
    parts += [_table_html(title, frame) for title, frame in section.tables if len(frame)]
    return "\n".join([*parts, section.html, "</section>"])


def _figure_part(made: Any) -> str:
    """Return a figure without its title, which the section says."""
    made.update_layout(title=None, margin={"t": 15})
    height = f"{made.layout.height or 440}px"  # plotly shrinks a figure to its box if that has no height
    text: str = made.to_html(full_html=False, include_plotlyjs=False, config=CONFIG, default_height=height)
    return text


def _table_html(title: str, frame: pd.DataFrame) -> str:
    """Return the first rows of a table."""
    shown = display(frame, ROWS)
    head = "".join(f"<th{_cell_class(at, shown.texts)}>{escape(text)}</th>" for at, text in enumerate(shown.headings))
    rows = "".join(
        "<tr>" + "".join(_cell_html(at, text, shown.texts) for at, text in enumerate(row)) + "</tr>"
        for row in shown.cells
    )
    rest = f'<p class="quiet">… and {shown.left_out:,} more rows</p>' if shown.left_out else ""
    heading = f"<h3>{escape(title)}{escape(': ' + shown.shared) if shown.shared else ''}</h3>"
    return f'{heading}<div class="scroll"><table><tr>{head}</tr>{rows}</table></div>{rest}'


def _cell_html(at: int, text: str, texts: Sequence[int]) -> str:
    """Return a cell; a long text is cut and shown whole where the pointer is."""
    short = clipped(text, LONGEST_CELL)
    full = f' title="{escape(text[:2000])}"' if short != text else ""
    return f"<td{_cell_class(at, texts, short)}{full}>{escape(short)}</td>"


def _cell_class(at: int, texts: Sequence[int], text: str = "") -> str:
    """Let texts stand at the left, and long ones wrap."""
    kinds = ["text"] * (at in texts) + ["long"] * (len(text) > SHORT_TEXT)
    return f' class="{" ".join(kinds)}"' if kinds else ""
