"""Several ranks' simulators side by side: each goes on until it needs to know when others came.

    rank 0   launches an all-reduce: it starts when its stream allows, its end is open
    rank 1   goes on to its own launch: the last one, so all ends are known; both go on

Stopping a rank's simulator costs no simulated time; it only computes later.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from tests.simulator.engine import PID, Simulator
from tests.simulator.program import Launch, Program, Statement
from tests.simulator.ranks.arguments import host_arguments, kernel_arguments, kernel_name, operator_arguments
from tests.simulator.ranks.communication_statements import MESSAGES, Await, Injected, JobProgram, Meet
from tests.simulator.ranks.host_workers import HostWorkers, going_on
from tests.simulator.ranks.rendezvous import Key, Member, Rendezvous, awaited_ranks, key_of
from tests.simulator.run import Run, SimEvent
from tests.simulator.threads import HostThread


@dataclass(frozen=True)
class Delay:
    """An injected delay in true time: the row that it lies in or, with none, under no row of its thread."""

    rank: int
    row: SimEvent | None
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class JobRun:
    """One execution of a job: each rank's run in one true time, what they did together, what was injected."""

    program: JobProgram
    runs: dict[int, Run]
    rendezvous: list[Rendezvous]
    delays: list[Delay]

    def meetings(self) -> Iterator[tuple[Rendezvous, Member]]:
        """Yield every member with its rendezvous."""
        for one in self.rendezvous:
            for member in one.members.values():
                yield one, member


def simulate_job(program: JobProgram) -> JobRun:
    """Execute a job.

    Raises:
        ValueError: its ranks wait for each other for ever.
    """
    meetings: dict[Key, Rendezvous] = {}
    ranks = [RankSimulator(rank, own, program, meetings) for rank, own in program.ranks.items()]
    while any(rank.ready for rank in ranks):
        if sum(rank.go_on() for rank in ranks) == 0:
            held = [f"rank {rank.rank} in {rank.held.meet!r}" for rank in ranks if rank.held]
            raise ValueError(f"the ranks wait for each other: {', '.join(held)}")
    runs = {rank.rank: rank.finish() for rank in ranks}
    return JobRun(program, runs, list(meetings.values()), [delay for rank in ranks for delay in rank.delays])


