"""HTA's answers, as its own interpreter gives them: a question as a line of JSON in, an answer as one out.

It imports nothing of this project. Times of HTA are microseconds. HTA shows tables and names candidates, and rarely
says yes or no; what stands here is the most favorable reading of them.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import logging
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

NOT_ASKED = "not asked"
LOADER = r"enumerate\(DataLoader\)"
WHOLE = ""
"""HTA's name for the whole trace."""


def loaded(paths: list[str]) -> Any:
    """Load the traces of a job."""
    from hta.trace_analysis import TraceAnalysis  # type: ignore[import-not-found]

    files = {_rank_of(path, at): path for at, path in enumerate(paths)}
    return TraceAnalysis(trace_files=files, trace_dir=str(Path(paths[0]).parent))


def _rank_of(path: str, at: int) -> int:
    found = re.search(r"rank(\d+)\.json", path)
    return int(found[1]) if found else at


def late_rank(asked: dict[str, Any]) -> Any:
    """Take the first candidate of the potential stragglers; of one rank there is no one to be later than.

    HTA looks for kernels with the names that NCCL gave them until 2.18: these are put into copies of the traces.
    """
    if len(asked["inputs"]) < 2:
        return None
    with tempfile.TemporaryDirectory() as folder:
        copies = []
        for path in map(Path, asked["inputs"]):
            content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            copy = Path(folder, path.name.removesuffix(".gz"))
            copy.write_bytes(content.replace(b'"ncclDevKernel', b'"ncclKernel'))
            copies.append(str(copy))
        return int(loaded(copies).get_potential_stragglers(num_candidates=1)[0])


def bound(asked: dict[str, Any]) -> Any:
    """Take the largest class of the critical path of the step in the middle, or of the whole trace."""
    rank = asked["given"].get("rank", 0)
    analysis = loaded(asked["inputs"])
    steps = [] if asked["given"].get("window") else analysis.get_profiler_steps()
    annotation, instance = ("ProfilerStep", len(steps) // 2) if steps else (WHOLE, None)
    graph, _ = analysis.critical_path_analysis(rank, annotation, instance, data_load_events=[LOADER])
    parts = graph.get_critical_path_breakdown()
    largest = parts.groupby("bound_by").duration.sum().drop("", errors="ignore").idxmax()
    return {"bound": str(largest)}


def serving_gap(asked: dict[str, Any]) -> Any:
    """Take the largest category of idle time: that the host is late counts as the right class."""
    table = loaded(asked["inputs"]).get_idle_time_breakdown(visualize=False)[0]
    return {"bound": "host" if table.groupby("idle_category").idle_time.sum().idxmax() == "host_wait" else "other"}


def new_length(asked: dict[str, Any]) -> Any:
    """Change the weights of kernels of a name, or of communication, in the graph, and find its longest path anew.

    What the path is shorter by is taken from the measured length: HTA's path leaves out what no edge explains.
    """
    change = asked["given"]["change"]
    if change[0] not in ("--scale", "--remove") or not change[1].startswith(("kernel:", "class:gpu_communication")):
        return NOT_ASKED
    what, _, factor = change[1].partition("=") if change[0] == "--scale" else (change[1], "", "0")
    name = what.partition(":")[2] if what.startswith("kernel:") else "nccl"
    graph, _ = loaded(asked["inputs"]).critical_path_analysis(rank=0, annotation=WHOLE, instance_id=None)
    changed = [(u, v) for u, v, event in _kernels(graph) if name in event]
    if not changed:
        return None
    before = _path_length(graph)
    for u, v in changed:
        graph.edges[u, v]["weight"] *= float(factor)
    graph.critical_path()
    return round(asked["given"]["measured_ns"] - 1_000 * (before - _path_length(graph)))


def _path_length(graph: Any) -> float:
    return float(sum(graph.edges[u, v]["weight"] for u, v in pairwise(graph.critical_path_nodes)))


def _kernels(graph: Any) -> Iterator[tuple[int, int, str]]:
    """Yield the ends and the name of each row on a GPU."""
    names = graph.symbol_table.get_sym_table()
    rows = graph.trace_df.set_index("index")
    for u, v, data in graph.edges(data=True):
        edge = data["object"]
        event = graph.get_event_attribution_for_edge(edge)
        if edge.type.name == "OPERATOR_KERNEL" and event is not None and rows.stream.get(event, -1) >= 0:
            yield u, v, names[rows.name[event]]


def slower(asked: dict[str, Any]) -> Any:
    """Add up what a comparison of all steps says that each kernel and operator takes longer, and hold it against 1%."""
    from hta.common.trace import Trace  # type: ignore[import-not-found]
    from hta.trace_diff import LabeledTrace, TraceDiff  # type: ignore[import-not-found]

    traces = []
    for label, path in zip(("before", "after"), asked["inputs"], strict=True):
        traces.append(LabeledTrace(label=label, t=Trace(trace_files={0: path}, trace_dir=str(Path(path).parent))))
    table = TraceDiff.compare_traces(
        *traces, control_iteration=traces[0].iterations(), test_iteration=traces[1].iterations()
    )
    before, after = (float(table[f"{side}_total_duration"].sum()) for side in ("before", "after"))
    return bool(after > before * (1 + float(asked["given"].get("limit", "1%").rstrip("%")) / 100))


def gpu_idle(asked: dict[str, Any]) -> Any:
    """Take the idle share of the temporal breakdown."""
    table = loaded(asked["inputs"]).get_temporal_breakdown(visualize=False)
    return float(table["idle_time_pctg"].iloc[0])


ASKING: dict[str, Callable[[dict[str, Any]], Any]] = {
    "late_rank": late_rank,
    "late_rank_cause": bound,
    "bound": bound,
    "serving_gap": serving_gap,
    "new_length": new_length,
    "slower": slower,
    "slower_at_all": slower,
    "gpu_idle": gpu_idle,
}


def main() -> None:
    """Answer until there are no more questions."""
    logging.disable(logging.CRITICAL)
    answers = sys.stdout
    for line in sys.stdin:
        asked = json.loads(line)
        answer: dict[str, Any] = {"value": NOT_ASKED}
        if asked["asked"] in ASKING:
            with contextlib.redirect_stdout(io.StringIO()):
                try:
                    answer = {"value": ASKING[asked["asked"]](asked)}
                except Exception as error:  # noqa: BLE001 - whatever fails is no answer
                    answer = {"value": None, "error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
