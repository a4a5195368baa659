"""A large job as the simulator of events takes it: every rank's own program."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from tests.simulator.large.mesh import Axis
from tests.simulator.large.random_lengths import Draw
from tests.simulator.large.scripts import LargeJob
from tests.simulator.program import Body, Program, Statement, Stream, ThreadProgram
from tests.simulator.ranks import Clock, Group, JobProgram, Recording
from tests.simulator.ranks.communication_statements import MESSAGES, Meet
from tests.simulator.ranks.scripts import DEVICES

DEEP = 1 << 40
"""A queue that is never full: whether one is depends on times."""


def unrolled(job: LargeJob) -> JobProgram:
    """Return the same job rank by rank."""
    programs = {}
    for ranks, body in zip(job.mesh.roles, job.programs, strict=True):
        programs |= {rank: program_of(body, rank) for rank in ranks.tolist()}
    return JobProgram(dict(sorted(programs.items())), tuple(job.mesh.groups), scenario=job.shape.mesh)


def recording_of(job: LargeJob) -> Recording:
    """Return how it is recorded."""
    shape = job.shape
    clocks = {rank: Clock(clock_offset(job, rank)) for rank in range(shape.ranks)}
    return Recording(ids=shape.ids, clocks=clocks, hosts=-(-shape.ranks // shape.ranks_per_host))


def clock_offset(job: LargeJob, rank: int) -> int:
    """Return how far a rank's clock is ahead: as far as that of its host."""
    spread = job.shape.clock_spread_ns
    host = np.array([rank // job.shape.ranks_per_host])
    return int(Draw(job.shape.seed, 1, -spread, spread).of(host)[0]) if spread else 0


def program_of(body: Body, rank: int) -> Program:
    """Return one rank's program."""
    own = tuple(statement_of(statement, rank) for statement in body)
    return Program((ThreadProgram(own),), launch_queue_depth=DEEP)


def alone(body: Body, rank: int) -> Program:
    """Return one rank's program as if it were the only one in each of its groups: its rows are the same."""
    program = program_of(body, rank)
    own = tuple(_without_others(statement, rank) for statement in program.threads[0].body)
    return replace(program, threads=(ThreadProgram(own),))


def statement_of(statement: Statement, rank: int) -> Statement:
    """Return a statement with a rank's own lengths, device and groups."""
    own = {item.name: _own(getattr(statement, item.name), rank) for item in fields(statement)}  # type: ignore[arg-type]
    if isinstance(statement, Meet) and statement.other is not None:
        axis: Any = statement.group
        own["other"] = own["group"].ranks[axis.place[rank] + statement.other]
    return type(statement)(**own)


def _own(value: Any, rank: int) -> Any:
    if isinstance(value, Draw):
        return int(value.of(np.array([rank]))[0])
    if isinstance(value, Stream):
        return Stream(value.number, rank % DEVICES)
    if isinstance(value, Axis):
        return value.group(rank)
    if isinstance(value, tuple):
        return tuple(statement_of(inner, rank) for inner in value)
    return value


def _without_others(statement: Statement, rank: int) -> Statement:
    if isinstance(statement, Meet):
        kind = "send" if statement.kind in MESSAGES else statement.kind
        return replace(statement, kind=kind, group=Group("0", (rank,)), other=None, buffered=True)
    body = getattr(statement, "body", None)
    return statement if body is None else replace(statement, body=tuple(_without_others(inner, rank) for inner in body))  # type: ignore[type-var]
