"""A DataFrame of one row that a terminal shows whole."""

from __future__ import annotations

import pandas as pd


class SummaryFrame(pd.DataFrame):
    """One row of many columns, printed as one line per column; everything derived from it is a plain DataFrame."""

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def __repr__(self) -> str:
        return self.iloc[0].to_string() if len(self) == 1 else super().__repr__()
