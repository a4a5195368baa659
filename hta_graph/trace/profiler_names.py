"""Every place where a name or a category decides, in one documented table each.

Prefer categories, correlation ids and recorded arguments; a pattern stands here only where the trace offers nothing
else. Sources: the categories and names of 332 public Kineto files from 2020 to 2026, NVIDIA, AMD and MTIA.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hta_graph.model import EventKind

CATEGORY: dict[str, EventKind | None] = {
    "cpu_op": EventKind.CPU_OP,
    "operator": EventKind.CPU_OP,  # to PyTorch 1.11
    "user_annotation": EventKind.ANNOTATION,
    "python_function": EventKind.PYTHON_FUNCTION,
    "cuda_runtime": EventKind.RUNTIME,  # HIP calls too
    "cuda_driver": EventKind.RUNTIME,
    "runtime": EventKind.RUNTIME,  # to PyTorch 1.11
    "mtia_runtime": EventKind.RUNTIME,
    "xpu_runtime": EventKind.RUNTIME,
    "xpu_driver": EventKind.RUNTIME,
    "musa_runtime": EventKind.RUNTIME,
    "musa_driver": EventKind.RUNTIME,
    "privateuse1_runtime": EventKind.RUNTIME,
    "privateuse1_driver": EventKind.RUNTIME,
    "kernel": EventKind.KERNEL,
    "mtia_ccp_events": EventKind.KERNEL,
    "gpu_memcpy": EventKind.MEMCPY,
    "memcpy": EventKind.MEMCPY,
    "gpu_memset": EventKind.MEMSET,
    "memset": EventKind.MEMSET,
    "graph_host_node": EventKind.GRAPH_HOST_NODE,  # of PyTorch's Cuspy recorder, as the next one
    "graph_event_node": EventKind.GRAPH_EVENT_NODE,
    "gpu_user_annotation": EventKind.GPU_ANNOTATION,
    "cuda_sync": EventKind.SYNC_RECORD,
    "synchronization": EventKind.SYNC_RECORD,
    "xpu_sync": EventKind.SYNC_RECORD,
    "cuda_event": EventKind.SYNC_RECORD,  # where a stream reached a recorded event; no work (kineto#1163)
    "overhead": EventKind.OVERHEAD,
    "os_call": EventKind.OS_CALL,  # of Nsight Systems
    "cpu_instant_event": EventKind.MEMORY,
    "trace": None,  # the span of the recording: not an event
}
"""Category (lower case) → kind; ``None`` drops the row, a category that is not listed is ``OTHER``."""

CALLS_OF_VENDOR = re.compile(r"[a-z0-9]+_(runtime|driver)", re.IGNORECASE)
"""What Kineto's descendants call the calls of a vendor's runtime, as it calls CUDA's: ``maca_runtime``."""

LAUNCH_ARROWS = ("ac2g", "async_cpu_to_gpu", "async_gpu", "async")
"""Categories of the arrows from calls to the GPU activities that they launch, from new to old."""

FIRST_NODE_ARROW = 1 << 40
"""Arrows of that category with an id from here on join nodes of a CUDA graph (torch/profiler/_cuspy/trace.py)."""

STEP_NAME = re.compile(r"ProfilerStep#(\d{1,18})")
"""A profiler step; before 2022 it was written as an operator, so this name makes an annotation of it."""

DATA_LOADER = "DataLoader"
DATA_LOADING = (r"enumerate\(DataLoader\)", r"DataLoader.*\.__next__", r"_(Multi|Single)Process(ing)?DataLoaderIter")
"""Operators and annotations of torch.utils.data whose time is data loading: the word is in all of their names."""

IN_PROCESS_LOADING = re.compile(r".*_SingleProcess(ing)?DataLoaderIter")
"""The loader that works in the training process itself: ``num_workers`` is 0."""

