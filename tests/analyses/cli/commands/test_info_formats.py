"""``info --formats`` lists the formats of files; it needs no trace."""

from __future__ import annotations

import pytest

from analyses.cli.main import main
from hta_graph.trace.formats import FORMATS


def test_the_formats_are_listed_without_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["info", "--formats"])
    assert ended.value.code == 0
    found = capsys.readouterr().out
    for known in FORMATS:
        assert known.name in found
        assert (known.reads or known.remedy) in found
    assert r"SQLite\ format\ 3\x00; a table (CUPTI_ACTIVITY_KIND_" in found
