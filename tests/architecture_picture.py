"""The picture of the rooms: ``python -m tests.architecture_picture`` draws it from the import contracts.

``docs/pictures/architecture.dot`` is what it is drawn from, by graphviz' ``dot``, whose versions differ in the SVG that
they make; so a test compares the source.
"""

from __future__ import annotations

import subprocess
import textwrap
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from hta_graph.base.storage.atomic_write import write_file

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "pictures" / "architecture"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]

SAYS = {
    "mcp": "a server for agents",
    "cli": "arguments, commands,\nexit statuses",
    "hta": "the names and shapes of\nHolistic Trace Analysis",
    "torch": "a handler for\ntorch.profiler",
    "report": "the report and the timeline, as pages",
    "questions": "one file per question, with its figure;\nnone imports another",
    "compare": "two runs or jobs, compared;\npass or fail against a baseline",
    "judgement": "findings on a window, priced,\nin one order",
    "advice": "rules, and the facts\nthat they ask for",
    "source": "shared by all answers",
    "chakra": "workloads for simulators: converted, checked, simulated",
    "export": "files for other programs: Parquet, JSON, Perfetto, pictures, anonymized traces",
    "multi_rank": "ranks read in parallel,\nmatched and joined; why they wait",
    "roofline": "FLOPs and bytes\nof operators",
    "build": "trace + rules = graph;\ngraphs from DataFrames",
    "what_if": "replay with changes, scenarios, slack;\nwhat changes save at most",
    "attribution": "owners of GPU work;\nkernels of CUDA graphs, named by captures",
    "dependencies": "one rule per kind of wait",
    "store": "graphs as entries:\ncached, saved, sent",
    "paths": "windows, critical paths, idle gaps",
    "graph": "points, edges, and the facade\nDependencyGraph",
    "base": "shared by all",
    "trace": "from bytes to columns; only here: JSON, SQLite and the profilers' names",
}
"""Room → what it is, in few words; of rooms that are drawn as one box, the first one."""
SHOWN_INSIDE = ("dependencies", "paths")
"""Rooms whose own rooms are listed, from the highest floor on."""
PACKAGES = {
    "analyses": ("questions asked of the graph", "#dbe9f6", "source"),
    "hta_graph": ("from a trace to its graph", "#e3f1df", "base"),
}
"""Package → what it is, its colour, and the room from which floor on downwards all is drawn as one box."""
LINE, SMALL, INK, FONT = "#7a8794", "#4a5560", "#1c2733", "Helvetica,Arial,sans-serif"
MANY = 4
"""A floor of more rooms is drawn as one box that lists them."""


def floors(package: str) -> list[list[str]]:
    """Return the rooms of a package by floor, the highest first."""
    (contract,) = (found for found in CONTRACTS if found.get("containers") == [package])
    return [layer.split(" | ") for layer in contract["layers"]]


def joined(some_floors: list[list[str]]) -> str:
    """Return floors in one line: each may use those behind it."""
    return "\u00a0› ".join("\u00a0· ".join(rooms) for rooms in some_floors)


def box(title: str, said: str, small: str = "", width: int = 40) -> str:
    """Return a room as a cell of its floor: its name, what it is, what is in it."""
    text = said.replace("'", "&#39;").replace("\n", "<BR/>")
    lines = [f'<B><FONT POINT-SIZE="14">{wrapped(title, 50)}</FONT></B>', text]
    lines += [f'<FONT POINT-SIZE="10" COLOR="{SMALL}">{wrapped(small, width)}</FONT>'] if small else []
    return f'<TD CELLPADDING="8">{"<BR/>".join(lines)}</TD>'


def wrapped(text: str, width: int) -> str:
    """Return a text in lines of a width."""
    return "<BR/>".join(textwrap.wrap(text, width, break_on_hyphens=False))


def floor_cells(rooms: list[str]) -> str:
    """Return a floor: a cell for each room, or one for many."""
    if len(rooms) > MANY:
        return box("\u00a0· ".join(rooms), SAYS.get(rooms[0], ""))
    inner = {room: floors(f"hta_graph.{room}") for room in rooms if room in SHOWN_INSIDE}
    return "".join(box(room, SAYS.get(room, ""), joined(inner.get(room, []))) for room in rooms)


def drawn_rooms() -> list[str]:
    """Return the rooms that need words: each that has a box, and the first one of those that share a box."""
    rooms = []
    for package, (_, _, shared) in PACKAGES.items():
        for floor in floors(package):
            if shared in floor:
                break
            rooms += floor[:1] if len(floor) > MANY else floor
        rooms.append(shared)
    return rooms


def node(name: str, colour: str, cells: str) -> str:
    """Return cells side by side as a node."""
    look = f'BORDER="0" CELLBORDER="1" CELLSPACING="0" COLOR="{LINE}" BGCOLOR="{colour}"'
    return f'"{name}" [label=<<TABLE {look}><TR>{cells}</TR></TABLE>>]'


def package_lines(package: str) -> Iterator[str]:
    """Yield a package as a frame around its floors, with an arrow from each to the next."""
    says, colour, shared = PACKAGES[package]
    all_floors = floors(package)
    end = next(row for row, rooms in enumerate(all_floors) if shared in rooms)
    yield f'subgraph "cluster_{package}" {{ margin=14; label=<<B>{package}:</B> {says}>'
    for rooms in all_floors[:end]:
        yield node(rooms[0], colour, floor_cells(rooms))
    yield node(shared, colour, box(SAYS[shared], wrapped(joined(all_floors[end:]), 66).replace("<BR/>", "\n")))
    yield "}"
    names = [rooms[0] for rooms in all_floors[:end]] + [shared]
    yield from (f'"{upper}" -> "{lower}"' for upper, lower in pairwise(names))


def outside() -> Iterator[str]:
    """Yield what comes in and what goes out."""
    yield f'node [shape=note, fontcolor="{LINE}", color="{LINE}", margin="0.14,0.1"]'
    yield from ('"file" [label="a profiler\'s file"]', '"others" [label="traces, pictures,\\nworkloads, tables"]')
    yield '"person" [label="a person,\\na program"]'
    ways = [("file", "trace"), ("export", "others"), ("cli", "person")]
    yield from (f'"{one}" -> "{other}" [style=dashed, constraint=false]' for one, other in ways)
    yield from (f'{{rank=same; "{one}"; "{other}"}}' for one, other in ways)


def dot_source() -> str:
    """Return what the picture is drawn from."""
    lines = [
        'graph [bgcolor="transparent", ranksep=0.28, nodesep=0.6, newrank=true]',
        f'graph [color="{LINE}", style="rounded", labeljust="l", fontname="{FONT}", fontsize=13, fontcolor="{LINE}"]',
        f'node [shape=plain, fontname="{FONT}", fontsize=12, fontcolor="{INK}"]',
        f'edge [color="{LINE}", arrowsize=0.7]',
        *(line for package in PACKAGES for line in package_lines(package)),
        f'"{PACKAGES["analyses"][2]}" -> "{floors("hta_graph")[0][0]}"',
        *outside(),
    ]
    return "digraph rooms {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def main() -> None:
    """Write the source and the picture."""
    source = dot_source()
    write_file(str(PICTURE.with_suffix(".dot")), source.encode())
    done = subprocess.run(["dot", "-Tsvg"], input=source.encode(), capture_output=True, check=True)
    write_file(str(PICTURE.with_suffix(".svg")), done.stdout)


if __name__ == "__main__":
    main()
