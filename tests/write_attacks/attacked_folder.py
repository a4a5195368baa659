"""A folder in which a command runs as a child of this process, and what it left there."""

from __future__ import annotations

import io
import os
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NoReturn

from analyses.cli.main import install_signal_handlers, run
from hta_graph.base.storage import atomic_write
from hta_graph.chakra import et_files
from hta_graph.export import parquet
from tests.same_outputs import UUID
from tests.support.cli_parsers import options_of
from tests.support.command_line import folder_contents
from tests.support.invariants import require
from tests.support.output_commands import Output, WritingCommand, write_inputs

NOBODY = 65534
TIME_LIMIT_S = 60
HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LEFT_OVER = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.part")

Tree = dict[str, bytes | None]
"""Paths and what they hold, from a folder on; a folder holds None."""


@dataclass(frozen=True)
class Ended:
    """How a child ended and what it said."""

    status: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        """What it said of its own end."""
        return [line for line in self.err.splitlines() if line.startswith("hta-graph")]

    def is_refusal(self) -> bool:
        """Say whether it refused, in one line."""
        return self.status in (1, 2) and len(self.lines) == 1


@dataclass
class Child:
    """A command that runs."""

    pid: int
    printed: int
    said: int
    hears: int
    tells: int

    def wait_for_pause(self) -> None:
        """Wait until it stands still in the middle of writing."""
        found = select.select([self.hears], [], [], TIME_LIMIT_S)[0]
        require(bool(found) and os.read(self.hears, 1) == b".", "never came to writing")

    def go_on(self) -> None:
        """Let it go on."""
        with suppress(BrokenPipeError):
            os.write(self.tells, b".")

    def send(self, number: signal.Signals) -> None:
        """Send it a signal; it may have ended."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self) -> Ended:
        """Wait for its end.

        Raises:
            BrokenRuleError: it does not end, or says what only programmers understand.
        """
        end = time.monotonic() + TIME_LIMIT_S
        while not (found := os.waitpid(self.pid, os.WNOHANG))[0]:
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                require(False, "does not end")
            time.sleep(0.002)
        for number in (self.hears, self.tells):
            os.close(number)
        with os.fdopen(self.printed, "rb") as out, os.fdopen(self.said, "rb") as err:
            out.seek(0)
            said = read_what_is_there(err.fileno()).decode(errors="replace")
            ended = Ended(os.waitstatus_to_exitcode(found[1]), out.read(), said)
        require("Traceback" not in ended.err and "Exception ignored" not in ended.err, ended.err[-600:])
        return ended


@dataclass
class Scene:
    """A folder with what a command reads, one of its outputs, and what was there before."""

    command: WritingCommand
    output: Output
    folder: Path
    before: Tree = field(default_factory=dict)
    children: int = 0

    @property
    def target(self) -> Path:
        """Where the output goes."""
        return self.folder / self.output.path

    def arguments(self, given: str | None = None, *more: str) -> list[str]:
        """Return a command line that writes the output, or writes it to another place."""
        output = Output(self.output.flag, self.output.is_folder, given or self.output.given, self.output.path)
        forced = ["--force"] if can_be_forced(self.command) else []
        return [*self.command.arguments([output, *self.command.beside(self.output)[1:]]), *forced, *more]

    def note(self) -> None:
        """Note what is there before the command runs."""
        self.before = folder_contents(self.folder)

    def start(
        self,
        arguments: Sequence[str],
        *,
        pause: str = "",
        at: Path | None = None,
        first: Callable[[], None] | None = None,
    ) -> Child:
        """Start a command line; ``pause`` names the moment of writing at which it stands still."""
        self.children += 1
        ours, theirs, said = os.pipe(), os.pipe(), os.pipe()
        printed = os.open(self.folder.parent / f"printed{self.children}", os.O_RDWR | os.O_CREAT)
        sys.stdout.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads, which have nothing to do
            # Until the child hears signals as the program does, none comes.
            signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
            pid = os.fork()
        if pid == 0:
            try:
                os.dup2(printed, 1)
                os.dup2(said[1], 2)
                os.chdir(self.folder)
                if pause:
                    pause_in_writing(pause, at or self.target, ours[1], theirs[0])
                _become_program(arguments, first)
            except BaseException:  # noqa: BLE001 - told, and counted as what it is
                os.write(2, traceback.format_exc().encode())
            finally:
                os._exit(99)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
        for number in (ours[1], theirs[0], said[1]):
            os.close(number)
        return Child(pid, printed, said[0], ours[0], theirs[1])

    def run(self, arguments: Sequence[str], first: Callable[[], None] | None = None) -> Ended:
        """Run a command line to its end."""
        return self.start(arguments, first=first).wait()

    def put_earlier(self) -> Tree:
        """Put an output of an earlier run in the target's place; return it."""
        for name, content in expected(self.command, self.output).items():
            path = self.target / name if name else self.target
            if content is None:
                path.mkdir(exist_ok=True)
            else:
                # What begins otherwise, or holds other files, is not replaced at all.
                path.write_bytes(content if name.endswith(".json") else content[: len(content) // 2])
        self.note()
        return tree(self.target)

    def is_whole(self, path: Path | None = None) -> bool:
        """Say whether an output is there as it would be without any attack."""
        return tree(path or self.target) == expected(self.command, self.output)

    def check_rest(self, *, killed: bool = False, besides: Sequence[str] = ()) -> None:
        """Check that nothing else has changed: inputs, what was there, and no leftovers but those of the killed.

        Raises:
            BrokenRuleError: something has.
        """
        now = folder_contents(self.folder)
        written = {self.output.path, *(other.path for other in self.command.beside(self.output)), *besides}
        written |= {self.output.path.replace("0", "1")} if self.output.given == "place" else set()
        # What has no option is always written.
        written |= {other.path for other in self.command.outputs if not other.flag}
        mine = [str(self.folder / name) for name in written]

        def is_mine(path: str) -> bool:
            return any(path == own or path.startswith(f"{own}/") for own in mine)

        changed = [path for path, content in self.before.items() if path not in now or now[path] != content]
        require(not [path for path in changed if not is_mine(path)], f"changed: {changed}")
        new = [path for path in now.keys() - self.before.keys() if not is_mine(path)]
        parts = [path for path in new if any(LEFT_OVER.fullmatch(name) for name in Path(path).parts)]
        require(killed or not parts, f"left over: {parts}")
        require(not set(new) - set(parts), f"written too: {sorted(set(new) - set(parts))}")


@cache
def can_be_forced(command: WritingCommand) -> bool:
    """Say whether a command replaces what is there only when it is told to."""
    return any(action.dest == "force" for action in options_of(command.words))


def read_what_is_there(pipe: int) -> bytes:
    """Read what is in a pipe; others that have it too may live on."""
    os.set_blocking(pipe, False)
    found = b""
    with suppress(BlockingIOError):
        while part := os.read(pipe, 1 << 16):
            found += part
    return found


def tree(path: Path) -> Tree:
    """Return what a file or folder holds; plotly's names for places in a page are new each time."""
    found = {path: path.read_bytes() if path.is_file() else None} if path.exists() else {}
    if path.is_dir():
        found |= {inner: inner.read_bytes() if inner.is_file() else None for inner in path.rglob("*")}
    return {
        str(inner.relative_to(path)).removeprefix("."): content and UUID.sub(b"UUID", content)
        for inner, content in found.items()
    }


_expected: dict[tuple[str, str], Tree] = {}


def expected(command: WritingCommand, output: Output) -> Tree:
    """Return what a command writes if nobody disturbs it."""
    key = command.name, output.path
    if key not in _expected:
        with scene(command, output) as made:
            ended = made.run(made.arguments())
            require(ended.status == 0, f"does not run: {ended.err[-300:]}")
            made.check_rest()
            _expected[key] = tree(made.target)
    return _expected[key]


@cache
def template() -> Path:
    """Return a folder with what all commands read."""
    with redirect_stdout(io.StringIO()):
        return write_inputs(Path(tempfile.mkdtemp(prefix="write_attacks_inputs_")))


@contextmanager
def scene(command: WritingCommand, output: Output) -> Iterator[Scene]:
    """Give a folder of its own with what a command reads; nobody's, so that the child may be nobody."""
    with tempfile.TemporaryDirectory(prefix="write_attacks_") as around:
        folder = Path(around, "here")
        folder.mkdir()
        Path(around).chmod(0o777)
        for name in {*(Path(name).parts[0] for name in command.files_read()), Path(output.path).parts[0]}:
            if (template() / name).is_dir():
                shutil.copytree(template() / name, folder / name)
            elif (template() / name).exists():
                shutil.copy(template() / name, folder / name)
        made = Scene(command, output, folder)
        made.note()
        yield made
        for path in [folder, *folder.rglob("*")]:
            if not path.is_symlink():
                path.chmod(0o777)


# -- the child --------------------------------------------------------------------------------------------------------


def _become_program(arguments: Sequence[str], first: Callable[[], None] | None) -> NoReturn:
    """Be the program: its arguments, its streams, and whatever makes its life hard."""
    sys.argv[1:] = arguments
    for number in HEARD:
        signal.signal(number, signal.SIG_DFL)
    install_signal_handlers()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
    if first:
        first()
    sys.stdin, sys.stdout, sys.stderr = (_stream(number, mode) for number, mode in enumerate("rww"))
    run()


def _stream(number: int, mode: str) -> object:
    """Return a standard stream as an interpreter that starts makes it: of one that is closed none."""
    try:
        os.fstat(number)
    except OSError:
        return None
    return open(number, mode, 1 if number == 2 else -1, "utf-8", closefd=False)


def be_nobody() -> None:
    """Give root's rights up, which no protection of files stops."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def on_a_small_disk() -> None:
    """Let no file grow beyond a few bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))