LIKE_CUDA = r"(cuda|hip|cu|musa|mu|mc)"
"""Runtimes whose calls are named as NVIDIA's: AMD's HIP, MUSA of Moore Threads, MACA of MetaX."""

_DEVICE_WAITS = (
    rf"{LIKE_CUDA}(DeviceSynchronize|CtxSynchronize)",
    r"synchronizeDevice",  # MTIA
    r"synDeviceSynchronize",  # Habana's SynapseAI
    r"(AscendCL@)?aclrtSynchronizeDevice",  # Huawei's Ascend, also with a timeout
    r"cnrtSyncDevice|cnCtxSync",  # Cambricon
)
_STREAM_WAITS = (
    rf"{LIKE_CUDA}StreamSynchronize",
    r"synchronizeStream",
    r"synStreamSynchronize",
    r"(AscendCL@)?aclrtSynchronizeStream",
    r"cnrtQueueSync|cnQueueSync",
    r"zeCommand(Queue|List)(Host)?Synchronize|(ur|pi)QueueFinish",  # Intel's Level Zero, Unified Runtime and SYCL
)
_EVENT_WAITS = (
    rf"{LIKE_CUDA}EventSynchronize",
    r"synchronizeEvent",
    r"synEventSynchronize",
    r"(AscendCL@)?aclrtSynchronizeEvent",
    r"cnrt(WaitNotifier|NotifierWait)|cnWaitNotifier",
    r"ze(Event|Fence)HostSynchronize|urEventWait(?!WithBarrier)|piEventsWait(?!WithBarrier)",
)
_SYNCHRONOUS_COPIES = (rf"{LIKE_CUDA}Memcpy(?!.*Async)", r"(AscendCL@)?aclrtMemcpy(?!.*Async)")
WAITING_CALLS = {
    "waits for a device": _DEVICE_WAITS,
    "waits for a stream": _STREAM_WAITS,
    "waits for an event": _EVENT_WAITS,
    "copies, and may wait": _SYNCHRONOUS_COPIES,
}
"""The calls of each vendor's runtime that wait, as of 2026; sources: their header files and API manuals."""


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns))


BLOCKING_CALL = _any_of(*_DEVICE_WAITS, *_STREAM_WAITS, *_EVENT_WAITS, *_SYNCHRONOUS_COPIES)
"""Calls that return only when GPU work is done: their inside is a wait, not work. Matched from the name's start."""

DEVICE_SYNC_CALL = _any_of(*_DEVICE_WAITS)
"""Calls that wait for every stream of a device."""

STREAM_SYNC_CALL = _any_of(*_STREAM_WAITS)
"""Calls that wait for one stream."""

ENQUEUEING_CALL = re.compile(
    rf"{LIKE_CUDA}(\w*Launch|Mem(cpy|set))|urEnqueue|zeCommandListAppend"
    r"|(AscendCL@)?aclrt(Launch|Memcpy|Memset)"
)
"""Calls that give a GPU something to do: launches, copies, sets."""

WORK_CALL = re.compile(
    rf"{LIKE_CUDA}(?!\w*HostFunc)(\w*Launch|Memcpy)|urEnqueue(Kernel|USM|Mem)|zeCommandListAppend(Launch|Memory)"
    r"|(AscendCL@)?aclrt(Launch|Memcpy)"
)
"""Those of them that leave a row of the GPU wherever all rows are recorded: sets of memory may leave none."""

GPU_OPERATOR = re.compile(r"aten::_?(cudnn|miopen)|nccl:")
"""Operators that only a GPU runs."""

EVENT_SYNC_CALL = _any_of(*_EVENT_WAITS)
"""Calls that wait for an event."""

EVENT_RECORD_CALL = re.compile(rf"{LIKE_CUDA}EventRecord|recordEvent|synEventRecord|(AscendCL@)?aclrtRecordEvent")
"""Calls that record an event on a stream."""

