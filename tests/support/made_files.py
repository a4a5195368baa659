"""Files of formats that people pass by mistake or for want of another, made as their specifications say.

Each is one function from a trace's text to bytes; some hold the trace, others only begin as such a file does.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import sqlite3
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import zstandard

Row = dict[str, Any]


def tar(members: Sequence[tuple[str, bytes]], form: int = tarfile.PAX_FORMAT) -> bytes:
    """Pack members into a tar archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zipped(members: Sequence[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Pack members into a zip archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return out.getvalue()


def database(*statements: str) -> bytes:
    """Make an SQLite database."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.sqlite"
        made = sqlite3.connect(path)
        for statement in statements:
            made.execute(statement)
        made.commit()
        made.close()
        return path.read_bytes()


LONG = "a/very/long/folder/of/a/run/that/somebody/named/after/all/of/its/settings/and/its/date/" * 2
SNAPSHOT = {"segments": [{"device": 0, "address": 1, "total_size": 2, "blocks": []}], "device_traces": [[]]}

PACKED: dict[str, Any] = {
    "gzip in gzip": lambda text: gzip.compress(gzip.compress(text)),
    "gzip three times": lambda text: gzip.compress(gzip.compress(gzip.compress(text))),
    "gzip in zstd": lambda text: zstandard.compress(gzip.compress(text)),
    "zstd in gzip": lambda text: gzip.compress(zstandard.compress(text)),
    "tar": lambda text: tar([("rank0.json", text)]),
    "tar with a long name": lambda text: tar([(f"{LONG}rank0.json", text)]),
    "old tar": lambda text: tar([(f"{LONG}rank0.json", text)], tarfile.GNU_FORMAT),
    "tar.gz beside a note": lambda text: gzip.compress(tar([("README", b"how it was run"), ("t/rank0.json", text)])),
    "tar of a gzip": lambda text: tar([("./", b""), ("rank0.json.gz", gzip.compress(text))]),
    "tar.zst": lambda text: zstandard.compress(tar([("rank0.json", text), ("notes.txt", b"")])),
    "zip": lambda text: zipped([("rank0.json", text)]),
    "zip without compression": lambda text: zipped([("rank0.json", text)], zipfile.ZIP_STORED),
    "zip of a Mac": lambda text: zipped([
        ("run/", b""), ("run/rank0.json.gz", gzip.compress(text)), ("__MACOSX/run/._rank0.json.gz", b"{}"),
        ("run/.DS_Store", b"{}"),
    ]),
    "zip of a tar.gz": lambda text: zipped([("rank0.tar.gz", gzip.compress(tar([("rank0.json", text)])))]),
}  # fmt: skip
"""Files in which the trace is simply read."""

REFUSED: dict[str, tuple[str, Any, str]] = {
    "zip of two ranks": (
        "t.zip", lambda text: zipped([("rank0.json", text), ("rank1.json", text)]),
        "is a zip archive of several traces; unpack it and pass the folder",
    ),
    "tar of two ranks": (
        "t.tar.gz", lambda text: gzip.compress(tar([("rank0.json", text), ("rank1.json.gz", gzip.compress(text))])),
        "is a tar archive of several traces; unpack it and pass the folder",
    ),
    "zip that leads out": (
        "t.zip", lambda text: zipped([("../../home/rank0.json", text)]),
        "is an archive with a name that leads out of it: '../../home/rank0.json'; do not unpack it",
    ),
    "tar that leads out": (
        "t.tar", lambda text: tar([("/etc/rank0.json", text)]),
        "is an archive with a name that leads out of it: '/etc/rank0.json'; do not unpack it",
    ),
    "zip of notes": ("t.zip", lambda _: zipped([("a.txt", b"x"), ("b.csv", b"y")]), "is a zip archive without a trace"),
    "zip by bzip2": (
        "t.zip", lambda text: zipped([("a.json", text)], zipfile.ZIP_BZIP2),
        "is a zip archive that is not packed by deflate; unpack it",
    ),
    "truncated zip": ("t.zip", lambda text: zipped([("a.json", text)])[:-60], "is a truncated zip archive"),
    "truncated tar": ("t.tar", lambda text: tar([("a.json", text)])[:700], "is a truncated tar archive"),
    "torch.save": (
        "model.pt", lambda _: zipped([("model/data.pkl", b"\x80\x02}q\x00."), ("model/version", b"3")]),
        "is a file of torch.save, which can run code when it is read",
    ),
    "gzip seven times": (
        "t.json.gz", lambda text: gzip.compress(PACKED["gzip three times"](PACKED["gzip three times"](text))),
        "is packed more than",
    ),
    "xz": ("t.json.xz", lzma.compress, "is an xz file; unpack it"),
    "bzip2": ("t.json.bz2", bz2.compress, "is a bzip2 file; unpack it"),
    "7-Zip": ("t.7z", lambda _: b"7z\xbc\xaf\x27\x1c\0\4" + bytes(60), "is a 7-Zip archive; unpack it"),
    "SQLite": (
        "r.sqlite", lambda _: database("CREATE TABLE notes (a INT)"),
        "is an SQLite database, but no export of Nsight Systems",
    ),
    "Nsight's export without rows": (
        "r.sqlite",
        lambda _: database("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (a INT)", "CREATE TABLE StringIds (a INT)"),
        "is an Nsight Systems export without rows",
    ),
    "rocprofiler's database": (
        "r.db", lambda _: database("CREATE TABLE rocpd_kernel_dispatch (a INT)"), "is a rocprofiler database (rocpd)",
    ),
    "packed SQLite": (
        "r.sqlite.gz", lambda _: gzip.compress(database("CREATE TABLE notes (a INT)")), "is an SQLite database",
    ),
    "memory snapshot": (
        "snapshot.pickle", lambda _: pickle.dumps(SNAPSHOT), "is a pickle of PyTorch's memory snapshot, which can run",
    ),
    "memory snapshot of protocol 2": (
        "s.pickle", lambda _: pickle.dumps(SNAPSHOT, 2), "is a pickle of PyTorch's memory snapshot",
    ),
    "pickle": ("x.pkl", lambda _: pickle.dumps([1, 2]), "is a pickle, which can run code when it is read"),
    "Git LFS pointer": (
        "rank0.json.gz",
        lambda _: b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 3058875\n",
        "is a Git LFS pointer, not the file that it stands for; fetch the file: git lfs pull",
    ),
    "web page": (
        "rank0.json", lambda _: b"\n<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>",
        "is a web page (HTML); download the file itself",
    ),
    "packed web page": ("rank0.json.gz", lambda _: gzip.compress(b"<html><body>404</body></html>"), "is a web page"),
    "store's error": (
        "rank0.json", lambda _: b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>AccessDenied</Code></Error>',
        "is XML, such as a store's error message",
    ),
    "UTF-16": (
        "t.json", lambda text: text.decode().encode("utf-16"),
        "is UTF-16 text; convert it to UTF-8: iconv -f UTF-16 -t UTF-8",
    ),
    "UTF-16 without a mark": ("t.json", lambda text: text.decode().encode("utf-16-le"), "is UTF-16 text"),
    "UTF-16 of the other order": ("t.json", lambda text: text.decode().encode("utf-16-be"), "is UTF-16 text"),
    "Perfetto's trace": (
        "t.pftrace", lambda _: b"\x0a\x2b\x50\x01\x6a\x00\x0a\x1c\x18\xe7\x07\x40\xc0\x84\x3d" + bytes(range(40)),
        "is a protobuf trace, such as Perfetto's (.pftrace)",
    ),
    "XPlane": (
        "host.xplane.pb", lambda _: b"\x0a\xb4\x05\x08\x01\x12\x0d/device:GPU:0\x1a\x10" + bytes(40),
        "is an XPlane profile of TensorFlow or JAX (protobuf)",
    ),
    "XPlane of a host": ("h.xplane.pb", lambda _: b"\x0a\x20\x12\x09/host:CPU\x1a\x10" + bytes(40), "is an XPlane"),
    "Nsight's report": (
        "report.nsys-rep", lambda _: b"\x01\x02\x03\x04" + bytes(200),
        "is a report of Nsight Systems; export it: nsys export --type sqlite",
    ),
    "Nsight Compute's report": ("a.ncu-rep", lambda _: b"NVR\0" + bytes(60), "is an Nsight Compute report"),
    "Parquet": ("t.parquet", lambda _: b"PAR1" + bytes(60) + b"PAR1", "is a Parquet file"),
    "picture": ("t.png", lambda _: b"\x89PNG\r\n\x1a\n" + bytes(60), "is a picture"),
}  # fmt: skip
"""Files that are refused: a usual name, how they are made, and what the line must say."""


def chrome(rows: Sequence[Row], **header: Any) -> bytes:
    """Write a Chrome trace."""
    return json.dumps({"traceEvents": list(rows), **header}).encode()


def _named(pid: Any, name: str) -> Row:
    return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}


def _bar(name: str, pid: Any = 1, tid: Any = 1, **more: Any) -> Row:
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": 10.0, "dur": 5.0, **more}


WRITTEN_BY_OTHERS: dict[str, tuple[bytes, str]] = {
    "JAX": (
        chrome([_named(1, "/device:GPU:0"), _bar("fusion", args={"hlo_op": "fusion.1"})], displayTimeUnit="ns"),
        "it looks like JAX or XLA",
    ),
    "TensorFlow": (
        chrome([_named(1, "/job:localhost/replica:0/task:0/device:GPU:0 Compute"), _bar("MatMul", cat="Op")]),
        "it looks like TensorFlow's timeline",
    ),
    "nsys2json": (
        json.dumps([_bar("cudaLaunchKernel_v7000", cat="cuda_api", pid="Host 0", tid="CUDA API 42")]).encode(),
        "it looks like nsys2json (Nsight Systems), which leaves out copies and the call that launched each kernel",
    ),
    "nsys2json, kernels and ranges": (
        json.dumps([
            _bar("gemm", cat="cuda", pid="Device 0", tid="Stream 7", args={}),
            _bar("step", cat="nvtx", pid="Device 0", tid="NVTX Thread 42", args={}),
        ]).encode(),
        "it looks like nsys2json",
    ),
    "rocprof": (
        chrome([_named(2, "CPU HIP API"), _bar("hipMalloc", pid=2, args={"BeginNs": "1000", "EndNs": "6000"})]),
        "it looks like rocprof",
    ),
    "VizTracer": (
        chrome([_bar("main (/a.py:1)", cat="FEE")], viztracer_metadata={"version": "0.16"}),
        "it looks like VizTracer",
    ),
    "torch.compile": (
        json.dumps([
            {"ph": "B", "name": "backend_compile", "cat": "dynamo_timed", "pid": 0, "tid": 0, "ts": 1.0},
            {"ph": "E", "name": "backend_compile", "cat": "dynamo_timed", "pid": 0, "tid": 0, "ts": 9.0},
        ]).encode(),
        "it looks like torch.compile",
    ),
    "ONNX Runtime": (
        json.dumps([
            _bar("model_run", cat="Session"), _bar("gemm", cat="Kernel", args={"provider": "CUDAExecutionProvider"}),
        ]).encode(),
        "it looks like ONNX Runtime",
    ),
    "Horovod": (
        json.dumps([{"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "pid": 1, "ts": 1}, {"ph": "E", "pid": 1, "ts": 5}])
        .encode(),
        "it looks like Horovod's timeline",
    ),
    "NCCL's plugin": (
        json.dumps([
            {"name": "AllReduce", "cat": cat, "ph": ph, "id": 0, "pid": 1, "tid": 1, "ts": 1.5}
            for cat in ("GROUP_API", "COLL_API") for ph in "be"
        ] + [{}]).encode(),
        "it looks like NCCL's profiler plugin",
    ),
    "NCCL's plugin of 2024": (
        json.dumps([{"name": "ProgressSend", "cat": cat, "ph": "b", "id": 0, "ts": 1.5} for cat in ("COLL", "PROXY")])
        .encode(),
        "it looks like NCCL's profiler plugin",
    ),
    "asynchronous rows alone": (
        chrome([{"ph": "b", "cat": "requests", "name": "a", "id": 1, "ts": 1}], displayTimeUnit="ns"),
        "no event has a category of PyTorch's profiler (found: requests)",
    ),
    "Chromium": (chrome([_bar("RunTask", cat="toplevel"), _bar("V8.Run", cat="v8")]), "it looks like Chromium"),
    "a program of one's own": (
        chrome([_bar("load", cat="io"), _bar("train", cat="phase")]),
        "no event has a category of PyTorch's profiler (found: io, phase)",
    ),
    "rows without a category": (chrome([_bar("load")]), "no event has a category of PyTorch's profiler (found: none)"),
}  # fmt: skip
"""Chrome traces of other programs: their bytes, and what the line must say."""

OLD_NSIGHT_ROWS = (
    {"data": ["[Unknown]", "cudaLaunchKernel"]},
    {"Type": 48, "TraceProcessEvent": {"startNs": "100", "endNs": "200", "globalTid": "1", "name": "1"}},
)
NSIGHT_ROWS = (
    {"table": "StringIds", "id": 0, "value": "gemm"},
    {"table": "CUPTI_ACTIVITY_KIND_KERNEL", "start": 1, "end": 2, "globalPid": 1, "shortName": 0},
)


def json_lines(rows: Sequence[Row]) -> bytes:
    """Write rows as JSON lines."""
    return b"\n".join(json.dumps(row).encode() for row in rows)


NSIGHT_JSON = {
    "lines": json_lines(NSIGHT_ROWS),
    "lines of 2022": json_lines(OLD_NSIGHT_ROWS),
    "list": json.dumps(NSIGHT_ROWS).encode(),
    "list of 2022": json.dumps(OLD_NSIGHT_ROWS).encode(),
    "object": json.dumps({"CUPTI_ACTIVITY_KIND_KERNEL": [{"start": 1}], "StringIds": []}).encode(),
}
"""What ``nsys export --type json`` writes, and what people make of it with ``jq -s``."""
