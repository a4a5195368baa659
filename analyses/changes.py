"""Changes that a what-if question names: in words, as JSON has them, and as replay makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analyses.display.text_layout import Line, table
from hta_graph.what_if.changes import Change, remove, scale
from hta_graph.what_if.scenarios import SCENARIOS, scenario


@dataclass(frozen=True)
class NamedChange:
    """A change, what it means in words, and what it assumes where that is not plain."""

    change: Change
    says: str
    record: dict[str, Any]
    assumes: str | None = None

    @property
    def asked(self) -> str:
        """The change as it is written on the command line, without its option."""
        return str(self.change)

    def as_record(self) -> dict[str, Any]:
        """Return the change as JSON lists it."""
        return {**self.record, "says": self.says, "assumes": self.assumes}


def scale_change(what: str, factor: float) -> NamedChange:
    """Let something take another time.

    Raises:
        UsageError: see :func:`scale`.
    """
    says = f"{what} takes {f'{factor:g} × its time' if factor else 'no time'}"
    return NamedChange(scale(what, factor), says, {"change": "scale", "what": what, "factor": factor})


def removal_change(what: str) -> NamedChange:
    """Let something not be there.

    Raises:
        UsageError: see :func:`remove`.
    """
    return NamedChange(remove(what), f"{what} is not there, nor what launches it", {"change": "remove", "what": what})


def scenario_change(name: str, argument: str | None = None) -> NamedChange:
    """Apply a named scenario.

    Raises:
        UsageError: see :func:`scenario`.
    """
    change, given = scenario(name, argument), f": {argument}" if argument else ""
    record = {"change": "scenario", "name": name, "argument": argument}
    return NamedChange(change, SCENARIOS[name].says + given, record, SCENARIOS[name].assumes)


def scenario_lines() -> list[Line]:
    """List the named scenarios: what each changes, and what that assumes."""
    rows = [
        [f"{name}={known.argument.split()[-1].upper()}" if known.argument else name, known.says, known.assumes]
        for name, known in SCENARIOS.items()
    ]
    return ["named scenarios", *table(rows, ["--scenario", "what changes", "it assumes"], left=[0, 1, 2], words=[1, 2])]
