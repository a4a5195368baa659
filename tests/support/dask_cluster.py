"""Programs of Dask, a scheduler and its workers, for as long as a test needs them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.child_processes import wait_until

__all__ = ["cluster"]

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@contextmanager
def program(module: str, *arguments: str, folder: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run one of Dask's programs in a folder, in a session of its own that ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.{module}", *arguments, "--no-dashboard"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def cluster(folder: Path, workers: Sequence[Mapping[str, str]] = ({}, {})) -> Iterator[str]:
    """Run a scheduler and its workers, each with variables of its own; return its address."""
    address = f"tcp://127.0.0.1:{free_port()}"
    with ExitStack() as running:
        place = ["--host", "127.0.0.1", "--port", address.rpartition(":")[2]]
        running.enter_context(program("dask_scheduler", *place, folder=folder))
        wait_until(lambda: answers_at(address))
        for environment in workers:
            started = program("dask_worker", address, "--nthreads", "1", folder=folder, **environment)
            running.enter_context(started)
        yield address


def answers_at(address: str) -> bool:
    try:
        socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))).close()
    except OSError:
        return False
    return True
