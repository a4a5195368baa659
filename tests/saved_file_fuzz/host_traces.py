"""Damage to host execution traces: each is linked with its device trace, or refused."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import hta_graph as hg
from tests.saved_file_fuzz.command import ask_command
from tests.saved_file_fuzz.damage_cases import OF_ANY_FOLDER, Family, Files, Harm, Rng, edit_json, write_files
from tests.support.host_builder import host_of
from tests.trace_fuzz import ODD_NUMBERS, ODD_VALUES, seeds

SCHEMAS = ("1.0.1", "1.1.0-chakra.0.0.4", "1.1.1-chakra.0.0.4")
ODD_SCHEMAS = (*SCHEMAS, "1.0.2-chakra.0.0.4", "9.9", "", "x" * 5_000)
HOST, LINKED = "host.json", "linked.json"


@cache
def sound_hosts() -> tuple[tuple[str, Files], ...]:
    """Return host traces of simulated device traces, in all layouts."""
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "trace.json")
        for at, (name, raw) in enumerate(seeds()[:8]):
            path.write_bytes(raw)
            host = host_of(hg.build_graph(hg.read_trace(path)), SCHEMAS[at % len(SCHEMAS)])
            found.append((name, {HOST: json.dumps(host.document()).encode()}))
    return tuple(found)


def _edit_host(files: Files, rng: Rng, change: Callable[[Any, Any], object]) -> None:
    edit_json(files, rng, "nodes", change)


def _any_place(node: Any, rng: Rng) -> tuple[Any, Any]:
    """Choose a place inside a node, however deep."""
    place: Any = node
    while True:
        key = rng.choice(sorted(place) if isinstance(place, dict) else range(len(place)))
        if not isinstance(place[key], (dict, list)) or not place[key] or rng.random() < 0.3:
            return place, key
        place = place[key]


def change_value(files: Files, rng: Rng) -> None:
    def change(_: Any, nodes: list[Any]) -> None:
        place, key = _any_place(rng.choice(nodes), rng)
        place[key] = rng.choice(ODD_VALUES)

    _edit_host(files, rng, change)


def change_number(files: Files, rng: Rng) -> None:
    def change(_: Any, nodes: list[Any]) -> None:
        node = rng.choice(nodes)
        key = rng.choice([key for key in ("id", "parent", "ctrl_deps") if key in node])
        node[key] = rng.choice((*ODD_NUMBERS, rng.choice(nodes)["id"]))

    _edit_host(files, rng, change)


def drop_value(files: Files, rng: Rng) -> None:
    def change(_: Any, nodes: list[Any]) -> None:
        place, key = _any_place(rng.choice(nodes), rng)
        del place[key]

    _edit_host(files, rng, change)


def change_host_header(files: Files, rng: Rng) -> None:
    def change(document: Any, _: Any) -> None:
        key = rng.choice(("schema", "pid", "time", "start_ts", "nodes", "finish_ts", "traceEvents"))
        document[key] = rng.choice(ODD_SCHEMAS if key == "schema" else ODD_VALUES)

    _edit_host(files, rng, change)


def drop_host_nodes(files: Files, rng: Rng) -> None:
    def change(_: Any, nodes: list[Any]) -> None:
        begin = rng.randrange(len(nodes))
        del nodes[begin : begin + rng.choice((1, 1, 5, len(nodes)))]

    _edit_host(files, rng, change)


def repeat_host_node(files: Files, rng: Rng) -> None:
    _edit_host(files, rng, lambda _, nodes: nodes.insert(rng.randrange(len(nodes)), rng.choice(nodes)))


def reorder_host_nodes(files: Files, rng: Rng) -> None:
    _edit_host(files, rng, lambda _, nodes: rng.shuffle(nodes))


def parents_in_a_ring(files: Files, rng: Rng) -> None:
    def change(_: Any, nodes: list[Any]) -> None:
        ring = rng.sample(nodes, min(len(nodes), rng.choice((1, 2, 3, 7))))
        for node, other in zip(ring, [*ring[1:], ring[0]], strict=True):
            node["parent" if "parent" in node else "ctrl_deps"] = other["id"]

    _edit_host(files, rng, change)


def rename_host_nodes(files: Files, rng: Rng) -> None:
    def change(_: Any, nodes: list[Any]) -> None:
        odd = ("", "## process_group:init ##", "[pytorch|profiler|execution_trace|thread]", "a\ud800b", "x" * 9_000)
        for node in rng.sample(nodes, min(len(nodes), rng.choice((1, 2, 40)))):
            node["name"] = rng.choice(odd)

    _edit_host(files, rng, change)


HOST_HARMS: dict[str, Harm] = {
    **OF_ANY_FOLDER,
    **{
        harm.__name__: harm
        for harm in (
            change_value, change_number, drop_value, change_host_header, drop_host_nodes, repeat_host_node,
            reorder_host_nodes, parents_in_a_ring, rename_host_nodes,
        )
    },
}  # fmt: skip


def ask_host(folder: Path, rng: Rng, origin: str) -> str:
    """Link the host trace with its device trace; what was linked is converted."""
    trace, linked = folder / "trace.json", folder / LINKED
    trace.write_bytes(dict(seeds())[origin])
    given = ["--device-trace", str(trace), "--output", str(linked)]
    given += ["--any-process"] if rng.random() < 0.5 else []
    outcome = ask_command(folder, "chakra", "link", "--host-trace", str(folder / HOST), *given)
    if outcome == "answered" and rng.random() < 0.3:
        work = str(folder / "work")
        ask_command(folder, "chakra", "convert", str(linked), "--output", work, "--missing-ranks", "copy")
    return outcome


@cache
def sound_links() -> tuple[tuple[str, Files], ...]:
    """Return linked traces of the same."""
    found = []
    for name, files in sound_hosts():
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch, "case")
            write_files(files, folder)
            ask_host(folder, Rng(1), name)
            linked = folder / LINKED
            if linked.is_file():
                found.append((name, {LINKED: linked.read_bytes()}))
    return tuple(found)


def ask_linked(folder: Path, rng: Rng, _: str) -> str:
    """Convert a linked trace."""
    options = (
        "--missing-ranks",
        "copy",
        "--profile",
        rng.choice(("full", "gpu")),
        "--unknown-collectives",
        "as-compute",
    )
    target = str(folder / "work")
    return ask_command(folder, "chakra", "convert", str(folder / LINKED), "--output", target, *options)


HOSTS = Family("host", sound_hosts, HOST_HARMS, ask_host)
LINKS = Family("linked", sound_links, HOST_HARMS, ask_linked)