class RankSimulator(Simulator):
    """A rank: a simulator that stops where others have to come first."""

    def __init__(self, rank: int, program: Program, job: JobProgram, meetings: dict[Key, Rendezvous]) -> None:
        super().__init__(program)
        self.rank = rank
        self.meetings = meetings
        self.counted: dict[Key, int] = {}
        self.delays: list[Delay] = []
        self.held: Member | None = None
        self.works: dict[int, Member] = {}
        self.workers = HostWorkers(job.groups, rank, PID + 100)
        self.handlers |= {
            Meet: self._launch if job.backend == "nccl" else self._call,
            Await: self._await,
            Injected: self._inject,
        }

    def go_on(self) -> bool:
        """Act until another rank has to; tell whether there was something to do."""
        acted = False
        while self.ready and (self.held is None or self.held.done_ns >= 0):
            self.held = None
            self.act()
            acted = True
        return acted

    def finish(self) -> Run:
        """Return the run, with the threads that worked for groups."""
        run = super().finish()
        run.thread_names |= self.workers.thread_names
        return run

    # -- on a GPU -----------------------------------------------------------------------------------------------------

    def _launch(self, thread: HostThread, meet: Meet) -> None:
        """Launch a communication kernel, and stop until its end is known."""
        key = key_of(meet, self.rank, self.counted)
        operator = thread.innermost("cpu_op")
        self.driver.launch(thread, Launch(meet.stream, None, kernel_name(meet.kind), meet.call_ns))
        kernel = self.driver.gpu.last_on[meet.stream]
        sequence = self._sequence(meet)
        kernel.said = kernel_arguments(meet, sequence)
        if operator is not None:
            operator.said = operator_arguments(meet, sequence, self.rank)
            kernel.speaker = operator.uid
        self.held = self._come(key, meet, kernel, kernel.start_ns)

    def _sequence(self, meet: Meet) -> int:
        """Count a group's collectives, and apart from them its messages."""
        line: Key = "sequence", meet.group, meet.kind in MESSAGES
        self.counted[line] = self.counted.get(line, 0) + 1
        return self.counted[line]

    def _come(self, key: Key, meet: Meet, row: SimEvent, arrival_ns: int) -> Member:
        kind = "send" if meet.kind in MESSAGES else meet.kind
        member = Member(self.rank, meet, row, self.recording, arrival_ns, awaited_ranks(meet, self.rank))
        self.meetings.setdefault(key, Rendezvous(key, kind)).join(member)
        return member

    # -- on the CPU ---------------------------------------------------------------------------------------------------

    def _call(self, thread: HostThread, meet: Meet) -> None:
        """Hand work to a thread of the group, which leaves a row; a message's row is on the calling thread."""
        if meet.kind in MESSAGES:
            self._call_message(thread, meet)
            return
        lines = self.workers.of(meet.group)
        if busy := lines.whose_end_is_open(thread.now()):
            self._come_again(thread, meet, busy)
            return
        key = key_of(meet, self.rank, self.counted)
        call = thread.innermost("cpu_op")
        arrival_ns = _arrival(thread, call)
        row = lines.take(thread, self.recording, f"gloo:{_row_kind(meet)}")
        row.said = host_arguments(meet)
        if call is not None:
            call.said = host_arguments(meet, is_call=True)
        member = self._come(key, meet, row, arrival_ns)
        lines.note(member)
        self.works[meet.work] = member

    def _call_message(self, thread: HostThread, meet: Meet) -> None:
        key = key_of(meet, self.rank, self.counted)
        call = thread.innermost("cpu_op")
        row = self.recording.event("annotation", f"gloo:{meet.kind}", PID, thread.tid)
        self.recording.settle(row, "start", thread.due(), thread.not_before + thread.worked_ns)
        row.said = host_arguments(meet)
        if call is not None:
            call.said = host_arguments(meet, is_call=True)
        self.works[meet.work] = self._come(key, meet, row, call.start_ns if call else row.start_ns)

    def _await(self, thread: HostThread, statement: Await) -> None:
        member = self.works[statement.work]
        if member.done_ns < 0:
            self._come_again(thread, statement, member)
            return
        thread.wait_for(going_on(member))
        if member.lasts_until_waited:
            member.row.end_ns = thread.now()

    def _come_again(self, thread: HostThread, statement: Statement, until: Member) -> None:
        """Put a statement back until it is known when something else ends."""
        thread.scopes[-1].body = chain((statement,), thread.scopes[-1].body)
        self.held = until

    # -- delays -------------------------------------------------------------------------------------------------------

    def _inject(self, thread: HostThread, statement: Injected) -> None:
        began_ns = thread.now()
        self.handlers[type(statement.slowed)](thread, statement.slowed)
        if isinstance(statement.slowed, Launch):
            kernel = self.driver.gpu.last_on[statement.slowed.stream]
            self.delays.append(Delay(self.rank, kernel, kernel.end_ns - statement.ns, kernel.end_ns))
        else:
            row = thread.innermost("cpu_op")
            self.delays.append(Delay(self.rank, row, began_ns, began_ns + statement.ns))


def _arrival(thread: HostThread, call: SimEvent | None) -> int:
    """Return when a rank came to a collective: with its call, or when the last operator inside that ended."""
    last = thread.causes[0].source if thread.causes else call
    if call is None or last is None:
        return thread.now()
    return last.end_ns if last is not call and last.start_ns >= call.start_ns else call.start_ns


def _row_kind(meet: Meet) -> str:
    # Gloo has no reduce-scatter of its own.
    return "all_reduce" if meet.kind == "reduce_scatter" else meet.kind
