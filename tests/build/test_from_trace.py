"""From a file or a trace to a graph or a path in one call, and what is said where that cannot be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from hta_graph.base.errors import QueryError, TraceError, UsageError
from tests.support.trace_builder import TraceBuilder


@pytest.fixture
def file(tmp_path: Path) -> Path:
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#3", 0, 100)
    trace.annotation("forward", 2, 50)
    trace.op("aten::mm", 2, 30)
    trace.launch("gemm", (5, 10), (20, 60), 1)
    return trace.write(tmp_path / "trace.json")


def test_a_file_a_name_and_a_trace_give_the_same(file: Path) -> None:
    graph = hg.build_graph(hg.read_trace(file))
    for given in (file, str(file)):
        assert hg.build_graph(given).edges.equals(graph.edges)
    expected = hg.critical_path(graph).segments
    for also in (file, str(file), graph.trace):
        assert hg.critical_path(also).segments.equals(expected)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("ask", "error", "said"),
    [
        (hg.build_graph, TypeError, "not a graph; use the graph as it is"),
        (lambda _: hg.build_graph(5), TypeError, "takes a trace or the name of a trace file, not int"),
        (lambda _: hg.critical_path(5), TypeError, "takes a graph, a trace or the name of a trace file, not int"),
        (lambda graph: hg.critical_path([graph]), TypeError, "read several ranks with read_job"),
        (lambda graph: hg.build_graph(graph.path.parent), QueryError, "is a folder; name one file, or read all ranks"),
        (lambda _: hg.build_graph("missing.json"), TraceError, "missing.json"),
        (lambda _: hg.slack("trace.json"), TypeError, "a dependency graph is needed, not str"),
        (lambda _: hg.sync_dependencies("trace.json"), TypeError, "a dependency graph is needed, not str"),
        (lambda graph: hg.critical_path(graph, hg.step(7)), QueryError, "no step 7; did you mean 3? Available: 3"),
        (lambda graph: hg.critical_path(graph, hg.annotation("forwrd")), QueryError, "did you mean 'forward'?"),
        (lambda graph: hg.critical_path(graph, hg.annotation("ward")), QueryError, "did you mean 'forward'?"),
        (lambda _: hg.step("3"), UsageError, "'3' is not a step; give the N of ProfilerStep#N"),
        (lambda _: hg.annotation(3), UsageError, "3 is not an annotation; give its name as a text, or step(3)"),
        (lambda _: hg.between(0.0, 1.0), UsageError, "is not in whole nanoseconds; give integers"),
        (lambda _: hg.between(7, 7), UsageError, "the window 7:7 is empty; give START_NS:END_NS"),
        (lambda _: hg.between(7, 3), UsageError, "the window 7:3 ends before it starts; give START_NS:END_NS"),
        (hg.build_job, TypeError, "takes one graph per rank, not a single graph"),
    ],
)
def test_what_cannot_be_is_one_line_with_a_remedy(file: Path, ask: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=re.escape(said)) as raised:
        ask(hg.build_graph(file))
    assert "\n" not in str(raised.value)


def test_a_summary_prints_whole(file: Path) -> None:
    summary = hg.critical_path(file, hg.step(3)).summary()
    lines = repr(summary).splitlines()
    assert len(lines) == len(summary.columns) == 16
    assert "…" not in repr(summary)
    assert "..." not in repr(summary)
    assert max(map(len, lines)) < 80
    assert summary["label"].tolist() == ["ProfilerStep#3"]
    assert type(summary[["label"]]).__name__ == "DataFrame"
