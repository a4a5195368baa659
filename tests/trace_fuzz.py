"""Fuzzing: a damaged trace gives a result that obeys the invariants, or one clear line.

``python -m tests.trace_fuzz --cases 20000 --seed 1`` prints a table per kind of damage and keeps each failing input.
What a result obeys is :func:`tests.support.invariants.check_graph`.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import hta_graph as hg
from hta_graph.base.errors import DefectError
from tests.simulator import Dialect, random_program, simulate, to_bytes, write
from tests.simulator.dialect import Exact
from tests.support.foreign_traces import foreign_traces
from tests.support.fuzzed_command import run_fuzzed
from tests.support.fuzzing import Case, Examine, fuzz_parser, run_fuzz
from tests.support.invariants import BrokenRuleError, check_graph, require, some_windows
from tests.support.made_files import PACKED, REFUSED
from tests.support.merged_ranks import TOLD_APART
from tests.support.shared_traces import shared_traces

TIME_LIMIT_S = 20
LONGEST_WAIT = 15
"""So many times its limit of processor time may a case take by the clock."""
LARGEST_REAL_BYTES = 60_000
ROWS_OF_A_REAL_TRACE = 160
Document = Any
Rng = random.Random


# --- whole traces to damage -------------------------------------------------------------------------------------------

DIALECTS = (
    Dialect(),
    Dialect(time="us_int", sync_rows="none", external_ids="old_lowercase"),
    Dialect(time="epoch_us_3dec", sync_rows="unresolved"),
    Dialect(vendor="rocm", record_rows=False, sync_rows="none"),
    Dialect(sync_rows="virtual_tid", clock_error_ns=-8_000),
)


@cache
def seeds() -> tuple[tuple[str, bytes], ...]:
    """Return small traces: simulated ones of all dialects and stretches of the real ones."""
    made = [
        (f"{family} {number}", to_bytes(write(simulate(random_program(number, family, 70)), dialect).document))
        for family in ("pytorch", "arbitrary")
        for number, dialect in enumerate(DIALECTS)
    ]
    small = [path for path in shared_traces() if path.stat().st_size < LARGEST_REAL_BYTES]
    return (*made, ("with memory", _with_memory(made[0][1])), *(seed for path in small for seed in _stretches(path)))


def _with_memory(raw: bytes) -> bytes:
    """Add the rows that the profiler writes with ``profile_memory``: one at the start of each operator."""
    document = _load_exactly(raw)
    kept = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "s": "t"}
    operators = [row for row in document["traceEvents"] if row.get("cat") == "cpu_op"]
    for at, row in enumerate(operators):
        size = 512 * (at + 1) if at % 3 else -512 * at
        args = {"Bytes": size, "Addr": at % 7, "Device Id": 0, "Device Type": 1}
        args |= {"Total Allocated": 4096 + max(size, 0), "Total Reserved": 1 << 20}
        document["traceEvents"].append(kept | {key: row[key] for key in ("pid", "tid", "ts")} | {"args": args})
    return as_bytes(document)


def _stretches(path: Path) -> Iterator[tuple[str, bytes]]:
    document = _load_exactly(gzip.decompress(path.read_bytes()))
    rows = document["traceEvents"] if isinstance(document, dict) else document
    begin = max(0, len(rows) // 2 - ROWS_OF_A_REAL_TRACE // 2)
    part = rows[begin : begin + ROWS_OF_A_REAL_TRACE]
    if isinstance(document, list) and not any("cat" in row for row in part if row.get("ph") == "X"):
        # Without a header and an operator it would be another program's.
        part = [next(row for row in rows if row.get("cat") == "cpu_op"), *part]
    yield path.parent.name, as_bytes({**document, "traceEvents": part} if isinstance(document, dict) else part)


@cache
def origins() -> tuple[tuple[str, bytes], ...]:
    """Return all that is damaged: sound traces, and one in five merged or of another program, written alike."""
    foreign = [(name, as_bytes(_load_exactly(raw))) for name, raw in foreign_traces()]
    return (*seeds() * max(1, 4 * len(foreign) // len(seeds())), *foreign)


def as_bytes(document: Document) -> bytes:
    """Return a document as JSON in which exact numbers, negative ones too, keep all their digits."""
    return re.sub(r'"\\u0001([-+.\deE]+)"', r"\1", json.dumps(document)).encode()


def _load_exactly(raw: bytes) -> Document:
    """Read JSON; a fraction stays the text that was printed."""
    return json.loads(raw, parse_float=lambda text: Exact(Exact.MARK + text))


# --- kinds of damage --------------------------------------------------------------------------------------------------

NESTED = "\x02nested"
ODD_NUMBERS: tuple[Any, ...] = (
    0, -1, 1, -7, 0.5, -0.0, 1e-9, 1e300, -1e300, float("nan"), float("inf"), -float("inf"), 2**31, 2**32 - 1,
    2**53 + 1, 2**62, 2**63 - 1, 2**63, -(2**63), 2**64 - 1, 2**64, 10**30, -(10**30), 4_611_686_018_427_387, 10**15,
    10**18,
)  # fmt: skip
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, "", " ", "x", "7", "-1", "1e5", "NaN", "0x10", "stream 7", "a\nb", "\x00", "\u2028", "é" * 50,
    [], [1], {}, {"a": 1}, [[]], {"traceEvents": []}, NESTED, "9" * 40, "X" * 3_000, *ODD_NUMBERS,
)  # fmt: skip
ODD_BYTES = (
    b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\\u0000", b"\\ud800", b"NaN", b"Infinity", b"-0", b"1e999",
    b"1e-999", b"null", b"true", b'"ph"', b"\x00", b"\xff", b"\x01", b"\n", b"9" * 30, b"\xef\xbb\xbf", b"[" * 2_000,
    b"\xc3", b'{"traceEvents":[', b"\x1f\x8b",
)  # fmt: skip
FIELDS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id")
ARGS = (
    "correlation", "stream", "device", "context", "External id", "external id", "Sequence number", "Fwd thread id",
    "wait_on_stream", "wait_on_cuda_event_record_corr_id", "Collective name", "cuda_sync_kind",
)  # fmt: skip
HEADER = ("baseTimeNanoseconds", "distributedInfo", "deviceProperties", "traceEvents", "schemaVersion")
CATEGORIES = (
    "cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy", "gpu_memset",
    "cuda_sync", "gpu_user_annotation", "overhead", "fwdbwd", "ac2g", "Trace", "cpu_instant_event", "new_category",
)  # fmt: skip
NAMES = (
    "cudaLaunchKernel", "cudaGraphLaunch", "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize",
    "cudaEventRecord", "cudaStreamWaitEvent", "cudaEventQuery", "cudaMemcpy", "cudaMemcpyAsync", "cudaMalloc",
    "Memcpy DtoH (Device -> Pageable)", "ProfilerStep#1", "ProfilerStep#2", "Stream Wait Event", "Event Sync",
    "Stream Sync", "Context Sync", "[memory]", "autograd::engine::evaluate_function: X", "aten::add", "ncclKernel",
)  # fmt: skip


def rows_of(document: Document) -> list[Any]:
    """Return a document's rows, whatever has become of it."""
    rows = document.get("traceEvents") if isinstance(document, dict) else document
    return rows if isinstance(rows, list) and rows else [{}]


