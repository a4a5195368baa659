"""The shipped schemas: what commands write is what they say, down to the last key, and they say no more."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from analyses.cli.main import main
from analyses.questions.catalogue import CATALOGUE
from analyses.schemas import schema, schema_names, schema_text
from hta_graph.base.errors import UsageError
from hta_graph.chakra.astra_sim_executor import DELAY
from tests.generate import schemas
from tests.simulator import Dialect
from tests.simulator.ranks import Fault, JobShape, Recording, ddp, record_job, simulate_job
from tests.support.astra_log import Ran, log_text, write_workload
from tests.support.command_line import run_command
from tests.support.cuda_graph_replay import replayed_graph
from tests.support.deep_tests import deep, some_of
from tests.support.fixed_length_steps import recorded
from tests.support.incomplete_traces import (
    POOR_TRACES,
    broken_off,
    cpu_only,
    no_events,
    only_instants,
    saved_file,
    simulated_bytes,
)
from tests.support.job_pairs import DELAY_NS, job_of_steps
from tests.support.large_jobs import generated_job
from tests.support.samples import FOUR_RANKS, SAMPLES
from tests.support.shared_traces import SHARED, shared_traces
from tests.support.strict_schemas import described_places, schema_errors, schema_name, written_places
from tests.support.trace_builder import PID, TraceBuilder
from tests.support.two_rank_job import small_job

QUESTIONS = (
    "info",
    "graph",
    "sync-deps",
    "critical-path",
    "critical-path --whole",
    "critical-path --per-step",
    "critical-path --evidence cause:gpu_compute_bound",
    "critical-path --merge-runs",
    "what-if",
    "report",
    *(one.name for one in CATALOGUE if one.name != "kernel-sequences"),
    "kernel-sequences --operator aten::",
)
"""What can be asked of any trace."""
OF_STEPS = ("critical-path --near 0.2", "what-if --scale class:cpu_bound=0.5 --curve class:cpu_bound --near 0.2")
"""What needs a window with work on its path."""
OWNERS = ("frame", "module", "annotation", "module-class", "activity")
OF_MANY = ("critical-path", "critical-path --per-step", "what-if", "report", "collectives", "stragglers")
"""What skeletons answer."""

OTHERS = """
temporal-breakdown two --per-step
temporal-breakdown two_gpus.json.gz
critical-path odd.json --per-step
roofline job --peaks MI300X
roofline trace.json.gz --peaks MI300X
what-if job --scale kernel:gemm=0.5 --curve kernel:gemm
what-if trace.json.gz --remove kernel:gemm
what-if trace.json.gz --scenario cuda_graphs
what-if job --scenario rank_like_others=2
diff trace.json.gz slower.json.gz
diff trace.json.gz slower.json.gz --step 2
diff trace.json.gz slower.json.gz --whole
diff trace.json.gz amd.json
diff odd.json odd.json
diff control test
diff control test --skeletons always
diff left_out test
gate trace.json.gz slower.json.gz --per-phase
gate trace.json.gz amd.json
gate odd.json odd.json
gate control test
memory-timeline memory.raw.json.gz
memory-timeline earlier.json
critical-path replayed.json --whole
critical-path poor/broken.json --salvage
chakra convert two --output work
chakra check work
chakra check unsound
chakra simulate work
chakra statistics log --workload ran
chakra statistics log
"""
"""What only some traces, or other files, can answer."""

RAN = [
    Ran(1, 0, 20, "aten::mm", on_cpu=True),
    Ran(2, 10, 40, "gemm"),
    Ran(3, 30, 70, "all-reduce", "COMM_COLL_NODE"),
    Ran(4, 40, 50, DELAY),
]
"""A rank's nodes; nobody says what the collective does, so that ASTRA-sim would not run it."""
RAW_MEMORY = [[-1, 1, 100, 0], [50, 2, 5, 4], [60, 3, -5, 4]]


