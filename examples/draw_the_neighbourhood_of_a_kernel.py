"""Draw what surrounds a kernel in the dependency graph: what it waited for, and what waited for it.

``python examples/draw_the_neighbourhood_of_a_kernel.py [TRACE] [--kernel REGEX] [--depth N] [-o FILE]``
"""

from __future__ import annotations

import argparse
from importlib.resources import files
from pathlib import Path
from shutil import which

import hta_graph as hg

SAMPLE = files("analyses") / "sample" / "sample_trace.json.gz"


def longest_kernel(graph: hg.DependencyGraph, pattern: str) -> int:
    """Return the event_index of the longest kernel whose name matches."""
    kernels = graph.filter(kind="kernel", name=pattern).events
    if kernels.empty:
        raise SystemExit(f"{graph.trace.path}: no kernel matches {pattern!r}")
    return int(kernels.loc[kernels["duration_ns"].idxmax(), "event_index"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", nargs="?", default=str(SAMPLE), help="a profiler file (a simulated sample)")
    parser.add_argument(
        "--kernel", default="", metavar="REGEX", help="draw the longest kernel with this in its name (any)"
    )
    parser.add_argument("--depth", type=int, default=2, metavar="N", help="how many edges away (%(default)s)")
    parser.add_argument("-o", "--output", default="neighbourhood.svg", help=".svg, .png or .dot (%(default)s)")
    options = parser.parse_args()

    try:
        draw(options)
    except hg.HtaGraphError as error:
        raise SystemExit(str(error)) from None


def draw(options: argparse.Namespace) -> None:
    graph = hg.build_graph(hg.read_trace(options.trace))
    kernel = longest_kernel(graph, options.kernel)
    output = Path(options.output)
    if output.suffix != ".dot" and which("dot") is None:
        print("graphviz' dot is not installed; writing its source instead")
        output = output.with_suffix(".dot")
    hg.render(graph, output, around=kernel, depth=options.depth)
    print(f"{output}: event {kernel}, {graph.event(kernel)['name']}")
    print(graph.predecessors(kernel)[["kind", "evidence", "rule", "source_index", "lag_ns"]].to_string(index=False))


if __name__ == "__main__":
    main()
