"""From a command line to an answer: read the ranks, cut the windows, run the analysis, print or write."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from analyses.cli.kept_output import print_kept_lines, write_kept_json
from analyses.cli.outputs import Outputs, print_open_in_browser, write_json
from analyses.cli.rank_inputs import RankInputs, print_lines
from analyses.cli.window_args import WindowArgs
from analyses.questions import catalogue
from hta_graph.base.progress import begin_stage

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

    from analyses.declare.answer import Answer
    from analyses.declare.description import FromSummaries, IndexEntry
    from analyses.declare.scope import Scope
    from analyses.display.text_layout import Line
    from hta_graph.graph.dependency_graph import DependencyGraph

    AnswerOfScopes = tuple[Answer, list[Scope], Callable[[Answer], Figure]]
    """An answer, what was looked at, and what draws it."""


def run_analysis(entry: IndexEntry, options: argparse.Namespace) -> None:
    """Run one analysis on every rank and write its answer."""
    window_args = WindowArgs.of(options)

    def ask() -> AnswerOfScopes:
        scopes = scopes_of(read_ranks(RankInputs.of(options), window_args, entry.from_summaries), window_args)
        begin_stage(f"computing {entry.name}")
        analysis = catalogue.analysis(entry.name)
        return analysis.answer(scopes, **entry.flags_in(options)), scopes, analysis.figure

    write_kept_answer(entry.name, options, ask)


def read_ranks(
    ranks: RankInputs, window_args: WindowArgs, from_summaries: FromSummaries = "no"
) -> dict[int, DependencyGraph]:
    """Read the graphs of all ranks; ``from_summaries`` is whether rank summaries answer the question."""
    if not window_args.per_step and not window_args.names_nothing:
        window_args.window()  # an invalid window is refused before anything is read
    few = {"no": None, "yes": lambda _: window_args.summary_request(), "with causes": window_args.summary_with_causes}
    return ranks.all_ranks(few=few[from_summaries])


def scopes_of(graphs: Mapping[int, DependencyGraph], window_args: WindowArgs) -> list[Scope]:
    """Return the windows of all ranks: whole traces, a window of each, or every step."""
    # The median step is known only after all ranks are read.
    job = list(graphs.values())
    return [scope for rank, graph in graphs.items() for scope in window_args.scopes(rank, graph, job)]


def write_kept_answer(name: str, options: argparse.Namespace, ask: Callable[[], AnswerOfScopes]) -> None:
    """Write what ``ask`` returns as :func:`write_answer` does; text and JSON are kept in the cache."""
    outputs = Outputs.of(options)
    if outputs.csv or outputs.plot:
        found, scopes, figure = ask()
        write_answer(name, found, scopes, outputs, figure)
    elif outputs.json:
        write_kept_json(name, options, lambda: _document_of(name, *ask()[:2]))
    else:
        print_kept_lines(name, options, lambda: _lines_of(ask()[0], outputs))


def _document_of(name: str, found: Answer, scopes: list[Scope]) -> dict[str, Any]:
    from analyses.declare.answer import answer_document

    return answer_document(name, found.on_command_line(), map(_scope_document, scopes))


def _lines_of(found: Answer, outputs: Outputs) -> list[Line]:
    from analyses.declare.answer import answer_lines

    return answer_lines(found.on_command_line(), all_rows=outputs.all_rows)


def write_answer(
    name: str, found: Answer, scopes: list[Scope], outputs: Outputs, figure: Callable[[Answer], Figure]
) -> None:
    """Write an answer as JSON, CSV and a figure; print it if none of them is requested."""
    if outputs.json:
        write_json(outputs.json, _document_of(name, found, scopes), outputs.left_out)
    if outputs.csv or outputs.plot:
        _write_csv_and_figure(name, found.on_command_line(), outputs, figure)
    if outputs.is_terminal:
        print_lines(_lines_of(found, outputs), wide=outputs.wide)


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
