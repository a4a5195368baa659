"""The text of a rank's file with gaps for times and for what its communications say: made once, filled per rank."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.simulator.dialect import BASE_NS, EPOCH_NS, Dialect
from tests.simulator.large.event_programs import alone
from tests.simulator.large.random_lengths import Ints
from tests.simulator.large.vector_ranks import VectorRanks
from tests.simulator.program import Body
from tests.simulator.ranks import JobProgram
from tests.simulator.ranks.engine import RankSimulator
from tests.simulator.run import Run, SimEvent
from tests.simulator.writer import Row, write

TIME, LENGTH, SAID = "@time@", "@length@", "@said@"
DECIMAL = "%d.%03d"


@dataclass(frozen=True)
class Slot:
    """A time of the file (ns after the file's base): a point's, and what is added; less another's if a length."""

    point: int
    added: int = 0
    less: int | None = None


@dataclass(frozen=True)
class Template:
    """The rows of a role's ranks on one device; `said_at` are the places of texts among the values to fill in."""

    text: str
    point: Ints
    added: Ints
    less: Ints
    is_length: Any
    said_at: list[int]
    places: int
    value_at: Ints

    def filled(self, times: Ints, ahead_ns: int, said: list[str]) -> str:
        """Return the rows' text; `times` are those of all points of a rank, and after them 0 and the job's end."""
        shift = EPOCH_NS - BASE_NS + ahead_ns
        values = times[self.point] + self.added - np.where(self.is_length, times[self.less], -shift)
        whole, rest = np.divmod(values, 1_000)
        filled = np.zeros(self.places, np.int64)
        filled[self.value_at], filled[self.value_at + 1] = whole, rest
        listed: list[int | str] = filled.tolist()
        for at, own in zip(self.said_at, said, strict=True):
            listed[at] = own
        return self.text % tuple(listed)


def template_of(program: Body, rank: int) -> Template:
    """Let the simulator of events write one rank's rows, and cut out what differs between the ranks of its role."""
    run = _run_alone(program, rank)
    said = [event for event in run.events if event.said is not None]
    by_kernel = sorted(said, key=lambda event: (event.kind != "kernel", event.uid))
    for at, event in enumerate(by_kernel):
        # Kernels first, then the operators around their launches: both in the order of communications.
        event.said = {SAID: at}
    written = write(run, Dialect())
    return _Cutter(run, {index: uid for uid, index in written.index_of.items()}).cut(written.document["traceEvents"])


def _run_alone(program: Body, rank: int) -> Run:
    simulator = RankSimulator(rank, alone(program, rank), JobProgram({}, ()), {})
    simulator.execute()
    return simulator.finish()


class _Cutter:
    """Find out of each row which points its times are."""

    def __init__(self, run: Run, uid_at: dict[int, int]) -> None:
        self.run = run
        self.uid_at = uid_at
        self.begin = 2 * len(run.events)
        self.calls = {event.correlation: event for event in run.events if event.kind == "runtime"}
        self.works = {event.correlation: event for event in run.events if event.kind in ("kernel", "memcpy")}
        self.slots: list[Slot] = []
        self.said_order: list[int] = []
        self.slot_places: list[int] = []
        self.said_places: list[tuple[int, int]] = []
        self.place = 0

    def cut(self, rows: list[Row]) -> Template:
        text = ",\n".join(self._row_text(at, row) for at, row in enumerate(rows))
        return Template(
            text,
            np.array([slot.point for slot in self.slots]),
            np.array([slot.added for slot in self.slots]),
            np.array([slot.less or 0 for slot in self.slots]),
            np.array([slot.less is not None for slot in self.slots]),
            [place for _, place in sorted(self.said_places)],
            self.place,
            np.array(self.slot_places),
        )

    def _row_text(self, at: int, row: Row) -> str:
        marked = dict(row, ts=TIME, **({"dur": LENGTH} if "dur" in row else {}))
        text = json.dumps(marked, separators=(",", ":")).replace("%", "%%")
        # The order of gaps is that of the text: time, length, what is said.
        for slot in self._slots(at, row):
            self.slots.append(slot)
            self.slot_places.append(self.place)
            self.place += 2
        text = text.replace(f'"{TIME}"', DECIMAL).replace(f'"{LENGTH}"', DECIMAL)
        found = re.search(f'"{SAID}":(\\d+)', text)
        if found is None:
            return text
        self.said_places.append((int(found[1]), self.place))
        self.place += 1
        return text.replace(found[0], "%s")

    def _slots(self, at: int, row: Row) -> Iterator[Slot]:
        if at in self.uid_at:
            uid = self.uid_at[at]
            yield from (Slot(2 * uid), Slot(2 * uid + 1, 0, 2 * uid))
        elif row.get("cat") == "cuda_sync":
            call = self.calls[row["args"]["correlation"]].uid
            yield from (Slot(2 * call, 1), Slot(2 * call + 1, -1, 2 * call))
        elif row.get("cat") == "Trace":
            yield from (Slot(self.begin), Slot(self.begin + 1, 0, self.begin))
        elif row.get("cat") == "ac2g":
            yield Slot(2 * self._arrow_at(row).uid)
        else:
            yield Slot(self.begin + (row["name"] == "Record Window End"))

    def _arrow_at(self, row: Row) -> SimEvent:
        return (self.calls if row["ph"] == "s" else self.works)[row["id"]]


def point_times(ranks: VectorRanks) -> Ints:
    """Return rank × point: starts and ends in turn, then 0 and the last end."""
    rows = np.empty((len(ranks.start), 2, len(ranks.ranks)), np.int64)
    rows[:, 0], rows[:, 1] = ranks.start, ranks.end
    edges = np.stack([np.zeros_like(ranks.ranks), rows[:, 1].max(axis=0)])
    return np.ascontiguousarray(np.concatenate([rows.reshape(-1, len(ranks.ranks)), edges]).T)
