"""Small exports of Nsight Systems, made by hand in the real schema; times are nanoseconds since the session began.

Tables and columns of schema 3.25 are those of an export by Nsight Systems 2026.2; what such exports rarely hold (OS
runtime, scheduling, samples, graphs, unified memory) follows NVIDIA's "SQLite Schema Reference" (User Guide, section
Exporter: https://docs.nvidia.com/nsight-systems/UserGuide/index.html#sqlite-schema-reference), the bytes of NVTX
payloads the NVTX header ``nvToolsExtPayload.h`` and the layout that readers of Nsight 2026 exports found in
``NVTX_EVENTS.binaryData`` (32 bytes of header, then the payload).

Nothing here was recorded: every export that :class:`NsysBuilder` writes has ``MADE_FOR_TESTS`` among its metadata.
"""

from __future__ import annotations

import re
import sqlite3
import struct
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

SPAN = "start! end! "
DEVICE = "deviceId! contextId! greenContextId@3.11 streamId! correlationId globalPid "
FRAME = "symbol! module! kernelMode thumbCode unresolved specialEntry originalIP unwindMethod stackDepth! "

TABLES: dict[str, str] = {
    "StringIds": "id! value!:TEXT",
    "CUPTI_ACTIVITY_KIND_KERNEL": SPAN + DEVICE + "demangledName! shortName! mangledName launchType cacheConfig "
    "registersPerThread! gridX! gridY! gridZ! blockX! blockY! blockZ! staticSharedMemory! dynamicSharedMemory! "
    "localMemoryPerThread! localMemoryTotal! gridId! sharedMemoryExecuted graphNodeId@2.8 sharedMemoryLimitConfig@2.8 "
    "qmdBulkReleaseDone@3.20 qmdPreexitDone@3.20 qmdLastCtaDone@3.20 graphId@3.20 clusterX@3.20 clusterY@3.20 "
    "clusterZ@3.20 clusterSchedulingPolicy@3.20 maxPotentialClusterSize@3.20 maxActiveClusters@3.20 "
    "sharedMemoryRequestedPercentage@3.20 tensorSizeMinusOneElements!@3.25:TEXT",
    "CUPTI_ACTIVITY_KIND_MEMCPY": SPAN + DEVICE + "bytes! copyKind! deprecatedSrcId srcKind dstKind srcDeviceId "
    "srcContextId dstDeviceId dstContextId migrationCause graphNodeId@2.8 virtualAddress@2.8 copyCount@3.20",
    "CUPTI_ACTIVITY_KIND_MEMSET": SPAN + DEVICE + "value! bytes! graphNodeId@2.8 memKind@2.8",
    "CUPTI_ACTIVITY_KIND_RUNTIME": SPAN + "eventClass! globalTid correlationId nameId! returnValue! callchainId",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": SPAN
    + DEVICE
    + "deprecatedSyncType@3.20 syncType! eventId! eventSyncId@3.20",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": "timestamp@3.20 " + DEVICE + "eventId! eventSyncId@3.20",
    "CUPTI_ACTIVITY_KIND_OVERHEAD": SPAN + "eventClass! globalTid correlationId nameId overheadType!",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": SPAN + DEVICE + "graphId! graphExecId!",
    "CUDA_GRAPH_NODE_EVENTS": SPAN + "eventClass! globalTid nameId! graphNodeId! originalGraphNodeId",
    "CUDA_GRAPH_EVENTS": SPAN + "eventClass! globalTid nameId! graphId originalGraphId graphExecId",
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": "start! globalPid! address! originalFaultPc CpuInstruction! module! "
    "unresolvedFaultPc",
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS": SPAN + "globalPid! deviceId! address! numberOfPageFaults! faultAccessType!",
    "NVTX_EVENTS": "start! end eventType! rangeId category color text:TEXT globalTid endGlobalTid textId domainId "
    "uint64Value int64Value doubleValue:REAL uint32Value int32Value floatValue:REAL jsonTextId@2.8 jsonText@2.8:TEXT "
    "binaryData@3.20:TEXT",
    "NVTX_PAYLOAD_SCHEMAS": "domainId schemaId name:TEXT type flags numEntries payloadSize alignTo",
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": "domainId! schemaId! idx! flags type name:TEXT description:TEXT arrayOrUnionDetail "
    "offset",
    "NVTX_PAYLOAD_ENUMS": "domainId schemaId name:TEXT numEntries size",
    "NVTX_PAYLOAD_ENUM_ENTRIES": "domainId! schemaId! idx! name:TEXT value isFlag",
    "OSRT_API": SPAN + "eventClass! globalTid correlationId nameId! returnValue! nestingLevel callchainId!",
    "OSRT_CALLCHAINS": "id! " + FRAME,
    "SCHED_EVENTS": "start! cpu! isSchedIn! globalTid threadState@3.11 threadBlock@3.11",
    "COMPOSITE_EVENTS": "id! start! cpu threadState globalTid cpuCycles!",
    "SAMPLING_CALLCHAINS": "id! " + FRAME,
    "PROFILER_OVERHEAD": SPAN + "globalTid nameId! overheadType!",
    "PROCESSES": "globalPid pid name:TEXT",
    "ThreadNames": "nameId! priority globalTid",
    "MPI_RANKS": "globalTid! rank!",
    "ANALYSIS_DETAILS": "globalVid! duration! startTime! stopTime!",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime:TEXT localTime:TEXT systemClockNs@3.20",
    "TARGET_INFO_SYSTEM_ENV": "globalVid devStateName!:TEXT name!:TEXT nameEnum! value!:TEXT",
    "TARGET_INFO_GPU": "vmId! id! name:TEXT busLocation:TEXT isDiscrete totalMemory memoryBandwidth clockRate smCount "
    "uuid:TEXT chipName:TEXT cuDevice threadsPerWarp maxWarpsPerSm computeMajor computeMinor",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId! pid! uuid:TEXT numMultiprocessors!",
    "TARGET_INFO_CUDA_CONTEXT_INFO": "nullStreamId! hwId! vmId! processId! deviceId! contextId! parentContextId "
    "isGreenContext numMultiprocessors",
    "TARGET_INFO_CUDA_STREAM": "streamId! hwId! vmId! processId! contextId! priority! flag!",
    "META_DATA_CAPTURE": "name!:TEXT value:TEXT",
    "META_DATA_EXPORT": "name!:TEXT value:TEXT",
}
"""Table → its columns in order: ``!`` NOT NULL, ``@3.11`` since about that schema, ``:TEXT`` the type."""

