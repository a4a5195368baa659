"""Commands on traces in a bucket of Google's protocol answer as they do on the same files here."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from hta_graph.base.errors import TraceError
from hta_graph.base.storage.atomic_write import write_file
from hta_graph.base.storage.location import resolve_location
from tests.support.command_line import PROGRAM, run_command
from tests.support.interrupted_output import InterruptedOutputError, interrupted
from tests.support.local_servers import begin_anew
from tests.support.samples import FOUR_RANKS
from tests.support.two_rank_job import small_job

# gcsfs sends what is long as aiohttp would rather not have it.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")]

URL = "gs://traces"


@pytest.fixture(scope="module")
def gs_server() -> Iterator[str]:
    """Start a server that only this machine reaches, with one bucket."""
    pytest.importorskip("gcsfs")
    pytest.importorskip("gcp_storage_emulator")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["start", "--host", "127.0.0.1", "--port", str(port), "--in-memory", "--default-bucket", "traces"]
    program = [sys.executable, "-m", "gcp_storage_emulator", *words]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        deadline = time.monotonic() + 30
        while not _answers(port):
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
        server.terminate()


def _answers(port: int) -> bool:
    with socket.socket() as asking:
        return not asking.connect_ex(("127.0.0.1", port))


@pytest.fixture
def store(gs_server: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what reads and writes on that server."""
    import gcsfs

    environment = {"STORAGE_EMULATOR_HOST": gs_server, "NO_GCE_CHECK": "true", "CLOUDSDK_CONFIG": "/nowhere"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    begin_anew()
    return gcsfs.GCSFileSystem(use_listings_cache=False)


@pytest.fixture
def job(store: Any) -> str:
    """Put a job into the bucket and return its URL."""
    for path in FOUR_RANKS.iterdir():
        store.pipe_file(f"traces/run/{path.name}", path.read_bytes())
    return f"{URL}/run"


@pytest.mark.parametrize("command", ["info", "critical-path", "stragglers"])
def test_answers_are_those_of_local_files(capsys: pytest.CaptureFixture[str], job: str, command: str) -> None:
    here = run_command(capsys, command, FOUR_RANKS, "--json", "-")
    for jobs in ("1", "2"):
        status, out, err = run_command(capsys, command, job, "--json", "-", "--jobs", jobs)
        assert (status, out.replace(job, str(FOUR_RANKS)), err) == here


def test_a_program_says_nothing_of_how_it_asks(job: str) -> None:
    """The package for such URLs has warnings about kinds of buckets, at every file."""
    done = subprocess.run([*PROGRAM, "info", job], capture_output=True, check=True, env=dict(os.environ))
    assert done.stderr == b""


def test_what_is_written_is_what_is_written_here(
    capsys: pytest.CaptureFixture[str], store: Any, job: str, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    calls = {
        "critical-path": ["--json", "p.json", "--overlay", "o.json.gz"],
        "report": ["-o", "r.html"],
    }
    for command, options in calls.items():
        for place in (str(tmp_path), f"{URL}/out"):
            named = [item if item.startswith("-") else f"{place}/{item}" for item in options]
            assert run_command(capsys, command, FOUR_RANKS, *named)[0] == 0
    for path in tmp_path.iterdir():
        assert store.cat_file(f"traces/out/{path.name}") == path.read_bytes()
    for _ in range(2):  # an earlier one is replaced
        assert run_command(capsys, "graph", f"{job}/rank_0.json.gz", "--parquet", f"{URL}/saved")[0] == 0
    whole = hg.build_graph(hg.read_trace(f"{job}/rank_0.json.gz"))
    assert "events.parquet" in {path.name for path in resolve_location(f"{URL}/saved").iterdir()}
    for _ in range(2):
        hg.save_graph(whole, f"{URL}/saved.hta-graph")
    assert hg.load_graph(f"{URL}/saved.hta-graph").events.equals(whole.events)


@pytest.mark.parametrize("size", [1 << 20, 9 << 20, 30 << 20])
def test_whole_or_not_at_all(store: Any, size: int) -> None:
    store.pipe_file("traces/out.bin", b"earlier")
    with pytest.raises(InterruptedOutputError):
        write_file(f"{URL}/out.bin", interrupted(size))
    assert store.cat_file("traces/out.bin") == b"earlier"
    pieces = [bytes([at]) * (1 << 20) for at in range(size >> 20)]
    write_file(f"{URL}/out.bin", iter(pieces))
    assert resolve_location(f"{URL}/out.bin").read_bytes() == b"".join(pieces)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["info", f"{URL}/none.json"], f"{URL}/none.json: no such file"),
        (["info", f"{URL}/none/"], f"{URL}/none/: no such file"),
        (["info", f"{URL}/none/*.json"], "no file matches this pattern"),
        (["info", f"{URL}/run", "--json", "gs://none/t.json"], "cannot be written: the bucket does not exist; make it"),
        (["info", f"{URL}/run", "--json", f"{URL}/run"], "is a folder; name a file"),
        (
            ["info", f"{URL}/run", "--json", f"{URL}/run/rank_0.json.gz"],
            "is an input, and inputs are never overwritten",
        ),
    ],
)
def test_errors_are_one_line(capsys: pytest.CaptureFixture[str], job: str, words: list[str], says: str) -> None:
    assert job == f"{URL}/run"
    status, out, err = run_command(capsys, *words)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert says in err


def test_what_changes_in_between_is_an_error(store: Any, tmp_path: Path) -> None:
    text = small_job(tmp_path)[0].read_bytes()
    store.pipe_file("traces/t.json", text)
    place = resolve_location(f"{URL}/t.json")
    place.stat()
    store.pipe_file("traces/t.json", text + b" ")
    with pytest.raises(TraceError, match="has changed since it was first read"):
        hg.read_trace(place)
    store.pipe_file("traces/long.json", b" " * (1 << 19))
    with resolve_location(f"{URL}/long.json").open("rb") as file:
        assert len(file.read(100)) == 100
        store.pipe_file("traces/long.json", b"." * (1 << 19))
        with pytest.raises(OSError, match="has changed since"):
            file.read()
