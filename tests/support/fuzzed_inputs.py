"""What a fuzzer gives a command to read: sound and damaged traces, jobs, merged and packed files, workloads, dumps."""

from __future__ import annotations

import gzip
import json
import random
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import hta_graph as hg
from analyses.compare.gate.baseline_file import baseline_bytes
from analyses.compare.gate.run_profile import profile_of
from hta_graph.chakra.convert import convert
from hta_graph.chakra.convert_options import ConvertOptions
from hta_graph.chakra.rank_workload import RankInput
from hta_graph.trace.decompress import FileBytes
from hta_graph.trace.read import traces_of_bytes
from tests.job_fuzz import damaged as damaged_job
from tests.support.astra_log import Ran, log_text
from tests.support.captured_programs import captured, program, replayed
from tests.support.foreign_traces import SOUND_JOBS, foreign_traces, merged_job, old_profilers_array, sound_ranks
from tests.support.host_builder import host_of
from tests.support.made_files import PACKED
from tests.support.samples import ONE_RANK
from tests.trace_fuzz import BYTES, damaged_once, make_case, pack, seeds

Rng = random.Random
OF_SEVERAL_RANKS = ("stragglers", "collectives")
"""Commands that answer about jobs."""
OF_RECORDED = {"memory-timeline": b"[memory]"}
"""Commands that answer about what few traces have."""
OF_SERVING = ("serving",)
"""Commands that answer about the steps of inference engines."""
STEPS_OF_ENGINES = (
    "execute_context_1(16)_generation_3(3)", "execute_context_0(0)_generation_4(4)", "step[DECODE bs=4]",
    "decode[bs=3/4 tok=4 d=4]", "my step 4",
)  # fmt: skip
"""Names of steps, of which --step-pattern names the last one."""
FLIGHT_ENTRY = {
    "process_group": ["0", "default_pg"], "collective_seq_id": 1, "profiling_name": "nccl:all_reduce",
    "input_sizes": [[4, 2]], "time_created_ns": 10**18, "is_p2p": False,
}  # fmt: skip


@dataclass
class Place:
    """Where a case lives: ``inputs`` is read, ``outputs`` takes what is written.

    Inputs are ``sound``, damaged ``once`` in a way that leaves most of them, or ``damaged`` in any way. ``texts`` are
    the traces as they were before they were packed, ``is_job`` whether they are of several ranks, ``asked`` the options
    of a right command line.
    """

    folder: Path
    rng: Rng
    number: int
    seed: int
    command: tuple[str, ...]
    damage: str
    texts: list[bytes] = field(default_factory=list)
    is_job: bool = False
    asked: frozenset[str] = frozenset()

    @property
    def inputs(self) -> Path:
        """The folder of what is read."""
        return self.folder / "inputs"

    @property
    def outputs(self) -> Path:
        """The folder of what is written."""
        return self.folder / "outputs"

    @cached_property
    def of_job(self) -> bool:
        """Whether the inputs of this case are jobs: one choice, as two runs that are compared are alike."""
        return self.rng.random() < (0.9 if self.command[-1] in OF_SEVERAL_RANKS else 0.4)

    def written(self, name: str, raw: bytes) -> Path:
        """Write an input."""
        path = self.inputs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
        return path

    def hurt(self, raw: bytes) -> bytes:
        """Damage the bytes of a file that is no trace, if this is a case of damage."""
        if self.damage != "damaged":
            return raw
        return BYTES[self.rng.choice(sorted(BYTES))](bytearray(raw or b" "), self.rng)

    def hurt_document(self, document: Any) -> bytes:
        """Damage a JSON document that is no trace: its rows, or its bytes."""
        raw = json.dumps(document).encode()
        return self.hurt(raw) if self.rng.random() < 0.7 else raw

    def target(self, *suffixes: str) -> str:
        """Name a file to write that is not there."""
        return str(self.outputs / f"o{self.rng.randrange(10**6)}{self.rng.choice(suffixes)}")

    def doubtful_target(self, *suffixes: str) -> str:
        """Name a file to write, sometimes one that cannot be written."""
        at = self.rng.random()
        if at < 0.03:
            return str(self.outputs)
        if at < 0.06:
            return str(self.outputs / "nowhere" / "x.json")
        return self.target(*suffixes)

    def found(self, pattern: bytes, otherwise: str) -> str:
        """Return one of the texts that the traces have for the first group of a pattern."""
        known = sorted({match for text in self.texts for match in re.findall(pattern, text)})
        return self.rng.choice(known).decode(errors="replace") if known else otherwise


# --- traces and jobs --------------------------------------------------------------------------------------------------


