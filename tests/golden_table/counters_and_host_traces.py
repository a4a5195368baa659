"""Formulas: counter tracks, hardware counters, host traces, and HTA's summaries in the form that is compared."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from tests.golden_table.golden_files import Golden
from tests.golden_table.hta_faults import Fault, Faults
from tests.golden_table.launches import queue_series, rate_series
from tests.golden_table.our_answers import counter_tracks, filters_asked
from tests.golden_table.raw_trace import OPERATOR, Run
from tests.support.shared_traces import SHARED

__all__ = ["compared_part", "counted", "counters", "host_nodes"]

LOADED = ("rows", "gpu_rows(stream!=-1)", "streams", "dur_negative", "iterations")
LEFT_BEHIND = {
    *("user_annotation", "s_user_annotation", "depth", "height", "parent", "num_kernels", "kernel_dur_sum"),
    *("kernel_span", "first_kernel_start", "last_kernel_end"),
}
"""Columns that HTA's other analyses left in the trace's frame."""


def counters(run: Run, arguments: Mapping[str, Any], faults: Faults) -> list[dict[str, Any]]:
    """The tracks of queue lengths and copy rates of each rank."""
    queues, copies = queue_series(run, arguments, faults), rate_series(run, arguments, faults)
    found = []
    for rank in arguments["ranks"]:
        tracks: dict[str, list[Any]] = {}
        for stream, part in queues.get(rank, pd.DataFrame(columns=["stream"])).groupby("stream"):
            tracks[f"Queue Length | name=Queue Length | id={stream}"] = part["queue_length"].tolist()
        for name, part in copies.get(rank, pd.DataFrame(columns=["name"])).groupby("name"):
            tracks[f"Memcpy BW | name={name} | id=None"] = part["memory_bw_gbps"].tolist()
        if not tracks and Fault.NO_EMPTY_FILE in faults:
            continue
        summed = counter_tracks(tracks)
        name = run.files[rank].replace(".json", "_with_counters.json")
        total = run.elements[rank] + summed["counter_events"]
        found.append({"file": name, "gzip": True, "events_total": total, **summed})
    return found


def counted(run: Run, arguments: Mapping[str, Any], faults: Faults) -> list[pd.DataFrame]:
    """Profiler ranges with the operators around the launches of the same place in order."""
    del arguments
    frame = next(iter(run.seen(faults).values()))
    ranges = frame[frame["cat"] == "cuda_profiler_range"].sort_values("start", kind="stable")
    launches = frame[(frame["name"] == "cudaLaunchKernel") & frame["cat"].str.endswith("_runtime")]
    launches = launches.sort_values("start", kind="stable")
    if not len(ranges) or len(ranges) != len(launches):
        return []
    stacks = [_around(frame, launch) for launch in launches.itertuples()]
    columns = {
        "index": ranges["index"],
        "name": ranges["name"],
        "ts": ranges["start"] / 1e3,
        "dur": ranges["dur"] / 1e3,
    }
    found = pd.DataFrame(columns).assign(
        index_runtime=launches["index"].to_numpy(),
        op_stack=stacks,
        top_level_op=[stack[0] if stack else "" for stack in stacks],
        bottom_level_op=[stack[-1] if stack else "" for stack in stacks],
    )
    found.attrs["some"] = True
    return [found]


def _around(frame: pd.DataFrame, launch: Any) -> list[str]:
    own = frame[(frame["cat"] == OPERATOR) & (frame["tid"] == launch.tid) & (frame["pid"] == launch.pid)]
    own = own[(own["start"] <= launch.start) & (own["end"] >= launch.end)]
    return own.sort_values(["start", "dur"], ascending=[True, False])["name"].tolist()


def host_nodes(run: Run, arguments: Mapping[str, Any], faults: Faults) -> dict[str, int] | None:
    """The host node whose rf_id is a row's External id; nothing if some operator has none."""
    del faults
    path = next((SHARED / "traces").glob(f"{run.name}/{arguments['et']}"))
    nodes = json.loads(gzip.decompress(path.read_bytes()))["nodes"]
    known = {_rf_id(node): int(node["id"]) for node in nodes}
    frame = run.ranks[0]
    own = frame[frame["cat"].isin((OPERATOR, "user_annotation")) & (frame["external_id"] > 0)]
    found = {str(index): known[ident] for index, ident in own["external_id"].items() if ident in known}
    return found if len(found) == len(own) else None


def _rf_id(node: Mapping[str, Any]) -> int:
    said = {item["name"]: item["value"] for item in node.get("attrs", [])}
    return int(said.get("rf_id", node.get("rf_id", -1)))


def compared_part(golden: Golden) -> Any:
    """Return HTA's answer without what depends on its machine, its earlier calls, or an order by chance."""
    result = golden.result
    value = result.get("value")
    if golden.method == "__init__":
        ranks = {rank: {key: own[key] for key in LOADED} for rank, own in value["ranks"].items()}
        return {"kind": "value", "value": ranks}
    if golden.method == "generate_trace_with_counters":
        kept = [{key: item for key, item in made.items() if key not in ("bytes", "first3")} for made in value]
        return {"kind": "value", "value": kept}
    if golden.method == "trace_filter/*":
        own = {
            key: {"rows": value[key]["rows"], "dur_sum": value[key]["dur_sum"] or 0} for key in filters_asked(golden)
        }
        return {"kind": "value", "value": own}
    if golden.method == "ops_diff":
        return {"kind": "value", "value": {key: sorted(names) for key, names in value.items()}}
    if golden.method == "get_cupti_counter_data_with_operators" and result["kind"] == "tuple":
        return {"kind": "tuple", "items": [_shorter(frame) for frame in result["items"]]}
    return result


def _shorter(frame: dict[str, Any]) -> dict[str, Any]:
    """Leave out columns; the order of the rest, which is by chance among counters, is not compared."""
    kept = [at for at, name in enumerate(frame["columns"]) if name not in LEFT_BEHIND]
    rows = [[row[at] for at in kept] for row in frame["rows"]]
    return frame | {"columns": [frame["columns"][at] for at in kept], "rows": rows, "some": True}