EVENT_MARK_CALL = re.compile(rf"{LIKE_CUDA}(EventRecord|StreamWaitEvent)")
"""Calls that may leave a mark among the kernels, which is no work: of an event, or a barrier where a stream waits.

MTIA's have names of their own.
"""

STREAM_WAIT_CALL = re.compile(rf"{LIKE_CUDA}StreamWaitEvent|synStreamWaitEvent|(AscendCL@)?aclrtStreamWaitEvent")
"""Calls that let a stream wait for an event."""

STREAM_HOLDING_CALL = re.compile(rf"{LIKE_CUDA}(LaunchHostFunc|StreamAddCallback|StreamWaitValue|StreamBatchMemOp)")
"""Calls that enqueue what holds a stream and leaves no row on it: a function of the host, a wait on a value in memory.

Source: CUDA's and HIP's manuals, stream management and stream memory operations; ``…WriteValue`` holds nothing.
"""

KNOWN_RUNTIME_CALL = re.compile(
    r"cuda|cu[A-Z]|hip|musa|mu[A-Z]|mc[A-Z]|enqueueCommand|runFunction|synchronize|recordEvent|zeCommand|urEnqueue|INVALID"
)
"""Calls of runtimes whose waiting calls are all in the tables above: of these none is guessed to wait."""

GRAPH_LAUNCH_CALL = re.compile(rf"{LIKE_CUDA}GraphLaunch")
"""Calls that launch a captured graph."""

AMD_CALL = re.compile(r"hip")
"""Calls of AMD's runtime."""

KERNEL_LAUNCH_CALL = re.compile(r"(cuda|cu)Launch(Cooperative)?Kernel(ExC?)?(_ptsz)?")
"""Calls that launch one kernel on NVIDIA: with counters recorded there are no kernel rows to identify them."""

KERNEL_OF_CALL = ("kernel", "Kernel")
"""The argument in which AMD's calls name the kernel that they launch (2,238 of 2,238 in a public trace are right).

Older versions of ROCm spell it with a capital letter.
"""

QUEUE_FULL_OVERHEAD = re.compile("Command Buffer Full")
"""CUPTI's row of a launch that waits for room in its queue, inside the call (libkineto's cupti_strings.cpp)."""

PROFILER_OVERHEAD = re.compile(
    r"(Activity )?Buffer (Request|Flush)|Instrumentation|Resource$|UVM Activity Init|(?i:cupti|.*profil(er|ing))"
)
"""Rows of time that a call took because of the recorder: of CUPTI, and of Nsight's table of its own overhead.

``Unrecognized`` may be the program's own: what CUPTI says since, such as lazy loading, is unknown to an older Kineto.
"""

PROFILER_RANGE = "cuda_profiler_range"
"""The category (lower case) of CUPTI's ranges, whose arguments are hardware counters."""

COUNTER_SAMPLES = "hardware_counters"
"""The category of counter rows with samples of CUPTI's PM sampling, one row per metric (pytorch/kineto PR 1530)."""

_EVENT_QUERIES = (
    rf"{LIKE_CUDA}EventQuery",
    r"synEventQuery",
    r"(AscendCL@)?aclrtQueryEvent",
    r"cnrtQueryNotifier",
    r"ze(Event|Fence)QueryStatus",
)
_STREAM_QUERIES = (
    rf"{LIKE_CUDA}StreamQuery",
    r"synStreamQuery",
    r"(AscendCL@)?aclrtStreamQuery",
    r"cnrtQueueQuery",
)
NON_BLOCKING_QUERY = _any_of(*_EVENT_QUERIES, *_STREAM_QUERIES)
"""Calls that ask and return at once, although the profiler writes a synchronisation record for them too."""

EVENT_QUERY_CALL = _any_of(*_EVENT_QUERIES)
"""Calls that ask whether an event has happened."""

STREAM_QUERY_CALL = _any_of(*_STREAM_QUERIES)
"""Calls that ask whether a stream is done."""

