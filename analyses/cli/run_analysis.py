"""From a command line to an answer: read the ranks, cut the windows, run the analysis, print or write."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from analyses.cli.outputs import Outputs, print_first_sentence, print_lines, print_open_in_browser, write_json
from analyses.cli.rank_inputs import RankInputs
from analyses.cli.window_args import WindowArgs
from analyses.questions import catalogue
from hta_graph.base.progress import begin_stage

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

    from analyses.declare.answer import Answer
    from analyses.declare.description import IndexEntry
    from analyses.declare.scope import Scope
    from hta_graph.graph.dependency_graph import DependencyGraph

    AnswerOfScopes = tuple[Answer, list[Scope], Callable[[Answer], Figure]]
    """An answer, what was looked at, and what draws it."""


def run_analysis(entry: IndexEntry, options: argparse.Namespace) -> None:
    """Run one analysis on every rank and write its answer."""
    window_args = WindowArgs.of(options)
    graphs = read_ranks(RankInputs.of(options), window_args, from_summaries=entry.from_summaries)
    outputs = Outputs.of(options)
    scopes = scopes_of(graphs, window_args)
    begin_stage(f"computing {entry.name}")
    analysis = catalogue.analysis(entry.name)
    answer = analysis.answer_about(scopes, **entry.flags_in(options))
    if analysis.judges and outputs.json:
        from analyses.judgement.kept_verdict import judgement_of_ranks

        judged = judgement_of_ranks(list(graphs.values()), window_args.window())
        answer = replace(answer, keys={"judgement": judged, **answer.keys})
    write_answer(entry.name, answer, scopes, outputs, analysis.figure)


def read_ranks(
    ranks: RankInputs, window_args: WindowArgs, *, from_summaries: bool = False
) -> dict[int, DependencyGraph]:
    """Read the graphs of all ranks; ``from_summaries`` is whether rank summaries answer the question."""
    if not window_args.per_step and not window_args.names_nothing:
        window_args.window()  # an invalid window is refused before anything is read
    return ranks.graphs_by_rank(few=window_args.summary_with_causes if from_summaries else None)


def scopes_of(graphs: Mapping[int, DependencyGraph], window_args: WindowArgs) -> list[Scope]:
    """Return the windows of all ranks: whole traces, a window of each, or every step."""
    # The median step is known only after all ranks are read.
    job = list(graphs.values())
    return [scope for rank, graph in graphs.items() for scope in window_args.scopes(rank, graph, job)]


def write_answer(
    name: str, found: Answer, scopes: list[Scope], outputs: Outputs, figure: Callable[[Answer], Figure]
) -> None:
    """Write an answer as JSON, CSV and a figure; print it if none of them is requested."""
    from analyses.declare.answer import answer_document, answer_lines

    found = found.on_command_line()
    if outputs.json:
        write_json(outputs.json, answer_document(name, found, map(_scope_document, scopes)), outputs.left_out)
        if "-" not in (outputs.csv, outputs.plot):
            print_first_sentence(outputs.json, found.headline)
    if outputs.csv or outputs.plot:
        _write_csv_and_figure(name, found, outputs, figure)
    if outputs.is_terminal:
        print_lines(answer_lines(found, all_rows=outputs.all_rows), wide=outputs.wide)


def _write_csv_and_figure(name: str, found: Answer, outputs: Outputs, figure: Callable[[Answer], Figure]) -> None:
    from analyses.display.charts import figure_html
    from hta_graph.base.storage.atomic_write import write_file

    if outputs.csv:
        write_file(outputs.csv, _frame_csv(found.main))
    if outputs.plot:
        write_file(outputs.plot, figure_html(figure(found), name))
        print_open_in_browser(outputs.plot)


def _frame_csv(frame: pd.DataFrame) -> bytes:
    """Return a table as CSV in which no name or heading is a formula."""
    from pandas.api.types import is_numeric_dtype

    from hta_graph.base.text.csv_text import CsvText, harmless_cell

    written = frame.rename(columns=harmless_cell)
    for name in written.columns:
        if not is_numeric_dtype(written[name]):
            written[name] = written[name].map(harmless_cell)
    text = CsvText()
    written.to_csv(text, index=False, lineterminator="\r\n")
    return text.encoded()


def _scope_document(scope: Scope) -> dict[str, Any]:
    """Return the JSON of a window."""
    from hta_graph.base.text.sanitize import encodable_path

    return {
        "file": encodable_path(scope.graph.path),
        "rank": scope.rank,
        "window": {"start_ns": scope.start_ns, "end_ns": scope.end_ns, "label": scope.label},
    }
