"""Hashes of texts and of rows of several columns that are the same in every process and on every machine."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np

from hta_graph.model import Ints


def hash_rows(*columns: np.ndarray[Any, Any]) -> Ints:
    """Make one number of several for each row: other numbers make another one, for all practical purposes; none is < 0.

    >>> one, other = hash_rows(np.array([1, 2]), np.array([2, 1])).tolist()
    >>> one != other and min(one, other) >= 0
    True
    """
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        # Each round spreads every bit over all others (the finalizer of SplitMix64, Steele et al., OOPSLA 2014).
        mixed = (mixed ^ column.astype(np.int64).view(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(1)).astype(np.int64)


def hash_texts(texts: Iterable[str]) -> Ints:
    """Return for each text a number that is its own wherever it occurs.

    >>> first, second, again = hash_texts(["mm", "add", "mm"]).tolist()
    >>> first == again != second
    True
    """
    digests = [blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), np.int64)
