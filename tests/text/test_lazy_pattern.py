"""A lazy pattern behaves as the compiled one, and importing the product compiles none."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from typing import Any

import pytest

from hta_graph.text.lazy_pattern import METHODS, LazyPattern, lazy_pattern
from tests.import_graph import product_files

TEXTS = ["", "layer 12", "12", "12 34 Layer", "a,b"]


@pytest.mark.parametrize("pattern", [r"(?P<number>\d+)", r"layer", "", r"(\w)(,)?"])
@pytest.mark.parametrize("flags", [0, re.IGNORECASE | re.DOTALL])
def test_it_behaves_as_the_compiled_pattern(pattern: str, flags: int) -> None:
    compiled = re.compile(pattern, flags)
    for text in TEXTS:
        for how in ("match", "fullmatch", "search"):
            assert repr(getattr(lazy_pattern(pattern, flags), how)(text)) == repr(getattr(compiled, how)(text))
        own = lazy_pattern(pattern, flags)
        assert list(map(repr, own.finditer(text))) == list(map(repr, compiled.finditer(text)))
        assert (own.findall(text), own.split(text)) == (compiled.findall(text), compiled.split(text))
        assert (own.sub("x", text), own.subn("x", text)) == (compiled.sub("x", text), compiled.subn("x", text))
    told = [own.pattern, own.flags, own.groups, dict(own.groupindex), repr(own)]
    assert told == [pattern, compiled.flags, compiled.groups, dict(compiled.groupindex), repr(compiled)]


def test_bytes_are_searched_as_well() -> None:
    found = lazy_pattern(rb"a(b)").search(b"xab")
    assert found is not None
    assert found[1] == b"b"


def test_it_has_all_that_a_compiled_pattern_has() -> None:
    public = {name for name in dir(re.Pattern) if not name.startswith("_")}
    assert public - {"pattern", "scanner"} == set(METHODS)
    with pytest.raises(AttributeError):
        _ = lazy_pattern("a").other  # type: ignore[attr-defined]


def test_it_is_compiled_once_and_when_it_is_first_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []
    real = re.compile
    monkeypatch.setattr(re, "compile", lambda *given: compiled.append(given) or real(*given))
    own = lazy_pattern("b+")
    copy = pickle.loads(pickle.dumps(own))  # noqa: S301
    assert (own.pattern, compiled) == ("b+", [])
    assert [own.match("bb") is None, own.search("a") is None, own.sub("c", "abb")] == [False, True, "ac"]
    assert (len(compiled), copy.match("b") is None, len(compiled)) == (1, False, 2)
    assert isinstance(copy, LazyPattern)


@pytest.mark.slow
@pytest.mark.sources
def test_importing_the_product_compiles_none_of_its_patterns() -> None:
    code = (
        "import importlib, re, sys\n"
        "real, own = re.compile, []\n"
        "def note(*given, **named):\n"
        "    place = sys._getframe(1).f_globals.get('__name__', '')\n"
        "    if place.startswith(('hta_graph', 'analyses')):\n"
        "        own.append((place, *given))\n"
        "    return real(*given, **named)\n"
        "re.compile = note\n"
        "for name in sys.argv[1:]:\n"
        "    try:\n"
        "        importlib.import_module(name)\n"
        "    except ModuleNotFoundError:\n"
        "        pass\n"
        "print(own)"
    )
    # Chakra's schema is a file of the package, read at the import.
    names = [name for name in product_files() if not name.endswith(".__main__") and "chakra" not in name]
    done = subprocess.run([sys.executable, "-c", code, *names], check=False, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