POLLING_CALL = _any_of(
    NON_BLOCKING_QUERY.pattern,
    # What a loop of queries makes besides: PyTorch clears the error "not ready", and asks beside a capture.
    rf"{LIKE_CUDA}((Get|PeekAt)LastError|ThreadExchangeStreamCaptureMode)",
)
"""Calls of a loop that asks until something is done."""

COPY_KIND = re.compile(r"Memset|Memcpy [A-Z]to[A-Z]\b")
"""Which way a copy goes: ``Memcpy HtoD``, ``DtoH``, ``DtoD``, ``PtoP``; followed by the kinds of memory."""

_COPIES, _HOST, _DEVICE = r"(?:mem(?:ory)?_?)?c(?:opy|py)[ _]?", r"(?:host|[hm])", r"(?:device|d)"


def _copies(source: str, target: str, then: str = "") -> re.Pattern[str]:
    """Match copies by the words of their direction: ``DtoH``, ``D2M``, ``DeviceToHost`` and ``DEVICE_TO_HOST``."""
    return re.compile(rf"{_COPIES}{source}_?(?:to|2)_?{target}(?![a-z]){then}", re.IGNORECASE)


COPY_KIND_OF_VENDOR = {
    "Memcpy HtoD": _copies(_HOST, _DEVICE), "Memcpy DtoH": _copies(_DEVICE, _HOST),
    "Memcpy DtoD": _copies(_DEVICE, _DEVICE), "Memcpy HtoH": _copies(_HOST, _HOST),
    "Memset": re.compile("FillBuffer|__amd_rocclr_fill"),
}  # fmt: skip
"""The same of AMD's packets, which it spells in two ways, and of Intel's copies; ``M`` is the system's memory."""

HOST_COPY = re.compile(
    rf"^({_COPIES}({_HOST}_?(to|2)|[a-z]+_?(to|2)_?{_HOST}(?![a-z]))|.*\b(Pinned|Pageable|Host)\b)", re.IGNORECASE
)
"""Copies of which one side at least is the host's memory, by their direction or by the kinds of memory."""

COPY_CALL = re.compile(rf"{LIKE_CUDA}Memcpy")
"""Calls that copy memory, blocking or not."""

SET_CALL = re.compile(rf"{LIKE_CUDA}Memset")
"""Calls that fill memory."""

COPY_KERNEL = re.compile(r"(__amd_rocclr_(batchMem)?[cC]opy\w*|Copy(Host|Device)To(Host|Device))$")
"""What AMD's runtime names the kernels and packets of its copies, where these are recorded as kernels."""

SET_KERNEL = re.compile(r"(__amd_rocclr_fill\w*|FillBuffer)$")
"""The same of memory that is set."""

MARKER_KERNEL = re.compile(r"(Marker|Barrier)$")
"""The packets with which AMD's runtime marks events: no work."""

SYNCHRONOUS_COPY_CALL = _any_of(*_SYNCHRONOUS_COPIES)
"""Copy calls without ``Async`` (``cudaMemcpy``, ``hipMemcpyWithStream``): they may block in any direction."""

COPY_TO_PAGEABLE = _copies(_DEVICE, _HOST, r"(?! \(Device -> Pinned)")
"""Copies from a device to pageable host memory, or to a host kind that is not said: AMD writes ``Host`` for both."""

TO_PAGEABLE_MEMORY = _copies(_DEVICE, _HOST, r" \(Device -> Pageable")
"""Copies whose host memory is said to be pageable: AMD's ``Host`` may be pinned."""

COPY_BLOCKING_SYNCHRONOUS_CALL = re.compile(
    rf"{_copies(_DEVICE, _HOST).pattern}|{_copies(_HOST, _DEVICE).pattern}(?: \((?:Pinned|Host)|$)"
    r"|__amd_rocclr_\w*copy",
    re.IGNORECASE,
)
"""Copies for which a call without ``Async`` waits: to the host, and from pinned (or unnamed) host memory."""

