"""What a benchmark ran on."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

__all__ = ["machine", "versions"]


def machine() -> str:
    """Describe processor, memory and system in one line."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB memory, {platform.system()} {platform.machine()}"


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or "unknown processor"


def versions() -> str:
    """Name the interpreter and the packages that decide our speed."""
    named = ("numpy", "msgspec", "orjson", "pandas", *(["isal"] if find_spec("isal") else []))
    packages = ", ".join(f"{name} {version(name)}" for name in named)
    return f"Python {platform.python_version()}, {packages}"
