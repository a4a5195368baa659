"""The programs that tests of single rules bring along: ``PROGRAM`` in ``tests/dependencies/test_<rule>.py``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from hta_graph.build.from_trace import DEFAULT_RULES
from tests.simulator import Program


@cache
def rule_programs() -> Mapping[str, Program]:
    """Return a program that waits for what a rule finds, by the rule's name, where a test brings one."""
    tests = {rule.__name__: f"tests.dependencies.test_{rule.__name__}" for rule in DEFAULT_RULES}
    programs = {name: getattr(import_module(test), "PROGRAM", None) for name, test in tests.items() if find_spec(test)}
    return {name: program for name, program in programs.items() if program is not None}
