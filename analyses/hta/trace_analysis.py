"""``TraceAnalysis``: HTA's methods, arguments, defaults and shapes over the dependency graph.

Every method delegates to one analysis; where an answer differs from HTA's on purpose, that function's docstring says
why. Figures appear in notebooks only, and nothing is ever written beside the input unless asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from analyses.hta.breakdown_methods import Breakdowns
from analyses.hta.hta_trace import Trace
from analyses.hta.launch_methods import Launches
from hta_graph.places.named_places import named_place

if TYPE_CHECKING:
    import pandas as pd

    from analyses.hta.trace_frame import SymbolTable
    from hta_graph.algorithms.time.critical_path import CriticalPath
    from hta_graph.algorithms.time.windows import Window
    from hta_graph.graph import DependencyGraph

    StragglerRule = Callable[[pd.DataFrame, SymbolTable, int, bool], pd.Series]

__all__ = ["TraceAnalysis"]


class TraceAnalysis(Breakdowns, Launches):
    """Ask HTA's questions about the ranks of a run."""

    def __init__(
        self,
        trace_files: Mapping[int, str] | Sequence[str] | None = None,
        trace_dir: str | None = None,
        include_last_profiler_step: bool = False,
        *,
        window: str = "hta",
        label: str = "",
    ) -> None:
        """Name the traces; they are read, in parallel, when the first question is asked.

        Args:
            trace_files: rank → file, or a list of files; relative names are looked for in ``trace_dir`` too.
            trace_dir: a folder of rank files.
            include_last_profiler_step: keep the last step in HTA's window.
            window: ``hta`` for the stretch that HTA documents (without the last step and without work launched before
                the recording), ``whole`` for all that was recorded.
            label: how :class:`TraceDiff` names this side.

        Raises:
            QueryError: neither files nor a folder is given.
            UsageError: there is no such window.
        """
        self.t = Trace(trace_files, trace_dir, include_last_profiler_step, window=window)
        self.label = label

    @property
    def graphs(self) -> Mapping[int, DependencyGraph]:
        """Rank → dependency graph."""
        return self.t.graphs

    @property
    def symbol_table(self) -> SymbolTable:
        """The texts of the ``name`` and ``cat`` columns of :meth:`get_trace`."""
        return self.t.symbol_table

    def get_ranks(self) -> list[int]:
        """Return the ranks."""
        return self.t.get_ranks()

    def get_graph(self, rank: int) -> DependencyGraph:
        """Return a rank's dependency graph."""
        return self.t.graphs[rank]

    def get_trace(self, rank: int) -> pd.DataFrame:
        """Return a rank's rows with HTA's columns, as a copy (ts and dur in µs from the run's earliest event)."""
        return self.t.get_trace(rank).copy()

    def get_profiler_steps(self) -> list[int]:
        """Return the numbers of the profiler steps that are looked at."""
        from analyses.hta.hta_stragglers import hta_profiler_steps

        return hta_profiler_steps(self.t.scopes)

    def get_potential_stragglers(
        self,
        profiler_steps: Sequence[int] | None = None,
        num_candidates: int = 2,
        visualize: bool = False,
        straggler_identification_impl: StragglerRule | None = None,
    ) -> list[int]:
        """Return the ranks that the others wait for most, the worst first; or those that a rule of your own counts.

        Such a rule is called as in HTA: with the rows of all ranks in the steps (columns ``rank`` and ``idx`` in
        front), the symbol table, ``num_candidates`` and ``visualize``; it returns a count per rank.
        """
        from analyses.hta.hta_stragglers import hta_potential_stragglers

        if straggler_identification_impl is not None:
            return _ranks_by_rule(self.t, profiler_steps, num_candidates, straggler_identification_impl, visualize)
        if visualize:
            from analyses import catalogue
            from analyses.display.charts import show

            stragglers = catalogue.analysis("stragglers")
            show(stragglers.figure(stragglers.answer(self.t.scopes)))
        return hta_potential_stragglers(self.t.scopes, profiler_steps, max(num_candidates, 1))

    def critical_path_analysis(
        self,
        rank: int,
        annotation: str = "",
        instance_id: int | tuple[int, int] | None = None,
        data_load_events: Sequence[str] | None = None,
    ) -> tuple[CriticalPath, bool]:
        """Return the critical path of an annotation's instances, and True.

        Args:
            rank: a loaded rank.
            annotation: found in the annotation's name; none: the median step.
            instance_id: an instance from 0, or the first and the last one.
            data_load_events: expressions of operators and annotations that mean data loading.

        Raises:
            QueryError: the rank, the annotation or the instance is not there.
        """
        from hta_graph.algorithms.time.critical_path import critical_path

        window = _window_of_instances(annotation, instance_id) if annotation else None
        return critical_path(self.t.graphs[rank], window, data_load=data_load_events or ()), True

    def overlay_critical_path_analysis(
        self,
        rank: int,
        critical_path_graph: CriticalPath,
        output_dir: str,
        only_show_critical_events: bool = True,
        show_all_edges: bool = False,
    ) -> str:
        """Write the trace with the path on top, for Perfetto, and return the file's name.

        The original events always stay: a path without its surroundings cannot be checked.
        """
        from hta_graph.export.perfetto.path_overlay import write_overlay
        from hta_graph.export.targets import check_output

        del only_show_critical_events, show_all_edges
        name = self.t.graphs[rank].trace.path.name.removesuffix(".zst").removesuffix(".gz")
        target = named_place(output_dir).expanduser() / f"overlaid_critical_path_{name}"
        check_output(target, self.t.graphs.files)
        write_overlay(critical_path_graph, target)
        return str(target)


def _window_of_instances(annotation: str, instance_id: int | tuple[int, int] | None) -> Window:
    """Return the window of an annotation whose name holds a text, of one instance or several."""
    from hta_graph.algorithms.time.windows import annotation as instances

    # One number is one instance; a pair the first and the last.
    first, last = instance_id if isinstance(instance_id, tuple) else (instance_id or 0, instance_id)
    return instances(f".*{re.escape(annotation)}.*", regex=True, first=first, last=last)


def _ranks_by_rule(
    t: Trace, steps: Sequence[int] | None, num_candidates: int, rule: StragglerRule, visualize: bool
) -> list[int]:
    """Return the ranks that a rule counts most often, in the steps asked about."""
    import pandas as pd

    # A rule of the user's own may write into its frame: it gets a copy, made by the concatenation.
    frame = pd.concat(t.read_only[0], names=["rank", "idx"]).reset_index()
    chosen = frame["iteration"].isin(steps) if steps is not None else frame["iteration"] >= 0
    counts = rule(frame[chosen], t.symbol_table, num_candidates, visualize)
    return [int(rank) for rank in counts.sort_values(ascending=False, kind="stable").index[:num_candidates]]