def written_inputs(folder: Path, *, large: bool = True) -> Path:
    """Write the traces and other files into a folder, and return that; without the large ones, if not asked for."""
    _write_bundled(folder)
    if large:
        generated_job(folder / "mesh", mesh="3d")
        job_of_steps(folder / "control", 1)
        job_of_steps(folder / "test", 3, DELAY_NS)
        late = [Fault(rank, step, "forward", rank * DELAY_NS) for rank in (1, 3) for step in range(6)]
        record_job(simulate_job(ddp(JobShape(ranks=4, steps=6, seed=3, faults=late))), Recording(), folder / "late")
    for name in ("two", "left_out", "poor", "log"):
        (folder / name).mkdir()
    small_job(folder / "two")
    shutil.copytree(folder / "job", folder / "left_out", dirs_exist_ok=True)
    (folder / "left_out" / "rank_1.json.gz").write_bytes(b"broken")
    for make in (cpu_only, only_instants, no_events, broken_off):
        make(folder / "poor")
    saved_file(folder / "amd.json", simulated_bytes(Dialect(vendor="rocm")))
    _trace_with_older_memory().write(folder / "earlier.json")
    recorded(folder / "odd.json", [100, 100, 900, 100, 100])
    replayed_graph([400.0] * 6).write(folder / "replayed.json")
    saved_file(folder / "memory.raw.json.gz", gzip.compress(json.dumps(RAW_MEMORY).encode()))
    for name in ("ran", "unsound"):
        write_workload(folder / name, [RAN])
    (folder / "log" / "log.log").write_text(log_text([RAN]), encoding="utf-8")
    return folder


def _write_bundled(folder: Path) -> None:
    with as_file(files("analyses") / "sample") as sample:
        shutil.copyfile(sample / "sample_trace.json.gz", folder / "trace.json.gz")
        shutil.copyfile(sample / "slower_trace.json.gz", folder / "slower.json.gz")
        shutil.copyfile(sample / "two_gpus.json.gz", folder / "two_gpus.json.gz")
        shutil.copytree(sample / "four_ranks", folder / "job")


def _trace_with_older_memory() -> TraceBuilder:
    """One allocation of 10 bytes, after which 100 are allocated: nobody saw where the others came from."""
    trace = TraceBuilder()
    known = {"Bytes": 10, "Addr": 1, "Device Type": 1, "Device Id": 0, "Total Allocated": 100, "Total Reserved": 512}
    trace.row(ph="i", s="t", cat="cpu_instant_event", name="[memory]", pid=PID, tid=1, ts=3, args=known)
    return trace


def asked_of(trace: str | Path, *, steps: bool = False) -> Iterator[list[str]]:
    """Yield the command lines that ask everything of a trace or a folder of them."""
    owners = [f"attribution --by {owner}" for owner in OWNERS]
    for words in (*QUESTIONS, *(OF_STEPS if steps else ()), *owners):
        command, *options = words.split()
        yield [command, str(trace), *options]


def every_command_line() -> Iterator[list[str]]:
    """Yield all command lines, which name files of :func:`written_inputs`."""
    for name in ("trace.json.gz", "job"):
        yield from asked_of(name, steps=True)
    for name in ("two", "left_out", "poor/cpu.json", "poor/instants.json", "poor/empty.json"):
        yield from asked_of(name)
    for words in OF_MANY:
        command, *options = words.split()
        yield from ([command, job, *options, "--skeletons", "always"] for job in ("mesh", "left_out"))
    of_jobs = ("critical-path", "what-if", "report", "stragglers", "collectives")
    yield from ([command, job] for command in of_jobs for job in ("mesh", "late"))
    yield from ([command, "late", "late"] for command in ("diff", "gate"))
    yield from (line.split() for line in OTHERS.strip().splitlines())


ROOT = Path(__file__).parents[3]
WITHOUT_JSON = "chakra-et"
"""A schema of the metadata in .et files, which are no JSON."""
BY_KIND = re.compile(r"(\.kinds|\.edges|diagnostics|building|reading)\.")
"""Keys that are all members of a list of the model: no trace has something of each."""
BY_CAPTURE = re.compile(r"operator_evidence$|^segments\[\]\.(module|operator)$")
OF_KINDS = re.compile(r"phase|first_step|last_step|^environment\[\]")
OF_ENGINE = re.compile(r"steps\.?(control|test)?\[\]\.(phase|requests|tokens)$")
"""Keys of the steps of inference engines."""
every_name = pytest.mark.parametrize("name", schema_names())

Written = tuple[list[str], dict[str, Any]]
"""A command line and the document that it wrote."""


def written_by(command_lines: Iterable[list[str]], folder: Path) -> Iterator[Written]:
    """Run command lines with ``--json``; those that cannot answer write nothing."""
    target = folder / "written.json"
    for words in command_lines:
        target.unlink(missing_ok=True)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            status = main([*words, "--json", str(target)])
        assert status in (0, 1, 3), said.getvalue()
        if target.exists():
            yield words, json.loads(target.read_bytes())


