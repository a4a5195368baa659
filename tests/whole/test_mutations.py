"""The deliberate mistakes can still be made: a text that has changed is noticed here, not in a run of hours."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.mutations import MUTATIONS, ROOT, Mutation, stale_texts

pytestmark = pytest.mark.sources


def test_every_mutations_text_is_in_its_file_exactly_once() -> None:
    assert stale_texts(MUTATIONS) == []


def test_a_text_that_has_gone_is_named() -> None:
    gone = Mutation("of nothing", "hta_graph/build/from_trace.py", "no such text", "another")
    assert stale_texts([gone]) == ["of nothing: 0 times in hta_graph/build/from_trace.py"]


def test_every_mutation_changes_something_and_has_a_name_and_tests_of_its_own() -> None:
    assert all(mutation.new != mutation.old for mutation in MUTATIONS)
    assert [name for name, count in Counter(mutation.name for mutation in MUTATIONS).items() if count > 1] == []
    assert [path for mutation in MUTATIONS for path in mutation.tests if not (ROOT / path).is_file()] == []