STREAM_SYNC_RECORD = re.compile(r"Stream Sync$")
"""Kineto's record of a synchronized stream."""

DEVICE_SYNC_RECORD = re.compile(r"Context Sync$")
"""Kineto's record of a synchronized device."""

LOCK_TAKING_CALL = re.compile(
    r"(cuda|hip)(Launch|Ext(Module)?Launch|ModuleLaunch|Graph(Launch|Instantiate)|Malloc|Free|Host|Mem(cpy|set).*Async)"
    r"|cu(Launch|Mem(Alloc|Free|cpy.*Async|set.*Async))"
)
"""Calls that take the driver's lock: launches, allocations, asynchronous copies and sets."""

WARM_UP = re.compile(
    r"(cuda|hip|cu)(Mem|Host)?(Malloc|Alloc|ModuleLoad|LibraryLoad|ModuleGetFunction|Init)|torch/_(dynamo|inductor)/"
)
"""What programs do once: memory from the driver, code that is loaded or compiled. Matched from the name's start."""

CODE_LOADING_CALL = re.compile(r"(cuda|hip|cu)(Module|Library)(Load|Get)|hiprtc|nvrtc")
"""Calls that load code, and look kernels up in it or compile it."""

COMPILED_CODE = re.compile(r"CompiledFxGraph|CompiledFunction|Torch-Compiled Region|^triton_(poi|per|red)_")
"""What runs where torch.compile has compiled a program: its graphs, regions and kernels."""

AUTOGRAD_OPERATOR = re.compile(r"autograd::engine::|.*Backward\d*$")
"""Operators of PyTorch's autograd engine and of its nodes."""

COLLECTIVE_OPERATOR = re.compile(r"_?c10d(_functional)?::|record_param_comms$")
"""Operators with which PyTorch starts collectives and waits for them."""

MOVING_COLLECTIVE = re.compile(r"gather|scatter|all_?to_?all|broadcast|reduce|send|recv")
"""What the ``Collective name`` of one that moves data holds; ``barrier``, ``init`` and ``wait`` move none."""

GLOO_COLLECTIVE = re.compile("gloo:")
"""How the annotations of Gloo's collectives begin."""


@dataclass(frozen=True)
class ProcessGroupCall:
    """What a call of a process group leaves: the rows that do its work, and where it names its root or peer."""

    rows: tuple[str, ...]
    other: int | None = None


_REDUCE_SCATTER = ("gloo:reduce_scatter", "gloo:all_reduce")  # Gloo may have none of its own

PROCESS_GROUP_CALL: dict[str, ProcessGroupCall] = {
    "c10d::allreduce_": ProcessGroupCall(("gloo:all_reduce",)),
    "c10d::allreduce_coalesced_": ProcessGroupCall(("gloo:all_reduce",)),
    "c10d::_allgather_base_": ProcessGroupCall(("gloo:all_gather",)),
    "c10d::allgather_": ProcessGroupCall(("gloo:all_gather",)),
    "c10d::allgather_coalesced_": ProcessGroupCall(("gloo:all_gather",)),
    "c10d::allgather_into_tensor_coalesced_": ProcessGroupCall(("gloo:all_gather",)),
    "c10d::_reduce_scatter_base_": ProcessGroupCall(_REDUCE_SCATTER),
    "c10d::reduce_scatter_": ProcessGroupCall(_REDUCE_SCATTER),
    "c10d::reduce_scatter_tensor_coalesced_": ProcessGroupCall(_REDUCE_SCATTER),
    "c10d::alltoall_base_": ProcessGroupCall(("gloo:all_to_all",)),
    "c10d::alltoall_": ProcessGroupCall(("gloo:all_to_all",)),
    "c10d::barrier": ProcessGroupCall(("gloo:barrier",)),
    "c10d::broadcast_": ProcessGroupCall(("gloo:broadcast",), other=2),
    "c10d::reduce_": ProcessGroupCall(("gloo:reduce",), other=3),
    "c10d::gather_": ProcessGroupCall(("gloo:gather",), other=3),
    "c10d::scatter_": ProcessGroupCall(("gloo:scatter",), other=3),
    "c10d::send": ProcessGroupCall(("gloo:send",), other=2),
    "c10d::recv_": ProcessGroupCall(("gloo:recv",), other=2),
    "c10d::recv_any_source_": ProcessGroupCall(("gloo:recv",)),
}
"""Operators of PyTorch's process groups: the annotations of their work, and which of ``Concrete Inputs`` is the root
or the peer (a place in the group).

Source: the schemas in torch/csrc/distributed/c10d/Ops.cpp and the annotations in ProcessGroupGloo.cpp."""

