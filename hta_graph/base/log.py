"""The logger: skipped files, dropped events, missing ranks, corrected clocks.

Lines go to the logger ``hta_graph``, which is silent until a program asks for them: ``logging.basicConfig()`` prints
the warnings. The command line prints its own lines.
"""

from __future__ import annotations

import sys

from hta_graph.base.text.sanitize import one_line

LOGGER_NAME = "hta_graph"
INFO, WARNING = 20, 30
"""As :mod:`logging` has them."""


def log_warning(line: str) -> None:
    """Log that something is lost or doubtful."""
    _log(WARNING, line)


def log_info(line: str) -> None:
    """Log that something was corrected."""
    _log(INFO, line)


def _log(level: int, line: str) -> None:
    # Who has not imported it does not listen either: commands start without it.
    if logging := sys.modules.get("logging"):
        logger = logging.getLogger(LOGGER_NAME)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())  # else Python would print what nobody asked for
        logger.log(level, "%s", one_line(line))
