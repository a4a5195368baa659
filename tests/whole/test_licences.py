"""Every package that an installation brings is named with its licence."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.supply_chain import FURTHER_EXTRAS, USUAL_EXTRAS, licence, listed, needed

MODULES = {
    "cluster": "bokeh",
    "completion": "shtab",
    "s3": "s3fs",
    "gs": "gcsfs",
    "http": "aiohttp",
    "mcp": "mcp",
    "isal": "isal",
}
INSTALLED = [frozenset({extra}) for extra in FURTHER_EXTRAS if find_spec(MODULES[extra])]
"""The extras that are here: not every installation that is tested has all."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("extras", [USUAL_EXTRAS, *INSTALLED], ids=lambda extras: ",".join(sorted(extras)))
def test_the_page_names_every_package(extras: frozenset[str]) -> None:
    assert set(needed(extras)) <= listed()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("extras", [USUAL_EXTRAS, *INSTALLED], ids=lambda extras: ",".join(sorted(extras)))
def test_no_package_asks_for_more_than_its_name(extras: frozenset[str]) -> None:
    """A licence that would bind what users build with this (the GPL) or that is not told needs a decision first."""
    said = {name: licence(package) for name, package in needed(extras).items()}
    assert not {name: text for name, text in said.items() if "GPL" in text or text == "not said"}
