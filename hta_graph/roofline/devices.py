"""Devices and their peaks: the table ``devices.json`` by recorded name, or peaks that the user gives.

Whether a product of 32-bit floats was computed with fewer bits, only the kernel's name shows: ``torch.backends``
decides it and the profiler does not record that. cuBLAS, cuDNN and CUTLASS write ``tf32``, or for a matrix instruction
of 16 × 8 × 8 on 32-bit floats, which there is for TF32 alone, ``tensorop_s1688`` without another type; AMD's Tensile
writes ``xf32`` or ``_MX_`` (its math operation X). Plain kernels are called after the BLAS routine, ``sgemm``,
``scudnn``, after the instruction, ``ffma``, or after the units, ``simt``; in xmma's names each ``f32f32`` is a type of
what is multiplied and of what is added to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn

from hta_graph.base.errors import TraceError, UsageError
from hta_graph.base.storage.location import Location, resolve_location
from hta_graph.base.text.sanitize import one_line
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.roofline.demand import Unit
from hta_graph.trace.decompress import read_bytes

TF32_NAMES = re.compile(r"tf32|xf32|cijk_[a-z]{1,8}_[a-z]{1,8}_s_mx_|tensorop_s1688(?!f16|bf16)")
FP32_NAMES = re.compile(r"sgemm|scudnn|ffma|_simt_|gemm_f32f32_f32f32_f32|cijk_[a-z]{1,8}_[a-z]{1,8}_s(?:b|_b|_h)?_")
OTHER_TYPE_NAMES = re.compile(r"(?<!t)b?f16_s1688|s1688\w{0,60}?_b?f16")
NAME_PREFIX = 400
"""How much of a name is looked at; templates are far longer, and say it at their beginning."""


def is_tf32(kernel: str) -> bool | None:
    """Return whether a kernel rounds 32-bit floats to TF32 (on AMD: XF32) before it multiplies; ``None``: unknown.

    >>> is_tf32("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x16"), is_tf32("ampere_sgemm_128x64_tn")
    (True, False)
    >>> is_tf32("triton_tem_fused_mm_0")
    """
    name = kernel[:NAME_PREFIX].lower()
    if TF32_NAMES.search(name) and not OTHER_TYPE_NAMES.search(name):
        return True
    return False if FP32_NAMES.search(name) else None


TYPES = ("double", "float", "tf32", "half", "bfloat16", "float8", "float6", "float4", "int8")
"""The types that have peaks; ``tf32`` is also AMD's XF32, and a type of 8, 6 or 4 bits covers all of its formats."""
BYTE_TYPES = {"signed char": "int8", "unsigned char": "int8", "char": "int8", "byte": "int8"}
DOUBLE_TYPES = ("double", "complex<double>", "complexdouble")
MAKERS = ("nvidia", "tesla", "amd", "radeon", "instinct")
"""Words at the beginning of a name that one driver writes and another does not."""
TERA, GIGA = 10**12, 10**9
TABLE = Path(__file__).with_name("devices.json")


@dataclass(frozen=True)
class Device:
    """What a device can do at most: dense, at boost clocks; what is not known is missing.

    ``matrix_tflops`` are those of matrix products by :data:`TYPES`, on whichever units these run, ``vector_tflops``
    those of everything else. ``link_gb_per_s`` is one direction, all links to other devices of the node together.
    """

    name: str
    matrix_tflops: Mapping[str, float] = field(default_factory=dict)
    vector_tflops: Mapping[str, float] = field(default_factory=dict)
    memory_gb_per_s: float | None = None
    link_gb_per_s: float | None = None
    link: str = ""
    source: str = ""
    note: str = ""
    recorded: tuple[str, ...] = ()

    @property
    def memory_bytes_per_s(self) -> float | None:
        """How fast it reads and writes its memory."""
        return _in_units(self.memory_gb_per_s, GIGA)

    def peak_flops(self, unit: Unit, dtype: str, kernel: str = "") -> float | None:
        """Return the FLOP/s of a unit in a type as recorded (``bfloat16``, ``float8_e4m3fn``); ``None``: not known.

        A product of floats has the peak of TF32 if the kernel's name shows it, else the plain one: where the name does
        not show it (:func:`is_tf32`), a share of that may exceed 1.
        """
        if unit is Unit.VECTOR:
            # Types of 16 bits and whole numbers reach their own rates only in pairs, which few kernels work in.
            return _in_units(self.vector_tflops.get("double" if dtype in DOUBLE_TYPES else "float"), TERA)
        return _in_units(self.matrix_tflops.get(_peak_type(dtype, kernel)), TERA)


def _in_units(value: float | None, unit: int) -> float | None:
    return None if value is None else value * unit


def _peak_type(dtype: str, kernel: str) -> str:
    """Return the entry for a type; one that has none stays as it is."""
    if dtype == "float":
        return "tf32" if is_tf32(kernel) else "float"
    for short in ("float8", "float6", "float4"):
        if dtype.startswith(short):
            return short
    return BYTE_TYPES.get(dtype, dtype)


def find_device(name: str) -> Device | None:
    """Return the device that a trace calls so, with its maker's name before it or without; ``None``: not in the table.

    Only whole names count: a part of a GPU (``… MIG 1g.5gb``) or another model is not what it begins like.

    >>> find_device("NVIDIA H100 80GB HBM3").name, find_device("Tesla V100-SXM2-16GB").name
    ('H100 SXM', 'V100 SXM2')
    >>> find_device("NVIDIA H100")
    """
    return _devices_by_name().get(_without_maker(name))


