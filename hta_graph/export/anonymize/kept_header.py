"""What a file says about itself, as far as everybody may know it."""

from __future__ import annotations

import re
from typing import Any

from hta_graph.export.anonymize.allowlist import allowed_number, allowed_ranks, group_description, group_name
from hta_graph.export.anonymize.pseudonyms import Pseudonyms
from hta_graph.trace.rows import Header

__all__ = ["allowed_header"]

DEVICE_NUMBERS = {
    "id", "totalGlobalMem", "computeMajor", "computeMinor", "maxThreadsPerBlock", "maxThreadsPerMultiprocessor",
    "regsPerBlock", "warpSize", "sharedMemPerBlock", "numSms", "regsPerMultiprocessor", "sharedMemPerBlockOptin",
    "sharedMemPerMultiprocessor",
}  # fmt: skip
"""What is kept of a device besides its name."""

GPU_NAME = re.compile(
    r"(NVIDIA |AMD |Intel\(R\) )?(GeForce|Quadro|Tesla|TITAN|RTX|GTX|Instinct|Radeon|Data Center GPU Max|Graphics|DGX"
    r"|[ABHVLPTK]\d{1,3}0?|GH200|GB\d00|MI\d{2,3}[A-Z]?)[\w .()+/-]{0,40}"
)
"""How GPUs are called by those who sell them."""

BACKEND_NAME = re.compile(r"((cpu|cuda|xpu|hpu|mps|npu):)?(nccl|gloo|mpi|ucc|xccl|hccl|rccl|fake|undefined)(,|$)")
VERSION_NUMBER = re.compile(r"\d{1,9}(\.\d{1,9}){0,4}")


def allowed_header(header: Header, names: Pseudonyms, *, shapes: bool) -> dict[str, Any]:
    """Return the keys of the file that stays: versions, devices, options, the job; hosts and groups by other names."""
    kept: dict[str, Any] = {
        key: _allowed_setting(key, value, names) for key, value in header.settings.items() if value is not None
    }
    if not shapes and "record_shapes" in kept:
        kept["record_shapes"] = 0  # what is not in the file was, for whoever reads it, not recorded
    kept["deviceProperties"] = _devices(header.devices, names)
    kept["distributedInfo"] = _distributed(header.distributed, names)
    return {key: value for key, value in kept.items() if value is not None}


def _allowed_setting(key: str, value: Any, names: Pseudonyms) -> Any:
    if key == "host_name":
        return names.text("host", str(value)) if isinstance(value, str) and value else None
    return _allowed_version(value)


def _allowed_version(value: Any) -> Any:
    if isinstance(value, str):
        return value if VERSION_NUMBER.fullmatch(value) else None
    return int(value) if isinstance(value, bool) else allowed_number(value)


def _devices(devices: Any, names: Pseudonyms) -> list[dict[str, Any]] | None:
    if not isinstance(devices, list):
        return None
    return [_device(device, names) for device in devices if isinstance(device, dict)]


def _device(device: dict[str, Any], names: Pseudonyms) -> dict[str, Any]:
    found = {key: allowed_number(device[key]) for key in device if key in DEVICE_NUMBERS}
    name = device.get("name")
    if isinstance(name, str) and name:
        found["name"] = name if GPU_NAME.fullmatch(name) else names.text("device", name)
    return {key: value for key, value in found.items() if value is not None}


def _distributed(info: Any, names: Pseudonyms) -> dict[str, Any] | None:
    if not isinstance(info, dict):
        return None
    found = {key: allowed_number(info.get(key)) for key in ("rank", "world_size", "pg_count")}
    kept = {
        **found,
        "backend": _backend(info.get("backend"), names),
        "nccl_version": _allowed_version(info.get("nccl_version")),
        "pg_config": _allowed_groups(info.get("pg_config"), names),
    }
    return {key: value for key, value in kept.items() if value is not None}


def _backend(value: Any, names: Pseudonyms) -> str | None:
    """Keep what PyTorch calls its back ends; that Gloo is among others decides which groups it serves.

    >>> _backend("cpu:gloo,cuda:nccl", Pseudonyms()), _backend("acme over gloo", Pseudonyms())
    ('cpu:gloo,cuda:nccl', 'gloo')
    """
    if not isinstance(value, str) or not value:
        return None
    if BACKEND_NAME.sub("", value) == "":
        return value
    return "gloo" if "gloo" in value else names.text("backend", value)


def _allowed_groups(listed: Any, names: Pseudonyms) -> list[dict[str, Any]] | None:
    if not isinstance(listed, list):
        return None
    return [_allowed_group(own, names) for own in listed if isinstance(own, dict)]


def _allowed_group(own: dict[str, Any], names: Pseudonyms) -> dict[str, Any]:
    kept = {
        "pg_name": group_name(names, own.get("pg_name")),
        "pg_desc": group_description(names, own.get("pg_desc")),
        "backend_config": _backend(own.get("backend_config"), names),
        "pg_size": allowed_number(own.get("pg_size")),
        "ranks": allowed_ranks(own.get("ranks")) if isinstance(own.get("ranks"), list) else None,
    }
    return {key: value for key, value in kept.items() if value is not None}
