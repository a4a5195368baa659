"""One ``.et`` file as a simulator sees it: columns by ascending id, dependencies as places, what communicates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hta_graph.chakra.astra_sim import Message, Program
from hta_graph.chakra.et_file import EtFile, attributes
from hta_graph.chakra.et_files import EtFolder
from hta_graph.chakra.schema import COLLECTIVES, NODE_TYPES
from hta_graph.chakra.simulated import COMMUNICATION, COMPUTE, CPU, DELAY, NO_SLOT
from hta_graph.model import Bools, Ints

__all__ = [
    "COLLECTIVE",
    "COMMUNICATION_TYPES",
    "COMPUTATION",
    "RECEIVE",
    "SEND",
    "EtAttribute",
    "EtProgram",
    "rank_programs",
]

COMPUTATION = NODE_TYPES["COMP_NODE"]
COLLECTIVE, SEND, RECEIVE = (NODE_TYPES[f"COMM_{kind}_NODE"] for kind in ("COLL", "SEND", "RECV"))
COMMUNICATION_TYPES = (COLLECTIVE, SEND, RECEIVE)

IdColumn = np.ndarray[Any, np.dtype[np.uint64]]


@dataclass(frozen=True)
class EtAttribute:
    """An attribute's value and its type in the file, such as ``int64_val``."""

    kind: str
    value: Any


class EtProgram:
    """The nodes of one rank in the order of their ids; a *place* is a node's position in that order.

    ``order`` are the nodes' positions in the file; ``micros`` their durations; ``cpu_kinds`` the types of the values
    that say whether they are CPU work ("bool_val" where nothing is said); ``is_delay`` marks idle time, which no event
    of a trace is.
    """

    def __init__(self, rank: int, file: EtFile) -> None:
        self.rank, self.file = rank, file
        scan = _NodeScan(file)
        ids = np.array(scan.ids, np.uint64)
        self.order: Ints = np.argsort(ids, kind="stable")
        self.ids: IdColumn = ids[self.order]
        order = self.order.tolist()
        self.names, self.types, self.micros, self.on_cpu, self.cpu_kinds, self.is_delay = (
            [column[at] for at in order]
            for column in (scan.names, scan.types, scan.micros, scan.on_cpu, scan.cpu_kinds, scan.is_delay)
        )
        place = np.empty(len(ids), np.int64)
        place[self.order] = np.arange(len(ids))
        self.dependency_ids: IdColumn = np.array(scan.dependency_ids, np.uint64)
        self.dependents: Ints = np.repeat(place, np.array(scan.dependency_count, np.int64))
        self.communication: dict[int, Mapping[str, EtAttribute]] = dict(
            sorted((int(place[at]), known) for at, known in scan.communication.items())
        )

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def is_known(self) -> Bools:
        """Mark the dependencies (``dependency_ids`` ids, ``dependents`` places) on ids that exist."""
        known: Bools = np.isin(self.dependency_ids, self.ids)
        return known

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """The dependencies on ids that exist, as places, each pair once."""
        source = np.searchsorted(self.ids, self.dependency_ids[self.is_known])
        size = max(len(self), 1)
        # Pairs as one number: unique and in order of targets and sources in one sort.
        key = np.unique(self.dependents[self.is_known] * size + source)
        return key % size, key // size

    def program(self) -> Program:
        """Return what the executor runs; every communication must have its attributes."""
        source, target = self.pairs
        of_type = {kind: [at for at in self.communication if self.types[at] == kind] for kind in COMMUNICATION_TYPES}
        transfers = self.transfers()
        duration = [1000 * micros for micros in self.micros]
        meets = [at for at in of_type[COLLECTIVE] if not self._is_broadcast(at)]
        for at, transfer in transfers.items():
            duration[at] = transfer
        return Program(
            slot=[self._slot_of(kind, on_cpu=on_cpu) for kind, on_cpu in zip(self.types, self.on_cpu, strict=True)],
            duration=duration,
            source=source,
            target=target,
            collective={at: str(self.communication[at]["pg_name"].value) for at in meets},
            sends={at: self.message(at) for at in of_type[SEND]},
            receives={at: self.message(at) for at in of_type[RECEIVE]},
            transfers=transfers.keys(),
        )

    def transfers(self) -> dict[int, int]:
        """Return how long communication in which ranks wait took without that (ns), where the file tells."""
        said = {
            at: known.get("transfer_nanos") for at, known in self.communication.items() if not self._is_broadcast(at)
        }
        return {
            at: found.value
            for at, found in said.items()
            if found is not None and isinstance(found.value, int) and found.value >= 0
        }

    def _is_broadcast(self, at: int) -> bool:
        """Tell whether a node is one in which ASTRA-sim lets nobody wait: each rank replays its own duration."""
        kind = self.communication[at].get("comm_type")
        return self.types[at] == COLLECTIVE and kind is not None and kind.value == COLLECTIVES["BROADCAST"]

    def message(self, at: int) -> Message:
        """Return the source, destination and tag of a SEND or RECV."""
        known = self.communication[at]
        return known["comm_src"].value, known["comm_dst"].value, known["comm_tag"].value

    @staticmethod
    def _slot_of(kind: int, *, on_cpu: bool) -> int:
        if kind in COMMUNICATION_TYPES:
            return NO_SLOT if kind == RECEIVE else COMMUNICATION
        return CPU if on_cpu else COMPUTE


def rank_programs(folder: EtFolder) -> dict[int, EtProgram]:
    """Return what each rank of a workload runs."""
    return {rank: EtProgram(rank, file) for rank, file in folder.files.items()}


class _NodeScan:
    """One pass over a file's nodes, which keeps what simulators look at."""

    def __init__(self, file: EtFile) -> None:
        self.ids: list[int] = []
        self.names: list[str] = []
        self.types: list[int] = []
        self.micros: list[int] = []
        self.on_cpu: list[bool] = []
        self.cpu_kinds: list[str] = []
        self.is_delay: list[bool] = []
        self.dependency_ids: list[int] = []
        self.dependency_count: list[int] = []
        self.communication: dict[int, dict[str, EtAttribute]] = {}
        # Lists grow column by column, and equal names are one object: a file holds hundreds of thousands of nodes.
        known: dict[str, str] = {}
        for at, node in enumerate(file.nodes()):
            self.ids.append(node.id)
            self.names.append(known.setdefault(node.name, node.name))
            self.types.append(node.type)
            self.micros.append(node.duration_micros)
            on_cpu, kind = _cpu_flag(node)
            self.on_cpu.append(on_cpu)
            self.cpu_kinds.append(kind)
            before = len(self.dependency_ids)
            self.dependency_ids += node.data_deps
            self.dependency_ids += node.ctrl_deps
            self.dependency_count.append(len(self.dependency_ids) - before)
            self.is_delay.append(is_delay(node))
            if node.type in COMMUNICATION_TYPES:
                self.communication[at] = {name: EtAttribute(kind, value) for name, kind, value in attributes(node)}


def is_delay(node: Any) -> bool:
    """Tell whether a node is a delay of ours, not an event of a trace: a kernel may well be called ``delay``."""
    return node.name == DELAY and not any(attribute.name == "event_index" for attribute in node.attr)


def _cpu_flag(node: Any) -> tuple[bool, str]:
    """Tell whether a node is CPU work, GPU work if it does not say; and the type of the value that says so."""
    for attribute in node.attr:
        if attribute.name == "is_cpu_op":
            kind = attribute.WhichOneof("value") or ""
            return bool(kind and getattr(attribute, kind)), kind
    return False, "bool_val"
