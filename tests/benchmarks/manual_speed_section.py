"""The manual's section about speed: the benchmark against HTA writes it into ``docs/evidence/index.md``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

from tests.benchmarks.hta_comparison import HTA, HTA_ALONE, HTA_LOAD, IN_PROCESS, LOADS, OURS, Measured, ratio
from tests.benchmarks.machine_description import machine

__all__ = ["BEGIN", "END", "speed_section", "write_speed_section"]

BEGIN, END = "<!-- speed -->", "<!-- end of speed -->"


def speed_section(beside: Sequence[Measured], repeated: Sequence[Measured], rounds: int, day: date) -> list[str]:
    """Return the section's lines: what was measured and where, a column per trace, and what repeated traces took."""
    return [
        "The critical path of a whole trace, from a cold process to the written JSON. It is compared with HTA",
        f"{_hta(beside)}, which loads the trace and runs its `critical_path_analysis`. It is also compared with a",
        "process that only runs `json.loads(gzip.open(FILE).read())`. The processes start cold and run in turn; the",
        f"table shows medians of {rounds} rounds, {day.isoformat()}, on {machine()}",
        "(`python -m tests.benchmarks.hta_comparison`):",
        "",
        f"| | {' | '.join(_trace(measured) for measured in beside)} |",
        "|---" * (1 + len(beside)) + "|",
        *(f"| {what} | {' | '.join(cells)} |" for what, cells in _rows(beside)),
        "",
        *_of_repeated(repeated),
    ]


def _hta(beside: Sequence[Measured]) -> str:
    versions = beside[0].sizes["versions"]
    return f"{versions['traceinsight']} (`traceinsight`, pandas {versions['pandas']})"


def _trace(measured: Measured) -> str:
    text, events = measured.sizes["text_bytes"], measured.sizes["events"]
    return f"`{measured.name}`, {text / 1e6:.0f} MB, {events / 1e3:,.0f} k events"


def _rows(beside: Sequence[Measured]) -> Iterator[tuple[str, list[str]]]:
    yield "speed relative to `json.loads` alone", [_times(one.ratio(LOADS, OURS)) for one in beside]
    yield "speed relative to HTA, start to exit", [_times(one.ratio(HTA, OURS)) for one in beside]
    yield "speed relative to HTA's load and path without its start", [_times(_beside_stages(one)) for one in beside]
    yield "graph and path alone, speed relative to HTA's", [_times(one.ratio(HTA_ALONE, IN_PROCESS)) for one in beside]
    yield "peak memory relative to `json.loads`", [f"{one.peaks[OURS] / one.peaks[LOADS]:.1f} ×" for one in beside]


def _beside_stages(measured: Measured) -> tuple[float, float]:
    stages = zip(measured.times[HTA_LOAD], measured.times[HTA_ALONE], strict=True)
    return ratio([(load[0] + path[0], load[1] + path[1]) for load, path in stages], measured.times[OURS])


def _times(found: tuple[float, float]) -> str:
    by_the_clock, _ = found
    return f"{by_the_clock:.1f} ×" if by_the_clock < 10 else f"{by_the_clock:.0f} ×"


def _of_repeated(repeated: Sequence[Measured]) -> Iterator[str]:
    for many in repeated[1:]:
        text, events = many.sizes["text_bytes"] / 1e9, many.sizes["events"] / 1e6
        seconds = min(wall for wall, _ in many.times[OURS])
        peak = many.peaks[OURS] / 1e9
        yield f"`{many.name}`: {text:.1f} GB and {events:.1f} million events take {seconds:.0f} s and {peak:.1f} GB."
    sizes = repeated[0].sizes
    yield f"An edge takes {sizes['edge_bytes'] / max(sizes['edges'], 1):.0f} bytes."


def write_speed_section(page: Path, lines: Sequence[str]) -> None:
    """Replace what stands between the marks of a page.

    Raises:
        ValueError: the page has not both marks.
    """
    before, begin, rest = page.read_text(encoding="utf-8").partition(f"{BEGIN}\n")
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page}: has no lines {BEGIN} and {END}")
    page.write_text("".join([before, begin, *(f"{line}\n" for line in lines), end, after]), encoding="utf-8")