def suffix_of(raw: bytes) -> str:
    """Return how the name of such a file ends."""
    packed = {b"\x1f\x8b": ".json.gz", b"PK": ".zip", b"(\xb5": ".json.zst"}
    return packed.get(raw[:2], ".tar" if raw[257:262] == b"ustar" else ".json")


def _keep(place: Place, name: str, raw: bytes, text: bytes) -> Path:
    place.texts.append(text)
    return place.written(f"{name}{suffix_of(raw)}", raw)


def one_trace(place: Place, name: str = "t") -> list[str]:
    """Write one trace."""
    if place.damage == "damaged":
        raw = make_case(place.seed, place.number).raw
        return [str(_keep(place, name, raw, raw))]
    if place.damage == "sound" and place.rng.random() < 0.2:  # now and then of a format that may not be read
        name_of_kind, raw = place.rng.choice(foreign_traces())
        place.is_job = name_of_kind.startswith("merged")
        return [str(_keep(place, name, raw, raw))]
    if place.rng.random() < (0.7 if place.command[-1] in OF_SERVING else 0.1):
        text = _of_engine(place)
        if place.damage == "once":
            text = damaged_once(text, place.rng)
            place.is_job = _rank_count(text) > 1
        return [str(_keep(place, name, text, text))]
    wanted = OF_RECORDED.get(place.command[-1], b"")
    text = place.rng.choice([raw for _, raw in seeds() if wanted in raw])
    if not wanted and place.rng.random() < 0.1:
        text = old_profilers_array(place.rng.randrange(9))
    if place.damage == "once":
        text = damaged_once(text, place.rng)
        place.is_job = _rank_count(text) > 1  # where rows of a merger are mixed in
    raw = pack(bytearray(text), place.rng) if place.rng.random() < 0.2 else text
    return [str(_keep(place, name, raw, text))]


def _of_engine(place: Place) -> bytes:
    """Return a recording of an inference engine: steps that replay the graphs of ``capture``."""
    names = place.rng.choices(STEPS_OF_ENGINES, k=place.rng.randrange(1, 5))
    steps = [(name, [program("dense", layers=1, batch=4)]) for name in names]
    return json.dumps(replayed(steps, vendor=place.rng.choice(("hip", "cuda"))).document()).encode()


def _rank_count(text: bytes) -> int:
    """Return how many ranks a file holds; 0 where it cannot be read."""
    try:
        return len(traces_of_bytes(Path("t.json"), FileBytes(text)))
    except hg.HtaGraphError:
        return 0


def job(place: Place, name: str = "job") -> list[str]:
    """Write the ranks of a job, and name their folder or the files, or merge them into one file."""
    number = place.rng.randrange(SOUND_JOBS)
    place.is_job = True
    if place.damage != "damaged" and place.rng.random() < 0.15:
        text = merged_job(number)
        return [str(_keep(place, name, damaged_once(text, place.rng) if place.damage == "once" else text, text))]
    ranks = list(damaged_job(place.number, place.seed) if place.damage == "damaged" else sound_ranks(number))
    if place.damage == "once":
        ranks[-1] = damaged_once(ranks[-1], place.rng)
    is_packed = place.damage != "damaged" and place.rng.random() < 0.2
    packing = [place.rng.choice(["", *sorted(PACKED)]) if is_packed else "" for _ in ranks]
    paths = [
        _keep(place, f"{name}/rank{at}", PACKED[how](text) if how else text, text)
        for at, (text, how) in enumerate(zip(ranks, packing, strict=True))
    ]
    if place.damage != "damaged" and place.rng.random() < 0.05:  # a copy, which is left out
        place.written(f"{name}/rank0.zip" if packing[0] == "" else f"{name}/all.zip", PACKED["zip"](ranks[0]))
    if place.rng.random() < 0.1:
        place.written(f"{name}/notes.json", b'{"schema": "1.1.0", "nodes": []}')
    return [str(place.inputs / name)] if place.rng.random() < 0.7 else [str(path) for path in paths]


def traces(place: Place) -> list[str]:
    """Write a trace or a job."""
    if place.damage == "damaged" and place.rng.random() < 0.02:
        return [str(place.inputs / "absent.json")]
    return job(place) if place.of_job else one_trace(place)


def one_input(place: Place) -> list[str]:
    """Write one of the inputs that are compared: each has a name of its own."""
    name = f"run{len(place.texts)}"
    return (job(place, name) if place.of_job else one_trace(place, name))[:1]


# --- other inputs -----------------------------------------------------------------------------------------------------


