"""The dialects of Kineto files that a run can be written in."""

from dataclasses import dataclass
from typing import Literal

EPOCH_NS = 1_712_867_402_348_256_000
QUARTER_NS = 7_889_238 * 10**9
BASE_NS = EPOCH_NS // QUARTER_NS * QUARTER_NS


class Exact(str):
    """A number that no float holds, as marked decimal text; `to_bytes` writes the bare number."""

    __slots__ = ()
    MARK = "\x01"


Number = int | float | Exact


@dataclass(frozen=True)
class GpuClock:
    """How far a device's clock is ahead of the host's: at the run's start, by jumps (host ns, ns) and by drift.

    Where it jumps back it stops until the host has caught up, so that no two rows change their order.
    """

    offset_ns: int = 0
    steps: tuple[tuple[int, int], ...] = ()
    drift_ppm: float = 0.0

    def ahead_ns(self, ns: int) -> int:
        """Return by how much the clock is ahead at a host time of the run.

        >>> clock = GpuClock(100, ((1_000, -40), (5_000, 60)), 1e3)
        >>> [clock.ahead_ns(ns) for ns in (0, 999, 1_030, 1_040, 5_000)]
        [100, 101, 71, 61, 125]
        """
        jumps = (max(jump, at - ns) if jump < 0 else jump for at, jump in self.steps if at <= ns)
        return self.offset_ns + round(ns * self.drift_ppm / 1e6) + sum(jumps)


@dataclass(frozen=True)
class Dialect:
    """What differs between Kineto files of one execution; HIP files never hold sync rows, whatever `sync_rows` says."""

    time: Literal["us_int", "us_float_base", "epoch_us_3dec"] = "us_float_base"
    sync_rows: Literal["resolved", "none", "unresolved", "virtual_tid", "other_device", "other_stream", "half_lost"] = (
        "resolved"
    )
    """``other_device``: all rows name a device without work, with the right context (as Nsight Systems does).

    ``other_stream``: what the host waits for is said to be a stream without work; ``half_lost``: every other row of a
    host's wait is missing.
    """
    record_rows: bool = True
    node_arrows: bool = False
    """Whether arrows lead between the nodes of a graph launch, as in what PyTorch's Cuspy recorder writes."""
    external_ids: Literal["op", "correlation", "old_lowercase"] = "op"
    vendor: Literal["cuda", "rocm"] = "cuda"
    shuffle_seed: int | None = None
    clock_error_ns: int = 0
    """Added to the times of GPU rows; a negative one lets kernels start before their launch."""
    gpu_clocks: tuple[GpuClock, ...] = ()
    """The clock of each device, by its number; further ones have the host's."""
    offset_ns: int = 0
    """How far the clock of the whole file is ahead at the run's start."""
    drift_ppm: float = 0.0
    """By how many millionths that clock is fast."""

    def absolute_ns(self, ns: int, device: int | None = None) -> int:
        """Return the absolute time that a reader should find for a time of the run, of the host or of a device."""
        ahead = self.offset_ns + round(ns * self.drift_ppm / 1e6)
        if device is not None:
            ahead += self.clock_error_ns
            ahead += self.gpu_clocks[device].ahead_ns(ns) if device < len(self.gpu_clocks) else 0
        exact = EPOCH_NS + ns + ahead
        return exact // 1_000 * 1_000 if self.time == "us_int" else exact

    def timestamp(self, absolute_ns: int) -> Number:
        """Return a `ts` in the dialect's number format."""
        if self.time == "us_int":
            return absolute_ns // 1_000
        if self.time == "us_float_base":
            return (absolute_ns - BASE_NS) / 1_000
        return _three_decimals(absolute_ns)

    def duration(self, ns: int) -> Number:
        """Return a `dur` in the dialect's number format."""
        if self.time == "us_int":
            return ns // 1_000
        return ns / 1_000 if self.time == "us_float_base" else _three_decimals(ns)


def _three_decimals(ns: int) -> Exact:
    return Exact(f"{Exact.MARK}{ns // 1_000}.{ns % 1_000:03d}")
