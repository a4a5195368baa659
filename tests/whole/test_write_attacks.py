"""Some commands under some attacks; ``python -m tests.write_attacks`` runs all of them."""

from __future__ import annotations

import os

import pytest

from tests.support.deep_tests import deep
from tests.write_attacks.attacks import ATTACKS
from tests.write_attacks.run_attacks import FAILED, attacked, cases, shown

QUICK = ("two processes at once", "SIGKILL while it writes")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs to fork")
@pytest.mark.parametrize(
    ("command", "attacks"),
    [("info", QUICK), *(deep(name, tuple(ATTACKS)) for name in ("info", "graph", "chakra convert"))],
    ids=["quick", "info", "graph", "convert"],
)
def test_no_attack_gets_through(command: str, attacks: tuple[str, ...]) -> None:
    counts, failures = attacked(attacks, {command}, 1)
    assert failures == []
    assert {attack for attack, _ in counts} == {attack for attack, *_ in cases(attacks, {command})} - (
        {"a foreign file appears"} if command == "info" else set()
    )


def test_every_command_is_attacked_in_every_way() -> None:
    found = [(attack, command.name) for attack, command, _ in cases(list(ATTACKS), None)]
    commands = {name for _, name in found}
    assert {"info", "chakra scale", "demo", "kernel-breakdown"} <= commands
    assert set(found) == {(attack, name) for attack in ATTACKS for name in commands}


def test_the_table_counts_what_became_of_the_cases() -> None:
    first, second, *_ = ATTACKS
    found = shown({(first, "done"): 2, (second, "refused"): 1, (second, FAILED): 1})  # type: ignore[arg-type]
    assert [line.split()[-5:] for line in found.splitlines()] == [
        ["cases", "done", "refused", "ended", "failed"],
        ["2", "2", "0", "0", "0"],
        ["2", "0", "1", "0", "1"],
        ["4", "2", "1", "0", "1"],
    ]
