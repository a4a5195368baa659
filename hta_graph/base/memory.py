"""How much memory this process may still take: the machine's, its group's, its own limit's."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

UNKNOWN_MEMORY = 4 << 30
NO_LIMIT = 1 << 62
ONE_SHARE = 0.9
"""How much of the memory that is available one task may take, if nothing else is said."""


def format_bytes(size: int) -> str:
    """Print a number of bytes.

    >>> format_bytes(5 << 20), format_bytes(1000)
    ('5 MiB', '0.001 MiB')
    """
    return f"{size / 2**20:,.0f} MiB" if size >= 1 << 20 else f"{size / 2**20:.3f} MiB"


def available_memory() -> int:
    """Return the memory (bytes) that is available to this process: the machine's, its group's, its own limit's."""
    return max(min(_machine_memory(), _control_group_limit(), _own_limits()), 0)


def _machine_memory() -> int:
    """Return the memory that is available; if unknown, half of all memory."""
    if noted := noted_memory("MemAvailable"):
        return noted
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return UNKNOWN_MEMORY


def noted_memory(name: str) -> int:
    """Return what the system notes of its memory (bytes); 0 where it does not."""
    with suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        return int(text.split(f"{name}:")[1].split()[0]) << 10
    return 0


def _control_group_limit() -> int:
    """Return the limit of this process's control group, a container's for example (Linux, cgroup v2)."""
    limits = []
    with suppress(OSError, ValueError, IndexError):
        group = Path("/proc/self/cgroup").read_text(encoding="utf-8").split("::")[1].strip()
        # Inside a container its own group is the root of what it sees.
        for folder in [Path("/sys/fs/cgroup", group.lstrip("/")), Path("/sys/fs/cgroup")]:
            with suppress(OSError, ValueError):
                limits.append(int((folder / "memory.max").read_text(encoding="ascii")))
    return min(limits, default=NO_LIMIT)


def _own_limits() -> int:
    """Return what this process's own limits leave (``ulimit -v`` and ``-d``)."""
    return min(
        (limit - used for name, used in used_bytes().items() if (limit := _soft_limit(name)) is not None),
        default=NO_LIMIT,
    )


def used_bytes() -> dict[str, int]:
    """Return what each limit of a process is compared with; nothing if unknown."""
    with suppress(OSError, ValueError, IndexError):
        size, data = _statm(0, 5)
        return {"RLIMIT_AS": size, "RLIMIT_DATA": data}
    return {}


def resident_bytes() -> int:
    """Return how much memory this process holds; 0 if unknown."""
    with suppress(OSError, ValueError, IndexError):
        return _statm(1)[0]
    return 0


def _statm(*fields: int) -> list[int]:
    """Return fields of this process's memory, in bytes."""
    with open("/proc/self/statm", "rb", buffering=0) as file:  # noqa: PTH123 - asked after every part of a text
        pages = file.read(200).split()
    return [int(pages[field]) * os.sysconf("SC_PAGE_SIZE") for field in fields]


def _soft_limit(name: str) -> int | None:
    try:
        import resource
    except ImportError:
        return None
    soft, _ = resource.getrlimit(getattr(resource, name))
    return None if soft == resource.RLIM_INFINITY else soft


M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Numbers of settings (malloc.h of glibc)."""


def keep_freed_memory() -> None:
    """Let this process use memory again that it freed, instead of giving it back and asking for it page by page.

    A command makes thousands of arrays of some MB, one after the other: half of its time in the system goes that way.
    This is for programs of one's own; systems whose allocator has no such settings go on without.
    """
    import ctypes  # late: NumPy, which makes the arrays, imports it too

    with suppress(AttributeError, OSError, TypeError):
        set_option = ctypes.CDLL(None).mallopt
        set_option(M_MMAP_THRESHOLD, 4 << 20)
        set_option(M_TRIM_THRESHOLD, 2**31 - 1)
