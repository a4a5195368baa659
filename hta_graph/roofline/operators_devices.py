"""Devices and what their data sheets promise: the table ``devices.json``, found by the name that a trace records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from hta_graph.roofline.kernel_precision import is_tf32
from hta_graph.roofline.operators_demand import Unit

__all__ = ["TYPES", "Device", "device_from_entry", "find_device", "known_devices"]

TYPES = ("double", "float", "tf32", "half", "bfloat16", "float8", "float6", "float4", "int8")
"""What peaks are told for; ``tf32`` is also AMD's XF32, and a type of 8, 6 or 4 bits stands for all of its formats."""
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

        A product of floats has the peak of TF32 if the kernel's name says so, else the plain one: where the name does
        not tell (:func:`is_tf32`), a share of that may exceed 1.
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