MESSAGE_ROWS = ("gloo:send", "gloo:recv")
"""Gloo's annotations that stand on the calling thread: a message goes from one rank to another."""

COMMUNICATION_NAMES: tuple[tuple[str, str], ...] = (
    ("(?<!sy)[nrh]ccl", "NCCL, RCCL and HCCL (Habana, Huawei)"),
    ("(?<![a-z])([lmpx]ccl|cncl)|oneccl|hcom_|flagcx", "libraries of Huawei, Moore Threads, Intel, Cambricon, BAAI"),
    ("msccl", "Microsoft's MSCCL and MSCCL++"),
    ("deep_ep|hybrid_ep|internode|intranode", "DeepEP and its descendants"),
    ("(?<![a-z])ep_?(dispatch|combine)|(?<![a-z])mori(?![a-z])", "AMD's MORI and the dispatch of experts"),
    ("nvshmem|rocshmem|symm_mem|symmetric_memory", "symmetric memory of NVIDIA, AMD and PyTorch"),
    ("multimem_|nvls", "NVLink's multicast (PyTorch, vLLM, NCCL)"),
    ("cross_device_(reduce|store|load)|quick_?reduce", "custom all-reduce of vLLM, SGLang and aiter"),
    ("userbuffers", "TransformerEngine's overlap of tensor parallelism"),
    ("moe_?a2a|mnnvl", "TensorRT-LLM's and FlashInfer's exchange between experts"),
    ("pplx", "Perplexity's exchange between experts"),
    (
        "(?<![a-z])(ag_?gemm|gemm_?(rs|ar)(?![a-z0-9]))",
        "matrix products fused with a collective (FLUX, Triton-distributed)",
    ),
    (
        "(?<!warp)(?<!warp_)(?<!block)(?<!block_)all_?reduce|all_?gather|reduce_?scatter|all_?to_?all",
        "any kernel that names a collective, except reductions over a warp or a block",
    ),
)
"""What the names of communication kernels hold, and whose they are; as of November 2026."""
NAMES_AS_OF = "2026-11"

COMMUNICATION_KERNEL = re.compile(
    r"^(?!triton_(poi|per|red|tem|for|spl|unk)_)"  # torch.compile names compute kernels after the operators they fuse
    f".*({'|'.join(pattern for pattern, _ in COMMUNICATION_NAMES)})",
    re.IGNORECASE | re.ASCII,
)
"""Kernels that talk to other ranks where no ``Collective name`` is recorded, by their names."""

EAGER_KERNEL = re.compile(
    r".*at::native::.*(?<!index_)((elementwise|reduce)_kernel|(?i:softmax|layer_?norm|CatArray|batch_norm))"
    r"|.*kernelPointwiseApply"
)
"""Kernels of PyTorch's own operators element by element, of its reductions, normalizations and concatenations: what
compilers fuse with its neighbors. Kernels over lists of tensors (``multi_tensor_apply``) do not count."""

