"""Two recordings of one sequence, aligned: long passages that occur once anchor it, repeats follow from both sides.

What is left between two matches is matched by the fewest insertions and deletions (Myers 1986), all diagonals at a
time.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from hta_graph.base.arrays import occurrence_numbers
from hta_graph.model import Bools, Ids, Ints

UNREACHED = -(2**40)
"""A place that no script reaches."""

Hashes = NDArray[np.uint64]


def longest_common_subsequence(left: Ints, right: Ints, limit: int) -> tuple[Ints, Ints] | None:
    """Return a longest common subsequence, in time about edits² + n log n.

    Args:
        left: codes.
        right: codes.
        limit: give up beyond this number of insertions and deletions.

    Returns:
        places in ``left`` and in ``right``, both ascending; ``None`` beyond the limit.

    >>> found = longest_common_subsequence(np.array([7, 1, 2, 3]), np.array([1, 2, 5, 3]), limit=2)
    >>> [places.tolist() for places in found or ()]
    [[1, 2, 3], [0, 1, 3]]
    >>> longest_common_subsequence(np.array([7, 1, 2, 3]), np.array([1, 2, 5, 3]), limit=1)
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
            return _backtrack_matches(reached, len(left), len(right))
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


def _backtrack_matches(reached: list[Ints], left: int, right: int) -> tuple[Ints, Ints]:
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


PASSAGE_LENGTHS = (64, 16, 4, 1)
"""Lengths of the passages that may anchor the alignment, longest first (powers of two)."""

MAX_EDITS = 4_000
"""The most insertions and deletions that are considered, half of them at most between two neighboring matches."""

Keys = NDArray[np.uint64]


def align(left: Ids | Ints, right: Ids | Ints) -> tuple[Ints, Ints]:
    """Match equal codes of two sequences in order, in near-linear time.

    Passages that occur once in both, between two neighboring matches, are matched first and extended while the codes
    agree. What remains is matched by the fewest edits, where a few thousand are enough, else occurrence by occurrence.
    A longest common subsequence is not promised: what stands around a loop's passes says more than the number of
    matches does.

    Returns:
        places in ``left`` and in ``right``, both ascending.

    >>> [places.tolist() for places in align(np.array([7, 1, 2, 3]), np.array([1, 2, 5, 3]))]
    [[1, 2, 3], [0, 1, 3]]
    """
    pairs = _Matches(np.asarray(left, np.int64), np.asarray(right, np.int64))
    pairs.extend()
    for length in PASSAGE_LENGTHS:
        pairs.match(_passage_keys(pairs.left, length), _passage_keys(pairs.right, length))
    pairs.match_by_edits()
    pairs.match_occurrences()
    return pairs.places()


