"""The page of machine output: every schema is on it, and what it shows is what commands write."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analyses.cli.main import main
from analyses.questions.catalogue import CATALOGUE, analysis
from analyses.schemas import schema_names
from tests.support.command_line import run_command
from tests.support.manual_runs import EXIT

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "machine_output.md").read_text(encoding="utf-8")
COMMAND_AND_SAMPLE = re.compile(r"```sh\n([^`]*?)\n```\n\n```json\n(.*?)\n```", re.DOTALL)
SAVED_AND_TABLE = re.compile(
    r"hta-graph graph (\S+) --parquet (\S+)\n```\n\n\| file \| columns \|\n\|---\|---\|\n((?:\|.*\n)+)"
)


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """Stand where a reader of the manual does."""
    assert run_command(capsys, "demo", "--traces", tmp_path / "traces")[0] == 0
    monkeypatch.chdir(tmp_path / "traces")
    return tmp_path / "traces"


def differing(sample: Any, written: Any, at: str = "") -> Iterator[str]:
    """Yield where a sample says what a document does not; it may leave out keys and entries of lists."""
    if isinstance(sample, dict) and isinstance(written, dict):
        for key, item in sample.items():
            yield from differing(item, written[key], f"{at}/{key}") if key in written else [f"{at}/{key}: is not there"]
    elif isinstance(sample, list) and isinstance(written, list):
        yield from (f"{at}/{n}: no entry is so" for n, item in enumerate(sample) if not holds(written, item))
    elif sample != written:
        yield f"{at}: {written!r}, not {sample!r}"


def holds(written: list[Any], item: Any) -> bool:
    return any(not list(differing(item, other)) for other in written)


def test_every_schema_is_on_the_page_and_the_page_names_no_other() -> None:
    assert set(re.findall(r"hta-graph/([a-z-]+)/1", PAGE)) == set(schema_names())


@pytest.mark.slow
def test_every_sample_is_part_of_what_the_command_above_it_writes(traces: Path) -> None:
    found = COMMAND_AND_SAMPLE.findall(PAGE)
    assert len(found) == PAGE.count("```json") > 4
    for command, sample in found:
        words = shlex.split(command, comments=True)[1:]
        status = EXIT.search(command)
        assert main(words) == (int(status[1]) if status else 0)
        written = json.loads(Path(words[-1]).read_bytes())
        assert list(differing(json.loads(sample), written)) == [], command


def test_a_sample_that_says_something_else_is_noticed() -> None:
    written = {"rows": [{"n": 1, "m": 2}, {"n": 3, "m": None}], "other": 1}
    assert list(differing({"rows": [{"n": 3}]}, written)) == []
    assert list(differing({"rows": [{"n": 4}]}, written)) == ["/rows/0: no entry is so"]
    assert list(differing({"rest": 1}, written)) == ["/rest: is not there"]


def test_the_tables_of_every_analysis_are_listed() -> None:
    rows = re.findall(r"^\| `hta-graph/([a-z-]+)/1` \| ((?:`\w+`(?:, )?)+) \|$", PAGE, re.MULTILINE)
    assert {name: re.findall(r"\w+", tables) for name, tables in rows} == {
        one.name: list(analysis(one.name).tables) for one in CATALOGUE
    }


def test_the_columns_of_saved_graphs_are_listed(traces: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    found = SAVED_AND_TABLE.findall(PAGE)
    assert len(found) == 2
    for trace, folder, table in found:
        assert main(["graph", trace, "--parquet", folder]) == 0
        listed = {
            name: re.findall(r"\w+", columns) for name, columns in re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.M)
        }
        assert listed == {path.stem: parquet.read_schema(path).names for path in Path(folder).glob("*.parquet")}
