"""How the program ends as a process: by a signal at any moment, and with streams that are closed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.child_processes import child_processes, is_running, wait_until
from tests.support.command_line import PROGRAM, folder_contents, two_steps
from tests.support.deep_tests import deep
from tests.support.two_rank_job import small_job

SIGNALS = {"SIGHUP": 129, "SIGINT": 130, "SIGTERM": 143}


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    return two_steps().write(tmp_path / "trace.json")


# -- signals ----------------------------------------------------------------------------------------------------------


def interrupted_at(number: int, name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the program and let a signal come when so many modules have been asked for."""
    code = (
        "import os, signal, sys\n"
        "class Counting:\n"
        "    left = int(sys.argv[1])\n"
        "    def find_spec(self, *_):\n"
        "        Counting.left -= 1\n"
        "        if not Counting.left: os.kill(os.getpid(), getattr(signal, name))\n"
        "name = sys.argv[2]\n"
        "from analyses.cli.main import run\n"
        "sys.meta_path.insert(0, Counting())\n"
        "sys.argv[1:] = sys.argv[3:]\n"
        "run()"
    )
    command = [sys.executable, "-c", code, str(number), name, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", ["SIGINT", *map(deep, ("SIGHUP", "SIGTERM"))])
@pytest.mark.parametrize("number", [2, *map(deep, (20, 150, 400))])
def test_a_signal_while_modules_are_imported(tmp_path: Path, trace_file: Path, name: str, number: int) -> None:
    before = folder_contents(tmp_path)
    done = interrupted_at(number, name, "kernel-breakdown", trace_file, "--csv", tmp_path / "out.csv")
    said = "hta-graph: interrupted\n" if name == "SIGINT" else ""
    assert (done.returncode, done.stdout, done.stderr) == (SIGNALS[name], "", said)
    assert folder_contents(tmp_path) == before


SLOW_READERS = """
import sys
import hta_graph.multi_rank.worker_readers as pool
pool.PROGRAM = "import time; time.sleep(60)"
from analyses.cli.main import run
run()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc to see processes")
@pytest.mark.parametrize("name", ["SIGHUP", *map(deep, ("SIGINT", "SIGTERM"))])
def test_a_signal_while_processes_read_leaves_nothing(tmp_path: Path, name: str) -> None:
    small_job(tmp_path)
    before = folder_contents(tmp_path)
    command = [sys.executable, "-c", SLOW_READERS, "info", tmp_path, "--jobs", "2", "--json", tmp_path / "out.txt"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: len(child_processes(process.pid)) == 2)
    readers = child_processes(process.pid)
    process.send_signal(getattr(signal, name))
    assert process.communicate(timeout=20) == ("", "hta-graph: interrupted\n" if name == "SIGINT" else "")
    assert process.returncode == SIGNALS[name]
    # They are killed before the program ends; the system takes its time to clear them away.
    wait_until(lambda: not any(map(is_running, readers)))
    assert folder_contents(tmp_path) == before


@pytest.mark.slow
def test_a_signal_that_is_switched_off_stays_so(trace_file: Path) -> None:
    """As ``nohup`` does with SIGHUP."""
    code = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "import analyses.cli.main as cli\n"
        "main = cli.main\n"
        "def hung_up():\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "    return main()\n"
        "cli.main = hung_up\n"
        "cli.run()"
    )
    command = [sys.executable, "-c", code, "info", str(trace_file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "A100" in done.stdout


# -- standard streams -------------------------------------------------------------------------------------------------


def in_shell(redirection: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the program with its streams as a shell's redirection says."""
    script = f'exec "$@" {redirection}'
    command = ["bash", "-c", script, "bash", *PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("redirection", "arguments", "status", "out", "err"),
    [
        (">&-", ["info", "TRACE"], 1, "", "hta-graph: standard output: Bad file descriptor\n"),
        deep(">&-", ["info", "TRACE", "--json", "-"], 1, "", "hta-graph: standard output: cannot be written: "),
        deep(">&-", ["info", "TRACE", "--json", "OUT"], 0, "", ""),
        deep(">&-", ["--help"], 1, "", "hta-graph: standard output: Bad file descriptor\n"),
        deep(">&- 2>&- <&-", ["info", "TRACE"], 1, "", ""),
        deep("2>&-", ["info", "TRACE"], 0, "A100", ""),
        ("2>&-", ["info", "absent.json"], 1, "", ""),
        deep("2>&-", ["info", "--nonsense"], 2, "", ""),
        deep("<&-", ["info", "TRACE"], 0, "A100", ""),
        deep("> /dev/full", ["info", "TRACE"], 1, "", "hta-graph: standard output: No space left on device\n"),
        deep("2> /dev/full", ["info", "absent.json"], 1, "", ""),
        deep(" | head -c 1", ["info", "TRACE"], 0, "", ""),
    ],
)
def test_streams_that_are_closed_or_full(
    tmp_path: Path, trace_file: Path, redirection: str, arguments: list[str], status: int, out: str, err: str
) -> None:
    given = [{"TRACE": trace_file, "OUT": tmp_path / "out.json"}.get(part, part) for part in arguments]
    done = in_shell(redirection, *given)
    assert done.returncode == status
    assert done.stdout.startswith(out) or out in done.stdout
    assert done.stderr.startswith(err) if err else done.stderr == ""
    assert (tmp_path / "out.json").exists() == ("OUT" in arguments)


@pytest.mark.slow
def test_no_file_of_ours_gets_the_number_of_a_closed_stream(tmp_path: Path, trace_file: Path) -> None:
    """What is said would otherwise stand in the middle of the output."""
    done = in_shell(">&- 2>&- <&-", "kernel-breakdown", trace_file, "--csv", tmp_path / "out.csv")
    assert done.returncode == 0
    assert (tmp_path / "out.csv").read_text().startswith("rank,scope")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_standard_output_by_its_name_is_not_replaced(tmp_path: Path, trace_file: Path) -> None:
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    with (tmp_path / "all.json").open("ab") as out:
        out.write(b"before\n")
        out.flush()
        done = subprocess.run(
            [*PROGRAM, "info", trace_file, "--json", tmp_path / "stdout"],
            stdout=out,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, b"")
    assert os.readlink(tmp_path / "stdout") == "/proc/self/fd/1"  # noqa: PTH115 - what stands there, not where it leads
    assert (tmp_path / "all.json").read_text().startswith('before\n{"schema":"hta-graph/info/1"')
