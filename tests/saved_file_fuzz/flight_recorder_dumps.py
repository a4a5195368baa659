"""Damage to the flight recorder's dumps: a job is joined with what they still say, or they are refused."""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import hta_graph as hg
from hta_graph.base.errors import DefectError, HtaGraphError
from hta_graph.multi_rank.matching.read_communications import read_communications
from tests.job_fuzz import check_job
from tests.saved_file_fuzz.damage_cases import OF_ANY_FOLDER, Family, Files, Harm, Rng, any_file, edit_json
from tests.support.foreign_traces import sound_ranks
from tests.support.invariants import require
from tests.trace_fuzz import ODD_VALUES

JOBS = (0, 1, 2, 3, 5, 7)
ENTRY = ("process_group", "collective_seq_id", "profiling_name", "input_sizes", "time_created_ns", "is_p2p")


@cache
def graphs_of_jobs() -> dict[str, tuple[hg.DependencyGraph, ...]]:
    """Return the graphs of small simulated jobs."""
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        for number in JOBS:
            folder = Path(scratch, str(number))
            folder.mkdir()
            for rank, raw in enumerate(sound_ranks(number)):
                (folder / f"rank{rank}.json").write_bytes(raw)
            graphs = tuple(hg.read_graphs(folder, jobs=1))
            for graph in graphs:
                read_communications(graph)  # it is read of the file, which goes
            found[f"job {number}"] = graphs
    return found


@cache
def sound_dumps() -> tuple[tuple[str, Files], ...]:
    """Return for each job what the recorders of its ranks would have said."""
    return tuple(
        (name, {f"rank{graph.rank}.json": json.dumps(_dump_of(graph)).encode() for graph in graphs})
        for name, graphs in graphs_of_jobs().items()
    )


def _dump_of(graph: hg.DependencyGraph) -> dict[str, Any]:
    members = read_communications(graph)
    called = np.where(members.call >= 0, graph.event_table.start[members.call], members.arrival).tolist()
    said = zip(
        members.arguments["Process Group Name"], members.arguments["Collective name"],
        members.arguments["In msg nelems"], members.is_message, called, strict=True,
    )  # fmt: skip
    numbers: dict[Any, int] = {}
    entries = []
    for group, kind, elements, is_message, time in said:
        numbers[group] = numbers.get(group, 0) + 1
        entries.append(
            {"process_group": [str(group), "default_pg"], "collective_seq_id": numbers[group],
             "profiling_name": f"nccl:{kind}", "input_sizes": [[elements or 1]], "time_created_ns": int(time),
             "is_p2p": bool(is_message)}
        )  # fmt: skip
    return {"version": "2.10", "pg_config": {}, "entries": entries}


# --- damage to entries ------------------------------------------------------------------------------------------------


def _edit_dump(files: Files, rng: Rng, change: Callable[[Any, Any], object]) -> None:
    edit_json(files, rng, "entries", change)


def change_entry(files: Files, rng: Rng) -> None:
    def change(_: Any, entries: list[Any]) -> None:
        rng.choice(entries)[rng.choice(ENTRY)] = rng.choice(ODD_VALUES)

    _edit_dump(files, rng, change)


def odd_groups_and_sizes(files: Files, rng: Rng) -> None:
    def change(_: Any, entries: list[Any]) -> None:
        entry = rng.choice(entries)
        entry["process_group"] = rng.choice(([], [None], [[]], ["x" * 4_000], [{"a": 1}], ["\u202e", 1], [2**70]))
        sizes = (
            [],
            [[]],
            [[-1]],
            [[2**40, 2**40]],
            [["x"]],
            [[0]],
            [[1.5]],
            [[[1]]],
            [None],
            7,
            [[2**62, 4]],
            [[True]],
        )
        rng.choice(entries)["input_sizes"] = rng.choice(sizes)

    _edit_dump(files, rng, change)


def drop_entry_field(files: Files, rng: Rng) -> None:
    _edit_dump(files, rng, lambda _, entries: rng.choice(entries).pop(rng.choice(ENTRY)))


def drop_entries(files: Files, rng: Rng) -> None:
    def change(_: Any, entries: list[Any]) -> None:
        begin = rng.randrange(len(entries))
        del entries[begin : begin + rng.choice((1, 2, len(entries)))]

    _edit_dump(files, rng, change)


def repeat_entries(files: Files, rng: Rng) -> None:
    _edit_dump(files, rng, lambda _, entries: entries.insert(0, rng.choice(entries)))


def reorder_entries(files: Files, rng: Rng) -> None:
    _edit_dump(files, rng, lambda _, entries: rng.shuffle(entries))


def odd_entry(files: Files, rng: Rng) -> None:
    _edit_dump(files, rng, lambda _, entries: entries.insert(rng.randrange(3), rng.choice(ODD_VALUES)))


def change_outermost(files: Files, rng: Rng) -> None:
    def change(document: Any, _: Any) -> None:
        document[rng.choice(("entries", "version", "pg_config"))] = rng.choice(ODD_VALUES)

    _edit_dump(files, rng, change)


def pickle_a_dump(files: Files, rng: Rng) -> None:
    name = any_file(files, rng, ".json")
    files[name] = pickle.dumps(_Bomb() if rng.random() < 0.5 else {"entries": []}, protocol=rng.choice((2, 4, 5)))


class _Bomb:
    """Ends the process that unpickles it."""

    def __reduce__(self) -> tuple[Any, tuple[int]]:
        return exit, (3,)


def rename_dump(files: Files, rng: Rng) -> None:
    name = any_file(files, rng, ".json")
    odd = (
        "dump.json",
        "rank9999999999999999999999.json",
        "rank-1.json",
        "rank00.json",
        "rank7.json",
        "other_rank_0.json",
    )
    files[rng.choice(odd)] = files.pop(name)


FLIGHT_HARMS: dict[str, Harm] = {
    **OF_ANY_FOLDER,
    **{
        harm.__name__: harm
        for harm in (
            change_entry, odd_groups_and_sizes, drop_entry_field, drop_entries, repeat_entries, reorder_entries,
            odd_entry, change_outermost, pickle_a_dump, rename_dump,
        )
    },
}  # fmt: skip


def ask_dumps(folder: Path, _: Rng, origin: str) -> str:
    """Join the ranks of a job with the dumps beside them.

    Raises:
        BrokenRuleError: the job or the error is not what it must be.
    """
    graphs = graphs_of_jobs()[origin]
    try:
        check_job(hg.build_job(graphs, flight=sorted(folder.iterdir())))
    except DefectError:
        raise
    except HtaGraphError as error:
        require("\n" not in str(error) and len(str(error)) <= 500, "not one clear line")
        require(folder.name in str(error), f"the line does not say where: {error}")
        return "refused"
    return "answered"


FLIGHT = Family("flight", sound_dumps, FLIGHT_HARMS, ask_dumps)
