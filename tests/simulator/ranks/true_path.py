"""The true path of a job: from its last end back over what finished last, on whichever rank that was.

rank 0   |==forward==||wwwwwwwwww|rrr||=opt=|
rank 1   |=======forward=======||rrrr||=opt==|        the path: rank 1's forward, reduction, optimizer
"""

from collections import defaultdict
from typing import NamedTuple

from tests.simulator.ranks.communication_statements import JobProgram
from tests.simulator.ranks.engine import JobRun
from tests.simulator.ranks.rendezvous import Member, Rendezvous
from tests.simulator.run import ACTIVITIES, WALKABLE, Constraint, Place, Point, Run, SimEvent


class Stretch(NamedTuple):
    """A part of the path in true time: the row in which it passes (its uid; None: in none), and what binds its end.

    ``lane`` is that of what it leads to.
    """

    rank: int
    uid: int | None
    start_ns: int
    end_ns: int
    binds: str
    lane: str


def path_stretches(job: JobRun) -> list[Stretch]:
    """Return the chain of last-finishing constraints that ends with the job, in order of time."""
    walk = _Walk(job)
    found = []
    point: tuple[int, Place] | None = walk.last_point()
    while point is not None:
        stretch, point = walk.step_back(*point)
        if stretch is not None and stretch.end_ns > stretch.start_ns:
            found.append(stretch)
    return found[::-1]


def path_of_run(run: Run) -> list[Stretch]:
    """Return the same of a program of one rank."""
    return path_stretches(JobRun(JobProgram({}, ()), {0: run}, [], []))


class _Walk:
    def __init__(self, job: JobRun) -> None:
        self.runs = job.runs
        self.member: dict[tuple[int, int], tuple[Rendezvous, Member]] = {
            (member.rank, member.row.uid): (one, member) for one, member in job.meetings()
        }
        self.parents = {rank: _parents_of(run) for rank, run in job.runs.items()}

    def last_point(self) -> tuple[int, Place]:
        """Return the end of what ended last; of several the lowest rank's."""
        ends = [
            (event.end_ns, -rank, event.uid)
            for rank, run in self.runs.items()
            for event in run.events
            if event.kind in WALKABLE
        ]
        ends += [
            (own.row.end_ns, -rank, uid) for (rank, uid), (_, own) in self.member.items() if not own.lasts_until_waited
        ]
        _, rank, uid = max(ends)
        return -rank, (uid, "end")

    def step_back(self, rank: int, place: Place) -> tuple[Stretch | None, tuple[int, Place] | None]:
        """Return the stretch before a point, and the point that it comes from (None: it is the first one)."""
        run = self.runs[rank]
        binding = run.binding.get(place)
        if binding is None:
            return None, None
        end_ns = run.target_ns(binding)
        met = self.member.get((rank, binding.source))
        if met is not None and _is_transfer(binding):
            # The transfer began when the last one that it waits for came.
            last = met[0].last_awaited(met[1])
            return (
                Stretch(rank, met[1].row.uid, last.row.start_ns, end_ns, "transfer", met[1].row.lane),
                (last.rank, (last.row.uid, "start")),
            )
        start_ns = run.source_ns(binding)
        lane = run.events[binding.target].lane
        stretch = Stretch(rank, self._row_of(rank, binding), start_ns, end_ns, binding.kind, lane)
        return stretch, (rank, (binding.source, binding.source_point))

    def _row_of(self, rank: int, binding: Constraint) -> int | None:
        """Return the row in which the time of a constraint passes: the innermost one that is open."""
        if binding.kind == "execution":
            return binding.source
        if binding.kind != "thread_order" or self.runs[rank].events[binding.source].kind in ACTIVITIES:
            return None
        return binding.source if binding.source_point == "start" else self.parents[rank].get(binding.source)


def _is_transfer(binding: Constraint) -> bool:
    """Tell whether a constraint is what a member does: its row, or within a message's row on the CPU."""
    within: Point = "start"
    return binding.kind == "execution" or (binding.kind == "collective_wait" and binding.source_point == within)


def _parents_of(run: Run) -> dict[int, int]:
    """Return the operator or call that is open around each on its thread."""
    lanes: dict[str, list[SimEvent]] = defaultdict(list)
    for event in run.events:
        if event.kind in ("cpu_op", "runtime"):
            lanes[event.lane].append(event)
    parents: dict[int, int] = {}
    for lane in lanes.values():
        open_rows: list[SimEvent] = []
        for event in sorted(lane, key=lambda own: (own.start_ns, -own.end_ns, own.uid)):
            while open_rows and open_rows[-1].end_ns <= event.start_ns:
                open_rows.pop()
            if open_rows:
                parents[event.uid] = open_rows[-1].uid
            open_rows.append(event)
    return parents