def _any_row(document: Document, rng: Rng) -> dict[str, Any]:
    row = rng.choice(rows_of(document))
    return row if isinstance(row, dict) else {}


def _any_args(document: Document, rng: Rng) -> dict[str, Any]:
    args = _any_row(document, rng).get("args")
    return args if isinstance(args, dict) else {}


def drop_row(document: Document, rng: Rng) -> None:
    rows = rows_of(document)
    del rows[rng.randrange(len(rows))]


def duplicate_row(document: Document, rng: Rng) -> None:
    rows = rows_of(document)
    rows.insert(rng.randrange(len(rows)), deepcopy(rng.choice(rows)))


def garbage_row(document: Document, rng: Rng) -> None:
    rows_of(document).insert(rng.randrange(3), rng.choice(ODD_VALUES))


def reorder(document: Document, rng: Rng) -> None:
    rng.shuffle(rows_of(document))


def truncate_rows(document: Document, rng: Rng) -> None:
    rows = rows_of(document)
    del rows[rng.randrange(len(rows)) :]


def drop_field(document: Document, rng: Rng) -> None:
    _any_row(document, rng).pop(rng.choice(FIELDS), None)


def drop_arg(document: Document, rng: Rng) -> None:
    _any_args(document, rng).pop(rng.choice(ARGS), None)