@cache
def _workload(number: int) -> dict[str, bytes]:
    """Return the files of a sound workload, by name."""
    with tempfile.TemporaryDirectory() as folder:
        for at, raw in enumerate(sound_ranks(number)):
            Path(folder, f"rank{at}.json").write_bytes(raw)
        ranks = [RankInput(graph.rank or 0, graph) for graph in hg.read_graphs(folder, jobs=1)]
        convert(ranks, Path(folder, "work"), ConvertOptions(unknown="as-compute", missing="as-compute"))
        return {path.name: path.read_bytes() for path in sorted(Path(folder, "work").iterdir())}


def workload_folder(place: Place) -> list[str]:
    """Write a workload, some files of it damaged or gone."""
    for name, raw in _workload(place.rng.randrange(6)).items():
        hurt = place.damage == "damaged" and place.rng.random() < 0.5
        if hurt and place.rng.random() < 0.1:
            continue
        place.written(f"work/{name}", place.hurt(raw) if hurt else raw)
    (place.inputs / "work").mkdir(parents=True, exist_ok=True)
    return [str(place.inputs / "work")]


def log(place: Place) -> list[str]:
    """Write a simulator's log."""
    ranks = [[Ran(at, 10 * at, 10 * at + place.rng.randrange(30)) for at in range(5)] for _ in range(2)]
    return [str(place.written("log.log", place.hurt(log_text(ranks).encode())))]


def device_trace(place: Place) -> list[str]:
    """Name the trace of which a host trace was made, or write one."""
    made = sorted(place.inputs.glob("t.*"))
    return [str(made[0])] if made else one_trace(place)


def host_trace(place: Place) -> list[str]:
    """Write host traces of the inputs, each named by its rank, or of a trace that is written for it."""
    if not place.texts:
        one_trace(place)
    made = sorted([*place.inputs.glob("t.*"), *place.inputs.glob("job/rank*")])
    found = []
    for at, path in enumerate(made):
        rank = at
        try:
            trace = hg.read_trace(path)
            document = host_of(hg.build_graph(trace)).document()
            rank = at if trace.rank is None else trace.rank
        except hg.HtaGraphError:
            document = {"schema": "1.1.1-chakra.0.0.4", "nodes": []}
        found.append(str(place.written(f"host_rank{rank}.json", place.hurt_document(document))))
    if not found:  # ranks in one file have no host traces of their own
        return [str(place.written("host_rank0.json", b'{"schema": "1.1.1-chakra.0.0.4", "nodes": []}'))]
    return found if place.command[-1] == "convert" else found[:1]


def flight(place: Place) -> list[str]:
    """Write flight-recorder dumps."""
    entries = [{**FLIGHT_ENTRY, "collective_seq_id": number} for number in range(3)]
    dump = {"version": "2.10", "pg_config": {}, "entries": entries}
    return [str(place.written(f"flight/rank{rank}.json", place.hurt_document(dump))) for rank in range(2)]


def capture(place: Place) -> list[str]:
    """Write the recording of a capture of graphs, which the engine's steps replay."""
    graphs = [(f"capture_{size}_FULL", program("dense", layers=1, batch=size)) for size in (8, 4)]
    vendor, warm_up = place.rng.choice((("hip", False), ("cuda", False), ("cuda", True)))
    made = captured(graphs, vendor=vendor, rank=place.rng.choice((0, None)), warm_up=warm_up)
    document = made.document()
    if place.damage == "damaged" and place.rng.random() < 0.5:
        return [str(place.written("captures/c.json", damaged_once(json.dumps(document).encode(), place.rng)))]
    return [str(place.written("captures/c.json", place.hurt_document(document)))]


def peaks(place: Place) -> list[str]:
    """Write what a device can do."""
    given = {"name": "x", "matrix_tflops": {"float": 20, "half": 300}, "memory_gb_per_s": 1555}
    return [str(place.written("peaks.json", place.hurt_document(given)))]


Giver = Callable[[Place], list[str]]


def gated(place: Place) -> list[str]:
    """Write a side of a gate: a trace, most with enough steps, or a baseline file, damaged now and then."""
    if place.rng.random() < 0.15:
        return one_input(place)
    text = place.rng.choice((gzip.decompress(ONE_RANK.read_bytes()), _baseline()))
    if place.damage != "sound" and place.rng.random() < 0.5:
        text = damaged_once(text, place.rng)
    return [str(_keep(place, f"run{len(place.texts)}", text, text))]


@cache
def _baseline() -> bytes:
    (graph,) = hg.read_graphs([ONE_RANK])
    return baseline_bytes([profile_of(graph)])


INPUTS: dict[str, Giver] = {
    "baseline": gated, "new": gated,
    "inputs": traces, "control": one_input, "test": one_input, "folder": workload_folder, "log": log,
}  # fmt: skip
"""What writes each argument that names an input."""
