"""Damage to saved graphs and jobs, table by table; a graph that is loaded obeys every invariant and answers."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
from pyarrow import parquet

import hta_graph as hg
from hta_graph.base.errors import DefectError, HtaGraphError
from hta_graph.export.picture.render import around_picture, path_picture
from tests.job_fuzz import check_job
from tests.saved_file_fuzz.damage_cases import (
    OF_ANY_FOLDER,
    Family,
    Files,
    Harm,
    Rng,
    any_file,
    check_refusal,
    pipe_for_a_file,
    read_files,
)
from tests.support.foreign_traces import sound_ranks
from tests.support.invariants import check_graph, require, some_windows
from tests.trace_fuzz import ODD_NUMBERS, ODD_VALUES, seeds

JOBS = (0, 1, 4, 7)
"""Which simulated jobs are saved: of GPUs and of CPUs."""

# --- sound folders ----------------------------------------------------------------------------------------------------


@cache
def saved_graphs() -> tuple[tuple[str, Files], ...]:
    """Return small graphs of all dialects, a part of one and one of frames, as folders."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "trace.json")
        found = []
        for name, raw in seeds():
            path.write_bytes(raw)
            graph = hg.build_graph(hg.read_trace(path))
            found.append((name, _saved(graph)))
        found.append(("part", _saved(graph.filter(kind=["kernel", "runtime"]))))
        found.append(("frames", _saved(hg.from_dataframes(graph.events, graph.edges))))
        return tuple(found)


@cache
def saved_jobs() -> tuple[tuple[str, Files], ...]:
    """Return small simulated jobs as folders."""
    found = []
    for number in JOBS:
        with tempfile.TemporaryDirectory() as scratch:
            for rank, raw in enumerate(sound_ranks(number)):
                Path(scratch, f"rank{rank}.json").write_bytes(raw)
            found.append((f"job {number}", _saved(hg.read_job(scratch, jobs=1))))
    return tuple(found)


def _saved(graph: hg.DependencyGraph) -> Files:
    with tempfile.TemporaryDirectory() as scratch:
        hg.save_graph(graph, Path(scratch, "g"))
        return read_files(Path(scratch, "g"))


# --- damage to tables -------------------------------------------------------------------------------------------------

EDGES = 2**31 - 1, -(2**31), 2**30, -1, 0, 1, 2, 127, -128


def _edit_table(files: Files, rng: Rng, change: Callable[[Any], Any], suffix: str = ".parquet") -> None:
    """Change a table if it still is one; a change that Arrow cannot write is none."""
    name = any_file(files, rng, suffix)
    try:
        table = parquet.ParquetFile(io.BytesIO(files[name])).read()
        changed, sink = change(table), io.BytesIO()
        parquet.write_table(changed, sink)
    except (pyarrow.ArrowException, ValueError, TypeError, OSError, KeyError, IndexError, OverflowError):
        return
    files[name] = sink.getvalue()


def _any_column(table: Any, rng: Rng) -> int:
    return rng.randrange(table.num_columns)


def _with_values(table: Any, at: int, values: list[Any], kind: Any = None) -> Any:
    column = pyarrow.array(values, kind if kind is not None else table.schema.field(at).type)
    return table.set_column(at, table.schema.field(at).name, column)


def _odd_value(kind: Any, rng: Rng) -> Any:
    if pyarrow.types.is_boolean(kind):
        return rng.random() < 0.5
    if pyarrow.types.is_floating(kind):
        return rng.choice((float("nan"), float("inf"), -float("inf"), -1.0, 0.0, 1e308, 5e-324))
    if pyarrow.types.is_integer(kind):
        bits = kind.bit_width
        edges = (2 ** (bits - 1) - 1, -(2 ** (bits - 1)), -1, 0, 1, 2, 5, 12, 13, 17, 63, -2, 100)
        return rng.choice((*edges, 2**62, 10**15, -(2**62)) if bits == 64 else edges)
    return rng.choice(("", "x", "a\x00b"))


def change_cell(files: Files, rng: Rng) -> None:
    def change(table: Any) -> Any:
        at = _any_column(table, rng)
        values = table.column(at).to_pylist()
        values[rng.randrange(len(values))] = _odd_value(table.schema.field(at).type, rng)
        return _with_values(table, at, values)

    _edit_table(files, rng, change)


def change_a_little(files: Files, rng: Rng) -> None:
    def change(table: Any) -> Any:
        at = _any_column(table, rng)
        values = table.column(at).to_pylist()
        row = rng.randrange(len(values))
        values[row] += rng.choice((-1, 1, 2, -2, 1_000, -1_000, 10**6, -(10**6), 2 * 10**6))
        return _with_values(table, at, values)

    _edit_table(files, rng, change)


