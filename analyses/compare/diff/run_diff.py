"""diff: what changed between two runs: environment, length, critical path, call paths, names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.compare.diff.change_tables import (
    CALL_PATHS,
    CLASSES,
    NAMES,
    PATH_EVENTS,
    STEP_ROWS,
    TIMES,
    call_path_diff,
    path_class_diff,
    path_event_diff,
    step_table,
    time_by_name_diff,
    with_labels,
)
from analyses.compare.diff.conclusion import (
    conclusion_lines,
    is_same_recording,
    label_without_form,
    more_steps,
    noise_lines,
    pair_differences,
    without_difference,
)
from analyses.compare.diff.differences import Course
from analyses.compare.diff.environment import ENVIRONMENT, caveats, environment, environment_lines, lost_work
from analyses.compare.diff.kernels_in_order import KERNEL_CHANGES, kernel_changes, work_changes
from analyses.compare.diff.length_comparison import Comparison, compare
from analyses.compare.diff.lost_time import lost_time
from analyses.compare.diff.regression import doubt
from analyses.compare.diff.sides import (
    BEFORE_AFTER,
    LONGEST_NAME,
    Lengths,
    Side,
    side_name,
    side_of_path,
    side_of_window,
    sides,
    sides_of_steps,
)
from analyses.compare.diff.step_change import KindChange
from analyses.compare.diff.step_levels import EarlierLevel
from analyses.declare.answer import Answer, records
from analyses.declare.scope import Scope
from analyses.display.charts import COLOUR, empty_figure, new_figure
from analyses.display.text_layout import clipped
from analyses.source.graph_names import naming_notes
from analyses.source.window_facts import StepFacts, short_labels
from analyses.source.window_report import rows_after_lines
from hta_graph.base.text.shorten import short_name
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.windows import WindowForm, WindowQuery

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["TABLES", "TIMES", "answer", "answer_of_comparison", "between_runs", "comparison_keys", "figure"]

FIGURE_TITLE = "Change of the critical path by class"


def answer(control: Scope, test: Scope, paths: tuple[CriticalPath, CriticalPath]) -> Answer:
    """Return what changed between one window of a run and one of another.

    Args:
        control: the window to compare with.
        test: the window that changed.
        paths: the critical paths of both.

    Returns:
        The tables ``environment``, ``critical_path_by_class``, ``critical_path_by_name``, ``gpu_time_by_call_path``,
        ``kernels_in_order``, ``by_name`` and, where runs are compared by all of their steps, ``steps``; ``diff_ns`` is
        test minus control. The notes begin with the conclusion and the differences in the environment.
    """
    sides = [side_of_path(scope, path) for scope, path in zip((control, test), paths, strict=True)]
    return answer_of_comparison(compare(*sides))


def between_runs(
    control: DependencyGraph,
    test: DependencyGraph,
    windows: tuple[WindowQuery, WindowQuery] | None = None,
    data_load: Sequence[str] = (),
    form: WindowForm = "usual",
) -> Comparison[Side]:
    """Compare two runs by all of their steps, or by a window of each.

    Args:
        control: the run to compare with.
        test: the run that changed.
        windows: a window of control and one of test.
        data_load: regular expressions of data-loading events.
        form: compare steps by their time on the CPU instead of their iterations.

    Raises:
        QueryError: a trace has no such window.
    """
    graphs = (control, test)
    if windows is None:
        return compare(*sides_of_steps(graphs, data_load, form))
    return compare(*(side_of_window(of, ask, data_load) for of, ask in zip(graphs, windows, strict=True)))


def answer_of_comparison(found: Comparison[Side]) -> Answer:
    """Return the tables and sentences of a comparison, as :func:`answer` does."""
    control, test = found.control.scope, found.test.scope
    tables = {
        "critical_path_by_class": path_class_diff(found),
        "critical_path_by_name": path_event_diff(found),
        "gpu_time_by_call_path": call_path_diff(found),
        "kernels_in_order": kernel_changes(control, test),
        "by_name": time_by_name_diff(found),
    }
    around = environment(control, test)
    limits = caveats(control, test, around)
    by_name = tables["critical_path_by_name"]
    shared, labels = found.shared_names, short_labels(found.test.graph)
    conclusion = conclusion_lines(
        found,
        tables["critical_path_by_class"],
        by_name,
        limits,
        together=path_event_diff(found, shared) if shared else by_name,
        labels=labels,
    )
    conclusion += work_lines(found, tables["kernels_in_order"])
    more = {"steps": step_table(found), "environment": around}
    tables |= {name: frame for name, frame in more.items() if len(frame)}
    is_same = is_same_recording(found)
    if is_same:
        # Nothing but zeros would be in them.
        tables = {name: frame.iloc[:0] for name, frame in tables.items()}
    keys = {
        "judgement": [] if found.refused else lost_time(by_name, found.control.median_ns),
        "environment": records(around),
        "caveats": limits,
        **comparison_keys(found),
        "steps": {name: _steps_of_side(side) for name, side in found.sides.items()},
        "control_job_verdict": None,
        "job_verdict": None,
    }
    return Answer(
        tables,
        [] if is_same else [*_closing_lines(found), *noise_lines(found)],
        opening=[*conclusion[:1], *environment_lines(around), *conclusion[1:]],
        conclusion=conclusion,
        keys=keys,
        captions=_captions(found),
        on_screen=with_labels(tables, labels),
        only_with_all=ONLY_WITH_ALL if without_difference(found) else (),
    )


def work_lines(found: Comparison[Side], changes: pd.DataFrame) -> list[str]:
    """Report which collectives and kernels of the compared windows moved, are new or are gone."""
    if is_same_recording(found) or found.refused:
        return []
    changed = work_changes(found.control.scope, found.test.scope, changes)
    return [
        _work_changed(what, own.moved, own.new, own.gone, own.places)
        for what, own in zip(("Collectives", "Kernels"), changed, strict=True)
        if own
    ]


def _work_changed(
    what: str, moved: Mapping[str, int], new: Mapping[str, int], gone: Mapping[str, int], places: tuple[str, str]
) -> str:
    """Count the collectives or kernels that moved, are new or are gone, with the first of each and its places.

    >>> _work_changed("Collectives", {"all_reduce": 2}, {}, {"broadcast": 1}, ("optimizer / step", "backward"))
    'Collectives: 2 moved (all_reduce, from optimizer to backward); 1 gone (broadcast).'
    """
    said = []
    for count, word in ((moved, "moved"), (new, "new"), (gone, "gone")):
        if count:
            name = clipped(short_name(next(iter(count))), LONGEST_NAME)
            outer = [clipped(path.split(" / ")[0], LONGEST_NAME) for path in places]
            where = f", from {outer[0]} to {outer[1]}" if word == "moved" and outer[1] and outer[0] != outer[1] else ""
            said.append(f"{sum(count.values()):,} {word} ({name}{where})")
    return f"{what}: {'; '.join(said)}."


ONLY_WITH_ALL = ("critical_path_by_name", "gpu_time_by_call_path", "kernels_in_order", "by_name")
"""The tables that a terminal omits where nothing differs."""


def _captions(found: Comparison[Side]) -> dict[str, str]:
    """Return what the table of steps cannot show: which of them are not compared."""
    compared = {name: _compared_steps(side) for name, side in found.sides.items()}
    omitted = {
        name: [row.step for row in side.steps if row.step not in compared[name]] for name, side in found.sides.items()
    }
    if not any(omitted.values()):
        return {}
    are_first = all(
        steps in ([], [side.steps[0].step]) for steps, side in zip(omitted.values(), found.sides.values(), strict=True)
    )
    return {"steps": _steps_not_compared(omitted, are_first=are_first)}


def _steps_not_compared(omitted: Mapping[str, Sequence[int]], *, are_first: bool) -> str:
    """List the steps that are left out of the medians.

    >>> _steps_not_compared({"control": [10], "test": []}, are_first=True)
    'not compared: step 10 before (first step, warm-up)'
    """
    listed = [
        f"step{'s' if len(steps) > 1 else ''} {', '.join(map(str, steps))} {BEFORE_AFTER[side]}"
        for side, steps in omitted.items()
        if steps
    ]
    return f"not compared: {' and '.join(listed)}{' (first step, warm-up)' if are_first else ''}"


def comparison_keys(found: Comparison[Lengths]) -> dict[str, Any]:
    """Return the keys of the compared lengths in JSON."""
    change, more = found.change, None if is_same_recording(found) else more_steps(found)
    return {
        "measure": found.control.measure,
        "control_ns": found.lengths[0],
        "test_ns": found.lengths[1],
        "difference_share": found.difference_share,
        "noise_share": found.noise_share,
        "beyond_noise": found.beyond_noise,
        "difference_ns": found.difference_ns,
        "noise_ns": found.noise_ns,
        "more_steps": None if more is None else more[1],
        "more_steps_share": None if more is None else more[0],
        "compared_by": found.compared_by,
        "means": {
            "control_ns": round(change.means_ns[0]),
            "test_ns": round(change.means_ns[1]),
            "noise_ns": ceil(change.summed_noise_ns) if np.isfinite(change.summed_noise_ns) else None,
        },
        "kinds": [_kind_keys(found.kinds.names[kind.kind], kind) for kind in change.kinds],
        "steps_of_one_side": {
            name: sum(alone.values()) for name, alone in zip(found.sides, found.kinds.alone, strict=True)
        },
        "pairs": _pair_keys(found),
        "cannot_tell": doubt(found) or None,
        "hangs": _hang_keys(found.course),
        "since_step": dict(zip(found.sides, found.levels.since, strict=True)),
        "earlier_levels": list(map(_level_keys, found.levels.earlier)),
    }


def _hang_keys(course: Course) -> dict[str, Any] | None:
    """Return in how many events steps hang on either side, and which steps of the test; null of too few steps."""
    if (tail := course.tail) is None:
        return None
    events = dict(zip(("control_events", "test_events"), tail.counts, strict=True))
    return {**events, "test_steps": list(tail.numbers), "excess_ns": round(tail.excess_ns)}


def _kind_keys(name: str, kind: KindChange) -> dict[str, Any]:
    return {
        "kind": name,
        "control_steps": kind.counts[0],
        "test_steps": kind.counts[1],
        "control_ns": round(kind.control_ns),
        "test_ns": round(kind.test_ns),
        "diff_ns": round(kind.difference_ns),
        "noise_ns": ceil(kind.noise_ns) if np.isfinite(kind.noise_ns) else None,
        "judged": kind.is_judged,
    }


def _level_keys(level: EarlierLevel) -> dict[str, Any]:
    return {
        "side": level.side,
        "first_step": int(level.steps[0]),
        "last_step": int(level.steps[-1]),
        "steps": len(level.steps),
        "control_ns": round(level.control_ns),
        "test_ns": round(level.test_ns),
        "diff_ns": round(level.difference_ns),
        "noise_ns": ceil(level.noise_ns),
    }


def _pair_keys(found: Comparison[Lengths]) -> list[dict[str, Any]]:
    """List the same steps of both sides and their differences; empty for windows that are no steps."""
    left, right = (
        side.numbers[places].tolist() for side, places in zip(found.sides.values(), found.change.pairs, strict=True)
    )
    differences = pair_differences(found)
    return [
        {"control_step": one, "test_step": other, "diff_ns": ns}
        for one, other, ns in zip(left, right, differences, strict=True)
        if one >= 0
    ]


def _compared_steps(side: Side) -> set[int | None]:
    return {path.window.step for path in side.paths}


def _steps_of_side(side: Side) -> list[dict[str, Any]]:
    """List the steps of a run, and which of them were compared."""
    compared_steps = _compared_steps(side)
    return [{**one.record, "compared": one.row.step in compared_steps} for one in StepFacts.of(side.steps)]


def _closing_lines(found: Comparison[Side]) -> list[str]:
    """Return notes on what a trace lacks, on the compared ranks and windows, and on events after a window's end."""
    lacking = (side.scope.missing() for side in found.sides.values())
    said = [missing for missing in dict.fromkeys(lacking) if missing]
    said += lost_lines(found)
    ranks = {name: side.graph.rank for name, side in found.sides.items() if side.graph.rank is not None}
    if ranks:
        said.append(f"Compared: {sides(ranks)}.")
    if any(len(side.paths) > 1 for side in found.sides.values()):
        labels = {name: label_without_form(side.path.window.label) for name, side in found.sides.items()}
        said.append(_medians_of_steps(labels))
    for name, side in found.sides.items():
        said += [_of_side(name, line) for line in rows_after_lines(side.path.window)]
    return said + naming_lines(found)


