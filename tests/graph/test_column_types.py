"""The types of a table's columns are those that its class declares."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from hta_graph import model
from hta_graph.arrays import Columns, column_types
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
