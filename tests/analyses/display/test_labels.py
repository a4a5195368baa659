"""Every key of an answer has words."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from analyses.display.labels import CAUSE, EDGE, MEANING, REASON, SHORT, SHORT_IN_SERVING
from analyses.questions.idle_time import LaunchGap
from analyses.questions.serving import BOUND_LABELS
from analyses.source.window_facts import class_meanings, short_labels
from hta_graph.model import BoundBy, EdgeKind, GapCause, Reason
from hta_graph.paths.engine_gaps import StepGapCause
from tests.support.trace_builder import TraceBuilder

WORDS = [(MEANING, BoundBy), (CAUSE, [*GapCause, *list(LaunchGap)[:3]]), (REASON, Reason), (EDGE, EdgeKind)]


@pytest.mark.parametrize(("words", "keys"), WORDS, ids=["classes", "causes", "reasons", "edges"])
def test_each_key_has_words_of_its_own(words: Mapping[str, str], keys: Iterable[BoundBy]) -> None:
    assert list(words) == [key.label for key in keys]
    assert len(set(words.values())) == len(words)


def test_short_words_of_each_class_and_cause_fit_a_cell() -> None:
    assert set(SHORT) == {*MEANING, *CAUSE}
    # A class and a cause that are the same thing have the same words.
    shared = {"CPU, no operator": 2, "unexplained": 2}
    assert {words: count for words, count in Counter(SHORT.values()).items() if count > 1} == shared
    assert max(map(len, SHORT.values())) <= 19


def test_short_words_of_serving_fit_a_cell_and_change_no_others() -> None:
    known = {*BOUND_LABELS, *(cause.label for cause in StepGapCause)}
    assert set(SHORT_IN_SERVING) <= known
    # What is the same thing in both has one key and the same words.
    assert known & set(SHORT) <= {"not_recorded"}
    assert max(map(len, SHORT_IN_SERVING.values())) <= 19


def test_without_a_gpu_communication_is_not_the_gpus(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::add", 0, 1)
    graph = trace.graph(tmp_path)
    assert short_labels(graph)["gpu_communication_bound"] == "communication"
    assert class_meanings(graph)["gpu_communication_bound"].startswith("the CPU communicates")


def test_the_page_of_words_has_them_all() -> None:
    page = (Path(__file__).parents[3] / "docs" / "tables.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if re.match(r"\| `[a-z_]+` \|", line)]
    assert rows == [f"| `{key}` | {SHORT[key]} | {words[key]} |" for words in (MEANING, CAUSE) for key in words]