ENUMS: dict[str, Mapping[int, tuple[str, str]]] = {
    "ENUM_CUPTI_SYNC_TYPE": {
        0: ("CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN", "Unknown"),
        1: ("CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE", "Event sync"),
        2: ("CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT", "Stream wait sync"),
        3: ("CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE", "Stream sync"),
        4: ("CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE", "Context sync"),
    },
    "ENUM_CUDA_MEMCPY_OPER": {
        number: (f"CUDA_MEMCPY_KIND_{name}", label)
        for number, (name, label) in enumerate(
            (("UNKNOWN", "Unknown"), ("HTOD", "Host-to-Device"), ("DTOH", "Device-to-Host"), ("HTOA", "Host-to-Array"),
             ("ATOH", "Array-to-Host"), ("ATOA", "Array-to-Array"), ("ATOD", "Array-to-Device"),
             ("DTOA", "Device-to-Array"), ("DTOD", "Device-to-Device"), ("HTOH", "Host-to-Host"),
             ("PTOP", "Peer-to-Peer"), ("UVM_HTOD", "Unified Host-to-Device"),
             ("UVM_DTOH", "Unified Device-to-Host"), ("UVM_DTOD", "Unified Device-to-Device"))
        )
    },
    "ENUM_CUDA_MEM_KIND": {
        number: (f"CUDA_MEMOPR_MEMORY_KIND_{label.upper().replace(' ', '_')}", label)
        for number, label in enumerate(
            ("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static", "Unknown")
        )
    },
    "ENUM_NSYS_EVENT_TYPE": {
        number: (label, label)
        for number, label in {
            33: "NvtxCategory", 34: "NvtxMark", 39: "NvtxThread", 59: "NvtxPushPopRange", 60: "NvtxStartEndRange",
            75: "NvtxDomainCreate", 76: "NvtxDomainDestroy",
        }.items()
    },
    "ENUM_NSYS_EVENT_CLASS": {
        0: ("TRACE_PROCESS_EVENT_CUDA_RUNTIME", "CUDA runtime"), 1: ("TRACE_PROCESS_EVENT_CUDA_DRIVER", "CUDA driver"),
        27: ("TRACE_PROCESS_EVENT_OS_RUNTIME", "OSRT runtime"),
        77: ("TRACE_PROCESS_EVENT_CUDA_GRAPH_NODE_CREATION", "CUDA graph node creation"),
        95: ("TRACE_PROCESS_EVENT_CUDA_GRAPH_CREATION", "CUDA graph creation"),
        103: ("TRACE_PROCESS_EVENT_CUDA_OVERHEAD", "CUDA overhead"),
    },
    "ENUM_CUPTI_OVERHEAD_TYPE": {
        number: (f"OVERHEAD_{name}", label)
        for number, (name, label) in enumerate(
            (("UNDEFINED", "Undefined"), ("UNKNOWN", "Unknown"), ("DRIVER_COMPILER", "Driver JIT compiler (CUDA)"),
             ("CUPTI_BUFFER_FLUSH", "Buffer flush (Profiler)"),
             ("CUPTI_INSTRUMENTATION", "Instrumentation (Profiler)"),
             ("CUPTI_RESOURCE", "Resource creation/destruction (Profiler)"),
             ("RUNTIME_TRIGGERED_MODULE_LOADING", "Runtime module loading (CUDA)"),
             ("LAZY_FUNCTION_LOADING", "Lazy function loading (CUDA)"),
             ("COMMAND_BUFFER_FULL", "Command buffer full (CUDA)"))
        )
    },
    "ENUM_SAMPLING_THREAD_STATE": {
        number: (label, label)
        for number, label in enumerate(
            ("Unknown", "Running", "Interruptible", "Uninterruptible", "Stopped", "Terminated", "Unscheduled",
             "Waiting")
        )
    },
    "ENUM_CUDA_UNIF_MEM_MIGRATION": {
        0: ("CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_UNKNOWN", "Unknown"),
        1: ("CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_USER", "User prefetch"),
        2: ("CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_COHERENCE", "Page fault"),
        3: ("CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_PREFETCH", "Speculative prefecth"),
        4: ("CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_EVICTION", "Eviction"),
    },
    "ENUM_CUDA_UNIF_MEM_ACCESS_TYPE": {
        0: ("CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_UNKNOWN", "Unknown"),
        1: ("CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_READ", "Read"),
        2: ("CUPTI_ACTIVITY_UNIFIED_MEMORY_ACCESS_TYPE_WRITE", "Write"),
    },
    "ENUM_CUPTI_STREAM_TYPE": {
        0: ("CUPTI_ACTIVITY_STREAM_CREATE_FLAG_UNKNOWN", "Unknown stream type"),
        1: ("CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT", "Default stream"),
        2: ("CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING", "Non-blocking stream"),
        3: ("CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NULL", "Null stream"),
    },
}  # fmt: skip
"""What the numbers of an export mean: id → (name, label), as exports of 2026 print them."""

