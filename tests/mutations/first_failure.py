"""A pytest plugin: mutated code needs no shrunk examples, only the first failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import Phase, settings

if TYPE_CHECKING:
    import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Let hypothesis stop at the first failing example."""
    del config
    settings.register_profile("first_failure", phases=(Phase.explicit, Phase.generate), derandomize=True)
    settings.load_profile("first_failure")