def _medians_of_steps(labels: Mapping[str, str]) -> str:
    """Explain what the tables of one rank show."""
    steps = ", ".join(f"{label} {BEFORE_AFTER[side]}" for side, label in labels.items())
    return f"Tables show medians over the steps; kernels in order compares the median steps ({steps})."


def lost_lines(found: Comparison[Side]) -> list[str]:
    """Say of each side which launched work its recording does not hold, in the window or not."""
    lost = {name: lost_work(side.graph) for name, side in found.sides.items()}
    return [_of_side(name, line) for name, line in lost.items() if line]


def naming_lines(found: Comparison[Side]) -> list[str]:
    """Say of each side how many kernels of CUDA graphs are named by captures, and which have no name."""
    return [_of_side(name, line) for name, side in found.sides.items() for line in naming_notes([side.scope])]


def _of_side(side: str, line: str) -> str:
    """Attribute a line to a side."""
    return f"{side_name(side)}: {line.removesuffix('.')}."


def figure(found: Answer) -> Figure:
    """Draw the change of the critical path by class."""
    frame = found.main[found.main["diff_ns"] != 0]
    if frame.empty:
        return empty_figure(FIGURE_TITLE, "no change")
    made = new_figure(title=FIGURE_TITLE, x="after − before, ms")
    made.add_bar(
        orientation="h",
        y=frame["bound_by"].iloc[::-1],
        x=frame["diff_ns"].iloc[::-1] / 1e6,
        error_x={"type": "data", "array": frame["noise_ns"].iloc[::-1] / 1e6},
        marker_color=[COLOUR["unexplained" if ns > 0 else "compute"] for ns in frame["diff_ns"].iloc[::-1]],
        hovertemplate="%{y}: %{x:+,.3f} ms",
    )
    return made


TABLES = {
    "critical_path_by_class": CLASSES,
    "critical_path_by_name": PATH_EVENTS,
    "gpu_time_by_call_path": CALL_PATHS,
    "kernels_in_order": KERNEL_CHANGES,
    "by_name": NAMES,
    "steps": STEP_ROWS,
    "environment": ENVIRONMENT,
}
