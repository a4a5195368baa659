"""Baseline files: profiles of runs as one small JSON document, which can live in a repository.

Texts stand once, in a table; rows have a number for each step with a path; the order of kernels is packed. The bytes
depend on nothing but the profiles.
"""

from __future__ import annotations

import gzip
import re
import zlib
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections import Counter
from collections.abc import Mapping, Sequence, Sized
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import pandas as pd

from analyses.compare.diff.environment import Inputs
from analyses.compare.diff.job_side import CAUSE_KEYS, GROUP_KEYS, JobRows, JobSide
from analyses.compare.diff.sides import Measure
from analyses.compare.diff.step_kinds import StepContents
from analyses.compare.gate.compare_profiles import noise_of_recordings
from analyses.compare.gate.run_profile import NO_VERDICT, RunProfile, UnitsInOrder
from hta_graph.base.errors import TraceError
from hta_graph.base.storage.atomic_write import write_file
from hta_graph.base.storage.location import Location, is_remote, resolve_location
from hta_graph.base.storage.output_paths import BASELINE, GZIP_MAGIC, begins_as
from hta_graph.model import Ints

SCHEMA: Literal["hta-graph/baseline/1"] = "hta-graph/baseline/1"
LARGEST_FILE = 1 << 26
"""No baseline has more bytes of text: it would be 300 times as large as that of a rank."""
MOST_UNITS = 1 << 21
MOST_SHAPES = 100

MOST = 1 << 53
"""No number of a run is larger, of nanoseconds (104 days) and of bytes."""
Number = Annotated[int, msgspec.Meta(ge=-MOST, le=MOST)]
Numbers = list[Number]
Rows = list[list[Any]]


class _Steps(msgspec.Struct, forbid_unknown_fields=True):
    number: Numbers
    length_ns: Numbers
    latency_ns: Numbers
    phase: list[Number | None]
    content: Numbers


class _Content(msgspec.Struct, forbid_unknown_fields=True):
    name: Numbers
    count: Numbers
    ns: Numbers
    on_gpu: list[bool]