@cache
def known_devices() -> tuple[Device, ...]:
    """Return all devices of the table."""
    entries = json.loads(TABLE.read_text(encoding="utf-8"))["devices"]
    return tuple(device_from_entry(entry) for entry in entries)


def device_from_entry(entry: Mapping[str, Any]) -> Device:
    """Make a device of an entry that has been checked."""
    return Device(**(dict(entry) | {"recorded": tuple(entry.get("recorded", ()))}))


@cache
def _devices_by_name() -> dict[str, Device]:
    return {_without_maker(name): device for device in known_devices() for name in device.recorded}


def _without_maker(name: str) -> str:
    """Return a name in small letters without its maker's."""
    words = name.lower().split()
    while words and words[0] in MAKERS:
        words.pop(0)
    return " ".join(words)


PEAK_TABLES = ("matrix_tflops", "vector_tflops")
RATE_KEYS = ("memory_gb_per_s", "link_gb_per_s")
TEXT_KEYS = ("name", "link", "source", "note")
MAX_TEXT = 200
MAX_FILE_BYTES = 1 << 20
PEAK_PER_BYTE = 16
MAX_PEAK = 10**9
"""A larger number is no TFLOP/s and no GB/s."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
TRACE_REMEDY = "; record the trace again"
REMEDY = (
    "give a device name, such as H100 SXM or MI300X, or a JSON file such as "
    '{"matrix_tflops": {"bfloat16": 989}, "memory_gb_per_s": 3350}'
)


def resolve_peaks(text: str) -> Device:
    """Return the device that ``--peaks`` names: one of the table, or the one that a file or URL describes.

    Raises:
        UsageError: it is neither, or the file holds something else.
    """
    found = _device_from_table(text)
    return found if found is not None else _device_from_file(resolve_location(text))


def _device_from_table(text: str) -> Device | None:
    wanted = " ".join(text.lower().split())
    return next((one for one in known_devices() if one.name.lower() == wanted), None) or find_device(text)


def _device_from_file(path: Location) -> Device:
    """Read a device from a file."""
    try:
        content = read_bytes(path, per_byte=PEAK_PER_BYTE)
    except TraceError as error:
        raise UsageError(str(error).removesuffix(TRACE_REMEDY), REMEDY) from None
    except ValueError:  # a zero byte
        raise UsageError(f"{path}: is not a file name", REMEDY) from None
    if content.broken:
        _refuse(path, content.broken)
    if len(content.data) > MAX_FILE_BYTES:
        _refuse(path, f"holds more than {MAX_FILE_BYTES:,} bytes")
    entry = _decode_object(path, content.data)
    _check_entry(path, entry)
    named = {key: one_line(entry[key]) for key in TEXT_KEYS if key in entry}
    return device_from_entry({"name": "given peaks", **entry, **named})


def _decode_object(path: Location, data: bytes) -> dict[str, Any]:
    """Decode the file's object, in which no key may stand twice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            _refuse(path, "has a duplicate key")
        return found

    try:
        found = json.loads(data.removeprefix(BYTE_ORDER_MARK), object_pairs_hook=unique)
    except (ValueError, RecursionError):
        _refuse(path, "is not JSON")
    if not isinstance(found, dict):
        _refuse(path, "is not a JSON object")
    return found


def _check_entry(path: Location, entry: Mapping[str, Any]) -> None:
    """Refuse what is not a device's: nothing of it is left out silently."""
    _check_keys(path, "", entry, (*PEAK_TABLES, *RATE_KEYS, *TEXT_KEYS))
    for key in TEXT_KEYS:
        if not isinstance(entry.get(key, ""), str) or len(entry.get(key, "")) > MAX_TEXT:
            _refuse(path, f"{key} is not a text of at most {MAX_TEXT} characters")
    for key in RATE_KEYS:
        if key in entry:
            _check_number(path, key, entry[key])
    for key in PEAK_TABLES:
        _check_table(path, key, entry.get(key, {}))


def _check_table(path: Location, key: str, table: Any) -> None:
    if not isinstance(table, dict):
        _refuse(path, f"{key} is not an object of types and numbers")
    _check_keys(path, f"{key}.", table, TYPES)
    for name, value in table.items():
        _check_number(path, f"{key}.{name}", value)


def _check_keys(path: Location, within: str, found: Mapping[str, Any], known: tuple[str, ...]) -> None:
    unknown = [key for key in found if key not in known]
    if unknown:
        _refuse(path, f"{within}{unknown[0][:MAX_TEXT]} is not a known key", f"use one of: {', '.join(known)}")


def _check_number(path: Location, key: str, value: Any) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 < value <= MAX_PEAK or not isfinite(value):
        _refuse(path, f"{key} is not a number above 0 and up to {MAX_PEAK:,}")


def _refuse(path: Location, cause: str, remedy: str = "") -> NoReturn:
    raise UsageError(f"{path}: {cause}", remedy or REMEDY)


def gpu_name(graph: DependencyGraph, gpus: Collection[int]) -> str:
    """Return the name of the GPUs that work; empty where the header does not name them, or several differ."""
    names = graph.trace.gpu_names
    used = {names[gpu] for gpu in gpus if gpu < len(names)} or set(names)
    return used.pop() if len(used) == 1 else ""
