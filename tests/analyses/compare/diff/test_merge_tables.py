"""Medians over the stretches of two runs are those of whole tables, however few rows are laid out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analyses.compare.diff import merge_tables
from analyses.compare.diff.merge_tables import SideRows, merge_medians
from analyses.compare.diff.noise import LEAST_OF_STEPS, band_of_spreads, spread_of_rows
from hta_graph.model import Floats


def table(rng: np.random.Generator, names: int, stretches: int) -> Floats:
    """Times of names in stretches, of which each name has a share of its own; 0 where it is not."""
    present = rng.random((names, stretches)) < rng.random((names, 1))
    return np.where(present, rng.integers(1, 1_000, (names, stretches)), 0).astype(float)


def rows_of_side(whole: Floats) -> SideRows:
    name, stretch = np.nonzero(whole)
    return SideRows(whole.shape[1], pd.DataFrame({"window": stretch, "name": name, "ns": whole[name, stretch]}))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("at_once", [1, 50, 1 << 22])
@pytest.mark.parametrize("counts", [(1, 1), (2, 3), (3, 4), (7, 6), (20, 21)])
def test_medians_and_noise_are_those_of_whole_tables(
    counts: tuple[int, int], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_tables, "LARGEST_TABLE", at_once)
    rng = np.random.default_rng(sum(counts))
    sides = [table(rng, 40, count) for count in counts]
    found = merge_medians([rows_of_side(side) for side in sides], ["name"], ["ns"], None).set_index("name")
    assert set(found.index) == set(np.flatnonzero(np.hstack(sides).any(axis=1)))
    medians = [np.median(side, axis=1) for side in sides]
    longer = np.maximum(*(median.round() for median in medians))
    band = band_of_spreads(*((spread_of_rows(side), side.shape[1]) for side in sides))
    noise = np.ceil(np.maximum(band, LEAST_OF_STEPS * longer))
    for name, row in found.iterrows():
        assert [row["control_ns"], row["test_ns"]] == [median[name].round() for median in medians]
        assert row["noise_ns"] == noise[name]


def test_rows_of_several_kinds_are_those_of_each_kind_by_its_share() -> None:
    """Two windows of three are of one kind; medians over all three would leave the other one out."""
    kinds = np.array([0, 1, 0]), np.array([1, 0, 0])
    sides = [np.array([[10.0, 90, 12]]), np.array([[95.0, 11, 13]])]
    rows = [replace(rows_of_side(side), kind=kind) for side, kind in zip(sides, kinds, strict=True)]
    found = merge_medians(rows, ["name"], ["ns"], None).iloc[0]
    assert [found["control_ns"], found["test_ns"]] == [round((2 * 11 + 90) / 3), round((2 * 12 + 95) / 3)]