class _Row(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Numbers of a row of a table for each step with a path; 0 where the step lacks it."""

    keys: Numbers
    ns: Numbers
    more: Numbers = []


class _Path(msgspec.Struct, forbid_unknown_fields=True):
    step: Numbers
    classes: list[_Row]
    names: list[_Row]
    ranks: list[_Row]
    causes: list[_Row]
    groups: list[_Row]


class _Units(msgspec.Struct, forbid_unknown_fields=True):
    name: Numbers
    communication: list[bool]
    order: str
    ns: str


class _Run(msgspec.Struct, forbid_unknown_fields=True):
    ranks: Numbers
    missing: Numbers
    of_rank: Number
    world_size: Number | None
    measure: Measure
    warms_up: bool
    label: Number
    unexplained_ns: Number
    steps_recorded: Number
    steps: _Steps
    signature: Number
    contents: list[_Content]
    path: _Path
    annotations: Numbers
    environment: dict[str, str]
    types: dict[str, Number]
    shapes: list[tuple[Number, Number, Number]]
    operators_ns: Number
    operators: list[tuple[Number, Number]]
    kernels: _Units
    host: _Units
    metrics: dict[str, Numbers]
    hosts: dict[str, str] = {}
    first_ns: Number | None = None


class _Noise(msgspec.Struct, forbid_unknown_fields=True):
    steps_share: float
    runs_share: float | None


class _Baseline(msgspec.Struct, forbid_unknown_fields=True):
    schema: Literal["hta-graph/baseline/1"]
    noise: _Noise
    texts: list[str]
    runs: Annotated[list[_Run], msgspec.Meta(min_length=1)]


class BaselineError(TraceError):
    """A baseline file cannot be read."""

    exit_status = 3


def is_baseline(path: Location) -> bool:
    """Return whether a file begins as a baseline does."""
    return not is_remote(path) and path.is_file() and begins_as(path, BASELINE)


def write_baseline(target: str, profiles: Sequence[RunProfile], *, with_hosts: bool = False) -> None:
    """Write the recordings of a run as a baseline, whole or not at all; gzip if the file's name ends in .gz."""
    text = baseline_bytes(profiles, with_hosts=with_hosts)
    packed = resolve_location(target).suffix.lower() == ".gz" if target != "-" else False
    write_file(target, gzip.compress(text, mtime=0) if packed else text)


def baseline_bytes(profiles: Sequence[RunProfile], *, with_hosts: bool = False) -> bytes:
    """Return the text of a baseline."""
    texts = _Texts()
    runs = [_run_of(profile, texts, with_hosts=with_hosts) for profile in profiles]
    noise = _Noise(*noise_of_recordings(profiles))
    return msgspec.json.encode(_Baseline(SCHEMA, noise, texts.listed(), runs)) + b"\n"


def read_baseline(path: Location) -> list[RunProfile]:
    """Read the recordings of a baseline.

    Raises:
        BaselineError: the file cannot be read, has another version, is damaged, or contradicts itself.
    """
    text = _text_of(path)
    try:
        document = msgspec.json.decode(text, type=_Baseline)
        return [_profile_of(run, document.texts) for run in document.runs]
    except (msgspec.DecodeError, ValueError, IndexError, KeyError, OverflowError, Base64Error, zlib.error) as error:
        raise BaselineError(path, *_bad_baseline(_version_in(text), SCHEMA, str(error))) from None


def _bad_baseline(version: str, known: str, why: str) -> tuple[str, str]:
    """Refuse a baseline file of another version, or a damaged one, with the remedy.

    >>> _bad_baseline("2", "hta-graph/baseline/1", "")[0]
    'a baseline of version 2; this hta-graph reads hta-graph/baseline/1'
    """
    if version not in ("", known.rpartition("/")[2]):
        return f"a baseline of version {version}; this hta-graph reads {known}", "write it anew with gate --update"
    return f"a damaged baseline ({why})", "write it anew with gate --update"


def _text_of(path: Location) -> bytes:
    is_whole = True
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST_FILE + 1)
        if text.startswith(GZIP_MAGIC):
            unpacking = zlib.decompressobj(wbits=31)
            text = unpacking.decompress(text, LARGEST_FILE + 1)
            is_whole = unpacking.eof
    except (OSError, zlib.error) as error:
        raise BaselineError(path, f"the baseline cannot be read: {error}") from None
    if len(text) > LARGEST_FILE:
        raise BaselineError(path, "the baseline is larger than 64 MiB")
    if not is_whole:
        raise BaselineError(path, "the baseline is truncated")
    return text


def _version_in(text: bytes) -> str:
    found = re.match(BASELINE.pattern + rb"([\w.-]{1,20})", text)
    return found[1].decode() if found else ""