DEVICE_COPY = re.compile(r"dma_request$")
"""Rows of MTIA's device that move memory; they stand among its kernels."""

DEVICE_WAIT = re.compile(r"event_(wait|record)$")
"""Rows of MTIA's device in which a stream waits for an event or marks one: it works on nothing."""

MODULE_FRAME = re.compile(r"nn\.Module: ")
"""Python frames of a module's call: ``nn.Module: Linear_3``, the class and which of its objects."""

ALLOCATION_CALL = re.compile(
    r"(cuda|hip|cu)(Mem|Host)?(Malloc|Alloc|Free|Register)(?!.*Async)|cuMem(Create|Map|Unmap|SetAccess|Release|AddressReserve)"
)
"""Calls that take memory from the driver or give it back: a caching allocator makes them while it warms up."""

SEGMENT_CALL = re.compile(r"cuMem(Create|Map|Unmap|SetAccess|Release|AddressReserve)")
"""Calls with which expandable segments of PyTorch's allocator grow and shrink."""

SHARING_CALL = re.compile(
    r"(cuda|hip|cu)Ipc(Open|Get|Close)|(hip|cu)Mem(Export|Import|PoolExport|PoolImport)|(cuda|hip)MemPool(Export|Import)"
    r"|(hip|cu)Multicast|(cuda|hip|cu)ImportExternal"
)
"""Calls with which processes share memory of GPUs: handles are exported, imported and opened; multicast objects."""

IMPLICIT_WAIT_CALL = _any_of(ALLOCATION_CALL.pattern, rf"{LIKE_CUDA}(Free|(Module|Library)Unload)(?!.*Async)")
"""Calls that may wait for all work of a device, and of which no recorder writes that they did.

HIP's manual: ``hipFree`` synchronizes implicitly. An allocation waits where the driver has to give memory back first.
"""

RELEASE_CALL = re.compile(r"(cuda|hip|cu)(Mem|Host)?Free(?!.*Async)|cuMem(Unmap|Release)")
"""Calls that give memory back to the driver."""

PAGEABLE_UPLOAD = _copies(_HOST, _DEVICE, r" \(Pageable")
"""Copies to a device from host memory that is not pinned."""

UPLOAD = _copies(_HOST, _DEVICE)
"""Copies to a device from any host memory; AMD writes ``Host`` for memory that is pinned and that is not."""

HOST_ALLOCATION_CALL = re.compile(r"(cuda|hip|cu)(Host(Malloc|Alloc|Free|Register)|(Mem)?(Malloc|Alloc|Free)Host)")
"""Calls that pin memory of the host, and release it."""

COPY_TO_HOST = _copies(_DEVICE, _HOST)
"""Copies from a device to the host."""

VALUE_READING_OPERATOR = re.compile(
    r"aten::(item|_local_scalar_dense|is_nonzero|nonzero(_numpy)?|_?unique\w*|masked_select|equal|allclose|bincount)$"
)
"""Operators whose result the host needs before it can go on: a number, or how many elements there are."""

COMPILATION = re.compile(
    r".*\(dynamo_timed\)$|entire_frame_compile$|torch/_dynamo/convert_frame\.py\(\d+\): _?compile"
    r"|torch/_inductor/compile_fx\.py\(\d+\): (compile_fx_inner|fx_codegen_and_compile)"
    r"|torch/_inductor/runtime/triton_heuristics\.py\(\d+\): (autotune_to_one|benchmark_all|precompile)"
    r"|triton/compiler/compiler\.py\(\d+\): compile$"
)
"""Annotations (``compile_fx_inner (dynamo_timed)``) and frames while PyTorch or Triton compiles, tunes kernels or
captures a graph; what runs the result later has other names."""

CAPTURE_CALL = re.compile(r"(cuda|hip|cu)StreamBeginCapture")
"""Calls from which on a stream's work is captured in a graph, instead of run."""

