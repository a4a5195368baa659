"""Which formats files have: each known one is declared once, with what is read of it and what to do instead.

A file's format is decided by its first bytes, a Chrome trace's writer by what its events say. Sources: the formats' own
specifications, and the writers' source code.
"""

from __future__ import annotations

import re
from contextlib import closing, suppress
from dataclasses import dataclass

from hta_graph.base.errors import NotATraceError, TraceError
from hta_graph.base.storage.location import Location, is_remote
from hta_graph.base.storage.open_local import open_database

HEAD_BYTES = 4096
"""How much of a file's beginning shows its format."""


@dataclass(frozen=True)
class Format:
    """A format of files.

    Attributes:
        name: what an error calls it, with its article.
        begins: how such a file begins.
        reads: what of it is read; nothing if empty.
        missing: what is not.
        remedy: what to do with a file that is not read.
        layer: how it packs another file: ``gzip``, ``zstd``, ``zip`` or ``tar``; ``sqlite`` has a reader of its own.
        is_lost: the file stands for a trace that is not in it: its rank is missing.
        tables: of a database, what some table is called.
    """

    name: str
    begins: re.Pattern[bytes]
    reads: str = ""
    missing: str = ""
    remedy: str = "pass a Kineto trace"
    layer: str = ""
    is_lost: bool = False
    tables: re.Pattern[str] | None = None

    @property
    def first_bytes(self) -> str:
        """How such a file begins, as a regular expression; of a database, also the name of a table in it."""
        pattern = self.begins.pattern
        place = re.fullmatch(rb"\.\{(\d+)\}\(\?:(.*)\)", pattern, re.DOTALL)
        if place:
            pattern = place[2] if place[1] == b"0" else b"at byte %s: %s" % place.groups()
        shown = re.sub(r"[^ -~]", lambda found: f"\\x{ord(found[0]):02x}", pattern.decode("latin-1"))
        return shown if self.tables is None else f"{shown}; a table {self.tables.pattern}"

    def refusal(self, path: Location) -> TraceError:
        """Return the error of a file of this format that is not read."""
        return (TraceError if self.is_lost else NotATraceError)(path, f"is {self.name}", self.remedy)


NSIGHT_TABLE = re.compile(
    r"(CUPTI_ACTIVITY_KIND_\w{1,40}|(NVTX_EVENTS|META_DATA_(CAPTURE|EXPORT)|OSRT_API)(_V\d{1,4})?)$"
)
"""Tables of an export: of one without CUDA only those that say how it was recorded."""
ROCPD_TABLE = re.compile(r"rocpd_")


def _tables_of(path: Location) -> list[str] | None:
    """Return the names of a database's tables; None where it cannot be opened: its reader says why."""
    if is_remote(path):
        return None
    import sqlite3  # late: few inputs are databases

    # The words about a damaged schema repeat bytes of the file that may be no text.
    with suppress(sqlite3.Error, UnicodeDecodeError, OSError), closing(open_database(path)) as database:
        listed = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' LIMIT 1000")
        return [str(table) for (table,) in listed.fetchall()]
    return None


def _begin(*texts: bytes, at: int = 0) -> re.Pattern[bytes]:
    """Match one of some texts at a place."""
    return re.compile(rb".{%d}(?:%s)" % (at, b"|".join(map(re.escape, texts))), re.DOTALL)


SQLITE = _begin(b"SQLite format 3\0")
NSIGHT_EXPORT = Format(
    "an Nsight Systems export",
    SQLITE,
    "kernels, copies, sets, CUDA graphs; runtime and driver calls; synchronization; NVTX and NCCL's payloads; "
    "OS runtime calls, thread states, CPU samples of threads with CUDA calls or NVTX ranges",
    "hardware metrics, Python's call stacks",
    layer="sqlite",
    tables=NSIGHT_TABLE,
)
PERFETTO_TRACE = Format(
    "a Perfetto trace (.pftrace)",
    re.compile(rb"\n(?=.{0,300}?[\x00-\x08\x0e-\x1f\x7f-\xff])(?!\s*[\[{]\s*[\"{\[\]}])", re.DOTALL),
    "slices, GPU render stages and the arrows between them, as PyTorch's Cuspy recorder writes them",
    "counters; kinds of copies, which that recorder does not write there; traces of other programs",
    layer="perfetto",
)
UNPACK = "unpack it"
PROFILE_AGAIN = "record with torch.profiler"
TRACE_INSIDE = "the one trace inside, also if packed again"

