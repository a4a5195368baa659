"""A stretch of time as lanes: who worked when, the critical path drawn through them, and arrows for what waited."""

from hta_graph.export.picture.lanes.lanes_picture import lanes_picture

__all__ = ["lanes_picture"]
