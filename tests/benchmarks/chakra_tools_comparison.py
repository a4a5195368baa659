"""Link and convert beside public tools: ``python -m tests.benchmarks.chakra_tools_comparison --chakra-python PYTHON``.

PYTHON belongs to an environment with ``mlc-chakra``, ``traceinsight``, ``pandas<3`` and ``et_replay`` (which is not on
PyPI; ``parambench-train`` has a copy in ``param_bench``). Measured are whole processes: wall time and peak memory. A
dependency is an entry of ``sync_dep`` in linked JSON, and an edge from a GPU to a CPU node in a converted file; it is
backwards if its source starts after its target. A benchmark reports, it does not gate.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from hta_graph.trace.decompress import read_bytes
from tests.benchmarks.generated_host_trace import pair
from tests.benchmarks.repeat_trace import repeated
from tests.support.shared_traces import SHARED

SETS = ("execution_trace_sample", "megatron_tp2_v100", "dlrm_8xv100")
MADE = ("sync_alexnet_a100", "sync_simple_add", "nccl_args_a100")
LIMIT_S = 600
OURS = (sys.executable, "-m", "analyses.cli.main")

MEASURE = """
import os, signal, sys, time
begin = time.perf_counter()
child = os.fork()
if not child:
    signal.alarm(int(sys.argv[2]))
    os.execvp(sys.argv[3], sys.argv[3:])
_, status, usage = os.wait4(child, 0)
with open(sys.argv[1], "w") as figures:
    print(time.perf_counter() - begin, usage.ru_maxrss, os.waitstatus_to_exitcode(status), file=figures)
"""
"""A small process of its own: a child's peak memory counts that of the process that forked it."""

COUNT_EDGES = """
import json, sys
from chakra.schema.protobuf.et_def_pb2 import GlobalMetadata, Node
nodes = {}
for path in sys.argv[1:]:
    raw, at, first = open(path, "rb").read(), 0, True
    while at < len(raw):
        size = shift = 0
        while True:
            byte = raw[at]; at += 1
            size |= (byte & 127) << shift; shift += 7
            if byte < 128: break
        if not first:
            node = Node(); node.ParseFromString(raw[at:at + size])
            nodes[path, node.id] = node
        at, first = at + size, False
cpu = {key: any(a.name == "is_cpu_op" and a.bool_val for a in node.attr) for key, node in nodes.items()}
edges = [((key[0], dep), key) for key, node in nodes.items() for dep in {*node.data_deps, *node.ctrl_deps}]
print(json.dumps({
    "nodes": len(nodes),
    "gpu_to_cpu": sum(s in nodes and not cpu[s] and cpu[t] for s, t in edges),
    "gpu_to_gpu": sum(s in nodes and not cpu[s] and not cpu[t] for s, t in edges),
    "dangling": sum(s not in nodes for s, t in edges),
}))
"""
"""Run by PYTHON on converted files: it reads them with the schema that mlc-chakra installs."""


@dataclass(frozen=True)
class Pair:
    """One rank's host and device trace."""

    name: str
    rank: int
    host: Path
    device: Path


@dataclass(frozen=True)
class Outcome:
    """A process: how long it took, its peak memory, and the last line of its errors if it failed."""

    seconds: float
    megabytes: float
    error: str


def run(command: Sequence[str | Path], folder: Path) -> Outcome:
    """Run a process and measure it."""
    with tempfile.NamedTemporaryFile("r+", encoding="utf-8") as figures, tempfile.TemporaryFile() as log:
        arguments = [sys.executable, "-IS", "-c", MEASURE, figures.name, str(LIMIT_S), *map(str, command)]
        subprocess.run(arguments, cwd=folder, stdout=subprocess.DEVNULL, stderr=log, check=True)
        seconds, kilobytes, status = (float(figure) for figure in figures.read().split())
        log.seek(0)
        lines = log.read().decode("utf-8", "replace").strip().splitlines() or [f"exit status {status:.0f}"]
    return Outcome(seconds, kilobytes / 1024, lines[-1] if status else "")


def real_pairs(work: Path) -> Iterator[Pair]:
    """Yield the shared traces with a recorded host trace, unpacked, each rank in a folder of its own."""
    for name in SETS:
        for host in sorted((SHARED / "traces" / name).glob("host_et_rank*.json.gz")):
            rank = int(re.findall(r"rank(\d+)", host.name)[0])
            folder = _folder(work, f"{name}-{rank}")
            device = host.with_name(f"kineto_rank{rank}.json.gz")
            for source, target in ((host, "host.json"), (device, f"device_rank{rank}.json")):
                (folder / target).write_bytes(read_bytes(source).data)
            yield Pair(name, rank, folder / "host.json", folder / f"device_rank{rank}.json")


def made_pairs(work: Path, times: int) -> Iterator[Pair]:
    """Yield shared traces without a host trace, beside one made of the same operators; the last one also repeated."""
    for name in MADE:
        yield _made(work, name, SHARED / "traces" / name / "rank0.json.gz")
    if times > 1:
        large = work / "large.json"
        with large.open("wb") as file:
            file.writelines(
                repeated(orjson.loads(read_bytes(SHARED / "traces" / MADE[-1] / "rank0.json.gz").data), times)
            )
        yield _made(work, f"{MADE[-1]} ×{times}", large)


def _made(work: Path, name: str, kineto: Path) -> Pair:
    folder = _folder(work, name.replace(" ×", "-x"))
    made = Pair(f"{name} (made host)", 0, folder / "host.json", folder / "device_rank0.json")
    pair(kineto, made.host, made.device)
    return made


def _folder(work: Path, name: str) -> Path:
    folder = work / name
    folder.mkdir()
    return folder


