"""All analyses of ranks and steps, a line each, in the order of the help.

A line names the module that declares one as ``ANALYSIS``. The module with pandas behind it is
imported when it is asked; what the command line needs before that stands in :mod:`analyses.help_index`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from analyses.help_index import INDEX

if TYPE_CHECKING:
    from analyses.analysis import Analysis


# Written out: nothing is found by looking, nothing adds itself by being imported.
MODULES = (
    "analyses.questions.temporal_breakdown",
    "analyses.questions.kernel_breakdown",
    "analyses.questions.overlap",
    "analyses.questions.idle_time",
    "analyses.questions.queue_length",
    "analyses.questions.memory_bandwidth",
    "analyses.questions.memory_timeline",
    "analyses.questions.launch_stats",
    "analyses.questions.operator_kernels",
    "analyses.questions.roofline",
    "analyses.questions.kernel_sequences",
    "analyses.questions.annotation_times",
    "analyses.questions.attribution",
    "analyses.questions.hardware_counters",
    "analyses.questions.stragglers",
    "analyses.questions.collectives",
)

CATALOGUE = INDEX
"""How the command line offers each of them."""

_MODULE = {entry.name: entry.module for entry in INDEX}


def analysis(name: str) -> Analysis:
    """Import an analysis by the name of its command.

    >>> analysis("queue-length").help
    'How many launches wait on each stream, and how long a full queue held the CPU.'
    """
    found: Analysis = import_module(_MODULE[name]).ANALYSIS
    return found
