"""How an answer shows itself: a line everywhere, its tables in a notebook, nothing that a trace injects."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analyses import whole
from analyses.declare.answer import ROWS_SHOWN, Answer, answer_lines
from analyses.questions import idle_time
from tests.support.trace_builder import TraceBuilder


def idle_graph(name: str) -> TraceBuilder:
    trace = TraceBuilder()
    trace.launch(name, (0, 5), (10, 20), 1)
    trace.launch(name, (50, 60), (70, 90), 2)
    return trace


def test_an_answer_says_in_a_line_which_tables_it_has() -> None:
    found = Answer({"waits": pd.DataFrame({"a": [1, 2]}), "gaps": pd.DataFrame({"a": []})}, ["no steps"])
    assert repr(found) == "<Answer waits: 2 rows, gaps: 0 rows; notes: 1>"


def test_a_notebook_gets_notes_and_the_first_rows_of_each_table() -> None:
    rows = ROWS_SHOWN + 2
    frame = pd.DataFrame({"rank": [0] * rows, "operator": ["aten::mm"] * rows, "idle_ns": range(rows)})
    html = Answer({"idle_rows": frame}, ["behind"], opening=["before"])._repr_html_()
    assert html.startswith("<p>before</p><table><caption>idle rows: rank 0, and 2 more rows</caption>")
    assert html.endswith("</table><p>behind</p>")
    assert "<th>idle ms</th>" in html
    assert html.count('<td style="text-align:right">0.000</td>') == ROWS_SHOWN
    assert html.count("<td>aten::mm</td>") == ROWS_SHOWN


def test_a_conclusion_stands_first_and_once_in_a_notebook_and_on_a_terminal() -> None:
    frame = pd.DataFrame({"rank": [0, 1]})
    for opening in ([], ["all is well"], ["another GPU", "all is well"]):
        found = Answer({"ranks": frame}, opening=opening, conclusion=["all is well"])
        assert found._repr_html_().count("<p>all is well</p>") == 1
        assert [line for line in answer_lines(found) if line == "all is well"] == ["all is well"]
    assert found._repr_html_().startswith("<p>another GPU</p><p>all is well</p><table>")


def test_nothing_of_a_trace_becomes_markup() -> None:
    hostile = "<img src=x onerror=alert(1)>"
    html = Answer({"kernels": pd.DataFrame({"kernel": [hostile]})}, [f"of {hostile}"])._repr_html_()
    assert "<img" not in html
    assert html.count("&lt;img src=x") == 2


def test_the_answer_of_an_analysis_shows_its_numbers(tmp_path: Path) -> None:
    graph = idle_graph("gemm").graph(tmp_path)
    html = idle_time.answer([whole(0, graph)])._repr_html_()
    assert "<caption>idle time" in html
    assert '<td style="text-align:right">0.050</td>' in html  # from 20 to 70 µs
