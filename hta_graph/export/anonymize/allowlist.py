"""Which arguments of rows and keys of the header are kept, and in which form; what is not listed is dropped."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from math import isfinite, prod
from typing import Any

from hta_graph.export.anonymize.pseudonyms import IdMap, Pseudonyms, collective_word
from hta_graph.export.anonymize.public_names import SYNC_RECORDS
from hta_graph.model import EventKind
from hta_graph.trace.json_reader import Header, number_or_text
from hta_graph.trace.profiler_names import KERNEL_OF_CALL, PROCESS_GROUP_CALL

NUMERIC_ARGUMENTS = {
    "correlation", "External id", "external id", "Sequence number", "Fwd thread id", "wait_on_stream",
    "wait_on_cuda_event_record_corr_id", "wait_on_cuda_event_id", "bytes", "memory bandwidth (GB/s)", "Seq", "Comms Id",
    "Group size", "In msg nelems", "Out msg nelems", "Src Rank", "Dst Rank", "Rank", "Global rank start",
    "Global rank stride", "Is asynchronized op", "Process Group ID", "Record function id", "Ev Idx", "Python id",
    "Python parent id", "Python module id", "cbid", "graph id", "graph node id", "queued", "Bytes", "Total Allocated",
    "Total Reserved", "Device Id", "Device Type",
}  # fmt: skip
"""Counters, sizes of copies and messages, and numbers of ranks: what the graph, matching and analyses are made of."""

STREAM_ARGUMENTS = ("device", "context", "stream", "original_stream")

SHAPE_ARGUMENTS = {
    "Input Strides", "grid", "block", "blocks per SM", "warps per SM", "est. achieved occupancy %",
    "registers per thread", "shared memory", "In split size", "Out split size",
}  # fmt: skip
"""What shows the size of tensors, or how a kernel was launched for them."""

DIMENSION_ARGUMENTS = {"Input Dims", "Input dims"}
TYPE_PATTERN = re.compile(
    r"(c10::)?(float|double|half|bfloat16|bool|byte|char|short|int|long|long int|unsigned char|signed char|short int"
    r"|unsigned int|u?int\d{1,2}|float\d{1,2}(_\w{1,12})?|complex\w{0,8}(<\w{1,10}>)?|Scalar|ScalarList|TensorList"
    r"|OptionalTensorList|GenericList|Generic ?Dict|Device|None|Float8_\w{1,12})",
    re.IGNORECASE,
)
COLLECTIVE_PATTERN = re.compile(
    r"_?(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|reduce|gather|scatter|barrier|send|recv)"
    r"(v|_base|_oop|_sparse|_into_tensor|_tensor|_coalesced|_block)*|wait|coalesced"
)
SYNC_PATTERN = re.compile(SYNC_RECORDS)
COUNTER_PATTERN = re.compile(r"[a-z0-9]{1,12}__[a-z0-9_]{1,100}(\.[a-z_]{1,30}){0,3}")
RANK_LIST_PATTERN = re.compile(r"[\[\]\d, .]{0,20000}")
KNOWN_DESCRIPTIONS = ("", "undefined", "default_pg")
RANK_PATTERN = re.compile(r"\d{1,9}|")
LARGEST_SIZE = 1 << 40
MAX_DEPTH = 8


class ArgumentAllowlist:
    """Chooses the arguments of one rank's rows; ``dropped`` counts the others by key.

    Args:
        names: other names for texts.
        numbers: other numbers.
        shapes: whether shapes stay.
    """

    def __init__(self, names: Pseudonyms, numbers: IdMap, *, shapes: bool) -> None:
        self._names = names
        self.dropped: Counter[str] = Counter()
        self._rules: dict[str, Callable[[Any], Any]] = {
            **dict.fromkeys(NUMERIC_ARGUMENTS, allowed_number),
            **dict.fromkeys(STREAM_ARGUMENTS, lambda value: numbers.stream(number_or_text(value))),
            "dtype": _allowed_type,
            "Addr": lambda value: None if allowed_number(value) is None else numbers.address(allowed_number(value)),
            "Collective name": self._collective,
            "Process Group Name": lambda value: group_name(names, value),
            "Process Group Ranks": allowed_ranks,
            "Process Group Description": lambda value: group_description(names, value),
            "cuda_sync_kind": lambda value: _if_matching(SYNC_PATTERN, value),
            **dict.fromkeys(
                KERNEL_OF_CALL,
                lambda value: names.name(EventKind.KERNEL, value) if isinstance(value, str) else None,
            ),
        }
        if shapes:
            self._rules |= dict.fromkeys((*SHAPE_ARGUMENTS, *DIMENSION_ARGUMENTS), _allowed_numbers)
            self._rules |= {"Input type": _allowed_types, "Concrete Inputs": _plain_inputs}

    def of(self, name: str, args: Any, *, is_range: bool) -> dict[str, Any]:
        """Return what stays of the arguments of a row.

        Args:
            name: what the row was called.
            args: its arguments.
            is_range: whether they are the values of hardware counters.
        """
        if not isinstance(args, dict):
            return {}
        meets = name in PROCESS_GROUP_CALL or name.startswith("gloo:") or name == "record_param_comms"
        found = {}
        for key, value in args.items():
            rule = self._rules.get(key)
            if rule is None and meets:
                rule = _COMMUNICATION_RULES.get(key)
            if rule is None and is_range and COUNTER_PATTERN.fullmatch(key):
                rule = allowed_number
            kept = None if rule is None or value is None else rule(value)
            if kept is not None:
                found[key] = kept
            elif value is not None:
                self.dropped[key] += 1
        return found

    def _collective(self, value: Any) -> str | None:
        """Keep the name of a collective; of another one the word that says what it does."""
        if not isinstance(value, str):
            # That there is one makes a kernel one of communication, whatever it is.
            return None if isinstance(value, (dict, list, bool)) else "unknown"
        if COLLECTIVE_PATTERN.fullmatch(value):
            return value
        return self._names.text("collective", value) + collective_word(value)


def allowed_number(value: Any) -> int | float | str | None:
    """Keep a number, also where it is written as text; nothing else.

    >>> allowed_number(7), allowed_number("12"), allowed_number("host-12"), allowed_number(True), allowed_number([1])
    (7, '12', None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        return None
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 64 else str(value)[:40]
    try:
        number = Decimal(value[:60] if isinstance(value, str) else value)
    except ArithmeticError:
        return None
    if not number.is_finite():
        return None
    if isinstance(value, Decimal):
        return int(number) if number == number.to_integral_value() and abs(number) < 1 << 63 else float(number)
    return str(number)


def group_name(names: Pseudonyms, value: Any) -> Any:
    """Keep the number of a process group; another name becomes a pseudonym, the same on all ranks."""
    if isinstance(value, str) and not RANK_PATTERN.fullmatch(value):
        return names.text("group", value)
    return value if isinstance(value, str) else allowed_number(value)


def group_description(names: Pseudonyms, value: Any) -> str | None:
    """Keep what PyTorch says of a group; what a program says becomes a pseudonym."""
    if not isinstance(value, str):
        return None
    return value if value in KNOWN_DESCRIPTIONS else names.text("description", value)


def allowed_ranks(value: Any) -> Any:
    """Keep a list of ranks, also where it is written as text."""
    return _if_matching(RANK_LIST_PATTERN, value) if isinstance(value, str) else _allowed_numbers(value)


def _if_matching(shape: re.Pattern[str], value: Any) -> str | None:
    return value if isinstance(value, str) and shape.fullmatch(value) else None


def _allowed_type(value: Any) -> str | None:
    return _if_matching(TYPE_PATTERN, value)


def _allowed_types(value: Any) -> Any:
    """Keep the names of types in a list; what is none becomes empty, so that places stay places."""
    return [_allowed_type(item) or "" for item in value] if isinstance(value, list) else None


def _allowed_numbers(value: Any, depth: int = 0) -> Any:
    """Keep numbers, and lists of them; text only where it is such a list.

    >>> _allowed_numbers([[4, 2], []]), _allowed_numbers("[4, 4]"), _allowed_numbers([["secret"]])
    ([[4, 2], []], '[4, 4]', [[None]])
    """
    if isinstance(value, list):
        return [_allowed_numbers(item, depth + 1) for item in value] if depth < MAX_DEPTH else None
    return _if_matching(RANK_LIST_PATTERN, value) or allowed_number(value)


def _plain_inputs(value: Any) -> Any:
    """Keep the inputs of an operator that are numbers or lists of them."""
    if not isinstance(value, list):
        return None
    return [item if isinstance(item, str) and _INPUT.fullmatch(item) else "" for item in value]


_INPUT = re.compile(r"[\[\]\d, .eE+-]{0,2000}|True|False|None")


def _sizes_only(value: Any) -> Any:
    """Keep how many elements each tensor of a call has, not its shape.

    >>> _sizes_only([[128, 3], []]), _sizes_only([[[4, 2], [3]], []]), _sizes_only([["x"]])
    ([[384], []], [[[8], [3]], []], [[]])
    """
    return _sizes_within(value, 0) if isinstance(value, list) else None


def _sizes_within(value: list[Any], depth: int) -> Any:
    if depth > MAX_DEPTH:
        return []
    if any(isinstance(item, list) for item in value):
        return [_sizes_within(item, depth + 1) if isinstance(item, list) else [] for item in value]
    sizes = [
        item for item in value if isinstance(item, int) and not isinstance(item, bool) and 0 <= item < LARGEST_SIZE
    ]
    if not value or len(sizes) < len(value):
        return []
    return [prod(sizes)] if prod(sizes) < LARGEST_SIZE else sizes


def _rank_inputs(value: Any) -> Any:
    """Keep the numbers among the inputs of a process group's call: its root or peer is one of them."""
    if not isinstance(value, list):
        return None
    return [item if isinstance(item, str) and RANK_PATTERN.fullmatch(item) else "" for item in value]


_COMMUNICATION_RULES: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(DIMENSION_ARGUMENTS, _sizes_only),
    "Input type": _allowed_types,
    "Concrete Inputs": _rank_inputs,
}
"""What stays of the rows by which ranks are matched: whom, how many elements, of which type."""


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
RECORDER = re.compile(r"Nsight Systems( \d{1,9}(\.\d{1,9}){0,4})?( \(schema \d{1,9}(\.\d{1,9}){0,4}\))?")
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
    if key == "recorder":
        return value if isinstance(value, str) and RECORDER.fullmatch(value) else None
    return None if key == "process" else _allowed_version(value)


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