def closing(*numbers: int) -> Callable[[], None]:
    """Return what closes standard streams."""
    return lambda: [os.close(number) for number in numbers] and None


def leading(number: int, target: str) -> Callable[[], None]:
    """Return what lets a standard stream lead to a file."""
    return lambda: os.dup2(os.open(target, os.O_WRONLY), number) and None


def into_a_closed_pipe() -> None:
    """Let standard output be a pipe whose reader has gone, as that of ``head`` does."""
    reader, writer = os.pipe()
    os.dup2(writer, 1)
    os.close(reader)


def pause_in_writing(moment: str, target: Path, tells: int, hears: int) -> None:
    """Stand still when an output is half written, or when it is whole and not yet in its place."""

    def pause(place: Path) -> None:
        if place == target:
            os.write(tells, b".")
            os.read(hears, 1)

    write, put, new_folder, replace = (
        atomic_write._write_and_replace,
        atomic_write._put_in_place,
        atomic_write.new_folder,
        Path.replace,
    )

    def halves(place: Path, pieces: object) -> Iterator[bytes]:
        content = b"".join(pieces)  # type: ignore[arg-type]
        yield content[: len(content) // 2]
        pause(place)
        yield content[len(content) // 2 :]

    @contextmanager
    def paused_folder(place: Path, check: Callable[[], None], last: Collection[str] = ()) -> Iterator[Path]:
        with new_folder(place, check, last) as new:
            pause(atomic_write.resolve_links(place))
            yield new

    if moment == "half":
        atomic_write._write_and_replace = lambda path, place, pieces, mode: write(
            path, place, halves(place, pieces), mode
        )
        parquet.new_folder = et_files.new_folder = paused_folder
    else:
        atomic_write._put_in_place = lambda new, place, part: (pause(place), put(new, place, part))[1]
        Path.replace = lambda part, place: (pause(place), replace(part, place))[1]  # type: ignore[assignment,method-assign]


@contextmanager
def inputs_of_all() -> Iterator[None]:
    """Write what all commands read, so that each child finds it there; at the end it is taken away."""
    made = template()
    try:
        yield
    finally:
        shutil.rmtree(made)
        template.cache_clear()
        _expected.clear()
