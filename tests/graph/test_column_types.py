"""The types of a table's columns are those that its class declares."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest

from hta_graph import model
from hta_graph.base.arrays import Columns, column_types
from hta_graph.model import Bools, Codes, Floats, Ids, Ints


@dataclass(frozen=True)
class EveryType(Columns):
    """A table with a column of each type."""

    bools: Bools
    codes: Codes
    floats: Floats
    ids: Ids
    ints: Ints


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["Bools", "Codes", "Floats", "Ids", "Ints"])
def test_a_column_has_the_type_that_its_annotation_names(name: str) -> None:
    # Each NumPy shows the alias in its own way, with the name of the scalar in it.
    assert f"numpy.{column_types(EveryType)[name.lower()]}" in repr(getattr(model, name)).replace("bool_", "bool")


def test_a_selected_table_has_the_columns_that_it_had() -> None:
    """Columns are copied when they are asked for, and what is not wanted any longer is let go."""
    table = EveryType.of(bools=[True, False, True], codes=[1, 2, 3], floats=0.5, ids=[4, 5, 6], ints=[7, 8, 9])
    taken = table.take(np.array([2, 0])).take(np.array([True, False]))
    assert "_taken_from" in vars(taken)
    assert (len(taken), taken.ids.tolist(), taken.ints.flags.writeable) == (1, [6], False)
    again, other = pickle.loads(pickle.dumps(taken)), replace(taken, ids=np.array([1], np.int32))  # noqa: S301
    assert (again.codes.tolist(), other.floats.tolist(), other.ids.tolist()) == ([3], [0.5], [1])
    assert "_taken_from" not in vars(taken)
    for of in (taken, again, table.take(slice(1))):
        with pytest.raises(AttributeError, match="'EveryType' object has no attribute 'unknown'"):
            _ = of.unknown  # type: ignore[attr-defined]
