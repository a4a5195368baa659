"""The fewest insertions and deletions that make one sequence of another (Myers 1986), all diagonals at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hta_graph.model import Bools, Ints

__all__ = ["common_places"]

UNREACHED = -(2**40)
"""A place that no script reaches."""

Hashes = NDArray[np.uint64]


def common_places(left: Ints, right: Ints, limit: int) -> tuple[Ints, Ints] | None:
    """Return a longest common subsequence, in time about edits² + n log n.

    Args:
        left: codes.
        right: codes.
        limit: give up beyond so many insertions and deletions.

    Returns:
        places in ``left`` and in ``right``, both ascending; ``None`` beyond the limit.

    >>> [places.tolist() for places in common_places(np.array([7, 1, 2, 3]), np.array([1, 2, 5, 3]), limit=2) or ()]
    [[1, 2, 3], [0, 1, 3]]
    >>> common_places(np.array([7, 1, 2, 3]), np.array([1, 2, 5, 3]), limit=1)
    """
    agreement = _AgreementLengths(left, right)
    reached: list[Ints] = []
    for edits in range(min(limit, len(left) + len(right)) + 1):
        diagonal = np.arange(-edits, edits + 1, 2)
        place, _ = _one_edit_on(reached, diagonal, len(left), len(right))
        possible = place >= 0
        place[possible] += agreement.lengths(place[possible], (place - diagonal)[possible])
        # Every round is kept: the way back is read off them, about edits² / 2 numbers.
        reached.append(place)
        if (possible & (place == len(left)) & (place - diagonal == len(right))).any():
            return _places_walked_back(reached, len(left), len(right))
    return None


def _one_edit_on(reached: list[Ints], diagonal: Ints, left: int, right: int) -> tuple[Ints, Bools]:
    """Return the farthest place on the left that one more edit reaches on each diagonal, and where it inserts."""
    if not reached:
        return np.zeros(1, np.int64), np.zeros(1, np.bool_)
    before = reached[-1]
    inserted, deleted = np.append(before, UNREACHED), np.append(UNREACHED, before) + 1
    inserted = np.where(inserted - diagonal <= right, inserted, UNREACHED)
    deleted = np.where(deleted <= left, deleted, UNREACHED)
    return np.maximum(inserted, deleted), inserted >= deleted


def _places_walked_back(reached: list[Ints], left: int, right: int) -> tuple[Ints, Ints]:
    """Walk the shortest script back and collect what it leaves alone."""
    runs: list[Ints] = []
    partners: list[Ints] = []
    at, shift = left, left - right
    for edits in range(len(reached) - 1, -1, -1):
        diagonal = np.arange(-edits, edits + 1, 2)
        start, insertion = _one_edit_on(reached[:edits], diagonal, left, right)
        own = shift + edits >> 1  # diagonals of one round lie two apart: -edits, -edits + 2, …
        run = np.arange(int(start[own]), at)
        runs.append(run)
        partners.append(run - shift)
        is_insertion = bool(insertion[own])
        at = int(start[own]) - (not is_insertion)
        shift += 1 if is_insertion else -1
    return np.concatenate(runs[::-1]), np.concatenate(partners[::-1])


class _AgreementLengths:
    """How far two sequences agree from any two places on, by hashes of passages of 1, 2, 4, ... codes."""

    def __init__(self, left: Ints, right: Ints) -> None:
        self._ends = len(left), len(right)
        self._hashes = [(left.astype(np.uint64), right.astype(np.uint64))]
        # As long as a passage fits into both; passages may overlap, so that one begins at every place.
        while 2 ** len(self._hashes) <= min(self._ends):
            half = 2 ** (len(self._hashes) - 1)
            self._hashes.append(
                (_doubled_passages(self._hashes[-1][0], half), _doubled_passages(self._hashes[-1][1], half))
            )

    def lengths(self, left: Ints, right: Ints) -> Ints:
        """Return how many codes agree from each pair of places on."""
        i, j = left.copy(), right.copy()
        # Longest passages first: what agrees is passed over, so each length is tried once per pair.
        for power in range(len(self._hashes) - 1, -1, -1):
            ours, theirs = self._hashes[power]
            inside = (i < len(ours)) & (j < len(theirs))
            same = inside.copy()
            same[inside] = ours[i[inside]] == theirs[j[inside]]
            i += same * 2**power
            j += same * 2**power
        return i - left


def _doubled_passages(hashes: Hashes, half: int) -> Hashes:
    """Hash passages of twice the length; there are fewer places where they fit."""
    first, second = hashes[:-half], hashes[half:]
    mixed = (first * np.uint64(0x9E3779B97F4A7C15)) ^ (second + (first >> np.uint64(29)))
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9)
    return mixed ^ (mixed >> np.uint64(29))
