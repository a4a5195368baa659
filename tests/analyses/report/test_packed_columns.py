"""Columns in a page: what is written is what is read, in text that needs no escaping."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import strategies as st

from analyses.report.packed_scene import packed_text, varints, zigzag
from tests.support.deep_tests import for_all
from tests.support.timeline_data import read_varints, signed


@for_all(st.lists(st.integers(0, 2**62)), examples=800)
def test_numbers_come_back(numbers: list[int]) -> None:
    assert read_varints(varints(np.array(numbers, np.int64))) == numbers


@for_all(st.lists(st.integers(-(2**61), 2**61)), examples=800)
def test_signed_numbers_come_back(numbers: list[int]) -> None:
    assert [signed(value) for value in zigzag(np.array(numbers, np.int64)).tolist()] == numbers


def test_the_text_holds_nothing_that_ends_a_script() -> None:
    text = packed_text({"names": ["</script><script>alert(1)</script>", "\ud800", "<!--"]}, [np.arange(5)])
    assert re.fullmatch(r"[A-Za-z0-9+/]+=*", text)
    assert packed_text({"names": ["</script><script>alert(1)</script>", "\ud800", "<!--"]}, [np.arange(5)]) == text
