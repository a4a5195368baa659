"""``info --names`` lists the vocabulary; it needs no trace."""

from __future__ import annotations

import pytest

from analyses.cli.main import main
from hta_graph.trace.profiler_names import COMMUNICATION_NAMES, NAMES_AS_OF


def test_the_names_are_listed_without_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["info", "--names"])
    assert ended.value.code == 0
    found = capsys.readouterr().out
    assert NAMES_AS_OF in found
    for pattern, meaning in COMMUNICATION_NAMES:
        assert pattern in found
        assert meaning in found
    assert "waits for a device" in found