class _Matches:
    """The matches so far: for each place on the left the one on the right, -1 where none is known."""

    def __init__(self, left: Ints, right: Ints) -> None:
        self.left, self.right = left, right
        self._partner = np.full(len(left), -1, np.int64)

    def places(self) -> tuple[Ints, Ints]:
        """Return the matched places."""
        matched = np.flatnonzero(self._partner >= 0)
        return matched, self._partner[matched]

    def match(self, left_keys: Keys, right_keys: Keys) -> None:
        """Match places whose keys agree and occur once on either side between two neighboring matches; extend them."""
        left, right, left_gap, right_gap = self._unmatched_places()
        i, j = _unique_to_both(_mixed_keys(left_keys[left], left_gap), _mixed_keys(right_keys[right], right_gap))
        self._add_matches(left[i], right[j])

    def match_occurrences(self) -> None:
        """Match the n-th occurrence of a code between two neighboring matches with the n-th one there."""
        left, right, left_gap, right_gap = self._unmatched_places()
        left_keys = _mixed_keys(self.left[left].astype(np.uint64), left_gap)
        right_keys = _mixed_keys(self.right[right].astype(np.uint64), right_gap)
        i, j = _unique_to_both(
            _mixed_keys(left_keys, occurrence_numbers(left_keys)),
            _mixed_keys(right_keys, occurrence_numbers(right_keys)),
        )
        self._add_matches(left[i], right[j])

    def match_by_edits(self) -> None:
        """Match what the fewest insertions and deletions leave alone, between two neighboring matches at a time."""
        budget = MAX_EDITS
        for left, right in self._unmatched_gaps():
            limit = min(budget, MAX_EDITS // 2)
            found = longest_common_subsequence(self.left[left], self.right[right], limit)
            kept = 0 if found is None else len(found[0])
            # A stretch given up costs all that was tried; one that was matched costs its insertions and deletions.
            budget -= limit if found is None else left.stop - left.start + right.stop - right.start - 2 * kept
            if found is not None:
                self._add_matches(left.start + found[0], right.start + found[1])

    def extend(self) -> None:
        """Match what follows and precedes the matches as long as the codes agree.

        left    A  x y . . z  B        from A forward while codes agree, then from B backward; the parts
        right   A  x y . z  B          between two matches are walked at most once, so the whole is linear
        """
        left, right = self.left.tolist(), self.right.tolist()
        matched, partner = (places.tolist() for places in self.places())
        # A match before the first place and one behind the last bound the outer stretches.
        begins = zip([-1, *matched], [-1, *partner], strict=True)
        ends = zip([*matched, len(left)], [*partner, len(right)], strict=True)
        for begin, end in zip(begins, ends, strict=True):
            i, j = begin[0] + 1, begin[1] + 1
            while i < end[0] and j < end[1] and left[i] == right[j]:
                self._partner[i] = j
                i, j = i + 1, j + 1
            m, n = end[0] - 1, end[1] - 1
            while m >= i and n >= j and left[m] == right[n]:
                self._partner[m] = n
                m, n = m - 1, n - 1

    def _unmatched_gaps(self) -> list[tuple[slice, slice]]:
        """List the unmatched parts between neighboring matches that both sides have."""
        matched, partner = self.places()
        begin = np.append(-1, matched) + 1, np.append(-1, partner) + 1
        end = np.append(matched, len(self.left)), np.append(partner, len(self.right))
        both = np.flatnonzero((begin[0] < end[0]) & (begin[1] < end[1]))
        left = map(slice, begin[0][both].tolist(), end[0][both].tolist())
        right = map(slice, begin[1][both].tolist(), end[1][both].tolist())
        return list(zip(left, right, strict=True))

    def _unmatched_places(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Return the unmatched places of both sides, and between which matches each lies."""
        matched, partner = self.places()
        taken = np.zeros(len(self.right), np.bool_)
        taken[partner] = True
        left, right = np.flatnonzero(self._partner < 0), np.flatnonzero(~taken)
        return left, right, np.searchsorted(matched, left), np.searchsorted(partner, right)

    def _add_matches(self, left: Ints, right: Ints) -> None:
        # Hashes may collide, and anchors may cross: keep what really agrees and lies in order on both sides.
        same = self.left[left] == self.right[right]
        left, right = left[same], right[same]
        kept = _longest_increasing(right)
        self._partner[left[kept]] = right[kept]
        if len(kept):
            self.extend()


def _passage_keys(codes: Ints, length: int) -> Keys:
    """Hash the passage that begins at each place, by doubling; past the end follows nothing."""
    keys = _scrambled_keys(codes.astype(np.uint64) + np.uint64(1))
    size = 1
    while size < length:
        following = np.zeros(len(keys), np.uint64)
        following[:-size] = keys[size:]
        # A passage of twice the length is its two halves.
        keys = _mixed_keys(keys, following)
        size *= 2
    return keys


def _mixed_keys(keys: Keys, other: Keys | Ints) -> Keys:
    return _scrambled_keys(keys * np.uint64(0x9E3779B97F4A7C15) + other.astype(np.uint64))


def _scrambled_keys(keys: Keys) -> Keys:
    """Spread keys over 64 bits (the finaliser of splitmix64)."""
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


def _unique_to_both(left: Keys, right: Keys) -> tuple[Ints, Ints]:
    """Return the places of the keys that occur once on either side, in order of the left ones."""
    i, j = _places_of_unique(left), _places_of_unique(right)
    _, at_left, at_right = np.intersect1d(left[i], right[j], assume_unique=True, return_indices=True)
    order = np.argsort(i[at_left])
    return i[at_left][order], j[at_right][order]


def _places_of_unique(keys: Keys) -> Ints:
    _, first, count = np.unique(keys, return_index=True, return_counts=True)
    once: Ints = first[count == 1]
    return once


def _longest_increasing(values: Ints) -> Ints:
    """Return the places of a longest strictly increasing subsequence (patience sorting)."""
    if (values[1:] > values[:-1]).all():
        return np.arange(len(values))
    # tops[p] is the least value that ends an increasing chain of p + 1 values; each value goes on the first pile that
    # is not below it, and remembers the top of the pile before: the chain back from the last pile is a longest one.
    tops: list[int] = []
    top_at: list[int] = []
    before = [-1] * len(values)
    for at, value in enumerate(values.tolist()):
        pile = bisect_left(tops, value)
        before[at] = top_at[pile - 1] if pile else -1
        tops[pile : pile + 1] = [value]
        top_at[pile : pile + 1] = [at]
    chain: list[int] = []
    at = top_at[-1]
    while at >= 0:
        chain.append(at)
        at = before[at]
    return np.array(chain[::-1], np.int64)
