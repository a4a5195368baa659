"""Damaged traces and jobs become workloads that run, or are refused for a reason that has been judged."""

from __future__ import annotations

import pytest

from tests.chakra_fuzz import damaged_workloads
from tests.support.deep_tests import deep
from tests.support.fuzzing import fuzz


@pytest.mark.parametrize(("first", "count"), [(0, 4), *(deep(first, 150) for first in range(0, 700, 150))])
def test_damaged_traces_become_workloads_or_are_refused(first: int, count: int) -> None:
    found = fuzz(damaged_workloads(20_261_122), range(first, first + count))
    assert found.failures == {}
    assert found.total("converted") > count // 3
