"""The hash function BLAKE2b as Python's own module has it: ``hashlib`` would load OpenSSL besides (4 ms)."""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # another Python than CPython
    from hashlib import blake2b

__all__ = ["blake2b"]
