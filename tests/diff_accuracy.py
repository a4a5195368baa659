"""How often does ``diff`` find a slower program, and how often a difference between equal programs?

``python -m tests.diff_accuracy [FOLDER…]`` prints three tables. Equal programs: pairs of simulated runs, and of the
recordings in the folders (default: the shared ones): the halves and the odd and even steps of each rank and job, and
single steps of one kind; a folder is compared with its repetition, whose name has a 2 at its end. Slower programs:
simulated runs whose steps, or those of one kind, take longer by a share. Slower kernels: one kernel of 42% of an
iteration takes longer.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import hta_graph as hg
from analyses.compare.diff.job_diff import between_jobs
from analyses.compare.diff.job_side import JobSide, side_of_job
from analyses.compare.diff.length_comparison import Comparison, compare
from analyses.compare.diff.run_diff import answer_of_comparison, between_runs
from analyses.compare.diff.sides import Neighbors, Side, sides_of_steps
from analyses.compare.diff.step_kinds import kinds_of_steps
from hta_graph.base.errors import HtaGraphError
from hta_graph.model import Ints
from tests.support.noisy_runs import noisy_run
from tests.support.shared_traces import SHARED
from tests.support.step_programs import OF_ONE_KIND, SCRIPTS, drifting, stalling, wandering

KERNEL = "ampere_sgemm_64x32_tn"
PAIRS = 24
ASKED = ((0.03, 8), (0.03, 3), (0.03, 1), (0.05, 8), (0.05, 2), (0.1, 8), (0.1, 4), (0.3, 8))
"""The noise of every piece of work, and how many steps are compared."""
STEPS = ((12, 12), (6, 6), (3, 3), (5, 8))
"""How many steps of each side are recorded, besides the warm-up."""
SLOWER = (0.01, 0.02, 0.05, 0.1)
GATES = (0.01, 0.05)
SINGLE_STEPS = 6
"""How many pairs of steps of a rank are compared."""
CHANGING = re.compile(r".*_(once|since|fault).*")
"""Recordings that change on the way: steps before and after a fault begins."""
Pace = Callable[[int], float]


@dataclass
class Tally:
    """Pairs of programs: how many were called different, how many fail at each gate, and what was detectable."""

    pairs: int = 0
    different: int = 0
    failed: Counter[float] = field(default_factory=Counter)
    noise: list[float] = field(default_factory=list)

    def add(self, found: Comparison[Any]) -> None:
        """Count a comparison."""
        change = found.change
        self.pairs += 1
        self.different += found.beyond_noise
        self.noise.append(found.noise_share)
        for gate in GATES:
            usual = change.difference_ns > max(change.noise_ns, gate * change.control_ns)
            summed = change.summed_ns > max(change.summed_noise_ns, gate * change.means_ns[0])
            self.failed[gate] += not found.refused and (usual or summed)

    def join(self, other: Tally) -> None:
        """Count the pairs of another tally, too."""
        self.pairs, self.different = self.pairs + other.pairs, self.different + other.different
        self.failed.update(other.failed)
        self.noise += other.noise

    def text(self) -> str:
        """Return the counts."""
        gates = ", ".join(f"{self.failed[gate]} above {gate:.0%}" for gate in GATES)
        noise = f"detectable ±{median(self.noise):.1%}" if self.noise else "none"
        return f"{self.different} of {self.pairs} different; {gates}; {noise}"


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _paces(seed: int) -> dict[str, Pace]:
    """Return how steps of one run vary together."""
    return {
        "independent": lambda _: 1.0,
        "resembling": wandering(seed, 0.02),
        "drifting": drifting(0.005),
        "stalling": stalling(seed, 0.15, 1.4),
    }


def equal_simulated(folder: Path, seeds: int) -> Tally:
    """Compare equal programs."""
    every = Tally()
    for script in SCRIPTS:
        for kind in _paces(0):
            own = Tally()
            for seed in range(seeds):
                own.add(_equal_pair(folder, script, kind, seed))
            _print(f"equal, {script}, {kind}: {own.text()}")
            every.join(own)
    return every


def _equal_pair(folder: Path, script: str, kind: str, seed: int) -> Comparison[Side]:
    steps = STEPS[seed % len(STEPS)]
    control, test = (
        noisy_run(folder, own, steps=count + 1, script=SCRIPTS[script], pace_of=_paces(own)[kind])
        for own, count in zip((2 * seed, 2 * seed + 1), steps, strict=True)
    )
    return between_runs(control, test)


def slower_simulated(folder: Path, pairs: int) -> None:
    """Compare programs whose steps, all or those of one kind, take longer."""
    for script in SCRIPTS:
        for chosen, where in ((None, "all steps"), (OF_ONE_KIND.get(script), "one kind of steps")):
            if chosen is None and where != "all steps":
                continue
            for share in SLOWER:
                found = _slower_pairs(folder, script, _slower(share, chosen), pairs)
                _print(f"slower by {share:.0%} in {where}, {script}: {found.text()}")


def _slower_pairs(folder: Path, script: str, pace: Pace, pairs: int) -> Tally:
    own = Tally()
    for seed in range(pairs):
        control = noisy_run(folder, 1_000 + 2 * seed, steps=13, script=SCRIPTS[script])
        test = noisy_run(folder, 1_001 + 2 * seed, steps=13, script=SCRIPTS[script], pace_of=pace)
        own.add(between_runs(control, test))
    return own


def _slower(share: float, chosen: Callable[[int], bool] | None) -> Pace:
    return lambda number: 1 + share * (chosen is None or chosen(number))


def _splits(count: int) -> Iterator[tuple[Ints, Ints]]:
    """Divide steps into their halves, and into odd and even ones."""
    places = np.arange(count)
    if count >= 2:
        yield places[: count // 2], places[count // 2 :]
    if count > 2:
        yield places[::2], places[1::2]


def _some_steps(side: Side, places: Ints) -> Side:
    own = places.tolist()
    return replace(
        side, scopes=[side.scopes[at] for at in own], paths=[side.paths[at] for at in own], representative=-1, steps=()
    )


def _single_step(side: Side, place: int) -> Side:
    around = Neighbors(side.numbers, side.lengths_ns, side.scopes)
    return replace(_some_steps(side, np.array([place])), neighbors=around)


def _some_job_steps(side: JobSide, places: Ints) -> JobSide:
    return replace(side, lengths_ns=side.lengths_ns[places], numbers=side.numbers[places])


def _traces_in(folders: Sequence[Path]) -> list[list[Path]]:
    """Return the ranks of each recording."""
    found = []
    for folder in sorted({path.parent for root in folders for path in root.rglob("*.json.gz")}):
        ranks = [path for path in sorted(folder.glob("*.json.gz")) if re.search(r"rank_?\d+", path.name)]
        found.append([path for path in ranks if not path.name.startswith("host_et")])
    return [ranks for ranks in found if ranks and not CHANGING.fullmatch(ranks[0].parent.name)]


def equal_recorded(folders: Sequence[Path]) -> Tally:
    """Compare the parts of each recording, and recordings with their repetitions."""
    tallies = {name: Tally() for name in ("halves of a rank", "single steps", "halves of a job", "repetitions")}
    sides: dict[str, dict[str, Side]] = {}
    for ranks in _traces_in(folders):
        own = sides.setdefault(ranks[0].parent.name, {})
        for path in ranks:
            try:
                graph = hg.build_graph(hg.read_trace(path))
                side = sides_of_steps((graph, graph))[0]
            except HtaGraphError:
                continue
            own[path.name] = side
            _compare_parts(side, tallies, f"{path.parent.name}/{path.name}")
        if len(own) > 1:
            _compare_job_parts([path for path in ranks if path.name in own], own, tallies)
    for name, own in sides.items():
        for rank, side in sides.get(f"{name}2", {}).items():
            if rank in own:
                _add(tallies["repetitions"], compare(own[rank], side), f"{name} {rank}")
    every = Tally()
    for name, own_tally in tallies.items():
        _print(f"equal, {name}: {own_tally.text()}")
        every.join(own_tally)
    return every


def _add(tally: Tally, found: Comparison[Any], name: str) -> None:
    tally.add(found)
    if found.beyond_noise:
        _print(f"  {name}: {found.change_share:+.1%}, noise {found.noise_share:.1%}")


def _compare_parts(side: Side, tallies: dict[str, Tally], name: str) -> None:
    for one, other in _splits(len(side.paths)):
        found = compare(_some_steps(side, one), _some_steps(side, other))
        _add(tallies["halves of a rank"], found, f"{name} {one} {other}")
    kind = kinds_of_steps(side.scopes, side.scopes).control
    alike = [(left, right) for left, right in combinations(range(len(kind)), 2) if kind[left] == kind[right]]
    for left, right in alike[:SINGLE_STEPS]:
        found = compare(_single_step(side, left), _single_step(side, right))
        _add(tallies["single steps"], found, f"{name} {left} {right}")


def _compare_job_parts(paths: Sequence[Path], ranks: dict[str, Side], tallies: dict[str, Tally]) -> None:
    try:
        side = side_of_job(hg.read_job(paths))
    except HtaGraphError:
        return
    of_rank = ranks[paths[0].name]
    for one, other in _splits(len(side.lengths_ns)):
        numbers = [set(side.numbers[places].tolist()) for places in (one, other)]
        parts = [
            _some_steps(of_rank, np.flatnonzero([number in own for number in of_rank.numbers.tolist()]))
            for own in numbers
        ]
        if all(len(part.paths) for part in parts):
            found = between_jobs(_some_job_steps(side, one), _some_job_steps(side, other), compare(*parts))
            _add(tallies["halves of a job"], found, f"{paths[0].parent.name} {one} {other}")


def called_different(folder: Path, spread: float, steps: int, factor: float) -> tuple[int, int, int]:
    """Return how many pairs differ, in how many the kernel is named, and how many say that only a part changed."""
    different = named = only_a_part = 0
    for pair in range(PAIRS):
        seed = 1_000 * steps + 2 * pair
        control = noisy_run(folder, seed, steps=steps + 1, spread=spread)
        test = noisy_run(folder, seed + 1, steps=steps + 1, spread=spread, slower={KERNEL: factor})
        found = between_runs(control, test)
        said = " ".join(answer_of_comparison(found).opening)
        different += found.beyond_noise
        named += KERNEL in said
        only_a_part += "changed beyond noise" in said
    return different, named, only_a_part


def slower_kernels(folder: Path) -> None:
    """Print a line for every noise, number of steps and factor."""
    for factor in (1.1, 1.0):
        for spread, steps in ASKED:
            different, named, part = called_different(folder, spread, steps, factor)
            told = f"different {different}, kernel named {named}, only a part {part} of {PAIRS}"
            _print(f"kernel × {factor}, noise {spread:.0%}, {steps} steps: {told}")


def main(folders: Sequence[Path]) -> None:
    """Print all tables."""
    with tempfile.TemporaryDirectory() as folder:
        _print(f"equal programs, simulated: {equal_simulated(Path(folder), PAIRS).text()}")
        _print(f"equal programs, recorded: {equal_recorded(folders).text()}")
        slower_simulated(Path(folder), PAIRS)
        slower_kernels(Path(folder))


if __name__ == "__main__":
    main(
        [Path(name) for name in sys.argv[1:]]
        or [SHARED / name for name in ("traces", "traces_more", "gloo", "gloo_more")]
    )
