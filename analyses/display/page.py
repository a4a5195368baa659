"""The one way to a page: a Jinja2 template with autoescaping; no network, light or dark as the reader's system is."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from hta_graph.base.text.sanitize import sanitize_lines

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = "report/templates"


def page_of(template: str, *, scripts: Sequence[str] = (), script: str = "", **values: Any) -> bytes:
    """Render a page; every value is text.

    Its security policy holds the digest of its script: no other script runs and nothing is loaded, whatever the names
    in a trace are.

    Args:
        template: a file of the folder of templates.
        scripts: files there that run on the page, as one script.
        script: what else runs there, behind them.
        values: what the template names.
    """
    from markupsafe import Markup

    script = "\n".join([*map(_file_text, scripts), *([script] if script else [])])
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = part_of(
        template,
        style=Markup(_file_text("style.css")),  # noqa: S704 - a file of the package
        script=Markup(script),  # noqa: S704 - files of the package, and what our own code wrote
        digest=digest,
        **values,
    )
    # Text that no encoding can write becomes question marks.
    return text.encode("utf-8", "replace")


def page_pieces(template: str, **values: Any) -> list[bytes]:
    """Render a page, cut into pieces where its template names ``here``."""
    from markupsafe import Markup

    # What others wrote is shown without controls, and JSON escapes them.
    return page_of(template, here=Markup("\0"), **values).split(b"\0")


def part_of(template: str, **values: Any) -> str:
    """Render a part of a page."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    # Jinja2 costs some 60 ms to import, which only pages should cost.
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    return Environment(
        loader=PackageLoader("analyses", TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        # Escaped names are no markup, but may still turn the direction of the text around them.
        finalize=lambda value: (
            value if isinstance(value, Markup) or not isinstance(value, str) else sanitize_lines(value)
        ),
    )


def _file_text(name: str) -> str:
    """Read a file of the folder of templates."""
    return (files("analyses") / TEMPLATES / name).read_text(encoding="utf-8")
