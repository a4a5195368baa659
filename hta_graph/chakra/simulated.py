"""What a simulated rank can do: its slots, and the communication that it runs."""

from __future__ import annotations

__all__ = [
    "COMMUNICATION",
    "COMPUTE",
    "COPY_NAME_PREFIXES",
    "CPU",
    "DELAY",
    "MIN_ALL_GATHER_BYTES",
    "NO_SLOT",
    "SUPPORTED_COMMUNICATION",
]

CPU, COMPUTE, COMMUNICATION, NO_SLOT = range(4)
"""The slots: each runs one node at a time, whatever the thread or stream; a receive takes none."""

SUPPORTED_COMMUNICATION = ("ALL_REDUCE", "ALL_GATHER", "ALL_TO_ALL", "REDUCE_SCATTER", "BROADCAST", "SEND", "RECV")
"""What ASTRA-sim runs; REDUCE, GATHER, SCATTER, REDUCE_SCATTER_BLOCK and BARRIER end it."""

DELAY = "delay"
"""The name of a node that is no event: its slot idles for no recorded reason, or the host works unseen."""

COPY_NAME_PREFIXES = ("Memcpy ", "Memset ")
"""How the names of copies and sets begin; a log knows them from kernels by nothing else."""

MIN_ALL_GATHER_BYTES = 4
"""Bytes of the smallest all-gather that ends: ASTRA-sim cuts it in as many parts. Other collectives may be empty."""
