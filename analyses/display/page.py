"""The frame of every page: no network, light or dark as the reader's system is, as wide as the screen."""

from __future__ import annotations

from html import escape

__all__ = ["html_page"]

STYLE = ":root { color-scheme: light dark; }\nbody { margin: 0; background: Canvas; color: CanvasText; }"


def html_page(title: str, body: str, *, style: str = "", script: str = "") -> bytes:
    """Return a whole page around a body; text that no encoding can write becomes question marks."""
    text = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{STYLE}
{style}</style>
<script>{script}</script>
</head>
<body>
{body}
</body>
</html>
"""
    return text.encode("utf-8", "replace")