def exchange_cells(files: Files, rng: Rng) -> None:
    def change(table: Any) -> Any:
        at = _any_column(table, rng)
        values = table.column(at).to_pylist()
        one, two = rng.randrange(len(values)), rng.randrange(len(values))
        values[one], values[two] = values[two], values[one]
        return _with_values(table, at, values)

    _edit_table(files, rng, change)


def constant_column(files: Files, rng: Rng) -> None:
    def change(table: Any) -> Any:
        at = _any_column(table, rng)
        return _with_values(table, at, [_odd_value(table.schema.field(at).type, rng)] * table.num_rows)

    _edit_table(files, rng, change)


def change_an_edge(files: Files, rng: Rng) -> None:
    def change(table: Any) -> Any:
        name = rng.choice(("source", "target"))
        at = table.schema.get_field_index(name)
        values = table.column(at).to_pylist()
        values[rng.randrange(len(values))] = rng.choice(table.column(rng.choice(("source", "target"))).to_pylist())
        return _with_values(table, at, values)

    _edit_table(files, rng, change, "edges.parquet")


def turn_edges_round(files: Files, rng: Rng) -> None:
    def change(table: Any) -> Any:
        source, target = (table.column(name).to_pylist() for name in ("source", "target"))
        for row in rng.sample(range(len(source)), min(len(source), rng.choice((1, 2, 5)))):
            source[row], target[row] = target[row], source[row]
        table = _with_values(table, table.schema.get_field_index("source"), source)
        return _with_values(table, table.schema.get_field_index("target"), target)

    _edit_table(files, rng, change, "edges.parquet")


def close_a_cycle(files: Files, rng: Rng) -> None:
    """Add the way back of an edge, of a kind that may lead there."""

    def change(table: Any) -> Any:
        rows = table.to_pylist()
        row = dict(rng.choice(rows))
        row["source"], row["target"] = row["target"], row["source"]
        row["kind"] = rng.choice((row["kind"], 0, 2, 6, 10))
        return pyarrow.Table.from_pylist([*rows, row], schema=table.schema)

    _edit_table(files, rng, change, "edges.parquet")


def retype_column(files: Files, rng: Rng) -> None:
    kinds: tuple[Callable[[list[Any]], Any], ...] = (
        lambda v: pyarrow.array([None if x is None else float(x) for x in v], pyarrow.float64()),
        lambda v: pyarrow.array([None if x is None else float(x) for x in v], pyarrow.float32()),
        lambda v: pyarrow.array([str(x) for x in v], pyarrow.string()),
        lambda v: pyarrow.array([str(x) for x in v], pyarrow.large_string()),
        lambda v: pyarrow.array([str(x).encode() for x in v], pyarrow.binary()),
        lambda v: pyarrow.array(v).dictionary_encode(),
        lambda v: pyarrow.array([str(x) for x in v]).dictionary_encode(),
        lambda v: pyarrow.array([Decimal(int(x)) for x in v], pyarrow.decimal128(30, 2)),
        lambda v: pyarrow.array([int(x) for x in v], pyarrow.timestamp("ns")),
        lambda v: pyarrow.array([int(x) for x in v], pyarrow.duration("ns")),
        lambda v: pyarrow.array([bool(x) for x in v], pyarrow.bool_()),
        lambda v: pyarrow.array([abs(int(x)) for x in v], pyarrow.uint64()),
        lambda v: pyarrow.array([int(x) for x in v], pyarrow.int64()),
        lambda v: pyarrow.array([int(x) for x in v], pyarrow.int16()),
        lambda v: pyarrow.array([2**63 + abs(int(x)) for x in v], pyarrow.uint64()),
        lambda v: pyarrow.nulls(len(v)),
        lambda v: pyarrow.array([[x] for x in v]),
        lambda v: pyarrow.array([{"x": x} for x in v]),
        lambda v: pyarrow.array([], pyarrow.list_(pyarrow.null())) if not v else pyarrow.array([[]] * len(v)),
        lambda v: pyarrow.ExtensionArray.from_storage(_Odd(), pyarrow.array([int(x) for x in v], pyarrow.int64())),
    )

    def change(table: Any) -> Any:
        at = _any_column(table, rng)
        column = rng.choice(kinds)(table.column(at).to_pylist())
        return table.set_column(at, table.schema.field(at).name, column)

    _edit_table(files, rng, change)