def check_all(written: Iterable[Written]) -> int:
    """Check documents against their schemas; return how many there are."""
    count = 0
    for words, document in written:
        assert schema_errors(document) == [], " ".join(words)
        count += 1
    return count


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Written]]:
    """Write every document there is."""
    folder = tmp_path_factory.mktemp("documents")
    written_inputs(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        found = list(written_by(every_command_line(), folder))
        for at, name in enumerate(("trace.json.gz", "job", "poor/broken.json")):
            assert main(["graph", name, "--salvage", "--parquet", f"saved{at}"]) == 0
            found.append((["graph", name, "--parquet"], json.loads(Path(f"saved{at}/graph.json").read_bytes())))
        runs = [str(SAMPLES / name) for name in ("sample_trace.json.gz", "slower_trace.json.gz")]
        for words in (["gate", *runs], ["gate", runs[0], *runs], ["gate", *runs, "--per-phase"]):
            found += written_by([words], folder)
        assert main(["gate", *runs[:1] * 2, "--update", "baseline.json", "--with-hosts"]) == 0
        found.append((["gate", "--update"], json.loads(Path("baseline.json").read_bytes())))
        names = json.loads(Path("work/group_names.json").read_bytes())
        yield [*found, (["chakra", "convert", "group_names.json"], names)]


@pytest.mark.parametrize("every", [9, deep(1)])
def test_each_commands_first_document_is_what_its_schema_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    monkeypatch.chdir(written_inputs(tmp_path, large=False))
    of_small = [words for words in every_command_line() if words[1] in ("two", "left_out") or words[0] == "chakra"]
    first = {tuple(words[: 1 + (words[0] == "chakra")]): words for words in reversed(of_small)}
    assert check_all(written_by(list(first.values())[::every], tmp_path)) > 20 // every


@pytest.mark.slow
def test_every_document_is_what_its_schema_says(written: list[Written]) -> None:
    assert check_all(written) > 200
    assert {schema_name(document) for _, document in written} == set(schema_names())


@pytest.mark.slow
def test_schemas_describe_nothing_that_is_never_written(written: list[Written]) -> None:
    seen: dict[str, set[str]] = {name: set() for name in schema_names()}
    for _, document in written:
        seen[schema_name(document)] |= written_places(document)
    missing = {
        name: {place for place in described_places(name) - seen[name] if not BY_KIND.search(place)} for name in seen
    }
    # Labels of edges are there with rules of one's own only, times of the host where a GPU's clock is off; parts of
    # all-to-alls where they are recorded, and the sample's late rank is late in every step, firmly.
    rare = {
        "tables.collectives[].imbalance",
        *(f"{verdict}.{key}" for verdict in ("job_verdict", "control_job_verdict") for key in ("since_step", "reason")),
        "unread",
        # Levels are in runs whose steps change on the way; not every header says who recorded it.
        *(place for place in missing["diff"] if "earlier_levels[]" in place or "since_step." in place),
        # What noise may hide has tests of its own.
        *(place for place in missing["diff"] if place.endswith("cannot_tell")),
        # Steps of engines have tests of their own.
        *missing["serving"],
        *(place for places in missing.values() for place in places if OF_ENGINE.search(place)),
        *(place for place in missing["info"] if place.endswith("[].recorder")),
        # Names by capture, and gates of jobs, of kinds of steps and of levels inside a run, have tests of their own.
        *(place for places in missing.values() for place in places if BY_CAPTURE.search(place)),
        *(place for place in missing["gate"] if OF_KINDS.search(place)),
        *(place for place in missing["baseline"] if re.search(r"contents|more$|causes|groups|ranks", place)),
        "edges[].rule",
        "custom_rules",
        "events[].host_start_ns",
        "events[].host_end_ns",
        "gpu_clock[].rank",
        # Events of jobs have a rank; a saving that is sure, and what is beyond noise, have no reason.
        *missing["critical-path-evidence"],
        "judgement[].reason",
    }
    # Why a prediction cannot be trusted is null here.
    never = {name: places - rare - {"reason"} for name, places in missing.items()}
    assert {name: sorted(places) for name, places in never.items() if places} == {}


@pytest.mark.slow
def test_every_document_says_which_files_are_left_out(written: list[Written]) -> None:
    of_broken = [(words, document) for words, document in written if "left_out" in words]
    assert len(of_broken) > 30
    for words, document in of_broken:
        (line,) = document["unread"]
        assert line.startswith("left_out/rank_1.json.gz: "), words
    assert not any("unread" in document for words, document in written if "left_out" not in words)


@pytest.mark.slow
@pytest.mark.parametrize("make", POOR_TRACES, ids=lambda make: make.__name__)
def test_documents_about_poor_traces_are_what_their_schemas_say(make: Any, tmp_path: Path) -> None:
    (given,) = make(tmp_path)
    salvaged = ([*words, "--salvage"] for words in asked_of(given, steps=True))
    assert check_all(written_by(salvaged, tmp_path)) > 10


@pytest.mark.shared
@pytest.mark.parametrize(
    "path", [deep(path) for path in shared_traces()], ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_documents_about_real_traces_are_what_their_schemas_say(path: Path, tmp_path: Path) -> None:
    assert check_all(written_by(some_of(list(asked_of(path, steps=True))), tmp_path))


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("name", ["ddp_2r_slowfwd_1", "pipeline_2r_slowfwd_1", "groups_2r_base_1"])
def test_documents_about_real_jobs_are_what_their_schemas_say(name: str, tmp_path: Path) -> None:
    assert check_all(written_by(some_of(list(asked_of(SHARED / "gloo" / name, steps=True))), tmp_path))


# -- the files ---------------------------------------------------------------------------------------------------------


def test_the_files_are_made_of_what_is_declared_now() -> None:
    made = schemas.every_schema()
    assert schema_names() == sorted(made)
    for name, found in made.items():
        assert schema_text(name) == schemas.schema_text(found), "python -m tests.generate writes them anew"


@cache
def parts_of(name: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return all schemas inside one, with where they stand."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    waiting: list[tuple[str, Any]] = [("", schema(name))]
    while waiting:
        at, part = waiting.pop()
        found.append((at, part))
        waiting += [
            (f"{at}/{key}", item) for key, item in {**part.get("properties", {}), **part.get("$defs", {})}.items()
        ]
        waiting += [
            (f"{at}[]", part[key]) for key in ("items", "additionalProperties") if isinstance(part.get(key), dict)
        ]
    return found


@pytest.mark.sampled(9)
@every_name
def test_a_schema_is_one_and_names_itself(name: str) -> None:
    found = schema(name)
    Draft202012Validator.check_schema(found)
    assert (found["$id"], found["title"]) == (f"urn:hta-graph:{name}:1", f"hta-graph/{name}/1")
    assert found["properties"]["schema"]["const"] == f"hta-graph/{name}/1"


@every_name
def test_every_property_has_a_sentence_and_times_say_their_unit(name: str) -> None:
    for at, part in parts_of(name):
        says = part.get("description", "")
        assert says or "$ref" in part, at
        key = at.rpartition("/")[2].removesuffix("[]")
        for ending, unit in (
            ("_ns", "(ns)"),
            ("_share", "(a fraction of one)"),
            ("_bytes", "(bytes)"),
            ("_gbps", "(GB/s"),
        ):
            if key.endswith(ending) and part["type"] not in ("object", "array") and key != "without_bytes":
                assert unit in says, at


@every_name
def test_readers_may_meet_keys_that_are_not_described(name: str) -> None:
    assert not any(part.get("additionalProperties") is False for _, part in parts_of(name))


def test_a_key_that_no_schema_describes_is_noticed(tmp_path: Path) -> None:
    asked = ["critical-path", str(FOUR_RANKS)]
    ((_, document),) = written_by([asked], tmp_path)
    assert schema_errors({**document, "new": 1}) == [": Additional properties are not allowed ('new' was unexpected)"]
    segments = [{**document["segments"][0], "start_ns": 1.0}]
    assert schema_errors({**document, "segments": segments}) == ["segments/0/start_ns: 1.0 is not of type 'integer'"]


@pytest.mark.sources
def test_every_schema_that_the_code_names_has_a_file() -> None:
    sources = [
        path.read_text(encoding="utf-8") for room in ("hta_graph", "analyses") for path in (ROOT / room).rglob("*.py")
    ]
    named = {name for text in sources for name in re.findall(r"hta-graph/([a-z-]+)/1", text)} - {WITHOUT_JSON}
    assert named <= set(schema_names())


# -- for users ---------------------------------------------------------------------------------------------------------


def test_the_command_lists_schemas_and_prints_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(capsys, "schema") == (0, "\n".join(schema_names()) + "\n", "")
    assert run_command(capsys, "schema", "critical-path") == (0, schema_text("critical-path"), "")


def test_an_unknown_schema_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run_command(capsys, "schema", "path")
    assert (status, out) == (2, "")
    assert err.startswith("hta-graph: there is no schema 'path'; available: annotations, ")
    with pytest.raises(UsageError, match=re.escape("no schema '../schemas/info'")):
        schema("../schemas/info")
