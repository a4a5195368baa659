"""Traces of several ranks that communicate, and the workload that they become."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hta_graph as hg
from hta_graph.chakra.convert import Conversion, convert
from hta_graph.chakra.convert_options import ConvertOptions
from hta_graph.chakra.et_files import EtFolder, attributes, read_folder
from hta_graph.chakra.rank_workload import RankInput
from hta_graph.chakra.schema import NODE_TYPES
from tests.support.trace_builder import TraceBuilder

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


class RankBuilder(TraceBuilder):
    """One rank's trace; its collectives run on stream 24."""

    def __init__(self, rank: int = 0, world: int = 2) -> None:
        super().__init__(distributedInfo={"backend": "nccl", "rank": rank, "world_size": world})
        self.rank, self.world = rank, world

    def collective(
        self, call: float, run: tuple[float, float], corr: int, *, kind: str = "allreduce", nelems: int = 1_000,
        group: str = "0", ranks: tuple[int, ...] | None = None, name: str = ALL_REDUCE, tid: int = 1, stream: int = 24,
        **more: Any,
    ) -> tuple[int, int]:  # fmt: skip
        """Add a call of 2 µs and the kernel that it launches, with the arguments that PyTorch records."""
        members = tuple(range(self.world)) if ranks is None else ranks
        args = {
            "Collective name": kind, "In msg nelems": nelems, "dtype": "Float", "Process Group Name": group,
            "Process Group Ranks": str(list(members)), "Group size": len(members),
        } | more  # fmt: skip
        return (
            self.call("cudaLaunchKernelExC", call, call + 2, corr, tid=tid),
            self.kernel(
                name, *run, corr, stream=stream, **{key: value for key, value in args.items() if value is not None}
            ),
        )


@dataclass(frozen=True)
class Found:
    """A node of a written file: what a test asks about."""

    id: int
    name: str
    type: str
    after: list[str]
    micros: int
    values: dict[str, Any]

    @property
    def on_cpu(self) -> bool:
        """Whether it is CPU work."""
        return bool(self.values["is_cpu_op"])


def inputs_of(tmp_path: Path, *builders: RankBuilder) -> list[RankInput]:
    """Write the traces and build their graphs."""
    found = []
    for builder in builders:
        path = builder.write(tmp_path / f"rank{builder.rank}.json")
        found.append(RankInput(builder.rank, hg.build_graph(hg.read_trace(path))))
    return found


def converted(tmp_path: Path, *builders: RankBuilder, **options: Any) -> Conversion:
    """Convert traces into the folder ``work``."""
    return convert(inputs_of(tmp_path, *builders), tmp_path / "work", ConvertOptions(**options))


def workload(tmp_path: Path, *builders: RankBuilder, **options: Any) -> EtFolder:
    """Convert traces and read the result."""
    converted(tmp_path, *builders, **options)
    return read_folder(tmp_path / "work")


def nodes(folder: EtFolder, rank: int = 0) -> list[Found]:
    """Return a rank's nodes by id, their dependencies by name."""
    listed = sorted(folder.files[rank].nodes(), key=lambda node: node.id)
    names = {node.id: node.name for node in listed}
    types = {number: name for name, number in NODE_TYPES.items()}
    return [
        Found(
            node.id,
            node.name,
            types[node.type],
            [names[awaited] for awaited in node.data_deps],
            node.duration_micros,
            {name: value for name, _, value in attributes(node)},
        )
        for node in listed
    ]


def named(folder: EtFolder, name: str, rank: int = 0) -> Found:
    """Return the only node whose name begins so."""
    (found,) = [node for node in nodes(folder, rank) if node.name.startswith(name)]
    return found
