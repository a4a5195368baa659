"""Bombs: small files that want all memory or all time give one line, and the other ranks are answered.

``python -m tests.resource_bombs`` makes each in a temporary folder, runs commands on it under limits of memory, and
prints a table: attack → result, memory of all processes at the worst moment, seconds of a processor. ``--only WORD``
chooses attacks.
"""

from __future__ import annotations

import argparse
import gzip
import os
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import zstandard

from tests.support.trace_builder import TraceBuilder

MIB = 1 << 20
EXPANDED = 192 * MIB
ADDRESS_SPACE = 3 << 30
MEMORY = 256 * MIB
BESIDE = 448 * MIB
"""What processes may hold beside what ``--memory`` allows: interpreters and libraries of up to three."""
SECONDS = 30
"""Of a processor, by all processes together."""
LONGEST_S = 300
"""A run that takes longer is ended, on a busy machine too."""
ROW = b'{"ph":"X","cat":"cpu_op","name":"op","pid":1,"tid":1,"ts":%s,"dur":1}'
SOUND = b'{"traceEvents":[' + ROW % b"1" + b"]}"

Text = Iterator[bytes]
Pack = Callable[[Path, Iterable[bytes]], None]


# --- texts ------------------------------------------------------------------------------------------------------------


def repeated(piece: bytes, size: int = EXPANDED) -> Text:
    """Yield a text of about so many bytes."""
    block = piece * max(MIB // len(piece), 1)
    for _ in range(size // len(block)):
        yield block


def events(inside: Iterable[bytes]) -> Text:
    """Yield a trace with a sound event and something behind it."""
    yield SOUND[:-2]
    yield from inside
    yield b"]}"


def in_event(before: bytes, inside: Iterable[bytes], after: bytes) -> Text:
    """Yield a trace with an event that holds something large."""
    yield from events([b"," + ROW[:-1].replace(b"%s", b"2") + b"," + before, *inside, after + b"}"])


def distinct_rows(count: int = 500_000) -> Text:
    """Yield rows that are short and all kept."""
    for at in range(0, count, 10_000):
        yield b"".join(b',{"ph":"X","ts":%d,"dur":1,"name":"%d"}' % (n, n) for n in range(at, at + 10_000))


def keys(count: int = 1_000_000) -> Text:
    """Yield members of an object."""
    for at in range(0, count, 10_000):
        yield b"".join(b'"key %d":%d,' % (n, n) for n in range(at, at + 10_000))


TEXTS: dict[str, Callable[[], Text]] = {
    "zeros": lambda: repeated(b"\0"),
    "spaces": lambda: events(repeated(b" ")),
    "spaces in front": lambda: repeated(b" "),
    "rows {}": lambda: events(repeated(b",{}")),
    "short rows with names": lambda: events(distinct_rows()),
    "lists as rows": lambda: events(repeated(b",[]")),
    "lists in the header": lambda: (p for p in [b'{"deviceProperties":[0', *repeated(b",[]"), b"]," + SOUND[1:]]),
    "another spelling of the key": lambda: (p for p in [b'{"traceEv\\u0065nts":[{}', *repeated(b",{}"), b"]}"]),
    "one long argument": lambda: in_event(b'"args":{"a":"', repeated(b"a"), b'"}'),
    "one long name": lambda: in_event(b'"name":"', repeated(b"a"), b'"'),
    "one long name, one wide character": lambda: in_event(b'"name":"\xf0\x9f\x98\x80', repeated(b"a"), b'"'),
    "an argument of objects": lambda: in_event(b'"args":{"a":[{}', repeated(b",{}"), b"]}"),
    "the same, broken off": lambda: (p for p in [SOUND[:-2], b',{"args":{"a":[{}', *repeated(b',{"a":{}}')]),
    "a million keys": lambda: in_event(b'"args":{', keys(), b'"z":1}'),
    "numbers of a million digits": lambda: events(
        b"," + ROW % (b"1" * 1_000_000) + b"," + ROW % (b"0." + b"1" * 1_000_000) for _ in range(50)
    ),
    "texts of a million digits": lambda: events(
        b"," + ROW % (b'"' + b"1" * 1_000_000 + b'"') + b"," + ROW % (b'"0.' + b"1" * 1_000_000 + b'"')
        for _ in range(50)
    ),
    "nested 10^7 deep": lambda: in_event(b'"args":{"a":', repeated(b"[", 10_000_000), b"1}"),
    "nested 10^7 deep in the header": lambda: (p for p in [b'{"a":', *repeated(b'{"a":', 50_000_000)]),
    "cuts that are none": lambda: events(
        b"," + ROW[:-1].replace(b"%s", b"%d" % n) + b',"args":{"a":"' + b"a" * MIB + b'","b":[{}' + b",{}" * 90 + b"]}}"
        for n in range(100)
    ),
    "NaN in short rows": lambda: events(repeated(b',{"dur":NaN}', EXPANDED // 8)),
}


# --- files ------------------------------------------------------------------------------------------------------------


def plain(path: Path, text: Iterable[bytes]) -> None:
    """Write a text as it is."""
    with path.open("wb") as file:
        file.writelines(text)


def gzipped(path: Path, text: Iterable[bytes], level: int = 6) -> None:
    """Pack a text as one member."""
    packer = zlib.compressobj(level, wbits=31)
    with path.open("wb") as file:
        file.writelines(map(packer.compress, text))
        file.write(packer.flush())


def in_members(path: Path, text: Iterable[bytes]) -> None:
    """Pack each piece of a text as a member."""
    with path.open("wb") as file:
        file.writelines(gzip.compress(piece, 6) for piece in text)


def zstandard_frames(path: Path, text: Iterable[bytes]) -> None:
    """Pack each piece of a text as a frame."""
    packer = zstandard.ZstdCompressor()
    with path.open("wb") as file:
        file.writelines(map(packer.compress, text))


def zstandard_stream(path: Path, text: Iterable[bytes], *, window: int = 20) -> None:
    """Pack a text as one frame that does not tell its length."""
    settings = zstandard.ZstdCompressionParameters.from_level(1, window_log=window)
    packer = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    with path.open("wb") as file:
        file.writelines(map(packer.compress, text))
        file.write(packer.flush())


def twice(path: Path, text: Iterable[bytes]) -> None:
    """Pack a text, and what comes of that."""
    gzipped(path, text)
    path.write_bytes(gzip.compress(path.read_bytes()))


def altered(alter: Callable[[bytes], bytes]) -> Pack:
    """Pack a text and damage the file."""

    def write(path: Path, text: Iterable[bytes]) -> None:
        gzipped(path, text)
        path.write_bytes(alter(path.read_bytes()))

    return write


def sparse(path: Path, _: Iterable[bytes]) -> None:
    """Write a file of 100 GB that takes no room."""
    with path.open("wb") as file:
        file.truncate(100 * 10**9)


EMPTY_FRAME = b"\x50\x2a\x4d\x18\0\0\0\0"
FILES: dict[str, tuple[Pack, str]] = {
    "gzip": (gzipped, "spaces"),
    "gzip of gzip": (twice, "spaces"),
    "gzip, 64 KiB a member": (lambda path, text: in_members(path, _cut(text, 1 << 16)), "spaces"),
    "gzip, truncated": (altered(lambda raw: raw[:-1000]), "spaces"),
    "gzip, corrupt": (altered(lambda raw: raw[: len(raw) // 2] + b"\xff" * 9 + raw[len(raw) // 2 + 9 :]), "spaces"),
    "gzip, trailing garbage": (altered(lambda raw: raw + os.urandom(MIB)), "spaces"),
    "gzip without a length": (altered(lambda raw: raw[:-4] + b"\0\0\0\0"), "spaces"),
    "gzip that claims 4 GB": (altered(lambda raw: raw[:-4] + b"\xff\xff\xff\xff"), "spaces"),
    "a million empty members": (lambda path, _: plain(path, [gzip.compress(b"") * 1_000_000]), "spaces"),
    "a valid trace, empty members": (
        lambda path, _: plain(path, [gzip.compress(b"") * 5_000, gzip.compress(SOUND)]), ""
    ),
    "zstd": (zstandard_stream, "spaces"),
    "zstd, many frames": (lambda path, text: zstandard_frames(path, _cut(text, 1 << 12)), "spaces"),
    "zstd, window of 2 GiB": (lambda path, text: zstandard_stream(path, text, window=31), "spaces"),
    "zstd, a million skippable frames": (
        lambda path, _: plain(path, [EMPTY_FRAME * 1_000_000, zstandard.compress(SOUND)]), ""
    ),
    "plain, 100 GB of nothing": (sparse, ""),
}  # fmt: skip


def _cut(text: Iterable[bytes], size: int) -> Text:
    for piece in text:
        for at in range(0, len(piece), size):
            yield piece[at : at + size]


@dataclass(frozen=True)
class Attack:
    """A file and how it is written."""

    name: str
    write: Callable[[Path], None]


def attacks() -> list[Attack]:
    """List all: each text packed by gzip, each kind of file with spaces."""
    texts = [Attack(name, lambda path, own=text: gzipped(path, own())) for name, text in TEXTS.items()]  # type: ignore[misc]
    files = [
        Attack(name, lambda path, own=pack, text=text: own(path, TEXTS[text]() if text else [SOUND]))  # type: ignore[misc]
        for name, (pack, text) in FILES.items()
    ]
    return texts + files


# --- runs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ran:
    """How a command ended; ``seconds`` are those of processors."""

    status: int
    out: str
    err: str
    memory: int
    seconds: float


def run(arguments: Sequence[str | Path], folder: str | None = None) -> Ran:
    """Run a command with little address space, and watch what all its processes hold."""
    began = time.monotonic()
    limited = ["sh", "-c", f'ulimit -v {ADDRESS_SPACE >> 10}; exec "$@"', "sh"]
    command = [*limited, sys.executable, "-m", "analyses.cli.main", *map(str, arguments)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, cwd=folder, env=ENVIRONMENT)
        most = ended = 0
        while not ended:
            most = max(most, sum(map(_resident, [process.pid, *_children(process.pid)])))
            if time.monotonic() - began > LONGEST_S:
                process.kill()
            time.sleep(0.01)
            ended, status, used = os.wait4(process.pid, os.WNOHANG)
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return Ran(process.returncode, *texts, most, used.ru_utime + used.ru_stime)


def _children(process: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def fault_of(ran: Ran, path: Path, *, memory: int, ranks: Sequence[int] = ()) -> str:
    """Say what is wrong with how a command ended; nothing if it is as it should be."""
    if "Traceback" in ran.err or ran.status not in (0, 1):
        return f"status {ran.status}: {ran.err[-200:]}"
    if ran.status and path.name not in ran.err and f"{path.parent.name}: " not in ran.err:
        return f"does not name the file: {ran.err[-200:]}"
    if ran.memory > memory + BESIDE:
        return f"took {ran.memory / MIB:,.0f} MiB"
    if ran.seconds > SECONDS:
        return f"took {ran.seconds:.0f} s"
    missing = [rank for rank in ranks if f'"rank":{rank},' not in ran.out]
    return f"ranks {missing} are not answered: {ran.err[-200:]}" if missing else ""


RANKS = (0, 2)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}


def among_ranks(folder: Path, attack: Attack) -> Path:
    """Write sound ranks and a bomb between them."""
    for rank in RANKS:
        trace = TraceBuilder(distributedInfo={"rank": rank, "world_size": 3})
        trace.launch("kernel", (0, 10), (20, 30), 1)
        trace.write(folder / f"rank{rank}.json")
    bomb = folder / ("rank1.json.zst" if attack.name.startswith("zstd") else "rank1.json.gz")
    attack.write(bomb)
    return bomb


def results(attack: Attack) -> Iterator[tuple[str, Ran, str]]:
    """Run commands on a bomb alone and among ranks; yield what was asked, how it ended, what is wrong with that."""
    allowed = ["--memory", f"{MEMORY // MIB}M"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bomb = among_ranks(folder, attack)
        asked: list[tuple[str, list[str | Path], int, tuple[int, ...]]] = [
            ("alone", ["info", bomb, *allowed], MEMORY, ()),
            ("alone, no limit", ["info", bomb], ADDRESS_SPACE, ()),
            (
                "among ranks, 1 process",
                ["temporal-breakdown", folder, "--json", "-", "--jobs", "1", *allowed],
                MEMORY,
                RANKS,
            ),
            (
                "among ranks, workers",
                ["temporal-breakdown", folder, "--json", "-", "--jobs", "2", *allowed],
                MEMORY,
                RANKS,
            ),
        ]
        for what, arguments, memory, ranks in asked:
            ran = run(arguments)
            yield what, ran, fault_of(ran, bomb, memory=memory, ranks=ranks)


# --- other kinds of files ---------------------------------------------------------------------------------------------

MODEST = 64 * MIB
"""What is short enough to be decoded whole."""
LINK = ["chakra", "link", "--host-trace", "host.json.gz", "--device-trace", "rank0.json", "-o", "out.json"]
HOST = b'{"schema":"1.1.0-chakra.0.0.4","nodes":[0'
NODE = b'{"id":1,"name":"a","ctrl_deps":1,"inputs":0,"outputs":0,"attrs":[]}'
LINKED = b'{"schema":"1.1.0-chakra.0.0.4","nodes":[{"inclusive_dur":1}'


def around(begin: bytes, piece: bytes, end: bytes = b"]}") -> Callable[[Path], None]:
    """Return what packs a document with something repeated in it."""
    return lambda path: gzipped(path, (part for part in [begin, *repeated(piece, MODEST), end]))


def et_of(piece: bytes, size: int = MODEST) -> Callable[[Path], None]:
    """Return what writes messages."""
    return lambda path: plain(path, repeated(piece, size))


OTHERS: dict[str, tuple[str, Callable[[Path], None], list[str]]] = {
    "flight dump of empty entries": ("flight/rank0.json.gz", around(b'{"entries":[{}', b",{}"), ["critical-path", "."]),
    "flight dump of lists": (
        "flight/rank0.json.gz", around(b'{"entries":[{"input_sizes":[0', b",[]", b"]}]}"), ["critical-path", "."]
    ),
    "flight dump nested deeply": (
        "flight/rank0.json.gz", lambda path: gzipped(path, repeated(b'{"entries":[', 16 * MIB)), ["critical-path", "."]
    ),
    "host trace of empty nodes": (
        "host.json.gz", around(HOST, b",{}"), LINK
    ),
    "host trace of short nodes": (
        "host.json.gz", around(HOST[:-1] + NODE, b"," + NODE), LINK
    ),
    "host trace of lists in the header": (
        "host.json.gz", around(b'{"pid":[0', b",[]", b'],"schema":"1.1.0-chakra.0.0.4","nodes":[]}'), LINK
    ),
    "linked trace": ("linked.json.gz", around(LINKED, b",{}"), ["chakra", "convert", "linked.json.gz", "-o", "out"]),
    "messages without content": ("et/trace.0.et", et_of(b"\0"), ["chakra", "check", "et"]),
    "messages of three bytes": ("et/trace.0.et", et_of(b"\2\x08\5"), ["chakra", "check", "et"]),
    "a message of 100 GB": ("et/trace.0.et", lambda path: sparse(path, ()), ["chakra", "check", "et"]),
    "groups of a workload": (
        "et/comm_groups.json",
        lambda path: plain(path, [b'{"1":[0', *repeated(b",0", MODEST), b"]}"]),
        ["chakra", "check", "et"],
    ),
    "raw memory timeline": (
        "raw.json.gz", around(b"[[1,1,1,1]", b",[1,1,1,1]", b"]"), ["memory-timeline", "raw.json.gz"]
    ),
    "log of the simulator": ("log/log.log", lambda path: plain(path, repeated(b"x")), ["chakra", "statistics", "log"]),
}  # fmt: skip


def result_of_other(name: str) -> Iterator[tuple[str, Ran, str]]:
    """Run a command on a bomb of another kind of file."""
    place, write, arguments = OTHERS[name]
    with tempfile.TemporaryDirectory() as folder:
        bomb = Path(folder, place)
        bomb.parent.mkdir(exist_ok=True)
        among_ranks(Path(folder), Attack("", lambda path: path.write_bytes(gzip.compress(SOUND)) and None))
        if bomb.name == "comm_groups.json":
            bomb.with_name("trace.0.et").write_bytes(b"\2\x08\5")
        write(bomb)
        ran = run(arguments, folder)
        yield "", ran, fault_of(ran, bomb, memory=ADDRESS_SPACE)


def main() -> int:
    """Print what becomes of each attack; return 1 if one succeeds."""
    parser = argparse.ArgumentParser(description="Small files that want all memory or all time.")
    parser.add_argument("--only", default="", help="attacks with this word in their names")
    parser.add_argument("--jobs", type=int, default=2, help="how many are made and run at once")
    options = parser.parse_args()
    whole = [(attack.name, partial(results, attack)) for attack in attacks()]
    others = [(name, partial(result_of_other, name)) for name in OTHERS]
    chosen = [(name, found) for name, found in whole + others if options.only in name]
    faults = 0
    began = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        for (name, _), rows in zip(chosen, pool.map(lambda asked: list(asked[1]()), chosen), strict=True):
            faults += sum(_told(name, *row) for row in rows)
    sys.stdout.write(f"{len(chosen)} attacks, {faults} faults, {time.monotonic() - began:.0f} s\n")
    return int(faults > 0)


def _told(attack: str, what: str, ran: Ran, fault: str) -> bool:
    """Print a row of the table; return whether something is wrong."""
    line = fault or (ran.err.strip().splitlines() or ["answered"])[-1]
    figures = f"{ran.status} {ran.memory / MIB:5,.0f} MiB {ran.seconds:4.1f} s"
    sys.stdout.write(f"{'FAIL' if fault else 'ok':4} {attack:34} {what:22} {figures}  {line.strip()[-150:]}\n")
    sys.stdout.flush()
    return bool(fault)


if __name__ == "__main__":
    sys.exit(main())
