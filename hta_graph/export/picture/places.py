"""Where everything stands in a picture of lanes, in pixels: times from left to right, lanes from top to bottom."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hta_graph.export.picture.lane_scene import LaneScene, lane_label
from hta_graph.export.picture.svg import text_width

__all__ = [
    "BAR_HEIGHT",
    "TITLE_HEIGHT",
    "LABEL_FONT_SIZE",
    "MAX_LABEL_LENGTH",
    "MARGIN",
    "STRIP_HEIGHT",
    "PATH_STRIP_HEIGHT",
    "LaneLayout",
]

BAR_HEIGHT, TRACK_HEIGHT, STRIP_HEIGHT = 14.0, 16.0, 5.0
"""The heights of a bar, of a track, and of the path's strip on a lane."""
TITLE_HEIGHT, PATH_STRIP_HEIGHT, LANE_GAP = 24.0, 13.0, 24.0
"""What stands above: the title and the path's strip of the whole window; and the room between lanes, for arrows."""
CELL_WIDTH = 0.5
"""How fine strips are, in pixels."""
MAX_LABEL_LENGTH, LABEL_FONT_SIZE = 30, 10.0
"""The most characters of a lane's name, and their size."""
MARGIN = 6.0
MIN_WINDOW_WIDTH = 60.0


@dataclass(frozen=True)
class LaneLayout:
    """The places of a scene's parts."""

    scene: LaneScene
    width: float

    @cached_property
    def left(self) -> float:
        """Where the window starts: right of the lanes' names."""
        path = self.scene.path
        names = ["critical path", *(lane_label(path, lane, MAX_LABEL_LENGTH) for lane in self.scene.lanes)]
        return min(max(text_width(name, LABEL_FONT_SIZE) for name in names) + 2 * MARGIN, self.width / 3)

    @property
    def right(self) -> float:
        """Where the window ends."""
        return max(self.width - MARGIN, self.left + MIN_WINDOW_WIDTH)

    @property
    def cells(self) -> int:
        """Into how many cells strips are cut."""
        return int((self.right - self.left) / CELL_WIDTH)

    def x(self, time_ns: int) -> float:
        """Return where a time is; of one outside the window its nearer end."""
        window = self.scene.path.window
        share = (time_ns - window.start_ns) / max(window.end_ns - window.start_ns, 1)
        return self.left + (self.right - self.left) * min(max(share, 0.0), 1.0)

    def x_of_cell(self, cell: int) -> float:
        """Return where a cell of strips begins."""
        return self.left + (self.right - self.left) * cell / self.cells

    @cached_property
    def tops(self) -> dict[int, float]:
        """Return where the strip of each lane begins."""
        found, at = {}, TITLE_HEIGHT + PATH_STRIP_HEIGHT + LANE_GAP
        for lane in self.scene.lanes:
            found[lane] = at
            at += self.height_of(lane) + LANE_GAP
        return found

    def height_of(self, lane: int) -> float:
        """Return the height of a lane: its strip and its tracks."""
        return STRIP_HEIGHT + 1 + TRACK_HEIGHT * max(int(self.scene.tracks[lane]), 1)

    def bar_top(self, lane: int, depth: int) -> float:
        """Return the upper edge of the bars of a track."""
        return self.tops[lane] + STRIP_HEIGHT + 1 + TRACK_HEIGHT * depth

    @property
    def bottom(self) -> float:
        """Where the lanes end."""
        tops = self.tops
        return max((top + self.height_of(lane) for lane, top in tops.items()), default=TITLE_HEIGHT + PATH_STRIP_HEIGHT)
