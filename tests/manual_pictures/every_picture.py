"""All pictures of the manual, and how each is drawn."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import hta_graph as hg
from analyses.display.labels import CAUSE, EDGE, MEANING, REASON
from hta_graph.export.picture import lanes_picture
from hta_graph.model import EdgeKind
from tests.manual_pictures.classes import CLASSES, REASONS
from tests.manual_pictures.edges import EDGES
from tests.manual_pictures.gaps import GAPS, LAUNCH_GAPS
from tests.manual_pictures.programs import Drawing
from tests.manual_pictures.rank_waits import RANK_WAITS

__all__ = ["FOLDER", "ManualPicture", "drawn", "every_picture", "shown"]

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
WIDTH = 660
"""Readable without scrolling where a page is 700 pixels wide."""


@dataclass(frozen=True)
class ManualPicture:
    """A picture: its file's name, its title, how it is made, and which edges are drawn; None is what is usual."""

    file: str
    title: str | None
    draw: Drawing
    kinds: tuple[EdgeKind, ...] | None = None


def every_picture() -> Iterator[ManualPicture]:
    """Yield all pictures in the order of the pages."""
    yield ManualPicture("first_answer.svg", None, _bundled_step)
    for kind, draw in EDGES.items():
        yield ManualPicture(f"edge_{kind.label}.svg", f"{kind.label}: {EDGE[kind.label]}", draw, (kind,))
    groups = (("class", CLASSES, MEANING), ("reason", REASONS, REASON), ("gap", GAPS, CAUSE))
    for group, drawings, words in (*groups, ("launch_gap", LAUNCH_GAPS, CAUSE)):
        for subject, draw in drawings.items():
            yield ManualPicture(f"{group}_{subject.label}.svg", f"{subject.label}: {words[subject.label]}", draw)
    for name, (draw, said) in RANK_WAITS.items():
        yield ManualPicture(f"rank_wait_{name}.svg", said, draw)


def _bundled_step(folder: Path) -> hg.CriticalPath:
    """The step that the manual's examples are about, under the file's name there."""
    with as_file(files("analyses") / "sample" / "sample_trace.json.gz") as sample:
        trace = Path(shutil.copyfile(sample, folder / "trace.json.gz"))
    return hg.critical_path(hg.build_graph(hg.read_trace(trace)))


def shown(picture: ManualPicture) -> hg.CriticalPath:
    """Return the path that a picture shows."""
    with tempfile.TemporaryDirectory() as folder:
        return picture.draw(Path(folder))


def drawn(picture: ManualPicture) -> str:
    """Return a picture's text."""
    return lanes_picture(shown(picture), width=WIDTH, kinds=picture.kinds, title=picture.title).source
