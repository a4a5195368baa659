"""Pictures of a graph: a critical path, an event's surroundings, the path between two events; lanes of time."""

from hta_graph.base.text.shorten import short_name
from hta_graph.export.picture.dot import Picture
from hta_graph.export.picture.lanes_picture import lanes_picture
from hta_graph.export.picture.render import (
    around_picture,
    between_picture,
    check_picture,
    path_picture,
    render,
    write_picture,
)

__all__ = [
    "Picture",
    "around_picture",
    "between_picture",
    "check_picture",
    "lanes_picture",
    "path_picture",
    "render",
    "short_name",
    "write_picture",
]
