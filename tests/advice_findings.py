"""Every finding on recordings, to be read and judged: ``python -m tests.advice_findings TRACE…``.

Without arguments the bundled samples and the shared recordings are asked, each about its default window and, where that
is another one, about the whole trace.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import hta_graph as hg
from analyses.advice.facts import PathFacts
from analyses.advice.rules import advice_of, verdict_of
from tests.support.samples import SAMPLES
from tests.support.shared_traces import SHARED, shared_traces


def recordings() -> list[Path]:
    """Return the bundled samples and all shared recordings."""
    more = sorted((SHARED / "traces_more").rglob("*.json.gz")) if SHARED.is_dir() else []
    return [*sorted(SAMPLES.rglob("*.json.gz")), *shared_traces(), *more]


def paths_of(file: Path) -> Iterator[hg.CriticalPath]:
    """Yield the path of the default window, and of the whole trace where that is another window."""
    graph = hg.build_graph(hg.read_trace(file))
    first = hg.critical_path(graph)
    yield first
    if not first.window.is_whole:
        yield hg.critical_path(graph, hg.whole())


def lines_of(path: hg.CriticalPath) -> Iterator[str]:
    """Yield a line for each finding, with its evidence."""
    facts = PathFacts(path)
    for finding in (*verdict_of(facts), *advice_of(facts)):
        saves = "-" if finding.saves_at_most_ns is None else f"{finding.saves_at_most_ns / max(path.length_ns, 1):.1%}"
        yield f"  {finding.rule} [{saves}, {finding.confidence}] {finding.sentences}"
        yield f"      {json.dumps(finding.evidence)}"


def main() -> None:
    """Print all findings."""
    parser = argparse.ArgumentParser(description="Every finding on recordings, to be read and judged.")
    parser.add_argument("traces", nargs="*", type=Path)
    for file in parser.parse_args().traces or recordings():
        try:
            for path in paths_of(file):
                sys.stdout.write(f"{file.parent.name}/{file.name} {path.window.label}\n")
                sys.stdout.writelines(f"{line}\n" for line in lines_of(path))
        except hg.HtaGraphError as error:
            sys.stdout.write(f"{file}: {error}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
