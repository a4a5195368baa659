"""How far the clock of each GPU is ahead of the host's, and what the file says of events that were moved for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from hta_graph.base.arrays import Columns
from hta_graph.model import Ints

ClockModel = Literal["constant", "steps", "noisy", "one_sided", "unknown"]
CLOCK_MODELS = get_args(ClockModel)
PARTS_PER_MILLION = 1e6


@dataclass(frozen=True)
class ClockPiece:
    """By how much (ns) a GPU clock is ahead of the host's from a time of its own on, within an interval.

    ``offset_ns`` holds at ``from_ns`` (that time of the file where the piece begins) and grows by ``drift_ppm``; a
    bound that nothing shows is None, and so is an offset without any. ``launches`` and ``returns`` are how many bounds
    it rests on.
    """

    from_ns: int
    offset_ns: int | None
    low_ns: int | None
    high_ns: int | None
    drift_ppm: float = 0.0
    launches: int = 0
    returns: int = 0


@dataclass(frozen=True)
class GpuClock:
    """The clock of one device relative to the host's; ``noise_ns`` is how much its own bounds contradict each other."""

    device: int
    how: ClockModel
    noise_ns: int
    pieces: tuple[ClockPiece, ...]

    @property
    def is_host_time(self) -> bool:
        """Whether its events are taken as recorded."""
        return not any(piece.offset_ns or piece.drift_ppm for piece in self.pieces)

    def ahead(self, times: Ints, piece: Ints) -> Ints:
        """Return by how much the clock is ahead at times of its own (ns), by the piece in which each lies."""
        origin = np.array([one.from_ns for one in self.pieces], np.int64)
        offset = np.array([one.offset_ns or 0 for one in self.pieces], np.int64)
        drift = np.array([one.drift_ppm for one in self.pieces]) / PARTS_PER_MILLION
        found = offset[piece]
        return found + np.rint((times - origin[piece]) * drift[piece]).astype(np.int64) if drift.any() else found

    def offset_at(self, time_ns: int) -> int:
        """Return by how much the clock is ahead at one time of its own (ns)."""
        time = np.array([time_ns], np.int64)
        return int(self.ahead(time, self.piece_of(time))[0])

    def error_ns(self, most_ns: int) -> tuple[int, int]:
        """Return by how much more, and less, than its offsets the clock may be ahead (ns), up to a limit."""
        known = [one for one in self.pieces if one.offset_ns is not None]
        more = [one.high_ns - one.offset_ns for one in known if one.high_ns is not None]  # type: ignore[operator]
        less = [one.offset_ns - one.low_ns for one in known if one.low_ns is not None]  # type: ignore[operator]
        most = [min(max(side), most_ns) if len(side) == len(self.pieces) else 0 for side in (more, less)]
        return most[0], most[1]

    def piece_of(self, times: Ints) -> Ints:
        """Return the piece in which each time of its own (ns) lies."""
        begins = [piece.from_ns for piece in self.pieces[1:]]
        found: Ints = np.searchsorted(np.array(begins, np.int64), times, side="right")
        return found

    @classmethod
    def of_json(cls, record: Mapping[str, Any]) -> GpuClock:
        """Return the clock of :meth:`exact_json`."""
        return cls(**{**record, "pieces": tuple(ClockPiece(**piece) for piece in record["pieces"])})

    def as_json(self) -> dict[str, Any]:
        """Return the clock as ``diagnostics.gpu_clock`` has it."""
        pieces = [vars(piece) | {"drift_ppm": round(piece.drift_ppm, 3)} for piece in self.pieces]
        return {**vars(self), "pieces": pieces}

    def exact_json(self) -> dict[str, Any]:
        """Return the clock as JSON from which :meth:`of_json` makes an equal one."""
        return {**vars(self), "pieces": [vars(piece) for piece in self.pieces]}


@dataclass(frozen=True, eq=False)
class FileTimes(Columns):
    """When each event begins and ends by its file (ns), where its trace is in host time."""

    start: Ints
    end: Ints
