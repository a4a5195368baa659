"""What a person may pass on about two jobs: whether one is slower, where on its path, and for whom others wait now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from analyses.advice.format import brief_class, brief_duration, quoted
from analyses.diff.conclusion import beyond_noise, conclusion_lines
from analyses.diff.job_diff import JobComparison
from analyses.display.labels import MEANING_IN_JOBS
from hta_graph.text.formatting import signed_milliseconds
from hta_graph.text.sanitize import one_line
from hta_graph.text.shorten import short_name

__all__ = ["job_conclusion"]

BETWEEN = " / "
"""What stands between the names of a call path."""
MOST_OF_IT = 0.5
CAUSE_COLUMNS = ["rank", "name", "call_path", "bound_by", "diff_ns"]


def job_conclusion(
    found: JobComparison, tables: Mapping[str, pd.DataFrame], caveats: Sequence[str], repeated_on: str
) -> list[str]:
    """Say whether the test is slower, how sure that is, where the difference lies, and who makes others wait now.

    Args:
        found: the lengths of both jobs.
        tables: those of the jobs, by name.
        caveats: what else than the program differs.
        repeated_on: on which rank that repeats which tells the noise of too few steps.
    """
    said = conclusion_lines(found, tables["job_classes"], tables["job_names"], caveats, repeated_on=repeated_on)
    if not found.beyond_noise:
        return said
    change_ns = found.test.median_ns - found.control.median_ns
    each = " a step" if max(len(side.lengths_ns) for side in found.sides.values()) > 1 else ""
    return [*said, *_where_lines(change_ns, tables), *_cause_lines(change_ns, tables, each)]


def _where_lines(change_ns: int, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Name the rank that most of the difference lies on, else the host."""
    for name, key in (("job_ranks", "rank"), ("job_hosts", "host")):
        rows = beyond_noise(tables[name])
        for row in rows[rows["diff_ns"] / change_ns >= MOST_OF_IT].head(1).to_dict("records"):
            where = f"host {one_line(row['host'])}" if key == "host" else f"rank {row['rank']}{_on_host(row['host'])}"
            longer = "longer" if change_ns > 0 else "shorter"
            return [f"The path is {longer} on {where}: {signed_milliseconds(row['diff_ns'])} ms."]
    return []


def _on_host(host: str | None) -> str:
    return f" on host {one_line(host)}" if host else ""


def _cause_lines(change_ns: int, tables: Mapping[str, pd.DataFrame], each: str) -> list[str]:
    """Say for whom others wait now and did not, or no longer do."""
    causes = beyond_noise(tables["job_causes"])
    causes = causes[causes["name"].notna() & (causes["diff_ns"] / change_ns > 0)]
    # In a pipeline waiting moves from rank to rank by chance: what made the path longer too goes first.
    on_path = beyond_noise(tables["job_names"])
    on_path = on_path[on_path["diff_ns"] / change_ns > 0]
    causes = causes.loc[(~causes["name"].isin(on_path["name"])).sort_values(kind="stable").index]
    for rank, name, path, bound, diff_ns in causes.head(1)[CAUSE_COLUMNS].itertuples(index=False):
        whole = tables["job_ranks"].set_index("rank").loc[rank]
        was, now = (brief_duration(int(whole[f"{side}_caused_ns"])) for side in ("control", "test"))
        who = f"rank {rank}{_on_host(whole['host'])}"
        begins = f"Others now wait for {who}" if diff_ns > 0 else f"Others no longer wait so long for {who}"
        times = f"{was} → {now}{each}, all of them together"
        most = f"{_cause_text(name, path, bound)}, {signed_milliseconds(diff_ns)} ms"
        return [f"{begins}: {times}; most of the difference is {most}."]
    return []


def _cause_text(name: str, call_path: str, bound: str) -> str:
    """Say what was done, and in what."""
    around = call_path.rpartition(BETWEEN)[2]
    inside = f" in {quoted(around)}" if around else ""
    return f"{quoted(short_name(name))}{inside} ({brief_class(bound, MEANING_IN_JOBS)})"
