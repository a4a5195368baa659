"""Members of a made job of any number of ranks: all ranks, groups of data and of tensor parallelism in turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.model import Ints
from hta_graph.multi_rank.matching.communications import ALL_RANKS, RankCommunications, RankRecording

__all__ = ["GeneratedJob", "generated_communications"]

DATA_RANKS, TENSOR_RANKS = 512, 8
"""How many ranks a group of either kind has at most."""

RANKS_PER_HOST = 8
KERNEL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
ALL_TO_ALL = ("allreduce", "_allgather_base", "_reduce_scatter_base")
ARRIVES_WITHIN_NS, TRANSFER_NS, END_SCATTER_NS = 2_000_000, 400_000, 20_000
EPOCH_NS = 1_700_000_000_000_000_000


@dataclass(frozen=True)
class GeneratedJob:
    """What a made job is like.

    ``ids``: communications have recorded ids; ``clock_spread_ns``: how far clocks of hosts are apart; ``drift_ppm``:
    by how much they drift at most; ``lost``: the share of communications that ranks did not record; ``step_ns``: the
    time from one collective to the next.
    """

    ranks: int
    collectives: int
    ids: bool = True
    clock_spread_ns: int = 0
    drift_ppm: float = 0.0
    lost: float = 0.0
    step_ns: int = 5_000_000
    on_gpu: bool = True
    seed: int = 0


def generated_communications(job: GeneratedJob) -> dict[int, RankCommunications]:
    """Return what each rank of a made job recorded."""
    random = np.random.default_rng(job.seed)
    ranks = np.arange(job.ranks)
    data = max(job.ranks // DATA_RANKS, 1)
    group_of = np.stack([np.zeros(job.ranks, np.int64), ranks % data, ranks // TENSOR_RANKS])
    kind = np.resize([2, 0, 2, 1, 2], job.collectives)
    arrival = EPOCH_NS + np.arange(job.collectives) * job.step_ns
    arrival = arrival + random.integers(0, ARRIVES_WITHIN_NS, (job.ranks, job.collectives))
    end = np.empty_like(arrival)
    for at, own in enumerate(kind.tolist()):
        last = np.zeros(job.ranks, np.int64)
        np.maximum.at(last, group_of[own], arrival[:, at])
        end[:, at] = last[group_of[own]] + TRANSFER_NS
    end += random.integers(0, END_SCATTER_NS, end.shape)
    hosts = -(-job.ranks // RANKS_PER_HOST)
    ahead = random.integers(-job.clock_spread_ns, job.clock_spread_ns + 1, hosts)
    drift = random.uniform(-job.drift_ppm, job.drift_ppm, hosts) * 1e-6
    texts = [[_group_text(which, number, job.ranks, data) for number in range(1 + int(own.max()))]
             for which, own in enumerate(group_of)]  # fmt: skip
    kept = random.random(arrival.shape) >= job.lost
    found = {}
    for rank in ranks.tolist():
        host = rank // RANKS_PER_HOST
        moved = [
            (own[rank] + ahead[host] + np.rint(drift[host] * (own[rank] - EPOCH_NS)).astype(np.int64))[kept[rank]]
            for own in (arrival, end)
        ]
        found[rank] = _members_of(rank, job, np.flatnonzero(kept[rank]), kind, group_of[:, rank], texts, *moved)
    return found


def _group_text(which: int, number: int, ranks: int, data: int) -> str:
    own = (
        range(ranks),
        range(number, ranks, data),
        range(number * TENSOR_RANKS, min((number + 1) * TENSOR_RANKS, ranks)),
    )[which]
    return f"{which} {list(own)}"


def _members_of(
    rank: int, job: GeneratedJob, at: Ints, kind: Ints, groups: Ints, texts: list[list[str]], arrival: Ints, end: Ints
) -> RankCommunications:
    count = len(at)
    # As in a file that was read on its own: a rank has texts of its own.
    own = ["".join([texts[which][number][:1], texts[which][number][1:]]) for which, number in enumerate(groups)]
    kinds = kind[at].tolist()
    said = RankCommunications.no_arguments(count) | {
        "Collective name": [ALL_TO_ALL[which] for which in kinds],
        "Process Group Name": [str(which) for which in kinds],
        "Group size": [own[which].count(",") + 1 for which in kinds],
        "In msg nelems": [1 << 20] * count,
        "Out msg nelems": [1 << 20] * count,
        "dtype": ["BFloat16"] * count,
    }
    if job.ids:
        said["Seq"] = at.tolist()
        said["Comms Id"] = [
            (1 << 63) + ((which * 100_003 + int(groups[which])) * 100_003 + place)
            for which, place in zip(kinds, at.tolist(), strict=True)
        ]
    rows = np.arange(count, dtype=np.int32)
    last = EPOCH_NS + job.collectives * job.step_ns + ARRIVES_WITHIN_NS
    return RankCommunications(
        rows, rows, arrival, arrival, end, np.full(count, ALL_RANKS), np.full(count, job.on_gpu), [KERNEL] * count,
        [own[which] for which in kinds], said,
        RankRecording(f"host{rank // RANKS_PER_HOST}", EPOCH_NS - job.step_ns, last),
    )  # fmt: skip
