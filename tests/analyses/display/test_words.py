"""Every key of an answer has words."""

from collections.abc import Iterable, Mapping

import pytest

from analyses.display.words import CAUSE, EDGE, MEANING, REASON, SHORT
from analyses.idle.launch_gaps import LaunchGap
from hta_graph.model import BoundBy, EdgeKind, GapCause, Reason

WORDS = [(MEANING, BoundBy), (CAUSE, [*GapCause, *list(LaunchGap)[:3]]), (REASON, Reason), (EDGE, EdgeKind)]


@pytest.mark.parametrize(("words", "keys"), WORDS, ids=["classes", "causes", "reasons", "edges"])
def test_each_key_has_words_of_its_own(words: Mapping[str, str], keys: Iterable[BoundBy]) -> None:
    assert list(words) == [key.label for key in keys]
    assert len(set(words.values())) == len(words)


def test_short_words_of_each_class_and_cause_fit_a_cell() -> None:
    assert set(SHORT) == {*MEANING, *CAUSE}
    assert len(set(SHORT.values())) == len(SHORT)
    assert max(map(len, SHORT.values())) <= 19
