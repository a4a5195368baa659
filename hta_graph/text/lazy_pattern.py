"""Regular expressions of the program itself, compiled when they are first used."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

METHODS = (
    "finditer", "findall", "flags", "fullmatch", "groupindex", "groups", "match", "search", "split", "sub", "subn",
)  # fmt: skip


class LazyPattern:
    """A pattern that stands in for the compiled one and becomes it at its first use.

    A module's patterns are made when it is imported, and of the several hundred a question uses a few: compiling all
    took a sixth of the time of a question whose graph is cached. The methods of the compiled pattern are set on the
    object itself, so that later uses cost what those of the compiled one do.
    """

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._given = flags

    def __getattr__(self, name: str) -> Any:
        if name not in METHODS:
            raise AttributeError(name)
        compiled = self.compiled()
        vars(self).update((each, getattr(compiled, each)) for each in METHODS)
        return vars(self)[name]

    def __repr__(self) -> str:
        return repr(self.compiled())

    def __reduce__(self) -> tuple[type[LazyPattern], tuple[str | bytes, int]]:
        return LazyPattern, (self.pattern, self._given)

    def compiled(self) -> re.Pattern[Any]:
        """Return the compiled pattern."""
        return re.compile(self.pattern, self._given)


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    r"""Return a pattern that is compiled at its first use; functions of ``re`` do not take it.

    >>> number = lazy_pattern(r"\d+")
    >>> number.sub("N", "layer 12")
    'layer N'
    """
    return cast("re.Pattern[AnyStr]", LazyPattern(pattern, flags))