class _Texts:
    """A table of texts, numbered by first use."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}

    def __getitem__(self, text: str) -> int:
        return self.number.setdefault(text.encode(errors="replace").decode(), len(self.number))

    def listed(self) -> list[str]:
        return list(self.number)


def _run_of(profile: RunProfile, texts: _Texts, *, with_hosts: bool) -> _Run:
    side, contents = profile.side, profile.contents
    examples: dict[int, int] = {}
    number = [examples.setdefault(id(one), len(examples)) for one in contents.contents]
    kept = {id(one): one for one in contents.contents}
    rows, windows = side.rows, side.rows.count
    shapes = sorted(profile.inputs.by_shape.items(), key=lambda one: (-one[1], one[0]))[:MOST_SHAPES]
    return _Run(
        ranks=sorted(side.files),
        missing=list(side.missing),
        of_rank=profile.of_rank,
        world_size=side.world_size,
        measure=side.measure,
        warms_up=side.warms_up,
        label=texts[side.label],
        unexplained_ns=side.unexplained_ns,
        steps_recorded=side.steps_recorded,
        steps=_Steps(
            side.numbers.tolist(),
            side.lengths_ns.tolist(),
            list(profile.latencies_ns),
            [None if phase is None else texts[phase] for phase in contents.phases],
            number,
        ),
        signature=contents.signature,
        contents=[_content_of(kept[one], texts) for one in examples],
        path=_Path(
            list(side.path_numbers),
            _rows_of(rows.classes, ["bound_by"], windows, texts),
            _rows_of(rows.names, ["name", "bound_by"], windows, texts, "calls"),
            _rows_of(rows.ranks, ["rank"], windows, texts, "caused_ns"),
            _rows_of(rows.causes, CAUSE_KEYS, windows, texts),
            _rows_of(rows.groups, GROUP_KEYS, windows, texts),
        ),
        annotations=[texts[name] for name in sorted(side.annotations)],
        environment={what: fact for what, fact in sorted(profile.facts.items()) if fact is not None},
        types=dict(sorted(profile.inputs.by_type.items())),
        shapes=[(texts[name], texts[shape], ns) for (name, shape), ns in shapes],
        operators_ns=profile.inputs.time_ns,
        operators=[(texts[name], ns) for name, ns in profile.operators.items()],
        kernels=_packed_units(profile.kernels, texts),
        host=_packed_units(profile.host, texts),
        metrics={name: list(values) for name, values in sorted(profile.metrics.items())},
        hosts={str(rank): host for rank, host in sorted(side.hosts.items())} if with_hosts else {},
        first_ns=profile.first_ns,
    )


def _content_of(content: Mapping[str, tuple[int, int, bool]], texts: _Texts) -> _Content:
    names = sorted(content)
    count, ns, on_gpu = zip(*(content[name] for name in names), strict=True) if names else ((), (), ())
    return _Content([texts[name] for name in names], list(count), list(ns), [bool(one) for one in on_gpu])


NUMBERS = frozenset({"rank", "ranks"})
"""Keys of rows that are numbers; others are texts."""


def _rows_of(frame: pd.DataFrame, keys: list[str], windows: int, texts: _Texts, more: str = "") -> list[_Row]:
    """Return a row for each key, with its numbers in every window."""
    frame = frame[(frame["ns"] != 0) | (frame[more] != 0 if more else False)]
    if not len(frame):
        return []
    grouped = frame.groupby(keys, sort=True).ngroup().to_numpy()
    values = {name: np.zeros((int(grouped.max()) + 1, windows), np.int64) for name in ("ns", more) if name}
    for name, table in values.items():
        np.add.at(table, (grouped, frame["window"].to_numpy(np.int64)), frame[name].to_numpy(np.int64))
    first = frame.assign(group=grouped).drop_duplicates("group").sort_values("group")
    columns = [
        first[key].astype(int).tolist() if key in NUMBERS else [texts[str(text)] for text in first[key]] for key in keys
    ]
    return [
        _Row(list(own), values["ns"][at].tolist(), values[more][at].tolist() if more else [])
        for at, own in enumerate(zip(*columns, strict=True))
    ]


def _packed_units(units: UnitsInOrder, texts: _Texts) -> _Units:
    return _Units(
        [texts[name] for name in units.units], units.is_communication.tolist(), _packed(units.code), _packed(units.ns)
    )


def _packed(numbers: Ints) -> str:
    """Return numbers as text: differences to the one before as 32 bits, compressed."""
    kept = np.clip(numbers, 0, np.iinfo(np.int32).max).astype("<i4")
    return b64encode(zlib.compress(np.diff(kept, prepend=np.int32(0)).astype("<i4").tobytes(), 9)).decode()


def _unpacked(text: str) -> Ints:
    unpacking = zlib.decompressobj()
    found = unpacking.decompress(b64decode(text, validate=True), 4 * MOST_UNITS)
    if not unpacking.eof or len(found) % 4:
        raise ValueError("a list of kernels is damaged")
    numbers: Ints = np.cumsum(np.frombuffer(found, "<i4").astype(np.int64))
    return numbers


def _profile_of(run: _Run, texts: Sequence[str]) -> RunProfile:
    steps, path = run.steps, run.path
    _check(run)
    contents = [_content_from(one, texts) for one in run.contents]
    rows = JobRows(
        len(path.step),
        _frame_of(path.classes, ["bound_by"], len(path.step), texts),
        _frame_of(path.names, ["name", "bound_by"], len(path.step), texts, "calls"),
        _frame_of(path.ranks, ["rank"], len(path.step), texts, "caused_ns"),
        _frame_of(path.causes, CAUSE_KEYS, len(path.step), texts),
        _frame_of(path.groups, GROUP_KEYS, len(path.step), texts),
    )
    side = JobSide(
        files={rank: resolve_location(".") for rank in run.ranks},
        hosts={int(rank): host for rank, host in run.hosts.items()},
        world_size=run.world_size,
        measure=run.measure,
        warms_up=run.warms_up,
        lengths_ns=np.array(steps.length_ns, np.int64),
        numbers=np.array(steps.number, np.int64),
        label=_text(texts, run.label),
        unexplained_ns=run.unexplained_ns,
        steps_recorded=run.steps_recorded,
        rows=rows,
        missing=tuple(run.missing),
        verdict=NO_VERDICT,
        path_numbers=tuple(path.step),
        annotations=frozenset(_text(texts, at) for at in run.annotations),
    )
    phases = tuple(None if at is None else _text(texts, at) for at in steps.phase)
    return RunProfile(
        side=side,
        facts=run.environment,
        inputs=Inputs(
            run.operators_ns,
            Counter(run.types),
            Counter({(_text(texts, name), _text(texts, shape)): ns for name, shape, ns in run.shapes}),
        ),
        operators={_text(texts, name): ns for name, ns in run.operators},
        contents=StepContents(phases, tuple(contents[at] for at in steps.content), run.signature),
        kernels=_units_from(run.kernels, texts),
        host=_units_from(run.host, texts),
        latencies_ns=tuple(steps.latency_ns),
        metrics={name: tuple(values) for name, values in run.metrics.items()},
        of_rank=run.of_rank,
        first_ns=run.first_ns,
    )


def _check(run: _Run) -> None:
    """Refuse a run that contradicts itself.

    Raises:
        ValueError: it does.
    """
    steps, path = run.steps, run.path
    count = len(steps.number)
    if not count or not run.ranks or not path.step:
        raise ValueError("a run has no ranks or no steps")
    alike: list[Sized] = [steps.length_ns, steps.latency_ns, steps.phase, *([steps.content] if steps.content else [])]
    rows = [*path.classes, *path.names, *path.ranks, *path.causes, *path.groups]
    of_rows = [own for row in rows for own in (row.ns, *([row.more] if row.more else []))]
    if any(len(own) != count for own in alike) or any(
        len(own) != len(path.step) for own in (*of_rows, *run.metrics.values())
    ):
        raise ValueError("a list has another length than the steps")
    if (
        sorted(set(steps.number)) != steps.number
        or sorted(path.step) != path.step
        or not set(path.step) <= set(steps.number)
    ):
        raise ValueError("steps are not in order")
    negative = min(
        map(min, (steps.length_ns, steps.latency_ns, steps.content or [0], *(own for own in of_rows if own)))
    )
    if negative < 0 or not 0 <= run.signature < 2:
        raise ValueError("a number is negative")


def _content_from(content: _Content, texts: Sequence[str]) -> dict[str, tuple[int, int, bool]]:
    columns = zip(content.name, content.count, content.ns, content.on_gpu, strict=True)
    return {_text(texts, name): (count, ns, on_gpu) for name, count, ns, on_gpu in columns}


def _text(texts: Sequence[str], at: int) -> str:
    if at < 0:
        raise IndexError("a text is missing")
    return texts[at]


def _frame_of(
    rows: Sequence[_Row], keys: list[str], windows: int, texts: Sequence[str], more: str = ""
) -> pd.DataFrame:
    """Return rows as a table with a row for each window in which there are any."""
    if any(len(row.keys) != len(keys) or len(row.more) != (windows if more else 0) for row in rows):
        raise ValueError("a row has another length than its table")
    values = {"ns": [row.ns for row in rows], **({more: [row.more for row in rows]} if more else {})}
    tables = {name: np.array(own, np.int64).reshape(len(rows), windows) for name, own in values.items()}
    row, window = np.nonzero(np.any(list(tables.values()), axis=0))
    columns: dict[str, Any] = {"window": window}
    for at, key in enumerate(keys):
        own = [one.keys[at] if key in NUMBERS else _text(texts, one.keys[at]) for one in rows]
        columns[key] = np.array(own, np.int64 if key in NUMBERS else object)[row]
    return pd.DataFrame({**columns, **{name: table[row, window] for name, table in tables.items()}})


def _units_from(units: _Units, texts: Sequence[str]) -> UnitsInOrder:
    code, ns = _unpacked(units.order), _unpacked(units.ns)
    is_known = not len(code) or (code.min() >= 0 and code.max() < len(units.name))
    if len(code) != len(ns) or len(units.communication) != len(units.name) or not is_known or (ns < 0).any():
        raise ValueError("a list of kernels is damaged")
    names = tuple(_text(texts, at) for at in units.name)
    return UnitsInOrder(names, np.array(units.communication, np.bool_), code, ns)