class _Odd(pyarrow.ExtensionType):
    """A type that only this process knows."""

    def __init__(self) -> None:
        super().__init__(pyarrow.int64(), "tests.odd")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"\x80\x04K\x01."

    @classmethod
    def __arrow_ext_deserialize__(cls, _storage: Any, _serialized: bytes) -> _Odd:
        return cls()


def holes(files: Files, rng: Rng) -> None:
    def change(table: Any) -> Any:
        at = _any_column(table, rng)
        values = table.column(at).to_pylist()
        values[rng.randrange(len(values))] = None
        return _with_values(table, at, values)

    _edit_table(files, rng, change)


def rename_column(files: Files, rng: Rng) -> None:
    def change(table: Any) -> Any:
        names = list(table.schema.names)
        names[_any_column(table, rng)] = rng.choice((*names, "x", "", "\u2028", "start", "source"))
        return table.rename_columns(names)

    _edit_table(files, rng, change)


def drop_column(files: Files, rng: Rng) -> None:
    _edit_table(files, rng, lambda table: table.remove_column(_any_column(table, rng)))


def exchange_columns(files: Files, rng: Rng) -> None:
    def change(table: Any) -> Any:
        names = list(table.schema.names)
        one, two = _any_column(table, rng), _any_column(table, rng)
        names[one], names[two] = names[two], names[one]
        return table.rename_columns(names)

    _edit_table(files, rng, change)


def drop_table_rows(files: Files, rng: Rng) -> None:
    def change(table: Any) -> Any:
        begin = rng.randrange(table.num_rows + 1)
        gone = rng.choice((1, 1, 3, table.num_rows))
        return pyarrow.concat_tables([table.slice(0, begin), table.slice(begin + gone)])

    _edit_table(files, rng, change)


def repeat_table_rows(files: Files, rng: Rng) -> None:
    def change(table: Any) -> Any:
        row = rng.randrange(table.num_rows)
        at = rng.choice((row, 0, table.num_rows))
        return pyarrow.concat_tables([table.slice(0, at), table.slice(row, 1), table.slice(at)])

    _edit_table(files, rng, change)


def reorder_rows(files: Files, rng: Rng) -> None:
    def change(table: Any) -> Any:
        order = list(range(table.num_rows))
        if rng.random() < 0.5:
            rng.shuffle(order)
        else:
            one, two = rng.randrange(len(order)), rng.randrange(len(order))
            order[one], order[two] = order[two], order[one]
        return table.take(order)

    _edit_table(files, rng, change)


def file_of_another(files: Files, rng: Rng) -> None:
    """Merge two graphs: take a file of another one."""
    other = rng.choice(saved_jobs() if "members.parquet" in files else saved_graphs())[1]
    name = any_file(files, rng)
    if name in other:
        files[name] = other[name]


# --- damage to graph.json ---------------------------------------------------------------------------------------------

ODD_TEXTS = ("a\ud800b", "\udfff", "\u202e\u001b[31m", "", "x" * 5_000, "a\x00b", "ProfilerStep#99999999999999999999")


def _edit_header(files: Files, rng: Rng, change: Callable[[dict[str, Any]], None]) -> None:
    name = any_file(files, rng, "graph.json")
    try:
        header = json.loads(files[name])
        change(header)
        files[name] = json.dumps(header).replace('"\\u0002nested"', "[" * 3_000 + "]" * 3_000).encode()
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return


def retype_header_key(files: Files, rng: Rng) -> None:
    def change(header: dict[str, Any]) -> None:
        header[rng.choice(sorted(header))] = rng.choice(ODD_VALUES)

    _edit_header(files, rng, change)


def drop_header_key(files: Files, rng: Rng) -> None:
    _edit_header(files, rng, lambda header: header.pop(rng.choice(sorted(header))) and None)


def change_inside_header(files: Files, rng: Rng) -> None:
    def change(header: dict[str, Any]) -> None:
        inside = [value for value in header.values() if isinstance(value, (dict, list)) and value]
        inside += [value for value in header.get("lanes", {}).values() if isinstance(value, list) and value] * 2
        found = rng.choice(inside)
        at = rng.choice(sorted(found) if isinstance(found, dict) else range(len(found)))
        found[at] = rng.choice((*ODD_VALUES, *ODD_TEXTS, *ODD_NUMBERS))

    _edit_header(files, rng, change)


def odd_texts(files: Files, rng: Rng) -> None:
    def change(header: dict[str, Any]) -> None:
        found = rng.choice((header["names"], header["names"], header["lanes"]["labels"]))
        found[rng.randrange(len(found))] = rng.choice((*ODD_TEXTS, rng.choice(found)))

    _edit_header(files, rng, change)


