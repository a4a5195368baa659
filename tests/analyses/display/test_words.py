"""Every key of an answer has words."""

from collections.abc import Mapping

import pytest

from analyses.display.words import CAUSE, EDGE, MEANING, REASON, SHORT
from hta_graph.model import BoundBy, EdgeKind, GapCause, Reason

WORDS = [(MEANING, BoundBy), (SHORT, BoundBy), (CAUSE, GapCause), (REASON, Reason), (EDGE, EdgeKind)]


@pytest.mark.parametrize(("words", "keys"), WORDS, ids=["classes", "short", "causes", "reasons", "edges"])
def test_each_key_has_words_of_its_own(words: Mapping[str, str], keys: type[BoundBy]) -> None:
    assert list(words) == [key.label for key in keys]
    assert len(set(words.values())) == len(words)


def test_short_words_fit_a_cell() -> None:
    assert max(map(len, SHORT.values())) <= 20
