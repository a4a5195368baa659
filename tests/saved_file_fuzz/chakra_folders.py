"""Damage to folders of ``.et`` files, node by node; each is checked, simulated and scaled, or refused."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import hta_graph as hg
from hta_graph.chakra.convert import convert
from hta_graph.chakra.convert_options import ConvertOptions
from hta_graph.chakra.et_files import GROUPS_FILE, length_prefixed, read_et, varint
from hta_graph.chakra.rank_workload import RankInput
from hta_graph.chakra.schema import GlobalMetadata, Node
from tests.saved_file_fuzz.command import ask_command
from tests.saved_file_fuzz.damage_cases import (
    OF_ANY_FOLDER,
    Family,
    Files,
    Harm,
    Rng,
    any_file,
    pipe_for_a_file,
    read_files,
)
from tests.support.foreign_traces import sound_ranks
from tests.trace_fuzz import ODD_VALUES

ODD_WORDS = (0, 1, 2, 3, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
ODD_SIGNED = (*(word for word in ODD_WORDS if word < 2**63), -1, -(2**31), -(2**63))


@cache
def sound_workloads() -> tuple[tuple[str, Files], ...]:
    """Return small workloads of simulated jobs, in both profiles."""
    found = []
    for number in (0, 1, 2, 3):
        with tempfile.TemporaryDirectory() as scratch:
            for rank, raw in enumerate(sound_ranks(number)):
                Path(scratch, f"rank{rank}.json").write_bytes(raw)
            inputs = [RankInput(graph.rank or 0, graph) for graph in hg.read_graphs(scratch, jobs=1)]
            on_gpu = any(rank.graph.is_gpu.any() for rank in inputs)
            for profile in ("full", "gpu") if on_gpu else ("full",):
                target = Path(scratch, "work")
                convert(inputs, target, ConvertOptions(profile, unknown="as-compute", missing="copy", force=True))
                found.append((f"job {number} {profile}", read_files(target)))
    return tuple(found)


# --- damage to nodes --------------------------------------------------------------------------------------------------


def _edit_nodes(files: Files, rng: Rng, change: Callable[[list[Any]], None]) -> None:
    """Change the nodes of a file, if it still holds some."""
    name = any_file(files, rng, ".et")
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "x.0.et")
        path.write_bytes(files[name])
        try:
            file = read_et(path)
            nodes = list(file.nodes())
        except hg.HtaGraphError:
            return
    if nodes:
        change(nodes)
        files[name] = b"".join(length_prefixed([file.messages[0], *(node.SerializeToString() for node in nodes)]))


def change_id(files: Files, rng: Rng) -> None:
    def change(nodes: list[Any]) -> None:
        rng.choice(nodes).id = rng.choice((*ODD_WORDS, rng.choice(nodes).id))

    _edit_nodes(files, rng, change)


def change_dependency(files: Files, rng: Rng) -> None:
    def change(nodes: list[Any]) -> None:
        node = rng.choice(nodes)
        listed = rng.choice((node.data_deps, node.ctrl_deps))
        listed.append(rng.choice((*ODD_WORDS, node.id, rng.choice(nodes).id, rng.choice(nodes).id)))

    _edit_nodes(files, rng, change)


def close_a_ring(files: Files, rng: Rng) -> None:
    def change(nodes: list[Any]) -> None:
        ring = rng.sample(nodes, min(len(nodes), rng.choice((1, 2, 3, 9))))
        for node, other in zip(ring, [*ring[1:], ring[0]], strict=True):
            node.data_deps.append(other.id)

    _edit_nodes(files, rng, change)


def drop_dependencies(files: Files, rng: Rng) -> None:
    def change(nodes: list[Any]) -> None:
        node = rng.choice(nodes)
        del node.data_deps[:]
        del node.ctrl_deps[:]

    _edit_nodes(files, rng, change)


def change_field(files: Files, rng: Rng) -> None:
    def change(nodes: list[Any]) -> None:
        node = rng.choice(nodes)
        name = rng.choice(("type", "duration_micros", "start_time_micros", "name"))
        odd = {"type": (0, 1, 2, 4, 5, 6, 7, 8, 99, -1, 2**31 - 1), "name": ("", "a\nb\x1b[31m", "x" * 9_000)}
        setattr(node, name, rng.choice(odd.get(name, ODD_WORDS)))

    _edit_nodes(files, rng, change)


def change_attribute(files: Files, rng: Rng) -> None:
    kinds: tuple[tuple[str, tuple[Any, ...]], ...] = (
        ("int64_val", ODD_SIGNED), ("uint64_val", ODD_WORDS), ("int32_val", (0, 1, 2, 3, 4, 5, 6, 7, 8, -1, 2**31 - 1)),
        ("double_val", (0.0, float("nan"), float("inf"), -1.5, 1e308)), ("bool_val", (True, False)),
        ("string_val", ("", "1", "0", "7", "x", "99999999999", "١", " 1")), ("bytes_val", (b"", b"\xff\x00")),
    )  # fmt: skip

    def change(nodes: list[Any]) -> None:
        talking = [node for node in nodes if node.attr]
        attribute = rng.choice(rng.choice(talking).attr)
        kind, values = rng.choice(kinds)
        setattr(attribute, kind, rng.choice(values))

    _edit_nodes(files, rng, change)


def change_attribute_value(files: Files, rng: Rng) -> None:
    def change(nodes: list[Any]) -> None:
        attribute = rng.choice(rng.choice([node for node in nodes if node.attr]).attr)
        kind = attribute.WhichOneof("value") or "int64_val"
        odd = {
            "int64_val": ODD_SIGNED,
            "uint64_val": ODD_WORDS,
            "string_val": ("", "2", "99"),
            "bool_val": (True, False),
        }
        if kind in odd:
            setattr(attribute, kind, rng.choice(odd[kind]))

    _edit_nodes(files, rng, change)


def drop_attribute(files: Files, rng: Rng) -> None:
    def change(nodes: list[Any]) -> None:
        node = rng.choice([node for node in nodes if node.attr])
        node.attr.remove(rng.choice(node.attr))

    _edit_nodes(files, rng, change)


def repeat_attribute(files: Files, rng: Rng) -> None:
    def change(nodes: list[Any]) -> None:
        one, two = (rng.choice([node for node in nodes if node.attr]) for _ in range(2))
        one.attr.add().CopyFrom(rng.choice(two.attr))

    _edit_nodes(files, rng, change)


def drop_node(files: Files, rng: Rng) -> None:
    _edit_nodes(files, rng, lambda nodes: nodes.remove(rng.choice(nodes)))


def drop_all_nodes(files: Files, rng: Rng) -> None:
    _edit_nodes(files, rng, lambda nodes: nodes.clear())


def repeat_node(files: Files, rng: Rng) -> None:
    def change(nodes: list[Any]) -> None:
        nodes.insert(rng.randrange(len(nodes) + 1), rng.choice(nodes))

    _edit_nodes(files, rng, change)


def reorder_nodes(files: Files, rng: Rng) -> None:
    _edit_nodes(files, rng, rng.shuffle)


def wrong_length(files: Files, rng: Rng) -> None:
    """Put a length somewhere: too long, too short, endless."""
    name = any_file(files, rng, ".et")
    raw = bytearray(files[name])
    at = rng.choice((0, rng.randrange(len(raw) + 1)))
    odd = (b"\xff" * 12, b"\x80", b"\x00", varint(2**31), varint(2**32 - 1), varint(2**40), varint(3), b"\x80\x00")
    raw[at : at + rng.choice((0, 1, 2))] = rng.choice(odd)
    files[name] = bytes(raw)


def change_metadata(files: Files, rng: Rng) -> None:
    name = any_file(files, rng, ".et")
    metadata = GlobalMetadata()
    for key in rng.sample(("rank", "measured_nanos", "origin_nanos", "profile", "gpu_factor"), 2):
        attribute = metadata.attr.add(name=key)
        kind, value = rng.choice(
            (("string_val", "x"), ("int64_val", -(2**63)), ("double_val", 1e308), ("bool_val", True))
        )
        setattr(attribute, kind, value)
    first = rng.choice((metadata.SerializeToString(), b"", Node(id=3, name="n").SerializeToString()))
    files[name] = (
        b"".join(length_prefixed([first])) + files[name][rng.choice((0, 1, files[name][0] + 1 if files[name] else 0)) :]
    )


def change_groups(files: Files, rng: Rng) -> None:
    try:
        groups = json.loads(files.get(GROUPS_FILE, b"{}"))
        key = rng.choice([*groups, "1", "0", "x", "99999999999", "-1", "9" * 5_000])
        groups[key] = rng.choice(([0], [0, 0], [1, 0], [7], [], [True], ["0"], [10**30], [[0]], None, *ODD_VALUES))
        files[GROUPS_FILE] = json.dumps(groups).encode()
    except (ValueError, AttributeError, TypeError):
        return


def nested_groups(files: Files, rng: Rng) -> None:
    depth = rng.choice((100, 2_000, 50_000))
    files[GROUPS_FILE] = b'{"1": ' + b"[" * depth + b"]" * depth + b"}"


def rename_file(files: Files, rng: Rng) -> None:
    name = any_file(files, rng, ".et")
    odd = ("trace.7.et", "trace.999999999.et", "trace.-1.et", "trace.00.et", "other.1.et", "x.et", ".et", "a\nb.0.et")
    files[rng.choice(odd)] = files.pop(name)


def file_of_another_workload(files: Files, rng: Rng) -> None:
    other = rng.choice(sound_workloads())[1]
    name = any_file(files, rng, ".et")
    files[name] = other[any_file(dict(other), rng, ".et")]


def empty_fields(files: Files, rng: Rng) -> None:
    """A node of nothing, and one whose message is no node."""
    name = any_file(files, rng, ".et")
    files[name] += b"".join(length_prefixed([rng.choice((b"", b"\x08", b"\xff\xff\xff", b"\x12\x7f", b"\x0a\x00"))]))


ET_HARMS: dict[str, Harm] = {
    **OF_ANY_FOLDER,
    **{
        harm.__name__: harm
        for harm in (
            change_id, change_dependency, close_a_ring, drop_dependencies, change_field, change_attribute,
            change_attribute_value, drop_attribute, repeat_attribute, drop_node, drop_all_nodes, repeat_node,
            reorder_nodes, wrong_length, change_metadata, change_groups, nested_groups, rename_file,
            file_of_another_workload, empty_fields, pipe_for_a_file,
        )
    },
}  # fmt: skip


def ask_workload(folder: Path, rng: Rng, _: str) -> str:
    """Check, simulate and scale a workload; what is sound to the linter runs."""
    outcome = ask_command(folder, "chakra", "check", str(folder), *rng.choice(((), ("--json", "-"))))
    ask_command(folder, "chakra", "simulate", str(folder), *rng.choice(((), ("--json", "-"), ("--nodes", "-"))))
    target = folder / "scaled"
    ask_command(folder, "chakra", "scale", str(folder), "--gpu", "0.5", "--cpu", "2", "--output", str(target))
    return outcome


WORKLOADS = Family("et", sound_workloads, ET_HARMS, ask_workload)