CAPTURE_END_CALL = re.compile(r"(cuda|hip|cu)StreamEndCapture")
"""Calls that end a capture."""

CAPTURED_CALL = re.compile(r"(cuda|hip|cu(?!da))(?!Graph|\w*HostFunc)\w*(Launch|Memcpy|Memset)")
"""Calls that, during a capture, each become a node of the graph with a GPU activity of its own."""

FILL_KERNEL = re.compile(r"fillBuffer")
"""Kernels with which AMD's runtime sets memory."""

WAITING_OS_CALL = re.compile(
    r"not running|pthread_(cond_\w*wait|mutex_\w*lock|rwlock_\w*lock|join|\w*timedjoin_np|barrier_wait|spin_lock)"
    r"|sem_\w*wait|sem(timed)?op$|futex|p?poll$|p?select$|epoll_p?wait|io_getevents|(clock_)?nanosleep|u?sleep$"
    r"|wait(pid|id|3|4)?$|sig(timed)?wait(info)?$|sigsuspend|pause$|accept4?$|connect$|recv(from|m?msg)?$|read$|flock$"
    r"|fsync$|mq_\w*receive|msgrcv$|dlopen$"
)
"""Calls of the operating system in which a thread waits, and times in which it did not run; source: the functions that
Nsight Systems traces with ``--trace=osrt``."""

GARBAGE_COLLECTION = re.compile(r"(Python GC|<built-in function collect>|gc[._]collect|garbage[ _]collection)$")
"""Python frames and annotations while Python collects garbage: ``Python GC`` is written with
``record_python_gc_info`` (PyTorch 2.9), the second by the stack tracer for a call of ``gc.collect()``."""

COLLECT_CALL = re.compile(r"<built-in function collect>|gc[._]collect")
"""Those of them that the program asked for itself."""

OWN_FRAME = re.compile(r"(?!torch/|<)[^<]*\.py\(\d+\): ")
"""Python frames of a program's own files and of libraries, not of PyTorch: ``train.py(12): step``."""

WRAPPER_FRAME = re.compile(
    r"([^<]*/)?(_?contextlib|functools|profiler)\.py\(\d+\): |<built-in \w+ _?record_function"
    r"|[^<]*\.py\(\d+\): (decorate_context|__(enter|exit)__|_(wrapped_)?call_impl|_fn|(\w+_)?wrapp(er|ed)(_\w+)?)$"
)
"""Python frames that only call what they wrap: decorators, context managers, the profiler's own, PyTorch's calls of
modules. Their time is that of what they are around, and their name says nothing of it."""

MODEL_FRAME = re.compile(r"nn\.Module: |[^<]*\.py\(\d+\): (forward|backward|step)$")
"""Python frames of what a loop is there for, by name: a model, its passes, a step."""

OPTIMIZER_STEP = re.compile(r"Optimizer\.step#")
"""Annotations that PyTorch puts around each step of an optimizer: where nothing else does, they divide iterations."""


ELEMENT_BYTES = {
    "bool": 1, "byte": 1, "char": 1, "unsigned char": 1, "signed char": 1, "half": 2, "bfloat16": 2, "short": 2,
    "short int": 2, "int": 4, "unsigned int": 4, "float": 4, "double": 8, "long": 8, "long int": 8,
    "complex<float>": 8, "complex<double>": 16, "complexfloat": 8, "complexdouble": 16, "uint16": 2, "uint32": 4,
    "uint64": 8, "float4_e2m1fn_x2": 1,
}  # fmt: skip
"""Bytes of an element by the names that PyTorch writes, in lower case and without ``c10::``; ``float8_…`` is 1."""


def element_bytes(dtype: object) -> int:
    """Return the bytes of an element of a type, as PyTorch names it; 0 where the name is not known."""
    name = str(dtype).lower().removeprefix("c10::")
    return 1 if name.startswith("float8") else ELEMENT_BYTES.get(name, 0)
