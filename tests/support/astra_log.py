"""Logs as ASTRA-sim writes them, and the workloads that they are of, node by node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hta_graph.chakra.et_files import length_prefixed
from hta_graph.chakra.et_nodes import metadata_message
from hta_graph.chakra.schema import NODE_TYPES, Node

STAMP = "[2026-11-22 20:27:43.320]"


@dataclass(frozen=True)
class Ran:
    """A node and when it ran (ns); ``end`` is -1 where it never ended."""

    id: int
    start: int
    end: int
    name: str = "gemm"
    kind: str = "COMP_NODE"
    on_cpu: bool = False

    def lines(self, rank: int) -> list[tuple[int, str]]:
        """Return its lines in the log, with their times."""
        rest = f"node->id={self.id}, node->name={self.name}, node->type={NODE_TYPES[self.kind]}"
        return [
            (tick, f"{STAMP} [workload] [debug] {event},sys->id={rank}, tick={tick}, {rest}\n")
            for event, tick in (("issue", self.start), ("callback", self.end))
            if tick >= 0
        ]


def finished_line(rank: int, end: int) -> str:
    """Return the line with which a rank ends."""
    return f"{STAMP} [workload] [info] sys[{rank}] finished, {end} cycles, exposed communication 0 cycles.\n"


def log_text(ranks: Sequence[Iterable[Ran]]) -> str:
    """Return the log of a run in which each rank's last node is its end."""
    listed = [list(nodes) for nodes in ranks]
    lines = [line for rank, nodes in enumerate(listed) for node in nodes for line in node.lines(rank)]
    text = "".join(line for _, line in sorted(lines, key=lambda line: line[0]))
    ends = [finished_line(rank, max(node.end for node in nodes)) for rank, nodes in enumerate(listed) if nodes]
    return text + f"{STAMP} [system] [warning] Exiting\n" + "".join(ends)


def write_workload(folder: Path, ranks: Sequence[Iterable[Ran]]) -> Path:
    """Write the files of such nodes, without what they wait for."""
    folder.mkdir()
    for rank, nodes in enumerate(ranks):
        messages = [metadata_message(rank=rank)]
        for ran in nodes:
            node = Node(id=ran.id, name=ran.name, type=NODE_TYPES[ran.kind], duration_micros=ran.end - ran.start)
            node.attr.add(name="is_cpu_op", bool_val=ran.on_cpu)
            messages.append(node.SerializeToString())
        (folder / f"trace.{rank}.et").write_bytes(b"".join(length_prefixed(messages)))
    return folder
