"""All analyses of ranks and steps, one line each, in the order of the help.

A line names the module that declares one as ``ANALYSIS``. The module, which needs pandas, is imported when its
analysis runs; :mod:`analyses.questions.help_index` holds what the command line needs before that.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from analyses.questions.help_index import INDEX

if TYPE_CHECKING:
    from analyses.declare.analysis import Analysis


# Listed explicitly: no discovery, and no registration as a side effect of an import.
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
    "analyses.questions.serving",
    "analyses.questions.annotation_times",
    "analyses.questions.attribution",
    "analyses.questions.hardware_counters",
    "analyses.questions.stragglers",
    "analyses.questions.collectives",
)

CATALOGUE = INDEX
"""The description of each analysis for the command line."""

_MODULE = {entry.name: entry.module for entry in INDEX}


def analysis(name: str) -> Analysis:
    """Import an analysis by the name of its command.

    >>> analysis("queue-length").help
    'Launch queue length per stream, and time blocked on a full queue.'
    """
    found: Analysis = import_module(_MODULE[name]).ANALYSIS
    return found