COLUMN = re.compile(r"(?P<name>\w+?)(?P<required>!)?(?:@(?P<since>[\d.]+))?(?::(?P<type>\w+))?")
EVENT_SYNC, STREAM_WAIT, STREAM_SYNC, CONTEXT_SYNC = 1, 2, 3, 4
PUSH_POP, START_END, MARK, DOMAIN_CREATE = 59, 60, 34, 75
NO_EVENT = 2**32 - 1
NCCL_DOMAIN = 1
PAGEABLE, PINNED, DEVICE_MEMORY = 0, 1, 2
COPY_KINDS = {"HtoD": 1, "DtoH": 2, "DtoD": 8, "PtoP": 10}
MEMORY_KINDS = {"Pageable": 0, "Pinned": 1, "Device": 2, "Array": 3, "Managed": 4}
PAYLOAD_INT, PAYLOAD_UINT64, PAYLOAD_SIZE = 5, 18, 22

NcclSchema = tuple[int, int, tuple[tuple[str, int, int, str], ...]]
COMMUNICATOR = ("NCCL communicator ID", PAYLOAD_UINT64, 0, "Q")
MESSAGE = ("Message size [bytes]", PAYLOAD_SIZE, 8, "Q")
NCCL_SCHEMAS: dict[str, NcclSchema] = {
    "init": (
        16_777_218,
        24,
        (COMMUNICATOR, ("No. of ranks", PAYLOAD_INT, 8, "i"), ("Rank", PAYLOAD_INT, 12, "i"),
         ("CUDA device", PAYLOAD_INT, 16, "i")),
    ),
    "plain": (16_777_220, 16, (COMMUNICATOR, MESSAGE)),
    "root": (16_777_222, 24, (COMMUNICATOR, MESSAGE, ("Root", PAYLOAD_INT, 16, "i"))),
    "reduce": (16_777_223, 24, (COMMUNICATOR, MESSAGE, ("Reduction operation", 16_777_232, 16, "i"))),
    "peer": (16_777_225, 24, (COMMUNICATOR, MESSAGE, ("Peer rank", PAYLOAD_INT, 16, "i"))),
}  # fmt: skip
"""NCCL's payloads as an export of NCCL 2.25 declares them: schema id, bytes, (label, type, offset, struct code)."""


