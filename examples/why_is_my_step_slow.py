"""Why is my step slow? ``python examples/why_is_my_step_slow.py [TRACE]``."""

from __future__ import annotations

import sys
from pathlib import Path

import hta_graph as hg

SAMPLE = Path(__file__).parents[1] / "analyses" / "sample" / "sample_trace.json.gz"


def main() -> None:
    trace = hg.read_trace(sys.argv[1] if len(sys.argv) > 1 else SAMPLE)
    graph = hg.build_graph(trace)
    path = hg.critical_path(graph)
    print(f"{path.window.label}: {path.length_ns / 1e6:.3f} ms, {path.coverage:.1%} explained\n")
    print(path.by_bound().head(5).to_string(index=False), "\n")
    print(path.by_event().head(10).to_string(index=False), "\n")

    kernels = path.segments[path.segments.edge == "execution"]
    if len(kernels):
        longest = int(kernels.sort_values("duration_ns").event_index.iloc[-1])
        print(f"What held up event {longest}, the longest kernel on the path:")
        print(
            graph.predecessors(longest)[["kind", "evidence", "rule", "source_index", "lag_ns"]].to_string(index=False)
        )


if __name__ == "__main__":
    main()
