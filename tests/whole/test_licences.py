"""Every package that an installation brings is named with its licence."""

from __future__ import annotations

from tests.supply_chain import licence, listed, needed


def test_the_page_names_every_package() -> None:
    assert set(needed()) <= listed()


def test_no_package_asks_for_more_than_its_name() -> None:
    """A licence that would bind what users build with this (the GPL) or that is not told needs a decision first."""
    said = {name: licence(package) for name, package in needed().items()}
    assert not {name: text for name, text in said.items() if "GPL" in text or text == "not said"}
