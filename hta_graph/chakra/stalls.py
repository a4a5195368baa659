"""Why ranks stand still: which nodes wait for which ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hta_graph.chakra.astra_sim import Execution
from hta_graph.chakra.et_program import EtProgram

__all__ = ["stall_lines"]


def stall_lines(
    programs: Mapping[int, EtProgram], execution: Execution, groups: Mapping[str, Sequence[int]]
) -> Iterator[tuple[int, int, str]]:
    """Yield (rank, place, why) of the nodes at which ranks stand still; nothing where all nodes have ended."""
    for (group, number), places in sorted(execution.pending_collectives.items()):
        here = {rank for rank, _ in places}
        absent = [rank for rank in groups[group] if rank not in here]
        others = ", ".join(f"rank {rank}, which {_stalled_at(programs[rank], execution, rank)}" for rank in absent[:3])
        more = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
        for rank, at in places:
            name = programs[rank].names[at][:60]
            yield rank, at, f"{name} waits in collective {number} of group {group} for {others}{more}"
    for (source, _, tag), places in sorted(execution.pending_receives.items()):
        for rank, at in places:
            name = programs[rank].names[at][:60]
            where = _stalled_at(programs[source], execution, source)
            yield rank, at, f"{name} waits for the message with tag {tag} from rank {source}, which {where}"


def _stalled_at(program: EtProgram, execution: Execution, rank: int) -> str:
    """Tell where a rank stands: at what it has started and not ended, else at the first node that never started."""
    started, ended = execution.start[rank], execution.end[rank]
    stuck = [at for at in execution.stalled[rank] if started[at] >= 0] or execution.stalled[rank]
    if not stuck:
        return f"has ended all its {len(ended):,} nodes"
    return f"stands at node {program.ids[stuck[0]]} ({program.names[stuck[0]][:40]})"