def global_pid(pid: int) -> int:
    """Return a process's serialized id: the process stands in bits 24 to 47.

    >>> global_pid(144) >> 24 & 0xFFFFFF
    144
    """
    return 1 << 48 | pid << 24


def nccl_payload(schema: str, *values: int) -> bytes:
    """Return an event's bytes: domain, schema, size of the payload and of all, then the payload.

    >>> nccl_payload("plain", 7, 4096)[32:].hex()
    '07000000000000000010000000000000'
    """
    number, size, fields = NCCL_SCHEMAS[schema]
    body = bytearray(size)
    for (_, _, offset, code), value in zip(fields, values, strict=True):
        struct.pack_into(f"<{code}", body, offset, value)
    return struct.pack("<IIIIQQ", NCCL_DOMAIN, 0, number, 0, size, 32 + size) + bytes(body)


class NsysBuilder:
    """Collects rows; every method's times are ns, its thread and its GPU those of the builder unless said.

    ``schema`` is the version whose columns are written: ``3.25`` (2026), ``3.11`` (2024) or ``2.7`` (2021, which has no
    metadata of the export). Tables are written when they have rows, as ``nsys export`` does.
    """

    def __init__(self, *, schema: str = "3.25", pid: int = 144, utc_ns: int | None = 1_779_782_330_176_752_435) -> None:
        self.schema, self.pid, self.tid = schema, pid, pid
        self.device, self.context = 0, 1
        self.rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self._strings: dict[str, int] = {}
        self._next_callchain = 1
        if _version(schema) >= (2, 8):
            self.metadata("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems")
            self.metadata("EXPORT_PRODUCT_VERSION", "2026.2.1.210" if schema >= "3.20" else "2024.2.1.106")
            self.metadata("EXPORT_SCHEMA_VERSION", f"{schema}.0")
        self.metadata("MADE_FOR_TESTS", "true", table="META_DATA_CAPTURE")
        if utc_ns is not None:
            self.row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=utc_ns, utcTime="", localTime="", systemClockNs=0)

    def row(self, table: str, **values: Any) -> None:
        """Add any row; columns that are not named are NULL, or zero where the schema wants a value."""
        self.rows[table].append(values)

    def string(self, text: str) -> int:
        """Return the number of a text in ``StringIds``."""
        return self._strings.setdefault(text, len(self._strings) + 1)

    def metadata(self, name: str, value: str, *, table: str = "META_DATA_EXPORT") -> None:
        """Add what the export or the recording says of itself."""
        self.row(table, name=name, value=value)

    def environment(self, **variables: str) -> None:
        """Record environment variables, in both places where an export has those of the profiled command."""
        for name, value in variables.items():
            self.metadata("PROCESS_0:ENVIRONMENT_VARIABLE", f'{name}="{value}"', table="META_DATA_CAPTURE")
        listed = ";".join(f"{name}={value}" for name, value in variables.items())
        self.system("DeviceEnvironment", listed, 610)

    def system(self, name: str, value: str, number: int = 0) -> None:
        """Add a property of the machine, such as ``Hostname``."""
        self.row(
            "TARGET_INFO_SYSTEM_ENV",
            globalVid=1 << 48, devStateName="Local (CLI)", name=name, nameEnum=number, value=value,
        )  # fmt: skip

    def process(self, name: str = "python3", *, pid: int | None = None) -> None:
        """Name a process."""
        pid = self.pid if pid is None else pid
        self.row("PROCESSES", globalPid=global_pid(pid), pid=pid, name=name)

    def use(self, *, pid: int | None = None, tid: int | None = None, device: int = 0, context: int = 1) -> None:
        """Go on with another process, thread, device or context."""
        self.pid = self.pid if pid is None else pid
        self.tid = self.pid if tid is None else tid
        self.device, self.context = device, context

    def thread(self, name: str, tid: int | None = None) -> None:
        """Name a thread."""
        self.row("ThreadNames", nameId=self.string(name), priority=20, globalTid=self._thread(tid))

    def gpu(self, name: str = "NVIDIA H100 80GB HBM3", number: int = 0, **more: Any) -> None:
        """Describe a GPU of the machine."""
        known = {"totalMemory": 85_000_000_000, "smCount": 132, "computeMajor": 9, "computeMinor": 0}
        self.row(
            "TARGET_INFO_GPU", vmId=1 << 48, id=number, name=name, cuDevice=number, threadsPerWarp=32, **known | more
        )
        self.row("TARGET_INFO_CUDA_DEVICE", gpuId=number, cudaId=number, pid=self.pid, numMultiprocessors=132)

    def null_stream(self, stream: int = 7) -> None:
        """Say which stream the context's default stream is."""
        self.row(
            "TARGET_INFO_CUDA_CONTEXT_INFO",
            nullStreamId=stream, processId=self.pid, deviceId=self.device, contextId=self.context,
        )  # fmt: skip
        self.row("TARGET_INFO_CUDA_STREAM", streamId=stream, processId=self.pid, contextId=self.context, flag=3)

    def _thread(self, tid: int | None) -> int:
        return global_pid(self.pid) | (self.tid if tid is None else tid)

    def call(
        self,
        name: str,
        start: int,
        end: int | None,
        corr: int | None = None,
        *,
        tid: int | None = None,
        result: int = 0,
    ) -> None:
        """Add a runtime or a driver call, by the name that the export has (``cudaLaunchKernel_v7000``)."""
        self.row(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=start, end=end, eventClass=int(not name.startswith("cuda")), globalTid=self._thread(tid),
            correlationId=corr, nameId=self.string(name), returnValue=result,
        )  # fmt: skip

    def _gpu(
        self, table: str, start: int, end: int | None, corr: int | None, stream: int, values: Mapping[str, Any]
    ) -> None:
        place = {
            "deviceId": self.device,
            "contextId": self.context,
            "streamId": stream,
            "globalPid": global_pid(self.pid),
        }
        self.row(table, start=start, end=end, correlationId=corr, **place | dict(values))

    def kernel(
        self, name: str, start: int, end: int | None, corr: int | None, *, stream: int = 7,
        grid: Sequence[int] = (1, 1, 1), block: Sequence[int] = (128, 1, 1), **more: Any,
    ) -> None:  # fmt: skip
        """Add a kernel."""
        short = re.sub(r"^void |[<(].*", "", name)
        sides = zip(("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"), (*grid, *block), strict=True)
        text = {"demangledName": self.string(name), "shortName": self.string(short), "mangledName": self.string(name)}
        known = {"registersPerThread": 32, "launchType": 1, "tensorSizeMinusOneElements": "[]"}
        self._gpu("CUPTI_ACTIVITY_KIND_KERNEL", start, end, corr, stream, text | known | dict(sides) | more)

    def launch(
        self,
        name: str,
        call: tuple[int, int],
        run: tuple[int, int],
        corr: int,
        *,
        stream: int = 7,
        tid: int | None = None,
    ) -> None:
        """Add a launching call and its kernel."""
        self.call("cudaLaunchKernel_v7000", *call, corr, tid=tid)
        self.kernel(name, *run, corr, stream=stream)

    def copy(
        self, kind: str, start: int, end: int | None, corr: int | None, *, source: str = "Device",
        target: str = "Device", stream: int = 7, size: int = 4096, **more: Any,
    ) -> None:  # fmt: skip
        """Add a copy: ``HtoD``, ``DtoH``, ``DtoD`` or ``PtoP``, from and to kinds of memory."""
        kinds = {"copyKind": COPY_KINDS[kind], "srcKind": MEMORY_KINDS[source], "dstKind": MEMORY_KINDS[target]}
        self._gpu(
            "CUPTI_ACTIVITY_KIND_MEMCPY", start, end, corr, stream, kinds | {"bytes": size, "copyCount": 1} | more
        )

    def memset(
        self, start: int, end: int | None, corr: int | None, *, stream: int = 7, size: int = 4, **more: Any
    ) -> None:
        """Add a memory set."""
        known = {"value": 0, "bytes": size, "memKind": DEVICE_MEMORY}
        self._gpu("CUPTI_ACTIVITY_KIND_MEMSET", start, end, corr, stream, known | more)

    def sync(
        self, kind: int, start: int, end: int | None, corr: int | None, *, stream: int = NO_EVENT,
        event: int = NO_EVENT, event_sync: int = 0, device: int = 0,
    ) -> None:  # fmt: skip
        """Add a synchronization row; its device is 0 whatever GPU the process has, as in real exports."""
        ids = {"syncType": kind, "eventId": event, "eventSyncId": event_sync, "deviceId": device}
        self._gpu("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", start, end, corr, stream, ids)

    def cuda_event(self, corr: int, event: int, event_sync: int, *, stream: int = 7, timestamp: int = 0) -> None:
        """Add what ``--cuda-event-trace`` records of a ``cudaEventRecord``: the event's ids."""
        place = {
            "deviceId": self.device,
            "contextId": self.context,
            "streamId": stream,
            "globalPid": global_pid(self.pid),
        }
        self.row(
            "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
            timestamp=timestamp, correlationId=corr, eventId=event, eventSyncId=event_sync, **place,
        )  # fmt: skip

    def range(
        self, text: str, start: int, end: int | None, *, tid: int | None = None, domain: int = 0,
        registered: bool = False, kind: int = PUSH_POP, end_tid: int | None = None, **more: Any,
    ) -> None:  # fmt: skip
        """Add an NVTX range, by default one of push and pop; ``registered`` texts stand in ``StringIds``."""
        ids = {"textId": self.string(text)} if registered else {"text": text}
        ends = {} if end_tid is None else {"endGlobalTid": self._thread(end_tid)}
        self.row(
            "NVTX_EVENTS",
            start=start, end=end, eventType=kind, globalTid=self._thread(tid), domainId=domain, **ids | ends | more,
        )  # fmt: skip

    def op(
        self, name: str, start: int, end: int, *, op_id: int | None = None, seq: int | None = None,
        sizes: Sequence[Sequence[int]] | None = None, tid: int | None = None,
    ) -> None:  # fmt: skip
        """Add an operator as ``torch.autograd.profiler.emit_nvtx(record_shapes=…)`` names it."""
        parts = [name, seq is not None and f"seq = {seq}", op_id is not None and f"op_id = {op_id}"]
        parts.append(sizes is not None and f"sizes = {[list(side) for side in sizes]}")
        self.range(", ".join(part for part in parts if part), start, end, tid=tid)

    def domain(self, name: str, number: int, start: int = 0) -> None:
        """Name an NVTX domain."""
        self.range(name, start, None, domain=number, kind=DOMAIN_CREATE)

    def nccl(
        self, name: str, start: int, end: int, schema: str | None = None, *values: int, tid: int | None = None
    ) -> None:
        """Add a range of NCCL's domain with its payload: the communicator, then what its schema has."""
        if schema is not None and not self.rows["NVTX_PAYLOAD_SCHEMAS"]:
            self.nccl_schemas()
        data: dict[str, Any] = {} if schema is None else {"binaryData": nccl_payload(schema, *values)}
        self.range(name, start, end, tid=tid, domain=NCCL_DOMAIN, registered=True, **data)

    def nccl_schemas(self) -> None:
        """Declare NCCL's payloads and domain; an export declares them once a process."""
        created = (DOMAIN_CREATE, NCCL_DOMAIN)
        if all((row["eventType"], row["domainId"]) != created for row in self.rows["NVTX_EVENTS"]):
            self.domain("NCCL", NCCL_DOMAIN)
        for number, size, fields in NCCL_SCHEMAS.values():
            ids = {"domainId": NCCL_DOMAIN, "schemaId": number}
            self.row("NVTX_PAYLOAD_SCHEMAS", type=1, numEntries=len(fields), payloadSize=size, **ids)
            for at, (label, kind, offset, _) in enumerate(fields):
                place = {"idx": at, "type": kind, "name": label, "offset": offset or None}
                self.row("NVTX_PAYLOAD_SCHEMA_ENTRIES", **ids, **place)

    def os_call(self, name: str, start: int, end: int | None, *, tid: int | None = None, nesting: int = 0) -> None:
        """Add a call of the OS runtime, such as ``pthread_cond_wait``."""
        self.row(
            "OSRT_API",
            start=start, end=end, eventClass=27, globalTid=self._thread(tid), nameId=self.string(name),
            nestingLevel=nesting, callchainId=0,
        )  # fmt: skip

    def scheduled(
        self, start: int, *, on: bool, tid: int | None = None, cpu: int = 0, state: int | None = None
    ) -> None:
        """Add that a thread was put on a core, or taken off it and why."""
        self.row(
            "SCHED_EVENTS", start=start, cpu=cpu, isSchedIn=int(on), globalTid=self._thread(tid), threadState=state
        )

    def sample(self, at: int, *frames: str, tid: int | None = None, state: int = 1, module: str = "python3") -> None:
        """Add a sample of a thread's stack, innermost frame first."""
        number, self._next_callchain = self._next_callchain, self._next_callchain + 1
        self.row(
            "COMPOSITE_EVENTS",
            id=number, start=at, cpu=0, threadState=state, globalTid=self._thread(tid), cpuCycles=1,
        )  # fmt: skip
        for depth, frame in enumerate(frames):
            names = {"symbol": self.string(frame), "module": self.string(module)}
            self.row("SAMPLING_CALLCHAINS", id=number, stackDepth=depth, **names)

    def overhead(self, name: str, start: int, end: int, kind: int = 8, *, tid: int | None = None) -> None:
        """Add an overhead of CUDA or of the profiler, by its type."""
        ids = {"globalTid": self._thread(tid), "nameId": self.string(name), "overheadType": kind}
        self.row("CUPTI_ACTIVITY_KIND_OVERHEAD", start=start, end=end, eventClass=103, **ids)

    def graph_node(self, at: int, node: int, original: int | None = None, *, tid: int | None = None) -> None:
        """Add the creation of a node of a CUDA graph."""
        self.row(
            "CUDA_GRAPH_NODE_EVENTS",
            start=at, end=at, eventClass=77, globalTid=self._thread(tid), nameId=self.string("Graph Node Creation"),
            graphNodeId=node, originalGraphNodeId=original,
        )  # fmt: skip

    def whole_graph(
        self, start: int, end: int, corr: int, *, stream: int = 7, graph: int = 1, executable: int = 2
    ) -> None:
        """Add a graph's run as one row: what ``--cuda-graph-trace=graph`` records instead of its nodes."""
        ids = {"graphId": graph, "graphExecId": executable}
        self._gpu("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start, end, corr, stream, ids)

    def page_faults(self, start: int, end: int, *, count: int = 1, address: int = 0x7F00_0000_0000) -> None:
        """Add page faults of the GPU in unified memory."""
        place = {"globalPid": global_pid(self.pid), "deviceId": self.device, "address": address}
        self.row(
            "CUDA_UM_GPU_PAGE_FAULT_EVENTS", start=start, end=end, numberOfPageFaults=count, faultAccessType=1, **place
        )

    def migration(self, kind: str, start: int, end: int, *, size: int = 65_536) -> None:
        """Add a migration of unified memory, ``HtoD`` or ``DtoH``: a copy without a call or stream of its own."""
        unified = {"HtoD": 11, "DtoH": 12}[kind]
        self.copy(
            kind, start, end, None, stream=0, size=size, copyKind=unified, srcKind=4, dstKind=4, migrationCause=2,
            virtualAddress=0x7F00_0000_0000,
        )  # fmt: skip

    def write(
        self, path: Path, *, without: Collection[str] = (), empty: Collection[str] = (), reverse: bool = False
    ) -> Path:
        """Write the export: without some tables, with others that have no rows; ``reverse`` turns the rows' order."""
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("PRAGMA page_size = 4096")
            for table in TABLES:
                rows = self._rows_of(table)
                if table not in without and (rows or table in empty):
                    self._write_table(database, table, rows[::-1] if reverse else rows)
            for table, values in ENUMS.items():
                if table not in without:
                    _write_enum(database, table, values)
        return path

    def _rows_of(self, table: str) -> list[dict[str, Any]]:
        if table == "StringIds":
            return [{"id": number, "value": text} for text, number in self._strings.items()]
        return self.rows[table]

    def _write_table(self, database: sqlite3.Connection, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        columns = columns_of(table, self.schema)
        listed = ", ".join(f"{name} {kind} {'NOT NULL' if required else ''}" for name, kind, required in columns)
        # A missing end is a call that never returned: the schema's word for it is broken there on purpose.
        listed = listed.replace("end INTEGER NOT NULL", "end INTEGER")
        database.execute(f"CREATE TABLE {table} ({listed})")
        known = {name for name, _, _ in columns}
        unknown = {name for row in rows for name in row} - known - _later_columns(table)
        if unknown:
            raise ValueError(f"{table} has no columns {sorted(unknown)}")
        marks = ", ".join("?" * len(columns))
        defaults = {name: _default(name, kind) if required else None for name, kind, required in columns}
        values = ([row.get(name, default) for name, default in defaults.items()] for row in rows)
        database.executemany(f"INSERT INTO {table} VALUES ({marks})", values)  # noqa: S608 - names of this file


def columns_of(table: str, schema: str = "3.25") -> list[tuple[str, str, bool]]:
    """Return a table's columns in a version: name, type, whether a value is required.

    >>> [name for name, _, _ in columns_of("SCHED_EVENTS", "2.7")]
    ['start', 'cpu', 'isSchedIn', 'globalTid']
    """
    found = []
    for text in TABLES[table].split():
        column = COLUMN.fullmatch(text)
        if column is None:
            raise ValueError(f"{table}: {text}")
        if _version(column["since"] or "0") <= _version(schema):
            found.append((column["name"], column["type"] or "INTEGER", bool(column["required"])))
    return found


def _later_columns(table: str) -> set[str]:
    return {name for name, _, _ in columns_of(table, "99")}


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _default(name: str, kind: str) -> int | str | None:
    """Return what stands where the schema wants a value and none was given: the end is left open."""
    if kind == "TEXT":
        return ""
    return None if name == "end" else 0


def _write_enum(database: sqlite3.Connection, table: str, values: Mapping[int, tuple[str, str]]) -> None:
    database.execute(f"CREATE TABLE {table} (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT)")
    rows = ((key, *texts) for key, texts in values.items())
    database.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", rows)  # noqa: S608 - names of this file
