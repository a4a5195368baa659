"""A workload executed here: how long each rank takes compared with its recording, node by node, and why it stalls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from hta_graph.base.errors import HtaGraphError
from hta_graph.base.text.csv_text import csv_line
from hta_graph.chakra.astra_sim_executor import EtProgram, Execution
from hta_graph.chakra.check import check
from hta_graph.chakra.et_files import EtFolder, attributes
from hta_graph.chakra.schema import NODE_TYPES

COLUMNS = ("npu", "id", "name", "type", "start_ns", "end_ns", "measured_start_ns", "measured_duration_ns")


class NotSimulatedError(HtaGraphError):
    """A workload breaks the rules, so that it cannot be executed."""


@dataclass(frozen=True)
class SimulatedRank:
    """One rank: its number, that in the recording (``None`` if not known), its nodes, those that ended, times in ns.

    ``simulated_ns`` is when its last node ended, ``measured_ns`` how long the recording took (``None`` if not known).
    """

    npu: int
    rank: int | None
    nodes: int
    executed: int
    simulated_ns: int
    measured_ns: int | None


@dataclass(frozen=True)
class Simulation:
    """How the ranks ran; ``stalls`` lists the nodes that wait for each other."""

    ranks: list[SimulatedRank]
    stalls: list[str]
    programs: dict[int, EtProgram]
    execution: Execution


def simulate(folder: EtFolder) -> Simulation:
    """Execute a workload by ASTRA-sim's rules (:func:`hta_graph.chakra.astra_sim_executor.execute`).

    Computation takes its recorded time, a collective its recorded transfer. Nothing is said about a network.

    Raises:
        NotSimulatedError: the linter finds something besides a stall.
    """
    result = check(folder)
    if result.execution is None:
        more = f" (and {len(result.findings) - 1} more findings)" if len(result.findings) > 1 else ""
        raise NotSimulatedError(f"{folder.path}: cannot be executed: {result.findings[0]}{more}")
    ranks = [_simulated_rank(program, result.execution) for program in result.programs.values()]
    return Simulation(ranks, [str(stall) for stall in result.findings], result.programs, result.execution)


def _simulated_rank(program: EtProgram, execution: Execution) -> SimulatedRank:
    ends, known = execution.end[program.rank], program.file.metadata
    executed = sum(end >= 0 for end in ends)
    rank, measured = (found if isinstance(found := known.get(key), int) else None for key in ("rank", "measured_nanos"))
    return SimulatedRank(program.rank, rank, len(ends), executed, max(ends, default=0), measured)


def simulation_document(simulation: Simulation) -> dict[str, Any]:
    """Return the result as a document of schema ``hta-graph/chakra-simulate/1``; times in ns."""
    ranks = [asdict(rank) for rank in simulation.ranks]
    return {"schema": "hta-graph/chakra-simulate/1", "ranks": ranks, "stalls": simulation.stalls}


def nodes_csv(simulation: Simulation) -> Iterator[bytes]:
    """Yield a table of all nodes as CSV.

    Columns: npu, id, name, type, start_ns and end_ns (simulated, from the beginning; -1: never), measured_start_ns
    (from the same beginning) and measured_duration_ns (both empty if not recorded).
    """
    yield csv_line(COLUMNS)
    types = {number: name for name, number in NODE_TYPES.items()}
    for npu, program in simulation.programs.items():
        nodes, origin = list(program.file.nodes()), program.file.metadata.get("origin_nanos")
        start, end = simulation.execution.start[npu], simulation.execution.end[npu]
        # The execution counts places by ascending id, the file has its own order.
        for place, at in enumerate(program.order.tolist()):
            node = nodes[at]
            known = {name: value for name, _, value in attributes(node)}
            # Measured from an origin in host time: a GPU's start in its file is by another clock.
            began, took = known.get("host_start_nanos", known.get("start_nanos")), known.get("duration_nanos")
            measured = began - origin if isinstance(began, int) and isinstance(origin, int) else None
            kind = types.get(node.type, node.type)
            yield csv_line((npu, node.id, node.name, kind, start[place], end[place], measured, took))