FORMATS: tuple[Format, ...] = (
    Format("gzip", _begin(b"\x1f\x8b"), TRACE_INSIDE, layer="gzip"),
    Format("zstd", re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", re.DOTALL), TRACE_INSIDE, layer="zstd"),
    Format(
        "a zip archive", _begin(b"PK\x03\x04", b"PK\x05\x06"), TRACE_INSIDE, "several traces, passwords", UNPACK, "zip"
    ),
    Format("a tar archive", _begin(b"ustar", at=257), TRACE_INSIDE, "several traces", UNPACK, "tar"),
    Format("an xz file", _begin(b"\xfd7zXZ\0"), remedy=UNPACK, is_lost=True),
    Format("a bzip2 file", re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), remedy=UNPACK, is_lost=True),
    Format("a 7-Zip archive", _begin(b"7z\xbc\xaf\x27\x1c"), remedy=UNPACK, is_lost=True),
    Format("a RAR archive", _begin(b"Rar!\x1a\x07"), remedy=UNPACK, is_lost=True),
    Format("an lz4 file", _begin(b"\x04\x22\x4d\x18"), remedy=UNPACK, is_lost=True),
    NSIGHT_EXPORT,
    Format("a rocprofiler database (rocpd)", SQLITE, remedy=PROFILE_AGAIN, tables=ROCPD_TABLE),
    Format("an SQLite database, but no export of Nsight Systems", SQLITE),
    Format(
        "a pickle of PyTorch's memory snapshot, which can run code when it is read",
        re.compile(rb"\x80[\x01-\x05].{0,4000}?(?:segments|device_traces)", re.DOTALL),
        remedy="open it on pytorch.org/memory_viz; for memory-timeline, pass a trace recorded with profile_memory=True",
    ),
    Format("a pickle, which can run code when it is read", re.compile(rb"\x80[\x01-\x05]")),
    Format(
        "a Git LFS pointer, not the file that it stands for",
        _begin(b"version https://git-lfs.github.com/spec/"),
        remedy="fetch the file: git lfs pull",
        is_lost=True,
    ),
    Format(
        "a git-annex pointer, not the file that it stands for",
        re.compile(rb"(?:\.\./){0,20}(?:\.git)?/?annex/objects/"),
        remedy="fetch the file: git annex get",
        is_lost=True,
    ),
    Format(
        "a web page (HTML)",
        re.compile(rb"\s{0,200}<(?:!doctype html|html|head|body)", re.IGNORECASE),
        remedy="download the file itself",
        is_lost=True,
    ),
    Format(
        "XML, such as a store's error message",
        re.compile(rb"(?:\xef\xbb\xbf)?\s{0,200}<(?:\?xml|Error>)"),
        remedy="download the file itself",
        is_lost=True,
    ),
    Format(
        "UTF-16 text",
        re.compile(rb"\xff\xfe(?!\0\0)|\xfe\xff|\s?\0?[\[{]\0[^\0]|\0[\[{]\0"),
        remedy="convert it to UTF-8: iconv -f UTF-16 -t UTF-8",
        is_lost=True,
    ),
    Format("an XPlane profile of TensorFlow or JAX (protobuf)", re.compile(
        rb"\n.{1,5}(?:\x08.{1,10})?\x12.(?:/(?:host|device):|Task Environment|#Chip)", re.DOTALL
    ), remedy=PROFILE_AGAIN),
    PERFETTO_TRACE,
    Format("an Nsight Compute report", _begin(b"NVR\0"), remedy=PROFILE_AGAIN),
    Format("a Parquet file", _begin(b"PAR1")),
    Format("an Arrow file", _begin(b"ARROW1")),
    Format("an HDF5 file", _begin(b"\x89HDF\r\n\x1a\n")),
    Format("a picture", _begin(b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8")),
    Format("a PDF file", _begin(b"%PDF-")),
    Format("a program", _begin(b"\x7fELF", b"MZ\x90")),
)  # fmt: skip
"""In the order in which they are tried."""

NSIGHT_REPORT = Format(
    "a report of Nsight Systems",
    _begin(b""),
    missing="all of it",
    remedy="export it: nsys export --type sqlite",
)
NSIGHT_ENDINGS = (".nsys-rep", ".qdrep")
"""How the names of Nsight's reports end: their first bytes are not documented."""

JSON_BEGIN = re.compile(rb"(?:\xef\xbb\xbf)?\s*+(?:[\[{]|\Z)")
KINETO_TRACE = Format(
    "a Kineto trace of PyTorch's profiler (JSON)", JSON_BEGIN, "all rows, of all versions; several ranks in one file"
)


def format_of(path: Location, begin: bytes) -> Format | None:
    """Return the format of a file that begins so; None for JSON and for what is not known."""
    tables = _tables_of(path) if SQLITE.match(begin) else None
    for known in FORMATS:
        if known.begins.match(begin) and (
            known.tables is None or tables is None or any(map(known.tables.match, tables))
        ):
            return known
    is_report = path.name.endswith(NSIGHT_ENDINGS) and not JSON_BEGIN.match(begin)
    return NSIGHT_REPORT if is_report else None


def layer_of(begin: bytes) -> str:
    """Return how a file that begins so packs another one; nothing where it does not.

    >>> layer_of(b"PK" + bytes([3, 4])), layer_of(b"[")
    ('zip', '')
    """
    return next((known.layer for known in FORMATS if known.begins.match(begin)), "")


LAYERS = tuple(known for known in FORMATS if known.layer and known is not PERFETTO_TRACE)
"""Those that show at their beginning that they may hold a trace."""


@dataclass(frozen=True)
class Writer:
    """A program that writes JSON which is not PyTorch's, what only its files hold, and why they are not read."""

    name: str
    marks: re.Pattern[bytes]
    remedy: str = PROFILE_AGAIN
    why: str = "which is not read"
    like_kineto: bool = False
    """Its rows have categories that PyTorch's profiler has, too: ``cpu_op``, ``operator``, ``kernel``."""
    form: str = "a Chrome trace"


WRITERS: tuple[Writer, ...] = (
    Writer(
        "PaddlePaddle's profiler",
        re.compile(rb'"span_indx"|"cat"\s*:\s*"(?:CudaRuntime|MluRuntime)"'),
        like_kineto=True,
    ),
    Writer("Intel's unitrace", re.compile(rb'"cat"\s*:\s*"(?:gpu_op|Flow_H2D_\d+_\d+)"'), like_kineto=True),
    Writer("MXNet's profiler", re.compile(rb'"name"\s*:\s*"(?:[gc]pu/\d|\[[gc]pu/\d\] )'), like_kineto=True),
    Writer("TensorFlow's timeline", re.compile(rb'"/job:\w+/replica:')),
    # Kernels have no correlation in any of its versions, and copies and synchronization are not converted.
    Writer(
        "nsys2json (Nsight Systems)",
        re.compile(rb'"cat"\s*:\s*"(?:cuda_api|nvtx(?:-kernel)?)"|"CUDA API \d'),
        "pass the .sqlite export from which it was made",
        "which leaves out copies and the call that launched each kernel",
    ),
    # Lines, each an event or a table's row; sources: its manual (nsys export --type json) and parsers of such files.
    Writer(
        "Nsight Systems' JSON export",
        re.compile(
            rb'"table"\s*:\s*"(?:CUPTI_ACTIVITY_KIND_\w+|NVTX_EVENTS\w*|StringIds|(?:TARGET_INFO|META_DATA)_\w+)"'
            rb'|"(?:TraceProcessEvent|CudaEvent|NvtxEvent)"\s*:\s*\{|"CUPTI_ACTIVITY_KIND_\w+"\s*:\s*[\[{]'
        ),
        "export its report again: nsys export --type sqlite",
        form="JSON",
    ),
    # Source: ext-profiler/example/print_event.cc; the rows are pairs of b and e, from which no path follows.
    Writer(
        "NCCL's profiler plugin",
        re.compile(
            rb'"cat"\s*:\s*"(?:(?:GROUP|COLL|P2P)(?:_API)?|KERNEL_LAUNCH|NET_(?:IB|SOCK))"|"name"\s*:\s*"KernelCh"'
        ),
    ),
    Writer("TensorFlow's profiler", re.compile(rb'"tf_op"|"TensorFlow (?:Ops|Name Scope)"|"tf_Compute/')),
    Writer("JAX or XLA", re.compile(rb'"/(?:host|device):[A-Z]+|"XLA (?:Ops|Modules)"|"hlo_(?:op|module)"')),
    Writer("rocprof", re.compile(rb'"CPU H(?:IP|SA) API|"BeginNs"')),
    Writer("VizTracer", re.compile(rb'"viztracer_metadata"|"cat"\s*:\s*"FEE"')),
    Writer("py-spy", re.compile(rb'"cat"\s*:\s*"py-spy"')),
    Writer("torch.compile (tlparse's chromium_events)", re.compile(rb'"cat"\s*:\s*"dynamo_timed"')),
    Writer("ONNX Runtime", re.compile(rb'"[A-Za-z]+ExecutionProvider"|"cat"\s*:\s*"Session"')),
    Writer("Horovod's timeline", re.compile(rb'"NEGOTIATE_[A-Z]+')),
    Writer("Ascend's msprof", re.compile(rb'"(?:Ascend Hardware|AscendCL|CANN|HostToDevice)"')),
    Writer("Intel's Level Zero tracers", re.compile(rb'"ze[A-Z]\w+"|"zeCommandListAppend')),
    Writer("clang -ftime-trace", re.compile(rb'"Total (?:ExecuteCompiler|Frontend|Backend)"')),
    Writer("Bazel", re.compile(rb'"bazel_version"|"build phase marker"')),
    Writer("Chromium", re.compile(rb'"cat"\s*:\s*"[^"]{0,200}\b(?:blink|toplevel|v8|cc|disabled-by-default)\b')),
)
"""Marks as their source code writes them; Perfetto and Chrome show traces of all of them."""

CATEGORIES = re.compile(rb'"cat"\s*:\s*"([^"\\]{1,60})"')
KINETO_WITHOUT_EVENTS = frozenset({b"trace", b"ac2g", b"async_cpu_to_gpu", b"fwdbwd", b"hardware_counters"})
CATEGORIES_LISTED = 5
LOOKED_AT = 1 << 20
"""How much of a text's beginning and of its end is looked at for marks."""


def writer_of(text: bytes, *, like_kineto: bool = False) -> Writer | None:
    """Return the known program that wrote a Chrome trace; where asked, of those alone whose rows look like Kineto's."""
    ends = _ends_of(text)
    known = (writer for writer in WRITERS if writer.like_kineto or not like_kineto)
    return next((writer for writer in known if writer.marks.search(ends)), None)


def has_foreign_categories(text: bytes) -> bool:
    """Return whether a text without events has rows of some categories, and none that Kineto gives to other rows."""
    found = {category.lower() for category in CATEGORIES.findall(_ends_of(text))}
    return bool(found) and not found & KINETO_WITHOUT_EVENTS


def _ends_of(text: bytes) -> bytes:
    return text[:LOOKED_AT] + b"\n" + text[-LOOKED_AT:]


def foreign_trace_error(path: Location, text: bytes, writer: Writer | None) -> NotATraceError:
    """Return the error of JSON that PyTorch's profiler did not write: a Chrome trace, where no writer is known."""
    cause = f"is {writer.form if writer else 'a Chrome trace'} of another program"
    if writer:
        return NotATraceError(path, f"{cause}: it looks like {writer.name}, {writer.why}", writer.remedy)
    found = dict.fromkeys(found.decode("utf-8", "replace") for found in CATEGORIES.findall(_ends_of(text)))
    listed = ", ".join(list(found)[:CATEGORIES_LISTED]) or "none"
    return NotATraceError(
        path, f"{cause}: no event has a category of PyTorch's profiler (found: {listed})", PROFILE_AGAIN
    )
