"""Options of the conversion of traces to a workload, and their choices."""

from __future__ import annotations

from dataclasses import dataclass

from hta_graph.base.errors import UsageError

CHOICES = {
    "profile": ("full", "gpu"),
    "unknown": ("error", "as-recorded", "as-compute"),
    "missing": ("error", "copy", "as-recorded", "as-compute"),
    "overlap": ("keep", "share"),
}
"""What can be asked for."""


@dataclass(frozen=True)
class ConvertOptions:
    """How to convert; :data:`CHOICES` are the values that there are.

    ``profile`` is ``full`` or ``gpu``, ``prefix`` how the files' names begin. ``unknown``: communication of which
    something is not known, or that ASTRA-sim does not run, is an ``error``, becomes compute nodes (``as-compute``), or
    nodes in which ranks wait for each other and then the recorded transfer passes (``as-recorded``; so do broadcasts).
    ``missing``: communication with ranks whose traces are not given is an ``error``, keeps its duration and waits
    for no rank (``as-recorded``), becomes nodes ``as-compute``, or such ranks get a ``copy`` of the lowest given one.
    ``overlap``: events that overlapped others on their slot ``keep`` their durations, one after the other in the
    simulator, or ``share`` the time in which any of them ran. ``force``: an earlier folder is replaced.
    """

    profile: str = "full"
    prefix: str = "trace"
    unknown: str = "error"
    missing: str = "error"
    overlap: str = "keep"
    force: bool = False

    def __post_init__(self) -> None:
        """Reject invalid options.

        Raises:
            UsageError: an option has an invalid value.
        """
        for name, choices in CHOICES.items():
            if (given := getattr(self, name)) not in choices:
                raise UsageError(f"{name} must be one of {', '.join(choices)}, not {given!r}")
