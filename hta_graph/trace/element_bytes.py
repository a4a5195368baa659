"""How large an element of a tensor is, by the names that PyTorch and its profiler write."""

from __future__ import annotations

__all__ = ["element_bytes"]

ELEMENT_BYTES = {
    "bool": 1, "byte": 1, "char": 1, "unsigned char": 1, "signed char": 1, "half": 2, "bfloat16": 2, "short": 2,
    "short int": 2, "int": 4, "unsigned int": 4, "float": 4, "double": 8, "long": 8, "long int": 8,
    "complex<float>": 8, "complex<double>": 16, "complexfloat": 8, "complexdouble": 16, "uint16": 2, "uint32": 4,
    "uint64": 8, "float4_e2m1fn_x2": 1,
}  # fmt: skip
"""Bytes of an element by the names that PyTorch writes, in lower case and without ``c10::``; ``float8_…`` is 1."""


def element_bytes(dtype: object) -> int:
    """Return the bytes of an element of a type, as PyTorch names it; 0 where the name is not known."""
    name = str(dtype).lower().removeprefix("c10::")
    return 1 if name.startswith("float8") else ELEMENT_BYTES.get(name, 0)