def link(tool: str, item: Pair, scripts: Path) -> tuple[Outcome, Path]:
    """Link one rank with the public linker or with ours."""
    output = item.host.parent / f"linked_{tool}_rank{item.rank}.json"
    if tool == "public":
        command: list[str | Path] = [
            scripts / "chakra_trace_link", "--rank", str(item.rank), "--chakra-host-trace", item.host,
            "--chakra-device-trace", item.device, "--output-file", output,
        ]  # fmt: skip
    else:
        command = [
            *OURS, "chakra", "link", "--host-trace", item.host, "--device-trace", item.device, "--rank", str(item.rank),
            "--output", output,
        ]  # fmt: skip
    return run(command, Path.cwd() if tool == "ours" else item.host.parent), output


def linked_figures(path: Path) -> list[str]:
    """Count GPU nodes, synchronisation dependencies and backward ones in linked JSON."""
    nodes = {node["id"]: node for node in orjson.loads(path.read_bytes())["nodes"]}
    pairs = [
        (nodes[source], node) for node in nodes.values() for source in node.get("sync_dep") or () if source in nodes
    ]
    backwards = sum("ts" in node and "ts" in source and source["ts"] > node["ts"] for source, node in pairs)
    return [str(sum("cat" in node for node in nodes.values())), str(len(pairs)), str(backwards)]


def sync_deps(item: Pair) -> tuple[Outcome, list[str]]:
    """List one rank's dependencies with ``sync-deps``; those without a next operator count, but go nowhere."""
    output = item.host.parent / "sync_deps.json"
    done = run([*OURS, "sync-deps", item.device, "--json", output], Path.cwd())
    if done.error:
        return done, ["-", "-", "-", "-"]
    starts = [row.get("ts") for row in orjson.loads(item.device.read_bytes())["traceEvents"]]
    found = orjson.loads(output.read_bytes())
    ends = [(entry["source_index"], entry["target_index"]) for entry in found["dependencies"]]
    backwards = sum(target is not None and starts[source] > starts[target] for source, target in ends)
    return done, ["-", str(len(ends)), str(backwards), str(len(found["gpu_dependencies"]))]


def convert(tool: str, linked: list[Path], scripts: Path) -> tuple[Outcome, list[Path]]:
    """Convert the linked files of a set: ours all ranks at once, the public converter one after the other."""
    folder = linked[0].parent
    if tool == "ours":
        done = run(
            [*OURS, "chakra", "convert", *linked, "--missing-ranks", "copy", "--output", folder / "et"], Path.cwd()
        )
        return done, sorted((folder / "et").glob("*.et"))
    parts, files = [], []
    for path in linked:
        files.append(path.with_suffix(".et"))
        inner: list[str | Path] = ["PyTorch", "--input", path, "--output", files[-1]]
        parts.append(run([scripts / "chakra_converter", "--log-filename", os.devnull, *inner], folder))
    errors = [part.error for part in parts if part.error]
    done = Outcome(sum(part.seconds for part in parts), max(part.megabytes for part in parts), "".join(errors[:1]))
    return done, files


def converted_figures(files: Iterable[Path], python: str) -> list[str]:
    """Count nodes, GPU→CPU and GPU→GPU edges, and dependencies on absent nodes, in converted files."""
    command = [python, "-c", COUNT_EDGES, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return ["-", "-", "-", "-"]
    return [str(value) for value in orjson.loads(done.stdout).values()]


def table(pairs: Iterable[Pair], python: str) -> Iterator[list[str]]:
    """Yield per trace what each tool links and what ``sync-deps`` lists, then per set what each tool converts."""
    scripts = Path(python).parent
    linked: dict[tuple[str, str], list[Path]] = {}
    for item in pairs:
        for tool in ("public", "ours"):
            done, output = link(tool, item, scripts)
            figures = linked_figures(output) if output.exists() and not done.error else ["-", "-", "-"]
            linked.setdefault((item.name, tool), []).extend([output] if output.exists() else [])
            yield ["link", f"{item.name} {item.rank}", tool, *_measured(done), *figures, "", "", done.error]
        done, figures = sync_deps(item)
        yield ["deps", f"{item.name} {item.rank}", "ours", *_measured(done), *figures, "", done.error]
    for (name, tool), files in linked.items():
        if files:
            done, written = convert(tool, files, scripts)
            nodes, to_cpu, to_gpu, dangling = ["-"] * 4 if done.error else converted_figures(written, python)
            figures = [nodes, to_cpu, "", to_gpu, dangling]
            yield ["convert", f"{name} ({len(files)} of a set)", tool, *_measured(done), *figures, done.error]


def _measured(done: Outcome) -> list[str]:
    return [f"{done.seconds:.2f}", f"{done.megabytes:.0f}"]


HEAD = ["", "trace", "tool", "s", "MB", "nodes", "GPU→CPU", "backwards", "GPU→GPU", "dangling", "error"]
FORMAT = "{:<8} {:<38} {:<7} {:>7} {:>6} {:>7} {:>8} {:>9} {:>8} {:>9}  {:.90}"


def main() -> None:
    """Print the table; nodes are GPU nodes where linked, all nodes where converted."""
    parser = argparse.ArgumentParser(description="Link and convert beside the public tool chain.")
    parser.add_argument("--chakra-python", required=True, metavar="PYTHON")
    parser.add_argument(
        "--times", type=int, default=8, metavar="N", help="repeat the largest trace N times as well (8)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        pairs = [*real_pairs(work), *made_pairs(work, options.times)]
        sys.stdout.write(FORMAT.format(*HEAD) + "\n")
        for row in table(pairs, str(Path(options.chakra_python).absolute())):
            sys.stdout.write(FORMAT.format(*row) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
