"""The attacks: each takes a command with one of its outputs and yields how it ended."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from hta_graph.multi_rank.workers import worker_processes
from tests.support.child_processes import child_processes, is_running, wait_until
from tests.support.command_line import folder_contents
from tests.support.invariants import require
from tests.support.output_commands import Output, WritingCommand
from tests.write_attacks.attacked_folder import (
    LEFT_OVER,
    Ended,
    Scene,
    be_nobody,
    closing,
    expected,
    into_a_closed_pipe,
    leading,
    on_a_small_disk,
    read_what_is_there,
    scene,
    tree,
)

Attack = Callable[[WritingCommand, Output], Iterator[str]]
DONE, REFUSED, ENDED, LEFT_OUT = "done", "refused", "ended", "left out"
CLONE_NEWNS, MS_REC_PRIVATE = 0x20000, 0x4000 | 1 << 18
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGKILL: -9}
GENTLE = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def done_or_refused(made: Scene, ended: Ended, whole: Path | None = None) -> str:
    """Return how a command ended, which wrote all or nothing.

    Raises:
        BrokenRuleError: it did neither.
    """
    if ended.status == 0:
        require(made.is_whole(whole), "done, and the output is not whole")
        return DONE
    require(ended.is_refusal(), f"status {ended.status}: {ended.err[-400:]}")
    return REFUSED


def refused(made: Scene, ended: Ended) -> str:
    """Check that a command refused and changed nothing at all.

    Raises:
        BrokenRuleError: it did something.
    """
    require(ended.is_refusal(), f"not refused in one line, status {ended.status}: {ended.err[-400:]}")
    require(folder_contents(made.folder) == made.before, "refused, and something has changed")
    return REFUSED


# -- names ------------------------------------------------------------------------------------------------------------


def input_as_output(command: WritingCommand, output: Output) -> Iterator[str]:
    """Each input by its name, by a link, by a second name; for a folder what holds it."""
    for name in command.files_read():
        with scene(command, output) as made:
            path = made.folder / name
            file = path if path.is_file() else sorted(path.iterdir())[0]
            if output.is_folder:
                yield refused(made, made.run(made.arguments(str(file.parent))))
                continue
            if output.given != "place":
                yield refused(made, made.run(made.arguments(str(file))))
            for kind in ("symlink_to", "hardlink_to"):
                made.target.unlink(missing_ok=True)
                getattr(made.target, kind)(file)
                made.note()
                yield refused(made, made.run(made.arguments()))


def no_such_place(command: WritingCommand, output: Output) -> Iterator[str]:
    """No name, a folder that is not there, a file where a folder should be and the other way round."""
    with scene(command, output) as made:
        (made.folder / "file").write_bytes(OLD_FILE)
        (made.folder / "full").mkdir()
        (made.folder / "full" / "mine").write_bytes(OLD_FILE)
        made.note()
        names = ["", "absent/there", "file/there", "x" * 300]
        # A folder with other files is no place for a file nor for a new folder, only for files that are put there.
        names += ["file"] if output.is_folder else []
        names += ["full"] if output.given != "place" else []
        for name in names if output.flag else ():
            yield refused(made, made.run(made.arguments(name) if name else _empty(made)))


OLD_FILE = b"mine"


def _empty(made: Scene) -> list[str]:
    arguments = made.arguments("EMPTY")
    return ["" if part == "EMPTY" else part for part in arguments]


def links(command: WritingCommand, output: Output) -> Iterator[str]:
    """A link to what is not there, to what is there, to itself, to a folder or file."""
    real = Path("real" if output.is_folder else f"real{Path(output.path).suffix}")
    with scene(command, output) as made:
        made.target.symlink_to(made.folder / real)
        yield done_or_refused(made, made.run(made.arguments()))
        require(made.target.is_symlink() and made.is_whole(made.folder / real), "the link was not followed")
        made.check_rest(besides=[str(real)])
    with scene(command, output) as made:
        made.target.symlink_to(made.target)
        made.note()
        yield refused(made, made.run(made.arguments()))
    with scene(command, output) as made:
        other = made.folder / "other"
        other.write_bytes(OLD_FILE) if output.is_folder else other.mkdir()
        made.target.symlink_to(other)
        made.note()
        yield refused(made, made.run(made.arguments()))


def pipes(command: WritingCommand, output: Output) -> Iterator[str]:
    """A named pipe with a reader, and with one that goes away."""
    for stays in (True, False):
        with scene(command, output) as made:
            os.mkfifo(made.target, 0o666)
            reader = os.open(made.target, os.O_RDONLY | os.O_NONBLOCK)
            # A child made by forking would be a reader itself.
            child = made.start(made.arguments(), first=closing(reader))
            found = b""
            while not (ended := os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)) or stays:
                found += read_what_is_there(reader)
                if ended or (found and not stays):
                    break
                time.sleep(0.001)
            found += read_what_is_there(reader) if stays else b""
            os.close(reader)
            result = child.wait()
            require(result.status == 0 or result.is_refusal(), result.err[-300:])
            whole = len(next(iter(expected(command, output).values())) or b"")
            if output.is_folder:
                require(result.is_refusal(), "a pipe became a folder")
            elif stays:
                require(result.status == 0 and abs(len(found) - whole) < 100, f"{len(found)} of {whole} bytes")
            yield REFUSED if result.status else DONE


# -- disks ------------------------------------------------------------------------------------------------------------


def protected(command: WritingCommand, output: Output) -> Iterator[str]:
    """A folder in which nothing may be written, a file that may not be, for somebody who is not root."""
    for what in ("folder", "earlier"):
        with scene(command, output) as made:
            if what == "earlier":
                made.put_earlier()
            for path in [made.folder, *made.folder.rglob("*")]:
                os.chown(path, 65534, 65534) if os.getuid() == 0 else None
            if what == "earlier":
                made.target.chmod(0o555 if output.is_folder else 0o444)
            else:
                made.target.parent.chmod(0o555)
            yield refused(made, made.run(made.arguments(), be_nobody))


def full_disk(command: WritingCommand, output: Output) -> Iterator[str]:
    """A limit on the size of files, a disk without room, and a device that is always full."""
    with scene(command, output) as made:
        earlier = made.put_earlier()
        yield _failed_late(made, made.run(made.arguments(), on_a_small_disk), earlier)
    if not output.is_folder and output.flag and output.given != "place":
        with scene(command, output) as made:
            ended = made.run(made.arguments("/dev/full"))
            suffix_is_refused = command.words[-1] == "render"
            require(ended.is_refusal() or suffix_is_refused, f"status {ended.status} on a full device")
            made.check_rest()
            yield REFUSED
    with scene(command, output) as made:
        small = made.folder / "small"
        small.mkdir()
        if not _mount_small_disk(small):
            yield LEFT_OUT
            return
        try:
            (small / "ballast").write_bytes(b"x" * 4096)
            made.note()
            yield _on_full_disk(made, small)
        finally:
            ctypes.CDLL(None).umount2(os.fsencode(small), 2)


def _on_full_disk(made: Scene, small: Path) -> str:
    if made.output.given == "place":
        arguments = made.arguments("small")
    elif made.output.flag:
        arguments = made.arguments(f"small/{made.output.given}")
    else:
        return LEFT_OUT
    ended = made.run(arguments)
    require(ended.is_refusal(), f"status {ended.status} on a full disk: {ended.err[-300:]}")
    require([path.name for path in small.iterdir()] == ["ballast"], f"left over: {list(small.iterdir())}")
    return REFUSED


def _failed_late(made: Scene, ended: Ended, earlier: dict[str, bytes | None]) -> str:
    require(ended.is_refusal(), f"status {ended.status}: {ended.err[-400:]}")
    require(tree(made.target) == earlier, "the earlier output is not as it was")
    made.check_rest()
    return REFUSED


def _mount_small_disk(folder: Path) -> bool:
    """Mount a disk of one page where nobody else sees it; return whether that is possible here."""
    libc = ctypes.CDLL(None)
    if os.getuid() or libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None):
        return False
    return bool(libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=4k") == 0)


def vanishing_folder(command: WritingCommand, output: Output) -> Iterator[str]:
    """The folder of the output is removed while that is written."""
    for moment in ("half", "whole"):
        with scene(command, output) as made:
            if output.given == "place":
                gone, arguments, at = made.folder / "place", made.arguments(), made.target
            elif output.flag:
                gone = made.folder / "gone"
                gone.mkdir()
                arguments, at = made.arguments(f"gone/{output.given}"), gone / output.given
            else:
                return
            child = made.start(arguments, pause=moment, at=at)
            child.wait_for_pause()
            shutil.rmtree(gone)
            child.go_on()
            ended = child.wait()
            require(ended.is_refusal(), f"status {ended.status}: {ended.err[-300:]}")
            require(not gone.exists(), "the folder is back")
            yield REFUSED


# -- others -----------------------------------------------------------------------------------------------------------


def two_at_once(command: WritingCommand, output: Output) -> Iterator[str]:
    """Two processes put their output in its place at the same moment, where none is and where one is."""
    for earlier in (False, True):
        with scene(command, output) as made:
            if earlier:
                made.put_earlier()
            children = [made.start(made.arguments(), pause="whole") for _ in range(2)]
            for child in children:
                child.wait_for_pause()
            for child in children:
                child.go_on()
            ends = [child.wait() for child in children]
            require(any(end.status == 0 for end in ends), f"neither is done: {[end.err[-200:] for end in ends]}")
            outcomes = [done_or_refused(made, end) for end in ends]
            require(made.is_whole(), "neither is whole")
            made.check_rest()
            yield from outcomes


def somebody_else(command: WritingCommand, output: Output) -> Iterator[str]:
    """While a folder is made, somebody puts a file of another kind in its place."""
    if output.is_folder:
        with scene(command, output) as made:
            child = made.start(made.arguments(), pause="half")
            child.wait_for_pause()
            made.target.mkdir()
            (made.target / "thesis.tex").write_bytes(OLD_FILE)
            child.go_on()
            ended = child.wait()
            require(ended.is_refusal(), f"status {ended.status}: {ended.err[-300:]}")
            require(tree(made.target) == {"": None, "thesis.tex": OLD_FILE}, "somebody's file has gone")
            made.check_rest()
            yield REFUSED


# -- signals ----------------------------------------------------------------------------------------------------------


def signal_in_writing(command: WritingCommand, output: Output) -> Iterator[str]:
    """An end by each signal, once or twice, when an output is half written and when it is whole."""
    for number in GENTLE:
        for moment in ("half", "whole"):
            with scene(command, output) as made:
                earlier = made.put_earlier() if moment == "half" else {}
                child = made.start(made.arguments(), pause=moment)
                child.wait_for_pause()
                child.send(number)
                if moment == "whole":
                    child.send(signal.SIGTERM)
                yield ended_by(made, child.wait(), earlier, number, signal.SIGTERM if moment == "whole" else number)


def ended_by(made: Scene, ended: Ended, earlier: dict[str, bytes | None], *numbers: signal.Signals) -> str:
    """Check that a signal ended the program and left nothing.

    Raises:
        BrokenRuleError: it did not, or left something.
    """
    require(ended.status in {STATUS[number] for number in numbers}, f"status {ended.status}: {ended.err[-300:]}")
    said = ["hta-graph: interrupted"] if ended.status == STATUS[signal.SIGINT] else []
    require(ended.lines == said, f"says {ended.lines}")
    require(tree(made.target) == earlier, "the earlier output is not as it was")
    made.check_rest()
    return ENDED


def killed_in_writing(command: WritingCommand, output: Output) -> Iterator[str]:
    """A killed program leaves what is named so that nothing reads it; the next run is whole."""
    for moment in ("half", "whole"):
        with scene(command, output) as made:
            earlier = made.put_earlier()
            child = made.start(made.arguments(), pause=moment)
            child.wait_for_pause()
            child.send(signal.SIGKILL)
            require(child.wait().status == STATUS[signal.SIGKILL], "lives on")
            require(tree(made.target) == earlier, "the earlier output is not as it was")
            left = [path.name for path in made.target.parent.iterdir() if LEFT_OVER.fullmatch(path.name)]
            require(len(left) == 1 and LEFT_OVER.fullmatch(left[0])["name"] == made.target.name, f"left: {left}")  # type: ignore[index]
            made.check_rest(killed=True)
            ended = made.run(made.arguments())
            require(ended.status == 0 and made.is_whole(), f"the next run: {ended.err[-300:]}")
            yield ENDED


def at_any_moment(command: WritingCommand, output: Output) -> Iterator[str]:
    """A signal at any moment of a run."""
    rng = random.Random(f"{command.name} {output.path}")
    for number in (*GENTLE, signal.SIGKILL):
        with scene(command, output) as made:
            earlier = made.put_earlier()
            child = made.start(made.arguments())
            time.sleep(rng.random() * 0.2)
            child.send(number)
            ended = child.wait()
            require(ended.status in (0, STATUS[number]), f"status {ended.status}: {ended.err[-300:]}")
            require(made.is_whole() or tree(made.target) == earlier, "neither whole nor as it was")
            made.check_rest(killed=number == signal.SIGKILL)
            yield DONE if ended.status == 0 else ENDED


SLEEPER = "import sys, time; time.sleep(60)"


def while_ranks_are_read(command: WritingCommand, output: Output) -> Iterator[str]:
    """A signal while processes read the ranks: none of them is left."""
    if "job" not in command.files_read() or command.words[-1] in (
        "counters",
        "report",
        "kernel-sequences",
        "sync-deps",
    ):
        return
    for number in (*GENTLE, signal.SIGKILL):
        with scene(command, output) as made:
            arguments = [part for part in made.arguments(None, "--jobs", "2") if part not in ("--rank", "0")]

            def sleep_instead() -> None:
                worker_processes.PROGRAM = SLEEPER

            child = made.start(arguments, first=sleep_instead)
            readers = _two_readers(child.pid)
            child.send(number)
            require(child.wait().status == STATUS[number], "another status")
            if number != signal.SIGKILL:
                # A busy machine takes its time over what was killed.
                wait_until(lambda left=readers: not any(map(is_running, left)), 5)
            for reader in filter(is_running, readers):
                os.kill(reader, signal.SIGKILL)
            made.check_rest()
            yield ENDED


def _two_readers(pid: int) -> set[int]:
    wait_until(lambda: len(child_processes(pid)) == 2)
    return child_processes(pid)


# -- standard streams -------------------------------------------------------------------------------------------------


def streams(command: WritingCommand, output: Output) -> Iterator[str]:
    """Standard streams that are closed, full, or whose reader has gone, for what is printed and what goes to ``-``."""
    prints = list(command.arguments(command.needed))
    lines = (
        [prints, with_dash(command, output)]
        if output.flag and not output.is_folder and output.given != "place"
        else [prints]
    )
    for arguments in lines:
        with scene(command, output) as made:
            usual = made.run(arguments)
            for path in made.folder.iterdir():
                if can_be_removed(made, path):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            for name, first in STREAMS.items():
                yield _with_stream(made, arguments, usual, name, first)
                for path in made.folder.iterdir():
                    if can_be_removed(made, path):
                        shutil.rmtree(path) if path.is_dir() else path.unlink()


def can_be_removed(made: Scene, path: Path) -> bool:
    """Say whether a file is one that the command wrote."""
    return str(path) not in made.before


def with_dash(command: WritingCommand, output: Output) -> list[str]:
    """Return a command line that writes an output to standard output."""
    return command.arguments([Output(output.flag, False, "-", "-"), *command.beside(output)[1:]])


STREAMS: dict[str, Callable[[], None]] = {
    "no input": closing(0),
    "no output": closing(1),
    "no errors": closing(2),
    "no stream": closing(0, 1, 2),
    "full output": leading(1, "/dev/full"),
    "full errors": leading(2, "/dev/full"),
    "reader gone": into_a_closed_pipe,
}


def _with_stream(made: Scene, arguments: list[str], usual: Ended, name: str, first: Callable[[], None]) -> str:
    ended = made.run(arguments, first)
    said = [line for line in ended.lines if "standard output" in line]
    if name in ("no input", "no errors", "full errors") or not usual.out:
        require(ended.status == usual.status, f"{name}: status {ended.status}, not {usual.status}: {ended.err[-300:]}")
        require(len(ended.out) == len(usual.out), f"{name}: prints something else")
        return DONE
    if name == "reader gone":
        require(ended.status == usual.status and not said, f"{name}: status {ended.status}: {ended.err[-300:]}")
        return DONE
    require(ended.status == 1 and (name == "no stream" or len(said) == 1), f"{name}: {ended.status} {ended.err[-300:]}")
    return REFUSED


ATTACKS: dict[str, Attack] = {
    "an input as output": input_as_output,
    "an invalid destination": no_such_place,
    "symbolic links": links,
    "named pipes": pipes,
    "write protection": protected,
    "a full disk": full_disk,
    "the folder vanishes": vanishing_folder,
    "two processes at once": two_at_once,
    "a foreign file appears": somebody_else,
    "a signal while it writes": signal_in_writing,
    "SIGKILL while it writes": killed_in_writing,
    "a signal at any moment": at_any_moment,
    "a signal while ranks are read": while_ranks_are_read,
    "standard streams": streams,
}
