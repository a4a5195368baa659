"""What causes a difference: rows of the critical path, in the steps that show it.

The usual step is compared by medians. Of steps that hang, of a level, of a trend or of one kind of steps, the means of
those steps are compared with the means of the steps that show what they would take without.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analyses.compare.diff.comparable_names import OTHERS
from analyses.compare.diff.differences import Difference
from analyses.compare.diff.job_diff import job_causes, job_names, job_ranks
from analyses.compare.diff.job_side import JobSide
from analyses.compare.gate.compare_profiles import ProfileComparison
from analyses.display.sentence_format import steps_named
from hta_graph.model import Floats, Ints

LEAST_PART = 0.1
"""The share of the difference from which on a row accounts for it."""
CAUSES_LISTED = 10
DOMINANT_SHARE = 0.5
ROW_ERRORS = 3.0
ENOUGH_NAMES, LEAST_NAME, MOSTLY, LEAST_OTHERS = 3, 0.01, 0.8, 0.1
"""How many names, each with which share of the time, must grow alike, in which share of their time, and of all time."""


class _Steps(NamedTuple):
    """Windows of a side, by their places in its rows."""

    side: JobSide
    windows: Ints

    @classmethod
    def of(cls, side: JobSide, numbers: Ints) -> _Steps:
        """Select the windows of steps, given by their numbers."""
        return cls(side, np.flatnonzero(np.isin(np.array(side.path_numbers), numbers)))

    def table(self, name: str, keys: list[str], value: str) -> pd.DataFrame:
        """Return a value of each window (columns) by keys; 0 where a window has none."""
        frame: pd.DataFrame = getattr(self.side.rows, name)
        kept = frame[frame["window"].isin(self.windows)]
        found = kept.pivot_table(index=keys, columns="window", values=value, aggfunc="sum", fill_value=0)
        return found.reindex(columns=self.windows, fill_value=0)


def causes(found: ProfileComparison, main: Difference) -> list[dict[str, Any]]:
    """List what changed on the critical path in the direction of the difference, what explains most of it first.

    Rows within their noise come after the others; of a job the rank is named that a row is mostly on.
    """
    rows = _path_rows(found, main)
    ranks = _ranks_of_names(found, main)
    listed = []
    for row in rows.head(CAUSES_LISTED).to_dict("records"):
        share = row["diff_ns"] / main.difference if main.difference else 0.0
        if share < LEAST_PART:
            continue
        listed.append(
            {
                "name": row["name"],
                "bound_by": row["bound_by"],
                "rank": ranks.get(row["name"]),
                "baseline_ns": int(row["control_ns"]),
                "new_ns": int(row["test_ns"]),
                "diff_ns": int(row["diff_ns"]),
                "noise_ns": int(row["noise_ns"]),
                "share_of_difference": share,
                "beyond_noise": bool(abs(row["diff_ns"]) > row["noise_ns"]),
            }
        )
    return listed


def _path_rows(found: ProfileComparison, main: Difference) -> pd.DataFrame:
    """Return the rows of the path by name that went the way of the difference, the most certain and largest first."""
    rows = _every_row(found, main)
    rows = rows[rows["diff_ns"] * (1 if main.difference >= 0 else -1) > 0]
    order = np.lexsort((-rows["diff_ns"].abs(), rows["name"] == OTHERS, rows["diff_ns"].abs() <= rows["noise_ns"]))
    return rows.iloc[order]


def _every_row(found: ProfileComparison, main: Difference) -> pd.DataFrame:
    """Return the path by name on both sides, with the change that the difference consists of."""
    sides = _steps_of(found, main)
    if sides is None:
        return job_names(found.lengths)
    control, test, scale = sides
    keys = ["name", "bound_by"]
    tables = [own.table("names", keys, "ns") for own in (control, test)]
    rows = tables[0].index.union(tables[1].index)
    was, now = (table.reindex(rows, fill_value=0).to_numpy(float) for table in tables)
    means = [own.mean(axis=1) if own.shape[1] else np.zeros(len(rows)) for own in (was, now)]
    noise = ROW_ERRORS * _spread(was) * np.sqrt(1 / max(was.shape[1], 1) + 1 / max(now.shape[1], 1))
    frame = rows.to_frame(index=False)
    return frame.assign(
        control_ns=means[0].round().astype(np.int64),
        test_ns=(means[0] + scale * (means[1] - means[0])).round().astype(np.int64),
        diff_ns=(scale * (means[1] - means[0])).round().astype(np.int64),
        noise_ns=np.ceil(scale * noise).astype(np.int64),
    )


def _spread(values: Floats) -> Floats:
    found: Floats = values.std(axis=1, ddof=1) if values.shape[1] > 1 else np.zeros(len(values))
    return found


def _steps_of(found: ProfileComparison, main: Difference) -> tuple[_Steps, _Steps, float] | None:
    """Return the steps to compare by their means, and which part of their change is that of the run; None: medians."""
    lengths, every = found.lengths, found.test.side
    if main.basis == "hangs" and lengths.course.tail is not None:
        hang = np.array(lengths.course.tail.numbers)
        return (
            _Steps.of(every, np.setdiff1d(every.numbers, hang)),
            _Steps.of(every, hang),
            len(hang) / len(every.numbers),
        )
    if main.basis == "trend":
        thirds = np.array_split(every.numbers, 3)
        # The middles of the first and the last third are two thirds of the run apart.
        return _Steps.of(every, thirds[0]), _Steps.of(every, thirds[2]), 1.5
    control, test = lengths.control.numbers, lengths.test.numbers
    if main.kind:
        of_kind = next(at for at, name in enumerate(lengths.kinds.names) if (name or "all") == main.kind)
        control, test = control[lengths.kinds.control == of_kind], test[lengths.kinds.test == of_kind]
    elif main.steps is not None and main.steps[1] is not None:
        test = _numbers_in(every, main.steps)
    elif main.basis != "means":
        return None
    return _Steps.of(found.control.side, control), _Steps.of(every, test), 1.0


def _numbers_in(side: JobSide, steps: tuple[int, int | None]) -> Ints:
    """Return the numbers of a side's steps from the first to the last one; without a last one, to the end."""
    first, last = steps
    found: Ints = side.numbers[(side.numbers >= first) & (last is None or side.numbers <= last)]
    return found