def drop_header(document: Document, rng: Rng) -> None:
    if isinstance(document, dict):
        document.pop(rng.choice(HEADER), None)


def retype_field(document: Document, rng: Rng) -> None:
    _any_row(document, rng)[rng.choice(FIELDS)] = rng.choice(ODD_VALUES)


def retype_arg(document: Document, rng: Rng) -> None:
    _any_args(document, rng)[rng.choice(ARGS)] = rng.choice(ODD_VALUES)


def retype_header(document: Document, rng: Rng) -> None:
    if isinstance(document, dict):
        document[rng.choice(HEADER)] = rng.choice(ODD_VALUES)


def odd_numbers(document: Document, rng: Rng) -> None:
    _any_row(document, rng)[rng.choice(("ts", "dur", "ts", "dur", "pid", "tid", "id"))] = rng.choice(ODD_NUMBERS)
    _any_args(document, rng)[rng.choice(ARGS)] = rng.choice(ODD_NUMBERS)


def swap_fields(document: Document, rng: Rng) -> None:
    one, two, key = _any_row(document, rng), _any_row(document, rng), rng.choice(FIELDS)
    one[key], two[key] = two.get(key), one.get(key)


def swap_args(document: Document, rng: Rng) -> None:
    one, two, key = _any_args(document, rng), _any_args(document, rng), rng.choice(ARGS)
    one[key], two[key] = two.get(key), one.get(key)


def exchange_values(document: Document, rng: Rng) -> None:
    row, keys = _any_row(document, rng), rng.sample(FIELDS, 2)
    row[keys[0]], row[keys[1]] = row.get(keys[1]), row.get(keys[0])


def another_category(document: Document, rng: Rng) -> None:
    _any_row(document, rng)["cat"] = rng.choice(CATEGORIES)


def another_name(document: Document, rng: Rng) -> None:
    _any_row(document, rng)["name"] = rng.choice(NAMES)


def another_phase(document: Document, rng: Rng) -> None:
    _any_row(document, rng)["ph"] = rng.choice(("X", "B", "E", "i", "s", "f", "M", "b", "e"))


