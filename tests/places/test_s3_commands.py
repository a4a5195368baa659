"""Commands on traces in a bucket answer as they do on the same files here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.places.conftest import Bucket
from tests.support.command_line import run_command

SAMPLES = Path(__file__).parents[2] / "analyses" / "sample"


def test_try(capsys: pytest.CaptureFixture[str], bucket: Bucket) -> None:
    url = bucket.put_folder(SAMPLES / "four_ranks", "run")
    for command in ("info", "critical-path"):
        here = run_command(capsys, command, SAMPLES / "four_ranks", "--json", "-")
        bucket.asked.clear()
        there = run_command(capsys, command, url, "--json", "-", "--jobs", "1")
        print(len(bucket.asked), *bucket.asked, sep="\n")
        print(there[2])
        assert there[1].replace(url, str(SAMPLES / "four_ranks")) == here[1]
    assert run_command(capsys, "report", url, "-o", f"{url}/out/r.html", "--overlay", f"{url}/out/r.json.gz")[::2] == (
        0,
        "",
    )
    assert 0
