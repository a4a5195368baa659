"""Do Chakra's own classes read what is written here? Two halves, for two environments.

    python -m tests.chakra.mlc_chakra_read_back write DIR             # with hta-graph: a workload, and what is in it
    PYTHON_WITH_MLC_CHAKRA tests/chakra/mlc_chakra_read_back.py read DIR

The second needs nothing of this project: ``pip install mlc-chakra`` in an environment of its own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

LISTED = "expected.json"


def write(folder: Path) -> None:
    """Write a workload of two ranks from simulated programs and a builder's, and the list of its nodes."""
    import hta_graph as hg
    from hta_graph.chakra.convert import convert
    from hta_graph.chakra.convert_options import ConvertOptions
    from hta_graph.chakra.et_files import read_folder
    from hta_graph.chakra.rank_workload import RankInput
    from tests.simulator import Dialect, random_program, simulate
    from tests.simulator import write as written
    from tests.support.rank_builder import RankBuilder

    folder.mkdir(parents=True)
    inputs = []
    for rank in (0, 1):
        builder = RankBuilder(rank, 2)
        document = written(simulate(random_program(rank, size=2_000)), Dialect(sync_rows="none")).document
        builder.rows = [row for row in document["traceEvents"] if "nccl" not in row.get("name", "")]
        last = max(row["ts"] + row.get("dur", 0) for row in builder.rows if row.get("ph") == "X")
        for corr in range(1, 4):
            at = last + 1_000 * corr
            builder.collective(
                at, (at + 5, at + 50), 1_000_000 + corr, kind=("allreduce", "all_gather", "broadcast")[corr - 1]
            )
        path = builder.write(folder / f"rank{rank}.json")
        inputs.append(RankInput(rank, hg.build_graph(hg.read_trace(path))))
    convert(inputs, folder / "work", ConvertOptions())
    listed = {
        str(npu): [_listed(node) for node in file.nodes()] for npu, file in read_folder(folder / "work").files.items()
    }
    (folder / LISTED).write_text(json.dumps(listed))


def read(folder: Path) -> None:
    """Decode the files with mlc-chakra and compare."""
    from chakra.schema.protobuf.et_def_pb2 import GlobalMetadata, Node  # type: ignore[import-not-found]
    from chakra.src.third_party.utils.protolib import decodeMessage, openFileRd

    for npu, expected in json.loads((folder / LISTED).read_text()).items():
        file = openFileRd(str(folder / "work" / f"trace.{npu}.et"))
        metadata, node, found = GlobalMetadata(), Node(), []
        if not decodeMessage(file, metadata) or not metadata.attr:
            sys.exit(f"rank {npu}: no metadata")
        while decodeMessage(file, node):
            found.append(_listed(node))
            node = Node()
        if found != expected:
            first = next(at for at, pair in enumerate(zip(found, expected, strict=False)) if pair[0] != pair[1])
            sys.exit(
                f"rank {npu}: {len(found)} nodes, written {len(expected)}; the first that differs is number {first}"
            )
        print(f"rank {npu}: mlc-chakra reads all {len(found):,} nodes as they were written")  # noqa: T201


def _listed(node: Any) -> list[Any]:
    values = [(attribute.name, attribute.WhichOneof("value")) for attribute in node.attr]
    known = [[name, kind, getattr(attribute, kind)] for attribute, (name, kind) in zip(node.attr, values, strict=True)]
    times = [node.start_time_micros, node.duration_micros]
    return [node.id, node.name, node.type, list(node.data_deps), list(node.ctrl_deps), *times, known]


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](Path(sys.argv[2]))
