"""Pictures of a graph for graphviz: a critical path, an event's surroundings, the way from one event to another."""

from hta_graph.export.picture.drawing import Picture
from hta_graph.export.picture.names import short_name
from hta_graph.export.picture.pictures import around_picture, between_picture, path_picture
from hta_graph.export.picture.render import check_picture, write_picture

__all__ = [
    "Picture",
    "around_picture",
    "between_picture",
    "check_picture",
    "path_picture",
    "short_name",
    "write_picture",
]
