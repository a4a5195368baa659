"""Answers about a simulated job beside its truth, and about one some of whose files are broken."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Verdict", "checked", "corrupted", "is_same_answer"]

Tables = dict[str, list[dict[str, Any]]]


@dataclass
class Verdict:
    """What was looked at, and whether it was as it should be."""

    looks: list[tuple[bool, str]] = field(default_factory=list)

    def add(self, is_right: bool, what: str) -> None:
        """Note one thing that was looked at."""
        self.looks.append((is_right, what))

    @property
    def is_right(self) -> bool:
        """Tell whether all was as it should be."""
        return all(right for right, _ in self.looks)

    def __str__(self) -> str:
        return "; ".join(what if right else f"WRONG: {what}" for right, what in self.looks) or "-"


def checked(question: str, answer: Path, truth: dict[str, Any]) -> Verdict:
    """Compare an answer with the truth, where that is known."""
    verdict = Verdict()
    if question in CHECKS:
        document = json.loads(answer.read_text(encoding="utf-8"))
        CHECKS[question](document.get("tables", document), truth, verdict)
    return verdict


def _check_collectives(tables: Tables, truth: dict[str, Any], verdict: Verdict) -> None:
    expected = sum(len(one["groups"]) for one in truth["collectives"])
    members = tables["members"]
    lone = sum(member["number"] is None for member in members)
    complete = sum(not one["missing"] for one in tables["collectives"])
    verdict.add(lone == 0 and complete == expected, f"{complete} of {expected} collectives matched")
    waits: Counter[int] = Counter()
    for member in members:
        waits[member["rank"]] += member["wait_ns"] or 0
    off = max(abs(waits[rank] - own) for rank, own in enumerate(truth["waits_ns"]))
    # Clocks of several hosts are estimated, those of one are not.
    several = truth["shape"]["ranks"] > truth["shape"]["ranks_per_host"]
    verdict.add(off == 0 or several, "waits exact" if off == 0 else f"a rank's waits up to {off:,} ns off")


def _check_stragglers(tables: Tables, truth: dict[str, Any], verdict: Verdict) -> None:
    injected, first = truth["injected"], tables["causes"][0]
    name = injected["kernel" if injected["on"] == "gpu" else "operator"]
    is_it = (first["rank"], first["name"]) == (injected["rank"], name)
    verdict.add(is_it, f"first cause is {first['name']} of rank {first['rank']}")


def _check_what_if(found: dict[str, Any], truth: dict[str, Any], verdict: Verdict) -> None:
    del truth
    verdict.add(found["measured_ns"] == found["identity_ns"], "as recorded to the nanosecond")
    sums = {sum(found["path_before"][by].values()) for by in ("by_bound_ns", "by_rank_ns")}
    verdict.add(sums == {found["measured_ns"]}, f"{len(found['opportunities'])} opportunities")


CHECKS: dict[str, Callable[[Any, dict[str, Any], Verdict], None]] = {
    "collectives": _check_collectives,
    "stragglers": _check_stragglers,
    "what-if": _check_what_if,
}


# -- broken files -----------------------------------------------------------------------------------------------------


def corrupted(folder: Path, out: Path, share: float, seed: int) -> tuple[Path, Path, list[str]]:
    """Return a folder some of whose files are broken, one without these files, and their names."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    rng = random.Random(f"broken {seed}")
    chosen = {path.name for path in rng.sample(files, max(1, round(share * len(files))))}
    whole, left = out / "whole", out / "left"
    for place in (whole, left):
        place.mkdir(parents=True)
    for path in files:
        if path.name in chosen:
            (whole / path.name).write_bytes(_broken(path.read_bytes(), rng))
        else:
            for place in (whole, left):
                (place / path.name).symlink_to(path.resolve())
    return whole, left, sorted(chosen)


def _broken(data: bytes, rng: random.Random) -> bytes:
    """Return a file that breaks off, one that is no archive, or an empty one."""
    return rng.choice([data[: len(data) // 2], bytes(range(256)) * 8, b""])


def is_same_answer(one: Path, other: Path, folder: Path, other_folder: Path) -> bool:
    """Tell whether two answers are the same but for where the files stand and for what is told about those left out."""
    found = one.read_text(encoding="utf-8").replace(str(folder), ""), other.read_text(encoding="utf-8")
    first, second = json.loads(found[0]), json.loads(found[1].replace(str(other_folder), ""))
    return all(first.get(key) == second.get(key) for key in first.keys() | second.keys() if key not in BESIDE)


BESIDE = ("notes", "left_out")