def lengths_differ(files: Files, rng: Rng) -> None:
    def change(header: dict[str, Any]) -> None:
        found = rng.choice([header["names"], header.get("ranks", header["names"]), *header["lanes"].values()])
        if rng.random() < 0.5:
            found.append(rng.choice((*found[:3], 0, "x", True)))
        else:
            del found[rng.randrange(len(found))]

    _edit_header(files, rng, change)


def other_ranks(files: Files, rng: Rng) -> None:
    def change(header: dict[str, Any]) -> None:
        odd = ([0], [0, 0], [1, 0], [-1], ["0/../.."], "../..", [True], [10**30], [1.0], list(range(64)), {}, [[0]])
        header["ranks"] = rng.choice(odd)

    _edit_header(files, rng, change)


SAVED_HARMS: dict[str, Harm] = {
    **OF_ANY_FOLDER,
    **{
        harm.__name__: harm
        for harm in (
            change_cell, change_a_little, exchange_cells, constant_column, change_an_edge, turn_edges_round,
            close_a_cycle, retype_column, holes, rename_column, drop_column, exchange_columns, drop_table_rows,
            repeat_table_rows, reorder_rows, file_of_another, retype_header_key, drop_header_key, change_inside_header,
            odd_texts, lengths_differ, other_ranks, pipe_for_a_file,
        )
    },
}  # fmt: skip


# --- questions --------------------------------------------------------------------------------------------------------


def ask_loaded(folder: Path, rng: Rng, _: str) -> str:
    """Load a folder; question what was loaded, or check why it was refused.

    Raises:
        BrokenRuleError: the graph or the error is not what it must be; whatever else goes wrong is raised as it is.
    """
    try:
        graph = hg.load_graph(folder)
    except DefectError:
        raise
    except HtaGraphError as error:
        check_refusal(str(error), folder)
        require("write it again" in str(error) or "hg.save_graph" in str(error), f"no remedy: {error}")
        return "refused"
    check_graph(graph, some_windows(graph, rng))
    if isinstance(graph, hg.JobGraph) and len(graph.event_table):
        check_job(graph)
    _ask_questions(graph, rng)
    _check_saved_again(graph, folder)
    return "answered"


QUESTIONS: tuple[Callable[[hg.DependencyGraph, Any], Any], ...] = (
    lambda graph, _: graph.edges.to_json(),
    lambda graph, _: graph.events.to_json(),
    lambda graph, _: hg.critical_path(graph).segments.to_json(),
    lambda graph, _: hg.sync_dependencies(graph),
    lambda graph, _: hg.opportunities(graph),
    lambda graph, _: hg.slack(graph, hg.whole()),
    lambda graph, _: hg.replay(graph, hg.scale("kernel:.", 0.5), hg.whole()),
    lambda graph, _: graph.filter(kind=["kernel", "runtime"]),
    lambda graph, event: graph.subgraph([event]),
    lambda graph, event: graph.descendants(event),
    lambda graph, event: graph.predecessors(event),
    lambda graph, _: graph.steps(),
    lambda graph, _: repr(graph) + graph._repr_html_(),
    lambda graph, _: graph.to_networkx(),
    lambda graph, _: hg.build_graph(graph.trace),
    around_picture,
    lambda graph, _: path_picture(hg.critical_path(graph)),
)


def _ask_questions(graph: hg.DependencyGraph, rng: Rng) -> None:
    """Ask what a person asks; that a graph cannot answer is an answer, anything else that is raised a failure."""
    events = graph.events
    rows = len(events)
    names = events[["rank", "event_index"]] if "rank" in events else events["event_index"]
    chosen = names.iloc[rng.randrange(rows)] if rows else 0
    event = tuple(map(int, chosen)) if "rank" in events else int(chosen)
    for question in QUESTIONS:
        try:
            question(graph, event)
        except DefectError:
            raise
        except HtaGraphError as error:
            require("\n" not in str(error) and len(str(error)) <= 500, "not one clear line")


def _check_saved_again(graph: hg.DependencyGraph, folder: Path) -> None:
    again = folder / "saved again"
    hg.save_graph(graph, again)
    loaded = hg.load_graph(again)
    pd.testing.assert_frame_equal(loaded.events, graph.events)
    pd.testing.assert_frame_equal(loaded.edges, graph.edges)
    require(np.array_equal(loaded.doubtful_edges, graph.doubtful_edges), "doubts differ")


PARQUET = Family("parquet", saved_graphs, SAVED_HARMS, ask_loaded)
JOBS_SAVED = Family("job", saved_jobs, SAVED_HARMS, ask_loaded)
