"""How a job is spread over its ranks: axes of process groups, and roles, whose ranks all do the same.

three_d, 8 ranks    tp [0 1] [2 3] [4 5] [6 7]    dp [0 2] [1 3] [4 6] [5 7]    pp [0 4] [1 5] [2 6] [3 7]
fsdp, 16 ranks      shard [0 … 7] [8 … 15]        replicate [0 8] [1 9] …
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tests.simulator.large.random_lengths import Ints
from tests.simulator.ranks import Group

NODE = 8


@dataclass(frozen=True, eq=False)
class Axis:
    """Groups of one kind, a row of ranks each; every rank is in one of them."""

    name: str
    stream: int
    rows: NDArray[np.int64]
    first_name: int
    within_role: bool = True

    @property
    def size(self) -> int:
        """Return how many ranks a group has."""
        return self.rows.shape[1]

    @cached_property
    def number(self) -> Ints:
        """Return the row of each rank."""
        return self._by_rank(np.arange(len(self.rows))[:, None])

    @cached_property
    def place(self) -> Ints:
        """Return the place of each rank in its row."""
        return self._by_rank(np.arange(self.size)[None, :])

    @cached_property
    def groups(self) -> list[Group]:
        """Return the groups, named by numbers that go on from axis to axis."""
        return [
            Group(str(self.first_name + at), tuple(row), self.stream, self.name)
            for at, row in enumerate(self.rows.tolist())
        ]

    def group(self, rank: int) -> Group:
        """Return a rank's group."""
        return self.groups[self.number[rank]]

    def _by_rank(self, values: Ints) -> Ints:
        found = np.empty(self.rows.size, np.int64)
        found[self.rows] = values
        return found


@dataclass(frozen=True, eq=False)
class Mesh:
    """The axes of a job, and the ranks of each role in order."""

    ranks: int
    axes: dict[str, Axis]
    roles: tuple[Ints, ...]

    @property
    def groups(self) -> list[Group]:
        """Return all groups in the order of their names."""
        return [group for axis in self.axes.values() for group in axis.groups]


def fsdp_mesh(ranks: int) -> Mesh:
    """Shards of parameters within a node, replicas of a shard across nodes.

    Raises:
        ValueError: the ranks do not fill nodes.
    """
    width = min(NODE, ranks)
    grid = _grid(ranks, ranks // width, width)
    axes = {"shard": grid}
    if ranks > width:
        axes["replicate"] = grid.T
    return Mesh(ranks, _axes(ranks, axes, one_role=True), (np.arange(ranks),))


def three_d_mesh(ranks: int) -> Mesh:
    """Tensor parallel within a node, data parallel between nodes, stages of a pipeline outermost.

    Raises:
        ValueError: the ranks do not fill it.
    """
    width, stages = (NODE, 4) if ranks >= 8 * NODE else (2, 2)
    grid = _grid(ranks, stages, ranks // (stages * width), width)
    rows = {
        "tp": grid.reshape(-1, width),
        "dp": grid.transpose(0, 2, 1).reshape(-1, grid.shape[1]),
        "pp": grid.reshape(stages, -1).T,
    }
    return Mesh(ranks, _axes(ranks, rows, one_role=False), tuple(part.reshape(-1) for part in grid))


def _grid(ranks: int, *shape: int) -> Ints:
    if int(np.prod(shape)) != ranks:
        raise ValueError(f"{ranks} ranks are not {' × '.join(map(str, shape))}")
    return np.arange(ranks).reshape(shape)


def _axes(ranks: int, rows: dict[str, Ints], *, one_role: bool) -> dict[str, Axis]:
    axes = {"world": Axis("default_pg", 20, np.arange(ranks)[None, :], 0, within_role=one_role)}
    for at, (name, own) in enumerate(rows.items(), 1):
        first = sum(len(axis.rows) for axis in axes.values())
        axes[name] = Axis(name, 20 + 4 * at, own, first, within_role=one_role or name != "pp")
    return axes


MESHES: dict[str, Callable[[int], Mesh]] = {"fsdp": fsdp_mesh, "3d": three_d_mesh}