def _ranks_of_names(found: ProfileComparison, main: Difference) -> dict[str, int]:
    """Return the rank on which each name makes others wait longer, else that with most of the change of the path."""
    if len(found.lengths.control.files) < 2:
        return {}
    sides = _steps_of(found, main)
    if sides is None:
        waits, ranks = job_causes(found.lengths), job_ranks(found.lengths)
        waits = waits[waits["name"].notna() & (waits["diff_ns"] > waits["noise_ns"])]
        ranks = ranks[ranks["diff_ns"] > ranks["noise_ns"]]
    else:
        waits = _mean_changes(sides, "causes", ["rank", "name"], "ns")
        waits = waits[(waits["name"] != "") & (waits["rank"] >= 0) & (waits["diff_ns"] >= LEAST_PART * main.difference)]
        ranks = _mean_changes(sides, "ranks", ["rank"], "ns")
    by_name = waits.drop_duplicates("name")
    named = dict(zip(by_name["name"].tolist(), by_name["rank"].tolist(), strict=True))
    changed = ranks[ranks["diff_ns"] >= DOMINANT_SHARE * main.difference]
    usual = int(changed["rank"].iloc[0]) if len(changed) and main.difference > 0 else None
    if usual is not None:
        known = found.lengths.test.rows.names["name"].unique().tolist()
        return {**dict.fromkeys(known, usual), **named}
    return named


def _mean_changes(sides: tuple[_Steps, _Steps, float], name: str, keys: list[str], value: str) -> pd.DataFrame:
    """Return by how much the mean of a value changed, by keys, the largest growth first."""
    means = [own.table(name, keys, value).mean(axis=1) for own in sides[:2]]
    differ = (means[1].sub(means[0], fill_value=0) * sides[2]).rename("diff_ns")
    return differ.sort_values(ascending=False, kind="stable").reset_index()


def machine_note(found: ProfileComparison, main: Difference) -> str:
    """Say that all operators take longer alike; empty where they do not."""
    rows = _every_row(found, main)
    control, differ = rows["control_ns"].to_numpy(float), rows["diff_ns"].to_numpy(float)
    large = control >= LEAST_NAME * control.sum()
    if main.difference <= 0 or np.count_nonzero(large) < ENOUGH_NAMES:
        return ""
    # The others must grow as the one does that explains most.
    most = int(np.argmax(differ))
    usual = differ[most] / max(control[most], 1.0)
    others = np.arange(len(control)) != most
    alike = large & others & (differ >= usual / 2 * control) & (differ <= 2 * usual * control)
    if control[alike].sum() < max(MOSTLY * control[others].sum(), LEAST_OTHERS * control.sum()):
        return ""
    steps: tuple[int, ...] = ()
    if main.basis == "hangs" and found.lengths.course.tail is not None:
        steps = found.lengths.course.tail.numbers
    elif main.steps is not None:
        steps = tuple(_numbers_in(found.test.side, main.steps).tolist())
    return all_slower(steps, is_trend=main.basis == "trend")


def all_slower(steps: tuple[int, ...], *, is_trend: bool) -> str:
    """Say that everything is slower in some steps, becomes slower, or is slower throughout.

    >>> all_slower((4, 5, 6, 11), is_trend=False), all_slower((), is_trend=True)
    ('All operators are slower in steps 4 to 6 and 11: the machine, rather than the program.', 'Everything becomes \
slower alike: the machine, rather than the program.')
    """
    if is_trend:
        return "Everything becomes slower alike: the machine, rather than the program."
    if not steps:
        return "All operators are slower alike, as with slower clocks or larger inputs."
    return f"All operators are slower in {steps_named(steps)}: the machine, rather than the program."
