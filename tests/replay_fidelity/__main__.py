"""Print how far replay can be believed: ``python -m tests.replay_fidelity [FOLDER…] [--json]``.

FOLDER holds rank files, or folders of them; by default the shared traces. Jobs with a recorded truth (``truth.json``)
are asked for their injected delays too, and beside them runs of the same kind without a fault (``…_base_…``).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import hta_graph as hg
from tests.replay_fidelity.ab_pairs import Compared, compared
from tests.replay_fidelity.held_out import HeldOut, held_out
from tests.replay_fidelity.injected_delays import Injected, base_lengths, injected, kind_of
from tests.replay_fidelity.tables import (
    by_kind,
    by_trace,
    held_out_table,
    injected_summary,
    injected_table,
    misses,
    pairs_table,
)
from tests.support.shared_traces import SHARED

DEFAULT = tuple(SHARED / name for name in ("traces", "traces_more", "gloo"))


@dataclass
class Fidelity:
    """What was predicted, and what was measured."""

    held_out: list[HeldOut] = field(default_factory=list)
    pairs: list[Compared] = field(default_factory=list)
    injected: list[Injected] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "held_out": [
                {**asdict(one), "error": one.error, "all_error": one.all_error, "trivial_error": one.trivial_error}
                for one in self.held_out
            ],
            "pairs": [{**asdict(one), "error": one.error, "trivial_error": one.trivial_error} for one in self.pairs],
            "injected": [asdict(one) | {"reference_ns": one.reference_ns} for one in self.injected],
        }


def measured(roots: Sequence[Path]) -> Fidelity:
    """Predict all that can be predicted in some folders."""
    found = Fidelity()
    for root in roots:
        found.pairs += compared(root)
        for folder in _folders_of_ranks(root):
            found.held_out += _held_out_of(root, folder)
            if _has_fault(folder):
                found.injected += injected(folder, base_lengths(SHARED / "gloo").get(kind_of(folder), ()))
    return found


def _has_fault(folder: Path) -> bool:
    truth = folder / "truth.json"
    return truth.exists() and bool(json.loads(truth.read_text())["injections"])


def _folders_of_ranks(root: Path) -> list[Path]:
    folders = {path.parent for path in root.rglob("*.json*") if path.name.endswith((".json", ".json.gz"))}
    return sorted(folder for folder in folders if _rank_files(folder))


def _rank_files(folder: Path) -> list[Path]:
    files = [path for path in sorted(folder.glob("*.json*")) if path.name.startswith(("rank", "kineto_rank", "trace"))]
    return [] if folder.name == "flight" else files


def _held_out_of(root: Path, folder: Path) -> Iterator[HeldOut]:
    """Predict steps of a folder's ranks, each alone where it has a GPU, and of the job that they make."""
    name = f"{root.name}/{folder.relative_to(root)}" if folder != root else folder.name
    files = _rank_files(folder)
    if len(files) > 1:
        yield from held_out(name, hg.read_job(files), "iteration")
    if (folder / "truth.json").exists():
        return
    for file in files:
        graph = hg.build_graph(hg.read_trace(file))
        rank = f"{name}/{file.name.split('.')[0]}" if len(files) > 1 else name
        yield from held_out(rank, graph, "iteration")
        yield from held_out(rank, graph, "latency")


def report(found: Fidelity) -> Iterator[str]:
    """Print the tables of each protocol."""
    yield "## Held-out steps: median / p90 / max error of the predicted length\n"
    yield from held_out_table(by_kind(found.held_out))
    yield "\nby trace, iterations from steps of like structure\n"
    yield from held_out_table(by_trace(found.held_out))
    yield "\nmisses above 5%\n"
    yield from misses(found.held_out)
    if found.pairs:
        yield "\n## A/B pairs\n"
        yield from pairs_table(found.pairs)
    if found.injected:
        yield "\n## Injected delays\n"
        yield from injected_summary(found.injected)
        yield ""
        yield from injected_table(found.injected)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables, or the document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=DEFAULT)
    parser.add_argument("--json", action="store_true", help="every prediction as JSON")
    options = parser.parse_args(argv)
    found = measured(options.folders)
    text = json.dumps(found.document(), indent=1) if options.json else "\n".join(report(found))
    sys.stdout.write(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
