"""How Sphinx makes the manual: ``python -m sphinx -W --keep-going -n -b html docs OUT``.

The pages are plain Markdown that reads well where it lies. What the built manual needs besides is added while it is
read: the tables of contents, by the links of the index pages, and the pages that lie elsewhere in the repository.
"""

from __future__ import annotations

import os
import re
from dataclasses import fields, is_dataclass
from importlib import import_module
from inspect import ismodule
from pathlib import Path
from typing import TYPE_CHECKING, Any

import analyses
import hta_graph
from hta_graph.base.errors import HtaGraphError

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).parent
project = "hta-graph"
author = "The hta-graph authors"
copyright = author  # noqa: A001 - Sphinx's name
release = version = hta_graph.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
nitpicky = True
highlight_language = "text"
html_theme = "furo"
html_title = f"hta-graph {release}"
html_show_copyright = False
html_copy_source = False
html_static_path = ["theme"]
html_css_files = ["wide.css"]

myst_heading_anchors = 6
suppress_warnings = [
    "misc.highlighting_failure",  # blocks are cut with …, which no language knows
    "ref.python",  # HTA's `Trace` and ours are two
]

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_type_aliases = {name: name for name in ("Ids", "Ints", "Bools", "Change", "Report", "Say", "Comparison")}
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Columns", "params_style")]
# Types of signatures are read, and not followed: other packages have no page here, and homes of classes are private.
nitpick_ignore_regex = [("py:(class|obj|data|exc)", ".*")]

HOME = {
    f"analyses.{name}": getattr(analyses, name).__name__
    for name in analyses.__all__
    if ismodule(getattr(analyses, name))
}
"""Where the modules are that ``analyses`` offers under its own name."""
ELSEWHERE = {
    (page.parent / link).resolve(): page
    for page in sorted((DOCS / "elsewhere").glob("*.md"))
    for link in re.findall(r"\]\((.*?)\)", page.read_text(encoding="utf-8"))
}
"""File outside this folder that is a page of the manual → the page that names it here, in whose place it stands."""
LINK = re.compile(r"\[([^]]*)\]\((?![a-z]+:|#)([^)\s#]+)")
NAMES = re.compile(r"^<!-- names:([\w.\s]+)-->\n(.*?)^<!-- end of names -->$", re.MULTILINE | re.DOTALL)
"""A region of the reference: the names that it lists, and what ``tests/generate/reference.py`` wrote of them."""
ALIAS = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")
INLINE_COLON = "\N{INVISIBLE SEPARATOR}"


def add_what_the_built_manual_needs(_: Sphinx, name: str, source: list[str]) -> None:
    """Put pages from elsewhere in their places, turn links to them, and add tables of contents."""
    page = DOCS / f"{name}.md"
    outside = {stub: file for file, stub in ELSEWHERE.items()}
    file = outside.get(page, page)
    text = source[0] if file == page else file.read_text(encoding="utf-8")
    text = NAMES.sub(lambda names: docstrings(names[1].split(), names[2]), text)
    text = LINK.sub(lambda link: f"[{shown(link[1])}]({as_linked_from(page, file.parent / link[2])}", text)
    if name == "index":
        text += contents_by_section(text)
    elif page.name == "index.md":
        beside = sorted(other.stem for other in page.parent.glob("*.md") if other != page)
        text += contents("", list(dict.fromkeys([*pages_linked(text), *beside])))
    source[0] = text


def docstrings(names: list[str], written: str) -> str:
    """Return the directives that show names with their whole docstrings; of constants what is written there."""
    lines = [line for name in names for line in [*directive(name, written), ""]]
    return "\n".join(["```{eval-rst}", *lines, "```"])


def directive(name: str, written: str) -> list[str]:
    """Return the directive of a name, by what it stands for."""
    module, _, short = name.rpartition(".")
    found = getattr(import_module(HOME.get(module, module)), short)
    if isinstance(found, type) and issubclass(found, HtaGraphError) and found is not HtaGraphError:
        return [f".. autoclass:: {name}()"]
    if isinstance(found, type):
        return [f".. autoclass:: {name}", "   :members:"]
    if callable(found):
        return [f".. autofunction:: {name}"]
    says = re.search(rf"^- `{short}`: (.*)$", written, re.MULTILINE)
    return [f".. py:data:: {name}", "", f"   {says[1].replace('`', '``') if says else ''}"]


def shown(text: str) -> str:
    """Return the text of a link; where it is a page's name, none: the page's title is shown."""
    return "" if re.fullmatch(r"[\w/]+\.md", text) else text


def as_linked_from(page: Path, target: Path) -> str:
    """Return the way from a page to a file, or to the page that it is here."""
    found = ELSEWHERE.get(target.resolve(), target.resolve())
    return Path(os.path.relpath(found, page.parent)).as_posix()


def contents_by_section(text: str) -> str:
    """Return a table of contents for each section that links to pages."""
    sections = re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return "".join(contents(title, pages_linked(section)) for title, section in sections)


def pages_linked(text: str) -> list[str]:
    """Return the pages of this manual that a text links to, each once."""
    return list(dict.fromkeys(re.findall(r"\]\((?!\.\.)([\w/]+)\.md\)", text)))


def contents(title: str, pages: list[str]) -> str:
    """Return a table of contents, which the theme shows next to every page."""
    caption = [f":caption: {title}"] if title else []
    return "\n".join(["", "```{toctree}", ":hidden:", *caption, "", *pages, "```", ""])


def readable_signature(
    _: Sphinx, what: str, __: str, found: Any, ___: Any, arguments: str | None, returned: str | None
) -> tuple[str, str | None] | None:
    """Name aliases of types, and leave out how objects are made that one gets and does not make.

    Those that one makes are HTA's and errors.
    """
    made = isinstance(found, type) and (issubclass(found, HtaGraphError) or found.__module__.startswith("analyses.hta"))
    if what == "class" and not made:
        return "", ""
    return None if arguments is None else (ALIAS.sub(r"\1", arguments), returned)


def add_fields(_: Sphinx, what: str, __: str, found: Any, ___: Any, lines: list[str]) -> None:
    """Name the fields of a class whose constructor is left out."""
    if what == "class" and is_dataclass(found) and not found.__module__.startswith("analyses.hta"):
        named = [f"``{field.name}`` ({field.type})" for field in fields(found) if not field.name.startswith("_")]
        lines += ["", f"Fields: {', '.join(named)}."]


def hide_colon(_: Sphinx, what: str, __: str, ___: Any, ____: Any, lines: list[str]) -> None:
    """Keep Napoleon from taking what stands before a colon for the type of an attribute, or of what is returned."""
    first = [0] if what in ("property", "attribute", "data") and lines else []
    for row in [*first, *(row + 1 for row, line in enumerate(lines[:-1]) if line in ("Returns:", "Yields:"))]:
        lines[row] = lines[row].replace(": ", INLINE_COLON)


def show_colon(_: Sphinx, __: str, ___: str, ____: Any, _____: Any, lines: list[str]) -> None:
    """Put the colon back."""
    lines[:] = [line.replace(INLINE_COLON, ": ") for line in lines]


def setup(app: Sphinx) -> None:
    """Let pages be completed when they are read, and docstrings be read as they are meant."""
    app.connect("source-read", add_what_the_built_manual_needs)
    app.connect("autodoc-process-signature", readable_signature)
    app.connect("autodoc-process-docstring", add_fields)
    app.connect("autodoc-process-docstring", hide_colon, priority=400)  # Napoleon's is 500
    app.connect("autodoc-process-docstring", show_colon, priority=600)
