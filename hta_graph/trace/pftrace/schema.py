"""The protobuf classes of what is read of Perfetto's traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hta_graph.base.protobuf import load_schema, message_class

DESCRIPTOR = Path(__file__).with_name("perfetto.binpb")
"""The schema as a serialized ``FileDescriptorProto``; ``python -m tests.generate`` makes it of ``perfetto.proto``."""

TracePacket: Any = message_class(load_schema(DESCRIPTOR), "TracePacket")
"""One packet of a trace."""
