"""Names of kernels as HTA prints them."""

from __future__ import annotations

import re

__all__ = ["name_without_arguments"]

BRACKETS = re.compile(r"<[^<>]*>|\([^()]*\)")
DEEPEST = 100
COPY_NAME = re.compile(r"Mem(cpy|set)")


def name_without_arguments(name: str) -> str:
    """Shorten a name: without template and function arguments, the last word; copies keep theirs.

    >>> name_without_arguments("void at::native::elementwise<4, Foo<int> >(int, Bar)")
    'at::native::elementwise'
    >>> name_without_arguments("Memcpy DtoD (Device -> Device)"), name_without_arguments("aten::mul")
    ('Memcpy DtoD (Device -> Device)', 'aten::mul')
    """
    if COPY_NAME.match(name):
        return name
    stripped = name
    # Innermost brackets first: a regular expression cannot count. No compiler nests as deep as a hostile name.
    for _ in range(DEEPEST):
        stripped, before = BRACKETS.sub("", stripped), stripped
        if stripped == before:
            break
    words = stripped.split()
    return words[-1] if words and stripped != name else name