def one_correlation(document: Document, rng: Rng) -> None:
    chosen = rng.choice((0, -1, 3, 2**32))
    for row in rng.sample(rows_of(document), len(rows_of(document)) // 2):
        if isinstance(row, dict) and isinstance(row.get("args"), dict) and "correlation" in row["args"]:
            row["args"]["correlation"] = chosen


def few_times(document: Document, rng: Rng) -> None:
    """Let many rows start at few instants, with no or short lengths."""
    times = [row["ts"] for row in rows_of(document) if isinstance(row, dict) and "ts" in row]
    chosen = rng.choices(times, k=3) if times else [0]
    for row in rows_of(document):
        if isinstance(row, dict) and row.get("ph") == "X" and rng.random() < 0.6:
            row["ts"], row["dur"] = rng.choice(chosen), rng.choice((0, 0, 1, 5, row.get("dur")))


def clock_faults(document: Document, rng: Rng) -> None:
    """Move GPU rows by up to some milliseconds, so that edges go back in time."""
    for row in rows_of(document):
        args = row.get("args") if isinstance(row, dict) else None
        if isinstance(args, dict) and "stream" in args and rng.random() < 0.5:
            with contextlib.suppress(TypeError, ValueError):
                row["ts"] = int(float(str(row["ts"]).strip(Exact.MARK))) - rng.choice((5, 90, 900, 1_000, 5_000))


def nested_garbage(document: Document, rng: Rng) -> None:
    place = rng.choice(
        (_any_row(document, rng), _any_args(document, rng), document if isinstance(document, dict) else {})
    )
    place[rng.choice((*FIELDS, *ARGS, "distributedInfo"))] = NESTED


def foreign_rows(document: Document, rng: Rng) -> None:
    """Mix in rows that other programs, the profiler before Kineto or mergers wrote, at times that the trace has."""
    rows, theirs = rows_of(document), rows_of(json.loads(rng.choice(foreign_traces())[1]))
    for row in rng.choices(theirs, k=rng.choice((1, 3, 20))):
        near = _any_row(document, rng)
        times = {"ts": near["ts"]} if "ts" in near and rng.random() < 0.7 else {}
        rows.insert(rng.randrange(len(rows)), {**row, **times})


def merge_files(document: Document, rng: Rng) -> None:
    """Merge with itself or with other recordings, which need not be of the same job, in the ways of mergers."""
    own = [row for row in rows_of(document) if isinstance(row, dict)]
    others = [rows_of(_load_exactly(rng.choice(seeds())[1])) for _ in range(rng.choice((1, 1, 2)))]
    parts = [own, *rng.choice((others, others, [deepcopy(own)]))]
    merged = rng.choice(TOLD_APART[:1] + TOLD_APART[2:4] + TOLD_APART[5:])
    rows_of(document)[:] = merged([{"traceEvents": part} for part in parts])["traceEvents"]
    if rng.random() < 0.3:
        reorder(document, rng)


def everything(document: Document, rng: Rng) -> None:
    rng.choice([damage for name, damage in STRUCTURAL.items() if name != "everything"])(document, rng)


STRUCTURAL: dict[str, Callable[[Document, Rng], None]] = {
    damage.__name__: damage
    for damage in (
        drop_row, duplicate_row, garbage_row, reorder, truncate_rows, drop_field, drop_arg, drop_header, retype_field,
        retype_arg, retype_header, odd_numbers, swap_fields, swap_args, exchange_values, another_category, another_name,
        another_phase, one_correlation, few_times, clock_faults, nested_garbage, foreign_rows,
        merge_files, everything,
    )
}  # fmt: skip


def flip_bits(raw: bytearray, rng: Rng) -> bytes:
    raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    return bytes(raw)


def replace_bytes(raw: bytearray, rng: Rng) -> bytes:
    at = rng.randrange(len(raw))
    raw[at : at + rng.randint(0, 4)] = rng.choice(ODD_BYTES)
    return bytes(raw)


def change_digits(raw: bytearray, rng: Rng) -> bytes:
    digits = [at for at in rng.choices(range(len(raw)), k=200) if 48 <= raw[at] < 58]
    for at in digits[:3]:
        raw[at] = rng.choice(b"0123456789-.eE")
    return bytes(raw)


def delete_bytes(raw: bytearray, rng: Rng) -> bytes:
    at = rng.randrange(len(raw))
    del raw[at : at + rng.choice((1, 1, 3, 50, 1_000))]
    return bytes(raw)


def repeat_bytes(raw: bytearray, rng: Rng) -> bytes:
    at = rng.randrange(len(raw))
    raw[at:at] = raw[at : at + rng.choice((1, 5, 200))]
    return bytes(raw)


def truncate_bytes(raw: bytearray, rng: Rng) -> bytes:
    return bytes(raw[: rng.randrange(len(raw))])


def swap_bytes(raw: bytearray, rng: Rng) -> bytes:
    one, two, size = rng.randrange(len(raw)), rng.randrange(len(raw)), rng.choice((1, 8, 80))
    raw[one : one + size], raw[two : two + size] = raw[two : two + size], raw[one : one + size]
    return bytes(raw)


def damage_gzip(raw: bytearray, rng: Rng) -> bytes:
    packed = bytearray(gzip.compress(bytes(raw), 1))
    return rng.choice(DAMAGES_OF_PACKED)(packed, rng)


def _text(raw: bytearray) -> bytes:
    """Return bytes as text of UTF-8, as what writes other encodings needs it."""
    return bytes(raw).decode("utf-8", "replace").encode()


def pack(raw: bytearray, rng: Rng) -> bytes:
    packed: bytes = PACKED[rng.choice(sorted(PACKED))](bytes(raw))
    return packed


def damage_packed(raw: bytearray, rng: Rng) -> bytes:
    return rng.choice(DAMAGES_OF_PACKED)(bytearray(pack(raw, rng)), rng)


def another_format(raw: bytearray, rng: Rng) -> bytes:
    """Make a file of another format, of the trace if it can hold one, at times a damaged one."""
    made: bytes = REFUSED[rng.choice(sorted(REFUSED))][1](_text(raw))
    return made if rng.random() < 0.5 else rng.choice(DAMAGES_OF_PACKED)(bytearray(made), rng)


def another_encoding(raw: bytearray, rng: Rng) -> bytes:
    made = _text(raw).decode().encode(rng.choice(("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig")))
    return made if rng.random() < 0.5 else rng.choice(DAMAGES_OF_PACKED)(bytearray(made), rng)


DAMAGES_OF_PACKED = (flip_bits, truncate_bytes, delete_bytes, replace_bytes, repeat_bytes)
ONCE = ("damage_gzip", "pack", "damage_packed", "another_format", "another_encoding")
"""What is not done again to what it made."""

BYTES: dict[str, Callable[[bytearray, Rng], bytes]] = {
    damage.__name__: damage
    for damage in (
        flip_bits, replace_bytes, change_digits, delete_bytes, repeat_bytes, truncate_bytes, swap_bytes, damage_gzip,
        pack, damage_packed, another_format, another_encoding,
    )
}  # fmt: skip
DAMAGES = (*STRUCTURAL, *BYTES)


@dataclass(frozen=True)
class DamagedTrace:
    """One damaged trace."""

    damage: str
    origin: str
    raw: bytes


LIGHT = (
    "drop_row", "duplicate_row", "garbage_row", "reorder", "drop_arg", "retype_arg", "odd_numbers", "another_category",
    "another_name", "foreign_rows",
)  # fmt: skip
"""Damage after which most of a trace is as it was."""


def damaged_once(raw: bytes, rng: Rng) -> bytes:
    """Damage one row of a sound trace, or mix in a few."""
    document = _load_exactly(raw)
    STRUCTURAL[rng.choice(LIGHT)](document, rng)
    return as_bytes(document)


def make_case(seed: int, number: int) -> DamagedTrace:
    """Damage a trace once or a few times; equal arguments give equal bytes."""
    rng = Rng(f"{seed} {number}")
    damage = DAMAGES[number % len(DAMAGES)]
    origin, raw = rng.choice(origins())
    times = rng.choice((1, 1, 2, 5))
    if damage in BYTES:
        for _ in range(1 if damage in ONCE else times):
            raw = BYTES[damage](bytearray(raw or b" "), rng)
        return DamagedTrace(damage, origin, raw)
    document = _load_exactly(raw)
    for _ in range(times):
        STRUCTURAL[damage](document, rng)
    return DamagedTrace(damage, origin, _dumped_bytes(document, rng))


def _dumped_bytes(document: Document, rng: Rng) -> bytes:
    depth = rng.choice((50, 1_100, 20_000))
    nested = b"[" * depth + b"]" * depth
    return as_bytes(document).replace(json.dumps(NESTED).encode(), nested)


# --- one case ---------------------------------------------------------------------------------------------------------

ARGUMENTS = (
    ["info"], ["info", "--json", "-"], ["critical-path"], ["critical-path", "--json", "-"], ["graph", "--json", "-"],
    ["critical-path", "--json", "-", "--whole"], ["critical-path", "--step", "1", "--gpu-window"],
    ["critical-path", "--json", "-", "--salvage"], ["graph", "--json", "-", "--salvage"],
)  # fmt: skip


def examine(path: Path, rng: Rng) -> str:
    """Read and question a file; return ``analysed`` or ``refused``.

    Raises:
        BrokenRuleError: the result or the error is not what it must be; whatever else goes wrong is raised as it is.
    """
    with time_limit():
        arguments = rng.choice(ARGUMENTS)
        outcome, ranks = _ask_the_library(path, rng, salvage="--salvage" in arguments)
        # Recordings of one file need not be of one job: then only each of them is certain to be readable.
        is_read = outcome == "analysed" and (ranks == 1 or arguments[0] == "info")
        _ask_the_command_line(path, arguments, is_read=is_read and arguments[0] != "critical-path")
    return outcome


def _ask_the_library(path: Path, rng: Rng, *, salvage: bool) -> tuple[str, int]:
    """Return what became of a file, and the number of its recordings."""
    try:
        graphs = [hg.build_graph(trace) for trace in _read(path, salvage=salvage)]
    except DefectError:
        raise
    except hg.HtaGraphError as error:
        _check_line(str(error), path)
        return "refused", 0
    for graph in graphs:
        check_graph(graph, some_windows(graph, rng))
    return "analysed", len(graphs)


def _read(path: Path, *, salvage: bool) -> list[hg.Trace]:
    """Read the one recording of a file, or those that were merged into it."""
    try:
        return [hg.read_trace(path, salvage=salvage)]
    except hg.HtaGraphError as error:
        if "merged into one file" not in str(error):
            raise
    return list(hg.read_traces(path, salvage=salvage))


def _check_line(line: str, path: Path) -> None:
    require(line.strip() and "\n" not in line and len(line) <= 500, f"not one clear line: {line[:80]!r}")
    require(path.name in line, f"the line does not name the file: {line[:80]!r}")


def _ask_the_command_line(path: Path, arguments: list[str], *, is_read: bool) -> None:
    answer = run_fuzzed([arguments[0], str(path), *arguments[1:]])
    answer.check_one_error()
    succeeds = answer.status == 0
    require(not answer.out or succeeds, "partial output beside an error")
    if succeeds and "--json" in arguments:
        _check_document(json.loads(answer.out))
    elif succeeds:
        require(answer.out.strip(), "no output and no error")
    require(succeeds or not is_read, "the command line refuses what the library reads")


def _check_document(document: dict[str, Any]) -> None:
    require(document["schema"].startswith("hta-graph/"), "no schema")
    if document["schema"] == "hta-graph/critical-path/1":
        window = document["window"]
        edges = [window["start_ns"], *(segment["end_ns"] for segment in document["segments"])]
        require(edges == [*(s["start_ns"] for s in document["segments"]), window["end_ns"]], "JSON does not tile")
        require(sum(document["by_bound_ns"].values()) == window["end_ns"] - window["start_ns"], "JSON does not sum")


@contextlib.contextmanager
def time_limit(seconds: float = TIME_LIMIT_S) -> Iterator[None]:
    """Raise an error in a block that takes more seconds of processors, or far more by the clock.

    What else the machine does fails no case.
    """
    began, spent = time.monotonic(), _processor_seconds()

    def look(_signal: int, _frame: FrameType | None) -> None:
        waited = time.monotonic() - began
        if _processor_seconds() - spent > seconds or waited > LONGEST_WAIT * seconds:
            raise BrokenRuleError(f"takes more than {seconds} s, {waited:.1f} s by the clock")

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, seconds / 10, seconds / 10)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _processor_seconds() -> float:
    """Return what this process and its children that have ended took."""
    return sum(os.times()[:4])


# --- many cases -------------------------------------------------------------------------------------------------------


def damaged_traces(seed: int) -> Examine:
    """Return what makes and examines the cases of a seed."""

    def examine_case(case: Case) -> str:
        made = make_case(seed, case.number)
        case.kind, case.origin = made.damage, made.origin
        path = case.folder / file_name(made.raw)
        path.write_bytes(made.raw)
        return examine(path, Rng(f"{seed} {case.number} questions"))

    return examine_case


def file_name(raw: bytes) -> str:
    """Return the name of a file with this content."""
    return "case.json.gz" if raw[:2] == b"\x1f\x8b" else "case.json"


if __name__ == "__main__":
    options = fuzz_parser("Damage traces and see that nothing breaks.", 2_000).parse_args()
    sys.exit(run_fuzz(damaged_traces(options.seed), options))
